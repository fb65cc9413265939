//! `cargo xtask bench server`: the same load on our server, on kube-apiserver with etcd, and on a
//! handler that only parses and echoes (the floor), one after the other on this machine. Each part
//! has a fresh server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use super::figure::{Built, Figure, figures};
use super::rounds::{self, ROUNDS};
use super::server::Running;
use super::table;
use crate::command::{Result, find};
use crate::kube_apiserver;
use crate::tools::Tools;

/// Number of events for reads: as many as kube-apiserver accepts in a reasonable time.
const EVENTS: &str = "25000";

#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the table into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// A tenth of the load, as a check that everything works
    #[arg(long)]
    quick: bool,
    /// Number of rounds; the figures are the medians
    #[arg(long, conflicts_with = "quick", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Also fill our server with a million events, for its memory and answers
    #[arg(long)]
    million: bool,
    /// Also fill our server with 400,000 and 2,000,000 events, and list them beside writers
    #[arg(long)]
    lists: bool,
    #[command(flatten)]
    built: Built,
}

/// The server that is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Echo,
    Tidings,
    KubeApiserver,
}

/// The paths of the programs.
struct Programs {
    tidings: PathBuf,
    echo: PathBuf,
    load: PathBuf,
    kubectl: Option<PathBuf>,
    /// The paths of the program that runs a kube-apiserver, of kube-apiserver and of etcd; or why
    /// they are missing.
    kube_apiserver: Result<[PathBuf; 3]>,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Tidings => "tidings",
            Self::KubeApiserver => "kube-apiserver",
        }
    }

    fn start(self, programs: &Programs) -> Result<Running> {
        match self {
            Self::Echo => Running::start(&programs.echo, &[]),
            Self::Tidings => Running::start(&programs.tidings, &["serve", "--secure-port=0"]),
            Self::KubeApiserver => {
                let [keeper, server, etcd] =
                    programs.kube_apiserver.as_ref().map_err(Clone::clone)?;
                Running::start_kube_apiserver(
                    Command::new(keeper)
                        .arg("kube-apiserver")
                        .arg("--kube-apiserver")
                        .arg(server)
                        .arg("--etcd")
                        .arg(etcd),
                )
            }
        }
    }
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let built = &args.built;
    let programs = Programs {
        tidings: built.program(root, "tidings-cli", "tidings")?,
        echo: built.program(root, "tidings-bench", "server-echo")?,
        load: built.program(root, "tidings-bench", "server-load")?,
        kubectl: find("kubectl"),
        kube_apiserver: kube_apiserver(root, built),
    };
    let rounds = if args.quick { 1 } else { args.rounds };
    let mut measured = rounds::medians(rounds, || round(&programs, args))?;
    let mut skipped = Vec::new();
    if let Err(reason) = &programs.kube_apiserver {
        skipped.push(format!("kube-apiserver: {reason}"));
    }
    if programs.kubectl.is_none() {
        skipped.push("kubectl get events: there is no kubectl".to_owned());
    }
    if args.million {
        measured.extend(million(&programs)?);
    }
    if args.lists {
        measured.extend(lists(&programs)?);
    }
    let table = format!("{}\n{}", built.machine(), table::serving(&measured));
    println!("\n{table}");
    for line in &skipped {
        println!("skipped {line}");
    }
    if args.write {
        if !skipped.is_empty() || args.quick {
            return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
        }
        table::write(&root.join("docs/benchmarks.md"), "server", &table)?;
    }
    Ok(())
}

/// Measures everything once, each server in turn.
fn round(programs: &Programs, args: &Args) -> Result<Vec<Figure>> {
    let mut measured = Vec::new();
    for peer in [Peer::Echo, Peer::Tidings, Peer::KubeApiserver] {
        if peer == Peer::KubeApiserver && programs.kube_apiserver.is_err() {
            continue;
        }
        let writes = peer.start(programs)?;
        measured.extend(loads(peer, programs, &writes, args)?);
        drop(writes);
        if peer != Peer::Echo {
            measured.extend(reads(peer, programs, args)?);
        }
    }
    Ok(measured)
}

/// Finds or builds the programs of a kube-apiserver.
fn kube_apiserver(root: &Path, built: &Built) -> Result<[PathBuf; 3]> {
    let tools = Tools::find(root, true);
    let etcd = tools
        .program("ETCD")
        .ok_or_else(|| "there is no etcd".to_owned())?;
    let server = kube_apiserver::find_or_build(root, true)?;
    let keeper = built.program(root, "tidings-conformance", "tidings-conformance")?;
    Ok([keeper, server, etcd])
}

