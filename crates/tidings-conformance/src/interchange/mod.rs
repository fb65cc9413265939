//! A real kube-apiserver and `tidings serve` on one etcd: each reads, changes, lists, watches and
//! deletes events of the other, in both API groups, with the same answers.

mod error;
mod gateway;
mod history;
mod objects;
mod recorded;
mod server;
mod world;

use std::io::Write;

use serde_json::json;

pub(crate) use self::error::InterchangeError;
use self::gateway::Gateway;
use self::server::Server;
pub(crate) use self::world::Args;
use self::world::{World, start_tidings};
use crate::servers::{ApiServer, Etcd};

/// Runs every part, and writes the result to `out`. Returns whether there was no error.
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
