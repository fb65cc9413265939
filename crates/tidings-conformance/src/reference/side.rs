//! Runs the steps of a case on one of the two servers, and returns each answer as a document.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::Full;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::case::{Step, Variables, fill_text};
use super::protobuf;
use super::tree::Tree;
use crate::http::{Answer, HttpError};
use crate::servers::ApiServer;

/// The headers that are compared. Others frame the body or are kube-apiserver's own
/// (`X-Kubernetes-Pf-…`); `X-Content-Type-Options: nosniff` is always in our answers, and in few of
/// kube-apiserver's.
const HEADERS: [&str; 11] = [
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "etag",
    "location",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "audit-id",
];
/// Headers with values that differ between servers.
const ONLY_GIVEN: [&str; 2] = ["etag", "audit-id"];
/// A kubectl that never ends by itself, as with `get -w`, is complete after this time without
/// output.
const SILENCE: Duration = Duration::from_secs(8);
const KUBECTL_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum attempts, with pauses, until an archive has caught up.
const LEVEL_TRIES: u32 = 600;
const LEVEL_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Side {
    server: ApiServer,
    kubectl: Option<PathBuf>,
    /// A folder for kubectl's caches of discovery.
    cache: TempDir,
}

/// An answer that may not be complete yet.
type Given = JoinHandle<Tree>;

impl Side {
    pub(super) fn new(server: ApiServer, kubectl: Option<PathBuf>) -> std::io::Result<Self> {
        Ok(Self {
            server,
            kubectl,
            cache: tempfile::tempdir()?,
        })
    }

    /// Runs all steps in order. An error counts as an answer too.
    pub(super) async fn run(&self, actions: &[Step], namespace: &str) -> Vec<Tree> {
        let mut variables = Variables::from([("ns".to_owned(), Tree::from(namespace))]);
        self.make_namespace(namespace).await;
        let mut given = Vec::new();
        for action in actions {
            let begun = self.begin(action, action.background, &variables).await;
            if action.background {
                given.push(begun);
                continue;
            }
            // Later steps may need values of this answer.
            let answer = finish(begun).await;
            save(action, &answer, &mut variables);
            given.push(tokio::spawn(std::future::ready(answer)));
        }
        let mut answers = Vec::new();
        for given in given {
            answers.push(finish(given).await);
        }
        answers
    }

    /// Runs all steps in order on this server. Steps that only read are repeated at the archive of
    /// this server, once it has caught up. Returns the answers of both to these reads.
    pub(super) async fn run_with_archive(
        &self,
        archive: &Self,
        actions: &[Step],
        namespace: &str,
    ) -> Vec<(usize, Tree, Tree)> {
        let mut variables = Variables::from([("ns".to_owned(), Tree::from(namespace))]);
        // The archive has variables of its own: its continue tokens are useless elsewhere.
        let mut of_archive = variables.clone();
        self.make_namespace(namespace).await;
        let mut given = Vec::new();
        for (at, action) in actions.iter().enumerate() {
            // Steps in the background are not run: their watches begin at a revision of one server.
            if action.background {
                continue;
            }
            let here = finish(self.begin(action, false, &variables).await).await;
            save(action, &here, &mut variables);
            if !action.is_read() {
                save(action, &here, &mut of_archive);
                continue;
            }
            let there = match self.wait_for(archive, namespace).await {
                Ok(()) => finish(archive.begin(action, false, &of_archive).await).await,
                Err(why) => map([("failed", Tree::Text(why))]),
            };
            save(action, &there, &mut of_archive);
            given.push((at, here, there));
        }
        given
    }

    /// Waits until an archive has the same events of a namespace as this server.
    async fn wait_for(&self, archive: &Self, namespace: &str) -> Result<(), String> {
        let mut tries = LEVEL_TRIES;
        loop {
            let (here, there) = tokio::join!(self.events(namespace), archive.events(namespace));
            if here.is_ok() && here == there {
                return Ok(());
            }
            if tries == 0 {
                return Err(format!("the archive has {there:?}, not {here:?}"));
            }
            tries -= 1;
            tokio::time::sleep(LEVEL_PAUSE).await;
        }
    }

