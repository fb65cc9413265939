//! Repeated observations change nothing, and what else the keeper promises.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_history::Cause;
use tidings_store::clock::{Clock, ManualClock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, NewRecord, Store, UnixMillis, Write, WriteError};

use super::end_detection;
use super::keeper::{KeepError, Keeper, Observation, Unreadable, With};
use crate::keep::coverage::{Position, Unswept};
use crate::keep::keys;
use crate::keep::report;
use crate::version::record::Gone;

fn observation(version: u64, is_gone: bool) -> Observation {
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some("web.1".into()),
            namespace: Some("shop".into()),
            uid: Some("uid-1".into()),
            ..ObjectMeta::default()
        }),
        count: i32::try_from(version).ok(),
        ..Event::default()
    };
    Observation {
        event,
        number: version,
        is_gone,
    }
}

/// A list takes a while, and what is known after it is as old as its request.
#[test]
fn a_cluster_is_not_covered_for_less_than_no_time() {
    let position = |complete_until| Position {
        since: 5000,
        complete_until,
        ..Position::default()
    };
    for (complete_until, expected) in [(3000, 5000), (7000, 7000)] {
        let followed = position(complete_until).followed("");
        assert_eq!(followed.complete_until, UnixMillis(expected));
    }
}

#[tokio::test]
async fn versions_that_are_observed_again_are_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(SystemClock), keep_for, false);
    let mut position = Position::default();
    let observed = [1, 2, 3].map(|version| observation(version, false));
    let ended = [observation(4, true)];
    for observations in [&observed[..], &ended, &observed, &ended, &observed[1..]] {
        let kept = keeper.keep(observations, "", &mut position, With::default());
        kept.await.unwrap();
    }
    assert_eq!(position.versions, 3);
    let found = keeper
        .store
        .get("shop/web.1".into())
        .await
        .unwrap()
        .unwrap();
    let record = crate::version::record::Record::decode(&found.value).unwrap();
    let numbers = record.versions().map(|version| version.unwrap().number);
    assert_eq!(numbers.collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(record.gone.map(|gone| gone.number), Some(4));
    keeper.store.close().await;
}

/// Watchers of the archive see the changes of one commit in the order of the source.
#[tokio::test]
async fn what_is_kept_together_is_in_the_order_of_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _) = keeper(folder.path(), true);
    let mut position = Position::default();
    let of = |version: u64, is_gone: bool| {
        let mut observed = observation(version, is_gone);
        let metadata = observed.event.metadata.get_or_insert_default();
        let number = if is_gone { version - 100 } else { version };
        metadata.name = Some(format!("web.{}", number * 37 % 64));
        metadata.uid = Some(format!("uid-{number}"));
        observed
    };
    let created: Vec<_> = (1..=60).map(|version| of(version, false)).collect();
    let changed = [of(150, true), of(190, false), of(103, true)];
    let mut watch = keeper.store.watch("shop/".into(), 0).await.unwrap();
    for observed in [&created[..], &changed] {
        let kept = keeper.keep(observed, "", &mut position, With::default());
        kept.await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 63 {
        let changes = watch.next().await.unwrap();
        seen.extend(changes.iter().map(|change| change.record().is_none()));
    }
    let expected: Vec<bool> = std::iter::repeat_n(false, 60)
        .chain([true, true, false])
        .collect();
    assert_eq!(seen, expected);
    let records = keeper
        .store
        .list(ListRequest::prefix("shop/"))
        .await
        .unwrap();
    let mut records = records.records;
    records.sort_by_key(|record| record.revision);
    let versions = records.iter().map(|record| {
        let record = crate::version::record::Record::decode(&record.value).unwrap();
        record.newest.number
    });
    assert!(versions.is_sorted());
    keeper.store.close().await;
}

fn keeper(folder: &std::path::Path, mirrors: bool) -> (Keeper, ManualClock) {
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    let store = EmbeddedStore::open(folder, options).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(clock.clone()), keep_for, mirrors);
    (keeper, clock)
}

/// Observes an event often enough that some of its versions are in chunks.
async fn keep_many(keeper: &Keeper, position: &mut Position) {
    let many = (1..200).map(|version| observation(version, false));
    let many: Vec<_> = many.collect();
    let kept = keeper.keep(&many, "", position, With::default());
    kept.await.unwrap();
    let chunks = keeper.store.list(ListRequest::prefix(keys::CHUNKS)).await;
    assert!(!chunks.unwrap().records.is_empty());
}

