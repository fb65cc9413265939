//! `cargo xtask bench store`: the embedded store beside raw etcd and a bare log, in one run on one
//! disk.
//!
//! Every part runs in a process of its own, one after the other, each in a new temporary folder.

use std::path::{Path, PathBuf};

use super::figure::{Built, Figure, figures, real_events};
use super::rounds::{self, ROUNDS};
use super::store_table::{self, LISTS, WRITERS};
use super::table;
use crate::command::{Result, output};
use crate::tools::Tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the tables into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Number of events [default: 1000000]
    #[arg(long)]
    events: Option<u64>,
    /// The short form: 50,000 events
    #[arg(long, conflicts_with_all = ["events", "write"])]
    quick: bool,
    /// An archive's size instead: 10,000,000 events in the embedded store alone
    #[arg(long, conflicts_with = "quick")]
    archive: bool,
    /// Number of rounds; the figures are the medians
    #[arg(long, conflicts_with_all = ["quick", "archive"], default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// A folder of real events as JSON Lines [default: that of TIDINGS_CAPTURES, if it is set]
    #[arg(long)]
    real: Option<PathBuf>,
    /// Folder of the measured files [default: target/bench]
    #[arg(long)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    built: Built,
}

/// The numbers of events in one run.
struct Sizes {
    events: u64,
    updates: u64,
    /// etcd gets a tenth of the events, which is enough to measure it.
    etcd: u64,
    real: u64,
}

impl Sizes {
    fn of(args: &Args) -> Self {
        let events = match (args.events, args.archive) {
            (Some(events), _) => events,
            (None, true) => 10_000_000,
            (None, false) if args.quick => 50_000,
            (None, false) => 1_000_000,
        };
        Self {
            events,
            updates: (events / 5).min(200_000),
            etcd: (events / 10).max(5_000),
            // So many that the training of dictionaries takes little of the time.
            real: events.max(20_000),
        }
    }
}

struct Bench<'a> {
    program: PathBuf,
    folder: &'a Path,
}

impl Bench<'_> {
    /// Runs a part in an existing folder.
    fn part(&self, folder: &Path, words: &[&str], numbers: &[(&str, u64)]) -> Result<Vec<Figure>> {
        let mut command = std::process::Command::new(&self.program);
        command.args(words).arg("--folder").arg(folder);
        for (name, number) in numbers {
            command.arg(name).arg(number.to_string());
        }
        figures(&mut command)
    }

    /// Runs a part in a new folder.
    fn fresh(&self, words: &[&str], numbers: &[(&str, u64)]) -> Result<Vec<Figure>> {
        let folder = self.new_folder()?;
        self.part(folder.path(), words, numbers)
    }

    fn new_folder(&self) -> Result<tempfile::TempDir> {
        tempfile::tempdir_in(self.folder)
            .map_err(|error| format!("a folder in {}: {error}", self.folder.display()))
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let sizes = Sizes::of(args);
    let folder = args
        .folder
        .clone()
        .unwrap_or_else(|| root.join("target/bench"));
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("create {}: {error}", folder.display()))?;
    let bench = Bench {
        program: args.built.program(root, "tidings-bench", "store")?,
        folder: &folder,
    };
    if args.archive {
        return archive(root, args, &bench, &sizes);
    }
    let tools = Tools::find(root, true);
    let mut skipped = Vec::new();
    let etcd = tools.program("ETCD");
    if etcd.is_none() {
        skipped.extend(tools.missing.iter().filter(|line| line.contains("etcd")));
    }
    let real = real_events(args.real.as_deref());
    let no_real =
        "real events: no folder of them is named by --real or TIDINGS_CAPTURES".to_owned();
    if real.is_none() {
        skipped.push(&no_real);
    }

    let rounds = if args.quick { 1 } else { args.rounds };
    let all = rounds::medians(rounds, || {
        round(&bench, &sizes, etcd.as_deref(), real.as_deref())
    })?;

    let version = etcd.as_deref().and_then(version);
    let given = format!(
        "etcd {} was given {}",
        version.unwrap_or_default(),
        sizes.etcd
    );
    let tables = format!(
        "{}\n{}",
        args.built.machine(),
        store_table::table(&all, sizes.events, &given)
    );
    println!("\n{tables}");
    for line in &skipped {
        println!("skipped {line}");
    }
    if args.write {
        if !skipped.is_empty() {
            return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
        }
        table::write(&root.join("docs/benchmarks.md"), "store", &tables)?;
    }
    Ok(())
}

/// Measures everything once.
fn round(
    bench: &Bench<'_>,
    sizes: &Sizes,
    etcd: Option<&Path>,
    real: Option<&Path>,
) -> Result<Vec<Figure>> {
    let mut all = Vec::new();
    for writers in WRITERS {
        let numbers = |events| {
            [
                ("--events", events),
                ("--updates", sizes.updates.min(events)),
                ("--writers", writers),
            ]
        };
        // The three stores take turns, so that a slow minute of the disk affects all of them.
        all.extend(bench.fresh(&["log"], &numbers(sizes.events))?);
        if let Some(etcd) = etcd {
            let program = etcd.to_string_lossy();
            all.extend(bench.fresh(&["etcd", &program], &numbers(sizes.etcd))?);
        }
        let folder = bench.new_folder()?;
        let store = folder.path().join("store");
        all.extend(bench.part(&store, &["writes"], &numbers(sizes.events))?);
        if writers == WRITERS[1] {
            all.extend(bench.part(&store, &["reads"], &[("--events", sizes.events)])?);
        }
    }
    for (size, events) in LISTS.iter().zip([sizes.events / 5 * 2, sizes.events * 2]) {
        let lists = bench.fresh(&["lists"], &[("--events", events)])?;
        all.extend(lists.into_iter().map(|figure| figure.renamed(size)));
    }
    all.extend(bench.fresh(&["expiry"], &[("--events", sizes.events)])?);
    all.extend(bench.fresh(&["mixture"], &[("--events", sizes.updates)])?);
    all.extend(bench.fresh(&["patches"], &[("--events", sizes.events)])?);
    if let Some(captures) = real {
        let captures = captures.to_string_lossy();
        all.extend(bench.fresh(&["real", &captures], &[("--events", sizes.real)])?);
    }
    Ok(all)
}

/// Measures more events than any cluster keeps: their size, and the time to open the store.
fn archive(root: &Path, args: &Args, bench: &Bench<'_>, sizes: &Sizes) -> Result {
    let folder = bench.new_folder()?;
    let store = folder.path().join("store");
    let numbers = [("--events", sizes.events)];
    let mut all = bench.part(&store, &["archive"], &numbers)?;
    all.extend(bench.part(&store, &["reads"], &numbers)?);
    let table = format!(
        "{}\n{}",
        args.built.machine(),
        store_table::archive(&all, sizes.events)
    );
    println!("\n{table}");
    if args.write {
        table::write(&root.join("docs/benchmarks.md"), "store-archive", &table)?;
    }
    Ok(())
}

/// etcd's version, such as `3.5.16`.
fn version(etcd: &Path) -> Option<String> {
    let text = output(std::process::Command::new(etcd).arg("--version")).ok()?;
    Some(text.lines().next()?.rsplit(' ').next()?.to_owned())
}
