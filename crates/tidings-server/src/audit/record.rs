//! The audit entry of a write, in the form of `k8s.io/apiserver/pkg/apis/audit/v1`.
//!
//! Every write has a line. Texts from clients are cut, so that a line without a body always fits. A
//! body that does not fit is omitted, with the annotation of kube-apiserver's `truncate` backend.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::object::{self, Expected};
use super::queue::Whose;
use super::text::{TEXT_BYTES_MAX, URI_BYTES_MAX, Who, cut};
use super::{AuditLevel, AuditLog};
use crate::auth::{AUTHENTICATED, Identity};
use crate::http::request::{FEEDS, RequestInfo, is_at_or_below};
use crate::http::status::Status;
use tidings_api::codec::Api;

/// The header with the audit id, in both requests and answers.
pub(crate) static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Annotation of an entry whose body was left out.
const TRUNCATED: (&str, &str) = ("audit.k8s.io/truncated", "true");
/// Annotation of a dry run.
const DRY_RUN: (&str, &str) = ("tidings/dry-run", "All");
/// Annotation with the followed cluster of the events. The URI in the entry is without the
/// cluster's prefix.
const CLUSTER: &str = "tidings/cluster";

/// Facts that the handler of a write reports for its entry. They survive the handler's deadline or
/// panic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    wants_body: bool,
    body: OnceLock<Bytes>,
    name: Mutex<String>,
    dry_run: AtomicBool,
    served: AtomicBool,
}

impl Notes {
    /// Reports the body, which was read within the request's limits of size and time.
    pub(crate) fn body(&self, body: &Bytes) {
        if self.0.wants_body {
            // The body is set once for each request.
            let _ = self.0.body.set(body.clone());
        }
    }

    /// Reports the name of the created event: the body's, or a generated one.
    pub(crate) fn name(&self, name: &str) {
        let name = cut(name, TEXT_BYTES_MAX).into_owned();
        *self.0.name.lock() = name;
    }

    /// Reports that the request was authorized and has its place in flight.
    pub(crate) fn served(&self) {
        self.0.served.store(true, Ordering::Relaxed);
    }

