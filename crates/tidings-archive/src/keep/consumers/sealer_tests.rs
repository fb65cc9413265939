//! Every version is given to the sealer once, in whatever order things happen.

mod clocks;
mod former;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use tidings_history::Version;
use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{
    Expected, Index, ListRequest, NewRecord, Store, UnixMillis, Write, WriteError,
};
use tidings_testing::{copy_folder, unpack_folder};

use super::continuation::{self, Continued, Continues};
use super::manifests::Commit;
use super::sealer::Unsealed;
use crate::keep::coverage::Position;
use crate::keep::feed::Cursor;
use crate::keep::feed::SealedBefore;
use crate::keep::feed::{Item, Journal};
use crate::keep::keys;
use crate::keep::versions::{Batch, Keeper, Observation, Tries, With};
use crate::version::record::Record;

const START: i64 = 1_700_000_000_000;
const EVENTS: u8 = 4;

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// Observes events in one batch: by their names, and which event of that name it is.
    Observe(Vec<(u8, u8)>),
    /// Seals what waits up to a number of bytes. The process may end before the entries are
    /// removed.
    Seal { bytes: usize, is_killed: bool },
    /// Fails to seal what waits, after it was read.
    Fail { bytes: usize },
    /// Another program opens the store, which knows no cursor: see [`World::use_formerly`].
    Former { bytes: usize, seal: Formerly },
    /// Reads what waits, up to a number of bytes at a time, by a reader that knows what was sealed
    /// when it last looked.
    Read { bytes: usize },
    /// Opens the store again, to be sealed or not.
    Open { seal: bool },
    /// Loses the store, and a new one continues what is sealed. The source may have forgotten what
    /// it wrote since, so that it can only be listed.
    Lose { is_listed: bool },
    /// Makes a copy of the store.
    Copy,
    /// Loses the store, and one of its copies continues what was sealed since.
    Restore { copy: usize, is_listed: bool },
}

/// How far a former program's seal gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formerly {
    /// It seals nothing.
    No,
    /// It reads what waits, and cannot write it.
    Fails,
    /// It is killed before it removes entries.
    IsKilled,
    Seals,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec((0..EVENTS, 0..2_u8), 1..60).prop_map(Step::Observe),
        2 => (0..20_000_usize, any::<bool>())
            .prop_map(|(bytes, is_killed)| Step::Seal { bytes, is_killed }),
        1 => (0..20_000_usize).prop_map(|bytes| Step::Fail { bytes }),
        1 => (0..20_000_usize, 0..4_u8).prop_map(|(bytes, seal)| Step::Former {
            bytes,
            seal: [
                Formerly::No,
                Formerly::Fails,
                Formerly::IsKilled,
                Formerly::Seals
            ][usize::from(seal)],
        }),
        2 => (1..20_000_usize).prop_map(|bytes| Step::Read { bytes }),
        1 => any::<bool>().prop_map(|seal| Step::Open { seal }),
        1 => any::<bool>().prop_map(|is_listed| Step::Lose { is_listed }),
        1 => Just(Step::Copy),
        1 => (any::<usize>(), any::<bool>())
            .prop_map(|(copy, is_listed)| Step::Restore { copy, is_listed }),
    ];
    prop::collection::vec(step, 1..24)
}

fn observation(name: u8, which: u8, version: u64) -> Observation {
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some(format!("event-{name}")),
            namespace: Some("shop".into()),
            uid: Some(format!("uid-{name}-{which}")),
            ..ObjectMeta::default()
        }),
        message: Some(format!("{version} {}", "x".repeat(usize::from(name) * 100))),
        ..Event::default()
    };
    Observation {
        event,
        number: version,
        is_gone: false,
    }
}

fn temporary() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.unwrap()
}

