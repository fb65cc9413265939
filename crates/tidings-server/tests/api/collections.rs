//! Deletion of collections: the deleted events, the answer, and the audit log.

use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidings_store::{ListRequest, NewRecord};

use crate::slow::logged;
use crate::support::{Server, events, request};

const SHOP: &str = "/api/v1/namespaces/shop/events";

#[tokio::test]
async fn a_large_collection_is_deleted_with_what_others_delete_and_hold() {
    let server = Server::new();
    let names: Vec<String> = (0..300).map(|n| format!("e{n:03}")).collect();
    for name in &names {
        server.create("shop", name).await;
    }
    let held = json!({"metadata": {"finalizers": ["example.com/archive"]}});
    server
        .patch("merge", &format!("{SHOP}/e007"), &held)
        .await
        .expect(200);
    let others = names.iter().step_by(7).map(|name| {
        let server = &server;
        async move { server.delete(&format!("{SHOP}/{name}")).await }
    });
    let (deleted, _) =
        futures::future::join(server.delete(SHOP), futures::future::join_all(others)).await;
    assert_eq!(deleted.expect(200)["kind"], "EventList");
    let left = server.get(SHOP).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "e007");
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.create("shop", name).await;
    }
    server.create("bank", "a").await;
    let deleted = server
        .delete(&format!("{SHOP}?fieldSelector=metadata.name!=b"))
        .await
        .expect(200);
    assert_eq!(deleted["kind"], "EventList");
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    let left = server.get("/api/v1/events").await.expect(200);
    let left: Vec<&str> = left["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(left, ["a", "b"]);
}

#[tokio::test]
async fn a_collection_is_deleted_only_where_the_preconditions_hold() {
    let server = Server::new();
    server.create("shop", "a").await;
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "99"})] {
        let options = json!({"preconditions": preconditions}).to_string();
        server
            .call(Method::DELETE, &events("shop"), &[], options)
            .await
            .expect(409);
    }
    server
        .get(&format!("{}/a", events("shop")))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_collection_of_several_pages_is_deleted_and_told_whole() {
    let server = Server::new();
    let mut made = Vec::new();
    for number in 0..620 {
        let name = format!("e{number:03}");
        server.create("shop", &name).await;
        made.push(name);
    }
    let told = server.delete(&events("shop")).await.expect(200);
    let told: Vec<_> = told["items"].as_array().unwrap().iter().collect();
    let names: Vec<_> = told
        .iter()
        .map(|event| event["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, made);
    let left = server.get(&events("shop")).await.expect(200);
    assert_eq!(left["items"], json!([]));
}

/// The first page is deleted before the answer begins, the second one after that.
#[tokio::test]
async fn a_collection_that_cannot_be_deleted_whole_says_so_while_it_can_and_is_cut_off_then() {
    // Columns: the unreadable event, the status of the answer, and the minimum and maximum of
    // remaining events.
    for (damaged, begins, left) in [("e003", 500, 10..=510), ("e505", 200, 1..=10)] {
        let server = Server::new();
        for number in 0..510 {
            server.create("shop", &format!("e{number:03}")).await;
        }
        let key = format!("shop/{damaged}");
        let revision = server
            .store
            .get(key.clone().into())
            .await
            .unwrap()
            .unwrap()
            .revision;
        let damage = NewRecord::new("no event");
        server
            .store
            .update(key.clone().into(), damage, revision)
            .await
            .unwrap();
        let lines = logged(server, async |server| {
            let answer = server.respond(request(Method::DELETE, SHOP, &[], "")).await;
            assert_eq!(answer.status(), begins, "{damaged}");
            let mut chunks = answer.into_body().into_data_stream();
            let mut is_cut_off = false;
            while let Some(chunk) = chunks.next().await {
                is_cut_off |= chunk.is_err();
                if begins == 200 && !is_cut_off {
                    assert_eq!(
                        server.api.audit_counts().unwrap().offered,
                        0,
                        "not over yet"
                    );
                }
            }
            assert_eq!(is_cut_off, begins == 200, "{damaged}");
            drop(chunks);
            let all = server
                .store
                .list(ListRequest::default())
                .await
                .unwrap()
                .records;
            assert!(left.contains(&all.len()), "{damaged}: {}", all.len());
            assert!(all.iter().any(|record| record.key == key));
        })
        .await;
        let failed = (
            json!("deletecollection"),
            Value::Null,
            json!(500),
            json!("InternalError"),
        );
        assert_eq!(lines, [failed], "{damaged}");
    }
}

#[tokio::test]
async fn a_collection_is_written_down_once_it_is_deleted() {
    let server = Server::new();
    for number in 0..510 {
        server.create("shop", &format!("e{number:03}")).await;
    }
    let lines = logged(server, async |server| {
        let answer = server.respond(request(Method::DELETE, SHOP, &[], "")).await;
        let offered = || server.api.audit_counts().unwrap().offered;
        assert_eq!((answer.status().as_u16(), offered()), (200, 0));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let told: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(told["items"].as_array().unwrap().len(), 510);
        assert_eq!(offered(), 1);
    })
    .await;
    assert_eq!(
        lines,
        [(
            json!("deletecollection"),
            Value::Null,
            json!(200),
            Value::Null
        )]
    );
}
