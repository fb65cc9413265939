//! Runs the steps of a case on one of the two servers, and returns each answer as a document.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::Full;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::case::{Action, Variables, What, fill_text};
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
enum Given {
    Now(Tree),
    Later(JoinHandle<Tree>),
}

impl Side {
    pub(super) fn new(server: ApiServer, kubectl: Option<PathBuf>) -> std::io::Result<Self> {
        Ok(Self {
            server,
            kubectl,
            cache: tempfile::tempdir()?,
        })
    }

    /// Runs all steps in order. An error counts as an answer too.
    pub(super) async fn run(&self, actions: &[Action], namespace: &str) -> Vec<Tree> {
        let mut variables = Variables::from([("ns".to_owned(), Tree::from(namespace))]);
        self.make_namespace(namespace).await;
        let mut given = Vec::new();
        for action in actions {
            let answer = match &action.what {
                What::Send { .. } => self.send(action, &variables).await,
                What::Kubectl { .. } => {
                    self.run_kubectl(&action.what, action.background, &variables)
                        .await
                }
            };
            let answer = match answer {
                // Later steps may need values of this answer.
                Given::Later(task) if !action.background => Given::Now(finish(task).await),
                answer => answer,
            };
            if let Given::Now(answer) = &answer {
                for (name, place) in &action.save {
                    let value = answer.at(place).cloned().unwrap_or_default();
                    variables.insert(name.clone(), value);
                }
            }
            given.push(answer);
        }
        let mut answers = Vec::new();
        for answer in given {
            answers.push(match answer {
                Given::Now(answer) => answer,
                Given::Later(task) => finish(task).await,
            });
        }
        answers
    }

    /// Runs all steps in order on this server. Steps that only read are repeated at the archive of
    /// this server, once it has caught up. Returns the answers of both to these reads.
    pub(super) async fn run_with_archive(
        &self,
        archive: &Self,
        actions: &[Action],
        namespace: &str,
    ) -> Vec<(usize, Tree, Tree)> {
        let mut variables = Variables::from([("ns".to_owned(), Tree::from(namespace))]);
        // The archive has variables of its own: its continue tokens are useless elsewhere.
        let mut of_archive = variables.clone();
        self.make_namespace(namespace).await;
        let mut given = Vec::new();
        // Steps in the background are not run: their watches begin at a revision of one server.
        for (at, action) in actions
            .iter()
            .enumerate()
            .filter(|(_, action)| !action.background)
        {
            let here = self.answer(action, &variables).await;
            let there = if action.what.is_read() {
                match self.wait_for(archive, namespace).await {
                    Ok(()) => archive.answer(action, &of_archive).await,
                    Err(why) => Tree::Map(vec![("failed".to_owned(), Tree::Text(why))]),
                }
            } else {
                here.clone()
            };
            for (name, place) in &action.save {
                let value = |answer: &Tree| answer.at(place).cloned().unwrap_or_default();
                variables.insert(name.clone(), value(&here));
                of_archive.insert(name.clone(), value(&there));
            }
            if action.what.is_read() {
                given.push((at, here, there));
            }
        }
        given
    }

    async fn answer(&self, action: &Action, variables: &Variables) -> Tree {
        let answer = match &action.what {
            What::Send { .. } => self.send(action, variables).await,
            What::Kubectl { .. } => self.run_kubectl(&action.what, false, variables).await,
        };
        match answer {
            Given::Now(answer) => answer,
            Given::Later(task) => finish(task).await,
        }
    }

    /// Waits until an archive has the same events of a namespace as this server.
    async fn wait_for(&self, archive: &Self, namespace: &str) -> Result<(), String> {
        let mut tries = LEVEL_TRIES;
        loop {
            let (here, there) = tokio::join!(self.events(namespace), archive.events(namespace));
            if here == there {
                return Ok(());
            }
            if tries == 0 {
                return Err(format!("the archive has {there}, not {here}"));
            }
            tries -= 1;
            tokio::time::sleep(LEVEL_PAUSE).await;
        }
    }

    /// The events of a namespace, without the values that a server chooses.
    async fn events(&self, namespace: &str) -> Tree {
        let request = Request::get(format!("/api/v1/namespaces/{namespace}/events"))
            .header("Authorization", "Bearer admin-token")
            .body(Full::default());
        let answer = async {
            let answer = self.server.client.send(request?).await?;
            let bytes = answer.body().await?;
            Ok::<_, HttpError>(document(&bytes, "application/json", false))
        };
        let mut list = answer.await.unwrap_or_else(|error| failure(&error));
        without_revisions(&mut list);
        list.get("items").cloned().unwrap_or(list)
    }

