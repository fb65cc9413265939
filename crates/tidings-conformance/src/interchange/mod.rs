//! A real kube-apiserver and `tidings serve` on one etcd: each reads, changes, lists, watches and
//! deletes events of the other, in both API groups, with the same answers.

mod history;
mod objects;
mod recorded;
mod server;
mod world;

use std::io::Write;

use serde_json::json;

use self::server::Server;
pub(crate) use self::world::Args;
use self::world::{World, start_tidings};
use crate::error::Result;
use crate::servers::{ApiServer, Etcd};

/// Runs every part, and writes the result to `out`. Returns whether there was no error.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let etcd = Etcd::start(&args.etcd, folder.path()).await?;
    let more = ["--etcd-compaction-interval", "0"];
    let kube = ApiServer::kube(&args.kube_apiserver, &etcd, None, &more).await?;
    let world = World {
        args,
        kube: Server::new("kube-apiserver", kube),
        tidings: start_tidings(args, &etcd, "tidings", &[]).await?,
        etcd,
    };
    for namespace in [
        "objects", "applied", "recorded", "lists", "watched", "leased", "history",
    ] {
        let body = json!({"metadata": {"name": namespace}});
        world.kube.post("/api/v1/namespaces", &body, 201).await?;
    }
    let mut good = true;
    let mut part = |name: &str, outcome: Result<()>| {
        good &= outcome.is_ok();
        match outcome {
            Ok(()) => writeln!(out, "ok: {name}"),
            Err(error) => writeln!(out, "wrong: {name}: {error}"),
        }
    };
    let changed = objects::changed(&world).await;
    part("created, patched, replaced and deleted", changed)?;
    part("applied", objects::applied(&world).await)?;
    part("recorded", recorded::recorded(&world).await)?;
    part("listed, page by page", history::listed(&world).await)?;
    part("watched", history::watched(&world).await)?;
    part("leased", history::leased(&world).await)?;
    part("compacted", history::compacted(&world).await)?;
    Ok(good)
}
