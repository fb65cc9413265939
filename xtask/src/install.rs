//! `cargo xtask install`: installs the chart with Helm into a real kube-apiserver, found or built,
//! and reads what is past through it, as several users and for ten minutes.

use std::path::{Path, PathBuf};

use crate::command::{self, Result, cargo};
use crate::helm;
use crate::kube_apiserver;
use crate::tools::Tools;

/// How long the watch lasts that outlives a restart of the archive and of kube-apiserver.
const WATCH_SECONDS: u32 = 600;
/// Events of the archive that is measured.
const PAST_EVENTS: u32 = 1_000_000;
/// Rows of the lists that are measured.
const ROWS: u32 = 25_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not build kube-apiserver and Helm (about ten minutes the first time) or fetch anything,
    /// and watch only as long as the restarts take
    #[arg(long)]
    short: bool,
    /// Measure: an archive of a million events, and lists of 25,000 rows
    #[arg(long)]
    measure: bool,
    /// The archive's program, such as one of the profile dist, instead of one for debugging
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let may_build = !args.short;
    let tools = Tools::find(root, may_build)
        .and_kube_apiserver(root, may_build)
        .and_helm(root, may_build);
    let needed = ["KUBECTL", "ETCD", kube_apiserver::VARIABLE, helm::VARIABLE];
    if needed.iter().any(|name| tools.program(name).is_none()) {
        for line in &tools.missing {
            println!("skipped: {line}");
        }
        return Ok(());
    }
    let words = ["test", "-p", "tidings-cli", "--test", "verbs", "--"];
    let mut test = cargo(root, &words);
    test.args(["among_many::", "--nocapture"]);
    if let Some(program) = &args.program {
        test.env("TIDINGS_PROGRAM", root.join(program));
    }
    if args.measure {
        test.env("TIDINGS_PAST_EVENTS", PAST_EVENTS.to_string());
        test.env("TIDINGS_ROWS", ROWS.to_string());
    } else {
        test.arg("installed::");
    }
    if !args.short {
        test.env("TIDINGS_WATCH_SECONDS", WATCH_SECONDS.to_string());
    }
    command::run(tools.tell(&mut test))
}
