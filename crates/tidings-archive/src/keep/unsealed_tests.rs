//! Every version is reported once to the sealer, in whatever order things come.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Store, UnixMillis};

use super::journal::Journal;
use super::keeper::{Keeper, Observation, With};
use super::position::Position;
use super::unsealed::Unsealed;

const START: i64 = 1_700_000_000_000;
const EVENTS: u8 = 4;

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// Events are observed in one batch: by their names, and which of its events it is.
    Observe(Vec<(u8, u8)>),
    /// Some of what waits is sealed, up to a number of bytes; whether the process ends before the
    /// entries are taken out.
    Seal { bytes: usize, is_killed: bool },
    /// The store is opened anew, to be sealed or not.
    Open { seal: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec((0..EVENTS, 0..2_u8), 1..60).prop_map(Step::Observe),
        2 => (0..20_000_usize, any::<bool>())
            .prop_map(|(bytes, is_killed)| Step::Seal { bytes, is_killed }),
        1 => any::<bool>().prop_map(|seal| Step::Open { seal }),
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
        version,
        is_gone: false,
    }
}

struct World {
    keeper: Arc<Keeper>,
    clock: ManualClock,
    folder: tempfile::TempDir,
    position: Position,
    observed: BTreeSet<u64>,
    sealed: Vec<u64>,
    through: u64,
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
        Arc::new(keeper)
    }

    async fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let clock = ManualClock::at(UnixMillis(START));
        Self {
            keeper: Self::open(folder.path(), &clock, false).await,
            clock,
            folder,
            position: Position::default(),
            observed: BTreeSet::new(),
            sealed: Vec::new(),
            through: 0,
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Observe(events) => {
                let mut observations = Vec::new();
                for (name, which) in events {
                    self.position.latest += 1;
                    let version = self.position.latest;
                    self.observed.insert(version);
                    observations.push(observation(*name, *which, version));
                }
                let mut position = self.position.clone();
                let kept = self
                    .keeper
                    .keep(&observations, "", &mut position, With::default());
                kept.await.unwrap();
                self.position = position;
            }
            Step::Seal { bytes, is_killed } => self.seal(*bytes, *is_killed).await,
            Step::Open { seal } => self.reopen(*seal).await,
        }
    }

    async fn seal(&mut self, bytes: usize, is_killed: bool) {
        let unsealed = Unsealed {
            keeper: Arc::clone(&self.keeper),
        };
        unsealed.sealed(self.through).await.unwrap();
        let Some(part) = unsealed.next(bytes).await.unwrap() else {
            return;
        };
        assert_eq!(part.gone, 0);
        assert!(part.through > self.through);
        self.sealed
            .extend(part.versions.iter().map(|version| version.version));
        self.through = part.through;
        if !is_killed {
            unsealed.sealed(self.through).await.unwrap();
        }
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
            let all: Vec<_> = world.observed.iter().copied().collect();
            assert_eq!(world.sealed, all);
            world.keeper.store.close().await;
        });
    }
}

/// What was sealed when the process was killed has ended when it starts again. Its numbers are not
/// given to others, which would be taken for sealed.
#[tokio::test]
async fn numbers_of_what_was_sealed_are_not_used_again() {
    let mut world = World::new().await;
    world.reopen(true).await;
    let observe = || Step::Observe(vec![(0, 0)]);
    let seal = |is_killed| Step::Seal {
        bytes: usize::MAX,
        is_killed,
    };
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
