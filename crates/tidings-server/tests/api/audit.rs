//! The audit log: who wrote which event, and the result.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request};
use serde_json::{Value, json};
use tidings_server::clock::SystemClock;
use tidings_server::{
    ApiOptions, ApiServer, AuditLevel, AuditLog, AuditOptions, Authenticator, Namespaces, Token,
    User, router,
};
use tidings_store::clock::ManualClock;
use tidings_store::{Store, UnixMillis};
use tower::ServiceExt;

use crate::backend;
use crate::support::{START, event, events};

/// Sends requests (method, path, content type, body) to a server with an audit log, and returns the
/// log's lines.
async fn logged(
    folder: &Path,
    level: AuditLevel,
    requests: &[(Method, &str, &str, String)],
) -> Vec<Value> {
    logged_with(folder, level, requests, &[]).await
}

/// Sends requests with other headers, and returns the log's lines.
async fn logged_with(
    folder: &Path,
    level: AuditLevel,
    requests: &[(Method, &str, &str, String)],
    headers: &[(&str, &str)],
) -> Vec<Value> {
    let server = server(folder, |options| options.level = level);
    for (method, path, content_type, body) in requests {
        ask(&server, method, path, content_type, body, headers).await;
    }
    let counts = server.audit_counts().unwrap();
    assert_eq!(counts.dropped + counts.failed, 0);
    // Queued lines are written before the log is closed.
    drop(server);
    lines(&folder.join("audit.log"))
}

/// A server with an audit log in a folder.
fn server(folder: &Path, change: impl FnOnce(&mut AuditOptions)) -> Arc<ApiServer> {
    let store = backend::store(&ManualClock::at(UnixMillis(START)));
    server_over(store, folder, change)
}

fn server_over(
    store: Arc<dyn Store>,
    folder: &Path,
    change: impl FnOnce(&mut AuditOptions),
) -> Arc<ApiServer> {
    let mut options = AuditOptions::new(folder.join("audit.log"));
    change(&mut options);
    let log = AuditLog::open(options, Arc::new(SystemClock)).unwrap();
    let token = Token {
        token: "s3cret".into(),
        user: User::new("ann", "7", ["system:masters".to_owned()]),
    };
    let mut api = ApiOptions::default();
    api.namespaces = Namespaces::only(["shop"]).unwrap();
    let server = ApiServer::new(
        store,
        Arc::new(SystemClock),
        Authenticator::new(vec![token]),
        api,
    );
    Arc::new(server.with_audit_log(log))
}

