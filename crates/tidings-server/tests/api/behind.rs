//! A store that learns of other servers' writes only from its reads, as on a shared etcd; and
//! resourceVersions of another store.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_server::ApiOptions;
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;

use crate::backend;
use crate::remote::Remote;
use crate::support::{START, Server};

const SHOP: &str = "/api/v1/namespaces/shop/events";

/// A client may send any server a resourceVersion that another one has returned.
#[tokio::test]
async fn a_version_that_another_server_has_told_is_not_of_the_future() {
    let clock = ManualClock::at(UnixMillis(START));
    let store = backend::store(&clock);
    let behind = || {
        let behind = Remote::behind(Arc::clone(&store), 1);
        Server::over(Arc::new(behind), clock.clone(), ApiOptions::default())
    };
    let other = Server::over(Arc::clone(&store), clock.clone(), ApiOptions::default());
    let created = other.create("shop", "a").await;
    assert_eq!(created["metadata"]["resourceVersion"], "2");
    for uri in [
        format!("{SHOP}/a?resourceVersion=2"),
        format!("{SHOP}?resourceVersion=2"),
        format!("{SHOP}?resourceVersion=2&resourceVersionMatch=Exact"),
    ] {
        behind().get(&uri).await.expect(200);
        let later = uri.replace("=2", "=99");
        let status = behind().get(&later).await.expect(504);
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("99, current: 2"), "{message}");
    }
    let start = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = behind()
        .watch(&format!("{SHOP}?{start}&resourceVersion=2"))
        .await;
    assert_eq!(watch.line().await, "ADDED a@2");
}

/// The client must begin with a list, and must not wait.
#[tokio::test]
async fn a_version_that_another_store_has_told_is_gone() {
    let clock = ManualClock::at(UnixMillis(START));
    let apart = Remote::apart(backend::store(&clock), 50);
    let server = Server::over(Arc::new(apart), clock, ApiOptions::default());
    server.create("shop", "a").await;
    for uri in [
        format!("{SHOP}/a?resourceVersion=99"),
        format!("{SHOP}?resourceVersion=99"),
        format!("{SHOP}?resourceVersion=99&resourceVersionMatch=NotOlderThan"),
        format!("{SHOP}?resourceVersion=99&resourceVersionMatch=Exact"),
        format!("{SHOP}?resourceVersion=99&limit=1"),
    ] {
        let status = server.get(&uri).await.expect(410);
        assert_eq!(status["reason"], "Expired", "{uri}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("of another store"), "{message}");
        // A revision that this store has not reached.
        server.get(&uri.replace("=99", "=49")).await.expect(504);
    }
    let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for query in ["", initial] {
        let uri = format!("{SHOP}?watch=true&resourceVersion=99{query}");
        let error = server.watch(&uri).await.next().await.unwrap();
        let status = &error["object"];
        assert_eq!(
            (&error["type"], &status["code"], &status["reason"]),
            (&json!("ERROR"), &json!(410), &json!("Expired"))
        );
        assert_eq!(status["details"]["retryAfterSeconds"], Value::Null);
    }
}
