//! Every version is delivered to each cursor, or counted, whenever the process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::poll;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use tidings_history::{
    Batch, CURSORS_MAX, Cause, Cursor, Feed, FeedError, IN_FLIGHT_MAX, Limits, Offset, Start,
};
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, NewRecord, Store, UnixMillis, Write};

use super::bounds::BACKLOG_BYTES_MAX;
use super::named::ClusterFeed;
use super::sealer::Unsealed;
use crate::keep::coverage::{Position, cluster_gap};
use crate::keep::feed::Journal;
use crate::keep::keys;
use crate::keep::versions::{Keeper, Observation, With};

const START: i64 = 1_700_000_000_000;
const DAY: i64 = 24 * 3_600_000;
const EVENTS: u8 = 4;
const NAMES: [&str; 2] = ["one", "other"];

fn all() -> Limits {
    Limits {
        versions: usize::MAX,
        bytes: usize::MAX,
        ..Limits::default()
    }
}

struct World {
    keeper: Arc<Keeper>,
    clock: ManualClock,
    folder: tempfile::TempDir,
    position: Position,
    /// The events' numbers by the versions that were observed.
    observed: BTreeMap<u64, u8>,
    /// How often an event was deleted. Its name is then used by another one.
    deleted: BTreeMap<u8, u32>,
}

async fn open(folder: &Path, clock: &ManualClock, seal: bool) -> Arc<Keeper> {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    options.free_space_min = 0;
    let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(100 * 24 * 3600));
    let mut keeper = Keeper::new(store, Arc::new(clock.clone()), keep_for, false);
    keeper.journal = Journal::open(&keeper, seal).await.unwrap();
    Arc::new(keeper)
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let (folder, clock) = (folder.unwrap(), ManualClock::at(UnixMillis(START)));
        Self {
            keeper: open(folder.path(), &clock, false).await,
            clock,
            folder,
            position: Position::default(),
            observed: BTreeMap::new(),
            deleted: BTreeMap::new(),
        }
    }

    fn feed(&self) -> ClusterFeed {
        ClusterFeed {
            keeper: Arc::clone(&self.keeper),
        }
    }

    async fn cursor(&self, name: &str, start: Start) -> Box<dyn Cursor> {
        self.feed()
            .cursor(name.parse().unwrap(), start)
            .await
            .unwrap()
    }

    async fn reopen(&mut self, seal: bool) {
        self.keeper.store.close().await;
        self.keeper = open(self.folder.path(), &self.clock, seal).await;
    }

    async fn observe(&mut self, events: &[u8]) {
        self.observe_with(events, With::default()).await;
    }

    async fn observe_with(&mut self, events: &[u8], with: With<'_>) {
        let observations = events.iter().map(|event| {
            self.position.latest += 1;
            let number = self.position.latest;
            self.observed.insert(number, *event);
            let event = Event {
                metadata: Some(ObjectMeta {
                    name: Some(format!("event-{event}")),
                    namespace: Some("shop".into()),
                    uid: Some(format!(
                        "uid-{event}-{}",
                        self.deleted.get(event).unwrap_or(&0)
                    )),
                    ..ObjectMeta::default()
                }),
                message: Some(format!(
                    "{number} {}",
                    "x".repeat(usize::from(*event) * 100)
                )),
                count: i32::try_from(number).ok(),
                ..Event::default()
            };
            Observation {
                event,
                number,
                is_gone: false,
            }
        });
        let observations: Vec<_> = observations.collect();
        let mut position = self.position.clone();
        let kept = self.keeper.keep(&observations, "", &mut position, with);
        kept.await.unwrap();
        self.position = position;
    }

    /// Deletes an event, if it is there.
    async fn forget(&mut self, event: u8) {
        *self.deleted.entry(event).or_default() += 1;
        let key = keys::event("shop", &format!("event-{event}"));
        let _ = self.keeper.forget(key, None).await;
    }

    /// Lets a time pass that the store believes.
    fn pass(&self, millis: i64) {
        self.clock.advance(millis);
        for _ in 0..4 {
            self.clock.advance(30_000);
            self.keeper.store.confirmed();
        }
    }

    async fn bound(&self, bytes_max: u64) {
        let bounded = self.keeper.journal.bound(&self.keeper, bytes_max);
        bounded.await.unwrap();
    }

    /// The number of the feed's entries.
    async fn entries(&self) -> usize {
        let request = ListRequest::prefix(keys::UNSEALED);
        self.keeper.store.list(request).await.unwrap().records.len()
    }

    fn unsealed(&self) -> Unsealed {
        Unsealed {
            keeper: Arc::clone(&self.keeper),
        }
    }
}