    /// Reports that the request is a dry run.
    pub(crate) fn dry_run(&self) {
        self.0.dry_run.store(true, Ordering::Relaxed);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: Cow<'a, str>,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: Cow<'a, str>,
    verb: &'static str,
    user: Who<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Who<'a>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: Cow<'a, str>,
    /// Requests of feeds have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef<'a>>,
    response_status: ResponseStatus<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, &'a str>,
}

impl Record<'_> {
    fn line(&self) -> Vec<u8> {
        // Strings and numbers only, so this cannot fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef<'a> {
    resource: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: Cow<'a, str>,
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
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

/// The entry of a write in progress.
pub(crate) struct Entry {
    log: Arc<AuditLog>,
    api: Api,
    verb: &'static str,
    identity: Identity,
    received: Timestamp,
    info: Arc<RequestInfo>,
    headers: HeaderMap,
    peer: Option<SocketAddr>,
    notes: Notes,
    /// The followed cluster of the events, in an archive.
    cluster: Option<String>,
    /// Held until the line is queued, because the log must not close before.
    _open: Option<OwnedSemaphorePermit>,
}

impl Entry {
    /// Starts the entry of a request that writes events or acts on feeds; `None` for others.
    pub(crate) fn begin(
        log: &Arc<AuditLog>,
        received: Timestamp,
        info: &Arc<RequestInfo>,
        cluster: Option<&str>,
        identity: Identity,
        request: &mut Request,
    ) -> Option<Self> {
        let is_of_events = info.labels.resource == "events";
        let verb = match info.labels.verb {
            "POST" if is_of_events => "create",
            "PUT" if is_of_events => "update",
            "PATCH" | "APPLY" if is_of_events => "patch",
            "DELETE" if is_of_events => "delete",
            "DELETECOLLECTION" if is_of_events => "deletecollection",
            // The verb of a path that is no resource is the method.
            "POST" if is_at_or_below(info.uri.path(), FEEDS) => "post",
            _ => return None,
        };
        let notes = Notes(Arc::new(Noted {
            wants_body: log.level == AuditLevel::Request,
            ..Noted::default()
        }));
        request.extensions_mut().insert(notes.clone());
        Some(Self {
            log: Arc::clone(log),
            api: Api::of_group(&info.group),
            verb,
            identity,
            received,
            info: Arc::clone(info),
            headers: request.headers().clone(),
            peer: request.extensions().get().copied(),
            notes,
            cluster: cluster.map(str::to_owned),
            _open: log.open_entry(),
        })
    }

    /// Writes the entry, with the result of the request. It waits for a bounded time if the queue
    /// is full.
    pub(crate) async fn write(&self, now: Timestamp, code: StatusCode, failure: Option<&Status>) {
        let log = &*self.log;
        let whose = self.whose(code);
        let line = {
            let mut record = self.record(now, code, failure);
            if let Some(body) = self.notes.0.body.get().filter(|body| !body.is_empty()) {
                let bytes_max = log.event_bytes_max;
                record.request_object =
                    object::read(self.expected(), &self.headers, body, bytes_max);
                let whole = record.request_object.is_some().then(|| record.line());
                let fits = |line: &Vec<u8>| line.len() <= bytes_max;
                if let Some(line) = whole.filter(fits)
                    && log.offer_with_body(line, whose).is_ok()
                {
                    return;
                }
                record.request_object = None;
                record.annotations.extend([TRUNCATED]);
                log.count_truncated();
            }
            record.line()
        };
        log.push(line, whose).await;
    }

    fn whose(&self, code: StatusCode) -> Whose {
        let user = self.identity.user.as_deref();
        let known = user.is_some_and(|user| user.groups.iter().any(|group| group == AUTHENTICATED));
        let served = self.notes.0.served.load(Ordering::Relaxed);
        match known {
            false => Whose::Unknown,
            // A PUT may become a create, which needs another permission, so it can be forbidden
            // after it was served.
            true if !served || code == StatusCode::FORBIDDEN => Whose::Refused,
            true => Whose::Known,
        }
    }

    fn expected(&self) -> Expected {
        match self.verb {
            "delete" | "deletecollection" => Expected::DeleteOptions,
            _ => Expected::Event(self.api),
        }
    }

    fn is_dry_run(&self) -> bool {
        // As the handler reported it or, if the handler was not reached, as the query says.
        self.notes.0.dry_run.load(Ordering::Relaxed) || self.info.query.asks_for_dry_run()
    }

    /// The record of the write, without a body.
    fn record<'a>(
        &'a self,
        now: Timestamp,
        code: StatusCode,
        failure: Option<&'a Status>,
    ) -> Record<'a> {
        let text = |text: &'a str| cut(text, TEXT_BYTES_MAX);
        let header = |name| self.headers.get(name).map(http::HeaderValue::as_bytes);
        let header = |name| super::text::header(header(name).unwrap_or_default());
        let noted = self.notes.0.name.lock().clone();
        let uri = self.info.uri.path_and_query();
        let user = self.identity.user.as_deref();
        Record {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: match self.log.level {
                AuditLevel::Metadata => "Metadata",
                AuditLevel::Request => "Request",
            },
            audit_id: header(&AUDIT_ID),
            stage: "ResponseComplete",
            request_uri: cut(uri.map_or("", |uri| uri.as_str()), URI_BYTES_MAX),
            verb: self.verb,
            user: user.map(Who::of).unwrap_or_default(),
            impersonated_user: self.identity.impersonated.as_deref().map(Who::of),
            source_ips: self.peer.iter().map(|peer| peer.ip().to_string()).collect(),
            user_agent: header(&header::USER_AGENT),
            object_ref: (self.info.labels.resource == "events").then(|| ObjectRef {
                resource: "events",
                namespace: text(&self.info.namespace),
                name: if noted.is_empty() {
                    text(&self.info.name)
                } else {
                    noted.into()
                },
                api_group: self.api.group(),
                api_version: "v1",
            }),
            response_status: ResponseStatus {
                metadata: Empty {},
                status: failure.map_or("", |_| "Failure"),
                message: text(failure.map_or("", Status::message)),
                reason: failure.map_or("", Status::reason),
                code: code.as_u16(),
            },
            request_object: None,
            request_received_timestamp: micro_time(self.received),
            stage_timestamp: micro_time(now),
            annotations: {
                let cluster = self.cluster.as_deref().map(|name| (CLUSTER, name));
                let dry_run = self.is_dry_run().then_some(DRY_RUN);
                cluster.into_iter().chain(dry_run).collect()
            },
        }
    }
}

fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::path::Path;

    use http::{HeaderValue, Uri};

    use super::super::text::METADATA_BYTES_MAX;
    use super::*;
    use crate::audit::AuditOptions;
    use crate::auth::{User, UserInfo};
    use crate::clock::SystemClock;

    fn log(folder: &Path) -> Arc<AuditLog> {
        let options = AuditOptions::new(folder.join("audit.log"));
        Arc::new(AuditLog::open(options, Arc::new(SystemClock)).unwrap())
    }

    fn entry(log: Arc<AuditLog>, user: Option<User>, notes: Notes) -> Entry {
        Entry {
            log,
            api: Api::Events,
            verb: "deletecollection",
            identity: Identity {
                user,
                impersonated: None,
            },
            received: Timestamp::MAX,
            info: Arc::default(),
            headers: HeaderMap::new(),
            peer: None,
            notes,
            cluster: Some("c".repeat(63)),
            _open: None,
        }
    }

    #[test]
    fn a_line_without_a_body_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let long = "\u{1}".repeat(100_000);
        let user = || {
            Some(User::exactly(UserInfo {
                name: long.clone(),
                uid: long.clone(),
                groups: vec!["\"".repeat(150); 1000],
                extra: [("a".to_owned(), vec!["\"".repeat(150); 1000])].into(),
            }))
        };
        let uri = format!("/{}", "\"".repeat(60_000));
        let header = HeaderValue::from_str(&"\"".repeat(100_000)).unwrap();
        let notes = Notes::default();
        notes.name(&long);
        notes.dry_run();
        let entry = Entry {
            identity: Identity {
                user: user(),
                impersonated: user(),
            },
            info: Arc::new(RequestInfo {
                uri: Uri::builder().path_and_query(uri).build().unwrap(),
                namespace: long.clone(),
                name: long.clone(),
                ..RequestInfo::default()
            }),
            headers: [(AUDIT_ID.clone(), &header), (header::USER_AGENT, &header)]
                .map(|(name, value)| (name, value.clone()))
                .into_iter()
                .collect(),
            peer: Some((IpAddr::from([0xffff_u16; 8]), 1).into()),
            ..entry(log(folder.path()), None, notes)
        };
        let failure = Status::bad_request(long.clone());
        let code = StatusCode::BAD_REQUEST;
        let mut record = entry.record(Timestamp::MAX, code, Some(&failure));
        record.annotations.extend([TRUNCATED]);
        let len = record.line().len();
        // The line is not far from the maximum either: every part is as long as possible.
        assert!(
            (METADATA_BYTES_MAX * 3 / 4..=METADATA_BYTES_MAX).contains(&len),
            "{len}"
        );
    }

    #[test]
    fn what_was_not_served_is_not_among_the_lines_that_others_wait_for() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let ann = User::new("ann", "", []);
        for (user, served, code, expected) in [
            (Some(ann.clone()), true, 201, Whose::Known),
            (Some(ann.clone()), true, 409, Whose::Known),
            (Some(ann.clone()), true, 403, Whose::Refused),
            (Some(ann.clone()), false, 403, Whose::Refused),
            (Some(ann), false, 429, Whose::Refused),
            (Some(User::anonymous()), true, 201, Whose::Unknown),
            (None, false, 401, Whose::Unknown),
        ] {
            let notes = Notes::default();
            if served {
                notes.served();
            }
            let entry = entry(Arc::clone(&log), user, notes);
            let code = StatusCode::from_u16(code).unwrap();
            assert_eq!(entry.whose(code), expected, "{served} {code}");
        }
    }
}
