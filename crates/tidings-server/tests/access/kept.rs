//! An archive's own resources: deletions, versions, pending versions, and exports.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidings_server::AuditOptions;
use tidings_testing::serving::event;

use crate::clusters::{Archive, EVENTS, cluster, cluster_with, names, text};
use crate::support::{Credentials, token};

#[tokio::test]
async fn kept_events_are_read_and_deleted_and_not_written() {
    let clusters = vec![
        cluster("prod", &["a.1", "a.2", "a.3"]).await,
        cluster("edge", &["a.1"]).await,
    ];
    let mut log = None;
    let archive = Archive::start_with(clusters, |options| {
        let path = options.data_dir.with_file_name("audit.log");
        options.audit = Some(AuditOptions::new(&path));
        log = Some(path);
    })
    .await
    .unwrap();
    let admin = archive.to_cluster("prod", &token("t-admin")).await;
    let body = serde_json::to_value(event("a.9")).unwrap();
    for group in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let one = format!("{group}/namespaces/shop/events/a.1");
        for (method, uri) in [
            (Method::POST, format!("{group}/namespaces/shop/events")),
            (Method::PUT, one.clone()),
            (Method::PATCH, one),
        ] {
            let refused = admin.send(method.clone(), &uri, &body).await;
            let said = refused.body["message"].as_str().unwrap();
            assert_eq!(refused.code, 405, "{method} {uri}: {said}");
            assert!(
                said.contains("archive of the events of cluster \"prod\""),
                "{said}"
            );
        }
    }
    // Users without permission get the same answer as for an event that does not exist; unknown
    // users do not.
    let reader = archive.to_cluster("prod", &token("t-reader")).await;
    assert_eq!(reader.send(Method::POST, EVENTS, &body).await.code, 405);
    let nobody = archive.to_cluster("prod", &Credentials::Nothing).await;
    assert_eq!(nobody.send(Method::POST, EVENTS, &body).await.code, 401);

    let verbs = json!(["delete", "deletecollection", "get", "list", "watch"]);
    for path in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let resources = admin.get(path).await.body;
        assert_eq!(resources["resources"][0]["verbs"], verbs);
    }

    let one = format!("{EVENTS}/a.1");
    let refused = reader.send(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(refused.code, 403);
    let deleted = admin.send(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(names(&admin.get(EVENTS).await.body), ["a.2", "a.3"]);
    let ann = archive.to_cluster("prod", &token("t-ann")).await;
    assert_eq!(
        ann.send(Method::DELETE, EVENTS, &Value::Null).await.code,
        200
    );
    assert!(names(&ann.get(EVENTS).await.body).is_empty());
    let edge = archive.to_cluster("edge", &token("t-ann")).await;
    assert_eq!(names(&edge.get(EVENTS).await.body), ["a.1"]);

    archive.running.shutdown().await;
    let lines = std::fs::read_to_string(log.unwrap()).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    for line in &lines {
        assert_eq!(line["annotations"]["tidings/cluster"], "prod");
    }
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["verb"], &last["requestURI"]),
        (&json!("deletecollection"), &json!(EVENTS))
    );
}

#[tokio::test]
async fn versions_are_newest_first_and_as_the_source_numbered_them() {
    let clusters = vec![
        cluster("prod", &["a.1"]).await,
        cluster("edge", &["a.1"]).await,
    ];
    let archive = Archive::start(clusters).await;
    let prod = archive.to_cluster("prod", &token("t-reader")).await;
    let edge = archive.to_cluster("edge", &token("t-reader")).await;
    for (group, kind) in [
        ("/api/v1", "v1"),
        ("/apis/events.k8s.io/v1", "events.k8s.io/v1"),
    ] {
        let all = format!("{group}/namespaces/shop/events/a.1/versions");
        let list = prod.get(&all).await.body;
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("EventList"), &json!(kind))
        );
        let versions = |list: &Value| -> Vec<String> {
            let items = list["items"].as_array().unwrap().iter();
            items
                .map(|item| {
                    item["metadata"]["resourceVersion"]
                        .as_str()
                        .unwrap()
                        .to_owned()
                })
                .collect()
        };
        assert_eq!(versions(&list), ["905", "904", "903", "902", "901"]);
        let newest = &list["items"][0]["metadata"];
        assert_eq!(
            newest["annotations"]["tidings/observed-at"],
            "2026-01-01T00:00:05.000Z"
        );
        let ended = ["tidings/ended-at", "tidings/ended-after"];
        let ended = ended.map(|name| newest["annotations"][name].as_str());
        assert_eq!(
            ended,
            [
                Some("2026-01-01T00:01:40.000Z"),
                Some("2026-01-01T00:00:00.500Z")
            ]
        );
        let others = list["items"].as_array().unwrap()[1..].iter();
        for older in others {
            assert_eq!(
                older["metadata"]["annotations"]["tidings/ended-at"],
                Value::Null
            );
        }
        let mut seen = Vec::new();
        let mut uri = format!("{all}?limit=2");
        loop {
            let page = prod.get(&uri).await.body;
            seen.extend(versions(&page));
            let Some(more) = page["metadata"]["continue"].as_str() else {
                break;
            };
            uri = format!("{all}?limit=2&continue={more}");
            assert_eq!(edge.get(&uri).await.code, 410);
        }
        assert_eq!(seen, versions(&list));
        let absent = prod.get(&all.replace("a.1", "a.9")).await;
        assert_eq!(
            (absent.code, &absent.body["reason"]),
            (404, &json!("NotFound"))
        );
        for query in ["watch=1", "fieldSelector=reason%3Dx", "continue=x"] {
            assert_eq!(
                prod.get(&format!("{all}?{query}")).await.code,
                400,
                "{query}"
            );
        }
        // The permission is that of a `get` of the event.
        let stranger = archive.to_cluster("prod", &token("t-stranger")).await;
        let refused = stranger.get(&all).await;
        let said = refused.body["message"].as_str().unwrap();
        assert_eq!(refused.code, 403, "{said}");
        assert!(said.contains("cannot get resource \"events\""), "{said}");
        let body = json!({});
        let admin = archive.to_cluster("prod", &token("t-admin")).await;
        assert_eq!(admin.send(Method::DELETE, &all, &body).await.code, 405);
    }
    let table = ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let uri = format!("{EVENTS}/a.1/versions");
    let table = prod
        .try_send(Method::GET, &uri, &[table], &Value::Null)
        .await;
    let table = table.unwrap().body;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"].as_array().unwrap().len(), 5);

    let request = Request::get(&uri).header("accept", "application/vnd.kubernetes.protobuf");
    let client = prod.client();
    let response = client.send(request.body(Vec::new().into()).unwrap());
    let body = response.await.unwrap().into_body().collect().await.unwrap();
    let body = body.to_bytes();
    let seen = |text: &str| {
        body.windows(text.len())
            .filter(|it| *it == text.as_bytes())
            .count()
    };
    assert!(body.starts_with(b"k8s\0"));
    assert_eq!((seen("BackOff"), seen("905"), seen("901")), (5, 1, 1));

    let admin = archive.to_cluster("prod", &token("t-admin")).await;
    let coverage = admin.get("/coverage").await;
    assert_eq!(
        (coverage.code, &coverage.body["followed"][0]["since"]),
        (200, &json!("2026-01-01T00:00:00Z"))
    );
    // A user who may read one namespace may not read the coverage of all.
    let refused = prod.get("/coverage").await;
    let said = refused.body["message"].as_str().unwrap();
    assert!(
        refused.code == 403 && said.contains("cannot list resource \"events\""),
        "{said}"
    );
    archive.running.shutdown().await;
}

