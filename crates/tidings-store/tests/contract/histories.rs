//! Random histories against a model: after any operations in any order, including restarts, the
//! store answers like the model, about now and the past.
//!
//! The model learns of each change only from a watch, and checks it: in order, with the right
//! previous value, an expiry only when it was due. The answers of operations must agree with the
//! watch.
//!
//! `TIDINGS_STORE_HISTORIES` sets the number of histories per backend (default 12).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::support::backends::Make;
use crate::support::{Fixture, START, about, check_random, show, show_change};
use proptest::prelude::*;
use tidings_store::clock::Clock;
use tidings_store::{
    Change, CountsRequest, HOUR_MILLIS, Index, ListRequest, NewRecord, NewestRequest,
    ObjectSelector, ReadError, Record, Revision, UnixMillis, Watch, WatchError, WriteError,
};

const KEYS: [&str; 6] = ["a/1", "a/2", "a/21", "b/1", "b/2", "c"];
const PODS: [&str; 3] = ["p", "q", "r"];
/// What events about them are for and of.
const REASONS: [&str; 3] = ["Killing", "Pulled", ""];
const TYPES: [&str; 3] = ["Warning", "Normal", ""];

fn index(pod: usize, last_seen: i64) -> Index {
    Index {
        reason: REASONS[pod].into(),
        event_type: TYPES[pod].into(),
        ..about(PODS[pod], last_seen * 100)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: usize,
        pod: usize,
        last_seen: i64,
        life: Option<i64>,
        expected: Expected,
    },
    Delete {
        key: usize,
        expected: Expected,
    },
    /// Several puts at once, so that they meet in one batch.
    Together(Vec<(usize, usize, Option<i64>)>),
    Advance(i64),
    Expire,
    /// Forget this share of the history, in 256ths.
    Compact(u8),
    Restart,
    /// Read everything, with a past revision this far back, in 256ths.
    Look(u8),
    /// The next page of a list that is read meanwhile, or the first of another.
    Page,
}

