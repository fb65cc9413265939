//! A source that acts at random, and an archive that is killed at random, and whose folder is
//! replaced by a copy of an earlier step at random. Every version that the source wrote is kept
//! once or lies in a reported gap, and no gap is reported where nothing could be missed.
//!
//! `TIDINGS_ARCHIVE_RUNS` sets the number of seeds (default 30). A failure prints its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tempfile::TempDir;
use tidings_history::Cause;
use tidings_store::Store;
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, UnixMillis};
use tidings_testing::copy_folder;

use crate::follow::follower::{Answer, Commit, Failure, Follower, Page, Rules, State, Step};
use crate::keep::coverage::read_gaps;
use crate::keep::retention::{Quota, trimmed_of};
use crate::keep::versions::detect_ends;
use crate::keep::versions::{Keeper, Observation, With};
use crate::version::record::Record;

const START: i64 = 1_700_000_000_000;
const NAMES: u64 = 12;

/// A change at the source.
#[derive(Clone, Debug)]
struct Written {
    version: u64,
    event: Event,
    is_gone: bool,
    at: i64,
}

/// A source like an API server over etcd.
#[derive(Clone, Debug)]
struct Source {
    identity: &'static str,
    version: u64,
    live: BTreeMap<String, Written>,
    history: Vec<Written>,
    /// Changes up to this version are forgotten.
    compacted: u64,
    /// Counters of uids and of writes. They are not reset when the source goes back to an earlier
    /// state.
    uids: u64,
    writes: i32,
}

impl Source {
    fn new() -> Self {
        Self {
            identity: "one",
            version: 1,
            live: BTreeMap::new(),
            history: Vec::new(),
            compacted: 0,
            uids: 0,
            writes: 0,
        }
    }

    fn write(&mut self, random: &mut fastrand::Rng, at: i64) {
        self.version += random.u64(1..3);
        let name = format!("web.{:02}", random.u64(..NAMES));
        let live = self.live.get(&name);
        let is_gone = live.is_some() && random.u8(..4) == 0;
        let mut event = live.map_or_else(Event::default, |live| live.event.clone());
        if live.is_none() {
            self.uids += 1;
            event.metadata = Some(ObjectMeta {
                name: Some(name.clone()),
                namespace: Some("shop".into()),
                uid: Some(format!("{:08}-{}", self.uids, random.u64(..))),
                ..ObjectMeta::default()
            });
            event.reason = Some("BackOff".into());
            event.message = Some("Back-off restarting failed container".into());
        }
        let metadata = event.metadata.get_or_insert_default();
        metadata.resource_version = Some(self.version.to_string());
        if !is_gone {
            self.writes += 1;
            event.count = Some(self.writes);
            event.last_timestamp = Some(Time {
                seconds: Some(at / 1000),
                nanos: None,
            });
        }
        let written = Written {
            version: self.version,
            event,
            is_gone,
            at,
        };
        if is_gone {
            self.live.remove(&name);
        } else {
            self.live.insert(name, written.clone());
        }
        self.history.push(written);
    }
}

/// Everything that was written: the event's uid, version, count and time.
#[derive(Default)]
struct Ledger {
    versions: BTreeMap<(String, u64, i32), i64>,
}

fn key_of(event: &Event, version: u64) -> (String, u64, i32) {
    let uid = event
        .metadata
        .as_ref()
        .map_or("", |metadata| metadata.uid());
    (uid.to_owned(), version, event.count())
}

struct Run {
    random: fastrand::Rng,
    clock: ManualClock,
    source: Source,
    ledger: Ledger,
    /// The state to which the source can go back.
    backup: Option<Source>,
    /// Whether the source went back and was not asked since. It writes nothing until it is asked,
    /// because a source that has caught up by then looks as if it never went back.
    went_back: bool,
    /// The state of the list that is being read.
    listing: Option<Source>,
    /// Whether the watch has died without the archive noticing it.
    is_dead: bool,
    /// When the archive began.
    since: Option<i64>,
    /// The version up to which the archive has read.
    reached: Option<u64>,
    copies: Vec<Copy>,
}

/// A copy of the archive's folder.
struct Copy {
    folder: TempDir,
    /// The version up to which the copied archive may have read.
    reached: u64,
    /// The versions in the copy.
    kept: BTreeSet<(String, u64, i32)>,
}