/// Sends a request; returns the answer's status code.
async fn ask(
    server: &Arc<ApiServer>,
    method: &Method,
    path: &str,
    content_type: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> u16 {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer s3cret")
        .header("audit-id", "audit-1")
        .header("user-agent", "test/1")
        .header("content-type", content_type)
        .body(Body::from(body.to_owned()))
        .unwrap();
    for (name, value) in headers {
        let name = HeaderName::try_from(*name).unwrap();
        request
            .headers_mut()
            .insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let response = router(Arc::clone(server)).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .unwrap();
    code
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[tokio::test]
async fn every_write_is_one_line_and_no_read_is() {
    let folder = tempfile::tempdir().unwrap();
    let (shop, json) = (events("shop"), "application/json");
    let path = format!("{shop}/a");
    let other = "/apis/events.k8s.io/v1/namespaces/shop/events/a";
    let elsewhere = events("elsewhere");
    let merge = "application/merge-patch+json";
    let mut generated = event("shop", "");
    generated["metadata"] = json!({"generateName": "web."});
    let requests = [
        (
            Method::POST,
            shop.as_str(),
            json,
            event("shop", "a").to_string(),
        ),
        (Method::GET, &path, json, String::new()),
        (Method::GET, "/api/v1/namespaces", json, String::new()),
        (
            Method::PATCH,
            other,
            merge,
            json!({"metadata": {"labels": {"a": "b"}}}).to_string(),
        ),
        (Method::POST, &shop, json, generated.to_string()),
        (
            Method::POST,
            &elsewhere,
            json,
            event("elsewhere", "a").to_string(),
        ),
        (Method::DELETE, &path, json, String::new()),
        (Method::DELETE, &shop, json, String::new()),
    ];
    let lines = logged(folder.path(), AuditLevel::Metadata, &requests).await;
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            let object = &line["objectRef"];
            (
                line["verb"].as_str().unwrap(),
                object["apiGroup"].as_str().unwrap_or_default(),
                object["namespace"].as_str().unwrap(),
                object["name"].as_str().unwrap_or_default(),
                line["responseStatus"]["code"].as_u64().unwrap(),
            )
        })
        .collect();
    let chosen = said[2].3;
    assert!(chosen.starts_with("web."), "{chosen}");
    assert_eq!(
        said,
        [
            ("create", "", "shop", "a", 201),
            ("patch", "events.k8s.io", "shop", "a", 200),
            ("create", "", "shop", chosen, 201),
            ("create", "", "elsewhere", "", 404),
            ("delete", "", "shop", "a", 200),
            ("deletecollection", "", "shop", "", 200),
        ]
    );
    let refused = &lines[3];
    assert_eq!(
        refused["responseStatus"],
        json!({
            "metadata": {}, "status": "Failure", "reason": "NotFound",
            "message": "namespaces \"elsewhere\" not found", "code": 404,
        })
    );
    let mut first = lines[0].clone();
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        let time = first.as_object_mut().unwrap().remove(time).unwrap();
        // The time has six digits and a Z, as Go's MicroTime.
        assert_eq!(time.as_str().unwrap().len(), 27, "{time}");
    }
    assert_eq!(
        first,
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "audit-1",
            "stage": "ResponseComplete", "requestURI": shop, "verb": "create",
            "user": {"username": "ann", "uid": "7", "groups": ["system:masters", "system:authenticated"]},
            "userAgent": "test/1",
            "objectRef": {"resource": "events", "namespace": "shop", "name": "a", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 201},
        })
    );
}

#[tokio::test]
async fn the_body_is_written_down_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let shop = events("shop");
    let path = format!("{shop}/a");
    let requests = [
        (
            Method::POST,
            shop.as_str(),
            "application/yaml",
            "metadata:\n  name: a\ninvolvedObject: {namespace: shop}\nmessage: |\n  two\n  lines\n"
                .to_owned(),
        ),
        (
            Method::PATCH,
            &path,
            "application/json-patch+json",
            "[{\"op\": \"add\",\n \"path\": \"/count\", \"value\": 3}]".to_owned(),
        ),
        (
            Method::POST,
            &shop,
            "application/json",
            "{nonsense".to_owned(),
        ),
    ];
    let lines = logged(folder.path(), AuditLevel::Request, &requests).await;
    assert_eq!(lines[0]["requestObject"]["message"], "two\nlines\n");
    assert_eq!(
        lines[1]["requestObject"],
        json!([{"op": "add", "path": "/count", "value": 3}])
    );
    assert_eq!(lines[1]["responseStatus"]["code"], 200);
    assert!(lines[2].get("requestObject").is_none());
    assert_eq!(lines[2]["responseStatus"]["code"], 400);
}

#[tokio::test]
async fn who_acts_as_somebody_else_is_named_and_who_is_not_known_is_not() {
    let shop = events("shop");
    let create = [(
        Method::POST,
        shop.as_str(),
        "application/json",
        event("shop", "a").to_string(),
    )];
    for (header, code, user, impersonated) in [
        (("impersonate-user", "bob"), 403, json!("ann"), json!("bob")),
        (("impersonate-uid", "7"), 400, json!("ann"), json!(null)),
        (
            ("authorization", "Bearer wrong"),
            401,
            json!(null),
            json!(null),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let lines = logged_with(folder.path(), AuditLevel::Metadata, &create, &[header]).await;
        let lines = match code {
            401 => self::lines(&folder.path().join("audit-unauthenticated.log")),
            _ => lines,
        };
        assert_eq!(lines.len(), 1, "{header:?}");
        let line = &lines[0];
        assert_eq!(line["responseStatus"]["code"], code, "{line}");
        assert_eq!(line["user"]["username"], user, "{line}");
        assert_eq!(line["impersonatedUser"]["username"], impersonated, "{line}");
        assert!(!line.to_string().contains("s3cret"), "{line}");
    }
}

#[tokio::test]
async fn only_writes_of_events_are_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let json = "application/json";
    let requests = [
        (
            Method::DELETE,
            "/api/v1/namespaces/shop",
            json,
            String::new(),
        ),
        (
            Method::POST,
            "/api/v1/namespaces/shop/pods",
            json,
            "{}".to_owned(),
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/shop/events/a",
            json,
            String::new(),
        ),
    ];
    let lines = logged(folder.path(), AuditLevel::Metadata, &requests).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["verb"], "delete");
}

