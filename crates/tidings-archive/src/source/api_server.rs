//! Requests for events to a cluster's API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tidings_api::codec::Api;
use tokio::time::{Instant, timeout_at};

use super::wire::{self, Events, Frame};
use crate::clocks::Witness;
use crate::follow::follower::{Answer, Failure, Page};

/// Maximum bytes of a list's page, for each cluster. If a page is longer, it is requested again
/// with half as many events. One event is far shorter.
const LIST_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of the namespace whose uid identifies a cluster.
const NAMESPACE_BYTES_MAX: usize = 2 << 20;
/// Maximum bytes of that uid. Kubernetes' own have 36.
const UID_LEN_MAX: usize = 128;
/// Maximum bytes of an error answer.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Maximum characters of a header in error messages.
const HEADER_CHARS_MAX: usize = 100;
/// Maximum number of frames of a watch that are returned at once, and about their maximum bytes.
const BATCH_FRAMES_MAX: usize = 512;
/// Bytes of frames that are enough for a commit: about a hundred events.
const GATHERED_BYTES_MAX: usize = 64 << 10;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// A header by which the lists of a sealed archive are recognized.
const ORDER: &str = "tidings-order";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Characters that are not escaped in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Reads the identity of a cluster, the uid of its namespace `kube-system`; `None` if the client
/// may not read that. The error says why the cluster does not answer as an API server does.
pub async fn cluster_identity(client: &Client) -> Result<Option<String>, String> {
    let source = ApiServer::new(client.clone(), Selection::default());
    let identity = source.allowed_identity().await;
    identity.map_err(|failure| match failure {
        Failure::Other { why, .. } => why,
        failure => format!("{failure:?}"),
    })
}

/// Selects some of a cluster's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only events of this namespace.
    pub namespace: Option<String>,
    /// Only events that this field selector matches, in kubectl's notation.
    pub field_selector: Option<String>,
    /// Only events that this label selector matches.
    pub label_selector: Option<String>,
}

impl Selection {
    /// A text that differs between selections of the same namespace.
    pub(crate) fn words(&self) -> String {
        let of = |selector: &Option<String>| selector.clone().unwrap_or_default();
        match (of(&self.field_selector), of(&self.label_selector)) {
            (fields, labels) if fields.is_empty() && labels.is_empty() => String::new(),
            (fields, labels) => format!("fields {fields} labels {labels}"),
        }
    }
}

/// An object of which only the uid is used.
#[derive(Deserialize)]
struct Named {
    metadata: Option<Uid>,
}

#[derive(Deserialize)]
struct Uid {
    uid: Option<String>,
}

/// The API server of one source.
pub(crate) struct ApiServer {
    client: Client,
    selection: Selection,
    /// Notes the time at the source from the headers of its answers.
    witness: Option<Arc<Witness>>,
    /// Whether core/v1 is used, because events.k8s.io/v1 is not served, or not with the fields of
    /// the selector.
    is_core: AtomicBool,
    /// Whether core/v1 is used because of the fields, in which case it stays so.
    is_by_fields: AtomicBool,
}

impl ApiServer {
    pub(crate) fn new(client: Client, selection: Selection) -> Self {
        Self {
            client,
            selection,
            witness: None,
            is_core: AtomicBool::new(false),
            is_by_fields: AtomicBool::new(false),
        }
    }

    /// The same source, with a value that notes the time at the source.
    pub(crate) fn heard_by(self, witness: Arc<Witness>) -> Self {
        Self {
            witness: Some(witness),
            ..self
        }
    }

    fn api(&self) -> Api {
        if self.is_core.load(Ordering::Relaxed) {
            Api::Core
        } else {
            Api::Events
        }
    }

