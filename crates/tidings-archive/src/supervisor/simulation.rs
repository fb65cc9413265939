//! A supervisor whose clusters are added, forgotten, retired and renamed at random, while they
//! refuse connections, hang, and their files change. At each step no cluster is open twice or
//! unwanted, and the shared quota waits for each cluster. When nothing happens any more, every
//! cluster is followed as it is set after the stated number of looks.
//!
//! `TIDINGS_ARCHIVE_RUNS` sets the number of seeds (default 30). A failure prints its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::refusals::LOOKS_BETWEEN;
use super::{Connector, Host, Refusal, Setting, Supervisor};
use crate::keep::retention::SharedQuota;

const NAMES: usize = 7;
/// Names that are equal modulo this number are of the same cluster.
const CLUSTERS: usize = 4;
const FILES: usize = 3;

#[derive(Clone, Debug, PartialEq)]
struct Plan {
    name: String,
    file: usize,
    /// Another part of the setting.
    edition: u8,
    is_followed: bool,
}

impl Setting for Plan {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_followed(&self) -> bool {
        self.is_followed
    }
}

impl Plan {
    fn random(random: &mut fastrand::Rng, name: usize) -> Self {
        Self {
            name: name.to_string(),
            file: random.usize(..FILES),
            edition: random.u8(..2),
            is_followed: random.u8(..6) > 0,
        }
    }

    /// The cluster that has this name.
    fn cluster(&self) -> usize {
        self.name.parse::<usize>().unwrap() % CLUSTERS
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Health {
    #[default]
    Works,
    Refuses,
    Hangs,
}

#[derive(Default)]
struct World {
    random: fastrand::Rng,
    files: [Option<u64>; FILES],
    /// The health of clusters, by name.
    health: BTreeMap<String, Health>,
    /// The clusters whose events are kept, by the name of their folder.
    folders: BTreeMap<String, usize>,
    /// The names that are being connected to.
    trying: BTreeSet<String>,
    open: BTreeSet<String>,
    /// Connections and openings so far, by name.
    connects: BTreeMap<String, u32>,
    opens: BTreeMap<String, u32>,
    /// The violated invariants: a panic would be taken for a refusal.
    violations: Vec<String>,
}

impl World {
    /// Whether a cluster would be begun anew that has a folder under an unwanted name.
    fn is_renamed(&self, plan: &Plan, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut former = self.folders.iter();
        !self.folders.contains_key(&plan.name)
            && former.any(|(name, cluster)| *cluster == plan.cluster() && !is_wanted(name))
    }

    fn violated(&mut self, what: &str, name: &str) {
        self.violations.push(format!("{what}: {name}"));
    }

    fn connects_and_opens(&self, name: &str) -> (u32, u32) {
        let of = |counts: &BTreeMap<String, u32>| counts.get(name).copied().unwrap_or_default();
        (of(&self.connects), of(&self.opens))
    }
}

#[derive(Clone, Default)]
struct Simulated {
    world: Arc<Mutex<World>>,
    healed: Arc<Notify>,
}

/// Removes a name from one of the world's sets when dropped.
struct Entry {
    simulated: Simulated,
    name: String,
    set: fn(&mut World) -> &mut BTreeSet<String>,
    must_be_closed: bool,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut world = self.simulated.world.lock();
        (self.set)(&mut world).remove(&self.name);
        if self.must_be_closed {
            world.violated("not closed", &self.name);
        }
    }
}

impl Simulated {
    fn enter(&self, plan: &Plan, set: fn(&mut World) -> &mut BTreeSet<String>) -> Entry {
        let mut world = self.world.lock();
        if !set(&mut world).insert(plan.name.clone()) {
            world.violated("open or connected to twice", &plan.name);
        }
        Entry {
            simulated: self.clone(),
            name: plan.name.clone(),
            set,
            must_be_closed: false,
        }
    }

    /// Begins to open a cluster, if that is possible.
    fn check_open(
        &self,
        plan: &Plan,
        is_connected: bool,
        wanted: &[String],
    ) -> Result<(), Refusal> {
        let mut world = self.world.lock();
        if is_connected != plan.is_followed {
            world.violated("connected to although it is not to be followed", &plan.name);
        }
        if plan.is_followed && world.is_renamed(plan, |name| wanted.iter().any(|it| it == name)) {
            return Err("renamed".into());
        }
        if !plan.is_followed && !world.folders.contains_key(&plan.name) {
            return Err("nothing is kept".into());
        }
        world.folders.insert(plan.name.clone(), plan.cluster());
        *world.opens.entry(plan.name.clone()).or_default() += 1;
        Ok(())
    }

