//! Reads of other kinds than events are proxied to the followed cluster, with the caller's token
//! and no other credentials; and the cluster decides who may read its stored events.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::serve::Listener;
use axum::{Json, Router};
use futures::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tidings_server::{AuthorizationMode, PassThrough, Reviewer, StartError, StartOptions};
use tidings_testing::programs;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::cluster::Way;
use crate::clusters::{Archive, EVENTS, PATIENCE, cluster, names};
use crate::support::{Authority, Caller, Credentials, token};

const PODS: &str = "/api/v1/namespaces/shop/pods";

/// A stub of a cluster's API server. It knows `t-dev`, who has all permissions, and `t-guest`, who
/// has none.
struct Cluster {
    address: SocketAddr,
    authority: Authority,
    seen: Arc<Seen>,
}

/// The stub's requests and answers.
struct Seen {
    requests: Mutex<Vec<(String, HeaderMap)>>,
    lines: broadcast::Sender<&'static str>,
    /// Notified when a watch of the stub's pods is dropped.
    dropped: Notify,
}

/// A listener that accepts TLS connections.
struct Tls(TcpListener, TlsAcceptor);

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = self.0.accept().await.unwrap();
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Cluster {
    async fn start() -> Self {
        let seen = Arc::new(Seen {
            requests: Mutex::default(),
            lines: broadcast::channel(16).0,
            dropped: Notify::new(),
        });
        let router = Router::new()
            .route(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                post(token_review),
            )
            .route(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                post(access_review),
            )
            .route(
                "/api",
                get(async || Json(json!({"kind": "APIVersions", "versions": ["v1"]}))),
            )
            .route(
                "/apis",
                get(async || {
                    Json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}))
                }),
            )
            .route("/api/v1", get(resources))
            .route(PODS, get(pods))
            .route(&format!("{PODS}/web"), any(pod))
            .route(&format!("{PODS}/web/log"), get(pods))
            .route(&format!("{PODS}/broken"), get(broken))
            .route(
                &format!("{PODS}/switched"),
                get(async || http::StatusCode::SWITCHING_PROTOCOLS),
            )
            .route(&format!("{PODS}/cut"), get(cut))
            .route(
                &format!("{PODS}/never"),
                get(async || std::future::pending::<()>().await),
            )
            .layer(middleware::from_fn_with_state(Arc::clone(&seen), note))
            .with_state(Arc::clone(&seen));
        let authority = Authority::new("cluster");
        let signed = authority.server(2040);
        let certificate = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Tls(listener, TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(async move { axum::serve(tls, router).await });
        Self {
            address,
            authority,
            seen,
        }
    }

    fn way(&self) -> PassThrough {
        let server = format!("https://{}", self.address);
        PassThrough::new(&server, self.authority.pem.as_bytes()).unwrap()
    }

    /// A reviewer with the archive's own credentials.
    fn reviewer(&self) -> Arc<dyn Reviewer> {
        self.reviewer_that(true)
    }

    /// A reviewer that claims to verify the cluster, or not to.
    fn reviewer_that(&self, is_verified: bool) -> Arc<dyn Reviewer> {
        let url = format!("https://{}", self.address);
        let mut config = kube::Config::new(url.parse().unwrap());
        let authority = CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap();
        config.root_cert = Some(vec![authority.to_vec()]);
        config.auth_info.token = Some("t-archive".to_owned().into());
        config.default_retry = false;
        Arc::new(Way(kube::Client::try_from(config).unwrap(), is_verified))
    }

    /// An archive that follows the cluster, with an event of an existing pod.
    async fn archived(&self, change: impl FnOnce(&mut StartOptions)) -> Archive {
        let mut followed = cluster("prod", &["web.1"]).await;
        followed.access = Some(self.reviewer());
        followed.pass_through = Some(self.way());
        Archive::start_with(vec![followed, cluster("edge", &[]).await], change)
            .await
            .unwrap()
    }

    /// The requests, except reviews.
    fn asked(&self) -> Vec<(String, HeaderMap)> {
        let mut requests = std::mem::take(&mut *self.seen.requests.lock().unwrap());
        requests.retain(|(uri, _)| !uri.contains("review"));
        requests
    }
}