    /// Creates a namespace, which kube-apiserver needs before events. Our server refuses that,
    /// since every namespace exists there; it does no harm.
    async fn make_namespace(&self, namespace: &str) {
        let body = format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#);
        let request = Request::post("/api/v1/namespaces")
            .header("Authorization", "Bearer admin-token")
            .header("Content-Type", "application/json")
            .body(Full::from(body));
        if let Ok(request) = request
            && let Ok(answer) = self.server.client.send(request).await
        {
            let _ = answer.body().await;
        }
    }

    async fn send(&self, action: &Action, variables: &Variables) -> Given {
        let request = match request(&action.what, variables) {
            Ok(request) => request,
            Err(error) => return Given::Now(failure(&error)),
        };
        let is_watch = request.uri().path().contains("/watch/")
            || request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
        match self.server.client.send(request).await {
            // The watch is open now, and must see the changes of later steps.
            Ok(answer) => Given::Later(tokio::spawn(async move {
                read(answer, is_watch)
                    .await
                    .unwrap_or_else(|error| failure(&error))
            })),
            Err(error) => Given::Now(failure(&error)),
        }
    }

    /// Runs kubectl. If it runs in the background, this returns when it has begun to print, so that
    /// it sees the changes of later steps.
    async fn run_kubectl(&self, what: &What, background: bool, variables: &Variables) -> Given {
        let (
            Some(program),
            What::Kubectl {
                arguments,
                input,
                lines,
            },
        ) = (&self.kubectl, what)
        else {
            return Given::Now(Tree::Null);
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
        let input = input.bytes(variables, "").unwrap_or_default();
        let silence = if background {
            SILENCE
        } else {
            KUBECTL_PATIENCE
        };
        let wanted = lines.clone().unwrap_or_default();
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
        Given::Later(task)
    }
}

/// Removes the `resourceVersions` of objects, which a server chooses.
fn without_revisions(tree: &mut Tree) {
    match tree {
        Tree::List(items) => items.iter_mut().for_each(without_revisions),
        Tree::Map(entries) => {
            for (key, value) in entries {
                if key == "metadata"
                    && let Tree::Map(metadata) = value
                {
                    metadata.retain(|(key, _)| key != "resourceVersion");
                } else if key == "items" {
                    without_revisions(value);
                }
            }
        }
        _ => {}
    }
}

async fn finish(task: JoinHandle<Tree>) -> Tree {
    task.await.unwrap_or_else(|error| failure(&error))
}

fn failure(error: &dyn std::error::Error) -> Tree {
    Tree::Map(vec![("failed".to_owned(), Tree::Text(error.to_string()))])
}

fn request(what: &What, variables: &Variables) -> Result<Request<Full<Bytes>>, HttpError> {
    let What::Send {
        method,
        path,
        headers,
        user,
        body,
    } = what
    else {
        return Ok(Request::default());
    };
    let mut headers: BTreeMap<String, String> = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), fill_text(value, variables)))
        .collect();
    let declared = headers.get("content-type").map_or("", String::as_str);
    let body = body.bytes(variables, declared);
    if body.is_some() {
        headers
            .entry("content-type".to_owned())
            .or_insert_with(|| "application/json".to_owned());
    }
    if !user.is_empty() {
        headers
            .entry("authorization".to_owned())
            .or_insert_with(|| format!("Bearer {user}-token"));
    }
    headers
        .entry("user-agent".to_owned())
        .or_insert_with(|| "judge/1.0".to_owned());
    let mut request = Request::builder()
        .method(method.as_str())
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
    let content_type = answer
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let bytes = answer.body().await?;
    Ok(Tree::Map(vec![
        ("status".to_owned(), status.into()),
        ("header".to_owned(), headers),
        (
            "body".to_owned(),
            document(&bytes, &content_type, is_watch && status == 200),
        ),
    ]))
}

fn headers(headers: &HeaderMap) -> Tree {
    let mut entries = Vec::new();
    for name in HEADERS {
        let values: Vec<Tree> = headers
            .get_all(name)
            .iter()
            .map(|value| {
                if ONLY_GIVEN.contains(&name) {
                    "<given>".into()
                } else {
                    String::from_utf8_lossy(value.as_bytes()).as_ref().into()
                }
            })
            .collect();
        match <[Tree; 1]>::try_from(values) {
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
    Ok(Tree::Map(vec![
        ("status".to_owned(), status),
        ("body".to_owned(), body),
        ("error".to_owned(), lines(&text(&complained), "")),
    ]))
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
