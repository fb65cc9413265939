//! `cargo xtask crash`: the store's crash test in its long form. A writing process is killed with
//! SIGKILL at random moments, and the store is checked after each kill: acknowledged writes,
//! indexes, revisions, and continued watches.

use std::path::Path;

use crate::command::{Result, cargo, run_lines};

const TEST: &str = "crash::nothing_acknowledged_is_lost";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of kills
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// The seed of random numbers, to repeat a run [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let words = [
        "test",
        "-p",
        "tidings-store",
        "--test",
        "contract",
        "--",
        TEST,
        "--exact",
        "--nocapture",
    ];
    let mut command = cargo(root, &words);
    command.env("TIDINGS_STORE_KILLS", args.kills.to_string());
    if let Some(seed) = args.seed {
        command.env("TIDINGS_STORE_CRASH_SEED", seed.to_string());
    }
    let mut summary = None;
    run_lines(&mut command, |line| {
        println!("{line}");
        if line.starts_with("crash: ") {
            summary = Some(line.to_owned());
        }
    })?;
    // cargo succeeds even if no test has the name.
    let summary = summary.ok_or_else(|| format!("{TEST} did not run"))?;
    println!("\n{summary}");
    Ok(())
}
