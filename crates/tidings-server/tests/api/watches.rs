//! Watches.

use std::time::Duration;

use serde_json::json;
use tidings_server::ApiOptions;

use crate::backend;
use crate::support::{Server, event, timer};

const SHOP: &str = "/api/v1/namespaces/shop/events";

#[tokio::test]
async fn changes_come_in_order() {
    let server = Server::new();
    server.create("shop", "a").await;
    let mut watch = server
        .watch(&format!("{SHOP}?watch=true&resourceVersion=2"))
        .await;
    server.create("shop", "b").await;
    server.create("bank", "b").await;
    server
        .patch("merge", &format!("{SHOP}/a"), &json!({"count": 8}))
        .await
        .expect(200);
    server.delete(&format!("{SHOP}/a")).await.expect(200);
    for expected in ["ADDED b@3", "MODIFIED a@5", "DELETED a@6"] {
        assert_eq!(watch.line().await, expected);
    }
    server.clock.advance(3_600_001);
    server.store.expire().await.unwrap();
    assert_eq!(watch.line().await, "DELETED b@7");
}

#[tokio::test]
async fn from_the_beginning() {
    let server = Server::new();
    for name in ["b", "a"] {
        server.create("shop", name).await;
    }
    for query in [
        "watch=true",
        "watch=1&resourceVersion=0&limit=1",
        "watch=true&resourceVersion=",
    ] {
        let mut watch = server.watch(&format!("/api/v1/events?{query}")).await;
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["kind"]),
            (&json!("ADDED"), &json!("Event"))
        );
        assert_eq!(watch.line().await, "ADDED b@2", "{query}");
    }
    let mut watch = server.watch("/api/v1/watch/namespaces/shop/events/b").await;
    assert_eq!(watch.line().await, "ADDED b@2");
    let mut watch = server
        .watch(
            "/api/v1/events?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
        )
        .await;
    server.create("shop", "c").await;
    assert_eq!(watch.line().await, "ADDED c@4");
}

#[tokio::test]
async fn a_watch_list_says_where_the_list_ends() {
    let server = Server::new();
    server.create("shop", "a").await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = server
        .watch(&format!("{SHOP}?{query}&resourceVersion=2"))
        .await;
    assert_eq!(watch.line().await, "ADDED a@2");
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let object = &bookmark["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("Event"), &json!("v1"))
    );
    assert_eq!(
        object["metadata"],
        json!({"resourceVersion": "2", "annotations": {"k8s.io/initial-events-end": "true"}})
    );
    server.create("shop", "b").await;
    assert_eq!(watch.line().await, "ADDED b@3");
}

#[tokio::test]
async fn selectors_decide_what_a_change_is() {
    let server = Server::new();
    server.create("shop", "before").await;
    let mut watch = server
        .watch(&format!(
            "{SHOP}?watch=true&labelSelector=tier=x&resourceVersion=2"
        ))
        .await;
    let label = async |name: &str, value: &str| {
        let labels = json!({"metadata": {"labels": {"tier": value}}});
        server
            .patch("merge", &format!("{SHOP}/{name}"), &labels)
            .await
            .expect(200)
    };
    server.create("shop", "a").await;
    server.create("shop", "b").await;
    label("a", "x").await;
    server
        .patch("merge", &format!("{SHOP}/a"), &json!({"count": 8}))
        .await
        .expect(200);
    label("b", "y").await;
    label("a", "y").await;
    server.delete(&format!("{SHOP}/a")).await.expect(200);
    label("b", "x").await;
    assert_eq!(watch.line().await, "ADDED a@5");
    assert_eq!(watch.line().await, "MODIFIED a@6");
    let left = watch.next().await.unwrap();
    assert_eq!(
        (
            &left["type"],
            &left["object"]["metadata"]["resourceVersion"]
        ),
        (&json!("DELETED"), &json!("8"))
    );
    // An event that leaves the selection is shown in its last selected state.
    assert_eq!(left["object"]["metadata"]["labels"]["tier"], "x");
    assert_eq!(watch.line().await, "ADDED b@10");
}

