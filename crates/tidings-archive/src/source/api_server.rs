//! A cluster's API server, asked for its events.

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

use super::wire::{self, Frame};
use crate::follow::follower::{Answer, Failure, Page};
use crate::keep::keeper::Observation;

/// Maximum bytes of a list's page, for each cluster. A longer page is requested again with half as
/// many events; one event is far shorter.
const LIST_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of the namespace whose uid identifies a cluster.
const NAMESPACE_BYTES_MAX: usize = 2 << 20;
/// Longest uid of it; Kubernetes' own have 36 bytes.
const UID_LEN_MAX: usize = 128;
/// Maximum bytes of an error answer.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Maximum frames, and about the maximum bytes, that are returned at once.
const BATCH_FRAMES_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Characters that are not escaped in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A selection of a cluster's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those of this namespace.
    pub namespace: Option<String>,
    /// Only those that this field selector selects, in kubectl's notation.
    pub field_selector: Option<String>,
    /// Only those that this label selector selects.
    pub label_selector: Option<String>,
}

impl Selection {
    /// The part that distinguishes it from others of the same namespace.
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

/// See the module documentation.
pub(crate) struct ApiServer {
    client: Client,
    selection: Selection,
    /// Whether events.k8s.io/v1 is not served.
    is_core: AtomicBool,
}

impl ApiServer {
    pub(crate) fn new(client: Client, selection: Selection) -> Self {
        Self {
            client,
            selection,
            is_core: AtomicBool::new(false),
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
            Api::Core => "/api/v1",
            Api::Events => "/apis/events.k8s.io/v1",
        };
        let mut path = match &self.selection.namespace {
            Some(namespace) => {
                let namespace = utf8_percent_encode(namespace, QUERY);
                format!("{root}/namespaces/{namespace}/events")
            }
            None => format!("{root}/events"),
        };
        let selectors = [
            ("fieldSelector", &self.selection.field_selector),
            ("labelSelector", &self.selection.label_selector),
        ];
        let selectors = selectors.into_iter();
        let selectors = selectors.filter_map(|(name, value)| Some((name, value.as_deref()?)));
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
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let seconds = response.headers().get(header::RETRY_AFTER);
        let seconds = seconds.and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        let body = read(response.into_body(), ERROR_BYTES_MAX).await;
        let retry_after = seconds.map(|seconds| i64::from(seconds) * 1000);
        let body = body.unwrap_or_default();
        Err(wire::read_failure(status.as_u16(), retry_after, &body))
    }

    /// The source's identity and current version.
    pub(crate) async fn ask(&self) -> Result<Answer, Failure> {
        let version = self.version().await?;
        Ok(Answer {
            identity: self.identity().await?,
            version,
        })
    }

    /// The source's current version.
    pub(crate) async fn version(&self) -> Result<u64, Failure> {
        let (page, _) = self.list(None, 1).await?;
        Ok(page.version)
    }

    /// The uid of `kube-system`, or `None` if it may not be read.
    async fn identity(&self) -> Result<Option<String>, Failure> {
        let answer = self.get("/api/v1/namespaces/kube-system", "application/json");
        let response = match answer.await {
            Ok(response) => response,
            Err(Failure::Forbidden(_)) => return Ok(None),
            Err(Failure::Other { why, .. }) if why.ends_with("(404)") => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let body = read(response.into_body(), NAMESPACE_BYTES_MAX).await?;
        let namespace: Named = serde_json::from_slice(&body).map_err(|error| other(&error))?;
        let uid = namespace.metadata.and_then(|metadata| metadata.uid);
        Ok(uid.filter(|uid| (1..=UID_LEN_MAX).contains(&uid.len())))
    }

    /// A page of a list.
    pub(crate) async fn list(
        &self,
        token: Option<&str>,
        limit: u32,
    ) -> Result<(Page, Vec<Observation>), Failure> {
        let limit = limit.to_string();
        let mut parameters = vec![("limit", limit.as_str())];
        parameters.extend(token.map(|token| ("continue", token)));
        let api = self.api();
        let response = match self.get(&self.path(&parameters), PROTOBUF).await {
            Ok(response) => response,
            Err(Failure::Other { why, .. }) if api == Api::Events && why.ends_with("(404)") => {
                self.is_core.store(true, Ordering::Relaxed);
                return Err(Failure::Other {
                    why: "the source does not serve events.k8s.io/v1; core/v1 is next".into(),
                    retry_after: None,
                });
            }
            Err(failure) => return Err(failure),
        };
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
        })
    }
}

fn other(error: &(dyn std::error::Error + 'static)) -> Failure {
    let mut why = error.to_string();
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

/// The whole body of an answer.
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
    is_over: bool,
}

impl Watching {
    /// Waits for frames, and returns those that have arrived, at least one; `None` when the source
    /// closed the watch. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Frame>>, Failure> {
        loop {
            // Takes all frames that have arrived, up to the maximum. Over HTTP/1.1 kube-apiserver
            // sends each event as a chunk, and the next chunk is available only after the
            // connection's task has run.
            let mut has_turned = false;
            while !self.is_over && self.buffer.len() < BATCH_BYTES_MAX {
                match self.body.frame().now_or_never() {
                    Some(frame) => {
                        self.take(frame)?;
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
                && let Some(frame) = wire::take_frame(self.api, &mut self.buffer)?
            {
                frames.push(frame);
            }
            if !frames.is_empty() {
                return Ok(Some(frames));
            }
            if self.is_over {
                return Ok(None);
            }
            let frame = self.body.frame().await;
            self.take(frame)?;
        }
    }

    fn take(
        &mut self,
        frame: Option<Result<http_body::Frame<Bytes>, kube::Error>>,
    ) -> Result<(), Failure> {
        match frame {
            None => self.is_over = true,
            Some(frame) => {
                let frame = frame.map_err(|error| other(&error))?;
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use tidings_api::codec::protobuf::{envelop, watch_frame};

    /// Events that arrive together are committed together: a commit for each would be too slow to
    /// catch up.
    #[tokio::test]
    async fn events_that_have_come_in_chunks_of_their_own_are_given_out_together() {
        const SENT: usize = 400;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
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
            stream.write_all(&answer).unwrap();
            stream
        });
        let config = kube::Config::new(address.parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let source = ApiServer::new(client, Selection::default());
        let mut watching = source.watch(0, Duration::from_secs(60)).await.unwrap();
        // Everything was sent; the connection stays open.
        let _open = server.join().unwrap();
        let (mut came, mut times) = (0, 0);
        while came < SENT {
            came += watching.next().await.unwrap().unwrap().len();
            times += 1;
        }
        assert!(times <= SENT / 8, "{SENT} events in {times} parts");
    }
}
