//! `cargo xtask hostile`: sends every kind of hostile input in growing sizes to a separate server;
//! its cost must stay within bounds.

use std::path::Path;
use std::process::Command;

use crate::command::{self, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Smaller sizes against a debug build, judged only by growth, memory and answers: for any
    /// machine
    #[arg(long)]
    short: bool,
    /// Only kinds with this in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let profile = if args.short { "dev" } else { "release" };
    let tidings = command::build(root, profile, "tidings-cli", "tidings")?;
    let judge = command::build(root, "dev", "tidings-conformance", "tidings-conformance")?;
    let mut judge = Command::new(judge);
    judge.arg("hostile").arg("--tidings").arg(tidings);
    if args.short {
        judge.arg("--short");
    }
    if let Some(only) = &args.only {
        judge.args(["--only", only]);
    }
    command::run(&mut judge)
}
