//! The page of an archive: several clusters, their gaps, more than is read, and still pictures for
//! those who want no motion.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use http::Request;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_server::clock::SystemClock;
use tidings_server::{
    ApiOptions, ApiServer, Authenticator, Exported, FollowedCluster, Following, Past,
    RunningClusters, StartOptions, Token, User, Versions, router, start_clusters,
};
use tidings_store::memory::MemoryStore;
use tidings_store::{BoxFuture, ReadError, Store};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use tidings_testing::browser::{Browser, DESKTOP};

/// Minutes ago between which versions may be missing, in the first cluster.
const GAP: (i64, i64) = (40, 20);
/// Events of each cluster.
const EVENTS: i64 = 60;

fn ago(minutes: i64) -> String {
    (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string()
}

/// What an archive knows of a cluster, of which only the gaps are asked for here.
struct Gaps(Value);

impl Past for Gaps {
    fn versions(
        &self,
        _: Bytes,
        _: Option<u64>,
        _: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        async { Ok(None) }.boxed()
    }

    fn coverage(&self) -> BoxFuture<'_, Result<Value, ReadError>> {
        let coverage = json!({ "gaps": self.0 });
        async { Ok(coverage) }.boxed()
    }

    fn export(&self, _: Option<String>) -> BoxFuture<'_, Result<Option<Exported>, ReadError>> {
        async { Ok(None) }.boxed()
    }

    fn following(&self) -> Following {
        Following::new("watching")
    }
}

/// A cluster with an event a minute of a pod of its own, and these gaps.
async fn cluster(name: &str, gaps: Value) -> FollowedCluster {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let token = Token {
        token: "t".into(),
        user: User::new("source", "", ["system:masters".to_owned()]),
    };
    let source = ApiServer::new(
        Arc::clone(&store),
        Arc::new(SystemClock),
        Authenticator::new(vec![token]),
        ApiOptions::default(),
    );
    let source = router(Arc::new(source));
    for minute in 0..EVENTS {
        let body = json!({
            "metadata": {"name": format!("web-of-{name}.{minute}"), "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "namespace": "shop",
                "name": format!("web-of-{name}")},
            "type": "Normal", "reason": format!("Reason{minute}"), "message": "one of many",
            "firstTimestamp": ago(minute), "lastTimestamp": ago(minute), "count": 1,
        });
        let request = Request::post("/api/v1/namespaces/shop/events")
            .header("authorization", "Bearer t")
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let created = source.clone().oneshot(request.unwrap()).await;
        assert_eq!(created.unwrap().status(), 201);
    }
    FollowedCluster::new(name, store, Arc::new(Gaps(gaps)))
}

/// An archive of two clusters, and a browser that is logged in to it.
struct Archive {
    browser: Browser,
    origin: String,
    runtime: Runtime,
    running: Option<RunningClusters>,
    _folder: TempDir,
}

impl Archive {
    fn start(read_limit: usize) -> Option<Self> {
        let browser = Browser::start(DESKTOP)?;
        let runtime = Runtime::new().unwrap();
        let folder = TempDir::new().unwrap();
        let gap = json!([{"from": ago(GAP.0), "to": ago(GAP.1), "cause": "compacted",
            "namespace": ""}]);
        let mut options = StartOptions::new(folder.path());
        options.secure_port = 0;
        options.api.timeline.read_limit = read_limit;
        let running = runtime.block_on(async {
            let clusters = vec![cluster("prod", gap).await, cluster("edge", json!([])).await];
            start_clusters(options, clusters).await.unwrap()
        });
        let kubeconfig = Kubeconfig::read_from(running.kubeconfig()).unwrap();
        let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        let token = serde_json::to_value(user).unwrap()["token"]
            .as_str()
            .unwrap()
            .to_owned();
        let origin = format!("https://localhost:{}", running.address().port());
        browser.open(&format!("{origin}/timeline"));
        browser.until("document.getElementById('login').open");
        browser.run("document.getElementById('token').focus()");
        browser.keys(&format!("{token}\u{e007}"));
        browser.until("document.documentElement.dataset.loaded");
        Some(Self {
            browser,
            origin,
            runtime,
            running: Some(running),
            _folder: folder,
        })
    }

    fn open(&self, query: &str) -> &Browser {
        let page = &self.browser;
        page.open(&format!("{}/timeline{query}", self.origin));
        page.until("document.documentElement.dataset.loaded");
        page
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown());
        }
    }
}

#[test]
fn each_cluster_has_its_lanes_and_a_gap_is_told_where_it_is() {
    let Some(archive) = Archive::start(20_000) else {
        return;
    };
    let page = archive.open("?last=1h");
    page.until("document.querySelectorAll('.lane').length === 2");
    let lanes = page.text(
        "[...document.querySelectorAll('.lane')].map((lane) => lane.title).sort().join('; ')",
    );
    assert!(
        lanes.contains("web-of-edge, in edge · shop") && lanes.contains("in prod · shop"),
        "{lanes}"
    );
    let foot = "document.getElementById('lanes-foot').innerText";
    page.until(&format!("{foot}.includes('1 gap of coverage')"));
    // What is said below the marks, at a part of their width.
    let hover = |part: f64| {
        let at = page.value(&format!(
            "(() => {{ const box = document.getElementById('marks').getBoundingClientRect();
                return [box.left + box.width * {part}, box.top + box.height - 3]; }})()"
        ));
        page.hover(at[0].as_f64().unwrap(), at[1].as_f64().unwrap());
    };
    let told = "document.body.innerText.includes('Not covered: events may be missing')";
    hover(0.5);
    page.until(told);
    hover(0.85);
    page.until(&format!("!{told}"));

    // One cluster alone, which has no gap.
    let page = archive.open("?last=1h&cluster=edge");
    page.until("document.querySelectorAll('.lane').length === 1");
    assert!(!page.text(foot).contains("gap"));
}

#[test]
fn what_was_not_read_is_told() {
    let Some(archive) = Archive::start(20) else {
        return;
    };
    let page = archive.open("?last=1h");
    page.until("document.getElementById('notices').innerText.includes('events read')");
    let page = archive.open("?last=5m");
    page.until("document.querySelectorAll('.lane').length === 2");
    page.until("!document.getElementById('notices').innerText.includes('events read')");
}

#[test]
fn who_wants_no_motion_gets_none() {
    let Some(archive) = Archive::start(20_000) else {
        return;
    };
    let motion = |value: &str| {
        let feature = json!({ "name": "prefers-reduced-motion", "value": value });
        archive.browser.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
        let page = archive.open("");
        page.text(
            "(() => { const busy = document.getElementById('busy');
                busy.classList.add('on');
                const [box, bar] = [getComputedStyle(busy), getComputedStyle(busy, '::before')];
                return bar.animationName + ' ' + box.transitionDuration; })()",
        )
    };
    assert_eq!(motion("no-preference"), "wander 0.15s");
    assert_eq!(motion("reduce"), "none 0s");
}
