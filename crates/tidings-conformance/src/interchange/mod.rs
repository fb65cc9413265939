//! A real kube-apiserver and `tidings serve` on one etcd: whatever one of them wrote, the other reads, changes, lists,
//! watches and deletes, in both API groups, and what it says of it is what the first one says.

mod gateway;
mod history;
mod objects;
mod recorded;
mod server;

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use self::gateway::Gateway;
use self::server::Server;
use crate::http::HttpError;
use crate::servers::{ApiServer, Etcd, StartError};

/// Both of them serve events below these.
const GROUPS: [&str; 2] = ["/api/v1", "/apis/events.k8s.io/v1"];

/// Why nothing could be judged, or what is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InterchangeError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("an answer is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("what was found cannot be written: {0}")]
    Write(#[from] std::io::Error),
    #[error("{0}")]
    Different(String),
}

/// What to judge, by what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    tidings: PathBuf,
    /// The kube-apiserver to share an etcd with.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    kube_apiserver: PathBuf,
    /// The etcd to share.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    etcd: PathBuf,
}

/// Both servers, and what lies below them.
struct World<'a> {
    args: &'a Args,
    kube: Server,
    tidings: Server,
    process: Etcd,
    etcd: Gateway,
}

impl World<'_> {
    /// Each of them as the one who writes first, beside the other.
    fn pairs(&self) -> [(&Server, &Server); 2] {
        [(&self.kube, &self.tidings), (&self.tidings, &self.kube)]
    }

    fn servers(&self) -> [&Server; 2] {
        [&self.kube, &self.tidings]
    }

    /// One of them, by turns.
    fn in_turn(&self, number: u32) -> &Server {
        if number.is_multiple_of(2) {
            &self.kube
        } else {
            &self.tidings
        }
    }

    /// Another tidings on the same etcd.
    async fn another_tidings(&self, arguments: &[&str]) -> Result<Server, InterchangeError> {
        start_tidings(self.args, &self.process, "another tidings", arguments).await
    }

    /// Another kube-apiserver on the same etcd.
    async fn another_kube(&self, arguments: &[&str]) -> Result<Server, InterchangeError> {
        let program = &self.args.kube_apiserver;
        let server = ApiServer::start_kube(program, &self.process, arguments).await?;
        Ok(Server::new("another kube-apiserver", server))
    }
}

async fn start_tidings(
    args: &Args,
    etcd: &Etcd,
    name: &'static str,
    more: &[&str],
) -> Result<Server, InterchangeError> {
    let mut arguments = vec!["--etcd-servers", &etcd.url];
    // History is cut when the suite says so.
    if !more.contains(&"--etcd-compaction-interval") {
        arguments.extend(["--etcd-compaction-interval", "0"]);
    }
    arguments.extend(more);
    let server = ApiServer::start_tidings(&args.tidings, &arguments).await?;
    Ok(Server::new(name, server))
}

/// Runs every part and writes what came of it to `out`; whether nothing was wrong.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool, InterchangeError> {
    let etcd = Etcd::start(&args.etcd)?;
    let kube = ApiServer::start_kube(
        &args.kube_apiserver,
        &etcd,
        &["--etcd-compaction-interval", "0"],
    )
    .await?;
    let world = World {
        args,
        kube: Server::new("kube-apiserver", kube),
        tidings: start_tidings(args, &etcd, "tidings", &[]).await?,
        etcd: Gateway::new(&etcd.url),
        process: etcd,
    };
    for namespace in [
        "objects", "applied", "recorded", "lists", "watched", "leased", "history",
    ] {
        let body = json!({"metadata": {"name": namespace}});
        let created = world.kube.post("/api/v1/namespaces", &body).await?;
        created.expect(201)?;
    }
    let mut good = true;
    let mut part = |name: &str, outcome: Result<(), InterchangeError>| {
        good &= outcome.is_ok();
        match outcome {
            Ok(()) => writeln!(out, "ok: {name}"),
            Err(error) => writeln!(out, "wrong: {name}: {error}"),
        }
    };
    part(
        "created, patched, replaced and deleted",
        objects::changed(&world).await,
    )?;
    part("applied", objects::applied(&world).await)?;
    part("recorded", recorded::recorded(&world).await)?;
    part("listed, page by page", history::listed(&world).await)?;
    part("watched", history::watched(&world).await)?;
    part("leased", history::leased(&world).await)?;
    part("compacted", history::compacted(&world).await)?;
    Ok(good)
}

/// An event that is valid in the group.
fn event(group: &str, name: &str) -> Value {
    let object =
        json!({"kind": "Pod", "namespace": "", "name": "web", "uid": "u-web", "apiVersion": "v1"});
    if group == GROUPS[0] {
        return json!({
            "metadata": {"name": name, "labels": {"by": "core"}},
            "involvedObject": object,
            "reason": "BackOff",
            "message": "back-off <restarting> & failing ü",
            "source": {"component": "kubelet", "host": "node-1"},
            "firstTimestamp": "2026-03-04T05:00:00Z",
            "lastTimestamp": "2026-03-04T05:06:00Z",
            "count": 7,
            "type": "Warning",
        });
    }
    json!({
        "metadata": {"name": name, "annotations": {"by": "events"}},
        "regarding": object,
        "reason": "Scheduled",
        "action": "Binding",
        "note": "assigned",
        "type": "Normal",
        "eventTime": "2026-03-04T05:06:07.000008Z",
        "reportingController": "example.com/scheduler",
        "reportingInstance": "scheduler-1",
        "series": {"count": 2, "lastObservedTime": "2026-03-04T05:06:08.000000Z"},
    })
}

/// The path of a namespace's events.
fn events(group: &str, namespace: &str) -> String {
    format!("{group}/namespaces/{namespace}/events")
}

fn different(what: impl Into<String>) -> InterchangeError {
    InterchangeError::Different(what.into())
}