#[tokio::test]
async fn a_body_that_does_not_fit_takes_nothing_but_itself_from_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let shop = events("shop");
    let path = format!("{shop}/a");
    let yaml = "application/yaml";
    // Sixty kilobytes, twice: more than a line holds, but within the limit of aliases.
    let many = format!("x: &x {}\ny: [*x]\n", "a".repeat(60_000));
    let event = "metadata: {name: a}\ninvolvedObject: {namespace: shop}\n";
    let long = "b".repeat(100 << 10);
    let requests = [
        (Method::POST, shop.as_str(), yaml, format!("{event}{many}")),
        (Method::DELETE, &path, yaml, many.clone()),
        (
            Method::POST,
            &shop,
            "application/json",
            json!({"metadata": {"name": "b"}, "involvedObject": {"namespace": "shop"}, "x": long})
                .to_string(),
        ),
        (Method::DELETE, &shop, "application/json", "{no".into()),
    ];
    let lines = logged(folder.path(), AuditLevel::Request, &requests).await;
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            assert_eq!(line["level"], "Request");
            assert!(line.get("requestObject").is_none());
            assert_eq!(
                line["annotations"],
                json!({"audit.k8s.io/truncated": "true"})
            );
            (
                line["verb"].as_str().unwrap(),
                line["objectRef"]["name"].as_str().unwrap_or_default(),
                line["responseStatus"]["code"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("create", "a", 201),
            ("delete", "a", 200),
            ("create", "b", 201),
            ("deletecollection", "", 400),
        ]
    );
}

#[tokio::test]
async fn a_body_is_read_as_the_api_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let shop = events("shop");
    let path = format!("{shop}/a");
    let yaml = "metadata: {name: a}\ninvolvedObject: {namespace: shop}\nmessage: first\n";
    let requests = [
        (
            Method::POST,
            shop.as_str(),
            "application/yaml",
            format!("{yaml}message: second\n---\nmessage: third\n"),
        ),
        (
            Method::PATCH,
            &path,
            "application/merge-patch+json",
            r#"{"message": "half \ud800"}"#.to_owned(),
        ),
    ];
    let lines = logged(folder.path(), AuditLevel::Request, &requests).await;
    let said = lines.iter().map(|line| {
        let code = line["responseStatus"]["code"].as_u64().unwrap();
        (code, line["requestObject"]["message"].as_str().unwrap())
    });
    assert_eq!(
        said.collect::<Vec<_>>(),
        [(201, "second"), (200, "half \u{fffd}")]
    );
}

#[tokio::test]
async fn a_dry_run_is_told_from_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let shop = events("shop");
    let path = format!("{shop}/a");
    let dry = format!("{shop}?dryRun=All");
    let json = "application/json";
    let create = event("shop", "a").to_string();
    let options = json!({"dryRun": ["All"]}).to_string();
    let requests = [
        (Method::POST, dry.as_str(), json, create.clone()),
        (Method::POST, &shop, json, create),
        (Method::DELETE, &path, json, options.clone()),
        (Method::DELETE, &shop, json, options),
        (Method::DELETE, &path, json, String::new()),
    ];
    let lines = logged(folder.path(), AuditLevel::Metadata, &requests).await;
    let dry = json!({"tidings/dry-run": "All"});
    let expected = [&dry, &Value::Null, &dry, &dry, &Value::Null];
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line["responseStatus"]["code"].as_u64() < Some(300));
        assert_eq!(line["annotations"], *expected, "{line}");
    }
}