/// Runs one part of the load program.
fn load(peer: Peer, programs: &Programs, server: &Running, part: &[&str]) -> Result<Vec<Figure>> {
    figures(
        Command::new(&programs.load)
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .args(["--peer", peer.name()])
            .args(part),
    )
}

fn loads(peer: Peer, programs: &Programs, server: &Running, args: &Args) -> Result<Vec<Figure>> {
    let seconds = if args.quick { "1" } else { "10" };
    let parts: &[&str] = if peer == Peer::Echo {
        &["creates"]
    } else {
        &["creates", "patches"]
    };
    let mut measured = Vec::new();
    for part in parts {
        for connections in ["32", "256"] {
            let part = [part, "--connections", connections, "--seconds", seconds];
            measured.extend(load(peer, programs, server, &part)?);
        }
    }
    Ok(measured)
}

fn reads(peer: Peer, programs: &Programs, args: &Args) -> Result<Vec<Figure>> {
    let (events, watchers) = if args.quick {
        ("2500", "100")
    } else {
        (EVENTS, "1000")
    };
    let started = now();
    let server = peer.start(programs)?;
    let mut measured = load(peer, programs, &server, &["ready"])?;
    measured.push(milliseconds(peer, "start_to_ready", started));
    measured.extend(load(
        peer,
        programs,
        &server,
        &["fill", "--events", events],
    )?);
    measured.extend(load(
        peer,
        programs,
        &server,
        &["reads", "--events", events],
    )?);
    if let Some(kubectl) = &programs.kubectl {
        let started = now();
        let status = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .args(["get", "events", "-A"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("kubectl: {error}"))?;
        if !status.success() {
            return Err(format!("kubectl get events: {status}"));
        }
        measured.push(milliseconds(peer, "kubectl_get_events", started));
    }
    measured.extend(resident(peer, "memory", &server));
    let watch = ["watch", "--watchers", watchers, "--events", "200"];
    measured.extend(load(peer, programs, &server, &watch)?);
    let paced = [&watch[..], &["--per-second", "20"]].concat();
    measured.extend(load(peer, programs, &server, &paced)?);
    Ok(measured)
}

fn million(programs: &Programs) -> Result<Vec<Figure>> {
    let server = Peer::Tidings.start(programs)?;
    let events = ["--events", "1000000"];
    load(
        Peer::Tidings,
        programs,
        &server,
        &[&["fill"], &events[..]].concat(),
    )?;
    let mut measured: Vec<Figure> = resident(Peer::Tidings, "memory_million", &server)
        .into_iter()
        .collect();
    let reads = load(
        Peer::Tidings,
        programs,
        &server,
        &[&["reads"], &events[..], &["--rounds", "20"]].concat(),
    )?;
    measured.extend(reads.into_iter().map(|figure| figure.renamed("_million")));
    measured.extend(resident(Peer::Tidings, "memory_million_read", &server));
    Ok(measured)
}

/// Measures a list of everything, while nothing is written and beside 5,000 creates per second.
fn lists(programs: &Programs) -> Result<Vec<Figure>> {
    let server = Peer::Tidings.start(programs)?;
    let load = |part: &[&str]| load(Peer::Tidings, programs, &server, part);
    let mut measured = Vec::new();
    for (events, more) in [("400000", "400000"), ("2000000", "1600000")] {
        load(&["fill", "--events", more])?;
        let lists = load(&["lists", "--rounds", "3"])?;
        for (field, title) in [("idle_seconds", ""), ("beside_seconds", "_beside_creates")] {
            let seconds = lists.iter().find_map(|figure| figure.number(field));
            let name = format!("everything_{events}{title}");
            measured.extend(seconds.map(|seconds| {
                Figure(json!({"peer": Peer::Tidings.name(), "name": name, "p50_ms": seconds * 1e3}))
            }));
        }
    }
    Ok(measured)
}

fn resident(peer: Peer, name: &str, server: &Running) -> Option<Figure> {
    let bytes = server.resident_bytes()?;
    Some(Figure(
        json!({"peer": peer.name(), "name": name, "bytes": bytes}),
    ))
}

fn milliseconds(peer: Peer, name: &str, started: Instant) -> Figure {
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    Figure(json!({"peer": peer.name(), "name": name, "p50_ms": elapsed}))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