    async fn pause(&self) {
        let pauses = self.world.lock().random.u8(..4);
        for _ in 0..pauses {
            yield_now().await;
        }
    }
}

impl Connector for Simulated {
    type Setting = Plan;
    type Source = ();
    type Cluster = Entry;

    fn files(&self, settings: &[Plan]) -> Vec<Option<u64>> {
        let files = self.world.lock().files;
        let of = |plan: &Plan| files[plan.file].filter(|_| plan.is_followed);
        settings.iter().map(of).collect()
    }

    async fn connect(&self, plan: &Plan) -> Result<(), Refusal> {
        let _entry = self.enter(plan, |world| &mut world.trying);
        let count = |world: &mut World| *world.connects.entry(plan.name.clone()).or_default() += 1;
        count(&mut self.world.lock());
        loop {
            self.pause().await;
            let healed = self.healed.notified();
            let health = self.world.lock().health.get(&plan.name).copied();
            match health.unwrap_or_default() {
                Health::Works => return Ok(()),
                Health::Refuses => return Err("refused".into()),
                Health::Hangs => healed.await,
            }
        }
    }

    async fn open(
        &self,
        plan: &Plan,
        source: Option<()>,
        wanted: &[String],
    ) -> Result<Entry, Refusal> {
        self.pause().await;
        self.check_open(plan, source.is_some(), wanted)?;
        let mut opened = self.enter(plan, |world| &mut world.open);
        opened.must_be_closed = true;
        self.pause().await;
        Ok(opened)
    }

    async fn close(&self, mut cluster: Entry) {
        self.pause().await;
        cluster.must_be_closed = false;
        drop(cluster);
    }
}

/// A server with room for some clusters.
#[derive(Default)]
struct Server {
    served: BTreeMap<String, Plan>,
    room: usize,
    /// The clusters that were opened or refused since they are wanted.
    tried: BTreeSet<String>,
}

impl Host<Simulated> for Server {
    async fn add(&mut self, plan: &Plan, _: &mut Entry) -> Result<(), Refusal> {
        self.tried.insert(plan.name.clone());
        if self.served.len() >= self.room {
            return Err("no room".into());
        }
        let former = self.served.insert(plan.name.clone(), plan.clone());
        assert_eq!(former, None, "served twice");
        Ok(())
    }

    async fn remove(&mut self, former: &Plan, _: Option<&Plan>) {
        assert_eq!(self.served.remove(&former.name).as_ref(), Some(former));
    }

    fn refused(&mut self, plan: &Plan, why: Refusal, _: bool) {
        assert!(!why.to_string().contains("panicked"), "{plan:?}: {why}");
        self.tried.insert(plan.name.clone());
    }
}

struct Run {
    seed: u64,
    random: fastrand::Rng,
    connector: Simulated,
    quota: Arc<SharedQuota>,
    was_in_force: bool,
    /// The wanted clusters before the last change.
    former: Vec<Plan>,
    server: Server,
    supervisor: Supervisor<Simulated>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let connector = Simulated::default();
        connector.world.lock().random = random.fork();
        let quota = Arc::new(SharedQuota::new(1 << 30, NAMES));
        let plans = (0..NAMES / 2).map(|name| Plan::random(&mut random, name));
        let plans = plans.collect();
        Self {
            seed,
            random,
            supervisor: Supervisor::new(
                Arc::new(connector.clone()),
                Some(Arc::clone(&quota)),
                plans,
            ),
            connector,
            quota,
            was_in_force: false,
            former: Vec::new(),
            server: Server {
                room: NAMES - 2,
                ..Server::default()
            },
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.supervisor.wanted.iter().any(|plan| plan.name == name)
    }

    /// Changes the wanted clusters, their health or files.
    async fn happen(&mut self) {
        let name = self.random.usize(..NAMES);
        let mut wanted = self.supervisor.wanted.clone();
        wanted.retain(|plan| plan.name != name.to_string());
        match self.random.u8(..9) {
            0 => self.want(wanted),
            1 | 2 => {
                wanted.push(Plan::random(&mut self.random, name));
                self.want(wanted);
            }
            7 => self.want(self.former.clone()),
            3 | 4 => {
                let file = self.random.usize(..FILES);
                let hash = (self.random.u8(..4) > 0).then(|| self.random.u64(..));
                self.connector.world.lock().files[file] = hash;
            }
            5 | 6 => {
                let health = [Health::Works, Health::Refuses, Health::Hangs];
                let health = health[self.random.usize(..health.len())];
                self.heal(name, health);
            }
            _ => {
                self.supervisor.give_up(&name.to_string(), "no room").await;
                self.server.served.remove(&name.to_string());
            }
        }
    }

    fn want(&mut self, wanted: Vec<Plan>) {
        self.former.clone_from(&self.supervisor.wanted);
        self.supervisor.want(wanted);
    }

