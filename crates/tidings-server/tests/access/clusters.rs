//! The events of several clusters, served by one process: their paths, permissions, and that they
//! are read-only.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{FutureExt, TryStreamExt};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_history::{
    Capabilities, Coverage, Ended, ExportPart, Exported, Followed, Following, HeldRules, History,
    Pending, PendingVersions, Taken, Version, Versions,
};
use tidings_server::clock::SystemClock;
use tidings_server::{
    ApiOptions, ApiServer, Authenticator, ClusterError, FollowedCluster, RunningClusters,
    StartError, StartOptions, Token, User, router, start_clusters,
};
use tidings_store::memory::MemoryStore;
use tidings_store::{BoxFuture, ReadError, Store, UnixMillis};
use tidings_testing::serving::event;
use tower::ServiceExt;

use crate::support::{Caller, Credentials, PERMISSIONS, TOKENS, token, write};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// A cluster's history, for tests.
struct Known {
    store: Arc<dyn Store>,
    /// The problem that the cluster reports.
    why: Option<&'static str>,
}

impl History for Known {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Five versions of the existing event, one per second.
    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        async move {
            let Some(record) = self.store.get(key).await? else {
                return Ok(None);
            };
            let newest = after.unwrap_or(5);
            let versions = (1..=newest).rev().take(limit).map(|number| Version {
                uid: "uid".into(),
                epoch: 0,
                number: 900 + number,
                event: record.value.clone(),
                observed_at: UnixMillis(1_767_225_600_000 + 1000 * i64::try_from(number).unwrap()),
            });
            let versions: Vec<_> = versions.collect();
            let left = newest - versions.len() as u64;
            Ok(Some(Versions {
                versions,
                more: (left > 0).then_some(left),
                ended: Some(Ended {
                    at: UnixMillis(1_767_225_700_000),
                    after: Some(UnixMillis(1_767_225_600_500)),
                }),
            }))
        }
        .boxed()
    }

    fn coverage(&self, namespace: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        let followed = Followed {
            since: UnixMillis(1_767_225_600_000),
            ..Followed::default()
        };
        let coverage = Coverage {
            followed: vec![followed],
            ..Coverage::default()
        };
        let coverage = match namespace {
            Some(namespace) => coverage.of_namespace(&namespace),
            None => coverage,
        };
        async { Ok(coverage) }.boxed()
    }

    /// An export of one line for each of three places.
    fn export(
        &self,
        place: Option<String>,
        _: ExportPart,
    ) -> BoxFuture<'_, Result<Option<Exported>, ReadError>> {
        let place = place.unwrap_or_default();
        let more = match place.as_str() {
            "" => Some("1/shop/a.1"),
            "1/shop/a.1" => Some("0/shop/b"),
            "0/shop/b" => None,
            _ => return async { Ok(None) }.boxed(),
        };
        let page = Exported {
            lines: format!("{{\"place\":{place:?}}}\n").into_bytes(),
            more: more.map(str::to_owned),
        };
        async { Ok(Some(page)) }.boxed()
    }

    fn following(&self) -> Following {
        let mut following = Following::new("watching");
        following.since_progress = Some(Duration::from_millis(3400));
        following.why = self.why.map(str::to_owned);
        following.events = 2;
        following.not_kept = vec![("too-large", 3), ("unreadable", 0)];
        following.quota_bytes = self.why.map(|_| 900);
        following.taken = Some(Taken::default());
        following.held_rules = self.why.map(|_| HeldRules {
            ended: 6,
            ..HeldRules::default()
        });
        following.ended_by_rule = [("{type: Warning, ttl: 5m}".to_owned(), 8)].into();
        // One cluster was never sealed, and the other cannot be.
        following.pending = self.why.map(|_| 7);
        following.not_sealed = self.why.map(|_| "taken".to_owned());
        following.is_older_than_sealed = self.why.is_some();
        following
    }
}

