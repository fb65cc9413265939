//! The sink that writes events to a Kubernetes API server, in core/v1 or events.k8s.io/v1:
//! client-go's two `EventSinkImpl` over `CreateWithEventNamespace`, `PatchWithEventNamespace` and
//! `UpdateWithEventNamespace`.
//!
//! Invariants: a call makes one HTTP request, except if the server refuses protobuf, or if the
//! resourceVersion of the event to patch is unknown or has changed. Every request ends within the
//! request timeout. An event's name and namespace cannot change the request's path. A late patch
//! does not undo a later one.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::response::Parts;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Config};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tidings_core::{EventApi, Occurrence, WriteError, WriteErrorKind};

use super::access_error::AccessError;
use super::protobuf::PROTOBUF;
use super::versions::Versions;
use super::{Sink, response};

/// Default of [`KubeSink::request_timeout`].
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum bytes read of an answer to a question, such as an access review.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Default of [`KubeSink::versions_max`]: as many as the correlator counts.
const VERSIONS_MAX: usize = 131_072;

const JSON: &str = "application/json";

const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// The `Accept` header with protobuf. It also accepts JSON, because a proxy may answer for the
/// server, and an old server may not support protobuf.
const ACCEPT_PROTOBUF: &str = "application/vnd.kubernetes.protobuf, application/json";

/// Characters escaped in a path segment: all but RFC 3986's unreserved ones.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Writes events to a Kubernetes API server: as core/v1, or as events.k8s.io/v1 with
/// [`SinkOptions::events_v1`](crate::SinkOptions::events_v1).
///
/// Each event is written to its own namespace. Requests share the client's connections, have no
/// field manager, and end after 30 s by default ([`KubeSink::request_timeout`]); dropping the
/// future of a call cancels its request.
///
/// A patch states the resourceVersion of the event it was made for. A patch that timed out and
/// arrives after a later one is therefore refused, and the stored count and times do not go back
/// ([`KubeSink::versions_max`]). They can go back if a [spill](crate::SinkOptions::spill)
/// redelivers events that an earlier process had written, because that process's count is unknown.
///
/// ```no_run
/// use tidings::{Broadcaster, KubeSink};
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = KubeSink::from_config(kube::Config::infer().await?)?;
/// // To be kept for as long as events are to be recorded.
/// let broadcaster = Broadcaster::new();
/// broadcaster.start_recording_to_sink(sink);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KubeSink {
    client: Client,
    namespace: Option<String>,
    request_timeout: Duration,
    protobuf: bool,
    /// Whether the server has refused protobuf.
    refuses_protobuf: Arc<AtomicBool>,
    versions: Arc<Versions>,
    /// Namespaces whose access is checked at start; an empty name means all namespaces.
    checked_namespaces: Vec<String>,
}

