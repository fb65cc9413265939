//! Serves namespaces, read-only, as objects or as a Table, for `kubectl get namespaces` and user
//! interfaces.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tidings_store::ListRequest;

use crate::admission::{Namespace, namespaces};
use crate::api::random;
use crate::api::request::encoded;
use crate::api::server::ApiServer;
use crate::auth::digest_of;
use crate::http::negotiate::{Answer, Form, Shape, negotiate_text};
use crate::http::present::present;
use crate::http::query::Query;
use crate::http::request::RequestInfo;
use crate::http::status::Status;
use tidings_api::table::IncludeObject;

/// GET /api/v1/namespaces/{namespace}
pub(crate) async fn get(
    State(server): State<Arc<ApiServer>>,
    Path(name): Path<String>,
    Extension(info): Extension<Arc<RequestInfo>>,
    headers: HeaderMap,
) -> Result<Response, Status> {
    let query = &info.query;
    let form = negotiate_text(&headers, query, Answer::Object)?;
    let namespace = server.options.namespaces.find(&name);
    let namespace = namespace.ok_or_else(|| Status::namespace_not_found(&name))?;
    let items = [(name, namespace)];
    let identity = server.identity.as_deref();
    let shown = match form.shape {
        Shape::Table(api_version) => table(api_version, query, &items, &json!({}), identity)?,
        Shape::Partial(api_version) => partial(api_version, &items[0], identity),
        Shape::Mismatch(why) => return Err(Status::shape_mismatch(why)),
        Shape::Whole => whole(&items[0], identity),
    };
    respond(form, &shown)
}

/// GET /api/v1/namespaces: the configured namespaces or, without a configuration, those of every
/// cluster and those with events.
pub(crate) async fn list(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    headers: HeaderMap,
) -> Result<Response, Status> {
    let query = &info.query;
    let form = negotiate_text(&headers, query, Answer::List)?;
    let items = all(&server).await?;
    let identity = server.identity.as_deref();
    let metadata = json!({"resourceVersion": server.store.revision().to_string()});
    let shown = match form.shape {
        Shape::Table(api_version) => table(api_version, query, &items, &metadata, identity)?,
        Shape::Partial(api_version) => {
            let shown = |item| partial(api_version, item, identity);
            let list: Vec<Value> = items.iter().map(shown).collect();
            json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": api_version,
                "metadata": metadata,
                "items": list,
            })
        }
        Shape::Mismatch(why) => return Err(Status::shape_mismatch(why)),
        Shape::Whole => {
            let shown = |item| object(item, identity);
            let list: Vec<Value> = items.iter().map(shown).collect();
            json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": metadata, "items": list})
        }
    };
    respond(form, &shown)
}

fn respond(form: Form, value: &Value) -> Result<Response, Status> {
    let (media, body) = present(form, value.to_string().into_bytes())?;
    Ok(encoded(StatusCode::OK, media, body))
}

/// All namespaces, in order.
async fn all(server: &ApiServer) -> Result<Vec<(String, Namespace)>, Status> {
    if let Some(named) = server.options.namespaces.named() {
        let item = |(name, namespace): (&String, &Namespace)| (name.clone(), *namespace);
        return Ok(named.iter().map(item).collect());
    }
    let mut names = stored_namespaces(server, usize::MAX).await?;
    names.extend(namespaces::ALWAYS.map(str::to_owned));
    names.sort();
    names.dedup();
    let item = |name| (name, Namespace::Active);
    Ok(names.into_iter().map(item).collect())
}

/// The first `max` namespaces with stored events, in order.
pub(crate) async fn stored_namespaces(
    server: &ApiServer,
    max: usize,
) -> Result<Vec<String>, Status> {
    let mut names = Vec::new();
    let mut request = ListRequest::default().limit(1);
    while names.len() < max {
        // One record is enough to know of a namespace; the next request skips all other keys of
        // that namespace.
        let page = server.store.list(request.clone()).await?;
        let Some(record) = page.records.first() else {
            break;
        };
        let bytes = record.key.iter().copied();
        let mut namespace: Vec<u8> = bytes.take_while(|byte| *byte != b'/').collect();
        names.push(String::from_utf8_lossy(&namespace).into_owned());
        // No name contains this byte, and all names sort before it.
        namespace.extend_from_slice(b"/\xff");
        request.after = Some(namespace.into());
    }
    Ok(names)
}

fn metadata(name: &str, identity: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "labels": {"kubernetes.io/metadata.name": name}});
    if let Some(identity) = identity {
        metadata["uid"] = uid(identity, name).into();
    }
    metadata
}

/// The uid of a namespace, which depends only on the store's identity and the name: a UUID of
/// version 8, for custom schemes (RFC 9562).
fn uid(identity: &str, name: &str) -> String {
    let digest = digest_of(&format!("{identity}/{name}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    random::uuid_of(bytes, 8)
}

fn object((name, namespace): &(String, Namespace), identity: Option<&str>) -> Value {
    json!({
        "metadata": metadata(name, identity),
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": namespace.phase()},
    })
}

fn whole(item: &(String, Namespace), identity: Option<&str>) -> Value {
    let mut whole = object(item, identity);
    whole["kind"] = "Namespace".into();
    whole["apiVersion"] = "v1".into();
    whole
}

fn partial(api_version: &str, (name, _): &(String, Namespace), identity: Option<&str>) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": metadata(name, identity),
    })
}

/// The columns of `printNamespace` in `pkg/printers/internalversion/printers.go`. The creation time
/// of a namespace is not known.
fn table(
    api_version: &str,
    query: &Query,
    items: &[(String, Namespace)],
    metadata: &Value,
    identity: Option<&str>,
) -> Result<Value, Status> {
    let include = query.include_object()?;
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let row = |item: &(String, Namespace)| {
        let (name, namespace) = item;
        let object = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(api_version, item, identity),
            IncludeObject::Object => whole(item, identity),
        };
        json!({"cells": [name, namespace.phase(), "<unknown>"], "object": object})
    };
    let rows: Vec<Value> = items.iter().map(row).collect();
    Ok(json!({
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": metadata,
        "columnDefinitions": [
            column("Name", "name", "The name of the namespace."),
            column("Status", "", "Active, or Terminating when it is being deleted."),
            column("Age", "", "How long ago the namespace was made."),
        ],
        "rows": rows,
    }))
}