#[tokio::test]
async fn what_a_client_chose_is_cut_with_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("{}?x={}", events("shop"), "x".repeat(20_000));
    let create = [(
        Method::POST,
        uri.as_str(),
        "application/json",
        event("shop", "a").to_string(),
    )];
    let text = "\"".repeat(20_000);
    let headers = [
        ("user-agent", "\u{e9}t\u{e9}/1"),
        ("audit-id", text.as_str()),
        ("impersonate-user", text.as_str()),
        ("impersonate-group", text.as_str()),
        ("impersonate-uid", text.as_str()),
        ("impersonate-extra-a", text.as_str()),
    ];
    let lines = logged_with(folder.path(), AuditLevel::Request, &create, &headers).await;
    let line = &lines[0];
    assert!(line.to_string().len() < 32 << 10);
    assert_eq!(line["userAgent"], "\u{e9}t\u{e9}/1");
    let mark = "...TRUNCATED";
    let as_who = &line["impersonatedUser"];
    for text in [
        &line["auditID"],
        &line["requestURI"],
        &line["responseStatus"]["message"],
        &as_who["username"],
        &as_who["uid"],
        &as_who["groups"][0],
        &as_who["extra"]["a"][0],
    ] {
        assert!(text.as_str().unwrap().ends_with(mark), "{text}");
    }
}

#[tokio::test]
async fn requests_of_nobody_known_do_not_push_out_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), |options| {
        options.bytes_max = 2000;
        options.backups_max = 1;
        options.unauthenticated_bytes_max = 3000;
    });
    let shop = events("shop");
    let json = "application/json";
    let body = event("shop", "a").to_string();
    let done = ask(&server, &Method::POST, &shop, json, &body, &[]).await;
    assert_eq!(done, 201);
    let wrong = [("authorization", "Bearer wrong")];
    for _ in 0..50 {
        let refused = ask(&server, &Method::POST, &shop, json, &body, &wrong).await;
        assert_eq!(refused, 401);
    }
    drop(server);
    let mut known = 0;
    let mut unknown_bytes = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("audit-unauthenticated") {
            unknown_bytes += std::fs::metadata(&path).unwrap().len();
            for line in lines(&path) {
                assert_eq!(line["responseStatus"]["code"], 401);
            }
        } else {
            assert_eq!(name, "audit.log");
            known += lines(&path).len();
        }
    }
    assert_eq!(known, 1);
    assert!((3000..=6000).contains(&unknown_bytes), "{unknown_bytes}");
}

#[tokio::test]
async fn no_path_leads_around_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = backend::store(&ManualClock::at(UnixMillis(START)));
    let server = server_over(Arc::clone(&store), folder.path(), |_| {});
    let mut offered = 0;
    let mut done = 0;
    for path in [
        "/api/v1/namespaces/shop/events",
        "/api/v1/namespaces/shop/events/",
        "/api/v1/namespaces/shop/events/a",
        "/api/v1/namespaces/shop/events/a/",
        "/api/v1/namespaces/shop/events/a//",
        "/api/v1/namespaces/shop/events/%61",
        "/api/v1/namespaces/sho%70/events/a",
        "/api/v1/namespaces/shop/%65vents/a",
        "/api/v1/namespaces//events/a",
        "/api/v1//namespaces/shop/events/a",
        "/api/v1/watch/namespaces/shop/events/a",
        "/api/v1/namespaces/shop/events/a?watch=true",
        "/api/v1/events",
        "/apis/events.k8s.io/v1/namespaces/shop/events/a",
        "/apis/events.k8s.io/v1/namespaces/events/events/events",
        "/apis//v1/namespaces/shop/events/a",
        "/apis/authorization.k8s.io/v1/namespaces/shop/events/a",
        "http://elsewhere/api/v1/namespaces/shop/events/a",
    ] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "EVIL"] {
            let method = &Method::from_bytes(method.as_bytes()).unwrap();
            let content_type = match *method {
                Method::PATCH => "application/apply-patch+yaml",
                _ => "application/json",
            };
            let and = if path.contains('?') { '&' } else { '?' };
            let path = &format!("{path}{and}fieldManager=a");
            let body = event("shop", "a").to_string();
            let before = store.revision();
            ask(&server, method, path, content_type, &body, &[]).await;
            let after = server.audit_counts().unwrap().offered;
            if store.revision() != before {
                assert_eq!(after, offered + 1, "{method} {path}");
                done += 1;
            }
            offered = after;
        }
    }
    assert!(done > 10, "{done}");
}
