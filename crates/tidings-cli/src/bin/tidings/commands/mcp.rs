//! `tidings mcp`: lets an agent read events, by the Model Context Protocol on standard input and
//! output.
//!
//! A tidings server or archive is asked for its own answers, and so is the archive that a cluster's
//! API server serves. Any other cluster is followed, as `tidings timeline` does it, and read within
//! this process. Either way nothing is written.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use kube::client::Body;
use tidings_server::ApiOptions;
use tidings_server::mcp::{Refused, Source, serve_stdio};
use tidings_store::BoxFuture;

use super::archive::hint;
use super::capture::Capture;
use super::cluster::{ClusterFlags, CommandError, Server, namespace, one_line, tell, with_sources};
use super::followed::FollowFlags;
use super::past;
use super::serve::{Signals, start_logging_of};

/// Exit code: the client closed the input, or a signal ended it.
const ENDED: u8 = 0;
/// Exit code: it could not start, or the client spoke another protocol.
const FAILED: u8 = 1;
/// Exit code: an option that does nothing here.
const WRONG: u8 = 2;
/// Maximum time of a request to a server.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a server's answer.
const ANSWER_MAX: usize = 32 << 20;

/// Let an agent read events: what happened, and what is not known.
///
/// Speaks the Model Context Protocol on standard input and output, for an agent that starts this
/// command. Of a tidings server or archive, the agent reads what this user may read; so it does of
/// a cluster whose API server serves its archive (pastevents). Any other cluster is followed as
/// tidings timeline does it, in a temporary folder unless --keep names one: what happened before is
/// known as far as the cluster still has it. Nothing is changed anywhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    the client has closed the input, or a signal ended it
  1    could not start
  2    wrong arguments

Examples:
  tidings mcp                                   # the current context, and its archive
  tidings mcp --context prod --context staging
  tidings mcp --kubeconfig ./archive/kubeconfig # months of events
  tidings mcp --file must-gather.tar.gz         # a bundle as it was sent")]
pub(crate) struct Args {
    #[command(flatten)]
    follow: FollowFlags,
}

/// Serves until the input ends.
pub(crate) async fn run(args: Args) -> ExitCode {
    // Standard output is the client's. Problems of clusters are told in every answer.
    start_logging_of("error,kube_client=off,tidings_archive=off,rmcp=off");
    let code = match Box::pin(mcp(args)).await {
        Ok(()) => ENDED,
        Err(error) => {
            tell(&format!("error: cannot serve the agent: {error}"));
            match error.downcast_ref() {
                Some(CommandError::Usage(_)) => WRONG,
                Some(_) => FAILED,
                None => {
                    tell(&format!("hint: {}", hint(&*error)));
                    FAILED
                }
            }
        }
    };
    // A read of standard input cannot be cancelled: the runtime would wait for it after a signal.
    std::process::exit(code.into());
}

async fn mcp(args: Args) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let mut serve = async |source: Arc<dyn Source>| -> Result<(), Box<dyn Error>> {
        tokio::select! {
            served = serve_stdio(source) => served.map_err(Box::from),
            () = signals.wait() => Ok(()),
        }
    };
    let follow = &args.follow;
    if !follow.file.is_empty() {
        let capture = Capture::load(&follow.file).await?;
        return serve(capture.source().await?).await;
    }
    if let [] | [_] = follow.context.as_slice() {
        let context = follow.context.first().cloned();
        let flags = ClusterFlags::of_context(follow.kubeconfig.clone(), context);
        if let Some(server) = Answering::find(&flags).await? {
            follow.check_unused()?;
            return serve(Arc::new(server)).await;
        }
        if follow.keep.is_none()
            && let Some(archive) = Answering::find_archive(&flags, follow).await?
        {
            return serve(Arc::new(archive)).await;
        }
    }
    let temporary = tempfile::Builder::new().prefix("tidings-mcp-").tempdir()?;
    let (followed, served) = follow.follow(temporary.path()).await?;
    let source = tidings_server::source_of_clusters(served, ApiOptions::default())?;
    let served = tokio::select! {
        served = serve(source) => served,
        () = followed.complain() => Ok(()),
    };
    followed.close().await;
    served
}

/// A tidings server or archive, as the source of its own answers.
struct Answering {
    server: Server,
    /// The cluster that the context names.
    cluster: Option<String>,
    /// The only namespace that is read, of an archive in a cluster's API server.
    namespace: Option<String>,
}

impl Answering {
    /// The server that these flags select, if it has such answers.
    async fn find(flags: &ClusterFlags) -> Result<Option<Self>, CommandError> {
        let server = Server {
            timeout: Some(TIMEOUT),
            ..flags.server().await?
        };
        if !server.is_ours().await? {
            return Ok(None);
        }
        let cluster = flags.cluster_of_archive()?;
        let root = flags.root().await?.server().await?;
        let found = Self {
            server: Server {
                timeout: Some(TIMEOUT),
                ..root
            },
            cluster,
            namespace: None,
        };
        match found.ask("coverage", String::new()).await {
            Ok(_) => Ok(Some(found)),
            // Without a timeline, or of an earlier version.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(CommandError::request("read the coverage", "events", error)),
        }
    }

