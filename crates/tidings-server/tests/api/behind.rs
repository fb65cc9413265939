//! A store that learns only from its reads what other servers have written, as one on a shared etcd
//! does.

use std::sync::Arc;

use tidings_server::ApiOptions;
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;

use crate::backend;
use crate::remote::Remote;
use crate::support::{START, Server};

const SHOP: &str = "/api/v1/namespaces/shop/events";

/// A client may ask any server for what another one has told it.
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