/// Returns the keys of all events and chunks.
async fn left(keeper: &Keeper) -> Vec<String> {
    let all = keeper.store.list(ListRequest::default()).await.unwrap();
    let keys = all.records.iter();
    let keys = keys.map(|record| String::from_utf8_lossy(&record.key).into_owned());
    keys.filter(|key| !key.starts_with("\0position")).collect()
}

#[tokio::test]
async fn where_deletions_are_mirrored_no_older_version_is_left_of_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _) = keeper(folder.path(), true);
    let mut position = Position::default();
    keep_many(&keeper, &mut position).await;
    // Some of these versions would become chunks in the same batch that deletes the event.
    let last: Vec<_> = (200..260)
        .map(|version| observation(version, false))
        .collect();
    let ended = observation(300, true);
    let batch: Vec<_> = last.into_iter().chain([ended]).collect();
    let kept = keeper.keep(&batch, "", &mut position, With::default());
    kept.await.unwrap();
    assert_eq!(left(&keeper).await, [""; 0]);
    keeper.store.close().await;
}

/// A clock that runs a function when it is read the next time.
struct Meanwhile {
    clock: ManualClock,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Meanwhile {
    fn now(&self) -> UnixMillis {
        if let Some(happens) = self.happens.lock().unwrap().take() {
            happens();
        }
        self.clock.now()
    }

    fn steady(&self) -> Duration {
        self.clock.steady()
    }
}

/// A deletion reads the event, its clock and its older versions. An observation in between either
/// wins, or is deleted with everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_an_observation_overtakes_takes_all_versions_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let (manual, clock) = keeper(folder.path(), false);
    let store = manual.store;
    let clock = Arc::new(Meanwhile {
        clock,
        happens: Mutex::default(),
    });
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let keeper = Keeper::new(Arc::clone(&store), shared, keep_for, false);
    let mut position = Position::default();
    keep_many(&keeper, &mut position).await;
    let before = left(&keeper).await;
    let observed = || async {
        let found = store.get("shop/web.1".into()).await.unwrap().unwrap();
        let again = NewRecord {
            expires_at: found.expires_at,
            ..NewRecord::new(found.value)
        };
        store
            .write_all(vec![Write::put(found.key, again)])
            .await
            .unwrap()
    };
    let overtake = || {
        let (store, handle) = (Arc::clone(&store), tokio::runtime::Handle::current());
        let happens = move || {
            tokio::task::block_in_place(|| {
                handle.block_on(async {
                    let found = store.get("shop/web.1".into()).await.unwrap().unwrap();
                    let again = NewRecord {
                        expires_at: found.expires_at,
                        ..NewRecord::new(found.value)
                    };
                    let write = Write::put(found.key, again);
                    store.write_all(vec![write]).await.unwrap();
                });
            });
        };
        *clock.happens.lock().unwrap() = Some(Box::new(happens));
    };
    let revision = observed().await[0];
    overtake();
    let refused = keeper.forget("shop/web.1".into(), Some(revision)).await;
    assert!(
        matches!(refused, Err(KeepError::Write(WriteError::Conflict { .. }))),
        "{refused:?}"
    );
    assert_eq!(left(&keeper).await, before);
    // A deletion without a condition deletes the event as it is then.
    overtake();
    keeper.forget("shop/web.1".into(), None).await.unwrap();
    assert_eq!(left(&keeper).await, ["\0forgotten/uid-1"]);
    store.close().await;
}

/// There are more older versions than one commit can delete, and the process ends before it has
/// deleted the rest.
#[tokio::test]
async fn older_versions_that_are_too_many_for_one_commit_are_deleted_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _) = keeper(folder.path(), false);
    let chunk = |number: u64| Write::put(keys::chunk(b"uid-1", number), NewRecord::new("older"));
    for first in [0, 4000] {
        let chunks = (first..first + 4000).map(chunk).collect();
        keeper.store.write_all(chunks).await.unwrap();
    }
    let deletes = keeper
        .deletes_of_chunks([keys::chunks(b"uid-1")], 1500)
        .await
        .unwrap();
    assert_eq!((deletes.writes.len(), deletes.left.len()), (1001, 1));
    keeper.store.write_all(deletes.writes).await.unwrap();
    // The event is observed again, and has new older versions.
    keeper
        .store
        .write_all(vec![chunk(1), chunk(7000)])
        .await
        .unwrap();
    keeper.delete_all_left().await.unwrap();
    let expected = [1, 7000].map(|number| keys::chunk(b"uid-1", number));
    let expected = expected.map(|key| String::from_utf8(key.to_vec()).unwrap());
    assert_eq!(left(&keeper).await, expected);
    keeper.store.close().await;
}

