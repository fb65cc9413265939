//! `cargo xtask contract`: runs the store's contract suite unchanged on every backend, and counts
//! the passed cases of each.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{Result, cargo, run_lines};
use crate::tools::Tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Random histories run on each backend
    #[arg(long, default_value_t = 100)]
    histories: u64,
    /// Do not fetch etcd where it is missing
    #[arg(long)]
    offline: bool,
}

/// Passed and failed cases of each backend.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts(BTreeMap<String, (u64, u64)>);

impl Counts {
    /// Counts a line such as `test embedded::newest_first ... ok`.
    fn note(&mut self, line: &str) {
        let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|it| it.split_once(" ... "))
        else {
            return;
        };
        let (backend, _) = name.split_once("::").unwrap_or_default();
        if !["memory", "embedded", "embedded_roomy", "etcd"].contains(&backend) {
            return;
        }
        let (passed, failed) = self.0.entry(backend.to_owned()).or_default();
        match outcome.trim() {
            "ok" => *passed += 1,
            "FAILED" => *failed += 1,
            _ => {}
        }
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let tools = Tools::find(root, !args.offline);
    let words = [
        "test",
        "-p",
        "tidings-store",
        "--features",
        "etcd",
        "--test",
        "contract",
        "--no-fail-fast",
    ];
    let mut command = cargo(root, &words);
    command.env("TIDINGS_STORE_HISTORIES", args.histories.to_string());
    let mut counts = Counts::default();
    let result = run_lines(tools.tell(&mut command), |line| {
        println!("{line}");
        counts.note(line);
    });
    println!();
    for (backend, (passed, failed)) in &counts.0 {
        // Without etcd its cases do nothing.
        if backend == "etcd" && tools.program("ETCD").is_none() {
            println!("{backend:16} skipped: there is no etcd");
        } else {
            println!("{backend:16} {passed} passed, {failed} failed");
        }
    }
    println!("each with {} random histories", args.histories);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_backend() {
        let mut counts = Counts::default();
        for line in [
            "running 90 tests",
            "test embedded::newest_first ... ok",
            "test embedded::lists_by_object ... FAILED",
            "test embedded::random_histories ... ok",
            "test memory::newest_first ... ok",
            "test crash::child ... ignored, run by the test below",
            "test damage::one_at_a_time ... ok",
            "test result: ok. 3 passed",
        ] {
            counts.note(line);
        }
        let of = |backend: &str| counts.0.get(backend).copied();
        assert_eq!(of("embedded"), Some((2, 1)));
        assert_eq!(of("memory"), Some((1, 0)));
        assert_eq!(counts.0.len(), 2);
    }
}
