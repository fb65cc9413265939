//! What is said of a write: `k8s.io/apiserver/pkg/apis/audit/v1`, as far as it makes sense here.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::RequestExt;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Uri, header};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::AuditLevel;
use crate::auth::UserInfo;
use crate::codec::{self, Api};
use crate::error::Status;
use crate::metrics::RequestKind;
use crate::negotiate::{Media, body_media};
use crate::routes::{AUDIT_ID, Identity};
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
    user: &'a UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'a UserInfo>,
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

/// A write of events that is under way: what is known of it before it is answered.
pub(crate) struct Entry {
    api: Api,
    verb: &'static str,
    identity: Identity,
    received: Timestamp,
    uri: Uri,
    headers: HeaderMap,
    peer: Option<SocketAddr>,
    namespace: String,
    name: String,
    body: BodySlot,
}

impl Entry {
    /// The entry of a request that writes events, or tries to, if there is a log for it.
    pub(crate) async fn begin(
        server: &ApiServer,
        kind: RequestKind,
        identity: Identity,
        request: &mut Request,
    ) -> Option<Self> {
        let log = server
            .audit
            .as_ref()
            .filter(|_| kind.resource == "events")?;
        let verb = match kind.verb {
            "POST" => "create",
            "PUT" => "update",
            "PATCH" | "APPLY" => "patch",
            "DELETE" => "delete",
            "DELETECOLLECTION" => "deletecollection",
            _ => return None,
        };
        let api = Api::of_group(kind.group);
        let names: Option<RawPathParams> = request.extract_parts().await.ok();
        let named = |wanted: &str| {
            let mut names = names.iter().flat_map(RawPathParams::iter);
            let found = names.find(|(key, _)| *key == wanted);
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let (namespace, name) = (named("namespace"), named("name"));
        let body = BodySlot::default();
        if log.level == AuditLevel::Request {
            request.extensions_mut().insert(body.clone());
        }
        Some(Self {
            api,
            verb,
            identity,
            received: server.clock.now(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
            peer: request.extensions().get().copied(),
            namespace,
            name,
            body,
        })
    }

    /// Writes down what came of it.
    pub(crate) fn write(&self, server: &ApiServer, response: &mut Response) {
        let Some(log) = &server.audit else { return };
        let chosen = response.extensions_mut().remove::<ObjectName>();
        let name = chosen.as_ref().map_or(&self.name, |ObjectName(name)| name);
        // A delete that was done answers with a Status, too.
        let failure = response.extensions().get::<Status>();
        let failure = failure.filter(|_| !response.status().is_success());
        let body = self.body.0.get();
        let nobody = UserInfo::default();
        let record = Record {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: match log.level {
                AuditLevel::Metadata => "Metadata",
                AuditLevel::Request => "Request",
            },
            audit_id: text(&self.headers, &AUDIT_ID),
            stage: "ResponseComplete",
            request_uri: cut(self.uri.path_and_query().map_or("", |path| path.as_str())),
            verb: self.verb,
            user: self.identity.user.as_deref().unwrap_or(&nobody),
            impersonated_user: self.identity.impersonated.as_deref(),
            source_ips: self.peer.iter().map(|peer| peer.ip().to_string()).collect(),
            user_agent: text(&self.headers, &header::USER_AGENT),
            object_ref: ObjectRef {
                resource: "events",
                namespace: cut(&self.namespace),
                name: cut(name),
                api_group: self.api.group(),
                api_version: "v1",
            },
            response_status: ResponseStatus {
                metadata: Empty {},
                status: failure.map_or("", |_| "Failure"),
                message: failure.map_or("", |status| cut(status.message())),
                reason: failure.map_or("", Status::reason),
                code: response.status().as_u16(),
            },
            request_object: body.and_then(|body| as_json(self.api, &self.headers, body)),
            request_received_timestamp: micro_time(self.received),
            stage_timestamp: micro_time(server.clock.now()),
        };
        // Strings and numbers only: this cannot fail.
        let mut line = serde_json::to_vec(&record).unwrap_or_default();
        line.push(b'\n');
        log.push(line);
    }
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
