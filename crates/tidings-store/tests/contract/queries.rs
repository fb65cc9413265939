//! Requests of an archive: the newest by time, object, namespace, reason, type; counts by hour and
//! reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::support::{Fixture, START, about, show};
use tidings_store::{
    Count, CountsRequest, HOUR_MILLIS, Index, NewRecord, NewestRequest, ObjectSelector, Place,
    Revision, UnixMillis,
};

const REASONS: [&str; 4] = ["Killing", "Pulled", "BackOff", ""];

/// The records: index values and revision by key.
#[derive(Default)]
struct Model(BTreeMap<String, (Index, Revision)>);

impl Model {
    /// Forty records of two namespaces, then some that are seen again for another reason, and some
    /// that are deleted.
    async fn of(fixture: &Fixture) -> Self {
        let mut model = Self::default();
        for number in 0..40 {
            model.write(fixture, number, number).await;
        }
        for number in [3, 4, 17, 22] {
            model.write(fixture, number, number + 31).await;
        }
        for number in [5, 18, 33] {
            let key = key(number);
            fixture.delete(&key).await;
            model.0.remove(&key);
        }
        model
    }

    async fn write(&mut self, fixture: &Fixture, number: i64, as_of: i64) {
        let index = index(as_of);
        let key = key(number);
        let record = NewRecord::new(number.to_string()).index(index.clone());
        let written = match self.0.get(&key) {
            Some((_, at)) => fixture.store.update(key.clone().into(), record, *at).await,
            None => fixture.store.create(key.clone().into(), record).await,
        };
        self.0.insert(key, (index, written.unwrap()));
    }

    /// The expected result of a request, from all records.
    fn newest(&self, request: &NewestRequest) -> Vec<String> {
        let prefix = str::from_utf8(&request.prefix).unwrap();
        let is = |wanted: &Option<String>, found: &str| wanted.iter().all(|it| it == found);
        let mut found: Vec<_> = self
            .0
            .iter()
            .filter(|(key, (index, _))| {
                let at = index.last_seen;
                key.starts_with(prefix)
                    && request.object.iter().all(|object| object.matches(index))
                    && is(&request.reason, &index.reason)
                    && is(&request.event_type, &index.event_type)
                    && request.since.is_none_or(|since| at >= since)
                    && request.until.is_none_or(|until| at < until)
            })
            .collect();
        found.sort_by_key(|(_, (index, revision))| Reverse((index.last_seen, *revision)));
        found.into_iter().map(|(key, _)| key.clone()).collect()
    }

    fn counts(&self, in_range: impl Fn(i64) -> bool) -> Vec<Count> {
        let mut counts = BTreeMap::new();
        for (index, _) in self.0.values() {
            let hour = index.last_seen.0.div_euclid(HOUR_MILLIS) * HOUR_MILLIS;
            if in_range(hour) {
                *counts.entry((Reverse(hour), &index.reason)).or_default() += 1;
            }
        }
        let counts = counts.into_iter();
        counts
            .map(|((hour, reason), records)| Count {
                hour: UnixMillis(hour.0),
                reason: reason.clone(),
                records,
            })
            .collect()
    }
}

fn key(number: i64) -> String {
    let namespace = ["shop", "bank", "shop"][number as usize % 3];
    format!("{namespace}/{number}")
}

/// A record last seen about ten minutes after the previous one, sometimes two at once.
fn index(number: i64) -> Index {
    let pods = ["web", "web-1", "db"];
    Index {
        reason: REASONS[number as usize % 4].into(),
        event_type: ["Normal", "Normal", "Warning", "", "Odd"][number as usize % 5].into(),
        ..about(pods[number as usize % 3], (number - number % 7 / 6) * 600)
    }
}

/// All pages of a request.
async fn pages(fixture: &Fixture, mut request: NewestRequest) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = fixture.store.newest(request.clone()).await.unwrap();
        assert!(page.records.len() <= request.limit);
        let records = page.records.iter();
        found.extend(records.map(|record| String::from_utf8(record.key.to_vec()).unwrap()));
        assert_eq!(page.place.is_some(), page.more);
        let Some(place) = page.place else {
            break;
        };
        assert!(request.after.is_none_or(|after| place < after));
        request.after = Some(place);
    }
    found
}

pub(crate) async fn newest_of_a_time_and_more(mut fixture: Fixture) {
    let mut model = Model::of(&fixture).await;
    let text = |text: &str| Some(text.to_owned());
    let named = |name: &str, kind: Option<&str>| ObjectSelector::Name {
        name: name.into(),
        kind: kind.map(Into::into),
        namespace: None,
    };
    let mut selections = vec![NewestRequest::default()];
    for reason in ["Killing", "Pulled", "", "Unheard"] {
        let reason = text(reason);
        selections.push(NewestRequest {
            reason,
            ..NewestRequest::default()
        });
    }
    for event_type in ["Normal", "Warning", "Odd", "", "Unheard"] {
        let event_type = text(event_type);
        selections.push(NewestRequest {
            event_type,
            ..NewestRequest::default()
        });
    }
    for object in [
        ObjectSelector::Uid("uid-of-web".into()),
        ObjectSelector::Uid(String::new()),
        named("web", None),
        named("web", Some("Node")),
        named("db", Some("Pod")),
    ] {
        let object = Some(object);
        selections.push(NewestRequest {
            object,
            ..NewestRequest::default()
        });
    }
    selections.push(NewestRequest {
        object: Some(named("web", None)),
        reason: text("Pulled"),
        event_type: text("Warning"),
        ..NewestRequest::default()
    });
    for round in 0..3 {
        for selection in &selections {
            for prefix in ["", "shop/", "bank/", "sh"] {
                for (since, until) in [
                    (None, None),
                    (Some(7), Some(31)),
                    (Some(50), None),
                    (None, Some(12)),
                ] {
                    let moment = |at: i64| UnixMillis(START + at * 600_000);
                    let request = NewestRequest {
                        prefix: prefix.into(),
                        since: since.map(moment),
                        until: until.map(moment),
                        limit: 4,
                        ..selection.clone()
                    };
                    let expected = model.newest(&request);
                    assert_eq!(
                        pages(&fixture, request.clone()).await,
                        expected,
                        "{request:?}"
                    );
                }
            }
        }
        if round == 0 {
            fixture.restart().await;
        } else {
            model.write(&fixture, 60 + round, 2).await;
        }
    }
}