    fn path(&self, parameters: &[(&str, &str)]) -> String {
        let root = match self.api() {
            // No archive is followed through its own group.
            Api::Core | Api::Past => "/api/v1",
            Api::Events => "/apis/events.k8s.io/v1",
        };
        let mut path = match &self.selection.namespace {
            Some(namespace) => {
                let namespace = utf8_percent_encode(namespace, QUERY);
                format!("{root}/namespaces/{namespace}/events")
            }
            None => format!("{root}/events"),
        };
        let fields = self.selection.field_selector.as_deref();
        let fields = fields.map(|fields| named_in(self.api(), fields));
        let selectors = [
            ("fieldSelector", fields.as_deref()),
            ("labelSelector", self.selection.label_selector.as_deref()),
        ];
        let selectors = selectors.into_iter();
        let selectors = selectors.filter_map(|(name, value)| Some((name, value?)));
        for (at, (name, value)) in parameters.iter().copied().chain(selectors).enumerate() {
            path.push(if at == 0 { '?' } else { '&' });
            path.push_str(name);
            path.push('=');
            path.extend(utf8_percent_encode(value, QUERY));
        }
        path
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Response<Body>, Failure> {
        let request = Request::get(path)
            .header(header::ACCEPT, accept)
            .body(Body::empty())
            .map_err(|error| other(&error))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| other(&error))?;
        if let Some(witness) = &self.witness {
            witness.hear(response.headers());
        }
        let status = response.status();
        if let Some(why) = strange(&response) {
            return Err(Failure::Other {
                why,
                retry_after: None,
            });
        }
        if status.is_success() {
            return Ok(response);
        }
        let seconds = response.headers().get(header::RETRY_AFTER);
        let seconds = seconds.and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        let retry_after = seconds.map(|seconds| i64::from(seconds) * 1000);
        // An error page for people is not read. Its status code says enough.
        let body = if is_page(&response) {
            Bytes::new()
        } else {
            let body = read(response.into_body(), ERROR_BYTES_MAX).await;
            body.unwrap_or_default()
        };
        Err(wire::read_failure(status.as_u16(), retry_after, &body))
    }

    /// The source's identity and current version. `asked` is the time of the request.
    pub(crate) async fn ask(&self, asked: i64) -> Result<Answer, Failure> {
        let version = self.version().await?;
        Ok(Answer {
            identity: self.identity().await?,
            asked,
            version,
        })
    }

    /// The source's current version.
    pub(crate) async fn version(&self) -> Result<u64, Failure> {
        let (page, _) = self.list(None, 1).await?;
        Ok(page.version)
    }

    /// Whether a failure says that events.k8s.io/v1 is not served, or not with these fields: only
    /// core/v1 has `source`, and older servers support hardly any other field there. With a
    /// continue token, the token may be the cause instead.
    fn is_without(&self, failure: &Failure, token: Option<&str>) -> bool {
        match failure {
            Failure::NotFound(_) => true,
            Failure::BadRequest(_) => self.selection.field_selector.is_some() && token.is_none(),
            _ => false,
        }
    }

    /// Returns the failure of a list, and decides which version of the API the next attempt uses.
    ///
    /// A proxy before the source may answer 404 while the source is down. So core/v1 is given up
    /// again if it is not served either, or not allowed.
    fn turned(&self, api: Api, token: Option<&str>, failure: Failure) -> Failure {
        let is_without = api == Api::Events && self.is_without(&failure, token);
        let is_by_fields = matches!(failure, Failure::BadRequest(_));
        match failure {
            Failure::NotFound(why) | Failure::BadRequest(why) if is_without => {
                self.is_core.store(true, Ordering::Relaxed);
                self.is_by_fields.store(is_by_fields, Ordering::Relaxed);
                Failure::Other {
                    why: format!("events.k8s.io/v1 is not served so; core/v1 is next: {why}"),
                    retry_after: None,
                }
            }
            failure => {
                let is_refused = matches!(
                    failure,
                    Failure::Unauthorized(_) | Failure::Forbidden(_) | Failure::NotFound(_)
                );
                let is_by_fields = self.is_by_fields.load(Ordering::Relaxed);
                if api == Api::Core && is_refused && !is_by_fields {
                    self.is_core.store(false, Ordering::Relaxed);
                }
                failure
            }
        }
    }

