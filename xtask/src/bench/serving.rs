//! `cargo xtask bench server`: the same load on our server, on kube-apiserver with etcd, and on a
//! handler that only parses and echoes (the floor), one after the other on this machine. Each part
//! has a fresh server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::figure::{Built, Figure, Output, figures, now, seconds};
use super::rounds::{self, ROUNDS};
use super::server::Running;
use super::tables;
use crate::command::{Result, find};
use crate::tools::{KUBE_APISERVER, Tools};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// Number of rounds; the figures are the medians
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    #[command(flatten)]
    built: Built,
}

/// The servers, as the figures name them.
const ECHO: &str = "echo";
const OURS: &str = "tidings";
const KUBE: &str = "kube-apiserver";

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

/// A running server, and how it is measured.
struct Loaded<'a> {
    peer: &'static str,
    programs: &'a Programs,
    server: Running,
}

impl<'a> Loaded<'a> {
    fn start(peer: &'static str, programs: &'a Programs) -> Result<Self> {
        let server = match peer {
            ECHO => Running::start(&programs.echo, &[])?,
            OURS => Running::start(&programs.tidings, &["serve", "--secure-port=0"])?,
            _ => {
                let paths = programs.kube_apiserver.as_ref().map_err(Clone::clone)?;
                let [keeper, server, etcd] = paths;
                let mut command = Command::new(keeper);
                command
                    .arg("kube-apiserver")
                    .arg("--kube-apiserver")
                    .arg(server);
                Running::start_kube_apiserver(command.arg("--etcd").arg(etcd))?
            }
        };
        Ok(Self {
            peer,
            programs,
            server,
        })
    }

    /// Runs one part of the load program.
    fn part(&self, part: &str) -> Result<Vec<Figure>> {
        figures(
            Command::new(&self.programs.load)
                .arg("--kubeconfig")
                .arg(&self.server.kubeconfig)
                .args(["--peer", self.peer])
                .args(part.split(' ')),
        )
    }

    /// A figure with a single number.
    fn figure(&self, name: &str, field: &str, number: f64) -> Figure {
        Figure(json!({"peer": self.peer, "name": name, field: number}))
    }

    fn resident(&self, name: &str) -> Option<Figure> {
        let bytes = self.server.resident_bytes()?;
        Some(self.figure(name, "bytes", bytes as f64))
    }
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    args.output.check(root, "server")?;
    let built = &args.built;
    let programs = Programs {
        tidings: built.tidings(root)?,
        echo: built.bench(root, "server-echo")?,
        load: built.bench(root, "server-load")?,
        kubectl: find("kubectl"),
        kube_apiserver: kube_apiserver(root, built),
    };
    let mut skipped = Vec::new();
    if let Err(reason) = &programs.kube_apiserver {
        skipped.push(format!("kube-apiserver: {reason}"));
    }
    if programs.kubectl.is_none() {
        skipped.push("kubectl get events: there is no kubectl".to_owned());
    }
    let mut measured = rounds::medians(args.rounds, || round(&programs))?;
    measured.extend(million(&programs)?);
    let table = format!("{}\n{}", built.machine(), tables::serving(&measured));
    args.output.put(root, "server", &table, &skipped)
}

/// Finds or builds the programs of a kube-apiserver.
fn kube_apiserver(root: &Path, built: &Built) -> Result<[PathBuf; 3]> {
    let etcd = Tools::find(root, true)
        .program("ETCD")
        .ok_or("there is no etcd")?;
    let server = KUBE_APISERVER.find(root, true)?;
    let keeper = built.program(root, "tidings-conformance", "tidings-conformance")?;
    Ok([keeper, server, etcd])
}

/// Measures everything once, each server in turn.
fn round(programs: &Programs) -> Result<Vec<Figure>> {
    let mut measured = Vec::new();
    for peer in [ECHO, OURS, KUBE] {
        if peer == KUBE && programs.kube_apiserver.is_err() {
            continue;
        }
        let loaded = Loaded::start(peer, programs)?;
        for part in ["creates", "patches"] {
            if peer == ECHO && part == "patches" {
                continue;
            }
            for connections in [32, 256] {
                let words = format!("{part} --connections {connections} --seconds 10");
                measured.extend(loaded.part(&words)?);
            }
        }
        drop(loaded);
        if peer != ECHO {
            measured.extend(reads(peer, programs)?);
        }
    }
    Ok(measured)
}

/// Measures reads and watches of as many events as kube-apiserver accepts in a reasonable time.
fn reads(peer: &'static str, programs: &Programs) -> Result<Vec<Figure>> {
    let started = now();
    let loaded = Loaded::start(peer, programs)?;
    let mut measured = loaded.part("ready")?;
    let ready = started.elapsed().as_secs_f64() * 1e3;
    measured.push(loaded.figure("start_to_ready", "p50_ms", ready));
    measured.extend(loaded.part("fill --events 25000")?);
    measured.extend(loaded.part("reads --events 25000")?);
    if let Some(kubectl) = &programs.kubectl {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(&loaded.server.kubeconfig);
        let took = seconds(command.args(["get", "events", "-A"]), "kubectl get events")?;
        measured.push(loaded.figure("kubectl_get_events", "p50_ms", took * 1e3));
    }
    measured.extend(loaded.resident("memory"));
    measured.extend(loaded.part("watch --watchers 1000")?);
    measured.extend(loaded.part("watch --watchers 1000 --per-second 20")?);
    Ok(measured)
}

/// Measures our server's memory and answers with a million events.
fn million(programs: &Programs) -> Result<Vec<Figure>> {
    let loaded = Loaded::start(OURS, programs)?;
    loaded.part("fill --events 1000000")?;
    let mut measured: Vec<_> = loaded.resident("memory_million").into_iter().collect();
    let reads = loaded.part("reads --events 1000000")?;
    measured.extend(reads.into_iter().map(|figure| figure.renamed("_million")));
    measured.extend(loaded.resident("memory_million_read"));
    Ok(measured)
}