/// Maximum number of copies.
const COPIES: usize = 3;

impl Run {
    fn now(&self) -> i64 {
        self.clock.now().0
    }

    fn pass(&mut self, millis: i64) {
        self.clock.advance(millis);
    }

    /// A random action of the source.
    fn happen(&mut self, calm: bool) {
        let time = self.random.i64(0..4000);
        self.pass(time);
        let writes = if self.went_back {
            0
        } else {
            self.random.u64(..6)
        };
        if !self.went_back {
            // Other objects of the cluster are written too.
            self.source.version += self.random.u64(..3);
        }
        for _ in 0..writes {
            let at = self.now();
            self.source.write(&mut self.random, at);
            if let Some(written) = self.source.history.last()
                && !written.is_gone
            {
                let key = key_of(&written.event, written.version);
                self.ledger.versions.insert(key, at);
            }
        }
        if calm {
            return;
        }
        match self.random.u64(..40) {
            0 => {
                self.source.compacted = self.source.version;
            }
            1 => self.backup = Some(self.source.clone()),
            2 => {
                if let Some(backup) = self.backup.take() {
                    // The archive cannot know versions that were lost before it reached them.
                    let listing = self.listing.as_ref().map(|listing| listing.version);
                    let reached = self.reached.or(listing);
                    if reached.is_some_and(|reached| reached <= backup.version) {
                        let history = self.source.history.iter();
                        for written in history.filter(|written| written.version > backup.version) {
                            let key = key_of(&written.event, written.version);
                            self.ledger.versions.remove(&key);
                        }
                    }
                    let Source { uids, writes, .. } = self.source;
                    self.source = Source {
                        uids,
                        writes,
                        ..backup
                    };
                    self.went_back = true;
                    // If a copy had read more, the source looks to it as if it never went back,
                    // once the source has written as much again.
                    let version = self.source.version;
                    self.copies.retain(|copy| copy.reached <= version);
                }
            }
            3 => {
                self.source.identity = if self.source.identity == "one" {
                    "another"
                } else {
                    "one"
                };
            }
            _ => {}
        }
    }

    /// Copies the folder of an archive that is not running.
    fn copy(&mut self, from: &Path, kept: BTreeSet<(String, u64, i32)>) {
        let folder = temporary();
        copy_folder(from, folder.path());
        let listing = self.listing.as_ref().map(|listing| listing.version);
        let reached = self.reached.max(listing).unwrap_or(0);
        if self.copies.len() == COPIES {
            let out = self.random.usize(..COPIES);
            self.copies.swap_remove(out);
        }
        self.copies.push(Copy {
            folder,
            reached,
            kept,
        });
    }

    /// Replaces the folder by a copy. What only the lost folder had is no longer expected.
    fn restore(&mut self) -> Option<TempDir> {
        if self.copies.is_empty() || self.random.u8(..3) > 0 {
            return None;
        }
        let at = self.random.usize(..self.copies.len());
        let copy = self.copies.get(at)?;
        let restored = temporary();
        copy_folder(copy.folder.path(), restored.path());
        let written = self.source.history.iter();
        let written = written.map(|written| key_of(&written.event, written.version));
        let known: BTreeSet<_> = written.chain(copy.kept.iter().cloned()).collect();
        self.ledger
            .versions
            .retain(|version, _| known.contains(version));
        self.reached = Some(copy.reached).filter(|reached| *reached > 0);
        self.listing = None;
        Some(restored)
    }

    fn failure(&mut self) -> Option<Failure> {
        let failure = match self.random.u64(..25) {
            0 => Failure::Forbidden("no".into()),
            1 => Failure::TooLarge,
            2 => Failure::Other {
                why: "cut off".into(),
                retry_after: Some(self.random.i64(0..5000)),
            },
            _ => return None,
        };
        Some(failure)
    }

