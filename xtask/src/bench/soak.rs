//! `cargo xtask soak`: writes a steady stream of short-lived events to our server for a long time,
//! with watchers that check that each event is created once and ends once, in time. The latencies
//! and memory of each minute are printed, and must not grow.

use crate::command::Result;
use std::path::Path;
use std::process::Command;

use super::figure::{build, figures};
use super::server::Running;

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
    /// Events per second
    #[arg(long, default_value_t = 1_000)]
    per_second: u64,
    /// Watchers, each of one of ten namespaces
    #[arg(long, default_value_t = 200)]
    watchers: usize,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let tidings = build(root, "tidings-cli", "tidings")?;
    let load = build(root, "tidings-bench", "server-load")?;
    let (seconds, ttl) = if args.short {
        (10, 5)
    } else {
        (args.minutes.saturating_mul(60), TTL)
    };
    let ttl_flag = format!("{ttl}s");
    let server = Running::start(
        &tidings,
        &["serve", "--secure-port", "0", "--event-ttl", &ttl_flag],
    )?;
    let mut command = Command::new(load);
    command
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .arg("soak");
    for (flag, value) in [
        ("--seconds", seconds),
        ("--per-second", args.per_second),
        ("--watchers", args.watchers as u64),
        ("--ttl", ttl),
        ("--process", server.process().into()),
    ] {
        command.arg(flag).arg(value.to_string());
    }
    figures(&mut command).map(drop)
}
