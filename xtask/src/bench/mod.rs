//! `cargo xtask bench`: our figures and the peers', measured one after the other on this machine,
//! in one table.
//!
//! Every measured program prints JSON lines. Other lines of its output are ignored. There are two
//! kinds of figures for recording: the cost of a call (`ns_per_op`), and the result of a burst of
//! events that is sent to an Event API server (`events_per_second`).

mod archive;
mod figure;
mod import;
mod mcp;
mod objects;
mod objects_table;
mod questions;
mod rounds;
mod server;
mod serving;
pub(crate) mod soak;
mod store;
mod store_table;
mod table;
mod timeline;
mod timeline_table;

use std::path::Path;
use std::process::Command;

use crate::command::{Result, cargo, find};

use figure::{Figure, PROFILE, build, figures, machine};

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
    Mcp(mcp::Args),
    /// The tools for agents: bytes and tokens of ten questions, beside kubernetes-mcp-server
    Questions(questions::Args),
    /// An archive on object storage: questions to readers of it, where each request takes 20 ms
    Objects(objects::Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the tables into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Skip the burst into a server
    #[arg(long)]
    no_burst: bool,
}

pub(crate) fn run(root: &Path, bench: &Bench) -> Result {
    match bench {
        Bench::Record(args) => record(root, args),
        Bench::Server(args) => serving::run(root, args),
        Bench::Archive(args) => archive::run(root, args),
        Bench::Import(args) => import::run(root, args),
        Bench::Store(args) => store::run(root, args),
        Bench::Timeline(args) => timeline::run(root, args),
        Bench::Mcp(args) => mcp::run(root, args),
        Bench::Questions(args) => questions::run(root, args),
        Bench::Objects(args) => objects::run(root, args),
    }
}

fn record(root: &Path, args: &Args) -> Result {
    let mut skipped = Vec::new();
    let client_go = root.join("benches/peers/client-go");
    let has_go = find("go").is_some();
    if !has_go {
        skipped.push("client-go: Go is not on the PATH".to_owned());
    }

    let mut calls = Vec::new();
    for program in ["record", "record-allocations"] {
        let run = [
            "run",
            "--profile",
            PROFILE,
            "-q",
            "-p",
            "tidings-bench",
            "--bin",
            program,
        ];
        calls.extend(figures(&mut cargo(root, &run))?);
    }
    if has_go {
        calls.extend(figures(
            Command::new("go")
                .args(["run", "./micro"])
                .current_dir(&client_go),
        )?);
    }
    let (mut burst, mut repeats) = (Vec::new(), Vec::new());
    if !args.no_burst {
        let server = build(root, "tidings-cli", "tidings")?;
        let kube_rs = root.join("benches/peers/kube-rs");
        let kube_rs = || {
            let mut command = cargo(&kube_rs, &["run", "--release", "-q", "--"]);
            command.env("CARGO_TARGET_DIR", root.join("target/peers"));
            command
        };
        let ours = [
            "run",
            "--profile",
            PROFILE,
            "-q",
            "-p",
            "tidings-bench",
            "--bin",
            "record-load",
            "--",
        ];
        burst.extend(send_burst(&server, EVENTS, &mut cargo(root, &ours))?);
        let mut protobuf = cargo(root, &ours);
        burst.extend(send_burst(&server, EVENTS, protobuf.arg("--protobuf"))?);
        if has_go {
            let mut command = Command::new("go");
            burst.extend(send_burst(
                &server,
                EVENTS,
                command
                    .args(["run", "./record-load"])
                    .current_dir(&client_go),
            )?);
        }
        burst.extend(send_burst(&server, EVENTS, &mut kube_rs())?);

        let mut series = cargo(root, &ours);
        repeats.extend(send_burst(&server, FEW, series.arg("--series"))?);
        for tasks in ["1", "16"] {
            let mut command = kube_rs();
            let figures = send_burst(&server, FEW, command.args(["--tasks", tasks]))?;
            repeats.extend(figures.into_iter().map(|mut figure| {
                let version = format!("{}, {tasks} at once", figure.text("version"));
                figure.0["version"] = version.into();
                figure
            }));
        }
    }

    let tables = format!(
        "{}\n{}\n{}\n{}\n{}",
        machine(has_go),
        table::calls(&calls),
        table::series(&calls),
        table::burst("burst into `tidings serve`", &burst),
        table::burst("burst about 100 objects", &repeats),
    );
    println!("\n{tables}");
    for line in &skipped {
        println!("skipped {line}");
    }
    if args.write {
        if !skipped.is_empty() || args.no_burst {
            return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
        }
        table::write(&root.join("docs/benchmarks.md"), "record", &tables)?;
    }
    Ok(())
}

/// Number of events in a burst, number of objects that they are about, and a smaller number of
/// objects.
const EVENTS: &str = "20000";
const FEW: &str = "100";

/// Runs `command`, which sends its burst about this number of objects to a fresh server.
fn send_burst(server: &Path, objects: &str, command: &mut Command) -> Result<Vec<Figure>> {
    let running = server::Running::start(server, &["serve", "--secure-port", "0"])?;
    let before = running.processor_seconds();
    let mut figures = figures(command.arg("--kubeconfig").arg(running.kubeconfig()).args([
        "--events",
        EVENTS,
        "--objects",
        objects,
    ]))?;
    if let (Some(worked), Some(before)) = (running.processor_seconds(), before) {
        for figure in &mut figures {
            let delivered = figure.number("delivered").unwrap_or(0.0).max(1.0);
            figure.0["server_cpu_us_per_event"] = ((worked - before) * 1e6 / delivered).into();
        }
    }
    Ok(figures)
}