    /// Answers a list.
    fn list(
        &mut self,
        follower: &mut Follower,
        token: Option<&String>,
        limit: u32,
    ) -> (Vec<Observation>, Option<Commit>) {
        let now = self.now();
        // All pages of a list have the same version.
        let listed = match (self.listing.take(), token) {
            (Some(listed), Some(_)) => listed,
            _ => self.source.clone(),
        };
        if listed.version < self.source.compacted || listed.version > self.source.version {
            (Vec::new(), follower.failed(now, Failure::Expired))
        } else {
            let mut rest = listed.live.iter();
            let rest = rest
                .by_ref()
                .filter(|(name, _)| token.is_none_or(|after| *name > after));
            let page: Vec<_> = rest.take(limit as usize + 1).collect();
            let token = page
                .get(limit as usize)
                .and_then(|_| page.get(limit as usize - 1));
            let page_info = Page {
                version: listed.version,
                token: token.map(|(name, _)| (*name).clone()),
                oldest: None,
                has_unnamed: false,
            };
            let events = page.iter().take(limit as usize);
            let events = events
                .map(|(_, live)| observation(live))
                .collect::<Vec<_>>();
            self.listing = Some(listed);
            (events, follower.listed((now, now), page_info))
        }
    }

    /// Takes one step of the follower.
    async fn step(&mut self, follower: &mut Follower, keeper: &Keeper, calm: bool) {
        // Each request takes some time.
        self.pass(1);
        let now = self.now();
        if !calm
            && let Some(failure) = self.failure()
            && !matches!(follower.step(), Step::Wait { .. })
        {
            self.listing = None;
            let commit = follower.failed(now, failure);
            assert_eq!(commit, None);
            return;
        }
        let is_asked = follower.step() == Step::Ask;
        let (events, commit) = match follower.step() {
            Step::Wait { until } => {
                self.pass((until - now).max(0));
                follower.waited(self.now());
                return;
            }
            Step::Ask => {
                let answer = Answer {
                    identity: Some(self.source.identity.into()),
                    asked: now,
                    version: self.source.version,
                };
                self.is_dead = false;
                let commit = follower.answered(now, answer);
                let is_noticed = follower.state().0 != State::OtherCluster && commit.is_none();
                self.went_back &= !is_noticed;
                (Vec::new(), commit)
            }
            Step::List { token, limit } => self.list(follower, token.as_ref(), limit),
            Step::Watch { after } => {
                if self.is_dead {
                    // The source still answers on other connections.
                    if self.random.u8(..4) == 0 {
                        follower.closed();
                        return;
                    }
                    let asked = (now, self.source.version);
                    (Vec::new(), follower.silent(now, asked))
                } else if after < self.source.compacted {
                    (Vec::new(), follower.failed(now, Failure::Expired))
                } else if self.went_back || self.random.u8(..8) == 0 {
                    // A source that goes back ends its watches.
                    follower.closed();
                    return;
                } else {
                    follower.alive();
                    // From now on the watch sends nothing more.
                    self.is_dead = !calm && self.random.u8(..16) == 0;
                    let behind = self.source.history.iter();
                    let behind = behind.filter(|written| written.version > after);
                    let sent: Vec<_> = behind.take(self.random.usize(1..8)).cloned().collect();
                    let asked = (now, self.source.version);
                    let commit = match sent.last() {
                        Some(last) => follower.watched(now, Some(last.at), last.version),
                        None => follower.silent(now, asked),
                    };
                    (sent.iter().map(observation).collect(), commit)
                }
            }
        };
        let Some(mut commit) = commit else {
            return;
        };
        if !calm && self.random.u8(..20) == 0 {
            follower.not_committed(now, "disk full".into());
            return;
        }
        let with = With {
            gap: commit.gap.as_ref(),
            listed_at: commit.listed_at,
            unswept: commit.unswept.as_ref(),
            ..With::default()
        };
        let kept = keeper.keep(&events, "", &mut commit.position, with).await;
        kept.unwrap();
        if self.random.u8(..4) == 0 {
            detect_ends(keeper).await.unwrap();
        }
        self.went_back &= !is_asked;
        self.since = Some(commit.position.since);
        self.reached = commit.position.version;
        follower.committed(commit.position);
    }
}

fn observation(written: &Written) -> Observation {
    Observation {
        event: written.event.clone(),
        number: written.version,
        is_gone: written.is_gone,
    }
}

fn temporary() -> TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.unwrap()
}

fn open(folder: &Path, clock: &ManualClock) -> Keeper {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    options.free_space_min = 0;
    let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(90 * 24 * 3600));
    Keeper::new(store, Arc::new(clock.clone()), keep_for, false)
}

