//! `cargo xtask bench objects`: measures readers of an archive of several clusters over months, on
//! an S3 server that takes 20 ms for each request: the time of each question, first and repeated.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Built, figures, real_events};
use super::server::folder;
use super::{objects_table, table};
use crate::command::Result;

/// Number of events that the real ones are repeated to.
const REAL_EVENTS: &str = "200000";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the tables into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Number of clusters
    #[arg(long, default_value_t = 30)]
    clusters: u64,
    /// Days over which their events happened
    #[arg(long, default_value_t = 90)]
    days: u64,
    /// Number of events of all clusters
    #[arg(long, default_value_t = 3_000_000)]
    events: u64,
    /// Time for which each request to the storage takes longer, in milliseconds
    #[arg(long, default_value_t = 20)]
    delay: u64,
    /// Readers that are started for each question
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Folder where the archive is made and stays, or is from before [default: one that is removed]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A folder of real events as JSON Lines [default: that of TIDINGS_CAPTURES, if it is set]
    #[arg(long)]
    real: Option<PathBuf>,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let document = root.join("docs/benchmarks.md");
    if args.write {
        // A document without a place for the tables must fail now, and not after minutes of
        // measuring.
        table::with_tables(&document, "objects", "")?;
    }
    let tidings = args.built.program(root, "tidings-cli", "tidings")?;
    let objects = args.built.program(root, "tidings-bench", "objects")?;
    let temporary = folder()?;
    let place = args.folder.as_deref().unwrap_or(temporary.path());
    let bench = |words: &[&str]| {
        let mut command = Command::new(&objects);
        for (name, number) in [
            ("--clusters", args.clusters),
            ("--days", args.days),
            ("--events", args.events),
        ] {
            command.args([name, &number.to_string()]);
        }
        figures(command.args(words))
    };
    let folder = place.to_string_lossy();
    let mut measured = Vec::new();
    if !place.join("events").exists() {
        measured.extend(bench(&["fill", &folder])?);
    }
    let (delay, rounds) = (args.delay.to_string(), args.rounds.to_string());
    let tidings = tidings.to_string_lossy();
    let words = [
        "--tidings",
        &tidings,
        "--delay",
        &delay,
        "--rounds",
        &rounds,
    ];
    measured.extend(bench(&[&["ask", &folder], &words[..]].concat())?);
    if let Some(captures) = real_events(args.real.as_deref()) {
        let mut command = Command::new(&objects);
        command
            .args(["--events", REAL_EVENTS, "real"])
            .arg(captures);
        measured.extend(figures(&mut command)?);
    }
    let tables = format!(
        "{}\n{} events of {} clusters and {} days; {} ms for each request; {} readers for each \
         question.\n\n{}",
        args.built.machine(),
        args.events,
        args.clusters,
        args.days,
        args.delay,
        args.rounds,
        objects_table::tables(&measured)
    );
    println!("\n{tables}");
    if args.write {
        table::write(&document, "objects", &tables)?;
    }
    Ok(())
}