struct World {
    keeper: Arc<Keeper>,
    clock: ManualClock,
    folder: tempfile::TempDir,
    position: Position,
    /// What the source wrote: by version, the name, and which event of that name it is.
    observed: BTreeMap<u64, (u8, u8)>,
    sealed: Vec<u64>,
    through: u64,
    /// The positions of what is sealed.
    positions: Vec<(String, Position)>,
    reader: Reader,
    copies: Vec<Copy>,
    /// Whether a former program deleted entries, perhaps without a note. Then a seal may have to
    /// move the cursor before a reader gets the rest.
    is_torn: bool,
}

/// A copy of a store, and the versions that it has.
struct Copy {
    folder: tempfile::TempDir,
    has: Vec<u64>,
}

/// What a reader of waiting versions knows.
#[derive(Default)]
struct Reader {
    /// The versions that were sealed when it last looked, and those that waited then.
    versions: Vec<u64>,
    /// The entry that it has read up to.
    reached: u64,
}

impl World {
    async fn open(folder: &std::path::Path, clock: &ManualClock, seal: bool) -> Arc<Keeper> {
        let mut options = EmbeddedOptions::default();
        options.clock = Arc::new(clock.clone());
        options.expire_by_itself = false;
        options.free_space_min = 0;
        let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
        let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
        let mut keeper = Keeper::new(store, Arc::new(clock.clone()), keep_for, false);
        keeper.journal = Journal::open(&keeper, seal).await.unwrap();
        if let Some(sealed) = SealedBefore::read(&*keeper.store).await.unwrap() {
            keeper.set_sealed_before(sealed);
        }
        Arc::new(keeper)
    }

    async fn new() -> Self {
        let folder = temporary();
        let clock = ManualClock::at(UnixMillis(START));
        Self {
            keeper: Self::open(folder.path(), &clock, false).await,
            clock,
            folder,
            position: Position::default(),
            observed: BTreeMap::new(),
            sealed: Vec::new(),
            through: 0,
            positions: Vec::new(),
            reader: Reader::default(),
            copies: Vec::new(),
            is_torn: false,
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Observe(events) => {
                let first = self.position.latest + 1;
                self.observed.extend((first..).zip(events.iter().copied()));
                let new: Vec<_> = (first..).take(events.len()).collect();
                self.observe(&new).await;
            }
            Step::Seal { bytes, is_killed } => self.seal(*bytes, *is_killed).await,
            Step::Fail { bytes } => drop(self.unsealed().next(*bytes).await.unwrap()),
            Step::Former { bytes, seal } => self.use_formerly(*bytes, *seal).await,
            Step::Read { bytes } => self.read(*bytes).await,
            Step::Open { seal } => self.reopen(*seal).await,
            Step::Lose { is_listed } => self.lose(None, *is_listed).await,
            Step::Copy => {
                self.reopen(true).await;
                let folder = temporary();
                copy_folder(self.folder.path(), folder.path());
                let has = self.observed.keys().copied().collect();
                self.copies.push(Copy { folder, has });
            }
            Step::Restore { copy, is_listed } if !self.copies.is_empty() => {
                let copy = copy % self.copies.len();
                self.lose(Some(copy), *is_listed).await;
            }
            Step::Restore { .. } => {}
        }
    }

    /// Observes versions of the source.
    async fn observe(&mut self, versions: &[u64]) {
        let observations = versions.iter().map(|version| {
            let (name, which) = self.observed[version];
            observation(name, which, *version)
        });
        let observations: Vec<_> = observations.collect();
        let latest = self.observed.keys().max().copied();
        self.position.latest = latest.unwrap_or(0);
        self.position.version = Some(self.position.latest);
        let mut position = self.position.clone();
        let kept = self
            .keeper
            .keep(&observations, "", &mut position, With::default());
        kept.await.unwrap();
        self.position = position;
    }

