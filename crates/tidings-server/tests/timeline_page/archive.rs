//! The page of an archive: several clusters, their gaps, clusters that are not followed, the
//! versions of an event, more events than are read, and no animation for readers who prefer that.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use http::request::Builder;
use http::{Request, StatusCode};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_history::{Capabilities, Cause, Coverage, Following, Gap, History, Version, Versions};
use tidings_server::clock::SystemClock;
use tidings_server::{
    ApiOptions, ApiServer, Authenticator, FollowedCluster, RunningClusters, StartOptions, Token,
    User, router, start_clusters, start_timeline,
};
use tidings_store::memory::MemoryStore;
use tidings_store::{BoxFuture, ReadError, Store, UnixMillis};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use tidings_testing::browser::{Browser, DESKTOP};

use crate::world::{enter, watch_clipboard};

/// The gap of the first cluster: its start and end, in minutes before now.
const GAP: (i64, i64) = (40, 20);
/// Events of each cluster.
const EVENTS: i64 = 60;
/// Versions of the repeating event: more than are listed.
const VERSIONS: i64 = 60;
/// Versions of another event: more than come with it.
const MANY: i64 = 700;

fn ago(minutes: i64) -> String {
    (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string()
}

/// Why a cluster is not followed, if it is not.
type Why = Arc<Mutex<Option<String>>>;

/// A cluster's history, for tests.
#[derive(Default)]
struct Known {
    gaps: Vec<Gap>,
    why: Why,
    /// The versions of the cluster's event, oldest first.
    versions: Vec<Bytes>,
}

impl History for Known {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn versions(
        &self,
        _: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        // A page begins after the newer versions; `after` is the number of older ones.
        let older = after.map(|after| usize::try_from(after).unwrap());
        let older = older.unwrap_or(self.versions.len());
        let newest_first = self.versions[..older].iter().rev().take(limit);
        let versions: Vec<_> = newest_first
            .map(|value| Version {
                uid: "uid".into(),
                epoch: 0,
                number: 1,
                event: value.clone(),
                observed_at: UnixMillis(0),
            })
            .collect();
        let left = (older - versions.len()) as u64;
        let found = (!versions.is_empty()).then(|| Versions {
            versions,
            more: (left > 0).then_some(left),
            ..Versions::default()
        });
        async move { Ok(found) }.boxed()
    }

    fn coverage(&self, _: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        let coverage = Coverage {
            gaps: self.gaps.clone(),
            ..Coverage::default()
        };
        async { Ok(coverage) }.boxed()
    }

    fn following(&self) -> Following {
        let mut following = Following::new("watching");
        following.why.clone_from(&self.why.lock().unwrap());
        following.events = 1;
        following.versions = 75;
        following.stored_bytes = 59_700_000;
        following.covered_since = Some(UnixMillis(1_000_000_000_000));
        following
    }
}

/// A store for a cluster's events, and an API server over it.
fn source() -> (Arc<dyn Store>, Router) {
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
    (store, router(Arc::new(source)))
}

async fn send(source: &Router, request: Builder, content_type: &str, body: &Value) -> StatusCode {
    let request = request
        .header("authorization", "Bearer t")
        .header("content-type", content_type)
        .body(Body::from(body.to_string()));
    let answer = source.clone().oneshot(request.unwrap()).await;
    answer.unwrap().status()
}

/// A cluster with an event a minute about its own pod, and these gaps.
async fn cluster(name: &str, gaps: Vec<Gap>, why: Why) -> FollowedCluster {
    let (store, source) = source();
    for minute in 0..EVENTS {
        let body = json!({
            "metadata": {"name": format!("web-of-{name}.{minute}"), "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "namespace": "shop",
                "name": format!("web-of-{name}")},
            "type": "Normal", "reason": format!("Reason{minute}"), "message": "one of many",
            "firstTimestamp": ago(minute), "lastTimestamp": ago(minute), "count": 1,
        });
        let request = Request::post("/api/v1/namespaces/shop/events");
        let status = send(&source, request, "application/json", &body).await;
        assert_eq!(status, 201);
    }
    let known = Known {
        gaps,
        why,
        ..Known::default()
    };
    FollowedCluster::new(name, store, Arc::new(known))
}

/// Two clusters. The first one has a gap, and is followed unless `why` has a reason.
async fn two(why: Why) -> Vec<FollowedCluster> {
    let at = |minutes| {
        let at: Timestamp = ago(minutes).parse().unwrap();
        UnixMillis(at.as_millisecond())
    };
    let gap = Gap::new(at(GAP.0), at(GAP.1), Cause::Compacted);
    vec![
        cluster("prod", vec![gap], why).await,
        cluster("edge", Vec::new(), Why::default()).await,
    ]
}

/// A cluster with one event, which repeated once a minute, and has `number` versions. Before these
/// it had repeated `before` times.
async fn repeating(before: i64, number: i64) -> Vec<FollowedCluster> {
    let (store, source) = source();
    let body = json!({
        "metadata": {"name": "loop.1", "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "loop"},
        "type": "Warning", "reason": "BackOff", "message": "again and again",
        "firstTimestamp": ago(number), "lastTimestamp": ago(number), "count": 1,
    });
    let request = Request::post("/api/v1/namespaces/shop/events");
    let status = send(&source, request, "application/json", &body).await;
    assert_eq!(status, 201);
    let mut versions = Vec::new();
    for count in 1..=number {
        let patch = json!({ "count": before + count, "lastTimestamp": ago(number - count) });
        let request = Request::patch("/api/v1/namespaces/shop/events/loop.1");
        let status = send(&source, request, "application/merge-patch+json", &patch).await;
        assert_eq!(status, 200);
        let record = store.get(Bytes::from_static(b"shop/loop.1")).await;
        versions.push(record.unwrap().unwrap().value);
    }
    let known = Known {
        versions,
        ..Known::default()
    };
    vec![FollowedCluster::new("prod", store, Arc::new(known))]
}

/// An archive, and a browser that is logged in to it.
struct Archive {
    browser: Browser,
    origin: String,
    runtime: Runtime,
    running: Option<RunningClusters>,
    _folder: TempDir,
}

impl Archive {
    fn start(read_limit: usize) -> Option<Self> {
        Self::of(two(Why::default()), read_limit)
    }

    fn of(clusters: impl Future<Output = Vec<FollowedCluster>>, read_limit: usize) -> Option<Self> {
        let browser = Browser::start(DESKTOP)?;
        let runtime = Runtime::new().unwrap();
        let folder = TempDir::new().unwrap();
        let mut options = StartOptions::new(folder.path());
        options.secure_port = 0;
        options.api.timeline.read_limit = read_limit;
        let running = runtime
            .block_on(async { start_clusters(options, clusters.await).await })
            .unwrap();
        let kubeconfig = Kubeconfig::read_from(running.kubeconfig()).unwrap();
        let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        let token = serde_json::to_value(user).unwrap()["token"]
            .as_str()
            .unwrap()
            .to_owned();
        let origin = format!("https://localhost:{}", running.address().port());
        enter(&browser, &format!("{origin}/timeline"), &token);
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
    let kept = "Kept of 2 clusters: 2 events, 150 versions observed so far, 119 MB";
    assert!(page.text(foot).contains(kept), "{}", page.text(foot));
    let each = page.text("document.querySelector('#lanes-foot span').title");
    let prod = "\nprod: 1 event, 75 versions observed so far, 59 MB, followed since 2001-09-0";
    assert!(each.contains(prod), "{each}");
    // The tip at a part of the marks' width.
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

    // Only the other cluster, which has no gap.
    let page = archive.open("?last=1h&cluster=edge");
    page.until("document.querySelectorAll('.lane').length === 1");
    assert!(!page.text(foot).contains("gap"));
    let kept = "Kept: 1 event, 75 versions observed so far, 59 MB, followed since 2001-09-0";
    assert!(page.text(foot).contains(kept), "{}", page.text(foot));
}

#[test]
fn a_cluster_that_is_not_followed_is_not_shown_as_live() {
    let why = Why::default();
    *why.lock().unwrap() = Some("the source does not answer".to_owned());
    let Some(archive) = Archive::of(two(Arc::clone(&why)), 20_000) else {
        return;
    };
    let page = archive.open("?last=1h");
    let live = "document.getElementById('live-text').innerText";
    let notices = "document.getElementById('notices').innerText";
    page.until(&format!("{live} === '1 of 2 not followed'"));
    page.until(&format!(
        "{notices}.includes('prod is not followed now: the source does not answer')"
    ));

    // While the range stands still nothing is requested, so the notice disappears.
    page.click("#live");
    page.until(&format!("!{notices}.includes('not followed')"));
    let loaded = page.text("document.documentElement.dataset.loaded");
    page.run("document.dispatchEvent(new Event('visibilitychange'))");
    page.until(&format!(
        "document.documentElement.dataset.loaded !== '{loaded}'"
    ));
    assert!(!page.text(notices).contains("not followed"));
    page.click("#live");
    page.until(&format!("{notices}.includes('prod is not followed now')"));

    *why.lock().unwrap() = None;
    page.run("document.dispatchEvent(new Event('visibilitychange'))");
    page.until(&format!("{live} === 'Live'"));
    page.until(&format!("!{notices}.includes('not followed')"));
}

#[test]
fn the_commands_of_a_link_name_no_cluster() {
    let Some(page) = Browser::start(DESKTOP) else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    for number in [1, 2] {
        let mut clusters = runtime.block_on(two(Why::default()));
        clusters.truncate(number);
        let started = start_timeline(0, clusters, ApiOptions::default());
        let timeline = runtime.block_on(started).unwrap();
        page.open(&timeline.link());
        page.until(&format!(
            "document.querySelectorAll('.lane').length === {number}"
        ));
        watch_clipboard(&page);
        page.run("document.getElementById('export-command').click()");
        page.until("window.copied");
        let copied = page.text("copied");
        let expected = "tidings events -A --since=";
        assert!(copied.starts_with(expected), "{copied}");
        let of_several = number > 1;
        let said = page.text("document.getElementById('notices').innerText");
        let is_said = said.contains("does not express: cluster.");
        assert_eq!(is_said, of_several, "{said}");

        page.run("document.querySelector('.lane').click()");
        for kind in ["Pod", "Normal"] {
            // First of the object, then of its first event.
            page.until(&format!(
                "document.getElementById('panel-kind').textContent === '{kind}'
                && document.querySelector('#panel .command')"
            ));
            let commands =
                page.text("document.querySelector('#panel .command').parentElement.textContent");
            assert!(commands.contains("tidings events"), "{commands}");
            assert!(!commands.contains("--cluster"), "{commands}");
            let is_said = commands.contains("do not express: cluster.");
            assert_eq!(is_said, of_several, "{commands}");
            page.run("document.querySelector('#panel .items button')?.click()");
        }
        runtime.block_on(timeline.shutdown());
    }
}

#[test]
fn the_versions_of_an_event_run_with_time() {
    let Some(archive) = Archive::of(repeating(0, VERSIONS), 20_000) else {
        return;
    };
    let page = archive.open("?last=6h&show=event:prod/shop/loop.1");
    let rows = "document.querySelectorAll('#panel tbody tr')";
    page.until(&format!("{rows}.length === 50"));
    let counts = page.value(&format!(
        "[0, 1, 49].map((at) => {rows}[at].querySelectorAll('.count')[0].textContent)"
    ));
    assert_eq!(counts, json!(["×60", "×59", "×11"]), "the newest first");
    let after = page.text(&format!(
        "{rows}[0].querySelectorAll('.count')[1].textContent"
    ));
    assert!(after.starts_with("+1 min"), "{after}");
    assert!(
        page.text("document.getElementById('panel').textContent")
            .contains("10 older versions not listed.")
    );
    // Bars that begin at the bottom of the chart.
    let bars = bars(page, 45);
    assert!(bars >= 10.0, "{bars}");
}

/// The number of bars that a line crosses in the chart of versions, this many pixels below its top.
fn bars(page: &Browser, line: u32) -> f64 {
    page.number(&format!(
        "(() => {{ const canvas = document.querySelector('#panel canvas');
            const line = canvas.getContext('2d').getImageData(0, {line}, canvas.width, 1).data;
            let bars = 0;
            for (let x = 1; x < canvas.width; x += 1) {{
                if (line[4 * x + 3] > 128 && line[4 * x - 1] <= 128) bars += 1;
            }}
            return bars; }})()"
    ))
}