fn numbers(batch: &Batch) -> Vec<u64> {
    batch
        .versions
        .iter()
        .map(|version| version.number)
        .collect()
}

/// Reads and commits everything. Returns the numbers of the versions.
async fn drain(cursor: &mut dyn Cursor, limits: Limits) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(batch) = cursor.next(limits).await.unwrap() {
        found.extend(numbers(&batch));
        cursor.commit(batch.through, None).await.unwrap();
    }
    found
}

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    Observe(Vec<u8>),
    Delete(u8),
    /// Reads a batch of a cursor, which is opened if need be.
    Read {
        cursor: usize,
        versions: usize,
    },
    /// Commits one of the batches in flight.
    Commit {
        cursor: usize,
        batch: usize,
    },
    /// Begins to commit, and ends the process after it waited a few times.
    Kill {
        cursor: usize,
        batch: usize,
        polls: u8,
    },
    /// Ends the process. The next one seals or does not.
    Open {
        seal: bool,
    },
    /// Seals everything.
    Seal,
    /// Drops the handle of a cursor.
    Drop(usize),
    Pass {
        days: i64,
    },
    Bound {
        bytes: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cursor = 0..NAMES.len();
    let step = prop_oneof![
        5 => prop::collection::vec(0..EVENTS, 1..20).prop_map(Step::Observe),
        1 => (0..EVENTS).prop_map(Step::Delete),
        5 => (cursor.clone(), 1..30_usize)
            .prop_map(|(cursor, versions)| Step::Read { cursor, versions }),
        4 => (cursor.clone(), any::<usize>())
            .prop_map(|(cursor, batch)| Step::Commit { cursor, batch }),
        2 => (cursor.clone(), any::<usize>(), 1..12_u8)
            .prop_map(|(cursor, batch, polls)| Step::Kill { cursor, batch, polls }),
        1 => any::<bool>().prop_map(|seal| Step::Open { seal }),
        1 => Just(Step::Seal),
        1 => cursor.prop_map(Step::Drop),
        1 => (0..5_i64).prop_map(|days| Step::Pass { days }),
        1 => (0..4000_u64).prop_map(|bytes| Step::Bound { bytes }),
    ];
    prop::collection::vec(step, 1..40)
}

/// What a consumer knows.
#[derive(Default)]
struct Consumer {
    handle: Option<Box<dyn Cursor>>,
    /// The number of versions before the cursor began; `None` before that.
    began: Option<usize>,
    flight: Vec<Batch>,
    /// Committed versions, and the numbers of gone and skipped ones.
    delivered: BTreeSet<u64>,
    gone: u64,
    skipped: u64,
}

impl Consumer {
    fn committed(&mut self, batch: &Batch) {
        for number in numbers(batch) {
            assert!(self.delivered.insert(number), "{number} came twice");
        }
        self.gone += batch.gone;
        self.skipped += batch.skip.map_or(0, |skip| skip.versions);
    }
}

struct Run {
    world: World,
    consumers: Vec<Consumer>,
    sealed: Vec<u64>,
    is_sealing: bool,
}

impl Run {
    async fn open(&mut self, cursor: usize) -> &mut Consumer {
        let consumer = &mut self.consumers[cursor];
        if consumer.handle.is_none() {
            consumer.handle = Some(self.world.cursor(NAMES[cursor], Start::Now).await);
            consumer.began.get_or_insert(self.world.observed.len());
        }
        consumer
    }

    async fn restart(&mut self, seal: bool) {
        for consumer in &mut self.consumers {
            consumer.handle = None;
            consumer.flight.clear();
        }
        self.is_sealing |= seal;
        self.world.reopen(seal).await;
    }