    /// Loses the store. A new one, or one of its copies, takes its place.
    async fn lose(&mut self, copy: Option<usize>, is_listed: bool) {
        self.folder = temporary();
        let mut has = Vec::new();
        if let Some(copy) = copy.and_then(|copy| self.copies.get(copy)) {
            copy_folder(copy.folder.path(), self.folder.path());
            has.clone_from(&copy.has);
        }
        self.reopen(true).await;
        let through = self.positions.first();
        let through = through.and_then(|(_, position)| position.version);
        let beyond = self
            .sealed
            .iter()
            .filter(|sealed| **sealed > through.unwrap_or(0));
        let beyond = beyond.map(|sealed| {
            let (name, which) = self.observed[sealed];
            (format!("uid-{name}-{which}"), 0, *sealed)
        });
        let sealed = self.sealed.iter().copied();
        let end = sealed
            .filter(|sealed| *sealed <= through.unwrap_or(0))
            .max();
        let continued = Continued {
            writer: "former".to_owned(),
            archive: None,
            positions: self.positions.clone(),
            ends: end
                .map(|end| (String::new(), (0, end)))
                .into_iter()
                .collect(),
            sealed_beyond: beyond.collect(),
            ..Continued::default()
        };
        // A copy has the identity of the lost store.
        let identity = copy.map_or("new", |_| "former");
        let begun = continuation::continue_archive(&self.keeper, identity, &continued).await;
        let Continues::As(begun) = begun.unwrap() else {
            panic!("it does not continue");
        };
        assert_ne!(begun, identity);
        // Another store has numbers of its own; a copy has those of its journal.
        let keeper = Arc::clone(&self.keeper);
        self.through = Unsealed { keeper }.first();
        self.look();
        self.reopen(true).await;
        let position = self.keeper.position("").await.unwrap();
        self.position = position.unwrap_or_default();
        let events = self
            .observed
            .iter()
            .map(|(version, (name, _))| (*name, *version));
        let living: BTreeSet<_> = events.collect::<BTreeMap<_, _>>().into_values().collect();
        if is_listed {
            // Copies may have versions that are now in a gap.
            self.copies.clear();
            self.observed.retain(|version, _| {
                let known = [&self.sealed, &has];
                known.iter().any(|known| known.contains(version)) || living.contains(version)
            });
        }
        let since = self.position.version.map_or(0, |version| version + 1);
        let versions = self.observed.keys().copied();
        let versions = versions.filter(|version| {
            if is_listed {
                living.contains(version)
            } else {
                *version >= since
            }
        });
        let versions: Vec<_> = versions.collect();
        self.observe(&versions).await;
    }

    fn unsealed(&self) -> Unsealed {
        Unsealed {
            keeper: Arc::clone(&self.keeper),
        }
    }

    /// Does what a program did that knew no cursor. It read all entries, and deleted them as soon
    /// as they were sealed. It wrote the mark alone.
    async fn use_formerly(&mut self, bytes: usize, seal: Formerly) {
        let store = Arc::clone(&self.keeper.store);
        let delete = async |through: u64| {
            let request = ListRequest::prefix(keys::UNSEALED);
            for entry in store.list(request).await.unwrap().records {
                if keys::unsealed_number(&entry.key).unwrap() < through {
                    store.delete(entry.key, None).await.unwrap();
                }
            }
        };
        let mark = store.get(Bytes::from_static(keys::SEALED)).await.unwrap();
        if seal != Formerly::No && mark.is_some() {
            self.is_torn = true;
            delete(self.through).await;
            *self.keeper.journal.cursor() = Cursor::at(self.through);
            let part = self.unsealed().next(bytes).await.unwrap();
            if let Some(part) = part {
                let mark = NewRecord::new(part.through.to_string());
                let mark = Write::put(keys::SEALED, mark);
                store.write_all(vec![mark]).await.unwrap();
                if seal != Formerly::Fails {
                    let versions = part.versions.iter().map(|version| version.number);
                    self.sealed.extend(versions);
                    self.through = part.through;
                    if !part.positions.is_empty() {
                        self.positions = part.positions;
                    }
                }
                if seal == Formerly::Seals {
                    delete(self.through).await;
                }
            }
        }
        if seal == Formerly::No {
            // A folder that it wrote has none.
            let _ = store.delete(Bytes::from_static(keys::FEED), None).await;
        }
        drop(store);
        self.reopen(true).await;
    }

