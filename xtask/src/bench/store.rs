//! `cargo xtask bench store`: the embedded store beside raw etcd and a bare log, in one run on one
//! disk.
//!
//! Every part runs in a process of its own, one after the other, each in a new temporary folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::figure::{Built, Figure, NO_REAL_EVENTS, Output, figures, real_events};
use super::rounds::{self, ROUNDS};
use super::tables::{self, LISTS, WRITERS};
use crate::command::{Result, output};
use crate::tools::Tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// The short form: 50,000 events
    #[arg(long, conflicts_with = "write")]
    quick: bool,
    /// An archive's size instead: 10,000,000 events in the embedded store alone
    #[arg(long, conflicts_with = "quick")]
    archive: bool,
    /// Number of rounds; the figures are the medians
    #[arg(long, conflicts_with_all = ["quick", "archive"], default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder of the measured files [default: target/bench]
    #[arg(long)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    built: Built,
}

/// The measuring program, and the numbers and places of one run.
struct Bench {
    program: PathBuf,
    folder: PathBuf,
    events: u64,
    tools: Tools,
    real: Option<PathBuf>,
}

impl Bench {
    /// The number of events that are updated.
    fn updates(&self) -> u64 {
        (self.events / 5).min(200_000)
    }

    /// etcd gets a tenth of the events, which is enough to measure it.
    fn of_etcd(&self) -> u64 {
        (self.events / 10).max(5_000)
    }

    /// Runs a part in an existing folder.
    fn part(&self, folder: &Path, part: &str, events: u64, writers: u64) -> Result<Vec<Figure>> {
        let updates = self.updates().min(events);
        let numbers = format!("--events={events} --updates={updates} --writers={writers}");
        let mut command = Command::new(&self.program);
        command.args(part.split('\n')).args(numbers.split(' '));
        // etcd makes its folders among the temporary ones.
        self.tools.tell(&mut command).env("TMPDIR", folder);
        figures(command.arg("--folder").arg(folder))
    }

    /// Runs a part in a new folder.
    fn fresh(&self, part: &str, events: u64, writers: u64) -> Result<Vec<Figure>> {
        let folder = self.new_folder()?;
        self.part(folder.path(), part, events, writers)
    }

    fn new_folder(&self) -> Result<TempDir> {
        tempfile::tempdir_in(&self.folder)
            .map_err(|error| format!("a folder in {}: {error}", self.folder.display()))
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let place = if args.archive {
        "store-archive"
    } else {
        "store"
    };
    args.output.check(root, place)?;
    let bench = Bench {
        program: args.built.bench(root, "store")?,
        folder: args
            .folder
            .clone()
            .unwrap_or_else(|| root.join("target/bench")),
        events: match (args.archive, args.quick) {
            (true, _) => 10_000_000,
            (false, true) => 50_000,
            (false, false) => 1_000_000,
        },
        tools: Tools::find(root, true),
        real: real_events(),
    };
    std::fs::create_dir_all(&bench.folder)
        .map_err(|error| format!("create {}: {error}", bench.folder.display()))?;
    let mut skipped = Vec::new();
    let table = if args.archive {
        let folder = bench.new_folder()?;
        let store = folder.path().join("store");
        let mut all = bench.part(&store, "archive", bench.events, WRITERS[1])?;
        all.extend(bench.part(&store, "reads", bench.events, WRITERS[1])?);
        tables::archive(&all, bench.events)
    } else {
        let missing = bench.tools.missing.iter();
        skipped.extend(missing.filter(|line| line.contains("etcd")).cloned());
        if bench.real.is_none() {
            skipped.push(NO_REAL_EVENTS.to_owned());
        }
        let rounds = if args.quick { 1 } else { args.rounds };
        let all = rounds::medians(rounds, || round(&bench))?;
        let etcd = bench.tools.program("ETCD");
        let version = etcd.as_deref().and_then(version).unwrap_or_default();
        let given = format!("etcd {version} was given {}", bench.of_etcd());
        tables::store(&all, bench.events, &given)
    };
    let tables = format!("{}\n{table}", args.built.machine());
    args.output.put(root, place, &tables, &skipped)
}

/// Measures everything once.
fn round(bench: &Bench) -> Result<Vec<Figure>> {
    let mut all = Vec::new();
    let events = bench.events;
    for writers in WRITERS {
        // The three stores take turns, so that a slow minute of the disk affects all of them.
        all.extend(bench.fresh("log", events, writers)?);
        if bench.tools.program("ETCD").is_some() {
            all.extend(bench.fresh("etcd", bench.of_etcd(), writers)?);
        }
        let folder = bench.new_folder()?;
        let store = folder.path().join("store");
        all.extend(bench.part(&store, "writes", events, writers)?);
        if writers == WRITERS[1] {
            all.extend(bench.part(&store, "reads", events, writers)?);
        }
    }
    for (size, events) in LISTS.iter().zip([events / 5 * 2, events * 2]) {
        let lists = bench.fresh("lists", events, WRITERS[1])?;
        all.extend(lists.into_iter().map(|figure| figure.renamed(size)));
    }
    for (part, events) in [
        ("expiry", events),
        ("mixture", bench.updates()),
        ("patches", events),
    ] {
        all.extend(bench.fresh(part, events, WRITERS[0])?);
    }
    if let Some(captures) = &bench.real {
        // So many that the training of dictionaries takes little of the time.
        let part = format!("real\n{}", captures.display());
        all.extend(bench.fresh(&part, events.max(20_000), WRITERS[0])?);
    }
    Ok(all)
}

/// etcd's version, such as `3.5.16`.
fn version(etcd: &Path) -> Option<String> {
    let text = output(Command::new(etcd).arg("--version")).ok()?;
    Some(text.lines().next()?.rsplit(' ').next()?.to_owned())
}