impl PendingVersions for Known {
    /// Entries from the third on wait.
    fn pending(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Pending, ReadError>> {
        let pending = match from {
            0..3 => Pending::Sealed,
            _ if self.why.is_some() => Pending::NotSealed,
            _ => Pending::File(format!("{from} {to:?}").into_bytes()),
        };
        async { Ok(pending) }.boxed()
    }
}

/// A followed cluster with these events.
pub(crate) async fn cluster(name: &str, events: &[&str]) -> FollowedCluster {
    cluster_with(name, events, None).await
}

pub(crate) async fn cluster_with(
    name: &str,
    events: &[&str],
    why: Option<&'static str>,
) -> FollowedCluster {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    // Written through an API server like the cluster's own.
    let source = ApiServer::new(
        Arc::clone(&store),
        Arc::new(SystemClock),
        Authenticator::new(vec![Token {
            token: "t".into(),
            user: User::new("source", "", ["system:masters".to_owned()]),
        }]),
        ApiOptions::default(),
    );
    let source = router(Arc::new(source));
    let of_cluster = name;
    for name in events {
        let mut event = event(name);
        event.message = Some(format!("in {of_cluster}"));
        event.involved_object.uid = Some("u-web".into());
        event.involved_object.api_version = Some("v1".into());
        let body = serde_json::to_vec(&event).unwrap();
        let request = Request::post(EVENTS)
            .header("authorization", "Bearer t")
            .header("content-type", "application/json");
        let created = source
            .clone()
            .oneshot(request.body(Body::from(body)).unwrap());
        assert_eq!(created.await.unwrap().status(), 201);
    }
    let history = Arc::new(Known {
        store: Arc::clone(&store),
        why,
    });
    let mut followed = FollowedCluster::new(name, store, history.clone());
    followed.pending = Some(history);
    followed.client_certificate_ends =
        why.map(|_| jiff::Timestamp::from_second(1_800_000_000).unwrap());
    followed
}

pub(crate) struct Archive {
    pub(crate) running: RunningClusters,
    pub(crate) folder: TempDir,
}

impl Archive {
    pub(crate) async fn start(clusters: Vec<FollowedCluster>) -> Self {
        Self::start_with(clusters, |_| {}).await.unwrap()
    }

    pub(crate) async fn start_with(
        clusters: Vec<FollowedCluster>,
        change: impl FnOnce(&mut StartOptions),
    ) -> Result<Self, StartError> {
        let folder = tempfile::tempdir().unwrap();
        let mut options = StartOptions::new(folder.path().join("data"));
        options.secure_port = 0;
        options.token_auth_file = Some(write(folder.path(), "tokens.csv", TOKENS));
        options.security.authorization_rbac_file =
            Some(write(folder.path(), "rbac.yaml", PERMISSIONS));
        change(&mut options);
        let running = start_clusters(options, clusters).await?;
        Ok(Self { running, folder })
    }

    /// A client for the paths of a cluster.
    pub(crate) async fn to_cluster(&self, name: &str, credentials: &Credentials) -> Caller {
        let config = context(self.running.kubeconfig(), Some(name)).await;
        Caller::new(config, credentials)
    }