    async fn seal(&mut self, bytes: usize, is_killed: bool) {
        let unsealed = self.unsealed();
        unsealed.sealed(self.through).await.unwrap();
        let Some(part) = unsealed.next(bytes).await.unwrap() else {
            return;
        };
        assert_eq!(part.gone, 0);
        assert!(part.through > self.through);
        self.sealed
            .extend(part.versions.iter().map(|version| version.number));
        self.through = part.through;
        if !part.positions.is_empty() {
            self.positions = part.positions;
        }
        if !is_killed {
            unsealed.sealed(self.through).await.unwrap();
        }
    }

    /// Reads what waits after what is known. It must be everything, once, and the positions with it
    /// must not go further.
    async fn read(&mut self, bytes: usize) {
        let unsealed = Unsealed {
            keeper: Arc::clone(&self.keeper),
        };
        if unsealed.waiting().is_none() {
            let part = unsealed.waiting_from(0, None, bytes).await.unwrap();
            assert!(part.is_none());
            return;
        }
        loop {
            let from = self.reader.reached;
            let part = unsealed.waiting_from(from, None, bytes).await.unwrap();
            let Some(part) = part else {
                self.look();
                if self.reader.reached == from {
                    assert!(self.is_torn, "what is known is enough");
                    self.seal(usize::MAX, false).await;
                    self.look();
                    if self.reader.reached == from {
                        // Nothing waits.
                        break;
                    }
                }
                continue;
            };
            assert_eq!(part.gone, 0);
            let versions = part.versions.iter().map(|version| version.number);
            // The same is read again with the known end.
            let to = Some(part.through);
            let again = unsealed.waiting_from(from, to, usize::MAX).await.unwrap();
            let again = again.unwrap();
            assert_eq!(
                (again.versions, again.through),
                (part.versions.clone(), part.through)
            );
            self.reader.versions.extend(versions);
            self.reader.reached = part.through;
            assert!(part.is_whole || part.positions.is_empty());
            if part.is_whole {
                break;
            }
        }
        let mut versions = self.reader.versions.clone();
        versions.sort_unstable();
        let all: Vec<_> = self.observed.keys().copied().collect();
        assert_eq!(versions, all);
    }

    fn look(&mut self) {
        self.reader = Reader {
            versions: self.sealed.clone(),
            reached: self.through,
        };
    }

    async fn reopen(&mut self, seal: bool) {
        self.keeper.store.close().await;
        self.keeper = Self::open(self.folder.path(), &self.clock, seal).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_version_is_told_once(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in &steps {
                world.step(step).await;
            }
            world.reopen(true).await;
            let mut before = usize::MAX;
            while before != world.sealed.len() {
                before = world.sealed.len();
                world.seal(usize::MAX, false).await;
            }
            world.sealed.sort_unstable();
            let all: Vec<_> = world.observed.keys().copied().collect();
            assert_eq!(world.sealed, all);
            world.keeper.store.close().await;
        });
    }
}

/// Observes one event.
fn observe() -> Step {
    Step::Observe(vec![(0, 0)])
}

/// Seals everything.
fn seal(is_killed: bool) -> Step {
    Step::Seal {
        bytes: usize::MAX,
        is_killed,
    }
}

/// A number of zero would be sealed, and the entry deleted.
#[tokio::test]
async fn an_entry_with_another_key_is_an_error_and_stays() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&observe()).await;
    let key = Bytes::from([keys::UNSEALED, b"x"].concat());
    let write = Write::put(key.clone(), NewRecord::new("[]"));
    world.keeper.store.write_all(vec![write]).await.unwrap();
    let keeper = Arc::clone(&world.keeper);
    let sealed = Unsealed { keeper }.sealed(1).await.unwrap_err();
    assert!(sealed.to_string().contains("damaged"), "{sealed}");
    assert!(world.keeper.store.get(key).await.unwrap().is_some());
}

