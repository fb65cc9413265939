//! `cargo xtask test`: every test, from a fresh clone. After a failed step the others still run.

use std::ops::AddAssign;
use std::path::Path;
use std::process::Command;

use crate::command::{self, Result, cargo, run_lines};
use crate::tidy;
use crate::tools::Tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not fetch kubectl, etcd and others where they are missing
    #[arg(long)]
    offline: bool,
}

/// The counts of the test programs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

pub(crate) fn run(root: &Path, args: &Args, tasks: &clap::Command) -> Result {
    let tools = Tools::find(root, !args.offline)
        .and_kube_apiserver(root)
        .and_browser(root, !args.offline)
        .and_engines(root, !args.offline);
    let mut counts = Counts::default();
    let mut failures = Vec::new();

    let mut step = |result: Result| failures.extend(result.err());
    step(tidy::run(root, tasks));
    step(cargo_test(
        tools.tell(&mut cargo(root, &["test", "--workspace", "--no-fail-fast"])),
        &mut counts,
    ));
    step(vectors(
        root,
        &root.join("crates/tidings-conformance/vectors/correlator"),
    ));
    // A folder of further vectors beside the project, where there is one.
    let further = root
        .parent()
        .map(|parent| parent.join("shared/vectors/correlator"));
    if let Some(further) = further.filter(|folder| folder.is_dir()) {
        step(vectors(root, &further));
    }
    eprintln!();
    for line in &tools.missing {
        eprintln!("{line}");
    }
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{} steps failed", failures.len()))
    }
}

fn vectors(root: &Path, folder: &Path) -> Result {
    // Built as for the tests: alone, the package has other features of its dependencies, and cargo
    // would compile most of them again.
    let program = format!("debug/tidings-conformance{}", std::env::consts::EXE_SUFFIX);
    let mut command = Command::new(command::target(root).join(program));
    command::run(command.arg("correlator").arg(folder))
}

fn cargo_test(command: &mut Command, counts: &mut Counts) -> Result {
    run_lines(command, |line| {
        println!("{line}");
        if let Some(summary) = parse_summary(line) {
            *counts += summary;
        }
    })
}

/// `test result: ok. 3 passed; 0 failed; 0 ignored; …`
fn parse_summary(line: &str) -> Option<Counts> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |label: &str| {
        let entry = numbers
            .split("; ")
            .find_map(|entry| entry.strip_suffix(label))?;
        entry.trim().parse().ok()
    };
    Some(Counts {
        passed: number("passed")?,
        failed: number("failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_test_program_is_counted() {
        let line = "test result: ok. 13 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 7.02s";
        assert_eq!(
            parse_summary(line),
            Some(Counts {
                passed: 13,
                failed: 2
            })
        );
        assert_eq!(
            parse_summary("test result: FAILED. 0 passed; 1 failed"),
            Some(Counts {
                passed: 0,
                failed: 1
            })
        );
        for line in ["", "test a ... ok", "test result: ok.", "running 3 tests"] {
            assert_eq!(parse_summary(line), None, "{line:?}");
        }
    }
}