#[tokio::test]
async fn too_old_is_said_in_the_stream() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.create("shop", name).await;
    }
    server.store.compact(4).await.unwrap();
    let mut watch = server
        .watch(&format!("{SHOP}?watch=true&resourceVersion=2"))
        .await;
    let error = watch.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(
        error["object"],
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
            "message": "The resourceVersion for the provided watch is too old.",
        })
    );
    assert_eq!(watch.next().await, None);
    let mut watch = server
        .watch(&format!("{SHOP}?watch=true&resourceVersion=99"))
        .await;
    assert_eq!(watch.next().await.unwrap()["object"]["reason"], "Timeout");
}

#[tokio::test(start_paused = true)]
async fn quiet_watchers_get_bookmarks_and_then_an_end() {
    if !backend::time_may_stop() {
        return;
    }
    let server = Server::new();
    let mut watch = server
        .watch(&format!(
            "{SHOP}?watch=true&allowWatchBookmarks=true&resourceVersion=0&timeoutSeconds=130"
        ))
        .await;
    assert_eq!(watch.line().await, "BOOKMARK @1");
    server.create("bank", "elsewhere").await;
    assert_eq!(watch.line().await, "BOOKMARK @2");
    assert_eq!(watch.line().await, "BOOKMARK @2");
    assert_eq!(watch.line().await, "END");
}

/// A watch without a timeout lasts between half an hour and an hour, as in kube-apiserver.
#[tokio::test(start_paused = true)]
async fn a_watch_has_a_lifetime_by_default() {
    if !backend::time_may_stop() {
        return;
    }
    let defaults = ApiOptions::default();
    let mut shorter = ApiOptions::default();
    shorter.min_request_timeout = Duration::from_secs(100);
    for (options, least) in [(defaults, 1800), (shorter, 100)] {
        let server = Server::with(options);
        let begun = timer();
        let mut watch = server
            .watch(&format!("{SHOP}?watch=true&allowWatchBookmarks=true"))
            .await;
        // The last line is complete: a truncated answer would be an error.
        while watch.next().await.is_some() {}
        let lasted = begun.elapsed().as_secs();
        assert!((least..=2 * least).contains(&lasted), "{lasted} s");
    }
}

#[tokio::test]
async fn a_stopping_server_ends_watches() {
    let server = Server::new();
    server.create("shop", "a").await;
    let mut watch = server.watch(&format!("{SHOP}?watch=true")).await;
    assert_eq!(watch.line().await, "ADDED a@2");
    server.api.stop();
    assert_eq!(watch.line().await, "END");
    assert_eq!(server.get("/readyz").await.code, 500);
    assert_eq!(server.get("/livez").await.code, 200);
}

#[tokio::test]
async fn tables_name_their_columns_once() {
    let server = Server::new();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let mut watch = server.watch_as(&format!("{SHOP}?watch=true"), accept).await;
    server.create("shop", "a").await;
    server.create("shop", "b").await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(
        first["object"]["columnDefinitions"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
    assert_eq!(first["object"]["rows"][0]["cells"][9], "a");
    let second = watch.next().await.unwrap();
    assert_eq!(second["object"]["columnDefinitions"], json!(null));
    assert_eq!(
        second["object"]["rows"][0]["object"]["metadata"]["name"],
        "b"
    );
}

#[tokio::test]
async fn watches_do_not_count_as_requests_in_flight() {
    let mut options = ApiOptions::default();
    options.max_requests_inflight = 1;
    let server = Server::with(options);
    server.create("shop", "a").await;
    let mut watch = server.watch(&format!("{SHOP}?watch=true")).await;
    assert_eq!(watch.line().await, "ADDED a@2");
    server.get(SHOP).await.expect(200);
    server.post(SHOP, &event("shop", "b")).await.expect(201);
    assert_eq!(watch.line().await, "ADDED b@3");
}