    /// Stops a commit after some polls, and reads the cursor again.
    async fn kill(&mut self, cursor: usize, batch: usize, polls: u8) {
        let name = NAMES[cursor].parse().unwrap();
        let consumer = &mut self.consumers[cursor];
        // A skip alone does not move the cursor, which would not tell whether it is stored.
        if consumer.flight.iter().all(|batch| batch.skip.is_some()) {
            return;
        }
        let mut flight = std::mem::take(&mut consumer.flight);
        flight.truncate(1 + batch % flight.len());
        while flight.last().is_some_and(|batch| batch.skip.is_some()) {
            flight.pop();
        }
        if flight.is_empty() {
            self.restart(false).await;
            return;
        }
        let mut handle = consumer.handle.take().unwrap();
        for batch in &flight[..flight.len() - 1] {
            handle.commit(batch.through, None).await.unwrap();
        }
        let last = flight.last().unwrap().through;
        {
            let mut commit = pin!(handle.commit(last, None));
            for _ in 0..polls {
                if poll!(&mut commit).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        drop(handle);
        self.restart(false).await;
        let cursors = self.world.feed().cursors().await.unwrap();
        let status = cursors.iter().find(|status| status.name == name).unwrap();
        if status.through < last {
            flight.pop();
        }
        let consumer = &mut self.consumers[cursor];
        for batch in &flight {
            consumer.committed(batch);
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Observe(events) => self.world.observe(events).await,
            Step::Delete(event) => self.world.forget(*event).await,
            Step::Read { cursor, versions } => {
                let limits = Limits {
                    versions: *versions,
                    ..all()
                };
                let consumer = self.open(*cursor).await;
                if consumer.flight.len() < IN_FLIGHT_MAX {
                    let handle = consumer.handle.as_mut().unwrap();
                    let batch = handle.next(limits).await.unwrap();
                    if let Some(batch) = &batch {
                        let found = numbers(batch);
                        assert!(found.is_sorted(), "{found:?}");
                    }
                    consumer.flight.extend(batch);
                }
            }
            Step::Commit { cursor, batch } => {
                let consumer = &mut self.consumers[*cursor];
                if !consumer.flight.is_empty() {
                    // Out of order as well. Only what is durable counts after a restart, so the
                    // others are committed before anything else happens.
                    let at = batch % consumer.flight.len();
                    let handle = consumer.handle.as_mut().unwrap();
                    let mut flight = std::mem::take(&mut consumer.flight);
                    flight.rotate_left(at);
                    for batch in &flight {
                        handle.commit(batch.through, None).await.unwrap();
                    }
                    for batch in &flight {
                        consumer.committed(batch);
                    }
                }
            }
            Step::Kill {
                cursor,
                batch,
                polls,
            } => self.kill(*cursor, *batch, *polls).await,
            Step::Open { seal } => self.restart(*seal).await,
            Step::Seal => {
                let unsealed = self.world.unsealed();
                if let Some(part) = unsealed.next(usize::MAX).await.unwrap() {
                    let versions = part.versions.iter().map(|version| version.number);
                    self.sealed.extend(versions);
                    unsealed.sealed(part.through).await.unwrap();
                }
            }
            Step::Drop(cursor) => {
                let consumer = &mut self.consumers[*cursor];
                consumer.handle = None;
                consumer.flight.clear();
            }
            Step::Pass { days } => self.world.pass(days * DAY),
            Step::Bound { bytes } => {
                // What is in flight may be skipped, and would be counted twice.
                if self
                    .consumers
                    .iter()
                    .all(|consumer| consumer.flight.is_empty())
                {
                    self.world.bound(*bytes).await;
                }
            }
        }
    }

    /// Reads everything, and compares it with what was observed.
    async fn end(&mut self) {
        self.restart(false).await;
        for cursor in 0..NAMES.len() {
            let observed = self.world.observed.len();
            let consumer = self.open(cursor).await;
            let mut handle = consumer.handle.take().unwrap();
            while let Some(batch) = handle.next(all()).await.unwrap() {
                handle.commit(batch.through, None).await.unwrap();
                consumer.committed(&batch);
            }
            let expected = observed - consumer.began.unwrap();
            let delivered = consumer.delivered.len() as u64;
            assert_eq!(
                delivered + consumer.gone + consumer.skipped,
                expected as u64
            );
            if let Some(first) = consumer.delivered.first() {
                assert!(*first > consumer.began.unwrap() as u64);
            }
        }
        for status in self.world.feed().cursors().await.unwrap() {
            assert_eq!((status.versions, status.bytes, status.oldest), (0, 0, None));
        }
        if self.is_sealing {
            self.step(&Step::Seal).await;
            self.sealed.sort_unstable();
            let before = self.sealed.len();
            self.sealed.dedup();
            assert_eq!(self.sealed.len(), before, "a version is sealed twice");
        } else {
            assert_eq!(self.world.entries().await, 0);
        }
        self.world.keeper.store.close().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_version_is_delivered_once_or_counted(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut run = Run {
                world: World::new().await,
                consumers: (0..NAMES.len()).map(|_| Consumer::default()).collect(),
                sealed: Vec::new(),
                is_sealing: false,
            };
            for step in &steps {
                run.step(step).await;
            }
            run.end().await;
        });
    }
}

/// A version has the same occurrences when it is read after its event's name was used again, which
/// moves the event's records.
#[tokio::test]
async fn a_renamed_event_keeps_its_occurrences() {
    let mut world = World::new().await;
    let mut early = world.cursor("early", Start::Now).await;
    let mut late = world.cursor("late", Start::Now).await;
    let mut read = Vec::new();
    for other in [false, false, true] {
        world.deleted.insert(0, u32::from(other));
        world.observe(&[0]).await;
        read.extend(early.next(all()).await.unwrap().unwrap().occurrences);
    }
    assert_eq!(read, [1, 1, 3]);
    let batch = late.next(all()).await.unwrap().unwrap();
    assert_eq!((numbers(&batch), batch.occurrences), (vec![1, 2, 3], read));
}

/// A consumer that stores where a batch ends reads the same batch again, whatever was added.
#[tokio::test]
async fn a_batch_is_read_again_as_it_was() {
    let mut world = World::new().await;
    let mut cursor = world.cursor("one", Start::Now).await;
    world.observe(&[0, 1]).await;
    world.observe(&[0]).await;
    let batch = cursor.next(all()).await.unwrap().unwrap();
    cursor.store("planned".to_owned()).await.unwrap();
    drop(cursor);
    world.observe(&[0, 2]).await;
    world.reopen(false).await;
    let mut cursor = world.cursor("one", Start::Now).await;
    assert_eq!(cursor.state(), "planned");
    let limits = Limits {
        through: Some(batch.through),
        ..all()
    };
    assert_eq!(cursor.next(limits).await.unwrap(), Some(batch.clone()));
    assert_eq!(cursor.next(limits).await.unwrap(), None);
    cursor.commit(batch.through, None).await.unwrap();
    assert_eq!(cursor.state(), "planned");
    let rest = cursor.next(all()).await.unwrap().unwrap();
    assert_eq!(rest.versions.len(), 2);
}

#[tokio::test]
async fn a_cursor_of_the_past_reads_the_history_and_then_the_feed() {
    let mut world = World::new().await;
    world.observe(&[0, 1, 0, 2]).await;
    world.pass(DAY);
    let later = world.clock.now().0;
    world.observe(&[0, 3]).await;
    let one = Limits {
        versions: 1,
        ..all()
    };
    let mut found = Vec::new();
    let mut cursor = world.cursor("past", Start::Oldest).await;
    let mut batches = 0;
    // The process ends after each batch. Versions are observed meanwhile.
    loop {
        let Some(batch) = cursor.next(one).await.unwrap() else {
            break;
        };
        let reached = cursor
            .commit(batch.through, Some(batches.to_string()))
            .await;
        assert_eq!(reached.unwrap(), batch.through);
        let of_history = matches!(batch.through, Offset::History(_));
        assert!(of_history || batches >= 3, "{batch:?}");
        found.extend(numbers(&batch));
        drop(cursor);
        if batches == 0 {
            world.observe(&[1]).await;
        }
        world.reopen(false).await;
        cursor = world.cursor("past", Start::Now).await;
        assert_eq!(cursor.state(), batches.to_string());
        batches += 1;
    }
    // The version that was observed meanwhile came twice: in the history and in the feed.
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 7]);
    let mut since = world.cursor("since", Start::Since(UnixMillis(later))).await;
    let mut found = drain(&mut *since, all()).await;
    found.sort_unstable();
    assert_eq!(found, [5, 6, 7]);
    drop((cursor, since));
    world.keeper.store.close().await;
}