    /// The uid of the namespace `kube-system`, or `None` if it cannot be read. That includes
    /// rejected credentials, which the requests for events report.
    async fn identity(&self) -> Result<Option<String>, Failure> {
        match self.allowed_identity().await {
            Err(Failure::Unauthorized(_)) => Ok(None),
            answer => answer,
        }
    }

    /// The uid of the namespace `kube-system`, or `None` if a role does not allow to read it.
    async fn allowed_identity(&self) -> Result<Option<String>, Failure> {
        let answer = self.get("/api/v1/namespaces/kube-system", "application/json");
        let response = match answer.await {
            Ok(response) => response,
            Err(Failure::Forbidden(_) | Failure::NotFound(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let body = read(response.into_body(), NAMESPACE_BYTES_MAX).await?;
        let namespace: Named = serde_json::from_slice(&body).map_err(|error| other(&error))?;
        let uid = namespace.metadata.and_then(|metadata| metadata.uid);
        Ok(uid.filter(|uid| (1..=UID_LEN_MAX).contains(&uid.len())))
    }

    /// Reads a page of a list.
    pub(crate) async fn list(
        &self,
        token: Option<&str>,
        limit: u32,
    ) -> Result<(Page, Events), Failure> {
        let limit = limit.to_string();
        let mut parameters = vec![("limit", limit.as_str())];
        parameters.extend(token.map(|token| ("continue", token)));
        let mut api = self.api();
        let response = match self.get(&self.path(&parameters), PROTOBUF).await {
            Ok(response) => response,
            // A role may allow reading events only in the core group.
            Err(Failure::Forbidden(why)) if api == Api::Events => {
                self.is_core.store(true, Ordering::Relaxed);
                api = Api::Core;
                let answer = self.get(&self.path(&parameters), PROTOBUF).await;
                answer.map_err(|_| {
                    self.is_core.store(false, Ordering::Relaxed);
                    Failure::Forbidden(why)
                })?
            }
            Err(failure) => return Err(self.turned(api, token, failure)),
        };
        if response.headers().contains_key(ORDER) {
            let why = "it is a sealed archive, whose lists and watches number versions in \
                       different ways: follow the cluster, or the archive that follows it";
            return Err(Failure::Other {
                why: why.to_owned(),
                retry_after: None,
            });
        }
        let body = read(response.into_body(), LIST_BYTES_MAX).await?;
        wire::read_list(api, &body)
    }

    /// Watches changes after a version; the source is asked to end the watch after `time`.
    pub(crate) async fn watch(&self, after: u64, time: Duration) -> Result<Watching, Failure> {
        let (after, time) = (after.to_string(), time.as_secs().to_string());
        let path = self.path(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &after),
            ("timeoutSeconds", &time),
        ]);
        let response = self.get(&path, PROTOBUF_WATCH).await?;
        Ok(Watching {
            api: self.api(),
            body: response.into_body(),
            buffer: BytesMut::new(),
            is_over: false,
            failure: None,
        })
    }
}

/// The first parts of field names that differ between core/v1 and events.k8s.io/v1.
const NAMES: [(&str, &str); 2] = [
    ("involvedObject.", "regarding."),
    ("reportingComponent", "reportingController"),
];

/// The field selector with the names of one version of the API in place of the other's.
fn named_in(api: Api, selector: &str) -> String {
    let term = |term: &str| -> String {
        let name = term.trim_start();
        let renamed = NAMES.into_iter().find_map(|(core, events)| {
            let (other, own) = match api {
                Api::Core | Api::Past => (events, core),
                Api::Events => (core, events),
            };
            let rest = name.strip_prefix(other)?;
            Some(format!("{own}{rest}"))
        });
        renamed.unwrap_or_else(|| term.to_owned())
    };
    let terms: Vec<_> = terms(selector).into_iter().map(term).collect();
    terms.join(",")
}

/// The terms of a field selector. A comma within a value has a backslash before it.
fn terms(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut is_escaped) = (0, false);
    for (at, byte) in selector.bytes().enumerate() {
        if byte == b',' && !is_escaped {
            terms.push(&selector[start..at]);
            start = at + 1;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    terms.push(&selector[start..]);
    terms
}

/// Why an answer cannot come from an API server; `None` if it can. It is a redirect, or a success
/// without objects.
fn strange(response: &Response<Body>) -> Option<String> {
    let status = response.status();
    let instead = "in place of an answer, as by a proxy or a login in front of the source";
    if status.is_redirection() {
        // The query and the fragment are cut off, since they may have secrets.
        let location = text(response, &header::LOCATION);
        let location = location.split(['?', '#']).next().unwrap_or_default();
        return Some(format!(
            "{status}, a redirect to {location:?}, was sent {instead}"
        ));
    }
    let content = text(response, &header::CONTENT_TYPE);
    let is_object = ["", "application/json", PROTOBUF].contains(&essence(&content).as_str());
    (status.is_success() && !is_object)
        .then(|| format!("{status} with {content:?} was sent {instead}"))
}

/// Whether an answer is a page for people.
fn is_page(response: &Response<Body>) -> bool {
    let content = essence(&text(response, &header::CONTENT_TYPE));
    matches!(content.as_str(), "text/html" | "application/xhtml+xml")
}

/// The media type of a content type, without parameters.
fn essence(content: &str) -> String {
    let essence = content.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// The beginning of a header's text.
fn text(response: &Response<Body>, name: &header::HeaderName) -> String {
    let value = response
        .headers()
        .get(name)
        .map(header::HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    text.chars().take(HEADER_CHARS_MAX).collect()
}

fn other(error: &(dyn std::error::Error + 'static)) -> Failure {
    let text = error.to_string();
    // The name that the client gives the error says nothing.
    let mut why = text.trim_start_matches("ServiceError: ").to_owned();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !why.contains(&text) {
            why = format!("{why}: {text}");
        }
        source = error.source();
    }
    Failure::Other {
        why,
        retry_after: None,
    }
}

/// Reads the whole body of an answer.
async fn read(mut body: Body, max: usize) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| other(&error))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > max {
                return Err(Failure::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

/// An open watch.
pub(crate) struct Watching {
    api: Api,
    body: Body,
    buffer: BytesMut,
    /// Whether nothing more comes.
    is_over: bool,
    /// Why the watch ended, if the source did not close it. The frames before the end are returned
    /// first.
    failure: Option<Failure>,
}

impl Watching {
    /// Waits for frames, and returns all that have arrived, at least one; `None` when the source
    /// has closed the watch. An error is returned after the frames before it. Until the time
    /// `gathered` this waits for more frames, unless there are already many. Cancel-safe.
    pub(crate) async fn next(
        &mut self,
        gathered: Option<Instant>,
    ) -> Result<Option<Vec<Frame>>, Failure> {
        while let Some(gathered) = gathered
            && !self.is_over
            && self.buffer.len() < GATHERED_BYTES_MAX
            && let Ok(frame) = timeout_at(gathered, self.body.frame()).await
        {
            self.take(frame);
        }
        loop {
            // Takes all frames that have arrived, up to the maximum. Over HTTP/1.1 kube-apiserver
            // sends each event as a chunk, and the next chunk is available only after the
            // connection's task has run.
            let mut has_turned = false;
            while !self.is_over && self.buffer.len() < BATCH_BYTES_MAX {
                match self.body.frame().now_or_never() {
                    Some(frame) => {
                        self.take(frame);
                        has_turned = false;
                    }
                    None if has_turned => break,
                    None => {
                        tokio::task::yield_now().await;
                        has_turned = true;
                    }
                }
            }
            let mut frames = Vec::new();
            while frames.len() < BATCH_FRAMES_MAX
                && let Some(frame) = self.take_frame()
            {
                frames.push(frame);
            }
            if !frames.is_empty() {
                return Ok(Some(frames));
            }
            if self.is_over {
                return self.failure.take().map_or(Ok(None), Err);
            }
            let frame = self.body.frame().await;
            self.take(frame);
        }
    }

    /// Whether a part of a frame has arrived.
    pub(crate) fn has_part(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Removes a complete frame from the buffer, if there is one.
    fn take_frame(&mut self) -> Option<Frame> {
        wire::take_frame(self.api, &mut self.buffer).unwrap_or_else(|failure| {
            // It is not known where the next frame begins.
            self.buffer.clear();
            self.break_off(failure);
            None
        })
    }

    fn take(&mut self, frame: Option<Result<http_body::Frame<Bytes>, kube::Error>>) {
        match frame {
            None => self.is_over = true,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => self.break_off(other(&error)),
        }
    }

    fn break_off(&mut self, failure: Failure) {
        self.is_over = true;
        self.failure = Some(failure);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{self, JoinHandle};

    use super::*;
    use tidings_api::codec::protobuf::{envelop, watch_frame};

    /// So what the source sent before an error is kept, and is not requested again.
    #[tokio::test]
    async fn frames_that_came_before_an_error_are_given_out_before_it() {
        let bookmark = |number: u64| {
            let event = wire::AnyObject {
                metadata: Some(wire::ObjectMeta {
                    resource_version: number.to_string(),
                    ..wire::ObjectMeta::default()
                }),
            };
            watch_frame("BOOKMARK", &envelop("v1", "Event", &event))
        };
        let unknown = watch_frame(
            "UNKNOWN",
            &envelop("v1", "Event", &wire::AnyObject::default()),
        );
        let too_long = u32::MAX.to_be_bytes().to_vec();
        for broken in [unknown, too_long] {
            let sent = [bookmark(1), bookmark(2), broken, bookmark(3)].concat();
            let mut watching = Watching {
                api: Api::Core,
                body: Body::from(sent),
                buffer: BytesMut::new(),
                is_over: false,
                failure: None,
            };
            let frames = watching.next(None).await.unwrap().unwrap();
            let numbers = frames.iter().map(|frame| match frame {
                Frame::Bookmark(number) => *number,
                other => panic!("{other:?}"),
            });
            assert_eq!(numbers.collect::<Vec<_>>(), [1, 2]);
            assert!(watching.next(None).await.is_err());
            assert!(watching.next(None).await.unwrap().is_none());
        }
    }

    #[test]
    fn fields_are_selected_by_the_names_that_they_have_in_the_version() {
        for (core, events) in [
            ("type=Warning", "type=Warning"),
            ("involvedObject.kind=Pod", "regarding.kind=Pod"),
            (
                "type=Warning,involvedObject.name=web,reportingComponent!=kubelet",
                "type=Warning,regarding.name=web,reportingController!=kubelet",
            ),
            (
                r"reason=a\\,involvedObject.kind=Pod,reason!=b\,x",
                r"reason=a\\,regarding.kind=Pod,reason!=b\,x",
            ),
        ] {
            for selector in [core, events] {
                assert_eq!(named_in(Api::Core, selector), core);
                assert_eq!(named_in(Api::Events, selector), events);
            }
        }
        // A comma after a backslash belongs to the value.
        for api in [Api::Core, Api::Events] {
            let value = r"reason=a\,involvedObject.kind\,regarding.kind";
            assert_eq!(named_in(api, value), value);
        }
    }

    #[tokio::test]
    async fn core_v1_is_asked_for_fields_that_only_it_has() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let selection = Selection {
            field_selector: Some("involvedObject.kind=Pod,source=kubelet".into()),
            ..Selection::default()
        };
        let source = ApiServer::new(Client::try_from(config).unwrap(), selection);
        let fields = "?fieldSelector=regarding.kind%3DPod%2Csource%3Dkubelet";
        let expected = format!("/apis/events.k8s.io/v1/events{fields}");
        assert_eq!(source.path(&[]), expected);
        let unknown = Failure::BadRequest("field label not supported: source (400)".into());
        assert!(source.is_without(&unknown, None));
        assert!(!source.is_without(&unknown, Some("token")));
        assert!(!source.is_without(&Failure::Forbidden("no (403)".into()), None));
        // What a failure is does not follow from its text.
        let quoted = Failure::Other {
            why: "the proxy was answered: not found (404)".into(),
            retry_after: None,
        };
        assert!(!source.is_without(&quoted, None));
        source.is_core.store(true, Ordering::Relaxed);
        let fields = "?fieldSelector=involvedObject.kind%3DPod%2Csource%3Dkubelet";
        assert_eq!(source.path(&[]), format!("/api/v1/events{fields}"));
    }

    #[tokio::test]
    async fn core_v1_is_left_again_if_it_is_refused_and_the_fields_do_not_need_it() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let selection = Selection {
            field_selector: Some("source=kubelet".into()),
            ..Selection::default()
        };
        let source = ApiServer::new(Client::try_from(config).unwrap(), selection);
        let other = |why: &str| Failure::Other {
            why: why.into(),
            retry_after: None,
        };
        let forbidden = || Failure::Forbidden("events is forbidden (403)".into());
        let away = "<html>no backend</html> (404)";
        let not_found = || Failure::NotFound(away.into());
        for refused in [forbidden(), not_found()] {
            let told = source.turned(Api::Events, None, not_found());
            assert!(matches!(told, Failure::Other { why, .. } if why.ends_with(away)));
            assert!(source.api() == Api::Core);
            // A server that is busy may be the right one.
            source.turned(Api::Core, None, other("busy (503)"));
            assert!(source.api() == Api::Core);
            assert_eq!(source.turned(Api::Core, None, refused.clone()), refused);
            assert!(source.api() == Api::Events);
        }
        source.turned(Api::Events, None, forbidden());
        assert!(source.api() == Api::Events);
        let unknown = Failure::BadRequest("field label not supported: source (400)".into());
        source.turned(Api::Events, None, unknown);
        source.turned(Api::Core, None, forbidden());
        assert!(source.api() == Api::Core);
    }

    /// A client of a server that answers one request, and leaves the connection open.
    fn answered_with(answer: Vec<u8>) -> (Client, JoinHandle<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(&answer).unwrap();
            stream
        });
        let config = kube::Config::new(address.parse().unwrap());
        (Client::try_from(config).unwrap(), server)
    }

    /// A sealed archive's lists have versions of the source, but its watches have their own.
    #[tokio::test]
    async fn a_sealed_archive_is_not_followed() {
        let answer = b"HTTP/1.1 200 OK\r\nTidings-Order: objects\r\nContent-Length: 0\r\n\r\n";
        let (client, server) = answered_with(answer.to_vec());
        let source = ApiServer::new(client, Selection::default());
        let Err(Failure::Other { why, .. }) = source.list(None, 1).await else {
            panic!("it is followed");
        };
        assert!(why.contains("sealed archive"), "{why}");
        drop(server.join().unwrap());
    }

    #[tokio::test]
    async fn what_is_no_answer_of_an_api_server_is_told_without_a_page() {
        for (head, said) in [
            (
                "200 OK\r\nContent-Type: text/html; charset=utf-8",
                "200 OK with \"text/html; charset=utf-8\" was sent",
            ),
            (
                "200 OK\r\nContent-Type: text/plain",
                "200 OK with \"text/plain\" was sent",
            ),
            (
                "302 Found\r\nContent-Type: text/html\r\nLocation: https://login.example/start?code=secret",
                "302 Found, a redirect to \"https://login.example/start\", was sent",
            ),
            (
                "502 Bad Gateway\r\nContent-Type: text/html",
                "Bad Gateway (502)",
            ),
        ] {
            let page = format!("HTTP/1.1 {head}\r\nContent-Length: 13\r\n\r\n<html></html>");
            let (client, server) = answered_with(page.into_bytes());
            let source = ApiServer::new(client, Selection::default());
            let Err(Failure::Other { why, .. }) = source.list(None, 1).await else {
                panic!("it is read");
            };
            assert!(why.starts_with(said), "{why}");
            assert!(!why.contains("<html>") && !why.contains("secret"), "{why}");
            drop(server.join().unwrap());
        }
    }

    /// A client of a server that answers every request with this, each on its own connection.
    fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, mut request) = (stream.unwrap(), [0; 4096]);
                let read = stream.read(&mut request).unwrap();
                let answer = answer(&String::from_utf8_lossy(&request[..read]));
                stream.write_all(&answer).unwrap();
            }
        });
        Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap()
    }

    /// A role may name only one of the two API groups.
    #[tokio::test]
    async fn the_group_that_may_be_read_is_followed() {
        for (allowed, expected) in [
            (
                &["/api/v1/", "/apis/events.k8s.io/"] as &[&str],
                Some("/apis/events.k8s.io/"),
            ),
            (&["/apis/events.k8s.io/"], Some("/apis/events.k8s.io/")),
            (&["/api/v1/"], Some("/api/v1/")),
            (&[], None),
        ] {
            let client = answering(move |request| {
                let is_allowed = |path: &&str| request.contains(&format!("GET {path}"));
                let (code, kind, body) = if allowed.iter().any(is_allowed) {
                    (
                        "200 OK",
                        PROTOBUF,
                        envelop("v1", "EventList", &wire::AnyObject::default()),
                    )
                } else {
                    (
                        "403 Forbidden",
                        "application/json",
                        br#"{"kind": "Status", "message": "no"}"#.to_vec(),
                    )
                };
                let head = format!(
                    "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                [head.into_bytes(), body].concat()
            });
            let source = ApiServer::new(client, Selection::default());
            let listed = source.list(None, 1).await;
            let is_forbidden = matches!(&listed, Err(Failure::Forbidden(why)) if why == "no (403)");
            assert_eq!(is_forbidden, expected.is_none(), "{allowed:?}");
            if let Some(expected) = expected {
                assert!(source.path(&[]).starts_with(expected), "{allowed:?}");
            }
        }
    }

    #[tokio::test]
    async fn why_a_source_cannot_be_reached_begins_with_what_failed() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let source = ApiServer::new(client, Selection::default());
        let Err(Failure::Other { why, .. }) = source.list(None, 1).await else {
            panic!("it is reached");
        };
        assert!(why.starts_with("client error (Connect)"), "{why}");
    }

    /// Events that arrive together are committed together. A commit for each would be too slow to
    /// catch up.
    #[tokio::test]
    async fn events_that_have_come_in_chunks_of_their_own_are_given_out_together() {
        const SENT: usize = 400;
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for number in 1..=SENT {
            let event = wire::AnyObject {
                metadata: Some(wire::ObjectMeta {
                    resource_version: number.to_string(),
                    ..wire::ObjectMeta::default()
                }),
            };
            let event = envelop("events.k8s.io/v1", "Event", &event);
            let frame = watch_frame("BOOKMARK", &event);
            write!(answer, "{:x}\r\n", frame.len()).unwrap();
            answer.extend_from_slice(&frame);
            answer.extend_from_slice(b"\r\n");
        }
        let (client, server) = answered_with(answer);
        let source = ApiServer::new(client, Selection::default());
        let mut watching = source.watch(0, Duration::from_secs(60)).await.unwrap();
        // The server has sent everything, and the connection is still open.
        let _open = server.join().unwrap();
        let (mut came, mut times) = (0, 0);
        while came < SENT {
            came += watching.next(None).await.unwrap().unwrap().len();
            times += 1;
        }
        assert!(times <= SENT / 8, "{SENT} events in {times} parts");
    }
}
