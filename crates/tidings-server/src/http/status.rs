//! `Status`, the form of every error and of a successful delete.
//!
//! It is made from the errors of the crates below, and knows nothing of requests. Reasons, codes
//! and messages are those of `k8s.io/apimachinery/pkg/api/errors`. A Status is bounded, however
//! long the refused input is: each part has a maximum, and together they take less than 64 KiB as
//! indented JSON.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use tidings_core::validate::{FieldError, FieldErrors, Quoted, bounded_text};
use tidings_history::Unwatched;
use tidings_store::{Fault, ReadError, WriteError};

use crate::http::warnings::warn;
use tidings_api::bounded::{BoundedList, and_more, text_len};
use tidings_api::codec::Api;
use tidings_api::managed::Conflict;

/// Maximum length of the message. This and all other lengths here are in bytes of JSON.
pub(crate) const MESSAGE_BYTES_MAX: usize = 24 * 1024;
/// Maximum length of a list of reasons within a message.
const LIST_BYTES_MAX: usize = 20 * 1024;
/// Maximum length of a list of causes, indented.
const CAUSES_BYTES_MAX: usize = 24 * 1024;
/// Bytes of a cause without its texts.
const CAUSE_BYTES: usize = 160;
/// Maximum length of each name, group, kind and uid in the details.
const DETAIL_BYTES_MAX: usize = 2 * 1024;
/// Maximum length of a continue token. No key of an event is as long.
const CONTINUE_BYTES_MAX: usize = 4 * 1024;

