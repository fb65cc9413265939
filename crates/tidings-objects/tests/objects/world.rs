//! A cluster whose versions wait to be sealed, in a data folder for tests.

use std::fs::File;
use std::io::BufReader;
use std::path::Path as Folder;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;
use tidings_archive::{Cluster, ClusterOptions, RetentionPolicy};
use tidings_objects::{
    ContinueError, Manifest, Place, SealError, SealOptions, Sealed, Sealer, check, take_over,
};
use tidings_store::UnixMillis;
use tidings_store::clock::{Clock, ManualClock};
use tidings_testing::copy_folder;
use tokio::task::spawn_blocking;

use super::storage::{Storage, temporary};

const START: i64 = 1_700_000_000_000;

/// A clock so late that every object is old.
pub(crate) fn long_after() -> ManualClock {
    ManualClock::at(UnixMillis(4_000_000_000_000))
}

/// A sum over all versions of an archive, which does not depend on how they are distributed over
/// files.
pub(crate) fn sum_of(manifest: &Manifest) -> u64 {
    let sums = manifest.files.iter().map(|file| &file.sum);
    sums.fold(0, |sum, one| {
        sum.wrapping_add(u64::from_str_radix(one, 16).unwrap())
    })
}

/// A data folder in which versions wait, after an import.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) clock: ManualClock,
    /// The number of observed versions.
    pub(crate) observed: u64,
    /// The retention of events.
    pub(crate) keep_for: Duration,
}

