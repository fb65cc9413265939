//! `cargo xtask bench mcp`: measures the tools of the Model Context Protocol on a server that has a
//! million events of a month, each beside the answer of the timeline that it reads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Built, Figure, figures};
use super::server::Filled;
use super::table;
use super::timeline_table::milliseconds;
use crate::command::Result;

/// The numbers of the table in docs/benchmarks.md.
const EVENTS: u64 = 1_000_000;
const ROUNDS: u64 = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the table into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Number of events
    #[arg(long, default_value_t = EVENTS)]
    events: u64,
    /// Kubeconfig of a server that has such events [default: one is filled and started]
    #[arg(long)]
    server: Option<PathBuf>,
    /// Number of times each tool is called
    #[arg(long, default_value_t = ROUNDS)]
    rounds: u64,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let document = root.join("docs/benchmarks.md");
    if args.write {
        if (args.events, args.rounds) != (EVENTS, ROUNDS) {
            return Err(format!(
                "not written: docs/benchmarks.md has the table of {EVENTS} events and {ROUNDS} \
                 rounds"
            ));
        }
        table::with_tables(&document, "mcp", "")?;
    }
    let bench = args.built.program(root, "tidings-bench", "timeline")?;
    let bench = |words: &[&str]| {
        let mut command = Command::new(&bench);
        command
            .args(["--events", &args.events.to_string()])
            .args(words);
        figures(&mut command)
    };
    let server = args.server.as_deref();
    let filled = Filled::start(root, &args.built, server, |data| bench(&["fill", data]))?;
    let rounds = args.rounds.to_string();
    let found = bench(&["tools", &filled.kubeconfig, "--rounds", &rounds])?;
    let table = format!("{}\n{}", args.built.machine(), rows(&found));
    println!("\n{table}");
    if args.write {
        table::write(&document, "mcp", &table)?;
    }
    Ok(())
}

/// A row for each tool.
fn rows(found: &[Figure]) -> String {
    let mut table = String::from(
        "| tool | p50 | p95 | longest | the answer it reads, p50 | p95 | bytes |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for figure in found {
        let time = |name: &str| milliseconds(figure.number(name).unwrap_or_default());
        let times = ["p50_ms", "p95_ms", "max_ms", "plain_p50_ms", "plain_p95_ms"].map(time);
        let bytes = figure.number("bytes").unwrap_or_default();
        let _ = writeln!(
            table,
            "| {} | {} | {bytes:.0} |",
            figure.text("name"),
            times.join(" | ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_of_other_numbers_is_not_written() {
        for (events, rounds) in [(1000, ROUNDS), (EVENTS, 1)] {
            let args = Args {
                write: true,
                events,
                server: None,
                rounds,
                built: Built::default(),
            };
            let why = run(Path::new("none"), &args).unwrap_err();
            assert!(why.starts_with("not written: "), "{why}");
        }
    }

    #[test]
    fn every_tool_has_a_row() {
        let figure = json!({"name": "search", "p50_ms": 4.25, "p95_ms": 12.6, "max_ms": 30,
            "plain_p50_ms": 1, "plain_p95_ms": 2, "bytes": 2048.4});
        let table = rows(&[Figure(figure)]);
        let row = "| search | 4.2 ms | 13 ms | 30 ms | 1.0 ms | 2.0 ms | 2048 |";
        assert!(table.lines().any(|line| line == row), "{table}");
    }
}