#[tokio::test]
async fn gaps_are_delivered_before_what_was_observed_after_them() {
    let mut world = World::new().await;
    let mut cursor = world.cursor("one", Start::Now).await;
    world.observe(&[0]).await;
    let gap = cluster_gap(START + 1, START + 2, Cause::Compacted);
    let with = With {
        gap: Some(&gap),
        ..With::default()
    };
    world.observe_with(&[1, 2], with).await;
    world.observe_with(&[], with).await;
    let mut told = Vec::new();
    while let Some(batch) = cursor.next(all()).await.unwrap() {
        told.push((batch.gaps.len(), numbers(&batch)));
        cursor.commit(batch.through, None).await.unwrap();
    }
    assert_eq!(told, [(0, vec![1]), (1, vec![2, 3]), (1, vec![])]);
    assert_eq!(world.entries().await, 0);
    let left = ListRequest::prefix(keys::FEED_GAPS);
    assert_eq!(world.keeper.store.list(left).await.unwrap().records, []);
    drop(cursor);
    world.keeper.store.close().await;
}

#[tokio::test]
async fn a_cursor_that_is_too_far_behind_skips_and_is_told() {
    for by_age in [true, false] {
        let mut world = World::new().await;
        drop(world.cursor("dead", Start::Now).await);
        let mut live = world.cursor("live", Start::Now).await;
        for _ in 0..3 {
            world.observe(&[0, 1]).await;
        }
        drain(&mut *live, all()).await;
        assert_eq!(world.entries().await, 3);
        let first = UnixMillis(START);
        if by_age {
            world.pass(6 * DAY);
            world.bound(BACKLOG_BYTES_MAX).await;
            assert_eq!(world.entries().await, 3);
            world.observe(&[2]).await;
            world.pass(2 * DAY);
            world.bound(BACKLOG_BYTES_MAX).await;
        } else {
            world.observe(&[2]).await;
            world.bound(100).await;
        }
        drain(&mut *live, all()).await;
        assert_eq!(world.entries().await, 1);
        world.reopen(false).await;
        let status = world.feed().cursors().await.unwrap().remove(0);
        assert_eq!((status.versions, status.skipped), (1, 6));
        // It is told again until the batch is committed.
        for _ in 0..2 {
            let mut dead = world.cursor("dead", Start::Now).await;
            let batch = dead.next(all()).await.unwrap().unwrap();
            let skip = batch.skip.unwrap();
            assert_eq!((skip.versions, skip.from), (6, first));
            assert_eq!(numbers(&batch), [7]);
        }
        let mut dead = world.cursor("dead", Start::Now).await;
        drain(&mut *dead, all()).await;
        world.observe(&[3]).await;
        assert_eq!(dead.next(all()).await.unwrap().unwrap().skip, None);
        drop((dead, live));
        world.keeper.store.close().await;
    }
}