    /// The events of a namespace, without the revisions, which a server chooses.
    async fn events(&self, namespace: &str) -> Result<Value, String> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let reply = self.server.client.call(Method::GET, &path, "", "").await;
        let mut list = reply.map_err(|error| error.to_string())?.json;
        for item in list["items"].as_array_mut().into_iter().flatten() {
            item["metadata"]["resourceVersion"].take();
        }
        match list["items"].take() {
            items @ Value::Array(_) => Ok(items),
            _ => Err(format!("an answer without items: {list}")),
        }
    }

    /// Creates a namespace, which kube-apiserver needs before events. Our server refuses that,
    /// since every namespace exists there; it does no harm.
    async fn make_namespace(&self, namespace: &str) {
        let body = format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#);
        let (path, media) = ("/api/v1/namespaces", "application/json");
        drop(
            self.server
                .client
                .call(Method::POST, path, media, body)
                .await,
        );
    }

    /// Begins a step. If it runs in the background, this returns when its answer has begun.
    async fn begin(&self, action: &Step, background: bool, variables: &Variables) -> Given {
        if let Some(arguments) = &action.kubectl {
            return self
                .run_kubectl(action, arguments, background, variables)
                .await;
        }
        let begun = async {
            let request = request(action, variables)?;
            let is_watch = request.uri().path().contains("/watch/")
                || (request.uri().query()).is_some_and(|query| query.contains("watch="));
            Ok::<_, HttpError>((self.server.client.send(request).await?, is_watch))
        };
        let begun = begun.await;
        // A watch is open now, and must see the changes of later steps.
        tokio::spawn(async move {
            let read = async {
                let (answer, is_watch) = begun?;
                read(answer, is_watch).await
            };
            read.await.unwrap_or_else(|error| failure(&error))
        })
    }

    /// Runs kubectl. If it runs in the background, this returns when it has begun to print, so that
    /// it sees the changes of later steps.
    async fn run_kubectl(
        &self,
        action: &Step,
        arguments: &[String],
        background: bool,
        variables: &Variables,
    ) -> Given {
        let Some(program) = &self.kubectl else {
            return tokio::spawn(std::future::ready(Tree::Null));
        };
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(&self.server.kubeconfig)
            .arg("--cache-dir")
            .arg(self.cache.path())
            .args(arguments.iter().map(|text| fill_text(text, variables)))
            .env("KUBECTL_COLOR", "false")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let input = action.content(variables, "").unwrap_or_default();
        let silence = if background {
            SILENCE
        } else {
            KUBECTL_PATIENCE
        };
        let wanted = action.lines.clone().unwrap_or_default();
        let (speaks, begun) = oneshot::channel();
        let task = tokio::spawn(async move {
            kubectl(command, input, silence, speaks, &wanted)
                .await
                .unwrap_or_else(|error| failure(&error))
        });
        if background {
            // kubectl may also have ended without output.
            let _ = begun.await;
        }
        task
    }
}

/// Sets the variables that a step takes from its answer.
fn save(action: &Step, answer: &Tree, variables: &mut Variables) {
    for (name, place) in &action.save {
        let value = answer.at(place).cloned().unwrap_or_default();
        variables.insert(name.clone(), value);
    }
}

async fn finish(task: JoinHandle<Tree>) -> Tree {
    task.await.unwrap_or_else(|error| failure(&error))
}

fn failure(error: &dyn std::error::Error) -> Tree {
    map([("failed", Tree::Text(error.to_string()))])
}

fn request(step: &Step, variables: &Variables) -> Result<Request<Full<Bytes>>, HttpError> {
    let ((method, path), headers) = (step.target(), step.headers.iter());
    let mut headers: BTreeMap<String, String> = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), fill_text(value, variables)))
        .collect();
    let declared = headers.get("content-type").map_or("", String::as_str);
    let body = step.content(variables, declared);
    let mut default = |name: &str, value: String| {
        headers.entry(name.to_owned()).or_insert(value);
    };
    if body.is_some() {
        default("content-type", "application/json".to_owned());
    }
    let user = step.user.as_deref().unwrap_or("admin");
    if !user.is_empty() {
        default("authorization", format!("Bearer {user}-token"));
    }
    default("user-agent", "judge/1.0".to_owned());
    let mut request = Request::builder()
        .method(method)
        .uri(escaped(&fill_text(path, variables)));
    for (name, value) in &headers {
        // A header with an empty value is left out.
        if !value.is_empty() {
            request = request.header(name, value);
        }
    }
    Ok(request.body(body.map(Full::from).unwrap_or_default())?)
}

/// Escapes invalid characters of a request line; existing escapes stay.
fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

