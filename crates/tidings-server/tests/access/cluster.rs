//! A cluster that reviews tokens and permissions: two endpoints on a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tidings_server::{ApiOptions, ReviewError, Reviewer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::connections::{HTTP2_PREFACE, PATIENCE, get, headed, tls};
use crate::support::{Server, token};

const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// A reviewing cluster: its requests, and its answers.
#[derive(Default)]
struct Cluster {
    token_reviews: AtomicUsize,
    access_reviews: AtomicUsize,
    /// The status code of all answers, if not 0.
    failing: AtomicU16,
    /// Number of reviews of new tokens in progress.
    open_tokens: AtomicUsize,
    /// While set, reviews of permissions and of new tokens wait.
    silent: watch::Sender<bool>,
}

impl Cluster {
    fn failure(&self) -> Result<(), (StatusCode, Json<Value>)> {
        let code = StatusCode::from_u16(self.failing.load(Ordering::Relaxed));
        code.map_or(Ok(()), |code| {
            Err((code, Json(json!({"kind": "Status", "status": "Failure", "message": "no", "code": code.as_u16()}))))
        })
    }

    async fn token_review(
        State(cluster): State<Arc<Self>>,
        Json(review): Json<Value>,
    ) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
        cluster.token_reviews.fetch_add(1, Ordering::Relaxed);
        if review["spec"]["token"]
            .as_str()
            .unwrap()
            .starts_with("new-")
        {
            cluster.open_tokens.fetch_add(1, Ordering::Relaxed);
            let mut silent = cluster.silent.subscribe();
            silent.wait_for(|silent| !silent).await.unwrap();
            cluster.open_tokens.fetch_sub(1, Ordering::Relaxed);
        }
        cluster.failure()?;
        assert_eq!(
            (&review["kind"], &review["apiVersion"]),
            (&json!("TokenReview"), &json!("authentication.k8s.io/v1"))
        );
        let name = match review["spec"]["token"].as_str().unwrap() {
            "t-robot" => "system:serviceaccount:shop:robot",
            "t-guest" => "guest",
            "t-other" => "other",
            "t-master" => "master",
            _ => "",
        };
        let group = if name == "master" {
            "system:masters"
        } else {
            "g"
        };
        let status = if name.is_empty() {
            json!({"user": {}, "error": "unknown token"})
        } else {
            json!({"authenticated": true, "user": {"username": name, "uid": "9", "groups": [group], "extra": {"a/b": ["c"]}}})
        };
        Ok(Json(
            json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}),
        ))
    }

    async fn access_review(
        State(cluster): State<Arc<Self>>,
        Json(review): Json<Value>,
    ) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
        cluster.access_reviews.fetch_add(1, Ordering::Relaxed);
        let mut silent = cluster.silent.subscribe();
        silent.wait_for(|silent| !silent).await.unwrap();
        cluster.failure()?;
        let guest = json!({
            "user": "guest", "uid": "9", "groups": ["g", "system:authenticated"], "extra": {"a/b": ["c"]},
            "resourceAttributes": {
                "namespace": "shop", "verb": "list", "group": "", "version": "v1", "resource": "events", "subresource": "",
                "name": "",
            },
        });
        let status = if review["spec"] == guest {
            json!({"allowed": true, "reason": "guests may look"})
        } else {
            json!({"allowed": false, "reason": "the cluster says no"})
        };
        Ok(Json(json!({"status": status})))
    }
}

/// The client of the cluster, as in a program, and whether it claims to verify the cluster.
pub(crate) struct Way(pub(crate) kube::Client, pub(crate) bool);

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

impl Reviewer for Way {
    fn is_verified(&self) -> bool {
        self.1
    }

    fn review<'a>(
        &'a self,
        path: &'static str,
        body: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        Box::pin(async move {
            let request = http::Request::post(path).header("content-type", "application/json");
            let request = request.body(body.to_string().into_bytes()).unwrap();
            let answer = self.0.request_text(request).await;
            answer
                .map(|text| serde_json::from_str(&text).unwrap())
                .map_err(|error| match error {
                    kube::Error::Api(status) => ReviewError::Refused {
                        code: status.code,
                        message: status.message,
                    },
                    error => ReviewError::Unreachable {
                        why: error.to_string(),
                    },
                })
        })
    }
}

async fn start() -> (Server, Arc<Cluster>) {
    start_with(|_| {}).await
}

async fn start_with(change: impl FnOnce(&mut ApiOptions)) -> (Server, Arc<Cluster>) {
    start_asking(true, change).await
}

