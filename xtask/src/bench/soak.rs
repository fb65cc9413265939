//! `cargo xtask soak`: writes a steady stream of short-lived events to our server for a long time,
//! with watchers that check that each event is created once and ends once, in time. The latencies
//! and memory of each minute are printed, and must not grow.

use std::path::Path;
use std::process::Command;

use super::figure::{Built, figures};
use super::server::Running;
use crate::command::Result;

/// Time for which the server keeps an event, in seconds.
const TTL: u64 = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to write
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// A few seconds instead, as a check that everything works
    #[arg(long)]
    short: bool,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let built = Built::default();
    let (tidings, load) = (built.tidings(root)?, built.bench(root, "server-load")?);
    let (seconds, ttl) = if args.short {
        (10, 5)
    } else {
        (args.minutes.saturating_mul(60), TTL)
    };
    let kept = format!("--event-ttl={ttl}s");
    let server = Running::start(&tidings, &["serve", "--secure-port=0", &kept])?;
    let mut command = Command::new(load);
    command
        .arg("--kubeconfig")
        .arg(&server.kubeconfig)
        .arg("soak");
    command.args(["--seconds", &seconds.to_string(), "--ttl", &ttl.to_string()]);
    command.args(["--process", &server.process().to_string()]);
    figures(&mut command).map(drop)
}
