//! `tidings-conformance SUITE …`: suites that judge tidings from outside, by the answers of the program it re-creates.
//!
//! Exit status: 0 when all answers are the same, 1 when some differ, 2 when there is nothing to judge by.

mod correlator;
mod difference;
mod scenario;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Judges tidings from outside.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Replays client-go's correlator: what is asked of the sink for each event must be what client-go asked.
    ///
    /// Exits with 0 when nothing differs, 1 when something does, 2 when DIR cannot be used.
    Correlator {
        /// Folder with one scenario in each *.jsonl.
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let Suite::Correlator { dir } = Arguments::parse().suite;
    let mut out = std::io::stdout().lock();
    match correlator::run(&dir, &mut out).and_then(|same| Ok((same, out.flush()?))) {
        Ok((true, ())) => ExitCode::SUCCESS,
        Ok((false, ())) => ExitCode::from(1),
        Err(error) => {
            // Nowhere is left to tell when this fails too.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}
