//! What is said of a write: `k8s.io/apiserver/pkg/apis/audit/v1`, as far as it makes sense here.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{AuditLevel, AuditLog};
use crate::auth::User;
use crate::codec::{self, Api};
use crate::error::Status;
use crate::negotiate::{Media, body_media};
use crate::routes::AUDIT_ID;
use crate::server::ApiServer;

/// Of a text a client chose, so many bytes are written down.
const TEXT_BYTES_MAX: usize = 1024;

/// Where a handler leaves the body it read, within the request's limits of size and time.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodySlot(Arc<OnceLock<Bytes>>);

impl BodySlot {
    pub(crate) fn fill(&self, body: &Bytes) {
        // The first is the request's; there is no second.
        let _ = self.0.set(body.clone());
    }
}

/// Left on an answer by a handler that chose the name itself.
#[derive(Clone, Debug)]
pub(crate) struct ObjectName(pub(crate) String);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: &'a str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: &'a str,
    verb: &'static str,
    user: UserInfo<'a>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    object_ref: ObjectRef<'a>,
    response_status: ResponseStatus<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
}

#[derive(Serialize)]
struct UserInfo<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    groups: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef<'a> {
    resource: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'static str,
    api_version: &'static str,
}

#[derive(Serialize)]
struct ResponseStatus<'a> {
    metadata: Empty,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

/// Writes down what a request did, if it wrote events, or tried to.
pub(crate) async fn log(
    State(server): State<Arc<ApiServer>>,
    request: Request,
    next: Next,
) -> Response {
    let verb = match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    };
    let path = request.uri().path();
    let api = if path.starts_with("/api/v1/namespaces/") {
        Some(Api::Core)
    } else if path.starts_with("/apis/events.k8s.io/v1/namespaces/") {
        Some(Api::Events)
    } else {
        None
    };
    let (Some(api), true) = (api, server.audit.is_some() && !verb.is_empty()) else {
        return next.run(request).await;
    };
    // In a task of its own: what a client that goes away leaves behind is finished, and written down.
    let served = tokio::spawn(async move {
        match &server.audit {
            Some(log) => watch_over(&server, log, api, verb, request, next).await,
            None => next.run(request).await,
        }
    });
    served
        .await
        .unwrap_or_else(|error| Status::internal(error.to_string()).into_response())
}

async fn watch_over(
    server: &ApiServer,
    log: &AuditLog,
    api: Api,
    verb: &'static str,
    request: Request,
    next: Next,
) -> Response {
    let received = server.clock.now();
    let (mut parts, body) = request.into_parts();
    let names = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .ok();
    let named = |wanted: &str| {
        let names = names.iter().flat_map(RawPathParams::iter);
        let mut found = names.filter(|(key, _)| *key == wanted);
        found
            .next()
            .map(|(_, value)| value.to_owned())
            .unwrap_or_default()
    };
    let (namespace, mut name) = (named("namespace"), named("name"));
    let verb = if verb == "delete" && name.is_empty() {
        "deletecollection"
    } else {
        verb
    };
    let uri = parts.uri.clone();
    let headers = parts.headers.clone();
    let user = parts.extensions.get::<User>().cloned();
    let peer = parts
        .extensions
        .get::<SocketAddr>()
        .map(|peer| peer.ip().to_string());

    let body_slot = BodySlot::default();
    if log.level == AuditLevel::Request {
        parts.extensions.insert(body_slot.clone());
    }
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let request_object = body_slot
        .0
        .get()
        .and_then(|body| as_json(api, &headers, body));

    if let Some(ObjectName(chosen)) = response.extensions_mut().remove::<ObjectName>() {
        name = chosen;
    }
    // A delete that was done answers with a Status, too.
    let failure = response.extensions().get::<Status>();
    let failure = failure.filter(|_| !response.status().is_success());
    let user = user.as_ref();
    let record = Record {
        kind: "Event",
        api_version: "audit.k8s.io/v1",
        level: match log.level {
            AuditLevel::Metadata => "Metadata",
            AuditLevel::Request => "Request",
        },
        audit_id: text(&headers, &AUDIT_ID),
        stage: "ResponseComplete",
        request_uri: cut(uri.path_and_query().map_or("", |path| path.as_str())),
        verb,
        user: UserInfo {
            username: user.map_or("", |user| &user.name),
            uid: user.map_or("", |user| &user.uid),
            groups: user.map_or(&[], |user| &user.groups),
        },
        source_ips: peer.into_iter().collect(),
        user_agent: text(&headers, &header::USER_AGENT),
        object_ref: ObjectRef {
            resource: "events",
            namespace: cut(&namespace),
            name: cut(&name),
            api_group: api.group(),
            api_version: "v1",
        },
        response_status: ResponseStatus {
            metadata: Empty {},
            status: failure.map_or("", |_| "Failure"),
            message: failure.map_or("", |status| cut(status.message())),
            reason: failure.map_or("", Status::reason),
            code: response.status().as_u16(),
        },
        request_object,
        request_received_timestamp: micro_time(received),
        stage_timestamp: micro_time(server.clock.now()),
    };
    // Strings and numbers only: this cannot fail.
    let mut line = serde_json::to_vec(&record).unwrap_or_default();
    line.push(b'\n');
    log.push(line);
    response
}

fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    cut(value.unwrap_or_default())
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// A body as JSON; none if it is empty, or no event or patch.
fn as_json(api: Api, headers: &HeaderMap, body: &Bytes) -> Option<Value> {
    if body.is_empty() {
        return None;
    }
    match body_media(headers) {
        Ok(Media::Protobuf) => {
            let enveloped = codec::protobuf::open(body).ok()?;
            let event = codec::read_protobuf_event(api, enveloped.raw).ok()?;
            let mut json = Vec::new();
            codec::write_event(api, &event, true, &mut json);
            serde_json::from_slice(&json).ok()
        }
        Ok(Media::Json) => serde_json::from_slice(body).ok(),
        // An applied configuration is YAML, the other patches are JSON, which is YAML, too.
        Ok(Media::Yaml) | Err(_) => serde_saphyr::from_slice(body).ok(),
    }
}
