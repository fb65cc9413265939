//! The audit log: who wrote what, and what came of it.

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
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tower::ServiceExt;

use crate::backend;
use crate::support::{START, event, events};

/// Sends requests (method, path, content type, body) to a server with an audit log, and returns the log's lines.
async fn logged(
    folder: &Path,
    level: AuditLevel,
    requests: &[(Method, &str, &str, String)],
) -> Vec<Value> {
    logged_with(folder, level, requests, &[]).await
}

/// The same with other headers.
async fn logged_with(
    folder: &Path,
    level: AuditLevel,
    requests: &[(Method, &str, &str, String)],
    headers: &[(&str, &str)],
) -> Vec<Value> {
    let mut options = AuditOptions::new(folder.join("audit.log"));
    options.level = level;
    let log = AuditLog::open(options, Arc::new(SystemClock)).unwrap();
    let token = Token {
        token: "s3cret".into(),
        user: User::new("ann", "7", ["system:masters".to_owned()]),
    };
    let mut api = ApiOptions::default();
    api.namespaces = Namespaces::only(["shop"]).unwrap();
    let server = ApiServer::new(
        backend::store(&ManualClock::at(UnixMillis(START))),
        Arc::new(SystemClock),
        Authenticator::new(vec![token]),
        api,
    );
    let server = Arc::new(server.with_audit_log(log));
    for (method, path, content_type, body) in requests {
        let mut request = Request::builder()
            .method(method)
            .uri(*path)
            .header("authorization", "Bearer s3cret")
            .header("audit-id", "audit-1")
            .header("user-agent", "test/1")
            .header("content-type", *content_type)
            .body(Body::from(body.clone()))
            .unwrap();
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).unwrap();
            request
                .headers_mut()
                .insert(name, HeaderValue::try_from(*value).unwrap());
        }
        let response = router(Arc::clone(&server)).oneshot(request).await.unwrap();
        axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
    }
    let counts = server.audit_counts().unwrap();
    assert_eq!(counts.dropped + counts.failed, 0);
    // What waits is written before the log is gone.
    drop(server);
    let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
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
        // Six digits and a Z, as Go's MicroTime.
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
