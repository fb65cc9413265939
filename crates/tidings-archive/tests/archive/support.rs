//! A source, an archive that follows it, and what the archive has.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use tidings_archive::{Cluster, ClusterHistory, ClusterOptions};
use tidings_history::{History, Versions};
use tidings_server::Running;
use tidings_store::{ListRequest, Store};
use tidings_testing::serving;

/// Maximum time of a step before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A source with events of the namespace `shop`.
pub(crate) struct Source {
    pub(crate) server: Running,
    pub(crate) client: Client,
    pub(crate) events: Api<Event>,
}

impl Source {
    pub(crate) async fn start(folder: &Path, port: u16) -> Self {
        let server = serving::start(folder, port).await;
        let client = serving::client(server.kubeconfig()).await;
        Self {
            events: Api::namespaced(client.clone(), "shop"),
            server,
            client,
        }
    }

    pub(crate) async fn create(&self, name: &str) -> Event {
        let event = serving::event(name);
        self.events
            .create(&PostParams::default(), &event)
            .await
            .unwrap()
    }

    pub(crate) async fn count(&self, name: &str, count: i32) -> Event {
        let patch = Patch::Merge(serde_json::json!({"count": count}));
        let patched = self
            .events
            .patch(name, &PatchParams::default(), &patch)
            .await;
        patched.unwrap()
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.events
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

/// Follows a source with short delays. When this returns, the watch is open.
pub(crate) async fn open(folder: &Path, source: &Source) -> Cluster {
    let cluster = follow(folder, source).await;
    let history = cluster.history();
    until(async || (history.following().state == "watching").then_some(())).await;
    cluster
}

/// Follows a source with short delays.
pub(crate) async fn follow(folder: &Path, source: &Source) -> Cluster {
    Cluster::open(folder, &source.client, options())
        .await
        .unwrap()
}

/// Options with short delays and short pages.
pub(crate) fn options() -> ClusterOptions {
    let mut options = ClusterOptions::new("prod");
    options.retry = (Duration::from_millis(20), Duration::from_millis(200));
    options.page = 7;
    options
}

/// Waits until a condition is true.
pub(crate) async fn until<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap()
}

/// Returns the numbers at the source of all versions of an event, read in pages, the newest first.
pub(crate) async fn versions(history: &ClusterHistory, name: &str) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page: Versions = history
            .versions(format!("shop/{name}").into(), after, 10)
            .await
            .unwrap()?;
        assert!(page.versions.len() <= 10);
        all.extend(page.versions.iter().map(|version| version.number));
        after = page.more;
        if after.is_none() {
            return Some(all);
        }
    }
}

/// Returns the names of the kept events.
pub(crate) async fn names(store: &dyn Store) -> Vec<String> {
    let page = store.list(ListRequest::default()).await.unwrap();
    let keys = page.records.iter().map(|record| &record.key);
    keys.map(|key| String::from_utf8(key.to_vec()).unwrap())
        .collect()
}