impl KubeSink {
    /// Makes a sink that writes through `client`.
    ///
    /// The delivery should do the retries after 429, 503 or 504, because it knows how many events
    /// wait. A client with kube's defaults also retries by itself; [`KubeSink::from_config`] makes
    /// one that does not.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            namespace: None,
            request_timeout: REQUEST_TIMEOUT,
            protobuf: false,
            refuses_protobuf: Arc::default(),
            versions: Arc::new(Versions::new(VERSIONS_MAX)),
            checked_namespaces: Vec::new(),
        }
    }

    /// Makes a sink with a new client, which leaves retries to the delivery.
    ///
    /// # Errors
    /// No client can be made from `config` (a certificate or token cannot be read, for example), or
    /// there is no tokio runtime.
    pub fn from_config(mut config: Config) -> Result<Self, kube::Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            // kube would panic here.
            let message = "a client can only be made within a tokio runtime";
            return Err(kube::Error::Service(message.into()));
        }
        config.default_retry = false;
        Ok(Self::new(Client::try_from(config)?))
    }

    /// Writes to `namespace` only, as a client-go client of one namespace does. Events of other
    /// namespaces are dropped as [`DropCause::InvalidRequest`](crate::DropCause::InvalidRequest),
    /// without a request.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Timeout of a request, after which it has failed and is retried. Default 30 s.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Maximum events whose resourceVersion is remembered: the last written ones, at about 100
    /// bytes each; 0 for none. Default 131,072.
    ///
    /// A patch states this resourceVersion, and the server refuses a patch of an older one. If it
    /// is not remembered, or another client has changed the event, it is first requested with an
    /// empty patch, which changes nothing and needs no further permission. With 0, patches state no
    /// resourceVersion, as in client-go and the `client_go` presets. A patch that timed out may
    /// then arrive after a later one and set the stored count back, until the event is recorded
    /// again.
    #[must_use]
    pub fn versions_max(mut self, events: usize) -> Self {
        self.versions = Arc::new(Versions::new(events));
        self
    }

    /// Whether to use Kubernetes protobuf for new events and answers, as client-go does for
    /// built-in types: about half the bytes, and less work for the server. Default false: JSON.
    /// Patches are always JSON.
    ///
    /// If the server refuses protobuf (415), JSON is used from then on, beginning with that event.
    #[must_use]
    pub fn protobuf(mut self, protobuf: bool) -> Self {
        self.protobuf = protobuf;
        self
    }

    /// Checks at start whether events may be created and patched in these namespaces (in all, if
    /// one is empty), as [`KubeSink::check_access`] does. A missing permission is logged as one
    /// error, with the rule to add. The check is repeated until the server answers. Writes do not
    /// wait for it, unless the server decides the API group
    /// ([`SinkOptions::events_v1_if_served`](crate::SinkOptions::events_v1_if_served)): then
    /// core/v1 is written if only that is allowed. Default: no check.
    ///
    /// A sink of one namespace ([`KubeSink::namespace`]) checks that namespace, whatever these are.
    ///
    /// ```no_run
    /// # fn start(broadcaster: &tidings::Broadcaster, config: kube::Config) -> Result<(), kube::Error> {
    /// use tidings::KubeSink;
    ///
    /// let sink = KubeSink::from_config(config)?.check_access_at_start([""]);
    /// broadcaster.start_recording_to_sink(sink);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn check_access_at_start<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Self {
        self.checked_namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// The namespace to which the sink is restricted, if it is.
    pub(super) fn only_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Sends a request other than a write of an event, within the request timeout.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        request: Request<Body>,
    ) -> Result<T, kube::Error> {
        let (head, body) = self.answer(request).await?;
        if head.status.is_success() {
            return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
        }
        // Any JSON object can be read as a Status; the code is the answer's, whatever a proxy wrote
        // into the body.
        let refusal = serde_json::from_slice::<Status>(&body)
            .unwrap_or_else(|_| Status::failure("the answer is no Status", ""))
            .with_code(head.status.as_u16());
        Err(kube::Error::Api(Box::new(refusal)))
    }

    /// Sends a request and reads the whole answer, within the request timeout.
    async fn answer(&self, request: Request<Body>) -> Result<(Parts, Vec<u8>), kube::Error> {
        let answer = async {
            let (head, body) = self.client.send(request).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            Ok((head, body.map_err(kube::Error::Service)?.to_bytes().into()))
        };
        tokio::time::timeout(self.request_timeout, answer)
            .await
            .unwrap_or_else(|_| {
                let message = format!(
                    "no answer from the server within {:?}",
                    self.request_timeout
                );
                Err(kube::Error::Service(message.into()))
            })
    }

    /// Sends a request. Returns the result of [`response::read`].
    async fn send(
        &self,
        verb: &str,
        occurrence: &Occurrence,
        request: Request<Vec<u8>>,
    ) -> Result<Option<String>, WriteError> {
        let namespace = occurrence.namespace();
        if let Some(own) = &self.namespace
            && own != namespace
        {
            return Err(WriteError::invalid(format!(
                "can't {verb} an event with namespace {namespace:?} in namespace {own:?}: this sink writes to that namespace only"
            )));
        }
        // One deadline for the whole answer, including its body.
        let mut deadline = pin!(tokio::time::sleep(self.request_timeout));
        tokio::select! {
            biased;
            answer = self.client.send(request.map(Body::from)) => match answer {
                Ok(answer) => response::read(answer, deadline).await,
                Err(error) => Err(response::failure(&error)),
            },
            () = &mut deadline => Err(WriteError::timeout(format!(
                "no answer from the server within {:?}",
                self.request_timeout
            ))),
        }
    }
}

impl KubeSink {
    fn speaks_protobuf(&self) -> bool {
        self.protobuf && !self.refuses_protobuf.load(Ordering::Relaxed)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Request<Vec<u8>>, WriteError> {
        let accept = if self.speaks_protobuf() {
            ACCEPT_PROTOBUF
        } else {
            JSON
        };
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, accept)
            .body(body)
            .map_err(|error| WriteError::invalid(format!("no request can be made: {error}")))
    }