    fn heal(&mut self, name: usize, health: Health) {
        let mut world = self.connector.world.lock();
        world.health.insert(name.to_string(), health);
        drop(world);
        self.connector.healed.notify_waiters();
    }

    /// Lets the attempts run for a while, and handles those that end.
    async fn proceed(&mut self, turns: u8) {
        for _ in 0..turns {
            yield_now().await;
            if let Some(ended) = self.supervisor.next().now_or_never() {
                let before = self.server.served.clone();
                self.supervisor.handle(ended, &mut self.server).await;
                // Only a look puts the quota in force: before the first one, clusters may be given
                // up for which there is no room.
                assert_eq!(self.is_in_force(), self.was_in_force, "seed {}", self.seed);
                for (name, plan) in &self.server.served {
                    let is_wanted = self.supervisor.wanted.contains(plan);
                    assert!(is_wanted || before.contains_key(name), "{plan:?}");
                }
                self.check();
            }
        }
    }

    async fn look(&mut self) {
        let wanted = &self.supervisor.wanted;
        let is_wanted = |name: &String| wanted.iter().any(|plan| plan.name == *name);
        self.server.tried.retain(is_wanted);
        self.supervisor.look(&mut self.server).await;
        self.check();
        for name in (0..NAMES).map(|name| name.to_string()) {
            let is_refused = self.supervisor.refused.why(&name).is_some();
            let seed = self.seed;
            assert!(!is_refused || self.is_wanted(&name), "seed {seed}: {name}");
        }
    }

    /// Looks, and waits until all attempts that do not hang have ended.
    async fn look_and_settle(&mut self) {
        self.look().await;
        self.proceed(60).await;
        let world = self.connector.world.lock();
        for name in world.open.iter().chain(&world.trying) {
            let seed = self.seed;
            assert!(self.is_wanted(name), "seed {seed}: {name} is not wanted");
        }
    }

    fn check(&mut self) {
        let world = self.connector.world.lock();
        assert_eq!(world.violations, [""; 0], "seed {}", self.seed);
        let followed: Vec<_> = self.supervisor.followed.keys().collect();
        let served: Vec<_> = self.server.served.keys().collect();
        assert_eq!(followed, served, "seed {}", self.seed);
        for name in served {
            assert!(world.open.contains(name), "seed {}: {name}", self.seed);
        }
        drop(world);
        let is_in_force = self.is_in_force();
        if is_in_force && !self.was_in_force {
            for plan in self.supervisor.wanted() {
                let is_tried = self.server.tried.contains(&plan.name);
                assert!(is_tried, "seed {}: {} was not tried", self.seed, plan.name);
            }
        }
        self.was_in_force = is_in_force;
    }

    fn is_in_force(&self) -> bool {
        self.quota.join(0, true).of(0).is_some()
    }

    /// All clusters work. Those that can be followed are, after as many looks as are between two
    /// tries, and as their settings and files are now.
    async fn settle(&mut self) {
        self.server.room = NAMES;
        for name in 0..NAMES {
            self.heal(name, Health::Works);
        }
        for file in 0..FILES {
            let mut world = self.connector.world.lock();
            world.files[file].get_or_insert(1);
        }
        for _ in 0..=LOOKS_BETWEEN {
            self.look_and_settle().await;
        }
        let mut wanted = Vec::new();
        for plan in &self.supervisor.wanted {
            let world = self.connector.world.lock();
            let is_kept = world.folders.contains_key(&plan.name);
            let is_renamed = world.is_renamed(plan, |name| self.is_wanted(name));
            if if plan.is_followed {
                !is_renamed
            } else {
                is_kept
            } {
                wanted.push((plan, world.files[plan.file].filter(|_| plan.is_followed)));
            }
        }
        wanted.sort_by_key(|(plan, _)| &plan.name);
        let followed = self.supervisor.followed.values();
        let followed: Vec<_> = followed.map(|(one, _)| (&one.setting, one.files)).collect();
        assert_eq!(followed, wanted, "seed {}", self.seed);
        let mut names = self.supervisor.followed.keys();
        assert!(names.all(|name| self.supervisor.refused.why(name).is_none()));
        assert!(self.is_in_force(), "seed {}", self.seed);
        assert!(self.supervisor.attempts.is_empty(), "seed {}", self.seed);
    }