/// One bar for these repeats would be higher than all others together.
#[test]
fn what_an_event_repeated_before_its_versions_is_no_bar() {
    let Some(archive) = Archive::of(repeating(5000, VERSIONS), 20_000) else {
        return;
    };
    let page = archive.open("?last=6h&show=event:prod/shop/loop.1");
    page.until("document.querySelectorAll('#panel tbody tr').length === 50");
    let said = page.text("document.getElementById('panel').textContent");
    assert!(
        said.contains("It is not known when the first 5,001 happened"),
        "{said}"
    );
    // The bars of the versions are high.
    let bars = bars(page, 25);
    assert!(bars >= 10.0, "{bars}");
}

#[test]
fn the_chart_has_more_versions_than_come_with_an_event() {
    let Some(archive) = Archive::of(repeating(0, MANY), 20_000) else {
        return;
    };
    let page = archive.open("?last=6h&show=event:prod/shop/loop.1");
    page.until("document.querySelectorAll('#panel tbody tr').length === 50");
    let said = page.text("document.getElementById('panel').textContent");
    assert!(said.contains("650 older versions not listed."), "{said}");
    for absent in ["is not known", "There are more versions"] {
        assert!(!said.contains(absent), "{said}");
    }
    // A steady rate from the oldest version on has bars of nearly equal height.
    let bars = bars(page, 25);
    assert!(bars >= 10.0, "{bars}");
    let at_the_left = page.number(
        "(() => { const canvas = document.querySelector('#panel canvas');
            const part = canvas.getContext('2d').getImageData(0, 25, canvas.width / 10, 1).data;
            return part.filter((value, index) => index % 4 === 3 && value > 128).length; })()",
    );
    assert!(at_the_left >= 10.0, "{at_the_left}");
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
