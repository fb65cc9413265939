//! `cargo xtask bench timeline`: measures a server that has a million events of a month: the
//! answers of its timeline, and the page in Chromium beside vis-timeline with some of the events.
//! With another number of events, only what depends on it is measured, for a table of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Built, Figure, figures};
use super::server::Filled;
use super::{table, timeline_table};
use crate::command::{Result, find};
use crate::npm::VIS_TIMELINE;

/// The number of events of the main table.
const EVENTS: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the tables into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Number of events; another one than the default is for a table of its own
    #[arg(long, default_value_t = EVENTS)]
    events: u64,
    /// Days over which they happened
    #[arg(long, default_value_t = 30)]
    days: u64,
    /// Kubeconfig of a server that has these events [default: one is filled and started]
    #[arg(long)]
    server: Option<PathBuf>,
    /// Number of times each answer is asked for
    #[arg(long, default_value_t = 50)]
    rounds: u64,
    /// Time for which a tab follows new events, in minutes; 0 means not at all
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let is_main = args.events == EVENTS;
    let document = root.join("docs/benchmarks.md");
    let place = if is_main { "timeline" } else { "timeline-more" };
    if args.write {
        // A document without a place for the tables must fail now, and not after half an hour of
        // measuring.
        table::with_tables(&document, place, "")?;
    }
    let timeline = args.built.program(root, "tidings-bench", "timeline")?;
    let bench = |words: &[&str]| {
        let mut command = Command::new(&timeline);
        command.args(["--events", &args.events.to_string()]);
        command.args(["--days", &args.days.to_string()]).args(words);
        figures(&mut command)
    };
    let mut skipped = Vec::new();
    let server = args.server.as_deref();
    let filled = Filled::start(root, &args.built, server, |data| bench(&["fill", data]))?;
    let kubeconfig = filled.kubeconfig.as_str();
    let rounds = args.rounds.to_string();
    let answers = bench(&["answers", kubeconfig, "--rounds", &rounds])?;
    let mut page: Vec<Figure> = Vec::new();
    let mut live = Vec::new();
    if find("chromium").is_some() && find("chromedriver").is_some() {
        page.extend(bench(&["page", kubeconfig])?);
        if is_main && args.minutes > 0 {
            let minutes = args.minutes.to_string();
            live.extend(bench(&["live", kubeconfig, "--minutes", &minutes])?);
        }
        if is_main {
            match VIS_TIMELINE.find(&root.join("target/tools/npm"), true) {
                Ok(file) => {
                    let package = file
                        .parent()
                        .unwrap_or(&file)
                        .to_string_lossy()
                        .into_owned();
                    page.extend(bench(&["peer", &package])?);
                }
                Err(reason) => skipped.push(format!("no vis-timeline: {reason}")),
            }
        }
    } else {
        skipped.push("no chromium with its chromedriver on the PATH".to_owned());
    }
    let tables = format!(
        "{}\n{}",
        args.built.machine(),
        timeline_table::tables(&answers, &page, &live)
    );
    println!("\n{tables}");
    for line in &skipped {
        println!("skipped {line}");
    }
    if args.write {
        if !skipped.is_empty() || is_main && live.is_empty() {
            return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
        }
        table::write(&document, place, &tables)?;
    }
    Ok(())
}