/// What was sealed when the process was killed has expired when it starts again. Its numbers must
/// not be used for other entries, which would be taken for sealed.
#[tokio::test]
async fn numbers_of_what_was_sealed_are_not_used_again() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&observe()).await;
    world.step(&seal(true)).await;
    world.clock.advance(2 * 3_600_000);
    world.keeper.store.expire().await.unwrap();
    world.reopen(true).await;
    world.step(&observe()).await;
    world.step(&seal(false)).await;
    assert_eq!(world.sealed, [1, 2]);
    world.keeper.store.close().await;
}

/// The journal of a copy does not begin at zero. It states where it begins, so that readers find
/// the rest.
#[tokio::test]
async fn pending_versions_of_a_restored_copy_are_read_from_its_first_entry_on() {
    let mut world = World::new().await;
    world.reopen(true).await;
    for step in [observe(), seal(false), Step::Copy, observe()] {
        world.step(&step).await;
    }
    let restore = Step::Restore {
        copy: 0,
        is_listed: false,
    };
    world.step(&restore).await;
    world.step(&Step::Read { bytes: usize::MAX }).await;
    assert_eq!(world.reader.versions, [1, 2]);
    world.keeper.store.close().await;
}

/// The versions that are returned from an entry on, and the entry after them.
async fn told(world: &World, from: u64) -> Option<(Vec<u64>, u64)> {
    let unsealed = Unsealed {
        keeper: Arc::clone(&world.keeper),
    };
    let part = unsealed.waiting_from(from, None, usize::MAX).await;
    let part = part.unwrap()?;
    let versions = part.versions.iter().map(|version| version.number);
    Some((versions.collect(), part.through))
}

/// A reader that asks for them after they are sealed would otherwise find them in a file, among
/// others that it knows.
#[tokio::test]
async fn what_the_last_seal_took_is_told_until_the_next_one() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&observe()).await;
    world.step(&seal(false)).await;
    assert_eq!(told(&world, 0).await, Some((vec![1], 1)));
    world.step(&observe()).await;
    assert_eq!(told(&world, 0).await, Some((vec![1, 2], 2)));
    world.step(&seal(false)).await;
    assert_eq!(told(&world, 0).await, None);
    assert_eq!(told(&world, 1).await, Some((vec![2], 2)));
    // A seal that finds nothing removes nothing.
    world.step(&seal(false)).await;
    assert_eq!(told(&world, 1).await, Some((vec![2], 2)));
    // It is not known that they are sealed until later.
    world.step(&observe()).await;
    world.step(&seal(true)).await;
    assert_eq!(told(&world, 1).await, Some((vec![2, 3], 3)));
    world.step(&seal(false)).await;
    assert_eq!(told(&world, 1).await, None);
    assert_eq!(told(&world, 2).await, Some((vec![3], 3)));
    // They are neither sealed nor counted again.
    assert_eq!(world.sealed, [1, 2, 3]);
    let unsealed = Unsealed {
        keeper: Arc::clone(&world.keeper),
    };
    assert_eq!(unsealed.waiting(), Some(0));
    drop(unsealed);
    // Nor are they forgotten, or counted, when the process ends.
    world.reopen(true).await;
    let keeper = Arc::clone(&world.keeper);
    assert_eq!(Unsealed { keeper }.waiting(), Some(0));
    assert_eq!(told(&world, 1).await, None);
    assert_eq!(told(&world, 2).await, Some((vec![3], 3)));
    world.step(&observe()).await;
    assert_eq!(told(&world, 2).await, Some((vec![3, 4], 4)));
    world.step(&seal(false)).await;
    assert_eq!(told(&world, 2).await, None);
    assert_eq!(told(&world, 3).await, Some((vec![4], 4)));
    assert_eq!(world.sealed, [1, 2, 3, 4]);
    world.keeper.store.close().await;
}

