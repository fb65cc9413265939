//! The archive's API group, as the aggregation layer of the home cluster's API server asks for it:
//! users from the headers of a front proxy, and nothing to anybody who only claims to be one.

mod causes;
mod login;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Event;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tidings_server::clock::SystemClock;
use tidings_server::{
    AggregatedOptions, ApiOptions, ApiServer, AuditOptions, Authenticator, FollowedCluster,
    PAST_GROUP, PAST_VERSION, PassThrough, PassThroughOptions, RequestHeader, RequestHeaderError,
    ReviewError, Reviewer, StartOptions, Token, User, router,
};
use tidings_testing::serving::event;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

use crate::clusters::{Archive, EVENTS, cluster, names};
use crate::connections::tls_config;
use crate::support::{Answer, Authority, Caller, Credentials, PERMISSIONS, Signed, token, write};

/// The common name of the home cluster's front proxy.
const FRONT: &str = "front-proxy-client";

/// The home cluster's reviews. It lets members of `system:masters` do everything, `ann` read what
/// is past in `shop`, `hub` read Events in `shop`, and `hub` and `stranger` use other clusters'
/// APIs.
#[derive(Debug, Default)]
struct Home {
    asked: Mutex<Vec<Value>>,
}

impl Reviewer for Home {
    fn is_verified(&self) -> bool {
        true
    }

    fn review<'a>(
        &'a self,
        path: &'static str,
        body: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        let spec = &body["spec"];
        let status = if path.ends_with("tokenreviews") {
            let user = json!({"username": "hub", "groups": ["system:authenticated"]});
            json!({"authenticated": spec["token"] == "t-of-hub", "user": user})
        } else {
            self.asked.lock().unwrap().push(spec.clone());
            json!({"allowed": is_allowed(spec)})
        };
        async move { Ok(json!({"status": status})) }.boxed()
    }
}

fn is_allowed(spec: &Value) -> bool {
    let groups = spec["groups"].as_array().unwrap();
    if groups.contains(&json!("system:masters")) {
        return true;
    }
    let asked = &spec["resourceAttributes"];
    let text = |name: &str| asked[name].as_str().unwrap_or_default();
    let is_read = ["get", "list", "watch"].contains(&text("verb"));
    let of_past = text("group") == PAST_GROUP;
    let in_shop = text("namespace") == "shop";
    match spec["user"].as_str().unwrap() {
        "ann" => {
            let resource = ["pastevents", "coverage"].contains(&text("resource"));
            is_read && of_past && in_shop && resource
        }
        "hub" if in_shop => is_read && text("group").is_empty() && text("resource") == "events",
        "hub" | "stranger" => {
            let is_proxy = text("resource") == "clusters" && text("subresource") == "proxy";
            of_past && is_proxy && text("verb") == "get" && ["home", "prod"].contains(&text("name"))
        }
        _ => false,
    }
}

/// Bindings about users of the home cluster in `prod`, and one that is about the archive's own.
const IN_PROD: &str = r"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: hub, namespace: shop, labels: {archive.tidings.internal/cluster: prod}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: hub}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: own-hub}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: hub}]
";

/// Writes an event into the store of a cluster, as the cluster would.
async fn add(cluster: &FollowedCluster, namespace: &str, name: &str) {
    let mut event = event(name);
    event.involved_object.namespace = Some(namespace.to_owned());
    create(cluster, event).await;
}

async fn create(cluster: &FollowedCluster, event: Event) {
    let source = ApiServer::new(
        Arc::clone(&cluster.store),
        Arc::new(SystemClock),
        Authenticator::new(vec![Token {
            token: "t".into(),
            user: User::new("source", "", ["system:masters".to_owned()]),
        }]),
        ApiOptions::default(),
    );
    let namespace = event.involved_object.namespace.as_deref().unwrap();
    let body = serde_json::to_vec(&event).unwrap();
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/events"))
        .header("authorization", "Bearer t")
        .header("content-type", "application/json");
    let request = request.body(Body::from(body)).unwrap();
    let created = router(Arc::new(source)).oneshot(request).await.unwrap();
    assert_eq!(created.status(), 201);
}

/// An archive of two clusters, the authority of the home cluster's front proxy, and the latter's
/// reviews.
struct World {
    archive: Archive,
    front: Authority,
    /// The authority of other client certificates.
    clients: Authority,
    home: Arc<Home>,
}