#[tokio::test]
async fn what_waits_to_be_sealed_is_a_file() {
    let clusters = vec![
        cluster("prod", &[]).await,
        cluster_with("edge", &[], Some("broken")).await,
    ];
    let archive = Archive::start(clusters).await;
    let prod = archive.to_cluster("prod", &token("t-admin")).await;
    let edge = archive.to_cluster("edge", &token("t-admin")).await;
    for (caller, path, code, said) in [
        (&prod, "/waiting?from=3", 200, "3 None"),
        (&prod, "/waiting?from=4&to=7", 200, "4 Some(7)"),
        (&prod, "/waiting", 410, "the newest manifest says"),
        (&prod, "/waiting?from=x", 400, "numbers of entries"),
        (&prod, "/waiting?from=3&to=-1", 400, "numbers of entries"),
        (&edge, "/waiting?from=3", 404, "are not sealed"),
    ] {
        let answer = caller.get(path).await;
        let body = text(answer.body);
        assert_eq!(answer.code, code, "{path}: {body}");
        assert!(body.contains(said), "{path}: {body}");
    }
}

#[tokio::test]
async fn an_export_is_read_in_pages_of_lines() {
    let clusters = vec![cluster("prod", &["a.1"]).await, cluster("edge", &[]).await];
    let archive = Archive::start(clusters).await;
    let prod = archive.to_cluster("prod", &token("t-admin")).await;
    let edge = archive.to_cluster("edge", &token("t-admin")).await;
    let mut path = "/export".to_owned();
    let mut places = Vec::new();
    for _ in 0..3 {
        let page = text(prod.get(&path).await.body);
        let lines: Vec<Value> = page
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        places.push(lines[0]["place"].as_str().unwrap().to_owned());
        let Some(more) = lines.get(1) else {
            break;
        };
        assert_eq!(more["kind"], "Continue");
        path = format!("/export?continue={}", more["continue"].as_str().unwrap());
        assert_eq!(edge.get(&path).await.code, 410);
    }
    assert_eq!(places, ["", "1/shop/a.1", "0/shop/b"]);
    let page = text(prod.get("/export?from=shop%2Fb").await.body);
    assert!(page.contains("0/shop/b"), "{page}");
    assert_eq!(prod.get("/export?from=shop").await.code, 400);
    let counts = prod.get("/counts").await.body;
    assert_eq!(counts["cluster"], "prod");
    assert_eq!(counts["counted"], "events");
    let of = |counts: &Value| counts["counts"].as_array().unwrap().len();
    assert_eq!(of(&counts), 1);
    assert_eq!(counts["counts"][0]["reason"], "BackOff");
    assert_eq!(counts["counts"][0]["events"], 1);
    let before = prod.get("/counts?until=2020-01-01T00:00:00Z").await.body;
    assert_eq!(of(&before), 0);
    assert_eq!(prod.get("/counts?since=yesterday").await.code, 400);
    // The token of an export says of which store it is; these are changed to name counts.
    let token = path.strip_prefix("/export?continue=").unwrap();
    let token = URL_SAFE_NO_PAD.decode(token).unwrap();
    let mut token: Value = serde_json::from_slice(&token).unwrap();
    for (start, code) in [
        ("counts/1/BackOff", 200),
        ("counts/x/BackOff", 400),
        ("counts/1", 400),
    ] {
        token["start"] = start.into();
        let uri = URL_SAFE_NO_PAD.encode(token.to_string());
        let answer = prod.get(&format!("/counts?continue={uri}")).await;
        assert_eq!(answer.code, code, "{start}: {}", answer.body);
    }
}
