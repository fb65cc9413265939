//! A data folder, its clock and its bucket, with trouble at any step: the folder is replaced by an
//! earlier copy, the clock is years ahead or behind for a while, others put foreign and forged
//! objects into the bucket, a namespace writes storms of events of the year 2999, and events are
//! deleted. Every observed version is sealed once, no sealed version is lost, and nothing is sealed
//! while the newest manifest is not the folder's own.
//!
//! `TIDINGS_ARCHIVE_RUNS` sets the number of seeds (default 3). A failure prints its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_api::codec;
use tidings_objects::{
    Manifest, Place, ReadOptions, Reader, SealError, SealOptions, Sealed, Sealer, check, newest,
};
use tidings_store::ListRequest;
use tidings_store::clock::Clock;

use super::foreign::FOREIGN;
use super::reading::{id, listed};
use super::storage::{Storage, put};
use super::world::{World, believe};

const DAY_MILLIS: i64 = 24 * 3_600_000;
const STEPS: usize = 45;
/// Maximum number of copies of the folder.
const COPIES: usize = 4;

/// The uid of an observed version's event, and the version's number.
type Observed = (String, u64);

/// A data folder, and what is expected of it.
struct Folder {
    world: World,
    /// The number of observed versions that the folder has.
    has: usize,
    /// The keys of the folder's events by their uids, without those of deleted events.
    events: BTreeMap<String, String>,
    /// The uids of events that were deleted in this folder.
    deleted: BTreeSet<String>,
    /// The id of the manifest that the folder sealed or continued last.
    newest: Option<String>,
}

impl Folder {
    fn copy(&self) -> Self {
        Self {
            world: self.world.copy(),
            has: self.has,
            events: self.events.clone(),
            deleted: self.deleted.clone(),
            newest: self.newest.clone(),
        }
    }
}

struct Run {
    seed: u64,
    random: fastrand::Rng,
    storage: Storage,
    folder: Folder,
    copies: Vec<Folder>,
    /// Everything that was observed, as lines of an export.
    observed: Vec<(Observed, Value)>,
    /// The uids of all deleted events.
    deleted: BTreeSet<String>,
    /// The uids of deleted events whose deletion is unknown to a folder that was restored since.
    unsure: BTreeSet<String>,
    /// The file of a forged manifest, if there is one.
    forged: Option<PathBuf>,
    /// By how many milliseconds the clock is wrong.
    wrong: i64,
    /// How often a seal was refused, and how often the archive was continued.
    refused: usize,
    continued: usize,
}

/// What others change in a forged manifest.
const FORGED: [fn(&mut Value); 6] = [
    |it| it["sealedThrough"] = u64::MAX.into(),
    |it| {
        it["sealedThrough"] = u64::MAX.into();
        it.as_object_mut().unwrap().remove("archive");
    },
    |it| it["id"] = "0123456789abcdef".into(),
    |it| it["archive"] = "0123456789abcdef".into(),
    |it| {
        it["id"] = "0123456789abcdef".into();
        it["files"] = json!([]);
    },
    |it| it["form"] = 9.into(),
];

impl Run {
    fn new(seed: u64) -> Self {
        let folder = Folder {
            world: World::new(),
            has: 0,
            events: BTreeMap::new(),
            deleted: BTreeSet::new(),
            newest: None,
        };
        Self {
            seed,
            random: fastrand::Rng::with_seed(seed),
            storage: Storage::folder(),
            folder,
            copies: Vec::new(),
            observed: Vec::new(),
            deleted: BTreeSet::new(),
            unsure: BTreeSet::new(),
            forged: None,
            wrong: 0,
            refused: 0,
            continued: 0,
        }
    }

    fn place(&self) -> Place {
        self.storage.place()
    }

    async fn newest(&self) -> Option<Manifest> {
        newest(&self.place(), "prod").await.ok()
    }