    /// Sends the create of the event, as protobuf if that is set.
    async fn send_event(
        &self,
        verb: &str,
        method: Method,
        path: &str,
        occurrence: &Occurrence,
    ) -> Result<(), WriteError> {
        let sent = self.send_whole(verb, method, path, occurrence).await?;
        self.versions.put(occurrence, sent.as_deref());
        Ok(())
    }

    async fn send_whole(
        &self,
        verb: &str,
        method: Method,
        path: &str,
        occurrence: &Occurrence,
    ) -> Result<Option<String>, WriteError> {
        if self.speaks_protobuf() {
            let body = occurrence.create_body_protobuf();
            let request = self.request(method.clone(), path, PROTOBUF, body)?;
            let result = self.send(verb, occurrence, request).await;
            let Err(error) = result else {
                return result;
            };
            if !has_code(&error, 415) {
                return Err(error);
            }
            if !self.refuses_protobuf.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "The server does not accept protobuf: sending JSON");
            }
        }
        let request = self.request(method, path, JSON, occurrence.create_body())?;
        self.send(verb, occurrence, request).await
    }

    async fn send_patch(
        &self,
        path: &str,
        occurrence: &Occurrence,
        body: Vec<u8>,
    ) -> Result<Option<String>, WriteError> {
        let request = self.request(Method::PATCH, path, STRATEGIC_MERGE, body)?;
        self.send("patch", occurrence, request).await
    }

    /// Patches the event if its resourceVersion is this one. If `None`, asks the server for the
    /// current one first.
    async fn patch_version(
        &self,
        path: &str,
        occurrence: &Occurrence,
        version: Option<Box<str>>,
    ) -> Result<(), WriteError> {
        let version = if let Some(version) = version {
            version
        } else {
            let asked = self.send_patch(path, occurrence, b"{}".to_vec()).await?;
            // The answer was cut off. That does not mean that the server has no resourceVersions,
            // so the write fails and is tried again.
            let version = asked.ok_or_else(|| {
                WriteError::transport("the answer that gives the version of an event was cut off")
            })?;
            self.versions.put(occurrence, Some(&version));
            version.into()
        };
        let body = Some(&*version).filter(|version| !version.is_empty());
        let body = body.and_then(|version| occurrence.patch_body_of_version(version));
        let body = body.unwrap_or_else(|| occurrence.patch_body());
        let result = self.send_patch(path, occurrence, body).await;
        match &result {
            Ok(version) => self.versions.put(occurrence, version.as_deref()),
            // The event is gone, or has another resourceVersion. After a failure without an answer
            // the entry stays: the write that may still arrive was made for it.
            Err(error) if has_code(error, 404) || has_code(error, 409) => {
                self.versions.put(occurrence, None);
            }
            Err(_) => {}
        }
        result.map(drop)
    }
}

impl Sink for KubeSink {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let path = events_path(occurrence.api(), occurrence.namespace())?;
        self.send_event("create", Method::POST, &path, occurrence)
            .await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let path = event_path(occurrence)?;
        if self.versions.is_off() || !occurrence.has_versioned_patch() {
            let body = occurrence.patch_body();
            return self.send_patch(&path, occurrence, body).await.map(drop);
        }
        let known = self.versions.get(occurrence);
        let was_known = known.is_some();
        let result = self.patch_version(&path, occurrence, known).await;
        match result {
            // The event was written by another client, or by an earlier try of ours whose answer
            // was lost. No other patch for that resourceVersion can succeed any more.
            Err(error) if was_known && has_code(&error, 409) => {
                self.patch_version(&path, occurrence, None).await
            }
            result => result,
        }
    }

    /// Asks whether the server serves events in this API group, by its list of resources. 404 means
    /// that it does not.
    async fn serves(&self, api: EventApi) -> Result<bool, WriteError> {
        let request = Request::get(group_path(api))
            .header(header::ACCEPT, JSON)
            .body(Body::empty())
            .map_err(|error| WriteError::invalid(format!("no request can be made: {error}")))?;
        let answer = self.answer(request).await;
        let (head, body) = answer.map_err(|error| response::failure(&error))?;
        if head.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        if !head.status.is_success() {
            return Err(response::refusal(head.status, &head.headers, &body));
        }
        let list: APIResourceList = serde_json::from_slice(&body).map_err(|error| {
            // The answer is that of a proxy or another server in between.
            WriteError::transport(format!("the answer is no list of resources: {error}"))
        })?;
        Ok(list
            .resources
            .iter()
            .any(|resource| resource.name == "events"))
    }

    /// Runs the access check of [`KubeSink::check_access_at_start`].
    async fn check(&self, api: EventApi) -> Result<(), WriteError> {
        let mut denied = Vec::new();
        for namespace in &self.checked_namespaces {
            match self.check_access(api, namespace).await {
                Ok(()) => {}
                Err(AccessError::Unknown(error)) => return Err(response::failure(&error)),
                Err(error @ AccessError::Denied { .. }) => denied.push(error.to_string()),
            }
            if self.only_namespace().is_some() {
                break;
            }
        }
        if denied.is_empty() {
            Ok(())
        } else {
            Err(WriteError::invalid(denied.join("\n")))
        }
    }

    async fn update(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let path = event_path(occurrence)?;
        self.send_event("update", Method::PUT, &path, occurrence)
            .await
    }
}