impl World {
    async fn start() -> Self {
        Self::start_with(|_, _| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut StartOptions, &mut AggregatedOptions)) -> Self {
        let own = cluster("home", &["web.1", "web.2"]).await;
        add(&own, "other", "secret.1").await;
        Self::start_of(own, change).await
    }

    /// Starts the archive with this home cluster.
    async fn start_of(
        mut own: FollowedCluster,
        change: impl FnOnce(&mut StartOptions, &mut AggregatedOptions),
    ) -> Self {
        let (front, clients) = (Authority::new("front"), Authority::new("clients"));
        let home = Arc::new(Home::default());
        own.access = Some(Arc::clone(&home) as Arc<dyn Reviewer>);
        // Nothing of the group is passed to the cluster, which is not there.
        let options = PassThroughOptions::default();
        let passed = PassThrough::with_options("https://127.0.0.1:1", &options);
        own.pass_through = Some(passed.unwrap());
        let prod = cluster("prod", &["prod.1"]).await;
        add(&prod, "other", "secret.2").await;
        let archive = Archive::start_with(vec![own, prod], |options| {
            let folder = options.data_dir.parent().unwrap().to_owned();
            options.security.client_ca_file = Some(write(&folder, "clients.pem", &clients.pem));
            options.security.authorization_rbac_file = Some(write(
                &folder,
                "rbac.yaml",
                &format!("{PERMISSIONS}{IN_PROD}"),
            ));
            let mut aggregated = AggregatedOptions::new("home");
            aggregated.requestheader = trusted(&front);
            change(options, &mut aggregated);
            options.aggregated = Some(aggregated);
        });
        Self {
            archive: archive.await.unwrap(),
            front,
            clients,
            home,
        }
    }

    /// A connection of the front proxy.
    async fn proxy(&self) -> Caller {
        self.with(&self.front.client(FRONT, &[], 2040)).await
    }

