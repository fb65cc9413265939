//! `cargo xtask reference`: compares the answers of our server and a real kube-apiserver, found or
//! built, and runs client-go with both.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, find};
use crate::kube_apiserver;
use crate::tools::Tools;

/// The folder of the cases and explained differences.
const CASES: &str = "crates/tidings-conformance/reference";
/// The Go module of client-go programs, which must work with both servers.
const CLIENTS: &str = "crates/tidings-conformance/clients";
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not build kube-apiserver (about ten minutes the first time) or fetch anything: judge only
    /// if everything is available
    #[arg(long)]
    short: bool,
    /// Judge a release build of our server
    #[arg(long)]
    release: bool,
    /// Only cases with a name like this; * means any text
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Show explained differences, too
    #[arg(long)]
    verbose: bool,
    /// A folder of cases instead of ours
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let tools = Tools::find(root, !args.short);
    for line in &tools.missing {
        eprintln!("{line}");
    }
    let server = match kube_apiserver::find_or_build(root, !args.short) {
        Ok(server) => server,
        Err(reason) => {
            println!("skipped: no kube-apiserver to judge by ({reason})");
            return Ok(());
        }
    };
    if tools.program("ETCD").is_none() {
        println!("skipped: kube-apiserver needs an etcd");
        return Ok(());
    }
    let profile = if args.release { "release" } else { "dev" };
    let tidings = command::build(root, profile, "tidings-cli", "tidings")?;
    let judge = command::build(root, "dev", "tidings-conformance", "tidings-conformance")?;
    let suite = |name: &str, folder_of_suite: PathBuf| {
        let mut suite = Command::new(&judge);
        suite
            .arg(name)
            .arg(folder_of_suite)
            .arg("--tidings")
            .arg(&tidings)
            .arg("--kube-apiserver")
            .arg(&server);
        tools.tell(&mut suite);
        suite
    };
    let mut judge = suite(
        "reference",
        args.cases.clone().unwrap_or_else(|| root.join(CASES)),
    );
    if let Some(only) = &args.only {
        judge.args(["--only", only]);
    }
    if args.verbose {
        judge.arg("--verbose");
    }
    let judged = command::run(&mut judge);
    let judged = judged.and(command::run(judge.arg("--archive")));
    if args.only.is_some() || args.cases.is_some() {
        return judged;
    }
    let mut clients = suite("clients", root.join(CLIENTS));
    match find("go") {
        Some(go) => _ = clients.arg("--go").arg(go),
        None => println!("skipped: no Go to build its clients with"),
    }
    judged.and(command::run(&mut clients))
}