async fn read(answer: Answer, is_watch: bool) -> Result<Tree, HttpError> {
    let status = u64::from(answer.status.as_u16());
    let headers = headers(&answer.headers);
    let content_type = answer.headers.get("content-type").cloned();
    let content_type = content_type.as_ref().and_then(|value| value.to_str().ok());
    let bytes = answer.body().await?;
    let is_watch = is_watch && status == 200;
    let body = document(&bytes, content_type.unwrap_or_default(), is_watch);
    Ok(map([
        ("status", status.into()),
        ("header", headers),
        ("body", body),
    ]))
}

fn map<const N: usize>(entries: [(&str, Tree); N]) -> Tree {
    Tree::Map(entries.map(|(name, value)| (name.to_owned(), value)).into())
}

fn headers(headers: &HeaderMap) -> Tree {
    let mut entries = Vec::new();
    for name in HEADERS {
        let values = headers.get_all(name).iter().map(|value| {
            if ONLY_GIVEN.contains(&name) {
                "<given>".into()
            } else {
                String::from_utf8_lossy(value.as_bytes()).as_ref().into()
            }
        });
        match <[Tree; 1]>::try_from(values.collect::<Vec<Tree>>()) {
            Ok([value]) => entries.push((name.to_owned(), value)),
            Err(values) if values.is_empty() => {}
            Err(values) => entries.push((name.to_owned(), Tree::List(values))),
        }
    }
    Tree::Map(entries)
}

/// The body as a document, decoded by its content type, or as text.
fn document(bytes: &[u8], content_type: &str, is_watch: bool) -> Tree {
    let read = if content_type.contains("protobuf") {
        if is_watch {
            protobuf::read_frames(bytes)
        } else {
            protobuf::read(bytes)
        }
    } else if content_type.contains("yaml") && !is_watch {
        std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| serde_saphyr::from_str(text).ok())
    } else if content_type.contains("json") {
        let documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Tree>();
        match documents.collect::<Result<Vec<Tree>, _>>() {
            Ok(documents) if is_watch => Some(Tree::List(documents)),
            Ok(documents) => <[Tree; 1]>::try_from(documents).ok().map(|[only]| only),
            Err(_) => None,
        }
    } else {
        None
    };
    read.unwrap_or_else(|| String::from_utf8_lossy(bytes).as_ref().into())
}

async fn kubectl(
    mut command: Command,
    input: Vec<u8>,
    silence: Duration,
    speaks: oneshot::Sender<()>,
    wanted: &str,
) -> std::io::Result<Tree> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may have closed it.
        let _ = stdin.write_all(&input).await;
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let complaints = tokio::spawn(drain(stderr, KUBECTL_PATIENCE * 2, None));
    let (said, has_ended) = drain(stdout, silence, Some(speaks)).await;
    let status = if has_ended {
        let code = child.wait().await?.code();
        code.map_or(Tree::Null, |code| Tree::Number(code.to_string()))
    } else {
        child.kill().await?;
        "ended by us".into()
    };
    let (complained, _) = complaints.await.unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let body = text(&said);
    // Objects are compared as values, and everything else as text.
    let body = if body.starts_with("apiVersion:") || body.starts_with("{\n") {
        serde_saphyr::from_str(&body).unwrap_or(Tree::Text(body))
    } else {
        lines(&body, wanted)
    };
    let error = lines(&text(&complained), "");
    Ok(map([("status", status), ("body", body), ("error", error)]))
}

fn lines(text: &str, wanted: &str) -> Tree {
    let lines = text.lines().filter(|line| line.contains(wanted));
    Tree::List(lines.map(Tree::from).collect())
}

/// Reads the output until it ends, or until there was none for some time. Returns it, and whether
/// it ended. The first output may take longer.
async fn drain(
    from: Option<impl tokio::io::AsyncRead + Unpin>,
    silence: Duration,
    mut speaks: Option<oneshot::Sender<()>>,
) -> (Vec<u8>, bool) {
    use tokio::io::AsyncReadExt;
    let mut said = Vec::new();
    let Some(mut from) = from else {
        return (said, true);
    };
    let mut chunk = [0; 4096];
    let mut patience = KUBECTL_PATIENCE.max(silence);
    loop {
        match tokio::time::timeout(patience, from.read(&mut chunk)).await {
            Ok(Ok(length @ 1..)) => said.extend(chunk.iter().take(length)),
            // What was read before an error counts as output.
            Ok(_) => return (said, true),
            Err(_) => return (said, false),
        }
        patience = silence;
        if let Some(speaks) = speaks.take() {
            // Nobody may be waiting for the first output any more.
            let _ = speaks.send(());
        }
    }
}