/// Authors of events can know the uids of others, and so the names that these would get.
#[tokio::test]
async fn an_event_whose_name_is_used_again_takes_the_place_of_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _) = keeper(folder.path(), false);
    let mut position = Position::default();
    let event = |name: &str, uid: &str, version: u64| {
        let mut observed = observation(version, false);
        let metadata = observed.event.metadata.get_or_insert_default();
        metadata.name = Some(name.to_owned());
        metadata.uid = Some(uid.to_owned());
        observed
    };
    let uid_at = async |name: &str| {
        let found = keeper.store.get(format!("shop/{name}").into()).await;
        let record = crate::version::record::Record::decode(&found.unwrap()?.value).unwrap();
        Some(record.newest.uid.to_string())
    };
    let names: Vec<_> = keys::elder_names("web.1", "uid-of-the-elder").collect();
    assert_eq!(
        names[..3],
        [
            "web.1.uid-of-t",
            "web.1.uid-of-the-elder",
            "web.1.uid-of-the-elder.2"
        ]
    );
    let first = [
        event("web.1", "uid-of-the-elder", 1),
        event(&names[0], "taken-0", 2),
        event(&names[1], "taken-1", 3),
        event("web.1", "uid-of-the-younger", 4),
    ];
    let kept = keeper.keep(&first, "", &mut position, With::default());
    kept.await.unwrap();
    assert_eq!(uid_at("web.1").await.unwrap(), "uid-of-the-younger");
    assert_eq!(uid_at(&names[0]).await.unwrap(), "taken-0");
    assert_eq!(uid_at(&names[1]).await.unwrap(), "taken-1");
    assert_eq!(uid_at(&names[2]).await.unwrap(), "uid-of-the-elder");
    // All names of the younger event are taken. It stays, and what cannot be kept is reported.
    let taken = keys::elder_names("web.1", "uid-of-the-younger");
    let mut next: Vec<_> = taken
        .zip(5..)
        .map(|(name, version)| event(&name, &format!("taken-{version}"), version))
        .collect();
    let number = next.len() as u64;
    next.push(event("web.1", "uid-of-the-third", 90));
    let kept = keeper.keep(&next, "", &mut position, With::default());
    kept.await.unwrap();
    assert_eq!(uid_at("web.1").await.unwrap(), "uid-of-the-younger");
    for name in keys::elder_names("web.1", "uid-of-the-younger") {
        assert!(uid_at(&name).await.unwrap().starts_with("taken-"));
    }
    assert_eq!(position.versions, 4 + number);
    let gaps = report::read(&keeper, "prod").await.unwrap().gaps;
    assert_eq!(
        (gaps.len(), gaps[0].cause, &*gaps[0].namespace),
        (1, Cause::Unreadable, "shop")
    );
    keeper.store.close().await;
}

/// The first of very many observations are kept with commits of their own, and come again if the
/// last commit fails, even when the elder event is no longer kept.
#[tokio::test]
async fn an_end_that_comes_again_does_not_take_the_name_of_a_younger_event() {
    let event = |uid: &str, version: u64, is_gone: bool| {
        let mut observed = observation(version, is_gone);
        observed.event.metadata.get_or_insert_default().uid = Some(uid.into());
        observed
    };
    let began = event("uid-elder", 1, false);
    let again = [event("uid-elder", 2, true), event("uid-younger", 3, false)];
    for mirrors in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, _) = keeper(folder.path(), mirrors);
        let mut position = Position::default();
        for observations in [std::slice::from_ref(&began), &again, &again] {
            let kept = keeper.keep(observations, "", &mut position, With::default());
            kept.await.unwrap();
        }
        let expected: &[&str] = if mirrors {
            &["shop/web.1"]
        } else {
            &["shop/web.1", "shop/web.1.uid-elde"]
        };
        assert_eq!(left(&keeper).await, expected);
        assert_eq!(position.versions, 2);
        let found = keeper.store.get("shop/web.1".into()).await.unwrap();
        let record = crate::version::record::Record::decode(&found.unwrap().value).unwrap();
        assert_eq!((&*record.newest.uid, record.versions), ("uid-younger", 1));
        keeper.store.close().await;
    }
}