/// Another namespace, whose events state the year 2999 and use more than the quota.
struct Storm {
    random: fastrand::Rng,
    version: u64,
}

impl Storm {
    fn new(random: fastrand::Rng) -> Self {
        Self { random, version: 1 }
    }

    async fn rage(&mut self, keeper: &Keeper) {
        let mut position = keeper.position("storm").await.unwrap().unwrap_or_default();
        let observations = (0..300).map(|_| {
            self.version += 1;
            let message = (0..2_000).map(|_| self.random.alphanumeric());
            let event = Event {
                metadata: Some(ObjectMeta {
                    name: Some(format!("web.{}", self.version)),
                    namespace: Some("storm".into()),
                    uid: Some(format!("storm-{}", self.version)),
                    ..ObjectMeta::default()
                }),
                message: Some(message.collect()),
                last_timestamp: Some(Time {
                    seconds: Some(32_472_144_000),
                    nanos: None,
                }),
                ..Event::default()
            };
            Observation {
                event,
                number: self.version,
                is_gone: false,
            }
        });
        let observations: Vec<_> = observations.collect();
        let kept = keeper.keep(&observations, "storm", &mut position, With::default());
        kept.await.unwrap();
        let disk_bytes = keeper.store.stats().await.unwrap().disk_bytes;
        let mut quota = Quota::new(disk_bytes / 10 * 9);
        // The cluster may be within its quota because of what was deleted before, and is not
        // released yet.
        quota.keep(keeper).await.unwrap();
    }

    async fn is_trimmed(&self, keeper: &Keeper) -> bool {
        let of = async |namespace| trimmed_of(keeper, namespace).await.unwrap().events;
        of("storm").await > 0 && of("shop").await == 0
    }
}

/// Sets the clock 500 days ahead, while the cluster's answers have the right time, and corrects it
/// after some minutes.
async fn set_ahead_and_back(keeper: &Keeper, clock: &ManualClock) {
    let ahead = 500 * 24 * 3_600_000;
    let said = clock.now();
    clock.set_by(ahead);
    keeper.store.believe_until(Some(said));
    for _ in 0..4 {
        clock.advance(40_000);
        keeper.store.expire().await.unwrap();
    }
    clock.set_by(-ahead);
    keeper.store.believe_until(None);
}

/// Returns all kept versions, except those of the storm.
async fn kept(keeper: &Keeper) -> Vec<(u64, (String, u64, i32))> {
    let page = keeper.store.list(ListRequest::default()).await.unwrap();
    let mut all = Vec::new();
    for record in page.records {
        let is_event = record.key.starts_with(b"shop/");
        if !is_event && !record.key.starts_with(b"\0version/") {
            continue;
        }
        let record = Record::decode(&record.value).unwrap();
        if record.newest.uid.starts_with("storm") {
            continue;
        }
        for version in record.versions() {
            let version = version.unwrap();
            let event = tidings_api::codec::decode_stored(&version.event, 0).unwrap();
            all.push((version.epoch, key_of(&event, version.number)));
        }
    }
    all
}

