//! Lists: selectors, pages, and resourceVersions.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use k8s_pb::apimachinery::pkg::apis::meta::v1::Status;
use prost::Message;
use serde_json::{Value, json};
use tidings_api::codec::protobuf;

use crate::support::{Server, event, events};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let metadata = &item["metadata"];
            format!(
                "{}/{}",
                metadata["namespace"].as_str().unwrap(),
                metadata["name"].as_str().unwrap()
            )
        })
        .collect()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

/// To client-go and kube-rs a resource version of 0 means none.
#[tokio::test]
async fn an_empty_list_has_a_version_to_watch_from() {
    let server = Server::new();
    let list = server.get("/api/v1/events").await.expect(200);
    assert_eq!((&list["items"], version(&list)), (&json!([]), "1"));
    let mut watch = server
        .watch("/api/v1/events?watch=true&resourceVersion=1")
        .await;
    server.create("shop", "a").await;
    assert_eq!(watch.line().await, "ADDED a@2");
}

#[tokio::test]
async fn lists_are_in_key_order_and_carry_their_version() {
    let server = Server::new();
    for (namespace, name) in [("shop", "b"), ("shop", "a"), ("bank", "z"), ("shop-2", "a")] {
        server.create(namespace, name).await;
    }
    let all = server.get("/api/v1/events").await.expect(200);
    // Lists are in byte order of the whole key: '-' comes before '/'.
    assert_eq!(names(&all), ["bank/z", "shop-2/a", "shop/a", "shop/b"]);
    assert_eq!(
        (all["kind"].as_str(), all["apiVersion"].as_str()),
        (Some("EventList"), Some("v1"))
    );
    assert_eq!(version(&all), "5");
    assert!(all["items"][0].get("kind").is_none());
    let one = server
        .get("/api/v1/namespaces/shop/events")
        .await
        .expect(200);
    assert_eq!(names(&one), ["shop/a", "shop/b"]);
    let none = server
        .get("/api/v1/namespaces/nowhere/events")
        .await
        .expect(200);
    assert_eq!((&none["items"], version(&none)), (&json!([]), "5"));
    let other = server
        .get("/apis/events.k8s.io/v1/events")
        .await
        .expect(200);
    assert_eq!(other["apiVersion"], "events.k8s.io/v1");
    assert_eq!(
        other["items"][0]["note"],
        "Back-off restarting failed container"
    );
}

#[tokio::test]
async fn selectors() {
    let server = Server::new();
    for (name, uid, label) in [("a", "u1", "x"), ("b", "u2", "y"), ("c", "u1", "z")] {
        let mut event = event("shop", name);
        event["involvedObject"]["uid"] = json!(uid);
        event["metadata"]["labels"] = json!({"tier": label});
        server
            .post("/api/v1/namespaces/shop/events", &event)
            .await
            .expect(201);
    }
    server.create("bank", "a").await;
    for (query, expected) in [
        ("fieldSelector=involvedObject.uid%3Du1", "shop/a shop/c"),
        (
            "fieldSelector=involvedObject.uid=u1,metadata.name!=a",
            "shop/c",
        ),
        (
            "fieldSelector=involvedObject.kind=Pod,involvedObject.namespace=shop,involvedObject.name=web",
            "shop/a shop/b shop/c",
        ),
        (
            "fieldSelector=involvedObject.name=web,involvedObject.namespace=bank",
            "bank/a",
        ),
        ("fieldSelector=metadata.namespace=bank", "bank/a"),
        ("fieldSelector=metadata.name=a", "bank/a shop/a"),
        ("fieldSelector=type=Normal", ""),
        (
            "fieldSelector=source=kubelet,reason=BackOff,type!=Normal&labelSelector=tier",
            "shop/a shop/b shop/c",
        ),
        ("labelSelector=tier+in+(x,z)", "shop/a shop/c"),
        ("labelSelector=!tier", "bank/a"),
        ("&labelSelector=tier!=x&limit=500", "bank/a shop/b shop/c"),
    ] {
        let list = server
            .get(&format!("/api/v1/events?{query}"))
            .await
            .expect(200);
        assert_eq!(names(&list).join(" "), expected, "{query}");
    }
    let status = server
        .get("/api/v1/events?fieldSelector=spec.x=1")
        .await
        .expect(400);
    assert_eq!(status["message"], "field label not supported: spec.x");
}