/// What had the numbers may have expired before the bound is checked.
#[tokio::test]
async fn a_bound_that_moves_a_cursor_tells_of_numbers_without_an_entry_too() {
    let mut world = World::new().await;
    drop(world.cursor("dead", Start::Now).await);
    for _ in 0..4 {
        world.observe(&[0]).await;
    }
    for number in 0..2 {
        let entry = keys::unsealed(number);
        world.keeper.store.delete(entry, None).await.unwrap();
    }
    world.reopen(false).await;
    world.bound(1).await;
    let status = world.feed().cursors().await.unwrap().remove(0);
    assert_eq!((status.versions, status.skipped), (0, 4));
    // Numbers without an entry after those that the bound skipped are told with them.
    for _ in 0..2 {
        world.observe(&[0]).await;
    }
    let entry = keys::unsealed(4);
    world.keeper.store.delete(entry, None).await.unwrap();
    let mut dead = world.cursor("dead", Start::Now).await;
    let batch = dead.next(all()).await.unwrap().unwrap();
    assert_eq!(
        (batch.skip.unwrap().versions, numbers(&batch)),
        (4 + 1, vec![6])
    );
    drop(dead);
    world.keeper.store.close().await;
}

/// A short retention ends versions before a receiver is back.
#[tokio::test]
async fn a_backlog_whose_first_versions_are_gone_has_an_age() {
    let mut world = World::new().await;
    let mut cursor = world.cursor("one", Start::Now).await;
    world.observe(&[0]).await;
    drain(&mut *cursor, all()).await;
    world.pass(DAY);
    let now = world.clock.now();
    for event in [1, 2] {
        world.observe(&[event]).await;
    }
    for (gone, expected) in [
        (None, now),
        (Some(1), UnixMillis(START)),
        (Some(2), UnixMillis(START)),
    ] {
        if let Some(gone) = gone {
            world.forget(gone).await;
        }
        let status = world.feed().cursors().await.unwrap().remove(0);
        assert_eq!(
            (status.versions, status.oldest),
            (2, Some(expected)),
            "{gone:?}"
        );
    }
    drop(cursor);
    world.keeper.store.close().await;
}