    /// The status code of a request of ann with this number of groups.
    async fn ask_over_http2(&self, signed: &Signed, groups: usize) -> u16 {
        let data = self.archive.folder.path().join("data");
        let connector = TlsConnector::from(Arc::new(tls_config(&data, "h2", Some(signed))));
        let stream = TcpStream::connect(self.archive.running.address()).await;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connector.connect(name, stream.unwrap()).await.unwrap();
        let executor = TokioExecutor::new();
        let connection = http2::handshake(executor, TokioIo::new(stream)).await;
        let (mut sender, connection) = connection.unwrap();
        tokio::spawn(connection);
        let uri = format!("https://localhost{}", past("/namespaces/shop/pastevents"));
        let mut request = Request::get(uri).header("x-remote-user", "ann");
        for group in 0..groups {
            request = request.header("x-remote-group", format!("group-{group}"));
        }
        let request = request.body(String::new()).unwrap();
        sender
            .send_request(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    }

    async fn trust(&self, settings: RequestHeader) -> Result<(), RequestHeaderError> {
        let aggregation = self.archive.running.aggregation();
        aggregation.trust_front_proxy(settings).await
    }

    async fn with(&self, signed: &Signed) -> Caller {
        let credentials = Credentials::Certificate(signed.clone());
        self.archive.to_root(&credentials).await
    }
}

fn trusted(front: &Authority) -> RequestHeader {
    let mut settings = RequestHeader::new(front.pem.clone());
    settings.allowed_names = vec![FRONT.to_owned()];
    settings
}

async fn ask(caller: &Caller, method: Method, uri: &str, user: &str, groups: &[&str]) -> Answer {
    let mut headers = vec![("x-remote-user", user)];
    headers.extend(groups.iter().map(|group| ("x-remote-group", *group)));
    let answer = caller.try_send(method, uri, &headers, &Value::Null);
    answer.await.unwrap()
}

/// The users of requests, and their groups.
const ANN: (&str, &[&str]) = ("ann", &["dev", "system:authenticated"]);
const HUB: (&str, &[&str]) = ("hub", &["system:authenticated"]);
const STRANGER: (&str, &[&str]) = ("stranger", &["system:authenticated"]);
const ROOT: (&str, &[&str]) = ("root", &["system:masters", "system:authenticated"]);
const NOBODY: (&str, &[&str]) = ("system:anonymous", &["system:unauthenticated"]);

fn past(rest: &str) -> String {
    format!("/apis/{PAST_VERSION}{rest}")
}

#[tokio::test]
async fn users_of_the_home_cluster_see_what_it_lets_them_see() {
    const PROD: &str = "/clusters/prod/proxy";
    let world = World::start().await;
    let proxy = world.proxy().await;
    #[rustfmt::skip]
    let table = [
        (ANN, past("/namespaces/shop/pastevents"), 200),
        (ANN, past("/namespaces/shop/pastevents/"), 200),
        (ANN, past("/namespaces/shop/pastevents?watch=true&timeoutSeconds=1"), 200),
        (ANN, past("/namespaces/shop/pastevents/web.1"), 200),
        (ANN, past("/namespaces/shop/pastevents/none"), 404),
        (ANN, past("/namespaces/shop/pastevents/web.1/versions"), 200),
        (ANN, past("/namespaces/shop/coverage"), 200),
        (ANN, past("/namespaces/shop/timeline/events"), 200),
        (ANN, past("/namespaces/shop/timeline/coverage"), 200),
        (ANN, past("/namespaces/shop/timeline/event?namespace=shop&name=web.1"), 200),
        (ANN, past("/namespaces/shop/timeline/event?namespace=other&name=secret.1"), 400),
        (ANN, past("/namespaces/shop/timeline/events?namespace=other"), 400),
        (ANN, past("/namespaces/shop/timeline/events?cluster=prod"), 400),
        (ANN, past("/namespaces/other/timeline/events"), 403),
        (ANN, past("/namespaces/shop%2Fother/timeline/events"), 403),
        (ANN, past("/timeline/events?namespace=shop"), 403),
        (ANN, past("/timeline/coverage"), 403),
        (NOBODY, past("/namespaces/shop/timeline/events"), 403),
        (ROOT, past("/timeline/events?namespace=other"), 200),
        (ROOT, past("/timeline/events?cluster=prod"), 400),
        (ROOT, past("/namespaces/other/timeline/event?namespace=other&name=secret.1"), 200),
        (ROOT, past("/timeline/view"), 404),
        (ANN, past("/namespaces/other/pastevents"), 403),
        (ANN, past("/namespaces/other/pastevents?watch=true"), 403),
        (ANN, past("/namespaces/other/pastevents/secret.1"), 403),
        (ANN, past("/namespaces/other/pastevents/secret.1/versions"), 403),
        (ANN, past("/namespaces/other/coverage"), 403),
        (ANN, past("/namespaces/shop%2Fother/pastevents"), 403),
        (ANN, past("/pastevents"), 403),
        (ANN, past("/coverage"), 403),
        (ANN, past("/coverage?namespace=shop"), 403),
        (ANN, past("/counts"), 403),
        (ANN, past("/clusters"), 403),
        // Permissions for what is past are none for what is present.
        (ANN, past("/clusters/home/proxy/api/v1/namespaces/shop/events"), 403),
        (ANN, past(&format!("{PROD}/api/v1/namespaces/shop/events")), 403),
        (ANN, past("/clusters/none/proxy"), 403),
        (ROOT, past("/pastevents"), 200),
        (ROOT, past("/namespaces/other/pastevents/secret.1"), 200),
        (ROOT, past("/coverage"), 200),
        (ROOT, past("/counts"), 200),
        (ROOT, past("/clusters"), 200),
        (ROOT, past("/clusters/home/proxy/api/v1/events"), 200),
        (ROOT, past("/clusters/home/proxy/coverage"), 200),
        (ROOT, past("/clusters/home/proxy"), 200),
        (ROOT, past("/clusters/none/proxy"), 404),
        (ROOT, past("/clusters/home"), 404),
        (ROOT, past("/clusters/home/proxied"), 404),
        // Whoever rules at home is nobody elsewhere.
        (ROOT, past(&format!("{PROD}/api/v1/events")), 403),
        (ROOT, past(&format!("{PROD}/api/v1/namespaces/shop/events")), 403),
        (ROOT, past(&format!("{PROD}/coverage")), 403),
        (ROOT, past(&format!("{PROD}/apis/{PAST_VERSION}/pastevents")), 403),
        // A binding about the cluster gives what it says, and a role of the archive's own users of
        // the same names gives nothing.
        (HUB, past(&format!("{PROD}/api/v1/namespaces/shop/events")), 200),
        (HUB, past(&format!("{PROD}/api/v1/namespaces/shop/events/prod.1/versions")), 200),
        (HUB, past(&format!("{PROD}/coverage?namespace=shop")), 200),
        (HUB, past(&format!("{PROD}/api")), 200),
        (HUB, past(&format!("{PROD}/api/v1/namespaces/other/events")), 403),
        (HUB, past(&format!("{PROD}/api/v1/events")), 403),
        (HUB, past(&format!("{PROD}/coverage")), 403),
        (HUB, past(&format!("{PROD}/export")), 403),
        (HUB, past(&format!("{PROD}/export?namespace=shop")), 200),
        (HUB, past(&format!("{PROD}/export?namespace=other")), 403),
        (HUB, past("/clusters/home/proxy/export?namespace=shop"), 200),
        (HUB, past("/clusters/home/proxy/api/v1/namespaces/shop/events"), 200),
        (HUB, past("/clusters/home/proxy/api/v1/events"), 403),
        (HUB, past("/pastevents"), 403),
        (STRANGER, past(&format!("{PROD}/api/v1/namespaces/other/events")), 403),
        (NOBODY, past("/namespaces/shop/pastevents"), 403),
        (NOBODY, past(""), 403),
        // Nothing else of the archive is served there.
        (ROOT, "/api/v1/namespaces/shop/events".to_owned(), 403),
        (ROOT, "/clusters".to_owned(), 404),
        (ROOT, "/clusters/home/api/v1/events".to_owned(), 404),
        (ROOT, "/clusters/prod/api/v1/events".to_owned(), 404),
        (ROOT, "/timeline".to_owned(), 403),
        (ROOT, "/metrics".to_owned(), 403),
    ];
    for (user, uri, expected) in table {
        let answer = ask(&proxy, Method::GET, &uri, user.0, user.1).await;
        let text = answer.body.to_string();
        let found = (
            answer.code,
            text.contains("involvedObject") && text.contains("secret"),
        );
        let is_shown = expected == 200 && user == ROOT && !uri.contains("clusters/home/proxy/cov");
        assert_eq!(found.0, expected, "{} {uri}: {}", user.0, answer.body);
        assert!(is_shown || !found.1, "{} {uri}: {}", user.0, answer.body);
    }
    // Nothing can be written.
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let uri = past("/namespaces/shop/pastevents/web.1");
        let answer = ask(&proxy, method.clone(), &uri, ROOT.0, ROOT.1).await;
        assert_eq!(answer.code, 405, "{method}");
    }
    // A user may not act as another one by headers that kube-apiserver would have read.
    let headers = [("x-remote-user", "ann"), ("impersonate-user", "root")];
    let uri = past("/namespaces/shop/pastevents");
    let answer = proxy.try_send(Method::GET, &uri, &headers, &Value::Null);
    assert_eq!(answer.await.unwrap().code, 403);
    let uri = past("/namespaces/shop/timeline/events");
    let answer = proxy.try_send(Method::GET, &uri, &headers, &Value::Null);
    assert_eq!(answer.await.unwrap().code, 400);
    // The answer is about the path's namespace, and about no other.
    for (uri, expected) in [
        (
            past("/namespaces/shop/timeline/events?from=0"),
            ["web.1", "web.2"].as_slice(),
        ),
        (
            past("/namespaces/other/timeline/events?from=0"),
            &["secret.1"],
        ),
        (
            past("/timeline/events?from=0"),
            &["secret.1", "web.1", "web.2"],
        ),
        (
            past("/timeline/events?from=0&namespace=other"),
            &["secret.1"],
        ),
    ] {
        let answer = ask(&proxy, Method::GET, &uri, ROOT.0, ROOT.1).await;
        let items = answer.body["items"].as_array().unwrap().iter();
        let mut found: Vec<_> = items.map(|item| item["name"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{uri}");
        assert!(!answer.body.to_string().contains("prod"), "{uri}");
    }
    world.archive.running.shutdown().await;
}

/// What the home cluster is asked is about the user of the headers, and about this group.
#[tokio::test]
async fn the_home_cluster_is_asked_about_the_user_of_the_headers() {
    let world = World::start().await;
    let proxy = world.proxy().await;
    let headers = [
        ("x-remote-user", "ann"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "dev"),
        ("x-remote-extra-example.org%2fscope", "read"),
    ];
    let uri = past("/namespaces/shop/pastevents");
    for _ in 0..2 {
        let answer = proxy.try_send(Method::GET, &uri, &headers, &Value::Null);
        assert_eq!(answer.await.unwrap().code, 200);
    }
    // The second answer was cached.
    let asked = std::mem::take(&mut *world.home.asked.lock().unwrap());
    let expected = json!({
        "user": "ann", "uid": "7", "groups": ["dev", "system:authenticated"],
        "extra": {"example.org/scope": ["read"]},
        "resourceAttributes": {
            "namespace": "shop", "verb": "list", "group": PAST_GROUP, "version": "v1", "resource": "pastevents",
            "subresource": "", "name": "",
        },
    });
    assert_eq!(asked, [expected]);
}

/// The limit is kube-apiserver's, and that of other clients stays.
#[tokio::test]
async fn a_user_may_have_thousands_of_groups() {
    let world = World::start().await;
    let proxy = world.front.client(FRONT, &[], 2040);
    let other = world.clients.client("ann", &[], 2040);
    for (signed, count, code) in [
        (&proxy, 10_000, 200),
        (&proxy, 20_000, 431),
        (&proxy, 1, 200),
        (&other, 10_000, 431),
    ] {
        assert_eq!(world.ask_over_http2(signed, count).await, code, "{count}");
    }
    let asked = world.home.asked.lock().unwrap();
    let groups = asked[0]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 10_001);
}

/// A change that is refused at home is one of the cluster's events, like others that are refused.
#[tokio::test]
async fn changes_through_the_home_cluster_are_audited_with_its_users() {
    let world = World::start_with(|options, _| {
        let folder = options.data_dir.parent().unwrap();
        options.audit = Some(AuditOptions::new(folder.join("audit.log")));
    })
    .await;
    let proxy = world.proxy().await;
    let event = "/api/v1/namespaces/shop/events/prod.1";
    for (user, cluster, code) in [
        (ANN, "prod", 403),
        (HUB, "prod", 403),
        (ROOT, "home", 404),
        (ANN, "none", 403),
    ] {
        let uri = past(&format!("/clusters/{cluster}/proxy{event}"));
        let answer = ask(&proxy, Method::DELETE, &uri, user.0, user.1).await;
        assert_eq!(answer.code, code, "{} {cluster}: {}", user.0, answer.body);
    }
    let folder = world.archive.folder.path().to_owned();
    world.archive.running.shutdown().await;
    let log = std::fs::read_to_string(folder.join("audit.log")).unwrap();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<_> = lines
        .map(|line| {
            let text = |pointer| line.pointer(pointer).unwrap().to_string();
            [
                text("/user/username"),
                text("/verb"),
                text("/annotations/tidings~1cluster"),
                text("/requestURI"),
                text("/responseStatus/code"),
            ]
            .join(" ")
        })
        .collect();
    let line = |user, cluster, code| format!(r#""{user}" "delete" "{cluster}" "{event}" {code}"#);
    let expected = [
        line("ann", "prod", 403),
        line("hub", "prod", 403),
        line("root", "home", 404),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn past_events_have_the_form_of_core_events() {
    let world = World::start().await;
    let proxy = world.proxy().await;
    let get = async |rest: &str| {
        ask(&proxy, Method::GET, &past(rest), ROOT.0, ROOT.1)
            .await
            .body
    };
    let list = get("/pastevents").await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PastEventList"), &json!(PAST_VERSION))
    );
    assert_eq!(names(&list), ["secret.1", "web.1", "web.2"]);
    let one = get("/namespaces/shop/pastevents/web.1").await;
    assert_eq!(
        (&one["kind"], &one["apiVersion"]),
        (&json!("PastEvent"), &json!(PAST_VERSION))
    );
    assert_eq!(
        (&one["reason"], &one["involvedObject"]["name"]),
        (&json!("BackOff"), &json!("web"))
    );
    let page = get("/namespaces/shop/pastevents?limit=1").await;
    assert_eq!(names(&page), ["web.1"]);
    let more = page["metadata"]["continue"].as_str().unwrap();
    let page = get(&format!(
        "/namespaces/shop/pastevents?limit=1&continue={more}"
    ))
    .await;
    assert_eq!(names(&page), ["web.2"]);
    let selected = "/pastevents?fieldSelector=metadata.name%3Dweb.2,source%3D";
    assert_eq!(names(&get(selected).await), ["web.2"]);
    assert_eq!(
        names(&get("/pastevents?order=newest&limit=5").await).len(),
        3
    );
    let wrong = get("/pastevents?fieldSelector=regarding.name%3Dx").await;
    assert_eq!(wrong["code"], 400);

    let table = [
        ("x-remote-user", ROOT.0),
        ("x-remote-group", "system:masters"),
        ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ];
    let uri = past("/pastevents?includeObject=Object");
    let table = proxy
        .try_send(Method::GET, &uri, &table, &Value::Null)
        .await
        .unwrap()
        .body;
    assert_eq!(table["kind"], "Table");
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns: Vec<_> = columns
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        columns[..5],
        ["Last Seen", "Type", "Reason", "Object", "Subobject"]
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PastEvent");
    let missing = get("/namespaces/shop/pastevents/none").await;
    assert_eq!(
        missing["message"],
        format!("pastevents.{PAST_GROUP} \"none\" not found")
    );
    let clusters = get("/clusters").await;
    assert_eq!(names(&clusters), ["home", "prod"]);
    let is_home = |at: usize| clusters["items"][at]["isHome"].clone();
    assert_eq!((is_home(0), is_home(1)), (json!(true), json!(false)));
    // A cluster that cannot be opened is not overlooked.
    let away = BTreeMap::from([("away".to_owned(), "it has no kubeconfig".to_owned())]);
    world.archive.running.set_missing(away);
    assert_eq!(names(&get("/clusters").await), ["home", "prod", "away"]);
}

/// The aggregation layer itself asks as two users: of the availability check, and of OpenAPI.
#[tokio::test]
async fn the_group_describes_itself() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    const OLD_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const AGGREGATED: &str =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let world = World::start().await;
    let proxy = world.proxy().await;
    let get = async |uri: &str, accept: &str| {
        let headers = [("x-remote-user", "system:aggregator"), ("accept", accept)];
        let answer = proxy
            .try_send(Method::GET, uri, &headers, &Value::Null)
            .await
            .unwrap();
        assert_eq!(answer.code, 200, "{uri} {}", answer.body);
        answer.body
    };
    let group = format!("/apis/{PAST_GROUP}");
    let version = format!("/apis/{PAST_VERSION}");
    let groups = get("/apis", "application/json").await;
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
    assert_eq!(
        groups["groups"][0]["preferredVersion"]["groupVersion"],
        PAST_VERSION
    );
    assert_eq!(get(&group, "application/json").await["kind"], "APIGroup");
    let resources = get(&version, "application/json").await;
    let resources = resources["resources"].as_array().unwrap();
    let events = resources
        .iter()
        .find(|it| it["name"] == "pastevents")
        .unwrap();
    assert_eq!(
        *events,
        json!({
            "name": "pastevents", "singularName": "pastevent", "namespaced": true, "kind": "PastEvent",
            "verbs": ["get", "list", "watch"], "shortNames": ["pev"],
        })
    );
    let aggregated = get("/apis", AGGREGATED).await;
    assert_eq!(aggregated["kind"], "APIGroupDiscoveryList");
    let found = &aggregated["items"][0]["versions"][0]["resources"][0];
    assert_eq!(
        (&found["resource"], &found["subresources"][0]["subresource"]),
        (&json!("clusters"), &json!("proxy"))
    );
    for path in ["/apis", &group, &version] {
        get(path, PROTOBUF).await;
    }
    get("/openapi/v2", OLD_PROTOBUF).await;
    let index = get("/openapi/v3", "application/json").await;
    let index: Value = match index {
        Value::String(text) => serde_json::from_str(&text).unwrap(),
        other => other,
    };
    let url = index["paths"][format!("apis/{PAST_VERSION}")]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let document = get(url, "application/json").await;
    let path = &document["paths"][format!("{version}/namespaces/{{namespace}}/pastevents")];
    assert_eq!(
        path.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["get", "parameters"]
    );
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(
        schemas.keys().all(
            |name| name.starts_with("internal.tidings.archive.v1.") || name.ends_with(".Patch")
        )
    );
    let kind = &schemas["internal.tidings.archive.v1.PastEvent"]["x-kubernetes-group-version-kind"];
    assert_eq!(
        *kind,
        json!([{"group": PAST_GROUP, "version": "v1", "kind": "PastEvent"}])
    );
    let old = get("/openapi/v2", "application/json").await;
    assert!(old["definitions"]["internal.tidings.archive.v1.PastEvent"].is_object());
    // Nothing else of the archive is there.
    let headers = [
        ("x-remote-user", "system:kube-aggregator"),
        ("x-remote-group", "system:masters"),
    ];
    for path in [
        "/apis/events.k8s.io",
        "/openapi/v3/api/v1",
        "/livez",
        "/api/v1",
    ] {
        let answer = proxy.try_send(Method::GET, path, &headers, &Value::Null);
        assert_eq!(answer.await.unwrap().code, 404, "{path}");
    }
}

/// Headers of whoever is not the front proxy are not read, wherever they are sent.
#[tokio::test]
async fn forged_headers_are_refused_or_ignored() {
    let world = World::start().await;
    let other = Authority::new("front");
    let forged = [
        ("x-remote-user", "root"),
        ("x-remote-uid", "0"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-scopes", "all"),
    ];
    let paths = [
        past("/namespaces/shop/pastevents"),
        past("/pastevents"),
        past("/clusters/home/proxy/api/v1/namespaces/shop/events"),
        past("/clusters/prod/proxy/api/v1/namespaces/shop/events"),
        format!("/clusters/home{}", past("/namespaces/shop/pastevents")),
        format!(
            "/clusters/prod{}",
            past("/clusters/home/proxy/api/v1/events")
        ),
        format!("/clusters/home{EVENTS}"),
        format!("/clusters/prod{EVENTS}"),
        "/clusters/prod/coverage".to_owned(),
        "/metrics".to_owned(),
        past("/timeline/events"),
        past("/namespaces/shop/timeline/events"),
        "/timeline/api/events".to_owned(),
    ];
    let certificate = |authority: &Authority, name: &str, groups: &[&str]| {
        Credentials::Certificate(authority.client(name, groups, 2040))
    };
    // Credentials that are none here: 401, whatever the headers say.
    for (who, credentials) in [
        ("nobody", Credentials::Nothing),
        (
            "a certificate of another authority of the same name",
            certificate(&other, FRONT, &[]),
        ),
        (
            "a name that is not allowed",
            certificate(&world.front, "ann", &["system:masters"]),
        ),
        (
            "an allowed name, but as a group",
            certificate(&world.front, "ann", &[FRONT]),
        ),
        (
            "an expired certificate",
            Credentials::Certificate(world.front.client(FRONT, &[], 2021)),
        ),
        ("an unknown token", token("t-none")),
    ] {
        let caller = world.archive.to_root(&credentials).await;
        for path in &paths {
            let answer = caller
                .try_send(Method::GET, path, &forged, &Value::Null)
                .await
                .unwrap();
            assert_eq!(answer.code, 401, "{who} {path}: {}", answer.body);
        }
    }
    // Other users stay themselves.
    for (who, credentials) in [
        ("t-ann", token("t-ann")),
        (
            "a client's certificate",
            certificate(&world.clients, "ann", &[]),
        ),
        // The name alone does not make it the front proxy.
        (
            "a client's certificate of its name",
            certificate(&world.clients, FRONT, &[]),
        ),
    ] {
        let caller = world.archive.to_root(&credentials).await;
        for path in &paths {
            let plain = caller.get(path).await;
            let answer = caller
                .try_send(Method::GET, path, &forged, &Value::Null)
                .await
                .unwrap();
            let is_past = path.starts_with("/apis/") || path.contains(PAST_GROUP);
            assert_eq!(
                (answer.code, &answer.body),
                (plain.code, &plain.body),
                "{who} {path}"
            );
            assert!(!is_past || answer.code != 200, "{who} {path}");
        }
        let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
        let path = "/clusters/home/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = caller
            .try_send(Method::POST, path, &forged, &review)
            .await
            .unwrap();
        let user = &answer.body["status"]["userInfo"];
        assert!(
            ["ann", FRONT].contains(&user["username"].as_str().unwrap()),
            "{user}"
        );
        assert_eq!(user["groups"], json!(["system:authenticated"]));
        assert!(user.get("extra").is_none() && user["uid"] != "0", "{user}");
    }
    // The front proxy itself, if it names no user.
    let proxy = world.proxy().await;
    for path in &paths {
        let headers = [("x-remote-group", "system:masters")];
        let answer = proxy
            .try_send(Method::GET, path, &headers, &Value::Null)
            .await
            .unwrap();
        assert_eq!(answer.code, 401, "{path}");
    }
    // Nobody was ever asked about a forged user.
    let asked = world.home.asked.lock().unwrap();
    assert!(asked.iter().all(|spec| spec["user"] != "root"), "{asked:?}");
}

/// On one connection, each request has the user of its own headers.
#[tokio::test]
async fn users_of_one_connection_are_not_mixed() {
    let world = World::start().await;
    let proxy = world.proxy().await;
    let uri = past("/namespaces/other/pastevents");
    for _ in 0..3 {
        for (user, expected) in [(ROOT, 200), (ANN, 403), (NOBODY, 403)] {
            let answer = ask(&proxy, Method::GET, &uri, user.0, user.1).await;
            assert_eq!(answer.code, expected, "{}", user.0);
        }
    }
}

#[tokio::test]
async fn a_replaced_authority_of_the_front_proxy_is_trusted_without_a_restart() {
    let world = World::start().await;
    let next = Authority::new("next");
    let (before, after) = (
        world.proxy().await,
        world.with(&next.client(FRONT, &[], 2040)).await,
    );
    let uri = past("/namespaces/shop/pastevents");
    let codes = async || {
        let before = ask(&before, Method::GET, &uri, ANN.0, ANN.1).await;
        let after = ask(&after, Method::GET, &uri, ANN.0, ANN.1).await;
        [before.code, after.code]
    };
    assert_eq!(codes().await, [200, 401]);
    // While both are in the bundle, both are trusted: connections that are open, too.
    let mut both = trusted(&world.front);
    both.client_ca_pem.extend(next.pem.as_bytes());
    world.trust(both).await.unwrap();
    assert_eq!(codes().await, [200, 200]);
    world.trust(trusted(&next)).await.unwrap();
    assert_eq!(codes().await, [401, 200]);
    // Other settings that cannot be used change nothing.
    let mut wrong = trusted(&next);
    wrong.client_ca_pem = b"none".to_vec();
    let error = world.trust(wrong).await.unwrap_err();
    assert!(matches!(error, RequestHeaderError::Authority(_)), "{error}");
    let mut open = RequestHeader::new(world.clients.pem.clone());
    open.allowed_names.clear();
    let error = world.trust(open).await.unwrap_err();
    assert!(matches!(error, RequestHeaderError::Overlap), "{error}");
    assert_eq!(codes().await, [401, 200]);
    // A client's certificate cannot become the front proxy's by a replaced file, either.
    let mut any = RequestHeader::new(next.pem.clone());
    any.allowed_names.clear();
    world.trust(any).await.unwrap();
    write(world.archive.folder.path(), "clients.pem", &next.pem);
    assert!(!world.archive.running.reload().await);
}

/// Before the settings of the front proxy are known, and without them, no header counts.
#[tokio::test]
async fn without_an_authority_of_the_front_proxy_no_header_counts() {
    let world = World::start_with(|_, aggregated| {
        aggregated.requestheader = RequestHeader::new(Vec::new());
    })
    .await;
    let proxy = world.proxy().await;
    let uri = past("/namespaces/shop/pastevents");
    assert_eq!(ask(&proxy, Method::GET, &uri, ANN.0, ANN.1).await.code, 401);
    world.trust(trusted(&world.front)).await.unwrap();
    // The certificate is asked for in the handshake of new connections.
    let proxy = world.proxy().await;
    assert_eq!(ask(&proxy, Method::GET, &uri, ANN.0, ANN.1).await.code, 200);
}

/// The home cluster as the archive's options name it: it knows a token, and allows it everything.
#[derive(Debug)]
struct Named;

impl Reviewer for Named {
    fn is_verified(&self) -> bool {
        true
    }

    fn review<'a>(
        &'a self,
        path: &'static str,
        _: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        let status = if path.ends_with("tokenreviews") {
            json!({"authenticated": true, "user": {"username": "ann", "groups": ["system:authenticated"]}})
        } else {
            json!({"allowed": true})
        };
        async move { Ok(json!({"status": status})) }.boxed()
    }
}

/// A cluster that cannot be asked about its users, such as one that is not followed, is not read by
/// those of the home cluster.
#[tokio::test]
async fn tokens_of_the_home_cluster_are_unknown_to_other_clusters() {
    let world = World::start_with(|options, _| {
        options.security.authentication_cluster = Some(Arc::new(Named));
        options.security.authorization_cluster = Some(Arc::new(Named));
    })
    .await;
    let ann = world.archive.to_root(&token("of-home")).await;
    for (path, code) in [
        ("/clusters", 200),
        ("/clusters/prod/api/v1/namespaces/shop/events", 401),
        ("/clusters/prod/api/v1/events", 401),
        ("/clusters/prod/coverage", 401),
    ] {
        let answer = ann.try_send(Method::GET, path, &[], &Value::Null).await;
        assert_eq!(answer.unwrap().code, code, "{path}");
    }
    // The archive's own tokens are valid everywhere, by the archive's own permissions alone.
    let own = world.archive.to_root(&token("t-ann")).await;
    let secret = "/clusters/prod/api/v1/namespaces/other/events";
    let answer = own.try_send(Method::GET, secret, &[], &Value::Null).await;
    assert_eq!(answer.unwrap().code, 403);
}