    /// The archive of the cluster that these flags select, if the cluster's API server has one that
    /// this user may read: of all namespaces, or else of the namespace of -n or of the context.
    async fn find_archive(
        flags: &ClusterFlags,
        follow: &FollowFlags,
    ) -> Result<Option<Self>, CommandError> {
        let Some(archive) = past::archive_of(flags).await? else {
            return Ok(None);
        };
        // Of several, the first one shows whether the archive can be read at all.
        let given = follow.namespace.first().cloned();
        let given = given
            .map(namespace)
            .transpose()
            .map_err(|why| CommandError::Usage(format!("-n: {why}")))?;
        let server = archive.server().await?;
        let mut found = Self {
            server: Server {
                timeout: Some(TIMEOUT),
                ..server
            },
            cluster: None,
            namespace: given,
        };
        let mut asked = found.ask("coverage", String::new()).await;
        if found.namespace.is_none()
            && matches!(&asked, Err(kube::Error::Api(status)) if status.code == 403)
        {
            found.namespace = Some(found.server.context_namespace()?);
            asked = found.ask("coverage", String::new()).await;
        }
        let why = match asked {
            Ok(_) => {
                follow.check_one_namespace()?;
                let of = found
                    .namespace
                    .as_deref()
                    .map(|it| format!(" of namespace {it}"));
                tell(&format!(
                    "events{} are read from the archive of this cluster",
                    of.unwrap_or_default()
                ));
                return Ok(Some(found));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                "it is of an earlier version, or has no timeline".to_owned()
            }
            Err(kube::Error::Api(status)) => one_line(&status.message),
            Err(error) => with_sources(&error),
        };
        tell(&format!(
            "the archive of this cluster is not read, only what the cluster has: {why}"
        ));
        Ok(None)
    }

    async fn ask(&self, answer: &str, query: String) -> kube::Result<Bytes> {
        let mut query = query;
        if let Some(only) = &self.namespace {
            let mut given = form_urlencoded::parse(query.as_bytes());
            let given = given.find(|(name, _)| name == "namespace");
            let given = given.map(|(_, namespace)| namespace.into_owned());
            match given {
                Some(other) if other != *only => {
                    let why = format!("events of namespace {only} are read, and of no other");
                    let status = kube::core::Status::failure(&why, "Forbidden");
                    return Err(kube::Error::Api(Box::new(status.with_code(403))));
                }
                Some(_) => {}
                None => query = format!("namespace={only}&{query}"),
            }
        }
        let cluster = self.cluster.as_deref();
        if let Some(cluster) = cluster.filter(|_| !query.contains("cluster=")) {
            let cluster = form_urlencoded::Serializer::new(String::new())
                .append_pair("cluster", cluster)
                .finish();
            query = format!("{cluster}&{query}");
        }
        let of_namespace = self
            .namespace
            .as_ref()
            .map(|it| format!("/namespaces/{it}"));
        let of_namespace = of_namespace.unwrap_or_default();
        let path = format!("{of_namespace}/timeline/api/{answer}?{query}");
        let ask = || async {
            let request = Request::get(&path).body(Body::empty());
            let request = request.map_err(kube::Error::HttpError)?;
            let answer = self.server.client.send(request).await?;
            let status = answer.status();
            let body = http_body_util::Limited::new(answer.into_body(), ANSWER_MAX);
            let body = http_body_util::BodyExt::collect(body).await;
            let body = body.map_err(kube::Error::Service)?.to_bytes();
            if !status.is_success() {
                let refusal = super::reader::refusal(status, &body);
                return Err(kube::Error::Api(Box::new(refusal)));
            }
            Ok(body)
        };
        self.server.in_time(ask()).await
    }
}

impl Source for Answering {
    fn get(&self, answer: &'static str, query: String) -> BoxFuture<'_, Result<Bytes, Refused>> {
        Box::pin(async move {
            let answer = self.ask(answer, query).await;
            answer.map_err(|error| match error {
                kube::Error::Api(status) => Refused {
                    code: status.code,
                    message: one_line(&status.message),
                },
                error => Refused {
                    code: 502,
                    message: with_sources(&error),
                },
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::Response;
    use kube::Client;
    use serde_json::json;

    use super::*;

    /// Looks for the archive of a cluster whose API server has its group, and answers for the
    /// timeline with this status code. Returns the last path that was requested, too.
    async fn found(
        namespaces: &[&str],
        code: u16,
    ) -> (Result<Option<Answering>, CommandError>, String) {
        let asked = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let code = if path.starts_with("/apis/") {
                200
            } else {
                code
            };
            *log.lock().unwrap() = path;
            let body = json!({"kind": "Status", "code": code}).to_string();
            let answer = Response::builder().status(code);
            let answer = answer.body(Body::from(body.into_bytes())).unwrap();
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        let mut flags = ClusterFlags::of_context(None, None);
        flags.direct_to(Client::new(service, "default"));
        let follow = FollowFlags {
            kubeconfig: None,
            context: Vec::new(),
            namespace: namespaces.iter().map(|it| (*it).to_owned()).collect(),
            keep: None,
            file: Vec::new(),
        };
        let found = Answering::find_archive(&flags, &follow).await;
        let path = asked.lock().unwrap().clone();
        (found, path)
    }

    #[tokio::test]
    async fn several_namespaces_are_refused_only_of_an_archive_that_can_be_read() {
        let (found_one, path) = found(&["a"], 200).await;
        assert_eq!(found_one.unwrap().unwrap().namespace.as_deref(), Some("a"));
        assert_eq!(path, "/namespaces/a/timeline/api/coverage");
        let (all, path) = found(&[], 200).await;
        assert_eq!(all.unwrap().unwrap().namespace, None);
        assert_eq!(path, "/timeline/api/coverage");
        let (several, _) = found(&["a", "b"], 200).await;
        assert!(matches!(several, Err(CommandError::Usage(_))));
        // Without its timeline, or the permission, the cluster itself is followed.
        for code in [403, 404, 503] {
            let (several, _) = found(&["a", "b"], code).await;
            assert!(several.unwrap().is_none(), "{code}");
        }
    }
}