/// An HTTP code and the reason that goes with it (`metav1.StatusReason`).
pub(crate) type Reason = (StatusCode, &'static str);

/// The kind of the details if a Status is about the clusters of an archive.
const CLUSTERS: &str = "clusters";

const BAD_REQUEST: Reason = (StatusCode::BAD_REQUEST, "BadRequest");
pub(crate) const UNAUTHORIZED: Reason = (StatusCode::UNAUTHORIZED, "Unauthorized");
pub(crate) const FORBIDDEN: Reason = (StatusCode::FORBIDDEN, "Forbidden");
const NOT_FOUND: Reason = (StatusCode::NOT_FOUND, "NotFound");
const MISDIRECTED: Reason = (StatusCode::MISDIRECTED_REQUEST, "BadRequest");
const METHOD_NOT_ALLOWED: Reason = (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed");
const NOT_ACCEPTABLE: Reason = (StatusCode::NOT_ACCEPTABLE, "NotAcceptable");
const ALREADY_EXISTS: Reason = (StatusCode::CONFLICT, "AlreadyExists");
const CONFLICT: Reason = (StatusCode::CONFLICT, "Conflict");
const EXPIRED: Reason = (StatusCode::GONE, "Expired");
const TOO_LARGE: Reason = (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge");
const UNSUPPORTED_MEDIA_TYPE: Reason = (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType");
const INVALID: Reason = (StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
const TOO_MANY_REQUESTS: Reason = (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests");
const INTERNAL_ERROR: Reason = (StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
const UNAVAILABLE: Reason = (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
const TIMEOUT: Reason = (StatusCode::GATEWAY_TIMEOUT, "Timeout");
const NO_SPACE: Reason = (StatusCode::INSUFFICIENT_STORAGE, "InternalError");
/// Unexpected errors of kube-apiserver have no reason.
const UNEXPECTED: Reason = (StatusCode::INTERNAL_SERVER_ERROR, "");
const BAD_GATEWAY: Reason = (StatusCode::BAD_GATEWAY, "");

/// A Kubernetes `Status` for a client.
#[derive(Clone, Debug)]
pub(crate) struct Status(Box<Body>);

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    /// Texts for `Warning` headers.
    #[serde(skip)]
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Metadata {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

/// The object that a Status is about, with causes and the time of a retry.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u32>,
}

impl Details {
    fn of_event(api: Api, name: &str) -> Self {
        Self {
            name: name.into(),
            group: api.group().into(),
            kind: api.plural().into(),
            ..Self::default()
        }
    }
}

/// One of several reasons for an error.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatusCause {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

impl Status {
    pub(crate) fn of((code, reason): Reason, message: impl Display) -> Self {
        Self(Box::new(Body {
            kind: "Status",
            api_version: "v1",
            metadata: Metadata::default(),
            status: "Failure",
            message: bounded_text(message, MESSAGE_BYTES_MAX),
            reason,
            details: None,
            code: Some(code.as_u16()),
            warnings: Vec::new(),
        }))
    }

    /// A Status with empty details, as upstream's generic server responses have them.
    fn generic(reason: Reason, message: impl Display) -> Self {
        Self::of(reason, message).details(Details::default())
    }

    fn retry_after_seconds(mut self, seconds: u32) -> Self {
        let details = self.0.details.get_or_insert_default();
        details.retry_after_seconds = Some(seconds);
        self
    }

    fn about_kind(self, kind: &str, name: &str) -> Self {
        self.details(Details {
            name: name.into(),
            kind: kind.into(),
            ..Details::default()
        })
    }

    /// Adds warnings about the request.
    pub(crate) fn warning(mut self, warnings: &[String]) -> Self {
        self.0.warnings.extend_from_slice(warnings);
        self
    }

    pub(crate) fn details(mut self, details: Details) -> Self {
        let Details {
            name,
            group,
            kind,
            uid,
            ..
        } = &details;
        let [name, group, kind, uid] =
            [name, group, kind, uid].map(|text| bounded_text(text, DETAIL_BYTES_MAX));
        self.0.details = Some(Details {
            name,
            group,
            kind,
            uid,
            ..details
        });
        self
    }

    fn about(self, api: Api, name: &str) -> Self {
        self.details(Details::of_event(api, name))
    }

    /// The answer to a successful delete.
    pub(crate) fn deleted(api: Api, name: &str, uid: &str) -> Self {
        let mut status = Self::of((StatusCode::OK, ""), "").about(api, name);
        status.0.status = "Success";
        status.0.code = None;
        if let Some(details) = &mut status.0.details {
            details.uid = uid.into();
        }
        status
    }

    pub(crate) fn bad_request(message: impl Display) -> Self {
        Self::of(BAD_REQUEST, message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::of(UNAUTHORIZED, "Unauthorized")
    }

    /// The same Status for a path of a cluster of an archive; a 401 says so. Whoever is not known
    /// does not learn whether the cluster exists. Clients recognize it by its details' kind.
    pub(crate) fn at_cluster(mut self) -> Self {
        if self.code() == StatusCode::UNAUTHORIZED {
            self.0.message = "Unauthorized: the archive has no cluster of this name, or neither \
                              that cluster nor the archive knows these credentials"
                .into();
            return self.about_kind(CLUSTERS, "");
        }
        self
    }

    /// 503: the cluster that must check a token or a permission does not answer. A retry may
    /// succeed.
    pub(crate) fn cannot_check() -> Self {
        Self::unavailable("the credentials or permissions of this request could not be checked")
    }

    /// The same Status, whose message also says which clusters it is about.
    pub(crate) fn about_clusters(mut self, which: &dyn Display) -> Self {
        let message = &mut self.0.message;
        *message = format!("{message} ({which})");
        self
    }

    pub(crate) fn not_found(api: Api, name: &str) -> Self {
        let message = format!("{} {} not found", api.resource(), Quoted(name));
        Self::of(NOT_FOUND, message).about(api, name)
    }

    /// 404: the path is unknown.
    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::generic(NOT_FOUND, message)
    }

    /// 404: an archive follows no cluster of this name.
    pub(crate) fn no_such_cluster(name: &str) -> Self {
        let message = format!("clusters {} not found", Quoted(name));
        Self::of(NOT_FOUND, message).about_kind(CLUSTERS, name)
    }

    /// 403: a page of another host made the request.
    pub(crate) fn of_foreign_page() -> Self {
        let message = "the request was not made by a page of this host: its Origin is another";
        Self::of(FORBIDDEN, message)
    }

    /// 421: the request is for another host.
    pub(crate) fn misdirected(message: &str) -> Self {
        Self::of(MISDIRECTED, message)
    }

    /// 401: only the printed link gives access.
    pub(crate) fn open_the_link() -> Self {
        let message = "open the link that tidings printed; it is valid once";
        Self::of(UNAUTHORIZED, message)
    }

    /// 403: a user of one cluster logs in to the timeline of several, and does not say of which.
    pub(crate) fn of_which_cluster(user: &str) -> Self {
        let message = format!(
            "user {} may list no events of the archive's clusters without the name of the cluster \
             that knows the token",
            Quoted(user)
        );
        Self::of(FORBIDDEN, message)
    }

    /// 403: the link is used or unknown.
    pub(crate) fn link_is_used() -> Self {
        let message =
            "this link is no longer valid: each is valid once; start tidings again for another";
        Self::of(FORBIDDEN, message)
    }

    /// 404: an archive of several clusters serves events only below the clusters' names.
    pub(crate) fn name_a_cluster() -> Self {
        let message = "the server could not find the requested resource: the API of each cluster \
                       of this archive is below /clusters/NAME, and /clusters lists the names";
        Self::of(NOT_FOUND, message).about_kind(CLUSTERS, "")
    }

    fn not_allowed(message: impl Display) -> Self {
        Self::generic(METHOD_NOT_ALLOWED, message)
    }

    /// 405: only the followed cluster writes events of an archive.
    pub(crate) fn read_only(cluster: &str) -> Self {
        let cluster = Quoted(cluster);
        Self::not_allowed(format_args!(
            "this is an archive of the events of cluster {cluster}: they can be read and deleted, not written"
        ))
    }

    /// 405: sealed events cannot be changed.
    pub(crate) fn sealed(cluster: &str) -> Self {
        let cluster = Quoted(cluster);
        Self::not_allowed(format_args!(
            "this is a sealed archive of the events of cluster {cluster}: they can be read, not written or deleted"
        ))
    }

    /// 405: the events of the cluster cannot be watched here, but may be elsewhere.
    pub(crate) fn unwatched(cluster: &str, unwatched: &Unwatched) -> Self {
        let cluster = Quoted(cluster);
        let address = unwatched.address.as_ref();
        let at = address.map_or_else(String::new, |address| format!(": {address}"));
        let with = unwatched.option.map_or_else(String::new, |option| {
            format!(", and so can this server if it is started with {option}")
        });
        Self::not_allowed(format_args!(
            "watch is not supported: this is a sealed archive of the events of cluster {cluster}; \
             the cluster itself, and an archive that follows it, can be watched{at}{with}"
        ))
    }

    /// 405: sealed events are not exported, because other engines can read their files.
    pub(crate) fn unexported(cluster: &str) -> Self {
        let cluster = Quoted(cluster);
        Self::not_allowed(format_args!(
            "export is not supported: this is a sealed archive of the events of cluster {cluster}, whose files are \
             open to every engine that reads Parquet"
        ))
    }

    /// 404: the events of a cluster are not sealed here, and never were.
    pub(crate) fn not_sealed(cluster: &str) -> Self {
        let message = format!(
            "the events of cluster {} are not sealed into an object storage here",
            Quoted(cluster)
        );
        Self::generic(NOT_FOUND, message)
    }

    /// The Status of a feed that could not be shown or changed.
    pub(crate) fn of_feeds(code: StatusCode, message: impl Display) -> Self {
        match code {
            StatusCode::NOT_FOUND => Self::of(NOT_FOUND, message),
            StatusCode::CONFLICT => Self::of(CONFLICT, message),
            StatusCode::METHOD_NOT_ALLOWED => Self::method_not_allowed(),
            _ => Self::internal(message),
        }
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::not_allowed("the server does not allow this method on the requested resource")
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::of(NOT_ACCEPTABLE, message)
    }

    /// 406: the client accepts none of these types. It is an answer of go-restful, kube-apiserver's
    /// router.
    pub(crate) fn not_representable(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::generic(NOT_ACCEPTABLE, message)
    }

    /// 406: the requested `as` does not fit the kind of the answer.
    pub(crate) fn shape_mismatch(message: &str) -> Self {
        Self::of(NOT_ACCEPTABLE, message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::of(UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// 415: the Content-Type is not a patch type. It is an answer of go-restful, kube-apiserver's
    /// router.
    pub(crate) fn unsupported_patch() -> Self {
        Self::generic(UNSUPPORTED_MEDIA_TYPE, "415: Unsupported Media Type")
    }

    pub(crate) fn too_large(why: impl Display) -> Self {
        Self::of(TOO_LARGE, format_args!("Request entity too large: {why}"))
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::too_large(format_args!("limit is {limit}"))
    }

    /// 413: an event is larger than the server accepts.
    pub(crate) fn event_too_large(len: usize, limit: usize) -> Self {
        Self::too_large(format_args!(
            "the event is {len} bytes long as stored, the limit is {limit}"
        ))
    }

    /// 429: a rate limit is reached. It has no Retry-After, so that recorders drop the event.
    pub(crate) fn too_many_requests(message: &str) -> Self {
        Self::of(TOO_MANY_REQUESTS, format!("Too many requests: {message}"))
    }

    /// 429: the memory for answers is used up, and the wait for it was too long or its queue is
    /// full.
    pub(crate) fn out_of_memory() -> Self {
        let why = "the memory for answers is in use, please try again later";
        Self::too_many_requests(why).retry_after_seconds(1)
    }

    pub(crate) fn namespace_not_found(namespace: &str) -> Self {
        let message = format!("namespaces {} not found", Quoted(namespace));
        Self::of(NOT_FOUND, message).about_kind("namespaces", namespace)
    }

    /// 403: the namespace is terminating. Recorders recognize this error by its cause and drop the
    /// event silently.
    pub(crate) fn namespace_terminating(api: Api, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} {} is forbidden: unable to create new content in namespace {namespace} because it is being \
             terminated",
            api.resource(),
            Quoted(name)
        );
        let cause = StatusCause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        };
        Self::of(FORBIDDEN, message).details(Details {
            causes: vec![cause],
            ..Details::of_event(api, name)
        })
    }

    pub(crate) fn already_exists(api: Api, name: &str) -> Self {
        let message = format!("{} {} already exists", api.resource(), Quoted(name));
        Self::of(ALREADY_EXISTS, message).about(api, name)
    }

    /// Changes "already exists" for an event that is deleted and waits for its finalizers.
    pub(crate) fn still_exists(mut self) -> Self {
        self.0.message.insert_str(0, "object is being deleted: ");
        self
    }

    /// 409: the name of an event with a base of generated names is taken, even if not generated. A
    /// retry may succeed. kube-apiserver words it for core/v1 in both groups.
    pub(crate) fn generated_name_taken(name: &str) -> Self {
        let why = "the server was not able to generate a unique name for the object";
        let mut status = Self::already_exists(Api::Core, name).retry_after_seconds(1);
        status.0.message.push_str(", ");
        status.0.message.push_str(why);
        status
    }

    pub(crate) fn conflict(api: Api, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            api.resource(),
            Quoted(name)
        );
        Self::of(CONFLICT, message).about(api, name)
    }

    /// 409: other managers own fields that would be applied.
    pub(crate) fn apply_conflicts(conflicts: &[Conflict]) -> Self {
        let causes = conflicts.iter().map(|Conflict { manager, field }| {
            let message = ConflictWith(manager);
            ("FieldManagerConflict", message, field.as_str())
        });
        let details = Details {
            causes: bounded_causes(causes, 0),
            ..Details::default()
        };
        if let [Conflict { manager, field }] = conflicts {
            return Self::of(
                CONFLICT,
                format_args!("Apply failed with 1 conflict: conflict with {manager}: {field}"),
            )
            .details(details);
        }
        let mut lines = BoundedList::new("\n", LIST_BYTES_MAX);
        let mut manager = "";
        for conflict in conflicts {
            let Conflict { manager: of, field } = conflict;
            if **of == *manager {
                lines.push(format_args!("- {field}"));
            } else {
                manager = of;
                lines.push(format_args!("conflicts with {manager}:\n- {field}"));
            }
        }
        let (count, lines) = (conflicts.len(), lines.finish());
        let message = format!("Apply failed with {count} conflicts: {lines}");
        Self::of(CONFLICT, message).details(details)
    }

    pub(crate) fn modified(api: Api, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(api, name, why)
    }

    /// 422: the object or the options are invalid. `group` is empty for events of both versions, as
    /// upstream.
    pub(crate) fn invalid(kind: &str, group: &str, name: &str, errors: &FieldErrors) -> Self {
        let mut told = BTreeSet::new();
        let mut list = BoundedList::new(", ", LIST_BYTES_MAX);
        for error in errors.iter() {
            let text = format!("{}: {error}", error.field);
            if !told.contains(&text) {
                list.push(&text);
                told.insert(text);
            }
        }
        list.leave_out(errors.more());
        let list = match list.items() {
            1 => list.finish(),
            _ => format!("[{}]", list.finish()),
        };
        let dot = if group.is_empty() { "" } else { "." };
        let causes = errors.iter().map(|error| {
            let FieldError { cause, field, .. } = error;
            (cause.reason(), error, field.as_str())
        });
        let name_told = bounded_text(Quoted(name), DETAIL_BYTES_MAX);
        Self::of(
            INVALID,
            format_args!("{kind}{dot}{group} {name_told} is invalid: {list}"),
        )
        .details(Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: bounded_causes(causes, errors.more()),
            ..Details::default()
        })
    }

    /// 422: the patched object is not a valid object of its kind.
    pub(crate) fn invalid_patched_object(patched: impl Display, why: &str) -> Self {
        let patched = bounded_text(patched, MESSAGE_BYTES_MAX);
        let error = FieldError::invalid("patch", &patched, why);
        Self::invalid("", "", "", &error.into())
    }

    /// 422: the patch is well-formed but cannot be applied to this object. Upstream does not say
    /// why.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::generic(INVALID, message)
    }

    /// 409: the preconditions of a delete do not hold. The message names the kind, not the
    /// resource.
    pub(crate) fn precondition_failed(name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on Event {}: {why}",
            Quoted(name)
        );
        Self::of(CONFLICT, message).about_kind("Event", name)
    }

    /// 410: the history no longer reaches back. `continue_token` resumes the list at the latest
    /// revision.
    pub(crate) fn expired(message: &str, continue_token: Option<String>) -> Self {
        let mut status = Self::of(EXPIRED, message);
        status.0.metadata.continue_token = continue_token
            .filter(|token| token.len() <= CONTINUE_BYTES_MAX)
            .unwrap_or_default();
        status
    }

    pub(crate) fn watch_expired() -> Self {
        let message = "The resourceVersion for the provided watch is too old.";
        Self::expired(message, None)
    }

    pub(crate) fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        Self::of(TIMEOUT, format!("Timeout: {message}")).details(Details {
            causes: vec![StatusCause {
                reason: "ResourceVersionTooLarge",
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            ..Details::default()
        })
    }

    /// Asks the client to wait: its watch begins with the existing events.
    pub(crate) fn worth_waiting_for(self) -> Self {
        self.retry_after_seconds(2)
    }

    pub(crate) fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::generic(TIMEOUT, message)
    }

    /// 500, without a reason.
    pub(crate) fn internal(message: impl Display) -> Self {
        Self::of(UNEXPECTED, message)
    }

    pub(crate) fn unavailable(message: impl Display) -> Self {
        Self::of(UNAVAILABLE, message).retry_after_seconds(1)
    }

    /// 503: a followed cluster does not answer a proxied request. A retry may succeed.
    pub(crate) fn cluster_unavailable(cluster: &str) -> Self {
        Self::unavailable(format_args!(
            "cluster {} cannot be reached; its kept events can be read all the same",
            Quoted(cluster)
        ))
    }

    /// 502: a followed cluster gave an invalid answer.
    pub(crate) fn bad_gateway(cluster: &str) -> Self {
        let message = format!("cluster {} did not answer as it should", Quoted(cluster));
        Self::of(BAD_GATEWAY, message)
    }

    /// The error of a request that cannot be proxied with the caller's credentials.
    pub(crate) fn not_passed_on(reason: Reason, cluster: &str, why: &str) -> Self {
        let message = format!(
            "only events are kept here, and other requests are passed on to cluster {} with the caller's own token: {why}",
            Quoted(cluster)
        );
        Self::generic(reason, message)
    }

    fn fault(fault: &Fault) -> Self {
        match fault {
            Fault::Closed => Self::unavailable("the server is shutting down"),
            Fault::NoSpace => Self::of(NO_SPACE, "no space left in the event store"),
            // As for etcd's own timeouts: the outcome is unknown, and the client must read before
            // it tries again.
            Fault::Unknown(_) => {
                tracing::warn!(error = %fault, "the outcome of a write is unknown");
                Self::generic(
                    TIMEOUT,
                    format!("Timeout: {fault}; it may have been done, read before trying again"),
                )
            }
            other => {
                tracing::error!(error = %other, "the store failed");
                Self::of(INTERNAL_ERROR, format!("Internal error occurred: {other}"))
            }
        }
    }

    /// 500: a stored record is not an event.
    pub(crate) fn damaged(key: &[u8], why: &str) -> Self {
        let key = String::from_utf8_lossy(key);
        tracing::error!(%key, why, "a stored event cannot be read");
        Self::of(
            INTERNAL_ERROR,
            format!("Internal error occurred: the stored event {key} cannot be read: {why}"),
        )
    }

    /// The answer to a failed read.
    pub(crate) fn from_read(error: &ReadError, continue_token: Option<String>) -> Self {
        match error {
            ReadError::Compacted { .. } if continue_token.is_none() => Self::expired(
                "The resourceVersion for the provided list is too old.",
                None,
            ),
            ReadError::Compacted { .. } => Self::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
                 that were created, modified, or deleted between the time the first chunk was returned and now may show \
                 up in the list.",
                continue_token,
            ),
            ReadError::Future { requested, current } => {
                Self::too_large_resource_version(*requested, *current)
            }
            ReadError::Fault(fault) => Self::fault(fault),
            other => Self::internal(other.to_string()),
        }
    }

    /// The answer to a failed write.
    pub(crate) fn from_write(error: &WriteError, api: Api, name: &str) -> Self {
        match error {
            WriteError::AlreadyExists { .. } => Self::already_exists(api, name),
            WriteError::NotFound => Self::not_found(api, name),
            WriteError::Conflict { .. } => Self::modified(api, name),
            WriteError::TooLarge { .. } => Self::of(TOO_LARGE, error.to_string()),
            WriteError::Fault(fault) => Self::fault(fault),
            other => Self::internal(other.to_string()),
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn reason(&self) -> &'static str {
        self.0.reason
    }

    pub(crate) fn code(&self) -> StatusCode {
        self.0
            .code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::OK)
    }

    /// The JSON of the Status, without a line break at its end.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Strings and integers only, so this cannot fail.
        serde_json::to_vec(&self.0).unwrap_or_default()
    }

    /// The Status as a protobuf message in an envelope, for protobuf watches.
    pub(crate) fn to_protobuf(&self) -> Vec<u8> {
        use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
        let body = &self.0;
        let text = |text: &str| Some(text.to_owned());
        let message = meta::Status {
            metadata: Some(meta::ListMeta {
                r#continue: text(&body.metadata.continue_token).filter(|token| !token.is_empty()),
                ..meta::ListMeta::default()
            }),
            status: text(body.status),
            message: text(&body.message),
            reason: text(body.reason),
            details: body.details.as_ref().map(|details| meta::StatusDetails {
                name: text(&details.name),
                group: text(&details.group),
                kind: text(&details.kind),
                uid: text(&details.uid),
                causes: details
                    .causes
                    .iter()
                    .map(|cause| meta::StatusCause {
                        reason: text(cause.reason),
                        message: text(&cause.message),
                        field: text(&cause.field),
                    })
                    .collect(),
                retry_after_seconds: details
                    .retry_after_seconds
                    .and_then(|seconds| i32::try_from(seconds).ok()),
            }),
            code: body.code.map(i32::from),
        };
        tidings_api::codec::protobuf::envelop("v1", "Status", &message)
    }

    /// Whether this is the answer to a successful delete.
    pub(crate) fn is_success(&self) -> bool {
        self.0.status == "Success"
    }
}

/// The answer to a failed read without a continue token.
impl From<ReadError> for Status {
    fn from(error: ReadError) -> Self {
        Self::from_read(&error, None)
    }
}

/// The message of a conflict's cause.
struct ConflictWith<'a>(&'a str);

impl Display for ConflictWith<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}", self.0)
    }
}

