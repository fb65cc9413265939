//! Both servers on one etcd, and the events that are sent to them.

use std::path::PathBuf;

use serde_json::Value;

use super::server::{Server, Watching};
use crate::error::{Result, fail};
use crate::servers::{ApiServer, Etcd};

/// Paths of events on both servers.
pub(super) const GROUPS: [&str; 2] = ["/api/v1", "/apis/events.k8s.io/v1"];

/// The arguments of this suite.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) tidings: PathBuf,
    /// The kube-apiserver to share an etcd with.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    pub(super) kube_apiserver: PathBuf,
    /// The etcd to share.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    pub(super) etcd: PathBuf,
}

/// Both servers and their etcd.
pub(super) struct World<'a> {
    pub(super) args: &'a Args,
    pub(super) kube: Server,
    pub(super) tidings: Server,
    pub(super) etcd: Etcd,
}

impl World<'_> {
    /// The two servers in both orders. The first of a pair writes.
    pub(super) fn pairs(&self) -> [(&Server, &Server); 2] {
        [(&self.kube, &self.tidings), (&self.tidings, &self.kube)]
    }

    pub(super) fn servers(&self) -> [&Server; 2] {
        [&self.kube, &self.tidings]
    }

    /// What both servers answer to this read, which must be the same.
    pub(super) async fn both(&self, path: &str) -> Result<Value> {
        let (theirs, ours) = (self.kube.get(path).await?, self.tidings.get(path).await?);
        same(path, ("kube-apiserver", &theirs), ("tidings", &ours))?;
        Ok(theirs)
    }

    /// Begins this watch at both servers.
    pub(super) async fn watches(&self, path: &str) -> Result<[Watching; 2]> {
        Ok([
            self.kube.watch(path).await?,
            self.tidings.watch(path).await?,
        ])
    }

    /// Starts another tidings on the same etcd.
    pub(super) async fn another_tidings(&self, arguments: &[&str]) -> Result<Server> {
        start_tidings(self.args, &self.etcd, "another tidings", arguments).await
    }

    /// Starts another kube-apiserver on the same etcd.
    pub(super) async fn another_kube(&self, arguments: &[&str]) -> Result<Server> {
        let program = &self.args.kube_apiserver;
        let server = ApiServer::kube(program, &self.etcd, None, arguments).await?;
        Ok(Server::new("another kube-apiserver", server))
    }
}

pub(super) async fn start_tidings(
    args: &Args,
    etcd: &Etcd,
    name: &'static str,
    more: &[&str],
) -> Result<Server> {
    let mut arguments = vec!["--etcd-servers", &etcd.url];
    // Without a request, this kube-apiserver compacts no history.
    if !more.contains(&"--etcd-compaction-interval") {
        arguments.extend(["--etcd-compaction-interval", "0"]);
    }
    arguments.extend(more);
    let server = ApiServer::tidings(&args.tidings, &arguments).await?;
    Ok(Server::new(name, server))
}

/// Requires that two values with these names are the same.
pub(super) fn same(what: &str, one: (&str, &Value), other: (&str, &Value)) -> Result<()> {
    if one.1 == other.1 {
        return Ok(());
    }
    fail(format!(
        "{what}:\n    {}: {}\n    {}: {}",
        one.0, one.1, other.0, other.1
    ))
}

/// The version of an object or a list; empty if it has none.
pub(super) fn version(object: &Value) -> String {
    let version = object.pointer("/metadata/resourceVersion");
    version
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// An event that is valid in the group.
pub(super) fn event(group: &str, namespace: &str, name: &str) -> Value {
    let events = include_str!("events.json");
    let events = events.replace("{ns}", namespace).replace("{name}", name);
    let mut events: Value = serde_json::from_str(&events).unwrap_or_default();
    events[usize::from(group != GROUPS[0])].take()
}

/// The path of a namespace's events.
pub(super) fn events(group: &str, namespace: &str) -> String {
    format!("{group}/namespaces/{namespace}/events")
}