/// A former program knows no named cursors, and deletes what it sealed.
#[tokio::test]
async fn what_another_program_deleted_is_skipped() {
    let mut world = World::new().await;
    world.reopen(true).await;
    drop(world.cursor("one", Start::Now).await);
    for _ in 0..4 {
        world.observe(&[0]).await;
    }
    let store = Arc::clone(&world.keeper.store);
    let delete = |number| Write::delete(keys::unsealed(number));
    // It was sealed before, so the mark is not written.
    store.write_all(vec![delete(0), delete(1)]).await.unwrap();
    world.reopen(true).await;
    let mut cursor = world.cursor("one", Start::Now).await;
    let batch = cursor.next(all()).await.unwrap().unwrap();
    assert_eq!(
        (batch.skip.unwrap().versions, numbers(&batch)),
        (2, vec![3, 4])
    );
    cursor.commit(batch.through, None).await.unwrap();
    drop(cursor);
    // It seals, and writes the mark. Its numbers may have begun again.
    drop(store);
    let store = Arc::clone(&world.keeper.store);
    let mark = Write::put(keys::SEALED, NewRecord::new("9"));
    let entry = store.get(keys::unsealed(3)).await.unwrap().unwrap();
    let again = Write::put(keys::unsealed(1), NewRecord::new(entry.value));
    store.write_all(vec![mark, again]).await.unwrap();
    drop(store);
    for _ in 0..2 {
        world.reopen(true).await;
        let mut cursor = world.cursor("one", Start::Now).await;
        let batch = cursor.next(all()).await.unwrap().unwrap();
        assert_eq!(numbers(&batch), [4, 3, 4]);
        assert!(batch.skip.is_some());
    }
    world.keeper.store.close().await;
}

/// What is kept already is given to the sealer, and is nothing new for a cursor.
#[tokio::test]
async fn a_cursor_is_not_disturbed_when_sealing_begins() {
    let mut world = World::new().await;
    world.observe(&[0, 1]).await;
    drop(world.cursor("one", Start::Now).await);
    world.observe(&[2]).await;
    assert_eq!(world.unsealed().waiting(), None);
    for _ in 0..2 {
        world.reopen(true).await;
        assert_eq!(world.unsealed().waiting(), Some(3));
    }
    world.observe(&[0]).await;
    let part = world.unsealed().next(usize::MAX).await.unwrap().unwrap();
    let mut sealed: Vec<_> = part.versions.iter().map(|it| it.number).collect();
    sealed.sort_unstable();
    assert_eq!((sealed, part.gone), (vec![1, 2, 3, 4], 0));
    world.unsealed().sealed(part.through).await.unwrap();
    let mut cursor = world.cursor("one", Start::Now).await;
    assert_eq!(drain(&mut *cursor, all()).await, [3, 4]);
    drop(cursor);
    world.keeper.store.close().await;
}