/// A file may have what was read to be sealed, though it is not known that it was written.
#[tokio::test]
async fn what_was_read_to_be_sealed_is_told_with_each_version_or_not() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&observe()).await;
    world.step(&Step::Observe(vec![(1, 0)])).await;
    world.step(&Step::Fail { bytes: usize::MAX }).await;
    world.step(&Step::Observe(vec![(2, 0)])).await;
    assert_eq!(told(&world, 0).await, Some((vec![1, 2, 3], 3)));
    let key = keys::event("shop", "event-0");
    world.keeper.forget(key, None).await.unwrap();
    assert_eq!(told(&world, 0).await, None);
    assert_eq!(told(&world, 1).await, Some((vec![2, 3], 3)));
    world.keeper.store.close().await;
}

/// The process ended before it noted what it sealed, or a former program sealed it.
#[tokio::test]
async fn what_may_be_sealed_is_told_with_each_version_or_not() {
    for formerly in [false, true] {
        let mut world = World::new().await;
        world.reopen(true).await;
        world.step(&observe()).await;
        world.step(&Step::Observe(vec![(1, 0)])).await;
        if formerly {
            let (bytes, seal) = (usize::MAX, Formerly::Seals);
            world.step(&Step::Former { bytes, seal }).await;
            assert_eq!(told(&world, 0).await, None);
            assert_eq!(told(&world, 2).await, Some((vec![], 2)));
        } else {
            world.step(&seal(true)).await;
            world.reopen(true).await;
            assert_eq!(told(&world, 0).await, Some((vec![1, 2], 2)));
            let key = keys::event("shop", "event-0");
            world.keeper.forget(key, None).await.unwrap();
            assert_eq!(told(&world, 0).await, None);
        }
        world.keeper.store.close().await;
    }
}

/// Numbers that have no entry would be taken for entries that are missing.
#[tokio::test]
async fn a_refused_commit_takes_no_number() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&observe()).await;
    let (keeper, item) = (Arc::clone(&world.keeper), |number| {
        let (key, uid) = ("shop/event-0".to_owned(), "uid-0-0".to_owned());
        Item {
            key,
            uid,
            record: 0,
            epoch: 0,
            from: number,
            to: number,
        }
    });
    let journal = &keeper.journal;
    let (now, refused) = (UnixMillis(START), WriteError::NotFound);
    let end = Some(UnixMillis(START + 1000));
    for is_followed in [false, true] {
        let before = journal.next.load(Ordering::Relaxed);
        let mut writes = Vec::new();
        let items = [item(7), item(8)];
        let one = journal.tell((&items, &[]), end, now, &mut writes).await;
        if is_followed {
            let mut writes = Vec::new();
            drop(journal.tell((&[item(1)], &[]), end, now, &mut writes).await);
            keeper.store.write_all(writes).await.unwrap();
        }
        journal.take_back(&keeper.store, one, &refused).await;
        let taken = if is_followed { 2 } else { 0 };
        assert_eq!(journal.next.load(Ordering::Relaxed), before + taken);
    }
    assert_eq!(world.unsealed().waiting(), Some(2));
    let number = journal.next.load(Ordering::Relaxed);
    world.step(&seal(false)).await;
    // Numbers 0 and 2 name the version, and 1 none.
    assert_eq!(told(&world, 0).await, Some((vec![1, 1], number)));
    // A commit that another writer forestalls.
    let mut batch = Batch::default();
    let record = Record::new(Version {
        uid: "uid-9".into(),
        epoch: 0,
        number: 9,
        observed_at: now,
        event: Bytes::new(),
    });
    let key = keys::event("shop", "event-9");
    let slot = keeper.slot(&key, &mut batch).await.unwrap();
    slot.change(record, Index::default(), UnixMillis(START + 1000));
    batch.unsealed.push(item(9));
    let stale = Write::put(key, NewRecord::new("")).expecting(Expected::At(u64::MAX));
    let mut tries = Tries::default();
    let committed = keeper.commit(&batch, vec![stale], &mut tries).await;
    assert!(!committed.unwrap());
    assert_eq!(journal.next.load(Ordering::Relaxed), number);
    world.keeper.store.close().await;
}