    /// Observes versions of a namespace, of new events and of existing ones.
    async fn observe(&mut self, namespace: &str, versions: usize) {
        // An export older than the last one is refused, and one from the future would be newer than
        // all later ones.
        if self.wrong != 0 {
            return;
        }
        self.folder.world.clock.advance(60_000);
        let at = Timestamp::from_millisecond(self.folder.world.clock.now().0).unwrap();
        let seen = if namespace == "storm" {
            "2999-01-01T00:00:00Z".to_owned()
        } else {
            at.to_string()
        };
        for _ in 0..versions {
            let number = self.observed.len() as u64 + 1;
            let event = self.random.u64(..number.div_ceil(3));
            let mut uid = format!("{namespace}-{event}");
            if self.deleted.contains(&uid) {
                uid = format!("{namespace}-of-{number}");
            }
            let name = format!("of-{uid}");
            let version = json!({
                "kind": "Version", "namespace": namespace, "name": name, "epoch": 0,
                "observedAt": at.to_string(),
                "event": {
                    "apiVersion": "v1", "kind": "Event",
                    "metadata": {
                        "namespace": namespace, "name": name, "uid": uid,
                        "resourceVersion": number.to_string(),
                    },
                    "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web"},
                    "reason": "BackOff", "message": format!("back-off {number}"),
                    "count": number, "lastTimestamp": seen,
                },
            });
            self.observed.push(((uid, number), version));
        }
        self.catch_up().await;
    }

    /// Observes again what the folder does not have.
    async fn catch_up(&mut self) {
        let missing = &self.observed[self.folder.has..];
        let missing: Vec<_> = missing
            .iter()
            .filter(|((uid, _), _)| !self.deleted.contains(uid))
            .collect();
        for ((uid, _), version) in &missing {
            let key = format!("{}/of-{uid}", version["namespace"].as_str().unwrap());
            self.folder.events.insert(uid.clone(), key);
        }
        let lines: Vec<_> = missing.iter().map(|(_, line)| line.clone()).collect();
        self.folder.world.import(&lines).await;
        self.folder.has = self.observed.len();
    }

    async fn delete(&mut self) {
        let keys: Vec<_> = self.folder.events.keys().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let uid = &keys[self.random.usize(..keys.len())];
        let key = self.folder.events.remove(uid).unwrap();
        self.folder.world.delete(&key).await;
        self.unsure.remove(uid);
        self.folder.deleted.insert(uid.clone());
        self.deleted.insert(uid.clone());
    }

    /// Replaces the folder by one of its copies.
    async fn restore(&mut self) {
        if self.copies.is_empty() {
            return;
        }
        let at = self.random.usize(..self.copies.len());
        let mut restored = self.copies[at].copy();
        restored.world.clock = self.folder.world.clock.clone();
        let unknown = self.deleted.difference(&restored.deleted);
        self.unsure.extend(unknown.cloned());
        self.folder = restored;
        if self.wrong == 0 {
            self.catch_up().await;
        }
    }

    fn set_clock(&mut self) {
        let ahead = [500, -500, 30_000][self.random.usize(..3)] * DAY_MILLIS;
        let by = if self.wrong == 0 { ahead } else { -self.wrong };
        self.folder.world.clock.set_by(by);
        self.wrong += by;
        self.folder.world.clock.advance(7_000);
    }

    async fn forge(&mut self) {
        if let Some(file) = self.forged.take() {
            put(&file, None);
            return;
        }
        let name = FOREIGN[self.random.usize(..FOREIGN.len())];
        let file = self.storage.file(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        put(&file, Some(b"{}"));
        let Some(own) = self.newest().await else {
            return;
        };
        let number = own.number + self.random.u64(1..3);
        let mut manifest = serde_json::to_value(&own).unwrap();
        manifest["number"] = number.into();
        FORGED[self.random.usize(..FORGED.len())](&mut manifest);
        let text = manifest.to_string();
        let len = if self.random.bool() {
            text.len()
        } else {
            self.random.usize(..text.len())
        };
        let file = self
            .storage
            .file(&format!("prod/manifests/{number:020}.json"));
        put(&file, Some(&text.as_bytes()[..len]));
        self.forged = Some(file);
    }

    /// Seals. This must be refused if the newest manifest is not the folder's own. Then the
    /// operator may let the folder continue the archive, unless the manifest is forged.
    async fn seal(&mut self) {
        let seed = self.seed;
        let place = self.place();
        let (identity, newest) = (self.folder.world.identity().await, self.newest().await);
        let sealed = self.sealed().await;
        if self.forged.is_some() {
            assert!(sealed.is_err(), "seed {seed}: {sealed:?}");
            assert_eq!(self.newest().await, newest, "seed {seed}");
            self.refused += 1;
            return;
        }
        let is_own = newest.as_ref().is_none_or(|newest| {
            newest.writer == identity && Some(&newest.id) == self.folder.newest.as_ref()
        });
        if is_own {
            sealed.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        } else {
            let is_refused = matches!(
                sealed,
                Err(SealError::Older { .. } | SealError::Foreign { .. })
            );
            assert!(is_refused, "seed {seed}: {sealed:?}");
            assert_eq!(self.newest().await, newest, "seed {seed}");
            self.refused += 1;
            if self.random.bool() {
                return;
            }
            let taken = self.folder.world.take_over(&place).await;
            let taken = taken.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(taken, "seed {seed}");
            assert_ne!(self.folder.world.identity().await, identity, "seed {seed}");
            self.continued += 1;
        }
        self.folder.newest = self.newest().await.map(|newest| newest.id);
    }

    async fn sealed(&mut self) -> Result<Sealed, SealError> {
        let mut options = SealOptions::default();
        options.keep_for = Some(Duration::from_secs(400 * 24 * 3600));
        if self.random.bool() {
            options.grace = Duration::ZERO;
        }
        let (world, place) = (&self.folder.world, self.place());
        let cluster = world.open().await;
        if self.wrong == 0 {
            believe(&cluster, &world.clock);
        }
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        let sealed = Sealer::new(&place, &cluster, clock, options).seal().await;
        cluster.close().await;
        sealed
    }

    async fn step(&mut self) {
        match self.random.u8(..20) {
            0..=4 => {
                let versions = self.random.usize(1..6);
                self.observe("shop", versions).await;
            }
            5 => self.observe("storm", 30).await,
            6 | 7 => self.delete().await,
            8..=12 => self.seal().await,
            13 | 14 => {
                let copy = self.folder.copy();
                if self.copies.len() == COPIES {
                    let out = self.random.usize(..COPIES);
                    drop(self.copies.swap_remove(out));
                }
                self.copies.push(copy);
            }
            15 | 16 => self.restore().await,
            17 | 18 => self.set_clock(),
            _ => self.forge().await,
        }
    }

    /// Ends all trouble, and seals everything.
    async fn end(&mut self) {
        if self.wrong != 0 {
            self.set_clock();
        }
        if self.forged.is_some() {
            self.forge().await;
        }
        self.observe("shop", 1).await;
        // Seals are refused, the archive is continued, and events are removed from a few files at a
        // time.
        for _ in 0..40 {
            self.seal().await;
        }
    }

    async fn judge(&self) {
        let seed = self.seed;
        let checked = check(&self.place(), "prod").await.unwrap();
        assert_eq!(checked.problems, Vec::<String>::new(), "seed {seed}");
        let reader = Reader::new(self.place(), ReadOptions::default());
        let sealed = reader.open("prod").await.unwrap();
        let mut found: Vec<Observed> = Vec::new();
        for record in listed(&*sealed.store(), &ListRequest::default(), 500).await {
            let (namespace, name) = id(&record);
            let key = Bytes::from(format!("{namespace}/{name}"));
            let versions = sealed.versions(&key, None, 10_000).await.unwrap();
            let versions =
                versions.unwrap_or_else(|| panic!("seed {seed}: {key:?} has no versions"));
            assert_eq!(versions.more, None);
            for version in versions.versions {
                let event = codec::decode_stored(&version.event, version.number).unwrap();
                found.push((event.metadata.unwrap().uid.unwrap(), version.number));
            }
        }
        let times = found.len();
        let found: BTreeSet<_> = found.into_iter().collect();
        assert_eq!(found.len(), times, "seed {seed}: one is sealed twice");
        assert_eq!(found.len() as u64, checked.rows, "seed {seed}");
        let observed: BTreeSet<_> = self.observed.iter().map(|(observed, _)| observed).collect();
        for version in &found {
            assert!(observed.contains(version), "seed {seed}: {version:?}");
            let is_gone = self.deleted.contains(&version.0) && !self.unsure.contains(&version.0);
            assert!(!is_gone, "seed {seed}: {version:?} was deleted");
        }
        for version in observed {
            let is_there = found.contains(version) || self.deleted.contains(&version.0);
            assert!(is_there, "seed {seed}: {version:?} is in no file");
        }
    }
}

#[tokio::test]
async fn whatever_goes_wrong_what_was_observed_is_sealed_once() {
    let runs = std::env::var("TIDINGS_ARCHIVE_RUNS");
    let runs = runs.map_or(3, |runs| runs.parse().unwrap());
    let (mut refused, mut continued) = (0, 0);
    for seed in 0..runs {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step().await;
        }
        run.end().await;
        run.judge().await;
        refused += run.refused;
        continued += run.continued;
    }
    assert!(refused > 0 && continued > 0, "{refused} {continued}");
}