    /// A changed file leads to one connection and one opening of each cluster that depends on it.
    async fn change_file(&mut self) {
        let file = self.random.usize(..FILES);
        let before = self.supervisor.clusters();
        let before: Vec<_> = before.map(|(plan, _)| plan.clone()).collect();
        let counts = |run: &Self| {
            let world = run.connector.world.lock();
            let counts = before.iter();
            let counts: Vec<_> = counts
                .map(|one| world.connects_and_opens(&one.name))
                .collect();
            counts
        };
        let mut expected = counts(self);
        for (plan, (connects, opens)) in before.iter().zip(&mut expected) {
            let is_changed = u32::from(plan.is_followed && plan.file == file);
            (*connects, *opens) = (*connects + is_changed, *opens + is_changed);
        }
        self.connector.world.lock().files[file] = Some(self.random.u64(..));
        for _ in 0..3 {
            self.look_and_settle().await;
            assert_eq!(counts(self), expected, "seed {}: {before:?}", self.seed);
        }
        // A file that does not exist changes nothing.
        let hash = self.connector.world.lock().files[file].take();
        self.look_and_settle().await;
        assert_eq!(counts(self), expected, "seed {}: {before:?}", self.seed);
        self.connector.world.lock().files[file] = hash;
    }

    /// A followed cluster that cannot be connected to with its changed setting stays open. If it
    /// refuses, it is tried again at the stated looks; if it hangs, the attempt goes on.
    async fn refuse(&mut self) {
        let former = self.supervisor.wanted.clone();
        let mut wanted = former.clone();
        let followed = &self.supervisor.followed;
        let mut plans = wanted.iter_mut();
        let Some(plan) = plans.find(|plan| plan.is_followed && followed.contains_key(&plan.name))
        else {
            return;
        };
        plan.edition += 2;
        let (plan, seed) = (plan.clone(), self.seed);
        let (health, more) = if self.random.bool() {
            (Health::Refuses, 1)
        } else {
            (Health::Hangs, 0)
        };
        self.heal(plan.name.parse().unwrap(), health);
        self.supervisor.want(wanted);
        let counts = |run: &Self| run.connector.world.lock().connects_and_opens(&plan.name);
        let (connects, opens) = counts(self);
        for look in 0..=2 * LOOKS_BETWEEN {
            self.look_and_settle().await;
            let expected = (connects + 1 + more * (look / LOOKS_BETWEEN), opens);
            assert_eq!(counts(self), expected, "seed {seed}: look {look}");
            let is_open = self.connector.world.lock().open.contains(&plan.name);
            assert!(is_open, "seed {seed}: {plan:?}");
        }
        if more == 1 && self.random.bool() {
            // With the former setting it is followed already.
            self.supervisor.want(former);
            self.settle().await;
            assert_eq!(counts(self), (connects + 3, opens), "seed {seed}");
        } else {
            self.settle().await;
            let expected = (connects + 1 + 3 * more, opens + 1);
            assert_eq!(counts(self), expected, "seed {seed}");
        }
    }

    /// All clusters are opened anew, after they were closed. Nobody handles that they are open.
    async fn open_all_anew(&mut self) {
        let wanted = self.supervisor.wanted.clone();
        self.supervisor.want(Vec::new());
        self.look().await;
        self.supervisor.want(wanted);
        self.look().await;
        for _ in 0..self.random.u8(..60) {
            yield_now().await;
        }
    }

    /// A forgotten cluster is closed at the next look, and its folder stays.
    async fn forget(&mut self) {
        let mut wanted = self.supervisor.wanted.clone();
        let Some(forgotten) = wanted.pop() else {
            return;
        };
        self.supervisor.want(wanted);
        let folders = |run: &Self| run.connector.world.lock().folders.clone();
        let kept = folders(self);
        self.look_and_settle().await;
        assert_eq!(folders(self), kept, "seed {}", self.seed);
        let world = self.connector.world.lock();
        let is_open = world.open.contains(&forgotten.name);
        assert!(!is_open, "seed {}: {forgotten:?}", self.seed);
    }
}

async fn run(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..run.random.u8(1..4) {
        run.server.room = NAMES - 2;
        for _ in 0..run.random.u8(1..60) {
            run.happen().await;
            if run.random.bool() {
                let turns = run.random.u8(..12);
                run.proceed(turns).await;
            }
            if run.random.bool() {
                run.look().await;
            }
            if run.random.u8(..8) == 0 {
                run.look_and_settle().await;
            }
            // Some attempts end, and wait to be handled.
            for _ in 0..run.random.u8(..8) {
                yield_now().await;
            }
        }
        run.settle().await;
        run.change_file().await;
        run.refuse().await;
        run.forget().await;
    }
    // Attempts end that are not handled any more.
    run.settle().await;
    run.open_all_anew().await;
    run.supervisor.close().await;
    let world = run.connector.world.lock();
    assert_eq!(world.violations, [""; 0], "seed {seed}");
    assert_eq!(world.open, BTreeSet::new(), "seed {seed}");
}

#[tokio::test]
async fn wanted_clusters_are_followed_once_whatever_happens() {
    let runs = std::env::var("TIDINGS_ARCHIVE_RUNS");
    let runs = runs.map_or(30, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        run(seed).await;
    }
}