impl std::fmt::Debug for KubeSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeSink")
            .field("namespace", &self.namespace)
            .field("request_timeout", &self.request_timeout)
            .field("protobuf", &self.protobuf)
            .finish_non_exhaustive()
    }
}

fn has_code(error: &WriteError, code: u16) -> bool {
    matches!(&error.kind, WriteErrorKind::Status(failure) if failure.code == code)
}

fn group_path(api: EventApi) -> &'static str {
    match api {
        EventApi::Core => "/api/v1",
        EventApi::Events => "/apis/events.k8s.io/v1",
    }
}

/// The path at which events of `namespace` are created. As in client-go, an empty namespace is
/// omitted from the path for core/v1, and the server refuses the request. For events.k8s.io it is
/// an error without a request.
fn events_path(api: EventApi, namespace: &str) -> Result<String, WriteError> {
    let group = group_path(api);
    if api == EventApi::Core && namespace.is_empty() {
        return Ok(format!("{group}/events"));
    }
    let namespace = segment("namespace", namespace)?;
    Ok(format!("{group}/namespaces/{namespace}/events"))
}

fn event_path(occurrence: &Occurrence) -> Result<String, WriteError> {
    let events = events_path(occurrence.api(), occurrence.namespace())?;
    let name = occurrence.name();
    let name = segment("name", &name)?;
    Ok(format!("{events}/{name}"))
}

/// Escapes `text` as one path segment; fails if apimachinery's `IsValidPathSegmentName` would
/// refuse it.
fn segment(what: &str, text: &str) -> Result<String, WriteError> {
    let refused = match text {
        "" => Some("be empty"),
        "." | ".." => Some("be \".\" or \"..\""),
        _ if text.contains(['/', '%']) => Some("contain \"/\" or \"%\""),
        _ => None,
    };
    match refused {
        Some(refused) => Err(WriteError::invalid(format!(
            "invalid event {what} {text:?}: it may not {refused}"
        ))),
        None => Ok(utf8_percent_encode(text, SEGMENT).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_runtime_there_is_an_error() {
        let config = Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let error = KubeSink::from_config(config).unwrap_err();
        assert!(error.to_string().contains("tokio runtime"), "{error}");
    }

    #[test]
    fn names_become_one_segment_of_a_path_or_none() {
        let table = [
            ("web-0.17a6101701650000", Some("web-0.17a6101701650000")),
            ("a?b#c d", Some("a%3Fb%23c%20d")),
            ("ä", Some("%C3%A4")),
            ("2001:db8::1.1", Some("2001%3Adb8%3A%3A1.1")),
            ("", None),
            (".", None),
            ("..", None),
            ("a/b", None),
            ("a%2fb", None),
        ];
        for (name, expected) in table {
            let segment = segment("name", name);
            assert_eq!(segment.as_deref().ok(), expected, "{name:?}");
            if let Err(error) = segment {
                assert!(error.message.contains(&format!("{name:?}")), "{error}");
            }
        }
        let path = |api, namespace| events_path(api, namespace).ok();
        let rows = [
            (EventApi::Core, "", Some("/api/v1/events")),
            (
                EventApi::Core,
                "kube-system",
                Some("/api/v1/namespaces/kube-system/events"),
            ),
            (EventApi::Events, "", None),
            (
                EventApi::Events,
                "kube-system",
                Some("/apis/events.k8s.io/v1/namespaces/kube-system/events"),
            ),
        ];
        for (api, namespace, expected) in rows {
            assert_eq!(path(api, namespace).as_deref(), expected);
        }
    }
}