/// An event in the list after a gap exists. One that is not in it ended between two times.
#[tokio::test]
async fn ends_that_came_while_nothing_was_followed_are_found_by_the_next_list() {
    for mirrors in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, clock) = keeper(folder.path(), mirrors);
        let mut position = Position::default();
        let named = |name: &str, uid: &str| {
            let mut observation = observation(7, false);
            let metadata = observation.event.metadata.get_or_insert_default();
            metadata.name = Some(name.into());
            metadata.uid = Some(uid.into());
            observation
        };
        let lives = named("lives", "uid-lives");
        let ended = named("ended", "uid-ended");
        let renewed = named("renewed", "uid-renewed");
        let before = [lives.clone(), ended, renewed];
        let kept = keeper.keep(&before, "", &mut position, With::default());
        kept.await.unwrap();
        let not_before = keeper.clock.now().0;
        clock.advance(2);
        let listed_at = keeper.clock.now().0;
        let unswept = Unswept {
            listed_at,
            version: 50,
            not_before,
            since: 0,
        };
        let with = With {
            gap: None,
            listed_at: Some(listed_at),
            unswept: Some(&unswept),
            ..With::default()
        };
        let again = named("renewed", "uid-other-renewed");
        let listed = [lives, again];
        let kept = keeper.keep(&listed, "", &mut position, with);
        kept.await.unwrap();
        // The next process does the rest of the work.
        assert_eq!(end_detection::detect_ends(&keeper).await.unwrap(), 2);
        assert_eq!(end_detection::detect_ends(&keeper).await.unwrap(), 0);
        let mut found = Vec::new();
        for key in left(&keeper).await {
            let record = keeper.store.get(key.clone().into()).await.unwrap().unwrap();
            let record = crate::version::record::Record::decode(&record.value).unwrap();
            found.push((key, record.gone));
        }
        let gone = Some(Gone {
            number: 50,
            observed_at: listed_at,
            not_before: Some(not_before),
        });
        let mut expected = vec![
            ("shop/lives".to_owned(), None),
            ("shop/renewed".to_owned(), None),
        ];
        if !mirrors {
            expected.insert(0, ("shop/ended".to_owned(), gone));
            expected.push(("shop/renewed.uid-rene".to_owned(), gone));
        }
        assert_eq!(found, expected);
        keeper.store.close().await;
    }
}

/// Versions that cannot be kept were written between the last observation and now.
#[tokio::test]
async fn what_is_too_large_or_cannot_be_read_is_counted_and_lies_in_a_gap_and_lives() {
    for mirrors in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, clock) = keeper(folder.path(), mirrors);
        let mut position = Position::default();
        let named = |name: &str| {
            let mut observation = observation(7, false);
            let metadata = observation.event.metadata.get_or_insert_default();
            metadata.name = Some(name.into());
            metadata.uid = Some(format!("uid-{name}"));
            observation
        };
        let before = ["large", "unreadable", "ended"].map(named);
        let kept = keeper.keep(&before, "", &mut position, With::default());
        kept.await.unwrap();
        let complete_until = keeper.clock.now().0;
        clock.advance(5_000);
        let listed_at = keeper.clock.now().0;
        let mut large = named("large");
        large.number = 8;
        large.event.message = Some("m".repeat(tidings_store::VALUE_LEN_MAX / 2));
        let named = Unreadable {
            namespace: "shop".into(),
            name: "unreadable".into(),
            uid: "uid-unreadable".into(),
            why: "its time is in the year 10000".into(),
        };
        let unreadable = [named, Unreadable::default()];
        let unswept = Unswept {
            listed_at,
            version: 50,
            not_before: complete_until,
            since: 0,
        };
        let with = With {
            listed_at: Some(listed_at),
            unswept: Some(&unswept),
            unreadable: &unreadable,
            complete_until: Some(complete_until),
            ..With::default()
        };
        let listed = [large];
        let kept = keeper.keep(&listed, "", &mut position, with);
        kept.await.unwrap();
        assert_eq!(position.versions, 3);
        let counters = &keeper.counters;
        let counts = [&counters.too_large, &counters.unreadable];
        let counts = counts.map(|counter| counter.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(counts, [1, 2]);
        let gaps = report::read(&keeper, "prod").await.unwrap().gaps;
        let gaps = gaps
            .iter()
            .map(|it| (it.from.0, it.to.0, it.cause, &*it.namespace));
        let gaps: Vec<_> = gaps.collect();
        // Each gap has the namespace of its events, if that is known.
        let expected = [
            (complete_until + 1, listed_at, Cause::TooLarge, "shop"),
            (complete_until + 2, listed_at, Cause::Unreadable, ""),
            (complete_until + 2, listed_at, Cause::Unreadable, "shop"),
        ];
        assert_eq!(gaps, expected);
        assert_eq!(end_detection::detect_ends(&keeper).await.unwrap(), 1);
        for (name, lives) in [("large", true), ("unreadable", true), ("ended", false)] {
            let found = keeper
                .store
                .get(format!("shop/{name}").into())
                .await
                .unwrap();
            let is_there = found.is_some_and(|found| {
                let record = crate::version::record::Record::decode(&found.value).unwrap();
                record.gone.is_none()
            });
            assert_eq!(is_there, lives, "{name}");
        }
        keeper.store.close().await;
    }
}