/// Moves the clock until the store believes it, and then moves it back.
pub(crate) fn believe(cluster: &Cluster, clock: &ManualClock) {
    for _ in 0..3 {
        clock.advance(30_000);
        cluster.unsealed().confirmed();
    }
    clock.set_by(-90_000);
    assert_eq!(cluster.unsealed().confirmed(), clock.now());
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            folder: temporary(),
            clock: ManualClock::at(UnixMillis(START)),
            observed: 0,
            keep_for: Duration::from_secs(200 * 365 * 24 * 3600),
        }
    }

    /// A copy in another folder.
    pub(crate) fn copy(&self) -> Self {
        let mut world = Self::new();
        world.clock = ManualClock::at(self.clock.now());
        (world.observed, world.keep_for) = (self.observed, self.keep_for);
        copy_folder(self.folder.path(), world.folder.path());
        world
    }

    /// The path of the data folder.
    pub(crate) fn path(&self) -> &Folder {
        self.folder.path()
    }

    /// Waits until no process uses the folder. A dropped store may still be writing.
    pub(crate) async fn ended(&self) {
        let Ok(lock) = File::open(self.folder.path().join("lock")) else {
            return;
        };
        let locked = spawn_blocking(move || lock.lock()).await;
        locked.unwrap().unwrap();
    }

    pub(crate) fn options(&self, name: &str) -> ClusterOptions {
        let mut options = ClusterOptions::new(name);
        options.seal = true;
        let keep_for = self.keep_for;
        options.retention = RetentionPolicy::new(Arc::new(move |_| keep_for));
        options.store.clock = Arc::new(self.clock.clone());
        options.store.expire_by_itself = false;
        options.store.free_space_min = 0;
        options
    }

    /// Observes versions of events about some pods. The number of events grows, and some repeat.
    pub(crate) async fn observe(&mut self, versions: u64) {
        let time = |millis: i64| Timestamp::from_millisecond(millis).unwrap().to_string();
        self.clock.advance(60_000);
        let now = self.clock.now().0;
        let mut lines = Vec::new();
        for number in self.observed + 1..=self.observed + versions {
            let (pod, event) = (number % 7, number % 13);
            let at = time(now - 1000 + i64::try_from(number - self.observed).unwrap());
            let version = json!({
                "kind": "Version", "namespace": "shop", "name": format!("web-{pod}.{event}"),
                "epoch": 0, "observedAt": at,
                "event": {
                    "apiVersion": "v1", "kind": "Event",
                    "metadata": {
                        "namespace": "shop", "name": format!("web-{pod}.{event}"),
                        "uid": format!("uid-{pod}-{event}"), "resourceVersion": number.to_string(),
                        "labels": {"app": "web", "number": event.to_string()},
                    },
                    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": format!("web-{pod}")},
                    "reason": "BackOff", "message": format!("back-off {number}"), "type": "Warning",
                    "count": number, "firstTimestamp": "2023-11-14T22:13:20Z",
                    "lastTimestamp": "2023-11-14T22:13:21Z", "source": {"component": "kubelet"},
                },
            });
            lines.push(version);
        }
        self.import(&lines).await;
    }

    /// Observes versions in the form of an export's lines. Lines of other kinds are allowed.
    pub(crate) async fn import(&mut self, said: &[serde_json::Value]) {
        self.import_with([json!([]), json!([])], said).await;
    }

    /// Observes versions, positions and gaps.
    pub(crate) async fn import_with(
        &mut self,
        [followed, gaps]: [serde_json::Value; 2],
        said: &[serde_json::Value],
    ) {
        let now = Timestamp::from_millisecond(self.clock.now().0).unwrap();
        let head = json!({
            "kind": "Coverage", "form": 1, "store": "one", "exportedAt": now.to_string(),
            "followed": followed, "gaps": gaps, "overQuota": {"events": 0},
        });
        let mut lines = head.to_string();
        for one in said {
            lines.push('\n');
            lines += &one.to_string();
        }
        lines += "\n{\"kind\":\"Complete\"}\n";
        let is_version = |one: &&serde_json::Value| one["kind"] == "Version";
        let versions = said.iter().filter(is_version).count() as u64;
        self.observed += versions;
        let mut lines = BufReader::new(lines.as_bytes());
        let options = self.options("prod");
        let mut told = |_: &_| {};
        let folder = self.folder.path();
        let imported = tidings_archive::import(folder, options, &mut lines, &mut told);
        let imported = imported.await.unwrap();
        assert!(imported.is_whole);
        assert_eq!(imported.versions, versions);
    }

    /// Opens the data folder.
    pub(crate) async fn open(&self) -> Cluster {
        let options = self.options("prod");
        let opened = Cluster::open_kept(self.folder.path(), options).await;
        opened.unwrap()
    }

    /// The identity of the folder's store.
    pub(crate) async fn identity(&self) -> String {
        let cluster = self.open().await;
        let identity = cluster.store_identity().to_owned();
        cluster.close().await;
        identity
    }

    /// Deletes an event in the archive.
    pub(crate) async fn delete(&self, key: impl AsRef<[u8]>) {
        let cluster = self.open().await;
        let deleted = cluster
            .store()
            .delete(Bytes::copy_from_slice(key.as_ref()), None)
            .await;
        deleted.unwrap();
        cluster.close().await;
    }

    pub(crate) async fn seal(
        &self,
        place: &Place,
        options: SealOptions,
    ) -> std::result::Result<Sealed, SealError> {
        self.seal_as("prod", self.folder.path(), place, options)
            .await
    }

    pub(crate) async fn seal_as(
        &self,
        name: &str,
        folder: &Folder,
        place: &Place,
        options: SealOptions,
    ) -> std::result::Result<Sealed, SealError> {
        let cluster = Cluster::open_kept(folder, self.options(name))
            .await
            .unwrap();
        believe(&cluster, &self.clock);
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let sealed = Sealer::new(place, &cluster, clock, options).seal().await;
        cluster.close().await;
        sealed
    }

    /// Seals with a clock by which everything is old, so that removed files are deleted at once.
    pub(crate) async fn seal_late(
        &self,
        place: &Place,
        part_bytes: usize,
    ) -> std::result::Result<Sealed, SealError> {
        let mut options = SealOptions::default();
        options.grace = Duration::ZERO;
        options.part_bytes = part_bytes;
        let clock = long_after();
        let mut opened = self.options("prod");
        opened.store.clock = Arc::new(clock.clone());
        let cluster = Cluster::open_kept(self.folder.path(), opened).await;
        let cluster = cluster.unwrap();
        believe(&cluster, &clock);
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let sealed = Sealer::new(place, &cluster, clock, options).seal().await;
        cluster.close().await;
        sealed
    }

    /// Continues the archive at a place, whenever it was written. Returns whether there was one to
    /// continue.
    pub(crate) async fn take_over(
        &self,
        place: &Place,
    ) -> std::result::Result<bool, ContinueError> {
        let mut cluster = self.open().await;
        let taken = take_over(place, &mut cluster, None, Timestamp::MAX, &self.clock).await;
        cluster.close().await;
        taken
    }

    /// Checks that the archive is complete, has the versions of this sum, and that no other files
    /// are left.
    pub(crate) async fn check_sum(&self, storage: &Storage, sum: u64) {
        let checked = check(&storage.place(), "prod").await.unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
        assert_eq!(checked.rows, self.observed);
        assert_eq!(checked.manifest.gone, 0);
        assert_eq!(sum_of(&checked.manifest), sum);
        assert_eq!(checked.leavings, 0);
        // Each file has its rollup, and there is no incomplete file.
        let files = checked.manifest.files.len();
        assert_eq!(storage.files(), 2 * files);
    }

    /// Checks that the archive is complete, and has each version once.
    pub(crate) async fn check(&self, place: &Place) {
        let checked = check(place, "prod").await.unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
        assert_eq!(checked.rows, self.observed);
        assert_eq!(checked.manifest.rows(), self.observed);
        assert_eq!(checked.manifest.gone, 0);
    }
}
