//! `cargo xtask hostile`: sends every kind of hostile input in growing sizes to a separate server;
//! its cost must stay within bounds.

use std::path::Path;
use std::process::Command;

use crate::command::{self, Result, cargo};

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
    let profile: &[&str] = if args.short { &[] } else { &["--release"] };
    let mut build = cargo(root, &["build", "-q", "-p", "tidings-cli"]);
    command::run(build.args(profile))?;
    let mut build = cargo(root, &["build", "-q", "-p", "tidings-conformance"]);
    command::run(&mut build)?;
    let target = command::target(root);
    let built = |folder: &str, name: &str| {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        target.join(folder).join(file)
    };
    let mut judge = Command::new(built("debug", "tidings-conformance"));
    let folder = if args.short { "debug" } else { "release" };
    judge
        .arg("hostile")
        .arg("--tidings")
        .arg(built(folder, "tidings"));
    if args.short {
        judge.arg("--short");
    }
    if let Some(only) = &args.only {
        judge.args(["--only", only]);
    }
    command::run(&mut judge)
}
