//! Shared by the store's tests: a store of any kind on a manual clock, and shorthands for requests.

pub(crate) mod backends;
#[cfg(feature = "etcd")]
mod enveloped;

use std::path::Path;
use std::sync::Arc;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use tidings_store::clock::ManualClock;
use tidings_store::{
    Change, Index, ListRequest, NewRecord, Record, Revision, Store, UnixMillis, Watch,
};
use tidings_testing::copy_folder;

use backends::{Backend, Make};

/// The clock's first time.
pub(crate) const START: i64 = 1_700_000_000_000;

pub(crate) struct Fixture {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Store>,
    folder: TempDir,
}

impl Fixture {
    /// A store without writes; `None` if the backend is not available.
    pub(crate) async fn on(backend: Make) -> Option<Self> {
        let backend = backend();
        if !backend.is_available() {
            return None;
        }
        let clock = ManualClock::at(UnixMillis(START));
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            store: backend.open(folder.path(), &clock).await,
            backend,
            clock,
            folder,
        })
    }

    /// Closes the store and opens it again; a store in memory just continues.
    pub(crate) async fn restart(&mut self) {
        if self.backend.is_durable() {
            self.restart_after(0, false).await;
        }
    }

    /// Closes the store and reopens it after some milliseconds; or kills it, and opens a copy of
    /// its folder.
    pub(crate) async fn restart_after(&mut self, millis: i64, killed: bool) {
        if killed {
            let left = tempfile::tempdir().unwrap();
            copy_folder(self.folder.path(), left.path());
            self.folder = left;
        }
        self.store.close().await;
        self.clock.advance(millis);
        self.store = self.backend.open(self.folder.path(), &self.clock).await;
    }

    /// The store's folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn create(&self, key: &str, value: &str) -> Revision {
        self.store
            .create(key.to_owned().into(), NewRecord::new(value.to_owned()))
            .await
            .unwrap()
    }

    /// Creates a record with a TTL of some seconds.
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

/// A number of next changes of a watch.
pub(crate) async fn next_changes(watch: &mut dyn Watch, count: usize) -> Vec<Arc<Change>> {
    let mut changes = Vec::new();
    while changes.len() < count {
        changes.extend(watch.next().await.unwrap());
    }
    assert_eq!(changes.len(), count, "{changes:?}");
    changes
}

/// A number of next changes, in short.
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

/// Runs a case on a number of random inputs; the smallest failing one is reported.
pub(crate) fn check_random<S: Strategy>(cases: u32, inputs: &S, case: impl AsyncFn(S::Value)) {
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let result = runner.run(inputs, |input| {
        runtime.block_on(case(input));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
