//! What the store's tests share: a store of either kind on a clock that is moved by hand, and short ways to talk to it.

#[cfg(feature = "etcd")]
mod enveloped;
#[cfg(feature = "etcd")]
mod etcd;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::memory::MemoryStore;
use tidings_store::{
    Change, Index, ListRequest, NewRecord, Record, Revision, Store, UnixMillis, Watch,
};

/// Copies a folder with all in it.
pub(crate) fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_into(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// The clock's first time.
pub(crate) const START: i64 = 1_700_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    /// With room for a few changes in memory, so that watchers read the history from disk.
    Embedded,
    /// With the default room.
    EmbeddedRoomy,
    /// On an etcd of its own.
    #[cfg(feature = "etcd")]
    Etcd,
}

pub(crate) struct Fixture {
    pub(crate) backend: Backend,
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Store>,
    folder: TempDir,
    #[cfg(feature = "etcd")]
    cluster: Option<etcd::Cluster>,
}

impl Fixture {
    pub(crate) fn new(backend: Backend) -> Self {
        let clock = ManualClock::at(UnixMillis(START));
        let folder = tempfile::tempdir().unwrap();
        let store = open(backend, &clock, &folder);
        Self {
            backend,
            clock,
            store,
            folder,
            #[cfg(feature = "etcd")]
            cluster: None,
        }
    }

    /// A store on an etcd that is started for it; `None` if there is none on this machine.
    #[cfg(feature = "etcd")]
    pub(crate) async fn on_etcd() -> Option<Self> {
        let cluster = etcd::Cluster::start(1, &[])?;
        let clock = ManualClock::at(UnixMillis(START));
        Some(Self {
            backend: Backend::Etcd,
            store: enveloped::Enveloped::open(cluster.endpoints(), &clock).await,
            clock,
            folder: tempfile::tempdir().unwrap(),
            cluster: Some(cluster),
        })
    }

    /// Closes the store and opens it again; a store in memory only goes on.
    pub(crate) async fn restart(&mut self) {
        #[cfg(feature = "etcd")]
        if let Some(cluster) = &self.cluster {
            self.store.close().await;
            self.store = enveloped::Enveloped::open(cluster.endpoints(), &self.clock).await;
            return;
        }
        if self.backend != Backend::Memory {
            self.store.close().await;
            self.store = open(self.backend, &self.clock, &self.folder);
        }
    }

    /// Closes the store and opens it again after so many milliseconds; or has it die, and opens a
    /// copy of what it left.
    pub(crate) async fn restart_after(&mut self, millis: i64, killed: bool) {
        if killed {
            let left = tempfile::tempdir().unwrap();
            copy_into(self.folder.path(), left.path());
            self.folder = left;
        }
        self.store.close().await;
        self.clock.advance(millis);
        self.store = open(self.backend, &self.clock, &self.folder);
    }

    /// Where an embedded store is.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether it is an embedded store.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.backend, Backend::Embedded | Backend::EmbeddedRoomy)
    }

    /// Whether the records are kept by another process.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(
            self.backend,
            Backend::Memory | Backend::Embedded | Backend::EmbeddedRoomy
        )
    }

    pub(crate) async fn create(&self, key: &str, value: &str) -> Revision {
        self.store
            .create(key.to_owned().into(), NewRecord::new(value.to_owned()))
            .await
            .unwrap()
    }

    /// Creates a record that lives for so many seconds.
    pub(crate) async fn create_for(&self, key: &str, value: &str, seconds: i64) -> Revision {
        let record = NewRecord::new(value.to_owned()).expires_at(self.after(seconds));
        self.store
            .create(key.to_owned().into(), record)
            .await
            .unwrap()
    }

    pub(crate) async fn update(&self, key: &str, value: &str, expected: Revision) -> Revision {
        let record = NewRecord::new(value.to_owned());
        self.store
            .update(key.to_owned().into(), record, expected)
            .await
            .unwrap()
    }

    pub(crate) async fn delete(&self, key: &str) -> Revision {
        self.store
            .delete(key.to_owned().into(), None)
            .await
            .unwrap()
            .revision
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Record> {
        self.store.get(key.to_owned().into()).await.unwrap()
    }

    /// The keys and values a list request finds, as `key=value`.
    pub(crate) async fn list(&self, request: ListRequest) -> Vec<String> {
        self.store
            .list(request)
            .await
            .unwrap()
            .records
            .iter()
            .map(show)
            .collect()
    }

    pub(crate) async fn watch(&self, prefix: &str, after: Revision) -> Box<dyn Watch> {
        self.store
            .watch(prefix.to_owned().into(), after)
            .await
            .unwrap()
    }

    pub(crate) fn after(&self, seconds: i64) -> UnixMillis {
        use tidings_store::clock::Clock;
        UnixMillis(self.clock.now().0 + seconds * 1000)
    }
}

fn open(backend: Backend, clock: &ManualClock, folder: &TempDir) -> Arc<dyn Store> {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    options.history_retention = Duration::MAX;
    match backend {
        Backend::Memory => return Arc::new(MemoryStore::new(options.clock, usize::MAX)),
        Backend::Embedded => {
            options.history_memory_bytes = 1500;
            // Small enough that segments of what never expires are written anew.
            options.segment_bytes = 200;
            options.index_memory_bytes = 1 << 10;
        }
        Backend::EmbeddedRoomy => {}
        #[cfg(feature = "etcd")]
        Backend::Etcd => unreachable!("a store on etcd is opened by `Fixture::on_etcd`"),
    }
    Arc::new(EmbeddedStore::open(folder.path(), options).unwrap())
}

pub(crate) fn show(record: &Record) -> String {
    format!(
        "{}={}",
        String::from_utf8_lossy(&record.key),
        String::from_utf8_lossy(&record.value)
    )
}

/// A change in short: `+key=value`, `~key=old>new`, `-key=old`, or `!key=old` for an expiry.
pub(crate) fn show_change(change: &Change) -> String {
    match change {
        Change::Put {
            record,
            previous: None,
        } => format!("+{}", show(record)),
        Change::Put {
            record,
            previous: Some(previous),
        } => {
            format!(
                "~{}>{}",
                show(previous),
                String::from_utf8_lossy(&record.value)
            )
        }
        Change::Delete {
            previous,
            expired: false,
            ..
        } => format!("-{}", show(previous)),
        Change::Delete {
            previous,
            expired: true,
            ..
        } => format!("!{}", show(previous)),
    }
}

/// The next so many changes of a watch.
pub(crate) async fn next_changes(watch: &mut dyn Watch, count: usize) -> Vec<Arc<Change>> {
    let mut changes = Vec::new();
    while changes.len() < count {
        changes.extend(watch.next().await.unwrap());
    }
    assert_eq!(changes.len(), count, "{changes:?}");
    changes
}

/// The next so many changes, in short.
pub(crate) async fn next_shown(watch: &mut dyn Watch, count: usize) -> Vec<String> {
    next_changes(watch, count)
        .await
        .iter()
        .map(|change| show_change(change))
        .collect()
}

/// Index values about a pod.
pub(crate) fn about(name: &str, last_seen: i64) -> Index {
    Index {
        object_uid: format!("uid-of-{name}"),
        object_kind: "Pod".into(),
        object_namespace: "default".into(),
        object_name: name.into(),
        last_seen: UnixMillis(START + last_seen * 1000),
        ..Index::default()
    }
}
