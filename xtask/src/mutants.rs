//! `cargo xtask mutants`: makes faults in a crate one at a time (cargo-mutants), and lists those
//! that no test notices. The crate's own tests run first; surviving faults are tried with the tests
//! of the crates that use it. `.cargo/mutants.toml` has the exclusions, with reasons.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, cannot, cargo, output};

/// The crates to make faults in, and further crates whose tests reach them.
const REACHED_FROM: [(&str, &[&str]); 8] = [
    ("tidings-core", &["tidings", "tidings-conformance"]),
    ("tidings-api", &["tidings-server"]),
    ("tidings", &["tidings-conformance"]),
    ("tidings-store", &["tidings-server"]),
    ("tidings-archive", &["tidings-cli"]),
    ("tidings-objects", &["tidings-cli"]),
    ("tidings-server", &["tidings-cli"]),
    ("tidings-cli", &[]),
];

/// Output files of cargo-mutants.
const LISTS: [&str; 4] = ["missed.txt", "caught.txt", "timeout.txt", "unviable.txt"];

/// Number of cases for each property: fewer than usual, since surviving faults are tried again with
/// all.
const PROPERTY_CASES: &str = "32";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The crate to make faults in
    #[arg(long, default_value = "tidings-core", value_parser = REACHED_FROM.map(|(package, _)| package))]
    package: String,
    /// Draw this number of faults at random [default: every fault]
    #[arg(long, value_name = "NUMBER")]
    sample: Option<usize>,
    /// The seed of random numbers, to repeat a draw [default: a new one each time]
    #[arg(long, requires = "sample")]
    seed: Option<u64>,
    /// Run only the crate's own tests
    #[arg(long)]
    own: bool,
    /// Fail when a smaller share of them is caught
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    at_least: usize,
}

/// The outcome of the tried faults, as cargo-mutants lists them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    caught: usize,
    /// Faults that do not compile.
    unviable: usize,
    survived: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    if output(&mut cargo(root, &["mutants", "--version"])).is_err() {
        println!("skipped: no cargo-mutants (`cargo install cargo-mutants --locked`)");
        return Ok(());
    }
    let list = ["mutants", "--list", "-p", args.package.as_str()];
    let listed = output(&mut cargo(root, &list))?;
    let listed: Vec<&str> = listed.lines().collect();
    let mut drawn = listed.clone();
    if let Some(number) = args.sample {
        let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
        println!("seed {seed}");
        fastrand::Rng::with_seed(seed).shuffle(&mut drawn);
        drawn.truncate(number);
    }
    let mut own = mutants(root, &[&args.package]);
    own.env("PROPTEST_CASES", PROPERTY_CASES);
    let mut found = tried(root, &mut own, &listed, &drawn)?;

    let mut others = REACHED_FROM
        .iter()
        .filter(|(name, _)| *name == args.package);
    if let Some((name, others)) = others
        .next()
        .filter(|_| !args.own && !found.survived.is_empty())
    {
        let packages = [&[*name], *others].concat();
        let survived: Vec<&str> = found.survived.iter().map(String::as_str).collect();
        let again = tried(root, &mut mutants(root, &packages), &listed, &survived)?;
        found.caught += again.caught;
        found.survived = again.survived;
    }
    println!();
    for fault in &found.survived {
        println!("survived: {fault}");
    }
    let viable = found.caught + found.survived.len();
    println!(
        "{}: {} of {viable} faults caught; {} more do not compile",
        args.package, found.caught, found.unviable
    );
    if found.caught * 100 < viable * args.at_least {
        return Err(format!("fewer than {} % were caught", args.at_least));
    }
    Ok(())
}

/// The command that runs cargo-mutants on the first of these packages, with the tests of all of
/// them.
fn mutants(root: &Path, packages: &[&str]) -> Command {
    let mut command = cargo(root, &["mutants", "--iterate", "--colors", "never"]);
    for package in packages.iter().take(1) {
        command.args(["-p", package]);
    }
    for package in packages {
        command.args(["--test-package", package]);
    }
    command.arg("--output").arg(folder(root));
    // The examples in the documentation are left out, because each is a separate program.
    command.args(["--", "--tests"]);
    // Each fault needs a build: only what the tests need, in a separate target folder.
    command
        .env("CARGO_TARGET_DIR", folder(root).join("target"))
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "none");
    command
}

fn folder(root: &Path) -> PathBuf {
    command::target(root).join("mutants")
}

/// Runs cargo-mutants on `faults`, which are some of the listed ones, and reads its output files.
fn tried(root: &Path, command: &mut Command, listed: &[&str], faults: &[&str]) -> Result<Outcome> {
    let written = folder(root).join("mutants.out");
    // cargo-mutants continues an earlier run, and skips the faults that were caught there. So all
    // other faults are listed as caught. Patterns would be simpler, but they do not apply to every
    // kind of fault.
    let faults: HashSet<_> = faults.iter().collect();
    let others = listed.iter().filter(|fault| !faults.contains(fault));
    let others: String = others.flat_map(|fault| [fault, "\n"]).collect();
    std::fs::create_dir_all(&written).map_err(cannot("make", &written))?;
    for list in LISTS {
        let content = if list == "caught.txt" { &others } else { "" };
        std::fs::write(written.join(list), content).map_err(cannot("write", &written))?;
    }
    let earlier = written.join("previously_caught.txt");
    let _ = std::fs::remove_file(&earlier);
    // cargo-mutants also fails when a fault survives, so only its output files count.
    let finished = command::run(command);
    let read = |name: &str| std::fs::read_to_string(written.join(name));
    let (true, [Ok(missed), Ok(caught), Ok(timeout), Ok(unviable)]) =
        (earlier.is_file(), LISTS.map(read))
    else {
        let begun = || format!("cargo-mutants left no lists in {}", written.display());
        return Err(finished.err().unwrap_or_else(begun));
    };
    let outcome = Outcome {
        caught: caught.lines().count() + timeout.lines().count(),
        unviable: unviable.lines().count(),
        survived: missed.lines().map(str::to_owned).collect(),
    };
    if outcome == Outcome::default() {
        finished?;
    }
    Ok(outcome)
}