/// The precondition of a write.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Nothing,
    Current,
    Stale,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let expected = prop_oneof![
        4 => Just(Expected::Nothing),
        4 => Just(Expected::Current),
        1 => Just(Expected::Stale)
    ];
    let key = 0..KEYS.len();
    let pod = 0..PODS.len();
    let life = prop_oneof![
        Just(None),
        (1..400i64).prop_map(Some),
        (1..1_000_000i64).prop_map(Some)
    ];
    let together = proptest::collection::vec((key.clone(), pod.clone(), life.clone()), 2..12);
    let step = prop_oneof![
        12 => (key.clone(), pod, -50..50i64, life, expected.clone()).prop_map(|(key, pod, last_seen, life, expected)| {
            Step::Put { key, pod, last_seen, life, expected }
        }),
        4 => (key, expected).prop_map(|(key, expected)| Step::Delete { key, expected }),
        2 => together.prop_map(Step::Together),
        3 => prop_oneof![0..100_000i64, 0..100_000_000i64, -50_000..0i64].prop_map(Step::Advance),
        2 => Just(Step::Expire),
        3 => any::<u8>().prop_map(Step::Compact),
        2 => Just(Step::Restart),
        4 => any::<u8>().prop_map(Step::Look),
        6 => Just(Step::Page),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The expected records now and after each revision.
#[derive(Default)]
struct Model {
    now: BTreeMap<String, (Record, usize, i64)>,
    past: BTreeMap<Revision, BTreeMap<String, (Record, usize, i64)>>,
    log: Vec<(Revision, String)>,
    oldest: Revision,
    latest: Revision,
    last_expired: bool,
    /// Whether any expiry was written.
    has_expired: bool,
    /// The pod and last-seen of a value.
    written: BTreeMap<String, (usize, i64)>,
}

type Held = BTreeMap<String, (Record, usize, i64)>;

fn live(held: &Held, now: UnixMillis) -> impl Iterator<Item = &(Record, usize, i64)> {
    held.values()
        .filter(move |(record, ..)| record.expires_at.is_none_or(|at| at > now))
}

impl Model {
    fn learn(&mut self, change: &Change, now: UnixMillis) {
        // Only records that expire together may share a revision.
        let expired = matches!(change, Change::Delete { expired: true, .. });
        let shares = expired && self.last_expired && change.revision() == self.latest;
        assert!(shares || change.revision() > self.latest, "revisions go up");
        self.last_expired = expired;
        self.has_expired |= expired;
        self.latest = change.revision();
        self.log.push((change.revision(), show_change(change)));
        let key = String::from_utf8(change.key().to_vec()).unwrap();
        let held = self.now.get(&key).map(|(record, ..)| record);
        assert_eq!(change.previous(), held, "the previous record");
        if let Change::Delete {
            previous, expired, ..
        } = change
        {
            let due = previous.expires_at.is_some_and(|at| at <= now);
            assert_eq!(*expired, due, "an expiry when it is due, a deletion before");
        }
        match change.record() {
            None => self.now.remove(&key),
            Some(record) => {
                let value = String::from_utf8(record.value.to_vec()).unwrap();
                let (pod, last_seen) = self.written[&value];
                self.now.insert(key, (record.clone(), pod, last_seen))
            }
        };
        self.past.insert(self.latest, self.now.clone());
    }

    fn live(&self, key: &str, now: UnixMillis) -> Option<&Record> {
        self.now
            .get(key)
            .map(|(record, ..)| record)
            .filter(|record| record.expires_at.is_none_or(|at| at > now))
    }

    fn at(&self, revision: Revision) -> Held {
        self.past.get(&revision).cloned().unwrap_or_default()
    }
}

struct Run {
    fixture: Fixture,
    model: Model,
    watch: Box<dyn Watch>,
    values: u64,
    /// The request for the next page of the current list.
    list: Option<ListRequest>,
}

impl Run {
    async fn new(fixture: Fixture) -> Self {
        let watch = fixture.watch("", 0).await;
        let model = Model {
            latest: fixture.store.revision(),
            ..Model::default()
        };
        Self {
            fixture,
            model,
            watch,
            values: 0,
            list: None,
        }
    }

    fn record(&mut self, pod: usize, last_seen: i64, life: Option<i64>) -> NewRecord {
        self.values += 1;
        // Some values are long, so that batches and pages differ in size.
        let value = format!(
            "v{}{}",
            self.values,
            "-".repeat((self.values % 7 * 40) as usize)
        );
        self.model.written.insert(value.clone(), (pod, last_seen));
        let record = NewRecord::new(value).index(index(pod, last_seen));
        NewRecord {
            expires_at: life.map(|seconds| self.fixture.after(seconds)),
            ..record
        }
    }

    /// Lets the model learn everything up to the store's latest revision.
    async fn learn(&mut self) {
        let now = self.fixture.clock.now();
        let latest = self.fixture.store.revision();
        while self.model.latest < latest {
            for change in self.watch.next().await.unwrap() {
                self.model.learn(&change, now);
            }
        }
        assert_eq!(self.model.latest, latest, "every revision has a change");
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Put {
                key,
                pod,
                last_seen,
                life,
                expected,
            } => self.put(KEYS[key], pod, last_seen, life, expected).await,
            Step::Delete { key, expected } => self.delete(KEYS[key], expected).await,
            Step::Together(puts) => self.together(puts).await,
            Step::Advance(millis) => {
                let now = self.fixture.clock.now().0;
                self.fixture.clock.advance(millis.max(START - now));
            }
            Step::Expire => {
                self.fixture.store.expire().await.unwrap();
            }
            Step::Compact(share) => {
                let until = self.model.latest * u64::from(share) / 256;
                self.fixture.store.compact(until).await.unwrap();
                self.model.oldest = self.model.oldest.max(until);
            }
            Step::Restart => {
                self.fixture.restart().await;
                self.watch = self.fixture.watch("", self.model.latest).await;
            }
            Step::Look(back) => self.look(back).await,
            Step::Page => self.page().await,
        }
        self.learn().await;
    }

    async fn put(
        &mut self,
        key: &'static str,
        pod: usize,
        last_seen: i64,
        life: Option<i64>,
        expected: Expected,
    ) {
        let record = self.record(pod, last_seen, life);
        let current = self
            .model
            .live(key, self.fixture.clock.now())
            .map(|record| record.revision);
        let store = &self.fixture.store;
        match expected {
            Expected::Nothing => match (store.create(key.into(), record).await, current) {
                (Ok(revision), None) => assert_eq!(revision, store.revision()),
                (Err(WriteError::AlreadyExists { revision }), Some(current)) => {
                    assert_eq!(revision, current);
                }
                (result, current) => panic!("create answered {result:?} over {current:?}"),
            },
            Expected::Current | Expected::Stale => {
                let stale = matches!(expected, Expected::Stale);
                let expected = current.unwrap_or(1) - u64::from(stale);
                match (store.update(key.into(), record, expected).await, current) {
                    (Ok(revision), Some(_)) if !stale => assert_eq!(revision, store.revision()),
                    (Err(WriteError::NotFound), None) => {}
                    (Err(WriteError::Conflict { current, .. }), Some(held)) if stale => {
                        assert_eq!(current, held);
                    }
                    (result, current) => panic!("update answered {result:?} over {current:?}"),
                }
            }
        }
    }

    async fn delete(&mut self, key: &'static str, expected: Expected) {
        let held = self.model.live(key, self.fixture.clock.now()).cloned();
        let expected = match expected {
            Expected::Nothing => None,
            Expected::Current => Some(held.as_ref().map_or(1, |record| record.revision)),
            Expected::Stale => Some(held.as_ref().map_or(1, |record| record.revision - 1)),
        };
        match (self.fixture.store.delete(key.into(), expected).await, held) {
            (Ok(deleted), Some(held)) => assert_eq!(deleted.previous, held),
            (Err(WriteError::NotFound), None) => {}
            (Err(WriteError::Conflict { current, .. }), Some(held)) => {
                assert_eq!(current, held.revision);
                assert_ne!(expected, Some(held.revision));
            }
            (result, held) => panic!("delete answered {result:?} over {held:?}"),
        }
    }

    async fn together(&mut self, puts: Vec<(usize, usize, Option<i64>)>) {
        let now = self.fixture.clock.now();
        let tasks: Vec<_> = puts
            .into_iter()
            .map(|(key, pod, life)| {
                let record = self.record(pod, 0, life);
                let current = self
                    .model
                    .live(KEYS[key], now)
                    .map(|record| record.revision);
                let store = self.fixture.store.clone();
                tokio::spawn(async move {
                    // Another writer may be faster; the watch shows it.
                    match current {
                        None => store.create(KEYS[key].into(), record).await.map(drop),
                        Some(expected) if pod == 0 => store
                            .delete(KEYS[key].into(), Some(expected))
                            .await
                            .map(drop),
                        Some(expected) => store
                            .update(KEYS[key].into(), record, expected)
                            .await
                            .map(drop),
                    }
                })
            })
            .collect();
        for task in tasks {
            match task.await.unwrap() {
                Ok(())
                | Err(
                    WriteError::AlreadyExists { .. }
                    | WriteError::Conflict { .. }
                    | WriteError::NotFound,
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads a page of one record.
    async fn page(&mut self) {
        let now = self.fixture.clock.now();
        let request = self.list.take();
        let request = request.unwrap_or_else(|| ListRequest::default().limit(1));
        let page = match self.fixture.store.list(request.clone()).await {
            Ok(page) => page,
            Err(ReadError::Compacted { requested, .. }) => {
                return assert!(requested < self.model.oldest);
            }
            Err(error) => panic!("{error}"),
        };
        let held = self.model.at(page.revision);
        let is_behind = |key: &[u8]| request.after.as_ref().is_none_or(|after| key > after);
        let mut expected = live(&held, now)
            .map(|(record, ..)| record)
            .filter(|record| is_behind(&record.key));
        assert_eq!(page.records.first(), expected.next());
        assert_eq!(page.more, expected.next().is_some());
        self.list = page.records.first().filter(|_| page.more).map(|last| {
            let request = ListRequest::default().limit(1).at(page.revision);
            request.after(last.key.clone())
        });
    }

    /// Everything that can be read, now and at a past revision.
    async fn look(&self, back: u8) {
        let now = self.fixture.clock.now();
        let (store, model) = (&self.fixture.store, &self.model);
        for key in KEYS {
            assert_eq!(self.fixture.get(key).await.as_ref(), model.live(key, now));
        }
        let past = model.latest * u64::from(back) / 256;
        for (at, held) in [(None, model.now.clone()), (Some(past), model.at(past))] {
            let at =
                |request: ListRequest| at.map_or(request.clone(), |revision| request.at(revision));
            if let Some(error) = store.list(at(ListRequest::default())).await.err() {
                assert!(matches!(error, ReadError::Compacted { .. }), "{error}");
                assert!(past < model.oldest);
                continue;
            }
            for prefix in ["", "a/", "b"] {
                let expected: Vec<&Record> = live(&held, now)
                    .map(|(record, ..)| record)
                    .filter(|record| record.key.starts_with(prefix.as_bytes()))
                    .collect();
                let with_ended = held.keys().filter(|key| key.starts_with(prefix)).count();
                let mut paged = Vec::new();
                let mut request = at(ListRequest::prefix(prefix)).limit(2);
                request.count_remaining = true;
                loop {
                    let page = store.list(request.clone()).await.unwrap();
                    paged.extend(page.records);
                    let remaining = page.remaining.unwrap() as usize;
                    let left = expected.len() - paged.len();
                    assert!((left..=with_ended - paged.len()).contains(&remaining));
                    assert_eq!(remaining > 0, left > 0);
                    assert_eq!(page.more, paged.len() < expected.len());
                    let Some(last) = paged.last().filter(|_| page.more) else {
                        break;
                    };
                    request = request.after(last.key.clone()).at(page.revision);
                }
                assert_eq!(paged.iter().collect::<Vec<_>>(), expected);
            }
            for (number, pod) in PODS.iter().enumerate() {
                let index = about(pod, 0);
                let by_name = |kind, namespace| ObjectSelector::Name {
                    name: index.object_name.clone(),
                    kind,
                    namespace,
                };
                let (kind, namespace) = (&index.object_kind, &index.object_namespace);
                for object in [
                    ObjectSelector::Uid(index.object_uid.clone()),
                    by_name(Some(kind.clone()), Some(namespace.clone())),
                    by_name(None, None),
                ] {
                    let found = self
                        .fixture
                        .list(at(ListRequest::default()).object(object))
                        .await;
                    let expected: Vec<String> = live(&held, now)
                        .filter(|(_, pod, _)| *pod == number)
                        .map(|(record, ..)| show(record))
                        .collect();
                    assert_eq!(found, expected);
                }
            }
        }
        let page = store
            .newest(NewestRequest {
                limit: 3,
                ..NewestRequest::default()
            })
            .await
            .unwrap();
        let mut expected: Vec<_> = live(&model.now, now).collect();
        expected
            .sort_by_key(|(record, _, last_seen)| std::cmp::Reverse((*last_seen, record.revision)));
        assert_eq!(page.more, expected.len() > 3);
        expected.truncate(3);
        assert_eq!(
            page.records.iter().collect::<Vec<_>>(),
            expected
                .iter()
                .map(|(record, ..)| record)
                .collect::<Vec<_>>()
        );

        self.look_for(back).await;

        let stats = store.stats().await.unwrap();
        assert_eq!(stats.records, model.now.len() as u64);
        assert_eq!(
            stats.value_bytes,
            model
                .now
                .values()
                .map(|(record, ..)| record.value.len() as u64)
                .sum::<u64>()
        );
        assert_eq!(
            (stats.revision, stats.oldest_revision),
            (model.latest, model.oldest)
        );
        self.look_back(past).await;
    }

    /// The newest of a reason, of a type and of a time, and counts.
    async fn look_for(&self, back: u8) {
        let now = self.fixture.clock.now();
        let (store, model) = (&self.fixture.store, &self.model);
        for (pod, reason) in REASONS.iter().enumerate() {
            for by_reason in [true, false] {
                let text = |text: &str, is_wanted| Some(text.to_owned()).filter(|_| is_wanted);
                let mut request = NewestRequest {
                    prefix: ["", "a/"][usize::from(back % 2)].into(),
                    reason: text(reason, by_reason),
                    event_type: text(TYPES[pod], !by_reason),
                    since: (back > 100).then(|| index(0, i64::from(back) - 150).last_seen),
                    limit: 1,
                    ..NewestRequest::default()
                };
                let mut found = Vec::new();
                loop {
                    let page = store.newest(request.clone()).await.unwrap();
                    found.extend(page.records);
                    request.after = page.place;
                    if !page.more {
                        break;
                    }
                }
                let mut expected: Vec<_> = live(&model.now, now)
                    .filter(|(record, of, last_seen)| {
                        let since = request.since.unwrap_or(UnixMillis(0));
                        let seen = index(0, *last_seen).last_seen;
                        *of == pod && seen >= since && record.key.starts_with(&request.prefix)
                    })
                    .map(|(record, _, last_seen)| (*last_seen, record.revision, record))
                    .collect();
                expected.sort_by_key(|(last_seen, revision, _)| Reverse((*last_seen, *revision)));
                let expected = expected.into_iter().map(|(.., record)| record);
                assert!(found.iter().eq(expected), "{request:?}: {found:?}");
            }
        }
        let request = CountsRequest {
            limit: 100,
            ..CountsRequest::default()
        };
        let counts = store.counts(request).await.unwrap().counts;
        let count_of = |records: &mut dyn Iterator<Item = &(Record, usize, i64)>| {
            let mut counts = BTreeMap::<_, u64>::new();
            for (_, pod, last_seen) in records {
                let hour = index(0, *last_seen).last_seen.0.div_euclid(HOUR_MILLIS);
                *counts
                    .entry((hour * HOUR_MILLIS, REASONS[*pod]))
                    .or_default() += 1;
            }
            counts
        };
        let found: BTreeMap<_, _> = counts
            .iter()
            .map(|count| ((count.hour.0, &count.reason[..]), count.records))
            .collect();
        let expected = count_of(&mut live(&model.now, now));
        for (slice, records) in &expected {
            assert!(found.get(slice) >= Some(records), "{slice:?}: {found:?}");
        }
        if !model.has_expired && model.now.len() == live(&model.now, now).count() {
            assert_eq!(found, expected);
        }
    }

    /// A watch from a past revision has the same changes.
    async fn look_back(&self, past: Revision) {
        // etcd does not say why a key was deleted: after its TTL, an old deletion looks like its
        // expiry.
        let remote = self.fixture.backend.is_remote();
        let told = |shown: &str| match shown.strip_prefix('!') {
            Some(deleted) if remote => format!("-{deleted}"),
            _ => shown.to_owned(),
        };
        match self.fixture.store.watch("".into(), past).await {
            Ok(mut watch) => {
                let expected: Vec<_> = self
                    .model
                    .log
                    .iter()
                    .filter(|(revision, _)| *revision > past)
                    .map(|(revision, shown)| (*revision, told(shown)))
                    .collect();
                let mut seen = Vec::new();
                while seen.len() < expected.len() {
                    let changes = watch.next().await.unwrap();
                    seen.extend(
                        changes
                            .iter()
                            .map(|change| (change.revision(), told(&show_change(change)))),
                    );
                }
                assert_eq!(seen, expected);
                assert!(past >= self.model.oldest);
            }
            Err(WatchError::Compacted { .. }) => assert!(past < self.model.oldest),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs them on a backend.
pub(crate) fn check(backend: Make) {
    let cases = std::env::var("TIDINGS_STORE_HISTORIES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(12);
    check_random(cases, &steps(), async |steps| {
        let Some(fixture) = Fixture::on(backend).await else {
            return;
        };
        let mut run = Run::new(fixture).await;
        for step in steps {
            run.step(step).await;
        }
        run.look(128).await;
        run.fixture.store.expire().await.unwrap();
        run.learn().await;
        let now = run.fixture.clock.now();
        let due = run
            .model
            .now
            .values()
            .filter_map(|(record, ..)| record.expires_at)
            .filter(|at| *at <= now)
            .count();
        // In the embedded store a live record may delay others in its bucket.
        assert!(due == 0 || run.fixture.backend.is_durable());
        run.fixture.store.close().await;
    });
}
