//! `cargo xtask bench`: our figures and the peers', measured one after the other on this machine,
//! in one table.
//!
//! Every measured program prints JSON lines. Other lines of its output are ignored. There are two
//! kinds of figures for recording: the cost of a call (`ns_per_op`), and the result of a burst of
//! events that is sent to an Event API server (`events_per_second`).

mod archive;
mod figure;
mod import;
mod objects;
mod questions;
mod rounds;
mod server;
mod serving;
pub(crate) mod soak;
mod store;
mod table;
mod tables;
mod timeline;

use std::path::Path;
use std::process::Command;

use tidings_testing::process::processor_seconds;

use crate::command::{Result, cargo, find};

use figure::{Built, Figure, Output, figures, machine};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Recording: the recorder, the fan-out, the correlator, and a burst into a server
    Record(Args),
    /// The Event API server: writes, reads and watchers, beside kube-apiserver with etcd and a
    /// handler that only echoes
    Server(serving::Args),
    /// Following: the archive's memory and processor time, beside an OpenTelemetry collector's
    Archive(archive::Args),
    /// Importing: events of files into the Event API server, beside kubectl create
    Import(import::Args),
    /// Storing: the embedded store beside raw etcd and a bare log on the same disk
    Store(store::Args),
    /// The timeline: its answers among a million events, and its page in a browser, beside
    /// vis-timeline
    Timeline(timeline::Args),
    /// The tools for agents, among a million events
    Mcp(timeline::McpArgs),
    /// The tools for agents: bytes and tokens of ten questions, beside kubernetes-mcp-server
    Questions(questions::Args),
    /// An archive on object storage: questions to readers of it, where each request takes 20 ms
    Objects(objects::Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    built: Built,
}

pub(crate) fn run(root: &Path, bench: &Bench) -> Result {
    match bench {
        Bench::Record(args) => record(root, args),
        Bench::Server(args) => serving::run(root, args),
        Bench::Archive(args) => archive::run(root, args),
        Bench::Import(args) => import::run(root, args),
        Bench::Store(args) => store::run(root, args),
        Bench::Timeline(args) => timeline::run(root, args),
        Bench::Mcp(args) => timeline::tools(root, args),
        Bench::Questions(args) => questions::run(root, args),
        Bench::Objects(args) => objects::run(root, args),
    }
}

fn record(root: &Path, args: &Args) -> Result {
    args.output.check(root, "record")?;
    let mut skipped = Vec::new();
    let has_go = find("go").is_some();
    if !has_go {
        skipped.push("client-go: Go is not on the PATH".to_owned());
    }
    let go = |program: &str| {
        let mut command = Command::new("go");
        command
            .args(["run", program])
            .current_dir(root.join("benches/peers/client-go"));
        has_go.then_some(command)
    };
    let kube_rs = |tasks: &str| {
        let folder = root.join("benches/peers/kube-rs");
        let mut command = cargo(&folder, &["run", "--release", "-q", "--", "--tasks", tasks]);
        command.env("CARGO_TARGET_DIR", root.join("target/peers"));
        command
    };
    let mut calls = Vec::new();
    for program in ["record", "record-allocations"] {
        calls.extend(figures(&mut Command::new(
            args.built.bench(root, program)?,
        ))?);
    }
    if let Some(mut command) = go("./micro") {
        calls.extend(figures(&mut command)?);
    }

    let server = args.built.tidings(root)?;
    let load = args.built.bench(root, "record-load")?;
    let ours = |more: Option<&str>| {
        let mut command = Command::new(&load);
        command.args(more);
        command
    };
    let (mut burst, mut repeats) = (Vec::new(), Vec::new());
    burst.extend(send_burst(&server, EVENTS, ours(None))?);
    burst.extend(send_burst(&server, EVENTS, ours(Some("--protobuf")))?);
    if let Some(command) = go("./record-load") {
        burst.extend(send_burst(&server, EVENTS, command)?);
    }
    burst.extend(send_burst(&server, EVENTS, kube_rs("8"))?);
    repeats.extend(send_burst(&server, FEW, ours(Some("--series")))?);
    for tasks in ["1", "16"] {
        for figure in send_burst(&server, FEW, kube_rs(tasks))? {
            let version = format!("{}, {tasks} at once", figure.text("version"));
            repeats.push(figure.with("version", version));
        }
    }
    let tables = format!(
        "{}\n{}\n{}\n{}",
        machine(has_go),
        tables::recording(&calls),
        tables::burst("burst into `tidings serve`", &burst),
        tables::burst("burst about 100 objects", &repeats),
    );
    args.output.put(root, "record", &tables, &skipped)
}

/// Number of events in a burst, number of objects that they are about, and a smaller number of
/// objects.
const EVENTS: &str = "20000";
const FEW: &str = "100";

/// Runs a command, which sends its burst about this number of objects to a fresh server.
fn send_burst(server: &Path, objects: &str, mut command: Command) -> Result<Vec<Figure>> {
    let running = server::Running::start(server, &["serve", "--secure-port=0"])?;
    let before = processor_seconds(running.process());
    command.arg("--kubeconfig").arg(&running.kubeconfig);
    let figures = figures(command.args(["--events", EVENTS, "--objects", objects]))?;
    let worked = processor_seconds(running.process()).zip(before);
    let with_server = figures.into_iter().map(|figure| {
        let delivered = figure.number("delivered").unwrap_or(0.).max(1.);
        match worked {
            Some((after, before)) => figure.with(
                "server_cpu_us_per_event",
                (after - before) * 1e6 / delivered,
            ),
            None => figure,
        }
    });
    Ok(with_server.collect())
}
