//! `cargo xtask contract`: runs the store's contract suite unchanged on every backend, and counts
//! the passed cases of each. It fails if no case ran on a backend that the suite names.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{Result, cargo, run_lines};
use crate::tools::Tools;

/// The suite, with a line `contract!(NAME);` for each backend.
const SUITE: &str = "crates/tidings-store/tests/contract/main.rs";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Random histories run on each backend
    #[arg(long, default_value_t = 100)]
    histories: u64,
    /// Do not fetch etcd where it is missing
    #[arg(long)]
    offline: bool,
}

/// The numbers of passed and of failed cases of each backend.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts(BTreeMap<String, (u64, u64)>);

impl Counts {
    /// The backends that the suite names, with no cases counted yet.
    fn of(suite: &str) -> Self {
        let backends = suite.lines().filter_map(|line| {
            let name = line.strip_prefix("contract!(")?.strip_suffix(");")?;
            Some((name.to_owned(), (0, 0)))
        });
        Self(backends.collect())
    }

    /// Counts a line such as `test embedded::newest_first ... ok`.
    fn note(&mut self, line: &str) {
        let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|it| it.split_once(" ... "))
        else {
            return;
        };
        let (backend, _) = name.split_once("::").unwrap_or_default();
        let Some((passed, failed)) = self.0.get_mut(backend) else {
            return;
        };
        match outcome.trim() {
            "ok" => *passed += 1,
            "FAILED" => *failed += 1,
            _ => {}
        }
    }

    /// The backends on which no case ran.
    fn untested(&self) -> Vec<&str> {
        let untested = self.0.iter().filter(|(_, cases)| **cases == (0, 0));
        untested.map(|(backend, _)| backend.as_str()).collect()
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let suite = std::fs::read_to_string(root.join(SUITE))
        .map_err(|error| format!("read {SUITE}: {error}"))?;
    let mut counts = Counts::of(&suite);
    if counts.0.is_empty() {
        return Err(format!("{SUITE} names no backend"));
    }
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
    let result = run_lines(tools.tell(&mut command), |line| {
        println!("{line}");
        counts.note(line);
    });
    println!();
    for (backend, (passed, failed)) in &counts.0 {
        // Without etcd its cases are skipped.
        if backend == "etcd" && tools.program("ETCD").is_none() {
            println!("{backend:16} skipped: there is no etcd");
        } else {
            println!("{backend:16} {passed} passed, {failed} failed");
        }
    }
    println!("each with {} random histories", args.histories);
    result?;
    let untested = counts.untested();
    if !untested.is_empty() {
        return Err(format!("no case ran on {}", untested.join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_backend() {
        let mut counts = Counts::of(
            "macro_rules! contract {\n    ($backend:ident) => {};\n}\n\ncontract!(memory);\n\
             contract!(embedded);\n#[cfg(feature = \"new\")]\ncontract!(new);\n",
        );
        assert_eq!(counts.untested(), ["embedded", "memory", "new"]);
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
        assert_eq!(counts.untested(), ["new"]);
        assert_eq!(counts.0.len(), 3);
    }
}
