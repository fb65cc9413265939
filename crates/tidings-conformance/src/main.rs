//! `tidings-conformance SUITE …`: suites that compare tidings with the programs that it re-creates.
//!
//! Exit status: 0 when all answers are the same, 1 when some differ, 2 when there is nothing to
//! judge by.

mod archive;
mod clients;
mod clock;
mod correlator;
mod error;
mod hostile;
mod http;
mod interchange;
mod k9s;
mod kube_rs;
mod passing;
mod process;
mod reference;
mod scenario;
mod servers;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::Result;

/// Judges tidings from outside.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Replays client-go's correlator: the requests to the sink for each event must be client-go's.
    Correlator {
        /// Folder with one scenario in each *.jsonl.
        dir: PathBuf,
    },
    /// Sends a real kube-apiserver and `tidings serve` the same requests: the answers must be the
    /// same.
    Reference(reference::Args),
    /// Runs unmodified programs with `tidings serve`: client-go's conformance cases, an informer,
    /// both recorders, a manager of controller-runtime, kube-rs's recorder.
    Clients(clients::Args),
    /// Runs a real kube-apiserver and `tidings serve` on one etcd, each reading, changing, watching
    /// and deleting what the other wrote.
    Interchange(interchange::Args),
    /// Sends `tidings serve` hostile input of every kind in growing sizes: time, memory and answers
    /// must stay within bounds. Linux only.
    Hostile(hostile::Args),
    /// Follows a source with `tidings archive` while both are killed and their connections cut:
    /// every written version is kept once, or is in a reported gap.
    Archive(archive::Args),
    /// Runs a kube-apiserver with an etcd of its own, for measurements, until standard input ends.
    ///
    /// Prints one line of JSON when it is ready: the path of a kubeconfig, and the two processes.
    KubeApiserver {
        /// The kube-apiserver to run.
        #[arg(long)]
        kube_apiserver: PathBuf,
        /// The etcd to run.
        #[arg(long)]
        etcd: PathBuf,
    },
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let same = match Arguments::parse().suite {
        Suite::Correlator { dir } => correlator::run(&dir, &mut out),
        Suite::Reference(args) => block_on(reference::run(&args, &mut out)),
        Suite::Clients(args) => block_on(clients::run(&args, &mut out)),
        Suite::Interchange(args) => block_on(interchange::run(&args, &mut out)),
        Suite::Hostile(args) => block_on(hostile::run(&args, &mut out)),
        Suite::Archive(args) => block_on(archive::run(&args, &mut out)),
        Suite::KubeApiserver {
            kube_apiserver,
            etcd,
        } => block_on(servers::keep(&kube_apiserver, &etcd, &mut out)),
    };
    match same.and_then(|same| Ok((same, out.flush()?))) {
        Ok((true, ())) => ExitCode::SUCCESS,
        Ok((false, ())) => ExitCode::from(1),
        Err(error) => {
            // If this write fails too, the error cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a suite that needs an asynchronous runtime.
fn block_on(suite: impl Future<Output = Result<bool>>) -> Result<bool> {
    // The runtime has several threads, so that measured clients do not wait for each other.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(suite)
}