async fn run(seed: u64) {
    let mut folder = temporary();
    let clock = ManualClock::at(UnixMillis(START));
    let mut run = Run {
        random: fastrand::Rng::with_seed(seed),
        clock: clock.clone(),
        source: Source::new(),
        ledger: Ledger::default(),
        backup: None,
        went_back: false,
        listing: None,
        is_dead: false,
        since: None,
        reached: None,
        copies: Vec::new(),
    };
    // A third of the sources never forget anything.
    let calm_source = seed.is_multiple_of(3);
    let rules = Rules {
        page: 4,
        retry: (100, 2_000),
        refused: 5_000,
        slack: 2_000,
        selection: String::new(),
        authorities: Vec::new(),
        from_now: false,
    };
    let mut keeper = open(folder.path(), &clock);
    let mut storm = Storm::new(run.random.fork());
    for _ in 0..run.random.u64(1..6) {
        let position = keeper.position("").await.unwrap();
        let random = run.random.fork();
        let mut follower = Follower::new(rules.clone(), String::new(), position, random);
        run.listing = None;
        storm.rage(&keeper).await;
        for _ in 0..run.random.u64(1..120) {
            if run.random.bool() {
                run.happen(calm_source);
            }
            run.step(&mut follower, &keeper, false).await;
            if run.random.u8(..40) == 0 {
                set_ahead_and_back(&keeper, &clock).await;
            }
        }
        // The archive is killed, and does not run for a while.
        let has = kept(&keeper).await.into_iter().map(|(_, version)| version);
        let has = has.collect();
        keeper.store.close().await;
        run.copy(folder.path(), has);
        for _ in 0..run.random.u64(..20) {
            run.happen(calm_source);
        }
        if let Some(restored) = run.restore() {
            folder = restored;
        }
        keeper = open(folder.path(), &clock);
    }
    // In the end the source is idle, and the archive reads everything.
    run.source.identity = "one";
    let position = keeper.position("").await.unwrap();
    let random = run.random.fork();
    let identity = position
        .as_ref()
        .and_then(|position| position.identity.clone());
    run.source.identity = if identity.as_deref() == Some("another") {
        "another"
    } else {
        "one"
    };
    run.listing = None;
    let mut follower = Follower::new(rules, String::new(), position, random);
    for _ in 0..400 {
        run.step(&mut follower, &keeper, true).await;
    }
    let last = run.source.history.last().map_or(0, |last| last.version);
    let reached = follower.position().and_then(|position| position.version);
    assert!(reached >= Some(last), "seed {seed}: {reached:?} of {last}");
    storm.rage(&keeper).await;
    assert!(storm.is_trimmed(&keeper).await, "seed {seed}");
    judge(&run, &keeper, seed, calm_source).await;
    judge_ends(&run, &keeper, seed).await;
    keeper.store.close().await;
}

async fn judge(run: &Run, keeper: &Keeper, seed: u64, calm_source: bool) {
    let gaps = read_gaps(&*keeper.store).await.unwrap();
    let kept = kept(keeper).await;
    let once: BTreeSet<_> = kept.iter().map(|(_, version)| version.clone()).collect();
    let since = run.since.unwrap();
    for (version, at) in &run.ledger.versions {
        let in_gap = gaps.iter().any(|gap| (gap.from.0..=gap.to.0).contains(at));
        assert!(
            once.contains(version) || in_gap || *at <= since,
            "seed {seed}: {version:?} of {at} is lost; gaps: {gaps:?}"
        );
    }
    for version in &once {
        let is_known = run.ledger.versions.contains_key(version);
        assert!(is_known, "seed {seed}: {version:?} was never written");
    }
    // Versions of the state that the source went back to are observed again, in another epoch.
    let mut counted = BTreeMap::<_, u32>::new();
    for version in kept {
        *counted.entry(version).or_default() += 1;
    }
    for (version, times) in counted {
        assert_eq!(times, 1, "seed {seed}: {version:?} is kept {times} times");
    }
    if calm_source {
        assert_eq!(gaps, [], "seed {seed}: nothing could be missed");
    }
    for gap in gaps {
        assert!(gap.from <= gap.to, "seed {seed}: {gap:?}");
        assert_ne!(gap.cause, Cause::TooLarge);
    }
}

/// Checks that events which exist at the source have no end, and all others have one.
async fn judge_ends(run: &Run, keeper: &Keeper, seed: u64) {
    detect_ends(keeper).await.unwrap();
    let live = run.source.live.values();
    let live: BTreeSet<_> = live.map(|live| key_of(&live.event, 0).0).collect();
    let events = ListRequest::prefix("shop/");
    for found in keeper.store.list(events).await.unwrap().records {
        let record = Record::decode(&found.value).unwrap();
        let uid = record.newest.uid.to_string();
        let gone = record.gone;
        assert_eq!(
            gone.is_none(),
            live.contains(&uid),
            "seed {seed}: {uid} {gone:?}"
        );
        if let Some(after) = gone.and_then(|gone| gone.not_before) {
            assert!(
                after <= gone.unwrap().observed_at,
                "seed {seed}: {uid} {gone:?}"
            );
        }
    }
}

#[tokio::test]
async fn whatever_happens_versions_are_kept_once_or_lie_in_a_gap() {
    let runs = std::env::var("TIDINGS_ARCHIVE_RUNS");
    let runs = runs.map_or(30, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        run(seed).await;
    }
}