#[tokio::test]
async fn an_event_whose_names_are_too_long_for_keys_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(SystemClock), keep_for, false);
    let mut position = Position::default();
    let named = |name_len: usize, uid_len: usize| {
        let mut observation = observation(1, false);
        let metadata = observation.event.metadata.as_mut().unwrap();
        metadata.name = Some("n".repeat(name_len));
        metadata.uid = Some("u".repeat(uid_len));
        observation
    };
    let observations = [
        named(2000, 36),
        named(36, 2000),
        // These names are the longest ones. The second event moves the first to another name.
        named(900, 20),
        named(900, 50),
        observation(2, false),
    ];
    let kept = keeper.keep(&observations, "", &mut position, With::default());
    kept.await.unwrap();
    assert_eq!(position.versions, 3);
    keeper.store.close().await;
}

#[tokio::test]
async fn the_end_of_an_event_whose_time_is_over_does_not_bring_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, clock) = keeper(folder.path(), false);
    let mut position = Position::default();
    let seen = |name: &str, version: u64, is_gone: bool, seconds: i64| {
        let mut observation = observation(version, is_gone);
        let metadata = observation.event.metadata.get_or_insert_default();
        metadata.name = Some(name.into());
        metadata.uid = Some(format!("uid-{name}"));
        observation.event.last_timestamp = Some(Time {
            seconds: Some(seconds),
            nanos: None,
        });
        observation
    };
    let seconds = keeper.clock.now().0 / 1000;
    let (hour, minute) = (3_600_000, 60_000);
    // What happens at which time, and what is kept then.
    for (after, observed, expected) in [
        (
            0,
            Some(seen("known", 1, false, seconds)),
            &["shop/known"][..],
        ),
        (2 * hour, Some(seen("known", 2, true, seconds)), &[]),
        // An event that was not known is kept for the rest of its retention.
        (
            0,
            Some(seen("other", 3, true, seconds + 5400)),
            &["shop/other"],
        ),
        (29 * minute, None, &["shop/other"]),
        (minute, None, &[]),
        // The event's own clock does not matter.
        (
            0,
            Some(seen("late", 4, true, seconds + 90_000)),
            &["shop/late"],
        ),
        (hour, None, &[]),
    ] {
        clock.advance(after);
        keeper.store.expire().await.unwrap();
        let kept = keeper.keep(observed.as_slice(), "", &mut position, With::default());
        kept.await.unwrap();
        assert_eq!(left(&keeper).await, expected, "{observed:?}");
    }
    assert_eq!(position.versions, 3);
    keeper.store.close().await;
}

/// There are more records, and more bytes, than one commit may have.
#[tokio::test]
async fn what_is_too_much_for_one_commit_is_kept_in_several() {
    let mut random = fastrand::Rng::with_seed(1);
    let large: String = (0..760_000).map(|_| random.alphanumeric()).collect();
    for (number, message) in [(5_000, "small"), (75, large.as_str())] {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let mut options = EmbeddedOptions::default();
        options.free_space_min = 0;
        let store = Arc::new(EmbeddedStore::open(folder.path(), options).unwrap());
        let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
        let keeper = Keeper::new(store, Arc::new(SystemClock), keep_for, false);
        let many = (1..=number).map(|version| {
            let mut observation = observation(version, false);
            let metadata = observation.event.metadata.get_or_insert_default();
            metadata.name = Some(format!("web.{version}"));
            metadata.uid = Some(format!("uid-{version}"));
            observation.event.message = Some(message.to_owned());
            observation
        });
        let many: Vec<_> = many.collect();
        let mut position = Position {
            version: Some(number),
            ..Position::default()
        };
        // All are observed again, as after a process that ended between two commits.
        for _ in 0..2 {
            let kept = keeper.keep(&many, "", &mut position, With::default());
            kept.await.unwrap();
            assert_eq!(position.versions, number);
            assert_eq!(keeper.position("").await.unwrap(), Some(position.clone()));
            let records = keeper.store.stats().await.unwrap().records;
            assert_eq!(records, number + 1);
        }
        keeper.store.close().await;
    }
}