pub(crate) async fn pages_of_the_newest_go_on_beside_writers(fixture: Fixture) {
    let mut model = Model::of(&fixture).await;
    let mut request = NewestRequest {
        limit: 10,
        ..NewestRequest::default()
    };
    let expected = model.newest(&request);
    let first = fixture.store.newest(request.clone()).await.unwrap();
    let shown: Vec<_> = first.records.iter().map(show).collect();
    assert!(shown[0].starts_with(&expected[0]));
    // A returned record is seen again, and so is another one: it is before the place then.
    let index_of = |key: &str| key.rsplit('/').next().unwrap().parse::<i64>().unwrap();
    let (told, moved) = (index_of(&expected[2]), index_of(&expected[20]));
    model.write(&fixture, told, 90).await;
    model.write(&fixture, moved, 91).await;
    request.after = first.place;
    let rest: Vec<_> = expected[10..]
        .iter()
        .filter(|key| **key != expected[20])
        .cloned()
        .collect();
    assert_eq!(pages(&fixture, request.clone()).await, rest);
    // A place is any moment and revision.
    request.after = Some(Place {
        last_seen: UnixMillis(START),
        revision: 0,
    });
    assert_eq!(pages(&fixture, request.clone()).await, [""; 0]);
    request.after = Some(Place {
        last_seen: UnixMillis(i64::MAX),
        revision: u64::MAX >> 1,
    });
    assert_eq!(
        pages(&fixture, request).await,
        model.newest(&NewestRequest::default())
    );
}

/// All pages of a request.
async fn counts(fixture: &Fixture, mut request: CountsRequest) -> Vec<Count> {
    let mut found = Vec::new();
    loop {
        let page = fixture.store.counts(request.clone()).await.unwrap();
        assert!(page.counts.len() <= request.limit);
        assert_eq!(page.revision, fixture.store.revision());
        found.extend(page.counts);
        let Some(last) = found.last().filter(|_| page.more) else {
            return found;
        };
        request.after = Some((last.hour, last.reason.clone()));
    }
}

pub(crate) async fn counts_by_hour_and_reason(mut fixture: Fixture) {
    let mut model = Model::of(&fixture).await;
    model.write(&fixture, 70, -400).await;
    let all = CountsRequest {
        limit: 7,
        ..CountsRequest::default()
    };
    for round in 0..4 {
        assert_eq!(counts(&fixture, all.clone()).await, model.counts(|_| true));
        let begins = (START / HOUR_MILLIS + 2) * HOUR_MILLIS;
        for (since, until) in [
            (begins, begins + HOUR_MILLIS),
            (begins - 1, begins + 1),
            (begins + 5, begins - 5),
        ] {
            let request = CountsRequest {
                since: Some(UnixMillis(since)),
                until: Some(UnixMillis(until)),
                ..all.clone()
            };
            let expected = model.counts(|hour| hour + HOUR_MILLIS > since && hour < until);
            assert_eq!(counts(&fixture, request).await, expected, "{since} {until}");
        }
        match round {
            0 => fixture.restart().await,
            1 => {
                for number in 20..30 {
                    model.write(&fixture, number, number + 5).await;
                }
            }
            _ => {
                let key = key(round + 5);
                fixture.delete(&key).await;
                model.0.remove(&key);
                fixture.restart().await;
            }
        }
    }
    let none = CountsRequest {
        limit: 0,
        ..CountsRequest::default()
    };
    let page = fixture.store.counts(none).await.unwrap();
    assert_eq!((page.counts.len(), page.more), (0, true));
}

pub(crate) async fn what_is_over_is_not_counted_for_ever(mut fixture: Fixture) {
    for (number, life) in [(0, 60), (1, 60), (2, 600_000)] {
        let record = NewRecord::new("")
            .index(index(4 * number))
            .expires_at(fixture.after(life));
        fixture
            .store
            .create(key(number).into(), record)
            .await
            .unwrap();
    }
    let total = async |fixture: &Fixture| {
        let request = CountsRequest {
            limit: 99,
            ..CountsRequest::default()
        };
        let counts = fixture.store.counts(request).await.unwrap().counts;
        let of_reason = counts.iter().filter(|count| count.reason == "Killing");
        of_reason.map(|count| count.records).sum::<u64>()
    };
    assert_eq!(total(&fixture).await, 3);
    fixture.clock.advance(61_000);
    fixture.store.expire().await.unwrap();
    assert!((1..=3).contains(&total(&fixture).await));
    // A record in the place of an expired one does not restore that one.
    fixture.create(&key(0), "").await;
    assert!((1..=3).contains(&total(&fixture).await));
    fixture.clock.advance(1_000_000);
    fixture.store.expire().await.unwrap();
    fixture
        .store
        .compact(fixture.store.revision())
        .await
        .unwrap();
    fixture.restart().await;
    assert_eq!(total(&fixture).await, 1);
}
