//! What the server says it serves: discovery in both forms, the version, and namespaces as a courtesy.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::error::Status;
use crate::server::ApiServer;

/// The Kubernetes release whose behaviour is followed.
const MAJOR: &str = "1";
const MINOR: &str = "33";

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// GET /version
pub(crate) async fn version() -> Json<Value> {
    let tidings = env!("CARGO_PKG_VERSION");
    Json(json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+tidings-{tidings}"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

/// GET /api
pub(crate) async fn core_versions(headers: HeaderMap) -> Response {
    aggregated(&headers, &[("", "v1")]).unwrap_or_else(|| {
        Json(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }))
        .into_response()
    })
}

/// GET /apis
pub(crate) async fn groups(headers: HeaderMap) -> Response {
    aggregated(&headers, &[("events.k8s.io", "v1")]).unwrap_or_else(|| {
        Json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [events_group()]}))
            .into_response()
    })
}

/// GET /apis/events.k8s.io
pub(crate) async fn group() -> Json<Value> {
    let mut group = events_group();
    if let Some(group) = group.as_object_mut() {
        group.insert("kind".into(), "APIGroup".into());
        group.insert("apiVersion".into(), "v1".into());
    }
    Json(group)
}

fn events_group() -> Value {
    let version = json!({"groupVersion": "events.k8s.io/v1", "version": "v1"});
    json!({"name": "events.k8s.io", "versions": [version], "preferredVersion": version})
}

/// GET /api/v1 and /apis/events.k8s.io/v1
pub(crate) async fn resources(request: Request) -> Json<Value> {
    let core = request.uri().path().starts_with("/api/");
    let mut resources = vec![json!({
        "name": "events",
        "singularName": "event",
        "namespaced": true,
        "kind": "Event",
        "verbs": VERBS,
        "shortNames": ["ev"],
        "storageVersionHash": "r2yiGXH7wu8=",
    })];
    if core {
        resources.push(json!({
            "name": "namespaces",
            "singularName": "namespace",
            "namespaced": false,
            "kind": "Namespace",
            "verbs": ["get", "list"],
            "shortNames": ["ns"],
        }));
    }
    let group_version = if core { "v1" } else { "events.k8s.io/v1" };
    Json(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

/// The aggregated form, if the client accepts it.
fn aggregated(headers: &HeaderMap, groups: &[(&str, &str)]) -> Option<Response> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    let version = accept.split(',').find_map(|clause| {
        let mut parameters = clause.split(';').map(str::trim).skip(1);
        let wanted =
            clause.contains("g=apidiscovery.k8s.io") && clause.contains("as=APIGroupDiscoveryList");
        wanted.then(|| parameters.find_map(|parameter| parameter.strip_prefix("v=")))?
    })?;
    let version = match version {
        "v2" => "v2",
        "v2beta1" => "v2beta1",
        _ => return None,
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, version)| group_discovery(group, version))
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
    .to_string();
    let etag = format!("\"{:x}\"", fingerprint(body.as_bytes()));
    let content_type =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let mut response = if headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == etag.as_bytes())
    {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        body.into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, content_type), (header::ETAG, etag)] {
        headers.insert(name, HeaderValue::from_str(&value).ok()?);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Some(response)
}

fn group_discovery(group: &str, version: &str) -> Value {
    let kind = |kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut resources = vec![json!({
        "resource": "events",
        "responseKind": kind("Event"),
        "scope": "Namespaced",
        "singularResource": "event",
        "verbs": VERBS,
        "shortNames": ["ev"],
    })];
    if group.is_empty() {
        resources.push(json!({
            "resource": "namespaces",
            "responseKind": kind("Namespace"),
            "scope": "Cluster",
            "singularResource": "namespace",
            "verbs": ["get", "list"],
            "shortNames": ["ns"],
        }));
    }
    json!({
        "metadata": {"name": group, "creationTimestamp": null},
        "versions": [{"version": version, "resources": resources, "freshness": "Current"}],
    })
}

/// A number that changes when the bytes do (FNV-1a): enough for an ETag of a document of our own.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// GET /api/v1/namespaces/{namespace}: any valid name is a namespace.
pub(crate) async fn namespace(Path(name): Path<String>) -> Result<Json<Value>, Status> {
    if tidings_core::validate::check_dns1123_label(&name).is_empty() {
        Ok(Json(namespace_object(&name, true)))
    } else {
        Err(Status::no_such_path())
    }
}

/// GET /api/v1/namespaces: those that every cluster has, and those that hold events.
pub(crate) async fn namespaces(
    State(server): State<Arc<ApiServer>>,
) -> Result<Json<Value>, Status> {
    let mut names: Vec<String> = ["default", "kube-public", "kube-system"]
        .map(str::to_owned)
        .into();
    let mut after = None;
    loop {
        // One record tells of a namespace; the next request skips to the key behind all of that namespace's.
        let request = tidings_store::ListRequest {
            after,
            limit: Some(1),
            ..Default::default()
        };
        let page = server
            .store
            .list(request)
            .await
            .map_err(|error| Status::from_read(&error, None))?;
        let Some(record) = page.records.first() else {
            break;
        };
        let namespace: Vec<u8> = record
            .key
            .iter()
            .copied()
            .take_while(|byte| *byte != b'/')
            .collect();
        names.push(String::from_utf8_lossy(&namespace).into_owned());
        let mut behind = namespace;
        // No name contains this byte, and all sort before it.
        behind.extend_from_slice(b"/\xff");
        after = Some(behind.into());
    }
    names.sort();
    names.dedup();
    let items: Vec<Value> = names
        .iter()
        .map(|name| namespace_object(name, false))
        .collect();
    let metadata = json!({"resourceVersion": server.store.revision().to_string()});
    Ok(Json(
        json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": metadata, "items": items}),
    ))
}

fn namespace_object(name: &str, alone: bool) -> Value {
    let mut object = json!({
        "metadata": {"name": name, "creationTimestamp": null, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    if let (true, Some(object)) = (alone, object.as_object_mut()) {
        object.insert("kind".into(), "Namespace".into());
        object.insert("apiVersion".into(), "v1".into());
    }
    object
}