async fn note(State(seen): State<Arc<Seen>>, request: Request, next: Next) -> Response {
    let asked = (
        format!("{} {}", request.method(), request.uri()),
        request.headers().clone(),
    );
    seen.requests.lock().unwrap().push(asked);
    next.run(request).await
}

async fn token_review(headers: HeaderMap, Json(review): Json<Value>) -> Json<Value> {
    assert_eq!(headers["authorization"], "Bearer t-archive");
    let name = match review["spec"]["token"].as_str().unwrap() {
        "t-dev" => "dev",
        "t-guest" => "guest",
        // A user of this name has a role in the archive's file of permissions.
        "t-namesake" => "ann",
        "t-robot" => "system:serviceaccount:shop:robot",
        "t-master" => "root",
        _ => return Json(json!({"status": {"authenticated": false}})),
    };
    let groups = if name == "root" {
        vec!["system:masters"]
    } else {
        Vec::new()
    };
    Json(json!({"status": {"authenticated": true, "user": {"username": name, "groups": groups}}}))
}

/// The cluster's review of permissions. A user unknown to another cluster is not one of the
/// archive's users.
async fn access_review(Json(review): Json<Value>) -> Json<Value> {
    let user = review["spec"]["user"].as_str().unwrap();
    let allowed = ["dev", "stranger"].contains(&user);
    Json(json!({"status": {"allowed": allowed}}))
}

async fn resources() -> Json<Value> {
    let resource = |name, kind, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    Json(
        json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            resource("pods", "Pod", &["get", "list", "watch", "create"]),
            resource("events", "Event", &["get", "list", "watch", "create"]),
        ]}),
    )
}

fn web() -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-web", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "web", "image": "web:1"}], "nodeName": "node-1"},
        "status": {"phase": "Running"},
    })
}

async fn pod(request: Request) -> Response {
    let head = [
        ("connection", "x-secret"),
        ("x-secret", "s"),
        ("set-cookie", "a=b"),
        ("etag", "\"7\""),
    ];
    match request.headers()["authorization"].to_str().unwrap() {
        "Bearer t-dev" => (head, Json(web())).into_response(),
        other => panic!("{other}"),
    }
}