#[tokio::test]
async fn pages_are_of_one_moment() {
    let server = Server::new();
    for n in 0..7 {
        server.create("shop", &format!("e{n}")).await;
    }
    let first = server.get("/api/v1/events?limit=3").await.expect(200);
    assert_eq!(names(&first), ["shop/e0", "shop/e1", "shop/e2"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    server
        .delete("/api/v1/namespaces/shop/events/e4")
        .await
        .expect(200);
    server.create("shop", "e33").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = server
        .get(&format!("/api/v1/events?limit=3&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["shop/e3", "shop/e4", "shop/e5"]);
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = server
        .get(&format!("/api/v1/events?limit=3&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&third), ["shop/e6"]);
    assert!(
        third["metadata"].get("continue").is_none()
            && third["metadata"].get("remainingItemCount").is_none()
    );

    server.store.compact(server.store.revision()).await.unwrap();
    let status = server
        .get(&format!("/api/v1/events?limit=3&continue={token}"))
        .await
        .expect(410);
    assert_eq!(status["reason"], "Expired");
    let token = status["metadata"]["continue"].as_str().unwrap();
    let resumed = server
        .get(&format!("/api/v1/events?limit=3&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&resumed), ["shop/e6"]);
    assert_eq!(version(&resumed), "10");
    server
        .get("/api/v1/events?continue=nonsense")
        .await
        .expect(400);
}

#[tokio::test]
async fn where_a_list_goes_on_whose_version_is_forgotten_is_told_in_protobuf_too() {
    let server = Server::new();
    for name in ["a", "b"] {
        server.create("shop", name).await;
    }
    let first = server.get("/api/v1/events?limit=1").await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let uri = format!("/api/v1/events?limit=1&continue={token}");
    server.create("shop", "c").await;
    server.store.compact(server.store.revision()).await.unwrap();
    let told = server.get(&uri).await.expect(410);
    let answer = server
        .get_as(&uri, "application/vnd.kubernetes.protobuf")
        .await;
    assert_eq!(answer.code, 410);
    let status = protobuf::open(&answer.body.into()).unwrap();
    let status = Status::decode(status.raw).unwrap();
    let token = status.metadata.unwrap().r#continue;
    assert_eq!(told["metadata"]["continue"].as_str(), token.as_deref());
    let uri = format!("/api/v1/events?limit=1&continue={}", token.unwrap());
    assert_eq!(names(&server.get(&uri).await.expect(200)), ["shop/b"]);
}

/// Counting for each page would make a list's cost the square of its length. So events that expire
/// meanwhile are still counted.
#[tokio::test]
async fn what_is_left_is_counted_for_the_first_page_alone() {
    let server = Server::new();
    let half_an_hour = 30 * 60 * 1000;
    for n in 0..7 {
        server.create("shop", &format!("e{n}")).await;
        if n == 4 {
            server.clock.advance(half_an_hour);
        }
    }
    for uri in ["/api/v1/events", &events("shop")] {
        let first = server.get(&format!("{uri}?limit=1")).await.expect(200);
        assert_eq!(first["metadata"]["remainingItemCount"], 6);
    }
    let first = server.get("/api/v1/events?limit=1").await.expect(200);
    server.clock.advance(half_an_hour);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let uri = format!("/api/v1/events?limit=1&continue={token}");
    let second = server.get(&uri).await.expect(200);
    assert_eq!(names(&second), ["shop/e5"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 5);
    // Another list has no cached count.
    let uri = format!("{}?limit=1&continue={token}", events("shop"));
    let other = server.get(&uri).await.expect(200);
    assert!(other["metadata"].get("remainingItemCount").is_none());
}

/// With a token of kube-apiserver, or from before a restart, the remaining events are counted
/// again.
#[tokio::test]
async fn what_is_left_behind_another_servers_token() {
    let server = Server::new();
    for n in 0..7 {
        server.create("shop", &format!("e{n}")).await;
    }
    let token = r#"{"v":"meta.k8s.io/v1","rv":8,"start":"shop/e0\u0000"}"#;
    let token = BASE64_URL_SAFE_NO_PAD.encode(token);
    let uri = format!("/api/v1/events?limit=2&continue={token}");
    let page = server.get(&uri).await.expect(200);
    assert_eq!(names(&page), ["shop/e1", "shop/e2"]);
    assert_eq!(page["metadata"]["remainingItemCount"], 4);
}

#[tokio::test]
async fn a_limit_counts_what_matches() {
    let server = Server::new();
    let mut wanted = BTreeSet::new();
    for n in 0..40 {
        let name = format!("e{n:02}");
        let mut event = event("shop", &name);
        if n % 3 == 0 {
            event["reason"] = json!("Rare");
            wanted.insert(format!("shop/{name}"));
        }
        server
            .post("/api/v1/namespaces/shop/events", &event)
            .await
            .expect(201);
    }
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let page = server
            .get(&format!(
                "/api/v1/events?limit=5&fieldSelector=reason=Rare&continue={token}"
            ))
            .await
            .expect(200);
        let page_names = names(&page);
        assert!(page_names.len() <= 5);
        assert!(page["metadata"].get("remainingItemCount").is_none());
        found.extend(page_names);
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, wanted.into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_list_of_several_store_pages_is_whole() {
    let server = Server::new();
    for n in 0..1234 {
        server.create("shop", &format!("e{n:04}")).await;
    }
    for query in ["", "?limit=5000", "?fieldSelector=reason=BackOff"] {
        let list = server
            .get(&format!("/api/v1/events{query}"))
            .await
            .expect(200);
        let names = names(&list);
        assert_eq!(names.len(), 1234, "{query}");
        assert!(names.is_sorted());
    }
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = server.get_as("/api/v1/events", accept).await.expect(200);
    assert_eq!(table["rows"].as_array().unwrap().len(), 1234);
}

/// kubectl requests 500 rows at a time, and at most five pages a second.
#[tokio::test]
async fn a_table_in_large_pages_goes_on_in_larger_ones() {
    let server = Server::new();
    for n in 0..1234 {
        server.create("shop", &format!("e{n:04}")).await;
    }
    let pages = async |limit: usize, accept: &str, selector: &str| {
        let (mut pages, mut found) = (Vec::new(), Vec::new());
        let mut token = String::new();
        loop {
            let path = format!("/api/v1/events?limit={limit}&continue={token}{selector}");
            let list = server.get_as(&path, accept).await.expect(200);
            let rows = list["rows"].as_array().or(list["items"].as_array());
            let rows = rows.unwrap().iter().map(|row| match &row["object"] {
                Value::Null => row["metadata"]["name"].clone(),
                object => object["metadata"]["name"].clone(),
            });
            let page: Vec<_> = rows.collect();
            pages.push(page.len());
            found.extend(page);
            match list["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
        let all = (0..1234).map(|n| Value::from(format!("e{n:04}")));
        assert_eq!(
            found,
            all.collect::<Vec<_>>(),
            "{limit} {accept} {selector}"
        );
        pages
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(pages(500, table, "").await, [500, 734]);
    assert_eq!(pages(600, table, "").await, [600, 634]);
    assert_eq!(pages(499, table, "").await, [499, 499, 236]);
    let selector = "&fieldSelector=reason=BackOff";
    assert_eq!(pages(500, table, selector).await, [500, 500, 234]);
    assert_eq!(pages(500, "application/json", "").await, [500, 500, 234]);
}

#[tokio::test]
async fn resource_versions() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.create("shop", name).await;
    }
    for (query, count) in [
        ("resourceVersion=0", 3),
        ("resourceVersion=2", 3),
        ("resourceVersion=2&limit=5", 1),
        ("resourceVersion=3&resourceVersionMatch=Exact", 2),
        (
            "resourceVersion=3&resourceVersionMatch=NotOlderThan&limit=5",
            3,
        ),
    ] {
        let list = server
            .get(&format!("/api/v1/events?{query}"))
            .await
            .expect(200);
        assert_eq!(names(&list).len(), count, "{query}");
    }
    for path in ["/api/v1/events", "/api/v1/namespaces/shop/events/a"] {
        let status = server
            .get(&format!("{path}?resourceVersion=99"))
            .await
            .expect(504);
        assert_eq!(status["reason"], "Timeout");
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        assert!(
            status["message"]
                .as_str()
                .unwrap()
                .contains("Too large resource version: 99, current: 4")
        );
        server
            .get(&format!("{path}?resourceVersion=x"))
            .await
            .expect(400);
    }
    server.store.compact(4).await.unwrap();
    server
        .get("/api/v1/events?resourceVersion=2&resourceVersionMatch=Exact")
        .await
        .expect(410);
}

#[tokio::test]
async fn continue_tokens_are_those_of_kube_apiserver() {
    let server = Server::new();
    for name in ["a", "b"] {
        server.create("shop", name).await;
    }
    for (path, start) in [
        (events("shop").as_str(), "a\0"),
        ("/api/v1/events", "shop/a\0"),
    ] {
        let page = server.get(&format!("{path}?limit=1")).await.expect(200);
        let token = page["metadata"]["continue"].as_str().unwrap();
        let json = BASE64_URL_SAFE_NO_PAD.decode(token);
        let token: Value = serde_json::from_slice(&json.unwrap()).unwrap();
        assert_eq!(
            token,
            json!({"v": "meta.k8s.io/v1", "rv": 3, "start": start})
        );
    }
}

/// This order is our own: kube-apiserver ignores the parameter, as this server does where the order
/// does not apply.
#[tokio::test]
async fn the_newest_first_where_it_is_asked_for() {
    let server = Server::new();
    for (name, time) in [("a", "05:06"), ("b", "05:08"), ("c", "05:07")] {
        let mut event = event("shop", name);
        event["lastTimestamp"] = json!(format!("2026-03-04T{time}:00Z"));
        server.post("/api/v1/namespaces/shop/events", &event).await;
    }
    for (uri, expected) in [
        (
            "/api/v1/events?order=newest&limit=2",
            Some(["shop/b", "shop/c"].as_slice()),
        ),
        (
            "/api/v1/namespaces/shop/events?order=newest&limit=9",
            Some(&["shop/b", "shop/c", "shop/a"]),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/bank/events?order=newest&limit=9",
            Some(&[]),
        ),
        (
            "/api/v1/events?order=newest&limit=9&since=2026-03-04T05:07:00Z",
            Some(&["shop/b", "shop/c"]),
        ),
        (
            "/api/v1/events?order=newest&limit=9&until=2026-03-04T05:07:00Z",
            Some(&["shop/a"]),
        ),
        (
            "/api/v1/events?order=newest&limit=2&fieldSelector=involvedObject.name%3Dweb",
            Some(&["shop/b", "shop/c"]),
        ),
        (
            "/apis/events.k8s.io/v1/events?order=newest&limit=2&fieldSelector=regarding.name%3Ddb",
            Some(&[]),
        ),
        (
            "/api/v1/events?order=newest&limit=2&fieldSelector=involvedObject.name%3Dweb&labelSelector=a%3Db",
            None,
        ),
        ("/api/v1/events?order=newest", None),
        ("/api/v1/events?order=newest&limit=501", None),
        ("/api/v1/events?order=newest&limit=5&since=yesterday", None),
        ("/api/v1/events?order=oldest&limit=2", None),
        (
            "/api/v1/events?order=newest&limit=2&fieldSelector=reason%3DBackOff",
            None,
        ),
        (
            "/api/v1/events?order=newest&limit=2&resourceVersion=2",
            None,
        ),
    ] {
        let answer = server.get(uri).await;
        let is_newest_first = answer.headers.contains_key("tidings-newest-first");
        assert_eq!(is_newest_first, expected.is_some(), "{uri}");
        if let Some(expected) = expected {
            assert_eq!(names(&answer.expect(200)), expected, "{uri}");
        }
    }
    // The pages are read one by one, each at the latest revision.
    let mut found = Vec::new();
    let mut token = String::new();
    for _ in 0..3 {
        let uri = format!("/api/v1/events?order=newest&limit=1&continue={token}");
        let page = server.get(&uri).await.expect(200);
        found.extend(names(&page));
        token = page["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
    }
    assert_eq!(
        (found, token),
        (
            ["shop/b", "shop/c", "shop/a"].map(String::from).into(),
            String::new()
        )
    );
}

#[tokio::test]
async fn events_about_an_object_are_found_without_looking_at_others() {
    let server = Server::new();
    for number in 0..40 {
        let mut event = event("shop", &format!("e{number:02}"));
        event["involvedObject"]["name"] = format!("pod-{}", number % 10).into();
        event["involvedObject"]["uid"] = format!("u-{}", number % 10).into();
        server.post(&events("shop"), &event).await.expect(201);
    }
    let fetched = async || {
        let text = server.get("/metrics").await;
        let name = "apiserver_storage_list_fetched_objects_total{group=\"\",resource=\"events\"} ";
        let found = text.text().lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or("0").parse::<usize>().unwrap()
    };
    for (selector, expected) in [
        ("involvedObject.name=pod-3", 4),
        ("involvedObject.kind=Pod,involvedObject.name=pod-3", 4),
        (
            "involvedObject.name=pod-3,involvedObject.namespace=shop,involvedObject.kind=Pod",
            4,
        ),
        ("involvedObject.uid=u-3", 4),
        ("involvedObject.name=pod-3,involvedObject.kind=Node", 0),
    ] {
        for (group, selector) in [
            ("/api/v1", selector.to_owned()),
            (
                "/apis/events.k8s.io/v1",
                selector.replace("involvedObject", "regarding"),
            ),
        ] {
            for path in ["events", "namespaces/shop/events"] {
                let before = fetched().await;
                let all = format!("{group}/{path}?fieldSelector={selector}");
                let list = server.get(&all).await.expect(200);
                assert_eq!(names(&list).len(), expected, "{all}");
                assert_eq!(fetched().await - before, expected, "{all}");

                let mut paged = Vec::new();
                let mut next = format!("{all}&limit=3");
                let before = fetched().await;
                loop {
                    let page = server.get(&next).await.expect(200);
                    paged.extend(names(&page));
                    let token = page["metadata"]["continue"].as_str();
                    let Some(token) = token else { break };
                    next = format!("{all}&limit=3&continue={token}");
                }
                assert_eq!(paged, names(&list), "{all}");
                // A page also checks whether there is a next one.
                assert!(fetched().await - before <= 2 * expected, "{all}");
            }
        }
    }
}