/// A file has the missing version, which the reader would not learn about.
#[tokio::test]
async fn what_is_sealed_is_told_with_each_version_or_not() {
    let mut world = World::new().await;
    world.reopen(true).await;
    let observe = |name: u8| Step::Observe(vec![(name, 0)]);
    let forget = async |world: &World, name: u8| {
        let key = keys::event("shop", &format!("event-{name}"));
        world.keeper.forget(key, None).await.unwrap();
    };
    world.step(&observe(0)).await;
    world.step(&observe(1)).await;
    world.seal(usize::MAX, false).await;
    world.step(&observe(2)).await;
    assert_eq!(told(&world, 0).await, Some((vec![1, 2, 3], 3)));
    forget(&world, 0).await;
    assert_eq!(told(&world, 0).await, None);
    assert_eq!(told(&world, 1).await, Some((vec![2, 3], 3)));
    // No file has the versions that wait.
    forget(&world, 2).await;
    assert_eq!(told(&world, 1).await, Some((vec![2], 3)));
    world.clock.advance(2 * 3_600_000);
    world.keeper.store.expire().await.unwrap();
    assert_eq!(told(&world, 1).await, None);
    assert_eq!(told(&world, 2).await, Some((vec![], 3)));
    world.keeper.store.close().await;
}

/// Versions of one event that were observed together are read together.
#[tokio::test]
async fn each_version_that_is_gone_is_counted() {
    let mut world = World::new().await;
    world.reopen(true).await;
    let together = vec![(0, 0), (1, 0), (0, 0), (0, 0)];
    world.step(&Step::Observe(together)).await;
    let key = keys::event("shop", "event-0");
    world.keeper.forget(key, None).await.unwrap();
    let unsealed = Unsealed {
        keeper: Arc::clone(&world.keeper),
    };
    let part = unsealed.next(usize::MAX).await.unwrap().unwrap();
    assert_eq!((part.versions.len(), part.gone), (1, 3));
    world.keeper.store.close().await;
}

/// Sealed files may have versions of it, whether a user or an import deletes it.
#[tokio::test]
async fn an_event_that_is_deleted_is_told_until_no_file_has_it() {
    let mut world = World::new().await;
    let forget = async |world: &World, name: u8| {
        let key = keys::event("shop", &format!("event-{name}"));
        world.keeper.forget(key, None).await.unwrap();
    };
    let told = async |world: &World| {
        let unsealed = Unsealed {
            keeper: Arc::clone(&world.keeper),
        };
        let told = unsealed.unerased(None, 100).await.unwrap();
        (unsealed, told)
    };
    let four = Step::Observe(vec![(0, 0), (1, 0), (2, 0), (3, 0)]);
    world.step(&four).await;
    // Nothing has been sealed yet.
    forget(&world, 0).await;
    assert!(told(&world).await.1.is_empty());
    world.reopen(true).await;
    forget(&world, 1).await;
    forget(&world, 2).await;
    let (unsealed, found) = told(&world).await;
    let names = found.iter().map(|it| (it.key.as_str(), it.uid.as_str()));
    let expected = [("shop/event-1", "uid-1-0"), ("shop/event-2", "uid-2-0")];
    assert!(names.eq(expected), "{found:?}");
    let first = unsealed.unerased(None, 1).await.unwrap();
    assert_eq!(first, found[..1]);
    let second = unsealed.unerased(first.first(), 1).await.unwrap();
    assert_eq!(second, found[1..]);
    unsealed.erased(&first).await.unwrap();
    // A note that is removed twice, or does not exist, does not hinder others.
    unsealed.erased(&found[..1]).await.unwrap();
    drop(unsealed);
    world.reopen(false).await;
    let (unsealed, left) = told(&world).await;
    assert_eq!(left, second);
    unsealed.erased(&found).await.unwrap();
    drop(unsealed);
    assert!(told(&world).await.1.is_empty());
    // The expiry of an event is not a deletion.
    world.clock.advance(2 * 3_600_000);
    world.keeper.store.expire().await.unwrap();
    assert!(told(&world).await.1.is_empty());
    world.keeper.store.close().await;
}

