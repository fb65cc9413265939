//! The heart of the API over a real etcd, which the test starts. Without one on the PATH (or in `ETCD`) it says so and passes.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_server::{ApiOptions, describe};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tidings_store::etcd::{EtcdOptions, EtcdStore};

#[path = "../../../tidings-store/tests/support/etcd.rs"]
mod process;

use self::process::Cluster;
use crate::support::{START, Server, event};

const SHOP: &str = "/api/v1/namespaces/shop/events";
const WEB: &str = "/api/v1/namespaces/shop/events/web.1";

/// A server with a prefix of its own.
async fn server(cluster: &Cluster, name: &str, request_timeout: Duration) -> Server {
    let clock = ManualClock::at(UnixMillis(START));
    let mut options = EtcdOptions::new(cluster.endpoints());
    options.prefix = format!("/{name}/events/");
    options.request_timeout = request_timeout;
    let store = EtcdStore::open(options, Arc::new(clock.clone()), Arc::new(describe))
        .await
        .unwrap();
    Server::over(Arc::new(store), clock, ApiOptions::default())
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .into()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_the_same_on_etcd() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let patience = Duration::from_secs(30);
    writes(&server(&cluster, "writes", patience).await).await;
    lists(&server(&cluster, "lists", patience).await).await;
    watches(&server(&cluster, "watches", patience).await).await;
    ends(&server(&cluster, "ends", patience).await).await;
    let impatient = server(&cluster, "failures", Duration::from_secs(1)).await;
    failures(&impatient, &mut cluster).await;
}

async fn writes(server: &Server) {
    let created = server.create("shop", "web.1").await;
    assert_eq!(server.get(WEB).await.expect(200), created);
    let again = server.post(SHOP, &event("shop", "web.1")).await.expect(409);
    assert_eq!(again["reason"], "AlreadyExists");

    let patched = server
        .patch("strategic-merge", WEB, &json!({"count": 8}))
        .await
        .expect(200);
    assert_eq!(patched["count"], 8);
    assert_ne!(version(&patched), version(&created));
    // What changes nothing is no write.
    let same = server.patch("merge", WEB, &json!({"count": 8})).await;
    assert_eq!(version(&same.expect(200)), version(&patched));
    let stale = server.put(WEB, &created).await.expect(409);
    assert_eq!(stale["reason"], "Conflict");
    let mut current = patched.clone();
    current["message"] = "replaced".into();
    assert_eq!(
        server.put(WEB, &current).await.expect(200)["message"],
        "replaced"
    );

    let other = "/apis/events.k8s.io/v1/namespaces/shop/events/web.1";
    let seen = server.get(other).await.expect(200);
    assert_eq!(
        (&seen["note"], &seen["deprecatedCount"]),
        (&json!("replaced"), &json!(8))
    );

    server
        .delete(&format!("{WEB}?dryRun=All"))
        .await
        .expect(200);
    server.delete(WEB).await.expect(200);
    server.delete(WEB).await.expect(404);
    server.put(WEB, &event("shop", "web.1")).await.expect(201);
}

async fn lists(server: &Server) {
    for number in 0..7 {
        server.create("shop", &format!("e{number}")).await;
    }
    let mut other = event("shop", "other");
    other["involvedObject"]["uid"] = "u-node".into();
    server.post(SHOP, &other).await.expect(201);
    let selected = "/api/v1/events?fieldSelector=involvedObject.uid=u-node";
    assert_eq!(names(&server.get(selected).await.expect(200)), ["other"]);
    server.delete(&format!("{SHOP}/other")).await.expect(200);

    let first = server.get("/api/v1/events?limit=3").await.expect(200);
    assert_eq!(names(&first), ["e0", "e1", "e2"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    server.delete(&format!("{SHOP}/e4")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let next = format!("/api/v1/events?limit=3&continue={token}");
    let second = server.get(&next).await.expect(200);
    assert_eq!(names(&second), ["e3", "e4", "e5"]);
    assert_eq!(version(&second), version(&first));

    server.store.compact(server.store.revision()).await.unwrap();
    let gone = server.get(&next).await.expect(410);
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let resumed = server
        .get(&format!("/api/v1/events?limit=3&continue={token}"))
        .await;
    assert_eq!(names(&resumed.expect(200)), ["e3", "e5", "e6"]);

    let answer = server.delete(SHOP).await.expect(200);
    assert_eq!(names(&answer).len(), 6);
    assert_eq!(names(&server.get(SHOP).await.expect(200)), [""; 0]);
}

async fn watches(server: &Server) {
    let start = version(&server.get(SHOP).await.expect(200));
    let mut watch = server
        .watch(&format!("{SHOP}?watch=true&resourceVersion={start}"))
        .await;
    let created = server.create("shop", "web.1").await;
    server.create("bank", "web.1").await;
    let patched = server
        .patch("merge", WEB, &json!({"count": 9}))
        .await
        .expect(200);
    server.delete(WEB).await.expect(200);
    assert_eq!(
        watch.line().await,
        format!("ADDED web.1@{}", version(&created))
    );
    assert_eq!(
        watch.line().await,
        format!("MODIFIED web.1@{}", version(&patched))
    );
    let deleted = watch.next().await.unwrap();
    assert_eq!(
        (&deleted["type"], &deleted["object"]["count"]),
        (&json!("DELETED"), &json!(9))
    );
    // The version of a deleted event is that of its deletion.
    assert_ne!(version(&deleted["object"]), version(&patched));
}

async fn ends(server: &Server) {
    server.create("shop", "web.1").await;
    server.clock.advance(3_599_999);
    server.get(WEB).await.expect(200);
    server.clock.advance(1);
    server.get(WEB).await.expect(404);
    assert_eq!(names(&server.get(SHOP).await.expect(200)), [""; 0]);
    server.create("shop", "web.1").await;
}

/// An etcd that takes a write and does not answer leaves its outcome open; one that is gone has not done it.
async fn failures(server: &Server, cluster: &mut Cluster) {
    server.create("shop", "web.1").await;
    let pid = cluster.members[0].process.as_ref().unwrap().id();
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(status.unwrap().success());
    };
    signal("-STOP");
    let answer = server.post(SHOP, &event("shop", "web.2")).await;
    signal("-CONT");
    let status = answer.expect(504);
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(answer.header("retry-after"), "");

    cluster.members[0].kill();
    // The first may have been on its way when the connection broke.
    let first = server.post(SHOP, &event("shop", "web.3")).await;
    assert!(matches!(first.code.as_u16(), 500 | 504), "{}", first.text());
    let status = server.post(SHOP, &event("shop", "web.4")).await.expect(500);
    assert_eq!(status["status"], "Failure");
}