    /// A client for the server's own paths.
    pub(crate) async fn to_root(&self, credentials: &Credentials) -> Caller {
        let mut config = context(self.running.kubeconfig(), None).await;
        let root = format!("https://{}", self.running.address());
        config.cluster_url = root.parse().unwrap();
        Caller::new(config, credentials)
    }
}

/// The configuration of a context of a kubeconfig; without a name, of the current one.
async fn context(kubeconfig: &Path, name: Option<&str>) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions {
        context: name.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// The names of a list of clusters.
fn names_in(list: &Value) -> Vec<&str> {
    let clusters = list["clusters"].as_array().unwrap().iter();
    clusters.map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_cluster_has_its_whole_api_below_its_name() {
    let clusters = vec![
        cluster("prod", &["a.1", "a.2", "a.3"]).await,
        cluster("edge", &["b.1"]).await,
    ];
    let archive = Archive::start(clusters).await;
    let admin = token("t-admin");
    let prod = archive.to_cluster("prod", &admin).await;
    let edge = archive.to_cluster("edge", &admin).await;
    for group in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let list = prod.get(&format!("{group}/events")).await.body;
        assert_eq!(names(&list), ["a.1", "a.2", "a.3"]);
        let list = edge.get(&format!("{group}/namespaces/shop/events")).await;
        assert_eq!(names(&list.body), ["b.1"]);
    }
    assert_eq!(edge.get(&format!("{EVENTS}/b.1")).await.code, 200);
    assert_eq!(edge.get(&format!("{EVENTS}/a.1")).await.code, 404);
    let selected = prod
        .get(&format!("{EVENTS}?fieldSelector=metadata.name%3Da.2"))
        .await;
    assert_eq!(names(&selected.body), ["a.2"]);

    // Shared caches do not mix clusters: both stores have the same revisions.
    let api: Api<Event> = Api::namespaced(prod.client(), "shop");
    let first = api.list(&ListParams::default().limit(1)).await.unwrap();
    let more = first.metadata.continue_.unwrap();
    let next = format!("{EVENTS}?limit=1&continue={more}");
    assert_eq!(names(&prod.get(&next).await.body), ["a.2"]);
    let other = edge.get(&next).await;
    assert_eq!(
        (other.code, &other.body["reason"]),
        (410, &json!("Expired"))
    );
    let watch = |caller: &Caller| {
        let api: Api<Event> = Api::namespaced(caller.client(), "shop");
        async move {
            let params = WatchParams::default().timeout(60);
            let mut watched = pin!(api.watch(&params, "1").await.unwrap());
            let first = tokio::time::timeout(PATIENCE, watched.try_next()).await;
            match first.unwrap().unwrap() {
                Some(WatchEvent::Added(event)) => event.metadata.name.unwrap(),
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(watch(&prod).await, "a.1");
    assert_eq!(watch(&edge).await, "b.1");

    // Nothing of the prefix remains in the answers.
    for (path, code) in [
        ("/", 200),
        ("/healthz", 200),
        ("/readyz/ping", 200),
        ("/version", 200),
        ("/openapi/v2", 200),
        ("/openapi/v3", 200),
        ("/openapi/v3/api/v1", 200),
        ("/api", 200),
        ("/apis", 200),
        ("/metrics", 404),
        ("/clusters", 404),
        ("/clusters/prod/api", 404),
    ] {
        assert_eq!(prod.get(path).await.code, code, "{path}");
    }
    archive.running.shutdown().await;
}

/// Encoded events are shared among watchers, and revisions are the same everywhere.
#[tokio::test]
async fn watchers_see_the_events_of_their_cluster() {
    let clusters = vec![
        cluster("prod", &["a.1"]).await,
        cluster("edge", &["a.1"]).await,
    ];
    let archive = Archive::start(clusters).await;
    for name in ["prod", "edge"] {
        let caller = archive.to_cluster(name, &token("t-admin")).await;
        let api: Api<Event> = Api::namespaced(caller.client(), "shop");
        let params = WatchParams::default().timeout(60);
        let mut watched = pin!(api.watch(&params, "1").await.unwrap());
        let first = tokio::time::timeout(PATIENCE, watched.try_next()).await;
        match first.unwrap().unwrap() {
            Some(WatchEvent::Added(event)) => {
                assert_eq!(event.message, Some(format!("in {name}")));
            }
            other => panic!("{other:?}"),
        }
    }
    archive.running.shutdown().await;
}

#[tokio::test]
async fn the_root_is_about_all_clusters() {
    let clusters = vec![
        cluster("prod", &[]).await,
        cluster_with("edge", &[], Some("it answers\n403")).await,
    ];
    let archive = Archive::start(clusters).await;
    let admin = archive.to_root(&token("t-admin")).await;
    let list = admin.get("/clusters").await;
    let listed = json!({"clusters": [
        {"name": "prod", "path": "/clusters/prod"},
        {"name": "edge", "path": "/clusters/edge"},
    ]});
    assert_eq!((list.code, list.body), (200, listed));
    let stranger = archive.to_root(&token("t-stranger")).await;
    let nobody = archive.to_root(&Credentials::Nothing).await;
    // A user of the archive may know the names of the clusters that it may not read.
    let listed = stranger.get("/clusters").await;
    assert_eq!(
        (listed.code, names_in(&listed.body)),
        (200, vec!["prod", "edge"])
    );
    assert_eq!(nobody.get("/clusters").await.code, 401);
    assert_eq!(nobody.get("/version").await.code, 200);
    assert_eq!(nobody.get("/healthz").await.code, 200);
    let unknown = admin.get("/clusters/prox/api/v1/events").await;
    assert_eq!(unknown.code, 404);
    assert_eq!(unknown.body["message"], "clusters \"prox\" not found");
    // A cluster's name in a path may not be escaped.
    let escaped = "/clusters/%70rod/healthz";
    for (caller, code) in [(&admin, 404), (&stranger, 404), (&nobody, 401)] {
        assert_eq!(caller.get(escaped).await.code, code);
    }
    let unknown = stranger.get("/clusters/prox/api/v1/events").await;
    assert_eq!(unknown.body["message"], "clusters \"prox\" not found");
    let lost = admin.get("/api/v1/events").await;
    assert_eq!((lost.code, &lost.body["kind"]), (404, &json!("Status")));
    let message = lost.body["message"].as_str().unwrap();
    assert!(message.contains("/clusters/NAME"), "{message}");

    // A problem of one cluster is reported, but does not fail the check. Known users see the
    // reason.
    let ready = admin.get("/readyz?verbose").await;
    let expected = "[+]ping ok\n[+]store ok\n[+]shutdown ok\n\
        [+]cluster prod: 3 s since progress, watching\n\
        [-]cluster edge: 3 s since progress, watching: it answers 403; not sealed: taken\n\
        readyz check passed\n";
    assert_eq!((ready.code, ready.body), (200, json!(expected)));
    let ready = nobody.get("/readyz?verbose").await;
    let expected = "[+]ping ok\n[+]store ok\n[+]shutdown ok\n\
        [-]clusters: 1 of 2 have problems\nreadyz check passed\n";
    assert_eq!((ready.code, ready.body), (200, json!(expected)));
    assert_eq!(admin.get("/readyz/store").await.code, 200);
    let own = archive.to_cluster("edge", &Credentials::Nothing).await;
    let own = text(own.get("/livez?verbose").await.body);
    let withheld = "[-]cluster edge: 3 s since progress, watching: reason withheld\n";
    assert!(own.contains(withheld), "{own}");
    assert!(!own.contains("prod"), "{own}");

    // Whoever reads the coverage of a cluster is told, too.
    let of = async |path: &str| admin.get(path).await.body["problem"].clone();
    let problem = of("/clusters/edge/coverage").await;
    assert_eq!(problem, "it answers 403; not sealed: taken");
    assert_eq!(of("/clusters/prod/coverage").await, Value::Null);
    let problem = of("/clusters/edge/coverage?namespace=shop").await;
    assert_eq!(problem, Value::Null);

    let metrics = text(admin.get("/metrics").await.body);
    for line in [
        "tidings_archive_seconds_since_progress{cluster=\"prod\"} 3.4",
        "tidings_archive_following_well{cluster=\"prod\"} 1",
        "tidings_archive_following_well{cluster=\"edge\"} 0",
        "tidings_archive_events{cluster=\"edge\"} 2",
        "tidings_archive_events_not_kept_total{cluster=\"edge\",cause=\"too-large\"} 3",
        "tidings_archive_events_not_kept_total{cluster=\"edge\",cause=\"unreadable\"} 0",
        "tidings_archive_quota_bytes{cluster=\"edge\"} 900",
        "tidings_archive_rules_held_events{cluster=\"edge\"} 6",
        "tidings_archive_rules_held_events{cluster=\"prod\"} 0",
        "tidings_archive_rule_ended_total{cluster=\"prod\",rule=\"{type: Warning, ttl: 5m}\"} 8",
        "tidings_archive_client_certificate_expires_seconds{cluster=\"edge\"} 1800000000",
        "tidings_objects_waiting_versions{cluster=\"edge\"} 7",
        "tidings_objects_sealing_fails{cluster=\"edge\"} 1",
        "tidings_objects_data_folder_older{cluster=\"edge\"} 1",
        "tidings_archive_state{cluster=\"edge\",state=\"watching\"} 1",
        "tidings_archive_requests_total{cluster=\"edge\"} 3",
        "tidings_archive_requests_total{cluster=\"prod\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
    // The server's own certificate and authority are renewed long before they end.
    for name in ["serving", "authority"] {
        let name = format!("tidings_certificate_expires_seconds{{certificate=\"{name}\"}} ");
        let ends = metrics.lines().find_map(|line| line.strip_prefix(&name));
        let ends: i64 = ends.unwrap().parse().unwrap();
        assert!(ends > 1_700_000_000, "{name}{ends}");
    }
    archive.running.shutdown().await;
}

/// As for paths of a kube-apiserver, only known users learn which clusters exist. Only health and
/// version are open to everyone, and show that a cluster exists.
#[tokio::test]
async fn without_credentials_an_unknown_cluster_is_answered_as_one_that_is_served() {
    let clusters = vec![cluster("prod", &["a.1"]).await, cluster("edge", &[]).await];
    let archive = Archive::start(clusters).await;
    for credentials in [Credentials::Nothing, token("t-unknown")] {
        let caller = archive.to_root(&credentials).await;
        for (method, path) in [
            (Method::GET, ""),
            (Method::GET, "/"),
            (Method::GET, "/api"),
            (Method::GET, "/api/v1/events"),
            (Method::GET, "/coverage"),
            (Method::GET, "/no/such/path"),
            (Method::POST, EVENTS),
            (Method::DELETE, EVENTS),
        ] {
            let mut answers = Vec::new();
            for name in ["prod", "prox"] {
                let uri = format!("/clusters/{name}{path}");
                let answer = caller.send(method.clone(), &uri, &Value::Null).await;
                answers.push((answer.code, answer.body));
            }
            assert_eq!(answers[0].0, 401, "{method} {path}");
            let said = answers[0].1["message"].as_str().unwrap();
            assert!(said.contains("has no cluster of this name, or"), "{said}");
            assert_eq!(answers[0], answers[1], "{method} {path}");
        }
    }
    archive.running.shutdown().await;
}

/// The metrics show the cluster, so that alerts on its progress fire.
#[tokio::test]
async fn a_cluster_that_is_missing_is_in_health_and_metrics() {
    let archive = Archive::start(vec![cluster("prod", &["a.1"]).await]).await;
    let missing = |names: &[&str]| -> BTreeMap<String, String> {
        let why = |name: &&str| ((*name).to_owned(), "it has no\ncredentials".to_owned());
        names.iter().map(why).collect()
    };
    // A served cluster is not missing.
    archive.running.set_missing(missing(&["late", "prod"]));
    let order = vec!["late".to_owned()];
    archive.running.set_order(order).await.unwrap();
    let admin = archive.to_root(&token("t-admin")).await;
    let ready = text(admin.get("/readyz?verbose").await.body);
    let (late, _) = ready.split_once("[+]cluster prod: ").unwrap();
    assert!(late.contains("[-]cluster late: "), "{ready}");
    let why = " s since progress, not started: it has no credentials\n";
    assert!(ready.contains(why), "{ready}");
    let nobody = archive.to_root(&Credentials::Nothing).await;
    let ready = text(nobody.get("/readyz?verbose").await.body);
    assert!(
        ready.contains("[-]clusters: 1 of 2 have problems\n"),
        "{ready}"
    );
    assert!(!ready.contains("late"), "{ready}");
    let of_late = |metrics: &str| -> Vec<String> {
        let lines = metrics.lines().filter(|line| line.contains("\"late\""));
        lines.map(str::to_owned).collect()
    };
    let metrics = text(admin.get("/metrics").await.body);
    let lines = of_late(&metrics);
    let [since, well, state] = &lines[..] else {
        panic!("{lines:?}");
    };
    let since = since.strip_prefix("tidings_archive_seconds_since_progress{cluster=\"late\"} ");
    assert!(since.unwrap().parse::<f64>().unwrap() >= 0.0, "{lines:?}");
    assert_eq!(well, "tidings_archive_following_well{cluster=\"late\"} 0");
    assert_eq!(
        state,
        "tidings_archive_state{cluster=\"late\",state=\"not started\"} 1"
    );
    assert!(metrics.contains("tidings_archive_following_well{cluster=\"prod\"} 1\n"));
    assert!(!metrics.contains("{cluster=\"prod\",state=\"not started\"}"));

    archive.running.set_missing(missing(&[]));
    let metrics = text(admin.get("/metrics").await.body);
    assert_eq!(of_late(&metrics), [""; 0]);
    archive.running.shutdown().await;
}

#[tokio::test]
async fn clusters_come_and_go() {
    let archive = Archive::start(vec![cluster("prod", &["a.1"]).await]).await;
    let admin = token("t-admin");
    // The only cluster is served at the root, too.
    let root = archive.to_root(&admin).await;
    assert_eq!(names(&root.get(EVENTS).await.body), ["a.1"]);
    assert_eq!(root.get("/clusters").await.code, 200);
    assert_eq!(root.get("/coverage").await.code, 200);
    let metrics = root.get("/metrics").await.body;
    assert!(metrics.as_str().unwrap().contains("tidings_archive_events"));

    archive
        .running
        .add(cluster("edge", &["b.1"]).await)
        .await
        .unwrap();
    assert_eq!(archive.running.clusters(), ["prod", "edge"]);
    assert_eq!(root.get(EVENTS).await.code, 404);
    let current = context(archive.running.kubeconfig(), None).await;
    assert_eq!(current.cluster_url.path(), "/clusters/prod");
    let edge = archive.to_cluster("edge", &admin).await;
    assert_eq!(names(&edge.get(EVENTS).await.body), ["b.1"]);

    for (name, expected) in [
        ("edge", "there is a cluster \"edge\" already"),
        ("Edge", "\"Edge\" cannot be a cluster's name"),
        ("a/b", "\"a/b\" cannot be a cluster's name"),
        ("", "\"\" cannot be a cluster's name"),
    ] {
        let error = archive.running.add(cluster(name, &[]).await).await;
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    let api: Api<Event> =
        Api::namespaced(archive.to_cluster("prod", &admin).await.client(), "shop");
    // Longer than the test waits for the watch's end.
    let params = WatchParams::default().timeout(200);
    let watched = api.watch(&params, "0").await.unwrap();
    assert!(archive.running.remove("prod").await.unwrap());
    assert!(!archive.running.remove("prod").await.unwrap());
    let rest = tokio::time::timeout(PATIENCE, watched.try_collect::<Vec<_>>());
    let rest = rest
        .await
        .expect("the watch ends with its cluster")
        .unwrap();
    assert!(matches!(rest[0], WatchEvent::Added(_)), "{rest:?}");
    assert_eq!(root.get("/clusters/prod/healthz").await.code, 404);
    assert_eq!(names(&root.get(EVENTS).await.body), ["b.1"]);
    let current = context(archive.running.kubeconfig(), None).await;
    assert_eq!(current.cluster_url.path(), "/clusters/edge");

    // A cluster added under the same name is a new one.
    archive
        .running
        .add(cluster("prod", &["c.1"]).await)
        .await
        .unwrap();
    let prod = archive.to_cluster("prod", &admin).await;
    assert_eq!(names(&prod.get(EVENTS).await.body), ["c.1"]);
    // It has the former cluster's place in the order until it gets another.
    assert_eq!(archive.running.clusters(), ["prod", "edge"]);
    let current = context(archive.running.kubeconfig(), None).await;
    assert_eq!(current.cluster_url.path(), "/clusters/prod");
    let order = ["edge", "prod"].map(str::to_owned).to_vec();
    archive.running.set_order(order).await.unwrap();
    assert_eq!(archive.running.clusters(), ["edge", "prod"]);
    let current = context(archive.running.kubeconfig(), None).await;
    assert_eq!(current.cluster_url.path(), "/clusters/edge");
    archive.running.shutdown().await;
}

#[tokio::test]
async fn the_number_of_clusters_is_bounded() {
    let mut clusters = Vec::new();
    for name in ["a", "b", "c"] {
        clusters.push(cluster(name, &[]).await);
    }
    let start = Archive::start_with(clusters, |options| options.api.max_clusters = 2);
    let archive = start.await.unwrap();
    // A cluster too many does not prevent the others from being served, nor does one that is added
    // later.
    assert_eq!(archive.running.clusters(), ["a", "b"]);
    let added = archive.running.add(cluster("d", &[]).await).await;
    let error = added.unwrap_err();
    let is_refused = matches!(error, ClusterError::TooMany { max: 2 });
    assert!(is_refused, "{error:?}");
    let root = archive.to_root(&token("t-admin")).await;
    let ready = text(root.get("/readyz?verbose").await.body);
    assert!(ready.contains("[-]cluster c: "), "{ready}");
    let why = "not started: an archive has at most 2 clusters";
    assert!(ready.contains(why), "{ready}");
    archive.running.shutdown().await;
    // The default maximum is enforced like any lower one.
    let archive = Archive::start(Vec::new()).await;
    let kubeconfig = Kubeconfig::read_from(archive.running.kubeconfig()).unwrap();
    assert!(kubeconfig.contexts.is_empty());
    archive.running.add(cluster("a", &[]).await).await.unwrap();
    let root = archive.to_root(&token("t-admin")).await;
    assert_eq!(root.get(EVENTS).await.code, 200);
    assert!(archive.running.remove("a").await.unwrap());
    assert_eq!(root.get(EVENTS).await.code, 404);
    assert_eq!(root.get("/clusters").await.body, json!({"clusters": []}));
    assert_eq!(root.get("/readyz").await.code, 200);
    archive.running.shutdown().await;
}

/// Replaced tokens and permissions apply to every cluster.
#[tokio::test]
async fn files_are_read_once_for_all() {
    let clusters = vec![cluster("prod", &[]).await, cluster("edge", &[]).await];
    let archive = Archive::start(clusters).await;
    let edge = archive.to_cluster("edge", &token("t-new")).await;
    assert_eq!(edge.get(EVENTS).await.code, 401);
    write(archive.folder.path(), "tokens.csv", "t-new,reader,4\n");
    assert!(archive.running.reload().await);
    assert_eq!(edge.get(EVENTS).await.code, 200);
    archive.running.shutdown().await;
}

/// The roles that `tidings rbac events` prints for a cluster.
const READER: &str = r#"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidings-events}
rules:
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidings-events}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidings-events}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: updater}]
"#;

#[tokio::test]
async fn who_may_read_events_needs_no_other_permission() {
    let clusters = vec![cluster("prod", &["a.1"]).await, cluster("edge", &[]).await];
    let permissions = format!("{PERMISSIONS}{READER}");
    let folder = tempfile::tempdir().unwrap();
    let permissions = write(folder.path(), "rbac.yaml", &permissions);
    let archive = Archive::start_with(clusters, |options| {
        options.security.authorization_rbac_file = Some(permissions);
    });
    let archive = archive.await.unwrap();
    let reader = token("t-updater");
    // A user with permissions in one namespace.
    let other = token("t-reader");
    let (root, others_root) = (
        archive.to_root(&reader).await,
        archive.to_root(&other).await,
    );
    for caller in [&root, &others_root] {
        assert_eq!(caller.get("/clusters").await.code, 200);
    }
    let prod = archive.to_cluster("prod", &reader).await;
    let others_prod = archive.to_cluster("prod", &other).await;
    for path in ["/coverage", "/counts", "/export", "/waiting?from=3"] {
        assert_eq!(prod.get(path).await.code, 200, "{path}");
        assert_eq!(others_prod.get(path).await.code, 403, "{path}");
    }
    // A user who may list a namespace's events may read its coverage.
    for (namespace, expected) in [("shop", 200), ("bank", 403), ("", 403), ("shop/..", 403)] {
        let path = format!("/coverage?namespace={namespace}");
        let answer = others_prod.get(&path).await;
        assert_eq!(answer.code, expected, "{namespace}");
        if expected == 200 {
            assert_eq!(answer.body["namespace"], namespace);
        }
        // The first value of a repeated parameter is used, for the permission and the answer.
        let path = format!("/coverage?namespace={namespace}&namespace=shop");
        assert_eq!(others_prod.get(&path).await.code, expected, "{namespace}");
    }
    // So may a user export it, and no other.
    for (query, expected) in [
        ("namespace=shop", 200),
        ("namespace=bank", 403),
        ("namespace=", 403),
        ("namespace=bank&namespace=shop", 403),
        ("namespace=shop&since=yesterday", 400),
    ] {
        let answer = others_prod.get(&format!("/export?{query}")).await;
        assert_eq!(answer.code, expected, "{query}");
    }
    let all = prod.get("/coverage?namespace=bank").await;
    assert_eq!((all.code, &all.body["namespace"]), (200, &json!("bank")));
    for caller in [&prod, &others_prod] {
        let versions = caller.get(&format!("{EVENTS}/a.1/versions")).await;
        assert_eq!(versions.code, 200);
    }
}

/// The text of an answer; if it is a single line, it was parsed as JSON.
pub(crate) fn text(body: Value) -> String {
    match body {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