/// That an entry expired is noticed when all waiting entries are read.
#[tokio::test]
async fn what_ended_is_not_counted_as_waiting() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&Step::Observe(vec![(0, 0)])).await;
    world.clock.advance(2 * 3_600_000);
    world.keeper.store.expire().await.unwrap();
    world.step(&Step::Observe(vec![(1, 0)])).await;
    let unsealed = Unsealed {
        keeper: Arc::clone(&world.keeper),
    };
    assert_eq!(unsealed.waiting(), Some(2));
    let part = unsealed.next(usize::MAX).await.unwrap().unwrap();
    assert_eq!((part.versions.len(), unsealed.waiting()), (1, Some(1)));
    unsealed.sealed(part.through).await.unwrap();
    assert_eq!(unsealed.waiting(), Some(0));
    world.keeper.store.close().await;
}

/// The later manifests of the archive are lost, with what they sealed.
#[tokio::test]
async fn what_an_archive_lost_is_to_be_sealed_again_and_lies_in_a_gap() {
    let mut world = World::new().await;
    world.step(&Step::Open { seal: true }).await;
    world.position.since = START;
    world.position.complete_until = START;
    for number in 0..3 {
        world.position.complete_until += 1000;
        world.step(&Step::Observe(vec![(number, 0)])).await;
        world.step(&seal(false)).await;
    }
    let unsealed = Unsealed {
        keeper: Arc::clone(&world.keeper),
    };
    let commit = |number| Commit {
        number,
        id: number.to_string(),
        ..Commit::default()
    };
    unsealed.end_commit("a", &commit(3)).await.unwrap();
    let position = Position {
        version: Some(1),
        complete_until: START + 1000,
        ..world.position.clone()
    };
    let continued = |number, end| Continued {
        writer: "former".to_owned(),
        archive: Some("a".to_owned()),
        newest: commit(number),
        positions: vec![(String::new(), position.clone())],
        ends: vec![(String::new(), (0, end))],
        ..Continued::default()
    };
    // Nothing is lost, or everything but the first version, which is in no file in the last case.
    for (newest, end, expected) in [(3, 1, vec![]), (2, 1, vec![2, 3]), (1, 0, vec![1, 2, 3])] {
        let continued = continued(newest, end);
        let begun = continuation::continue_archive(&world.keeper, "former", &continued).await;
        assert!(matches!(begun.unwrap(), Continues::As(_)));
        // This holds even if the process ends.
        world.step(&Step::Open { seal: true }).await;
        let unsealed = Unsealed {
            keeper: Arc::clone(&world.keeper),
        };
        assert_eq!(unsealed.waiting(), Some(if newest < 3 { 3 } else { 0 }));
        let part = unsealed.next(usize::MAX).await.unwrap().unwrap_or_default();
        let mut versions: Vec<_> = part.versions.iter().map(|it| it.number).collect();
        versions.sort_unstable();
        assert_eq!((versions, part.gone), (expected, 0), "{newest}");
        let gaps = crate::keep::coverage::read_gaps(&*world.keeper.store)
            .await
            .unwrap();
        let gaps: Vec<_> = gaps.iter().map(|gap| (gap.from.0, gap.to.0)).collect();
        let lost = (newest < 3).then_some((START + 1000, START + 3000));
        assert_eq!(gaps, lost.into_iter().collect::<Vec<_>>(), "{newest}");
    }
}
