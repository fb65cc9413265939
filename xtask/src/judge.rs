//! Tasks that run a suite of `tidings-conformance`, which judges `tidings` from outside. What
//! follows `--` is passed on to the suite.

use std::path::Path;
use std::process::Command;

use crate::command::{self, Result, cargo, find};
use crate::suites::run_groups;
use crate::tools::{COLLECTOR, ENGINES, ETCD, KUBE_APISERVER, Tools, VICTORIA_LOGS};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run for minutes instead of up to half an hour: judge programs of the profile dev, and leave
    /// out other projects' programs that take long to build
    #[arg(long)]
    short: bool,
    /// Options of the suite
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Archive {
    /// What is followed: `tidings serve`, or a kube-apiserver with an etcd. Building one takes ten
    /// minutes the first time
    #[arg(long, default_value = "tidings", value_parser = ["tidings", "kube-apiserver"])]
    source: String,
    /// One fault at a time instead: a frozen source, a full disk, etcd compacted and restored
    #[arg(long, conflicts_with = "short")]
    faults: bool,
    /// Without faults: ten sources, memory, and seconds since progress of a frozen one
    #[arg(long, conflicts_with = "faults")]
    soak: bool,
    /// In memory instead: this number of seeded histories in which folders are restored, clocks
    /// are wrong, buckets forged, one namespace writes more than its quota, and clusters come,
    /// refuse, hang and go
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["short", "faults", "soak", "more"])]
    seeds: Option<u64>,
    #[command(flatten)]
    args: Args,
}

/// Builds `tidings` and the suites. Returns the command that runs the suite of this name.
pub(crate) fn suite(root: &Path, profile: &str, name: &str) -> Result<Command> {
    let tidings = command::build(root, profile, "tidings-cli", "tidings")?;
    let program = command::build(root, profile, "tidings-conformance", "tidings-conformance")?;
    let mut suite = Command::new(program);
    // A collector runs only if the task chooses one.
    suite.env_remove(COLLECTOR.variable);
    suite.arg(name).arg("--tidings").arg(tidings);
    Ok(suite)
}

/// Hostile input of every kind in growing sizes; its cost must stay within bounds.
pub(crate) fn hostile(root: &Path, args: &Args) -> Result {
    let profile = if args.short { "dev" } else { "release" };
    let mut judge = suite(root, profile, "hostile")?;
    judge.args(args.short.then_some("--short")).args(&args.more);
    command::run(&mut judge)
}

/// `tidings archive` follows a source through a proxy while both are killed and their connections
/// cut and held; a ledger of the acknowledged versions is compared with the kept ones, and with the
/// output of a collector. Or one fault at a time, or ten sources for ten minutes.
pub(crate) fn archive(root: &Path, archive: &Archive) -> Result {
    if let Some(seeds) = archive.seeds {
        return histories(root, seeds);
    }
    let Args { short, more } = &archive.args;
    // A long run needs an optimised build.
    let is_long = !short && !archive.faults;
    let mut judge = suite(root, if is_long { "release" } else { "dev" }, "archive")?;
    if archive.source != "tidings" {
        let tools = Tools::find(root, true).and(root, &[KUBE_APISERVER], true);
        if !tools.suffice(&[ETCD, KUBE_APISERVER]) {
            return Ok(());
        }
        tools.tell(&mut judge).args(["--source", "kube-apiserver"]);
    }
    if archive.soak {
        let seconds = if *short { "60" } else { "600" };
        judge.args(["--soak", "10", "--seconds", seconds]);
    } else if *short {
        judge.args(["--seconds", "100", "--kills", "14"]);
        judge.args(["--source-kills", "3", "--hold", "8"]);
    } else if archive.faults {
        let tools = Tools::find(root, true);
        for line in &tools.missing {
            eprintln!("skipped: {line}");
        }
        tools.tell(&mut judge).arg("--faults");
    } else {
        beside_collector(root, &mut judge);
    }
    command::run(judge.args(more))
}

/// Runs the tests of random histories with this number of seeds.
fn histories(root: &Path, seeds: u64) -> Result {
    for (suite, group) in [("--lib", "simulation::"), ("--test=objects", "ledger::")] {
        // Built like the other tests. No other crate has tests of these names.
        let mut tests = cargo(root, &["test", "--workspace", suite]);
        tests.env("TIDINGS_ARCHIVE_RUNS", seeds.to_string());
        run_groups(&mut tests, &[group])?;
    }
    Ok(())
}

/// Gives the suite a collector, if one can be found or built. Returns whether it has one.
pub(crate) fn beside_collector(root: &Path, judge: &mut Command) -> bool {
    let tools = Tools::default().and(root, &[COLLECTOR], true);
    tools.tell(judge);
    tools.suffice(&[COLLECTOR])
}

/// Sends what feeds send to real receivers, and compares what they have. Then an archive delivers
/// to them while it and they are killed, and each version is accounted for. The tests run with the
/// receivers that there are; the ledger needs all of them.
pub(crate) fn feeds(root: &Path, args: &Args) -> Result {
    let receivers = [VICTORIA_LOGS, COLLECTOR, ENGINES];
    let tools = Tools::find(root, true).and(root, &receivers, true);
    // Built like all tests, so that nothing is compiled again.
    let mut tests = cargo(root, &["test", "--workspace", "--test", "encoders"]);
    run_groups(tools.tell(&mut tests), &["receivers::"])?;
    if !tools.suffice(&receivers) {
        return Ok(());
    }
    let mut judge = suite(root, if args.short { "dev" } else { "release" }, "archive")?;
    tools.tell(&mut judge).arg("--feeds");
    if args.short {
        judge.args(["--seconds", "90", "--kills", "12"]);
    } else {
        judge.args(["--seconds", "600", "--kills", "100", "--beside"]);
    }
    command::run(judge.args(&args.more))
}

/// Compares the answers of our server and of a real kube-apiserver, found or built. Without further
/// options, also runs client-go with both.
pub(crate) fn reference(root: &Path, args: &Args) -> Result {
    /// The folder of the cases and explained differences.
    const CASES: &str = "crates/tidings-conformance/reference";
    /// The Go module of client-go programs, which must work with both servers.
    const CLIENTS: &str = "crates/tidings-conformance/clients";
    let tools = Tools::find(root, !args.short).and(root, &[KUBE_APISERVER], !args.short);
    for line in &tools.missing {
        eprintln!("skipped: {line}");
    }
    if !tools.suffice(&[ETCD, KUBE_APISERVER]) {
        return Ok(());
    }
    let suite = |name: &str, folder: &str| {
        let mut suite = suite(root, "dev", name)?;
        tools
            .tell(&mut suite)
            .arg(root.join(folder))
            .args(&args.more);
        Ok::<_, String>(suite)
    };
    let mut judge = suite("reference", CASES)?;
    let judged = command::run(&mut judge);
    let judged = judged.and(command::run(judge.arg("--archive")));
    if !args.more.is_empty() {
        return judged;
    }
    let mut clients = suite("clients", CLIENTS)?;
    match find("go") {
        Some(go) => _ = clients.arg("--go").arg(go),
        None => println!("skipped: no Go to build its clients with"),
    }
    judged.and(command::run(&mut clients))
}