async fn start_asking(
    is_verified: bool,
    change: impl FnOnce(&mut ApiOptions),
) -> (Server, Arc<Cluster>) {
    let cluster = Arc::new(Cluster::default());
    let router = Router::new()
        .route(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            post(Cluster::token_review),
        )
        .route(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            post(Cluster::access_review),
        )
        .with_state(cluster.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    let way: Arc<dyn Reviewer> =
        Arc::new(Way(kube::Client::try_from(config).unwrap(), is_verified));
    let server = Server::start(|options, _| {
        options.security.authentication_cluster = Some(way.clone());
        options.security.authorization_cluster = Some(way);
        change(&mut options.api);
    })
    .await;
    (server, cluster)
}

#[tokio::test]
async fn a_cluster_knows_tokens_and_permissions() {
    let (server, cluster) = start().await;
    let asked = || {
        (
            cluster.token_reviews.swap(0, Ordering::Relaxed),
            cluster.access_reviews.swap(0, Ordering::Relaxed),
        )
    };
    let code = async |shown: &str| server.client(&token(shown)).await.get(EVENTS).await.code;
    // Users known here need no review.
    assert_eq!((code("t-ann").await, asked()), (200, (0, 0)));
    // A service account of the cluster, with a role here.
    assert_eq!((code("t-robot").await, asked()), (200, (1, 0)));
    // A user of the cluster, with permissions there.
    assert_eq!((code("t-guest").await, asked()), (200, (1, 1)));
    // Answers are cached, including refusals.
    assert_eq!(
        (code("t-guest").await, code("t-robot").await, asked()),
        (200, 200, (0, 0))
    );
    assert_eq!(
        (code("t-nobody").await, code("t-nobody").await, asked()),
        (401, 401, (1, 0))
    );
    let other = server.client(&token("t-other")).await;
    for _ in 0..2 {
        let refused = other.get(EVENTS).await;
        assert_eq!(
            refused.body["message"],
            r#"events is forbidden: User "other" cannot list resource "events" in API group "" in the namespace "shop": the cluster says no"#
        );
    }
    assert_eq!(asked(), (1, 1));
    // Another request needs another review.
    assert_eq!(other.get(&format!("{EVENTS}/web.1")).await.code, 403);
    assert_eq!(asked(), (0, 1));
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = other
        .send(Method::POST, rules, &json!({"spec": {"namespace": "shop"}}))
        .await;
    assert_eq!(rules.body["status"]["incomplete"], true);
    server.running.shutdown().await;
}

/// The cluster that reviews is not the administrator of the server.
#[tokio::test]
async fn a_review_makes_nobody_a_master() {
    let (server, cluster) = start().await;
    let master = server.client(&token("t-master")).await;
    assert_eq!(master.get(EVENTS).await.code, 403);
    assert_eq!(master.get("/metrics").await.code, 403);
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let whoami = master.send(Method::POST, whoami, &json!({})).await.body;
    let groups = &whoami["status"]["userInfo"]["groups"];
    assert_eq!(*groups, json!(["system:authenticated"]));
    assert_eq!(cluster.access_reviews.load(Ordering::Relaxed), 2);
    server.running.shutdown().await;
}

/// Others on the network could read a token and forge an answer.
#[tokio::test]
async fn a_cluster_that_is_not_verified_is_not_asked() {
    let (server, cluster) = start_asking(false, |_| {}).await;
    for (shown, expected) in [("t-ann", 200), ("t-stranger", 403), ("t-robot", 401)] {
        let answer = server.client(&token(shown)).await.get(EVENTS).await;
        assert_eq!(answer.code, expected, "{shown}");
    }
    let asked = [&cluster.token_reviews, &cluster.access_reviews];
    assert_eq!(asked.map(|count| count.load(Ordering::Relaxed)), [0, 0]);
    server.running.shutdown().await;
}

#[tokio::test]
async fn no_answer_is_no_permission() {
    let (server, cluster) = start().await;
    // A cluster that forbids reviews is not asked again for each request.
    cluster.failing.store(403, Ordering::Relaxed);
    let guest = server.client(&token("t-guest")).await;
    let refused = guest.get(EVENTS).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (503, &json!("ServiceUnavailable"))
    );
    assert_eq!(refused.body["details"]["retryAfterSeconds"], 1);
    // A cluster with errors is asked three times.
    cluster.failing.store(500, Ordering::Relaxed);
    cluster.token_reviews.store(0, Ordering::Relaxed);
    let robot = server.client(&token("t-robot")).await;
    assert_eq!(robot.get(EVENTS).await.code, 503);
    assert_eq!(cluster.token_reviews.load(Ordering::Relaxed), 3);
    // Users known to the server itself are not affected, nor are requests that every user may make.
    assert_eq!(
        server.client(&token("t-ann")).await.get(EVENTS).await.code,
        200
    );
    cluster.failing.store(0, Ordering::Relaxed);
    let stranger = server.client(&token("t-stranger")).await;
    assert_eq!(stranger.get("/version").await.code, 200);
    // Tokens are cached, permissions are not.
    cluster.failing.store(400, Ordering::Relaxed);
    assert_eq!(stranger.get(EVENTS).await.code, 503);
    server.running.shutdown().await;
}