#[tokio::test]
async fn limits_of_a_feed_are_errors() {
    let mut world = World::new().await;
    world.observe(&[0]).await;
    assert_eq!(world.entries().await, 0, "nobody reads");
    let feed = world.feed();
    let name = |number: usize| format!("cursor-{number}").parse().unwrap();
    let mut cursor = feed.cursor(name(0), Start::Now).await.unwrap();
    assert!(cursor.next(all()).await.unwrap().is_none());
    let again = feed.cursor(name(0), Start::Now).await;
    assert!(matches!(again, Err(FeedError::InUse(_))));
    for number in 1..CURSORS_MAX {
        feed.cursor(name(number), Start::Now).await.unwrap();
    }
    let beyond = feed.cursor(name(CURSORS_MAX), Start::Now).await;
    assert!(matches!(beyond, Err(FeedError::TooMany)));
    let nothing = cursor.commit(Offset::Entry(7), None).await;
    assert!(matches!(nothing, Err(FeedError::NotRead(_))));
    let one = Limits {
        versions: 1,
        ..all()
    };
    for _ in 0..=IN_FLIGHT_MAX {
        world.observe(&[1]).await;
    }
    let mut flight = Vec::new();
    for _ in 0..IN_FLIGHT_MAX {
        flight.push(cursor.next(one).await.unwrap().unwrap().through);
    }
    assert!(matches!(cursor.next(one).await, Err(FeedError::InFlight)));
    let long = cursor.commit(flight[0], Some("x".repeat(5000))).await;
    assert!(matches!(long, Err(FeedError::LongState(5000))));
    // The durable cursor never passes a batch that is not committed.
    let state = |state: &str| Some(state.to_owned());
    let begin = cursor.commit(flight[1], state("later")).await.unwrap();
    assert!(begin < flight[0]);
    assert_eq!(
        cursor.state(),
        "",
        "the state of a batch that is not passed"
    );
    let reached = cursor.commit(flight[0], state("first")).await.unwrap();
    assert_eq!((reached, cursor.state()), (flight[1], "later"));
    for number in 1..CURSORS_MAX {
        assert!(feed.remove(name(number)).await.unwrap());
    }
    assert!(!feed.remove(name(1)).await.unwrap());
    assert_eq!(world.entries().await, IN_FLIGHT_MAX + 1 - 2);
    cursor.changed().await;
    assert!(feed.remove(name(0)).await.unwrap());
    // Another cursor with its name is not its cursor.
    drop(feed.cursor(name(0), Start::Now).await.unwrap());
    assert!(matches!(cursor.next(one).await, Err(FeedError::Removed(_))));
    drop(cursor);
    assert!(feed.remove(name(0)).await.unwrap());
    assert_eq!(world.entries().await, 0);
    assert_eq!(feed.cursors().await.unwrap(), []);
    world.keeper.store.close().await;
}

/// The sealer's entries and those of a slow cursor are kept for each other.
#[tokio::test]
async fn what_is_sealed_stays_for_a_cursor() {
    let mut world = World::new().await;
    world.reopen(true).await;
    drop(world.cursor("one", Start::Now).await);
    for round in 1..=3 {
        world.observe(&[0]).await;
        let part = world.unsealed().next(usize::MAX).await.unwrap().unwrap();
        for _ in 0..2 {
            world.unsealed().sealed(part.through).await.unwrap();
        }
        assert_eq!(world.entries().await, round);
    }
    let mut cursor = world.cursor("one", Start::Now).await;
    assert_eq!(drain(&mut *cursor, all()).await, [1, 2, 3]);
    // Those of the last seal stay for readers.
    assert_eq!(world.entries().await, 1);
    let key = Bytes::from_static(keys::SEALED);
    let mark = world.keeper.store.get(key).await.unwrap().unwrap();
    assert_eq!(&mark.value[..], b"3");
    drop(cursor);
    world.keeper.store.close().await;
}
