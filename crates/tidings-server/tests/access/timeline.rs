//! The timeline shows only events that the caller may list in each cluster and namespace; and the
//! link of a timeline on the loopback interface is the only access.

use std::future::ready;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tidings_api::codec::{decode_stored, encode_stored};
use tidings_history::{Capabilities, Coverage, Following, History, Version, Versions};
use tidings_server::{
    AggregatedOptions, ApiOptions, FollowedCluster, ReviewError, Reviewer, start_timeline,
};
use tidings_store::{BoxFuture, Fault, NewRecord, ReadError, UnixMillis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clusters::{Archive, PATIENCE, cluster, cluster_with};
use crate::support::{Caller, Credentials, Server, token};

/// The page's requests, with a range that contains all events.
const PATHS: [&str; 10] = [
    "overview?",
    "view?from=0&by=type",
    "view?from=0&by=reason",
    "events?from=0",
    "export?from=0&format=jsonl",
    "export?from=0&format=perfetto",
    "object?from=0&kind=Pod&namespace=shop&name=web",
    "top?from=0&against=before",
    "top?from=0&by=object",
    "top?from=0&by=namespace&filter=namespace:*",
];

async fn ask(caller: &Caller, path: &str) -> (u16, String) {
    let answer = caller.get(&format!("/timeline/api/{path}")).await;
    let text = match answer.body {
        Value::String(text) => text,
        body => body.to_string(),
    };
    (answer.code, text)
}

fn event(namespace: &str, name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web"},
        "reason": format!("ReasonOf{namespace}"),
        // Names both namespaces, which are then searched for causes.
        "message": format!("in {namespace}: db.other.svc and db.shop.svc do not answer"),
        "type": "Warning",
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": "2026-03-04T05:00:00Z",
        "lastTimestamp": "2026-03-04T05:06:00Z",
        "count": 7,
    })
}

#[tokio::test]
async fn nothing_of_another_namespace_is_in_any_answer() {
    let server = Server::start(|_, _| {}).await;
    let admin = server.as_admin().await;
    for namespace in ["shop", "other"] {
        for name in ["a", "b"] {
            let body = event(namespace, &format!("{name}-of-{namespace}"), "node-1");
            let path = format!("/api/v1/namespaces/{namespace}/events");
            let answer = admin.send(Method::POST, &path, &body).await;
            assert_eq!(answer.code, 201);
        }
    }
    let reader = server.client(&token("t-reader")).await;
    let event = "event?namespace=shop&name=a-of-shop";
    for path in PATHS.into_iter().chain([event]) {
        let (code, all) = ask(&admin, path).await;
        assert_eq!(code, 200, "{path}: {all}");
        let (code, some) = ask(&reader, path).await;
        assert_eq!(code, 200, "{path}: {some}");
        // "other" may also be the name of a series of rates.
        for word in ["of-other", "ReasonOfother", "in other"] {
            assert!(!some.contains(word), "{path}: {some}");
        }
        if ["view", "event", "top"]
            .iter()
            .any(|it| path.starts_with(it))
        {
            assert!(some.contains("shop"), "{path}: {some}");
        }
    }
    let view = reader.get("/timeline/api/view?from=0").await.body;
    assert_eq!(view["lanes"].as_array().unwrap().len(), 1);
    assert_eq!((&view["read"], &view["total"]), (&json!(2), &json!(2)));
    let overview = reader.get("/timeline/api/overview").await.body;
    assert_eq!(overview["clusters"][0]["namespaces"], json!(["shop"]));
    assert_eq!(overview["clusters"][0]["events"], Value::Null);
    for (path, code) in [
        ("event?namespace=other&name=a-of-other", 403),
        ("view?from=0&namespace=other", 403),
        ("events?from=0&namespace=other", 403),
        ("live?namespace=other", 403),
        ("top?from=0&namespace=other", 403),
        ("events?from=0&filter=namespace:other", 403),
        ("event?namespace=shop&name=a-of-other", 404),
    ] {
        let (found, text) = ask(&reader, path).await;
        assert_eq!(found, code, "{path}: {text}");
        assert!(!text.contains("ReasonOfother"));
    }
    // Together with a permitted namespace, the other one is omitted.
    let (code, both) = ask(&reader, "events?from=0&namespace=shop&namespace=other").await;
    assert_eq!(code, 200);
    assert!(both.contains("a-of-shop") && !both.contains("of-other"));
    // Events of many namespaces are filtered from a read of all.
    let many = "&namespace=shop&namespace=a&namespace=b&namespace=c&namespace=d&namespace=e";
    for path in ["overview?", "view?from=0", "events?from=0"] {
        let (code, some) = ask(&admin, &format!("{path}{many}")).await;
        assert_eq!(code, 200, "{path}: {some}");
        assert!(!some.contains("of-other"), "{path}: {some}");
    }
    let view = admin.get(&format!("/timeline/api/view?from=0{many}")).await;
    assert_eq!(view.body["read"], json!(2));
    let overview = admin.get(&format!("/timeline/api/overview?{many}")).await;
    assert!(overview.body["clusters"][0]["from"].is_number());
    let updater = server.client(&token("t-updater")).await;
    let nobody = server.client(&Credentials::Nothing).await;
    for path in PATHS {
        assert_eq!(ask(&updater, path).await.0, 403, "{path}");
        assert_eq!(ask(&nobody, path).await.0, 401, "{path}");
    }
    assert_eq!(nobody.get("/timeline").await.code, 200);
    // Only the exact path and those below it are the timeline's.
    assert_eq!(admin.get("/timelinex").await.code, 404);
}