/// There is one place for all writes, and a cluster that does not answer.
#[tokio::test]
async fn a_cluster_that_takes_its_time_holds_up_nobody_else() {
    let (server, cluster) = start_with(|options| {
        options.max_mutating_requests_inflight = 1;
        options.max_requests_inqueue = 0;
    })
    .await;
    let event =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "shop"}});
    let until_asked = async |count| {
        while cluster.access_reviews.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    };
    let ann = server.client(&token("t-ann")).await;
    let stranger = server.client(&token("t-stranger")).await;
    let updater = server.client(&token("t-updater")).await;
    cluster.silent.send_replace(true);

    // A permission that only the cluster knows.
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let path = format!("{EVENTS}/a");
    let written = async {
        until_asked(1).await;
        assert_eq!(ann.send(Method::POST, EVENTS, &event("b")).await.code, 201);
        cluster.silent.send_replace(false);
    };
    let (reviewed, ()) = futures::join!(stranger.send(Method::POST, review, &asked), written);
    assert_eq!(
        (reviewed.code, &reviewed.body["status"]["allowed"]),
        (201, &json!(false))
    );

    // Whether a user who may update events may create one, as a PUT may do.
    cluster.silent.send_replace(true);
    let written = async {
        until_asked(2).await;
        assert_eq!(ann.send(Method::POST, EVENTS, &event("c")).await.code, 201);
        cluster.silent.send_replace(false);
    };
    let body = event("a");
    let (replaced, ()) = futures::join!(updater.send(Method::PUT, &path, &body), written);
    assert_eq!(replaced.code, 403);
    assert_eq!(
        replaced.body["message"],
        r#"events "a" is forbidden: User "updater" cannot create resource "events" in API group "" in the namespace "shop": the cluster says no"#
    );
    // An existing event is changed without a review.
    let path = format!("{EVENTS}/b");
    assert_eq!(
        updater.send(Method::PUT, &path, &event("b")).await.code,
        200
    );
    assert_eq!(cluster.access_reviews.load(Ordering::Relaxed), 2);
    server.running.shutdown().await;
}

/// The timeline authenticates a request before anything else.
#[tokio::test]
async fn heads_wait_for_a_cluster_at_the_timeline_within_the_bounds_of_all() {
    const OVERVIEW: &str = "/timeline/api/overview";
    const BYTES: usize = 1_000_000;
    // The number of heads for which one peer has room.
    const HEADS: usize = 16;
    let (server, cluster) = start_with(|options| options.header_bytes_max = usize::MAX).await;
    cluster.silent.send_replace(true);
    let asked = &server;
    let ask = |number: usize| async move {
        let token = format!("new-{number}");
        headed(asked, "http/1.1", (OVERVIEW, &token), BYTES, 0).await
    };
    let held = join_all((0..HEADS).map(ask));
    let others = async {
        while cluster.open_tokens.load(Ordering::Relaxed) < HEADS {
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(HEADS).await, 429);
        let many = headed(&server, "h2", (OVERVIEW, "new-many"), 1, 200);
        assert_eq!(many.await, 431);
        // The cluster got no review of either.
        assert_eq!(cluster.token_reviews.load(Ordering::Relaxed), HEADS);
        cluster.silent.send_replace(false);
    };
    let answered = tokio::time::timeout(PATIENCE, async { futures::join!(held, others) });
    let (codes, ()) = answered.await.expect("they wait for the cluster");
    assert_eq!(codes, [401; HEADS]);
    server.running.shutdown().await;
}

/// Each request has its own token, comes over HTTP/2, and is reset as soon as the cluster is asked.
#[tokio::test]
async fn requests_that_are_taken_back_leave_no_questions_behind() {
    const PLACES: u8 = 75;
    const BEGUN_MAX: u8 = 100;
    let (server, cluster) = start().await;
    cluster.silent.send_replace(true);
    let (mut read, mut write) = tokio::io::split(tls(&server, "h2").await);
    write.write_all(HTTP2_PREFACE).await.unwrap();
    let begin = |number: u8| get(2 * number + 1, "/api", &format!("Bearer new-{number}"));
    for number in 0..PLACES {
        write.write_all(&begin(number)).await.unwrap();
        while cluster.token_reviews.load(Ordering::Relaxed) <= usize::from(number) {
            tokio::task::yield_now().await;
        }
        let stream = 2 * number + 1;
        let reset = [0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, 8];
        write.write_all(&reset).await.unwrap();
    }
    for number in PLACES..=BEGUN_MAX {
        // The server may end the connection first.
        _ = write.write_all(&begin(number)).await;
    }
    // The frames before the first answer.
    let frames = until_the_end(&mut read).await;
    let mut frames = frames.as_slice();
    while let [0, high, low, kind, rest @ ..] = frames {
        assert_ne!(*kind, 1, "HEADERS of an answer");
        let len = usize::from(*high) << 8 | usize::from(*low);
        frames = rest.get(5 + len..).unwrap_or_default();
    }
    // Each review holds its place until it is answered, and no other review is made.
    for count in [&cluster.open_tokens, &cluster.token_reviews] {
        assert_eq!(count.load(Ordering::Relaxed), usize::from(PLACES));
    }
    cluster.silent.send_replace(false);
    server.running.shutdown().await;
}

async fn until_the_end(read: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // How the connection ends does not matter.
    let _ = tokio::time::timeout(PATIENCE, read.read_to_end(&mut bytes))
        .await
        .expect("the connection goes on");
    bytes
}