struct Told(broadcast::Receiver<&'static str>, Arc<Seen>);

impl Drop for Told {
    fn drop(&mut self) {
        self.1.dropped.notify_one();
    }
}

/// A log, or a watch, whose lines arrive one by one.
async fn pods(State(seen): State<Arc<Seen>>) -> Response {
    let told = Told(seen.lines.subscribe(), Arc::clone(&seen));
    let lines = stream::unfold(told, |mut told| async move {
        let line = told.0.recv().await.ok()?;
        Some((Ok::<_, Infallible>(line), told))
    });
    let begin = stream::once(async { Ok("begin\n") });
    Body::from_stream(begin.chain(lines)).into_response()
}

/// No answer, or an incomplete one, as the test requests.
async fn broken() -> Response {
    let chunks: [Result<&str, _>; 1] = [Err(std::io::Error::other("broken"))];
    Body::from_stream(stream::iter(chunks)).into_response()
}

async fn cut(State(seen): State<Arc<Seen>>) -> Response {
    let mut told = seen.lines.subscribe();
    let begin = stream::once(async { Ok("{") });
    let end = stream::once(async move {
        told.recv().await.unwrap();
        Err::<&str, _>(std::io::Error::other("cut"))
    });
    Body::from_stream(begin.chain(end)).into_response()
}

fn message(answer: &Value) -> &str {
    answer["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_is_not_about_events_goes_on_with_the_callers_own_token() {
    let cluster = Cluster::start().await;
    let archive = cluster.archived(|_| {}).await;
    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    let headers = [
        ("cookie", "session=archive"),
        ("x-remote-user", "root"),
        ("x-forwarded-for", "10.0.0.1"),
        ("te", "trailers"),
        ("if-none-match", "\"6\""),
        ("user-agent", "kubectl/v1"),
    ];
    let uri = format!("{PODS}/web?x=%2Fy");
    let answer = dev.try_send(Method::GET, &uri, &headers, &Value::Null);
    assert_eq!(answer.await.unwrap().body, web());
    let asked = cluster.asked();
    assert_eq!(asked.len(), 1);
    let (uri, head) = &asked[0];
    assert_eq!(uri, &format!("GET {PODS}/web?x=%2Fy"));
    let names: BTreeSet<&str> = head.keys().map(http::HeaderName::as_str).collect();
    let expected = [
        "accept-encoding",
        "audit-id",
        "authorization",
        "host",
        "if-none-match",
        "user-agent",
    ];
    assert!(names.is_subset(&expected.into()), "{names:?}");
    assert_eq!(head["authorization"], "Bearer t-dev");
    assert_eq!(
        (&head["if-none-match"], &head["user-agent"]),
        (&"\"6\"".parse().unwrap(), &"kubectl/v1".parse().unwrap())
    );
    assert_eq!(head["host"], cluster.address.to_string());

    // The returned answer.
    let request = http::Request::get(format!("{PODS}/web"));
    let response = dev
        .client()
        .send(request.body(Vec::new().into()).unwrap())
        .await
        .unwrap();
    let head = response.headers();
    assert_eq!(head["etag"], "\"7\"");
    assert_eq!(head["content-type"], "application/json");
    for name in ["set-cookie", "x-secret", "connection"] {
        assert!(!head.contains_key(name), "{name}");
    }
    let answered = dev
        .send(Method::HEAD, &format!("{PODS}/web"), &Value::Null)
        .await;
    assert_eq!(answered.code, 200);
    assert_eq!(
        dev.get("/api/v1/namespaces/shop/secrets").await.code,
        404,
        "the cluster's own"
    );
    cluster.asked();

    // The archive itself serves events, health, version and reviews, and refuses writes.
    assert_eq!(names_of(&dev, EVENTS).await, ["web.1"]);
    assert_eq!(dev.get(&format!("{EVENTS}/web.1/x")).await.code, 404);
    assert_eq!(dev.get("/apis/events.k8s.io/v1/events").await.code, 200);
    assert_eq!(dev.get("/version").await.code, 200);
    assert_eq!(dev.get("/healthz").await.code, 200);
    assert_eq!(dev.get("/coverage").await.code, 200);
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = dev.send(Method::POST, review, &json!({})).await;
    assert_eq!(review.body["status"]["userInfo"]["username"], "dev");
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let refused = dev
            .send(method.clone(), &format!("{PODS}/web"), &json!({}))
            .await;
        assert!(
            [404, 405].contains(&refused.code),
            "{method} {}",
            refused.code
        );
    }
    assert_eq!(cluster.asked().len(), 0);
    // A token of this cluster is not accepted by another one.
    let edge = archive.to_cluster("edge", &token("t-dev")).await;
    assert_eq!(edge.get(&format!("{PODS}/web")).await.code, 401);
    archive.running.shutdown().await;
}

async fn names_of(caller: &Caller, uri: &str) -> Vec<String> {
    let list = caller.get(uri).await.body;
    names(&list).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn nobody_elses_credentials_go_on() {
    let cluster = Cluster::start().await;
    let users = Authority::new("users");
    let certificate = users.client("ann", &["system:masters"], 2040);
    let pem = users.pem.clone();
    let archive = cluster
        .archived(|options| {
            let path = options.data_dir.with_file_name("users.pem");
            std::fs::write(&path, pem).unwrap();
            options.security.client_ca_file = Some(path);
            options.security.anonymous_auth = true;
        })
        .await;
    let uri = format!("{PODS}/web");
    for (credentials, code, why) in [
        (Credentials::Nothing, 401, "there is none"),
        (token("t-admin"), 403, "this token is the archive's own"),
        (
            Credentials::Certificate(certificate),
            403,
            "a client certificate cannot be shown to it",
        ),
        (token("t-wrong"), 401, "knows these credentials"),
    ] {
        let caller = archive.to_cluster("prod", &credentials).await;
        let refused = caller.get(&uri).await;
        let said = message(&refused.body);
        assert!(
            refused.code == code && said.ends_with(why),
            "{} {said}",
            refused.code
        );
    }
    // The archive's own users read the archive's own paths.
    let admin = archive.to_cluster("prod", &token("t-admin")).await;
    assert_eq!(names_of(&admin, EVENTS).await, ["web.1"]);
    assert_eq!(admin.get("/api/v1").await.code, 200);
    assert_eq!(admin.get("/api/v1/namespaces/shop").await.code, 200);

    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    for (uri, code) in [
        (format!("{PODS}/web/exec?command=id"), 403),
        (format!("{PODS}/web/proxy/admin"), 403),
        (format!("{PODS}/web/pro%78y"), 403),
        ("/api/v1/nodes/node-1/proxy/logs/".to_owned(), 403),
        (format!("{PODS}/../pods/web"), 404),
        ("/api/v1//pods".to_owned(), 404),
        (format!("{PODS}/x/%2e%2E/web"), 404),
        ("/api/v1/proxy/namespaces/shop/pods/web".to_owned(), 403),
        (format!("{PODS}/a%2Fb"), 404),
    ] {
        let refused = dev.get(&uri).await;
        assert_eq!(refused.code, code, "{uri}: {}", refused.body);
    }
    let header = [("impersonate-user", "root")];
    let refused = dev
        .try_send(Method::GET, &uri, &header, &Value::Null)
        .await
        .unwrap();
    assert_eq!(refused.code, 403);
    assert_eq!(cluster.asked().len(), 0);
    archive.running.shutdown().await;
}

/// A token that is known to the cluster named for the whole archive is not sent to another cluster.
#[tokio::test]
async fn a_token_of_one_cluster_does_not_go_on_to_another() {
    let (home, edge) = (Cluster::start().await, Cluster::start().await);
    let mut followed = cluster("edge", &["web.1"]).await;
    followed.pass_through = Some(edge.way());
    let archive = Archive::start_with(vec![followed], |options| {
        options.security.authentication_cluster = Some(home.reviewer());
    });
    let archive = archive.await.unwrap();
    let dev = archive.to_cluster("edge", &token("t-dev")).await;
    let refused = dev.get(&format!("{PODS}/web")).await;
    let why = "this token was recognized by another cluster";
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(message(&refused.body).ends_with(why), "{}", refused.body);
    assert_eq!(edge.asked().len(), 0);
    archive.running.shutdown().await;
}

/// The cluster that reviews tokens for the whole archive is also followed and reviews its own.
#[tokio::test]
async fn the_timeline_of_a_cluster_is_shown_to_whom_it_knows() {
    let home = Cluster::start().await;
    let mut followed = cluster("home", &["web.1"]).await;
    followed.access = Some(home.reviewer());
    let clusters = vec![followed, cluster("edge", &["web.2"]).await];
    let archive = Archive::start_with(clusters, |options| {
        options.security.authentication_cluster = Some(home.reviewer());
    });
    let archive = archive.await.unwrap();
    let dev = archive.to_root(&token("t-dev")).await;
    let seen = dev.get("/timeline/api/events?cluster=home&from=0").await;
    assert_eq!(seen.code, 200, "{}", seen.body);
    let text = seen.body.to_string();
    assert!(text.contains("web.1") && !text.contains("web.2"), "{text}");
    archive.running.shutdown().await;
}

/// The cluster's own permissions decide.
#[tokio::test]
async fn the_cluster_says_who_reads_its_kept_events() {
    let cluster = Cluster::start().await;
    let archive = cluster.archived(|_| {}).await;
    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    assert_eq!(dev.get(EVENTS).await.code, 200);
    assert_eq!(dev.get(&format!("{EVENTS}/web.1/versions")).await.code, 200);
    let guest = archive.to_cluster("prod", &token("t-guest")).await;
    let refused = guest.get(EVENTS).await;
    assert!(refused.code == 403 && message(&refused.body).contains("\"guest\""));
    // The cluster's tokens are not valid for other clusters.
    for caller in [
        archive
            .to_cluster("edge", &token("t-dev"))
            .await
            .get(EVENTS)
            .await,
        archive
            .to_root(&token("t-dev"))
            .await
            .get("/clusters")
            .await,
    ] {
        assert_eq!(caller.code, 401);
    }
    archive.running.shutdown().await;

    let mut followed = crate::clusters::cluster("prod", &[]).await;
    followed.access = Some(cluster.reviewer());
    let start = Archive::start_with(vec![followed], |options| {
        options.security.authorization_rbac_file = None;
        options.security.authorization_mode = AuthorizationMode::AlwaysAllow;
    });
    let error = start.await.err().unwrap();
    assert!(matches!(&error, StartError::Cluster(_)), "{error:?}");
    assert!(error.to_string().contains("have no effect"), "{error}");
}

/// Users of one name in the archive and in a cluster are different users.
#[tokio::test]
async fn only_a_cluster_decides_about_its_users_and_about_no_others() {
    const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let cluster = Cluster::start().await;
    let archive = cluster.archived(|_| {}).await;
    for (shown, expected) in [
        ("t-dev", 200),
        // Users of these names have roles in the archive's file.
        ("t-namesake", 403),
        ("t-robot", 403),
        ("t-master", 403),
        // The archive's own users.
        ("t-ann", 200),
        ("t-stranger", 403),
        ("t-admin", 200),
    ] {
        let caller = archive.to_cluster("prod", &token(shown)).await;
        assert_eq!(caller.get(EVENTS).await.code, expected, "{shown}");
        // Allowed for every user, as in every cluster.
        assert_eq!(caller.get("/version").await.code, 200, "{shown}");
    }
    let namesake = archive.to_cluster("prod", &token("t-namesake")).await;
    let asked = json!({"spec": {"namespace": "shop"}});
    let rules = namesake.send(Method::POST, RULES, &asked).await.body;
    assert_eq!(rules["status"]["incomplete"], true);
    assert!(!rules.to_string().contains("\"events\""), "{rules}");
    let timeline = archive.to_root(&token("t-namesake")).await;
    let seen = timeline.get("/timeline/api/events?from=0&cluster=prod");
    assert_eq!(seen.await.code, 403);
    // An impersonated user belongs to the same cluster.
    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    let acting = [("impersonate-user", "ann")];
    let answer = dev.try_send(Method::GET, EVENTS, &acting, &Value::Null);
    assert_eq!(answer.await.unwrap().code, 403);
    archive.running.shutdown().await;
}

#[tokio::test]
async fn no_token_is_sent_to_a_cluster_that_is_not_verified() {
    let cluster = Cluster::start().await;
    let mut followed = crate::clusters::cluster("prod", &["web.1"]).await;
    followed.access = Some(cluster.reviewer_that(false));
    let archive = Archive::start(vec![followed]).await;
    for (shown, expected) in [("t-dev", 401), ("t-ann", 200), ("t-stranger", 403)] {
        let caller = archive.to_cluster("prod", &token(shown)).await;
        assert_eq!(caller.get(EVENTS).await.code, expected, "{shown}");
        let timeline = archive.to_root(&token(shown)).await;
        let path = "/timeline/api/events?from=0&namespace=shop";
        assert_eq!(timeline.get(path).await.code, expected, "{shown}");
    }
    assert!(cluster.seen.requests.lock().unwrap().is_empty());
    archive.running.shutdown().await;
}

#[tokio::test]
async fn answers_come_while_they_are_made_and_end_with_their_reader() {
    let cluster = Cluster::start().await;
    let archive = cluster.archived(|_| {}).await;
    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    let open = async |uri: String| {
        let request = http::Request::get(uri).body(Vec::new().into()).unwrap();
        let response = dev.client().send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut chunks = response.into_body().into_data_stream();
        assert_eq!(next(&mut chunks).await.as_deref(), Some(&b"begin\n"[..]));
        chunks
    };
    let mut watch = open(format!("{PODS}?watch=true")).await;
    let mut log = open(format!("{PODS}/web/log?follow=true")).await;
    cluster.seen.lines.send("line\n").unwrap();
    assert_eq!(next(&mut watch).await.as_deref(), Some(&b"line\n"[..]));
    assert_eq!(next(&mut log).await.as_deref(), Some(&b"line\n"[..]));
    // The server notices that its client has disconnected.
    drop(watch);
    let dropped = tokio::time::timeout(PATIENCE, cluster.seen.dropped.notified()).await;
    dropped.expect("the cluster is still read");
    // The end of the server ends long-running requests.
    let ended = async { while next(&mut log).await.is_some() {} };
    tokio::join!(archive.running.shutdown(), ended);
}

async fn next<E>(
    chunks: &mut (impl futures::Stream<Item = Result<Bytes, E>> + Unpin),
) -> Option<Bytes> {
    let next = tokio::time::timeout(PATIENCE, chunks.try_next()).await;
    next.expect("nothing comes").ok().flatten()
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_costs_only_the_request() {
    let cluster = Cluster::start().await;
    let mut followed = crate::clusters::cluster("prod", &["web.1"]).await;
    followed.access = Some(cluster.reviewer());
    followed.pass_through = Some(cluster.way().limits(1, 1));
    let mut away = followed.clone();
    away.name = "away".into();
    // Nothing listens at this address.
    let unused = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let way = PassThrough::new(
        &format!("https://{unused}"),
        cluster.authority.pem.as_bytes(),
    );
    away.pass_through = Some(way.unwrap());
    let mut distrusted = followed.clone();
    distrusted.name = "distrusted".into();
    let other = Authority::new("other").pem;
    let way = PassThrough::new(&format!("https://{}", cluster.address), other.as_bytes());
    distrusted.pass_through = Some(way.unwrap());
    let archive = Archive::start_with(vec![followed, away, distrusted], |options| {
        options.api.request_timeout = Duration::from_secs(2);
    })
    .await
    .unwrap();
    for name in ["away", "distrusted"] {
        let dev = archive.to_cluster(name, &token("t-dev")).await;
        let failed = dev.get(&format!("{PODS}/web")).await;
        assert_eq!(
            (failed.code, &failed.body["reason"]),
            (503, &json!("ServiceUnavailable"))
        );
        let said = message(&failed.body);
        assert!(
            said.contains(name) && said.contains("cannot be reached"),
            "{said}"
        );
        // Its events can be read anyway, and the message says so.
        assert_eq!(names_of(&dev, EVENTS).await, ["web.1"]);
        let resources = dev.get("/api/v1").await.body;
        assert_eq!(resources["resources"][0]["name"], "events");
        assert_eq!(dev.get("/apis").await.code, 200);
    }
    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    // Upgrades are not proxied.
    let switched = dev.get(&format!("{PODS}/switched")).await;
    assert_eq!(switched.code, 502);
    let broken = dev.get(&format!("{PODS}/broken")).await;
    assert_eq!(broken.code, 502);
    assert_eq!(
        message(&broken.body),
        "cluster \"prod\" did not answer as it should"
    );
    let uri = format!("{PODS}/cut");
    let request = http::Request::get(uri).body(Vec::new().into()).unwrap();
    let response = dev.client().send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    cluster.seen.lines.send("cut").unwrap();
    let whole = response.into_body().collect().await;
    assert!(
        whole.is_err(),
        "an answer that is cut is not taken for whole"
    );
    // There is one place: the second request gets 429.
    let never = format!("{PODS}/never");
    let (first, second) = tokio::join!(dev.get(&never), async {
        while !cluster
            .seen
            .requests
            .lock()
            .unwrap()
            .iter()
            .any(|(uri, _)| uri.ends_with("never"))
        {
            tokio::task::yield_now().await;
        }
        dev.get(&format!("{PODS}/web")).await
    });
    assert_eq!((first.code, second.code), (504, 429));
    // The place is free again, and a followed log does not take it.
    let followed = format!("{PODS}/web/log?follow=true");
    let request = http::Request::get(&followed).body(Vec::new().into());
    let log = dev.client().send(request.unwrap()).await.unwrap();
    assert_eq!(log.status(), 200);
    assert_eq!(dev.get(&format!("{PODS}/web")).await.code, 200);
    assert_eq!(dev.get(&followed).await.code, 429);
    drop(log);
    archive.running.shutdown().await;
}

#[tokio::test]
async fn clusters_share_a_bound_of_what_is_passed_on() {
    let cluster = Cluster::start().await;
    let mut followed = crate::clusters::cluster("prod", &["web.1"]).await;
    followed.access = Some(cluster.reviewer());
    followed.pass_through = Some(cluster.way());
    let mut other = followed.clone();
    other.name = "other".into();
    other.pass_through = Some(cluster.way());
    let archive = Archive::start_with(vec![followed, other], |options| {
        options.api.request_timeout = Duration::from_secs(2);
        options.api.max_requests_inflight = 1;
    })
    .await
    .unwrap();
    let dev = archive.to_cluster("prod", &token("t-dev")).await;
    let elsewhere = archive.to_cluster("other", &token("t-dev")).await;
    assert_eq!(elsewhere.get(&format!("{PODS}/web")).await.code, 200);
    let never = format!("{PODS}/never");
    let (first, second) = tokio::join!(dev.get(&never), async {
        let is_there = || {
            let requests = cluster.seen.requests.lock().unwrap();
            requests.iter().any(|(uri, _)| uri.ends_with("never"))
        };
        while !is_there() {
            tokio::task::yield_now().await;
        }
        elsewhere.get(&format!("{PODS}/web")).await
    });
    assert_eq!((first.code, second.code), (504, 429));
    assert_eq!(elsewhere.get(&format!("{PODS}/web")).await.code, 200);
    archive.running.shutdown().await;
}

/// kubectl shows the current pod, and its events of last week.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_describes_a_pod_with_its_kept_events() {
    let Some(kubectl) = programs::kubectl() else {
        return;
    };
    let cluster = Cluster::start().await;
    let archive = cluster.archived(|_| {}).await;
    let mut kubeconfig = Kubeconfig::read_from(archive.running.kubeconfig()).unwrap();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info.as_mut().unwrap().token = Some("t-dev".to_owned().into());
    }
    let path = archive.folder.path().join("kubeconfig");
    std::fs::write(&path, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
    let run = async |args: &[&str]| {
        let mut command = Command::new(&kubectl);
        command
            .arg("--kubeconfig")
            .arg(&path)
            .arg("--cache-dir")
            .arg(archive.folder.path().join("cache"))
            .args(args)
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let described = run(&["--context", "prod", "-n", "shop", "describe", "pod/web"]).await;
    assert!(
        described.contains("node-1") && described.contains("BackOff"),
        "{described}"
    );
    let events = run(&["-n", "shop", "events", "--for", "pod/web"]).await;
    assert!(events.contains("BackOff"), "{events}");
    archive.running.shutdown().await;
}