/// The causes that fit, and one that counts the rest, including `more`.
fn bounded_causes<'a>(
    mut causes: impl Iterator<Item = (&'static str, impl Display, &'a str)>,
    mut more: usize,
) -> Vec<StatusCause> {
    let mut fitting: Vec<StatusCause> = Vec::new();
    let mut room = CAUSES_BYTES_MAX;
    for (reason, message, field) in causes.by_ref() {
        let message = bounded_text(message, CAUSES_BYTES_MAX - DETAIL_BYTES_MAX - CAUSE_BYTES);
        let field = bounded_text(field, DETAIL_BYTES_MAX);
        let taken = CAUSE_BYTES + text_len(&message) + text_len(&field);
        let Some(rest) = room.checked_sub(taken) else {
            more += 1;
            break;
        };
        room = rest;
        fitting.push(StatusCause {
            reason,
            message,
            field,
        });
    }
    more += causes.count();
    if more > 0 {
        fitting.push(StatusCause {
            reason: "",
            message: and_more(more),
            field: String::new(),
        });
    }
    fitting
}

/// Writes the Status as JSON. [`present`](super::present) later converts it to the form that the
/// client accepts.
impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let mut json = self.to_json();
        json.push(b'\n');
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.code(), content_type, json).into_response();
        let headers = response.headers_mut();
        let details = self.0.details.as_ref();
        if let Some(seconds) = details.and_then(|details| details.retry_after_seconds) {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        warn(&self.0.warnings, headers);
        // `present` and the audit log read it from the extensions.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests;