#[tokio::test]
async fn without_it_nothing_is_served() {
    let server = Server::start(|options, _| options.api.timeline.enabled = false).await;
    let admin = server.as_admin().await;
    for path in ["/timeline", "/timeline/api/overview", "/timeline/login"] {
        assert_eq!(admin.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn an_archive_shows_of_each_cluster_what_may_be_seen_there() {
    let clusters = vec![
        cluster("prod", &["a.1", "a.2"]).await,
        cluster("edge", &["b.1"]).await,
    ];
    let archive = Archive::start(clusters).await;
    let ann = archive.to_root(&token("t-ann")).await;
    let overview = ann.get("/timeline/api/overview").await.body;
    let names: Vec<_> = overview["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cluster| (cluster["name"].as_str().unwrap(), &cluster["namespaces"]))
        .collect();
    let shop = json!(["shop"]);
    assert_eq!(names, [("prod", &shop), ("edge", &shop)]);
    let items = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        let mut names: Vec<_> = items
            .map(|item| format!("{} {}", item["cluster"], item["name"]).replace('"', ""))
            .collect();
        names.sort_unstable();
        names
    };
    for (query, expected) in [
        ("", vec!["edge b.1", "prod a.1", "prod a.2"]),
        ("&cluster=prod", vec!["prod a.1", "prod a.2"]),
        (
            "&cluster=prod&cluster=edge&filter=%22in%20edge%22",
            vec!["edge b.1"],
        ),
    ] {
        let page = ann
            .get(&format!("/timeline/api/events?from=0{query}"))
            .await
            .body;
        assert_eq!(items(&page), expected, "{query}");
    }
    let view = ann.get("/timeline/api/view?from=0").await.body;
    let position = view["position"].as_str().unwrap();
    assert!(
        position.starts_with("prod=") && position.contains(",edge="),
        "{position}"
    );
    // Two clusters' objects of one name are two lanes.
    assert_eq!(view["lanes"].as_array().unwrap().len(), 2);
    let versions = "event?cluster=prod&namespace=shop&name=a.1";
    let event = ann.get(&format!("/timeline/api/{versions}")).await.body;
    assert_eq!(event["versions"].as_array().unwrap().len(), 5);
    assert_eq!(event["versions"][4]["message"], "in prod");
    assert_eq!(event["versions"][0]["message"], Value::Null);
    let (code, _) = ask(&ann, "event?namespace=shop&name=a.1").await;
    assert_eq!(code, 400, "two clusters may have it");
    // Users of the archive may know which clusters there are.
    let admin = archive.to_root(&token("t-admin")).await;
    for caller in [&ann, &admin] {
        let (found, text) = ask(caller, "view?cluster=nothing").await;
        assert_eq!(found, 404, "{text}");
        assert!(text.contains(r#"clusters \"nothing\" not found"#), "{text}");
    }
    for who in ["t-stranger", "t-updater"] {
        let caller = archive.to_root(&token(who)).await;
        for path in PATHS {
            let (code, text) = ask(&caller, path).await;
            assert!(!text.contains("a.1") && !text.contains("in prod"), "{text}");
            // The stranger may read a namespace that has no events, which is no secret.
            let is_of_shop = path.contains("namespace=shop");
            let may = who == "t-stranger" && !is_of_shop;
            assert_eq!(code, if may { 200 } else { 403 }, "{who} {path}");
        }
    }
    // The timeline belongs to the archive, not to a cluster.
    let below = archive.to_cluster("prod", &token("t-admin")).await;
    assert_eq!(below.get("/timeline").await.code, 404);
}

#[tokio::test]
async fn nobody_learns_which_clusters_an_archive_has() {
    let clusters = vec![
        cluster("prod", &["a.1"]).await,
        cluster("edge", &["b.1"]).await,
    ];
    let archive = Archive::start_with(clusters, |options| options.security.anonymous_auth = true);
    let archive = archive.await.unwrap();
    let nobody = archive.to_root(&Credentials::Nothing).await;
    let known = ask(&nobody, "view?cluster=prod").await;
    assert_eq!(known.0, 403, "{}", known.1);
    assert_eq!(ask(&nobody, "view?cluster=prox").await, known);
}

/// When the event first happened, in seconds.
const FIRST: i64 = 1_600_000_000;

/// An event with many versions, one a second; each raises the count by three.
struct Repeating {
    /// The versions, oldest first.
    versions: Vec<Bytes>,
    /// How many of the versions cannot be read; these are the oldest ones.
    unreadable: usize,
}

impl Repeating {
    /// The versions of an event in its stored form.
    fn of(stored: &Bytes, number: i32, unreadable: usize) -> Self {
        let event = decode_stored(stored, 1).unwrap();
        let versions = (0..number).map(|second| {
            let mut event = event.clone();
            event.count = Some(3 * second + 1);
            event.last_timestamp = Some(Time {
                seconds: Some(FIRST + i64::from(second)),
                nanos: None,
            });
            encode_stored(&mut event)
        });
        Self {
            versions: versions.collect(),
            unreadable,
        }
    }
}

impl History for Repeating {
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
        if older <= self.unreadable {
            return Box::pin(ready(Err(ReadError::from(Fault::Closed))));
        }
        // Pretends that more versions would exceed a megabyte.
        let limit = limit.min(600);
        let versions = self.versions[..older].iter().rev().take(limit);
        let versions: Vec<_> = versions
            .map(|value| Version {
                uid: "uid".into(),
                epoch: 0,
                number: 1,
                event: value.clone(),
                observed_at: UnixMillis(0),
            })
            .collect();
        let left = (older - versions.len()) as u64;
        let page = Versions {
            versions,
            more: (left > 0).then_some(left),
            ended: None,
        };
        Box::pin(ready(Ok(Some(page))))
    }

    fn coverage(&self, _: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        Box::pin(ready(Ok(Coverage::default())))
    }

    fn following(&self) -> Following {
        Following::new("watching")
    }
}

#[tokio::test]
async fn how_often_an_event_repeated_is_told_by_all_of_its_versions() {
    // After the first page 700 versions are left, and 100 after the second.
    for (number, unreadable, told) in [
        (500, 0, None),
        (1200, 0, Some((1200, 0, 3 * 1199 + 1, false))),
        (1200, 100, Some((1100, 3 * 100 + 1, 3 * 1099, true))),
    ] {
        let mut prod = cluster("prod", &["a.1"]).await;
        let stored = prod.store.get(Bytes::from_static(b"shop/a.1")).await;
        let stored = stored.unwrap().unwrap().value;
        prod.history = Arc::new(Repeating::of(&stored, number, unreadable));
        let archive = Archive::start(vec![prod]).await;
        let admin = archive.to_root(&token("t-admin")).await;
        let event = admin
            .get("/timeline/api/event?cluster=prod&namespace=shop&name=a.1")
            .await
            .body;
        archive.running.shutdown().await;
        assert_eq!(event["versions"].as_array().unwrap().len(), 500);
        assert_eq!(event["versionsMore"], json!(told.is_some()));
        let repeats = &event["repeats"];
        let Some((versions, begun, sum, more)) = told else {
            assert_eq!(repeats, &Value::Null);
            continue;
        };
        let read = json!([repeats["versions"], repeats["begun"], repeats["more"]]);
        assert_eq!(read, json!([versions, begun, more]));
        let bins = repeats["bins"].as_array().unwrap().iter();
        let bins: Vec<u64> = bins.map(|bin| bin.as_u64().unwrap()).collect();
        assert_eq!((bins.len(), bins.iter().sum::<u64>()), (200, sum));
        let from = 1000 * (FIRST + i64::from(number - versions));
        let to = 1000 * (FIRST + i64::from(number) - 1) + 1;
        assert_eq!(repeats["from"], json!(from));
        assert_eq!(repeats["to"], json!(to));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_cluster_is_told_to_those_who_see_all_of_it() {
    let clusters = vec![
        cluster("prod", &["a.1"]).await,
        cluster_with("edge", &["b.1"], Some("it answers 403")).await,
    ];
    let archive = Archive::start(clusters).await;
    let prod = json!({"cluster": "prod", "live": true, "state": "watching"});
    let edge = json!({"cluster": "edge", "live": false, "state": "watching"});
    let mut why = edge.clone();
    why["why"] = "it answers 403".into();
    let kept = json!({"events": 2, "versions": 0, "bytes": 0, "since": null});
    let with_kept = |following: &Value| {
        let mut following = following.clone();
        following["kept"] = kept.clone();
        following
    };
    for (who, query, expected) in [
        ("t-admin", "", json!([with_kept(&prod), with_kept(&why)])),
        ("t-admin", "&cluster=prod", json!([with_kept(&prod)])),
        ("t-ann", "", json!([prod, edge])),
        ("t-ann", "&cluster=edge", json!([edge])),
    ] {
        let caller = archive.to_root(&token(who)).await;
        let path = format!("/timeline/api/view?from=0{query}");
        let view = caller.get(&path).await.body;
        assert_eq!(view["following"], expected, "{who} {query}");
    }
    for (who, expected) in [("t-admin", &kept), ("t-ann", &Value::Null)] {
        let caller = archive.to_root(&token(who)).await;
        let overview = caller.get("/timeline/api/overview").await.body;
        assert_eq!(&overview["clusters"][0]["kept"], expected, "{who}");
    }
}

/// Sends one request on its own connection, unchanged. Returns the whole answer.
async fn raw(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{head}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_live_stream_ends_when_its_user_may_see_something_else() {
    let clusters = vec![cluster("prod", &["a.1"]).await];
    let archive = Archive::start_with(clusters, |options| {
        options.api.timeline.recheck = Duration::from_millis(20);
    });
    let archive = archive.await.unwrap();
    let ann = archive.to_root(&token("t-ann")).await;
    let mut live = pin!(ann.get("/timeline/api/live"));
    tokio::select! {
        answer = &mut live => panic!("it ended by itself: {}", answer.body),
        () = async {
            let other = archive.to_root(&token("t-ann")).await;
            for _ in 0..50 {
                assert_eq!(ask(&other, "overview?").await.0, 200);
            }
        } => {}
    }
    let edge = cluster("edge", &["b.1"]).await;
    archive.running.add(edge).await.unwrap();
    let answer = timeout(PATIENCE, live).await.unwrap();
    assert_eq!(answer.code, 200);
    assert!(answer.body.as_str().unwrap().starts_with(": live"));
}

#[tokio::test]
async fn a_link_lets_in_one_browser_and_no_other_host() {
    let clusters = vec![cluster("prod", &["a.1"]).await];
    let running = start_timeline(0, clusters, ApiOptions::default()).await;
    let running = running.unwrap();
    assert!(!format!("{running:?}").contains("code"));
    let address = running.address();
    assert!(address.ip().is_loopback());
    let link = running.link();
    let path = link.strip_prefix(&format!("http://{address}")).unwrap();
    let host = format!("host: {address}");
    let code = |answer: &str| answer.get(9..12).unwrap_or_default().to_owned();
    let ask = async |head: String| code(&raw(address, &head).await);
    // A HEAD request does not use up the link, nor does a request with another host name.
    assert_eq!(ask(format!("HEAD {path} HTTP/1.1\r\n{host}")).await, "405");
    let port = address.port();
    for other in [
        "evil.example",
        &format!("evil.example:{port}"),
        "127.0.0.1",
        "",
    ] {
        let rebound = format!("GET {path} HTTP/1.1\r\nhost: {other}");
        assert_eq!(ask(rebound).await, "421", "{other}");
    }
    let answer = raw(address, &format!("GET {path} HTTP/1.1\r\n{host}")).await;
    assert_eq!(code(&answer), "303", "{answer}");
    assert!(answer.contains("location: /timeline\r\n"), "{answer}");
    // The browser keeps the cookie for longer than a night.
    assert!(answer.contains("; Max-Age=34560000; "), "{answer}");
    let (_, cookie) = answer.split_once("set-cookie: ").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    assert_eq!(ask(format!("GET {path} HTTP/1.1\r\n{host}")).await, "403");
    let overview = "GET /timeline/api/overview HTTP/1.1";
    for (headers, expected) in [
        (format!("{host}\r\ncookie: {cookie}"), "200"),
        (host.clone(), "401"),
        (
            format!("{host}\r\nauthorization: Bearer x\r\ncookie: {cookie}"),
            "200",
        ),
        (format!("{host}\r\nauthorization: Bearer x"), "401"),
        (
            format!("host: evil.example:{port}\r\ncookie: {cookie}"),
            "421",
        ),
        // The cookie is valid only for its host.
        (format!("host: localhost:{port}\r\ncookie: {cookie}"), "401"),
        (
            format!("{host}\r\nsec-fetch-site: same-site\r\ncookie: {cookie}"),
            "403",
        ),
    ] {
        let head = format!("{overview}\r\n{headers}");
        assert_eq!(ask(head).await, expected, "{headers}");
    }
    let head = format!("{overview}\r\n{host}\r\ncookie: {cookie}");
    let answer = raw(address, &head).await;
    assert!(answer.contains(r#""login":"code""#), "{answer}");
    // Only the timeline is served, and no login by token.
    for path in [
        "/api/v1/events",
        "/clusters/prod/api/v1/events",
        "/metrics",
        "/healthz",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\n{host}\r\ncookie: {cookie}");
        assert_eq!(ask(head).await, "404", "{path}");
    }
    let login = format!(
        "POST /timeline/login HTTP/1.1\r\n{host}\r\norigin: http://{address}\r\ncontent-length: 0"
    );
    assert_eq!(ask(login).await, "401");
    running.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// The tokens that a cluster received.
pub(crate) type Shown = Arc<Mutex<Vec<String>>>;

/// A cluster that knows one token, whose user has all permissions there, and that records the
/// tokens it receives.
#[derive(Debug)]
struct Knowing {
    token: &'static str,
    shown: Shown,
}

impl Reviewer for Knowing {
    fn is_verified(&self) -> bool {
        true
    }

    fn review<'a>(
        &'a self,
        _: &'static str,
        mut body: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        Box::pin(async move {
            body["status"] = match body["spec"]["token"].as_str() {
                Some(token) => {
                    self.shown.lock().unwrap().push(token.to_owned());
                    let user = json!({"username": "eve", "groups": ["system:authenticated"]});
                    json!({"authenticated": token == self.token, "user": user})
                }
                None => json!({"allowed": true}),
            };
            Ok(body)
        })
    }
}

/// Two clusters that know one token each, and the tokens that they received.
pub(crate) async fn knowing() -> (Vec<FollowedCluster>, Vec<Shown>) {
    let mut clusters = Vec::new();
    let mut shown = Vec::new();
    for (name, event, token) in [("prod", "a.1", "t-of-prod"), ("edge", "b.1", "t-of-edge")] {
        let mut followed = cluster(name, &[event]).await;
        let seen = Shown::default();
        shown.push(Arc::clone(&seen));
        followed.access = Some(Arc::new(Knowing { token, shown: seen }));
        clusters.push(followed);
    }
    (clusters, shown)
}

#[tokio::test]
async fn a_token_is_shown_to_one_cluster_and_shows_that_one_alone() {
    let (clusters, shown) = knowing().await;
    let archive = Archive::start(clusters).await;
    let nobody = archive.to_root(&Credentials::Nothing).await;
    let host = archive.running.address().to_string();
    let origin = format!("https://{host}");
    let login = async |body: Value| {
        let headers = [("origin", origin.as_str())];
        let path = "/timeline/login";
        let answer = nobody.try_send(Method::POST, path, &headers, &body).await;
        answer.unwrap().code
    };
    assert_eq!(login(json!({"token": "t-of-prod"})).await, 401);
    assert_eq!(
        login(json!({"token": "t-of-prod", "cluster": "edge"})).await,
        401
    );
    assert_eq!(
        login(json!({"token": "t-of-prod", "cluster": "none"})).await,
        401
    );
    assert_eq!(
        login(json!({"token": "t-of-prod", "cluster": "prod"})).await,
        204
    );
    // The archive's own users are users of each cluster that is there.
    for (cluster, expected) in [("", 204), ("edge", 204), ("none", 401)] {
        let body = json!({"token": "t-ann", "cluster": cluster});
        assert_eq!(login(body).await, expected, "{cluster}");
    }
    // A login that would show nothing is refused.
    assert_eq!(login(json!({"token": "t-updater"})).await, 403);
    assert_eq!(*shown[1].lock().unwrap(), ["t-of-prod"]);
    let eve = archive.to_root(&token("t-of-prod")).await;
    assert_eq!(ask(&eve, "overview?").await.0, 401);
    let (code, text) = ask(&eve, "events?from=0&cluster=prod").await;
    assert!(code == 200 && text.contains("a.1"), "{text}");
    // A user of prod is not the user of the same name of edge.
    for path in [
        "events?from=0&cluster=prod&cluster=edge",
        "events?from=0&cluster=edge",
    ] {
        assert_eq!(ask(&eve, path).await.0, 401, "{path}");
    }
    // The archive's own users are users of all clusters.
    let (code, text) = ask(&archive.to_root(&token("t-ann")).await, "events?from=0").await;
    assert!(
        code == 200 && text.contains("a.1") && text.contains("b.1"),
        "{text}"
    );
}

/// The session is one of a cluster's user: only that cluster can be asked again.
#[tokio::test]
async fn a_live_stream_of_a_session_goes_on_while_its_user_sees_the_same() {
    let (clusters, _) = knowing().await;
    let archive = Archive::start_with(clusters, |options| {
        options.api.timeline.recheck = Duration::from_millis(20);
    });
    let archive = archive.await.unwrap();
    let browser = archive.to_root(&Credentials::Nothing).await;
    let origin = format!("https://{}", archive.running.address());
    let login = json!({"token": "t-of-prod", "cluster": "prod"}).to_string();
    let login = http::Request::post("/timeline/login")
        .header("origin", origin)
        .header("content-type", "application/json")
        .body(login.into_bytes().into())
        .unwrap();
    let answer = browser.client().send(login).await.unwrap();
    assert_eq!(answer.status(), 204);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    let (headers, nothing) = ([("cookie", cookie)], Value::Null);
    let live = browser.try_send(Method::GET, "/timeline/api/live", &headers, &nothing);
    let mut live = pin!(live);
    // The stream's checks of its user all succeed, as do the login, the stream, and each of these
    // requests.
    let admin = archive.to_root(&token("t-admin")).await;
    let looked_at = async {
        for own in 1.. {
            let metrics = admin.get("/metrics").await.body;
            let name = "authentication_attempts{result=\"success\"} ";
            let mut lines = metrics.as_str().unwrap().lines();
            let found = lines.find_map(|line| line.strip_prefix(name));
            let found: u64 = found.unwrap().parse().unwrap();
            if found > own + 4 {
                return;
            }
        }
    };
    tokio::select! {
        answer = &mut live => panic!("it ended by itself: {}", answer.unwrap().body),
        looked_at = timeout(PATIENCE, looked_at) => looked_at.unwrap(),
    }
}

/// A cluster that never answers.
#[derive(Debug)]
struct Silent;

impl Reviewer for Silent {
    fn is_verified(&self) -> bool {
        true
    }

    fn review<'a>(
        &'a self,
        _: &'static str,
        _: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn who_asks_is_found_out_within_the_time_of_a_request() {
    let mut followed = cluster("prod", &["a.1"]).await;
    followed.access = Some(Arc::new(Silent));
    let archive = Archive::start_with(vec![followed], |options| {
        options.api.request_timeout = Duration::from_secs(1);
    });
    let archive = archive.await.unwrap();
    let unknown = archive.to_root(&token("t-of-prod")).await;
    assert_eq!(ask(&unknown, "overview?").await.0, 504);
}

/// The home cluster while it cannot be reached.
#[derive(Debug)]
struct Away;

impl Reviewer for Away {
    fn is_verified(&self) -> bool {
        true
    }

    fn review<'a>(
        &'a self,
        _: &'static str,
        _: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        let why = "connection refused".to_owned();
        Box::pin(std::future::ready(Err(ReviewError::Unreachable { why })))
    }
}

#[tokio::test]
async fn a_cluster_that_cannot_be_asked_hides_no_other_cluster() {
    let clusters = vec![
        cluster("prod", &["a.1"]).await,
        cluster("edge", &["b.1"]).await,
    ];
    let archive = Archive::start_with(clusters, |options| {
        options.aggregated = Some(AggregatedOptions::new("prod"));
        options.security.authorization_cluster = Some(Arc::new(Away));
    });
    let archive = archive.await.unwrap();
    let nobody = archive.to_root(&Credentials::Nothing).await;
    let origin = format!("https://{}", archive.running.address());
    let login = async |token: &str| {
        let headers = [("origin", origin.as_str())];
        let body = json!({"token": token});
        let answer = nobody.try_send(Method::POST, "/timeline/login", &headers, &body);
        answer.await.unwrap()
    };
    // Bindings of the archive grant the namespace `other`; prod might grant more.
    assert_eq!(login("t-stranger").await.code, 204);
    let stranger = archive.to_root(&token("t-stranger")).await;
    let (code, text) = ask(&stranger, "overview?").await;
    assert_eq!(code, 200, "{text}");
    let overview: Value = serde_json::from_str(&text).unwrap();
    let names = overview["clusters"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|it| (&it["name"], &it["namespaces"])).collect();
    let other = json!(["other"]);
    assert_eq!(names, [(&json!("prod"), &other), (&json!("edge"), &other)]);
    // Answers say of which cluster something may be left out, and a file leaves nothing out.
    for answer in ["view?", "coverage?"] {
        let (code, text) = ask(&stranger, answer).await;
        let found: Value = serde_json::from_str(&text).unwrap();
        let unasked = json!({"clusters": ["prod"], "others": 0});
        assert_eq!((code, &found["unasked"]), (200, &unasked));
    }
    let (code, text) = ask(&stranger, "export?").await;
    assert!(code == 503 && text.contains("checked (prod)"), "{text}");
    assert_eq!(ask(&stranger, "export?filter=cluster:edge").await.0, 200);
    // Nothing is granted to this user here, so that only prod could show something. The user is
    // not told that it is there.
    let refused = login("t-updater").await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("could not be checked (1 cluster)"),
        "{message}"
    );
    assert_eq!(refused.code, 503);
}

/// The event's own text about its namespace is untrusted.
#[tokio::test]
async fn the_key_of_an_event_decides_what_is_shown_beside_it() {
    let followed = cluster("prod", &["web.1", "web.2"]).await;
    let store = Arc::clone(&followed.store);
    let web = store.get("shop/web.1".into()).await.unwrap().unwrap();
    let mut forged = decode_stored(&web.value, 0).unwrap();
    let metadata = forged.metadata.as_ref().unwrap();
    let created = metadata.creation_timestamp.as_ref().unwrap().seconds;
    forged.reason = Some("Killing".into());
    forged.first_timestamp = Some(Time {
        seconds: created.map(|seconds| seconds + 60),
        nanos: None,
    });
    forged.last_timestamp.clone_from(&forged.first_timestamp);
    let forged = NewRecord::new(encode_stored(&mut forged));
    let created = store.create("other/forged.1".into(), forged);
    created.await.unwrap();
    let archive = Archive::start(vec![followed]).await;
    let stranger = archive.to_root(&token("t-stranger")).await;
    let (code, text) = ask(&stranger, "event?namespace=other&name=forged.1").await;
    assert!(code == 200 && !text.contains("web.2"), "{text}");
    archive.running.shutdown().await;
}
