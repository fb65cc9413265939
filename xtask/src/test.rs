//! `cargo xtask test`: runs every test, from a fresh clone. After a failed step the others still
//! run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::command::{self, Result, cargo, run_all_lines};
use crate::suites::Offline;
use crate::tidy;
use crate::tools::{
    AXE, CHROMEDRIVER, CHROMIUM, ENGINES, HELM, KUBE_APISERVER, PROMTOOL, TSC, Tools,
};

/// Tests that run at once for each processor. Many tests wait for programs that they started; with
/// one test for each processor, the suite of the command leaves more than half of the time unused.
const TESTS_PER_PROCESSOR: usize = 3;
/// The variable by which libtest takes their number.
const THREADS: &str = "RUST_TEST_THREADS";

/// The summary that a test program prints at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    passed: u64,
    failed: u64,
    seconds: f64,
}

/// The test programs that ran, in this order.
#[derive(Debug, Default)]
struct Suites {
    /// The name of the program that runs now.
    current: String,
    ended: Vec<(String, Summary)>,
}

impl Suites {
    fn note(&mut self, line: &str) {
        if let Some(name) = parse_start(line) {
            self.current = name;
        } else if let Some(summary) = parse_summary(line) {
            self.ended.push((self.current.clone(), summary));
        }
    }

    fn sum(&self, number: impl Fn(&Summary) -> u64) -> u64 {
        self.ended.iter().map(|(_, summary)| number(summary)).sum()
    }

    /// Prints the programs that took longest.
    fn print(&self) {
        const SHOWN_SECONDS: f64 = 2.0;
        let mut slow: Vec<_> = self.ended.iter().collect();
        slow.retain(|(_, summary)| summary.seconds >= SHOWN_SECONDS || summary.failed > 0);
        slow.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
        for (name, summary) in slow {
            println!(
                "{:7.1} s  {name}: {} passed, {} failed",
                summary.seconds, summary.passed, summary.failed
            );
        }
    }
}

pub(crate) fn run(root: &Path, args: &Offline, tasks: &clap::Command) -> Result {
    let may_make = !args.offline;
    let page = [CHROMIUM, CHROMEDRIVER, TSC, AXE];
    let tools = Tools::find(root, may_make)
        // `cargo xtask reference` builds one, which takes long.
        .and(root, &[KUBE_APISERVER], false)
        .and(root, &[HELM, ENGINES, PROMTOOL], may_make)
        .and(root, &page, may_make);
    let mut suites = Suites::default();
    let mut failures = Vec::new();
    let started = now();

    let mut step = |result: Result| failures.extend(result.err());
    step(tidy::run(root, tasks));
    step(cargo_test(
        tools.tell(&mut cargo(root, &["test", "--workspace", "--no-fail-fast"])),
        &mut suites,
    ));
    step(vectors(
        root,
        &root.join("crates/tidings-conformance/vectors/correlator"),
    ));
    if let Some(promtool) = tools.program(PROMTOOL.variable) {
        let rules = root.join("deploy/prometheus/alerts.yaml");
        let mut command = Command::new(promtool);
        step(command::run(command.args(["check", "rules"]).arg(rules)));
    }
    println!();
    suites.print();
    println!("{:7.1} s  in all", started.elapsed().as_secs_f64());
    eprintln!();
    for line in &tools.missing {
        eprintln!("{line}");
    }
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    println!(
        "{} passed, {} failed",
        suites.sum(|summary| summary.passed),
        suites.sum(|summary| summary.failed)
    );
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{} steps failed", failures.len()))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever waits is told for how long"
)]
fn now() -> Instant {
    Instant::now()
}

fn vectors(root: &Path, folder: &Path) -> Result {
    // The program is run directly. cargo would build its package alone, with other features of the
    // dependencies, and compile most of them again.
    let program = format!("debug/tidings-conformance{}", std::env::consts::EXE_SUFFIX);
    let mut command = Command::new(command::target(root).join(program));
    command::run(command.arg("correlator").arg(folder))
}

fn cargo_test(command: &mut Command, suites: &mut Suites) -> Result {
    if std::env::var_os(THREADS).is_none()
        && let Ok(processors) = std::thread::available_parallelism()
    {
        let threads = processors.get() * TESTS_PER_PROCESSOR;
        command.env(THREADS, threads.to_string());
    }
    let started = now();
    let mut is_built = false;
    run_all_lines(command, |line| {
        println!("{line}");
        if !is_built && parse_start(line).is_some() {
            is_built = true;
            println!("built in {:.1} s", started.elapsed().as_secs_f64());
        }
        suites.note(line);
    })
}

/// The name of a test program: `Running tests/api/main.rs (target/debug/deps/api-148bf8c8a9e2)`
/// leads to `api (tests/api/main.rs)`, `Doc-tests tidings` to itself.
fn parse_start(line: &str) -> Option<String> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(line.to_owned());
    }
    let (source, file) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = Path::new(file.strip_suffix(')')?).file_stem()?.to_str()?;
    let (name, _) = file.rsplit_once('-')?;
    let source = source.trim_start_matches("unittests ");
    Some(format!("{name} ({source})"))
}

/// Parses a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; …; finished in 0.42s`.
fn parse_summary(line: &str) -> Option<Summary> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let entries = || numbers.split("; ").map(str::trim);
    let number = |label: &str| {
        let entry = entries().find_map(|entry| entry.strip_suffix(label))?;
        entry.trim().parse().ok()
    };
    let seconds = entries().find_map(|entry| {
        let seconds = entry.strip_prefix("finished in ")?.strip_suffix('s')?;
        seconds.parse().ok()
    });
    Some(Summary {
        passed: number("passed")?,
        failed: number("failed")?,
        seconds: seconds.unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries_of_test_programs_are_counted_by_program() {
        let mut suites = Suites::default();
        for line in [
            "   Compiling tidings v0.1.0",
            "     Running unittests src/lib.rs (target/debug/deps/tidings_core-bcab3545cf15d1a7)",
            "test a ... ok",
            "test result: ok. 13 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 7.02s",
            "     Running tests/api/main.rs (/elsewhere/debug/deps/api-4b115eda55090421)",
            "test result: FAILED. 0 passed; 1 failed",
            "   Doc-tests tidings_store",
            "test result: ok. 6 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s",
            "test result: ok.",
            "",
        ] {
            suites.note(line);
        }
        let ended = suites.ended.iter().map(|(name, summary)| {
            let Summary {
                passed,
                failed,
                seconds,
            } = *summary;
            (name.as_str(), passed, failed, seconds)
        });
        let ended: Vec<_> = ended.collect();
        assert_eq!(
            ended,
            [
                ("tidings_core (src/lib.rs)", 13, 2, 7.02),
                ("api (tests/api/main.rs)", 0, 1, 0.0),
                ("Doc-tests tidings_store", 6, 0, 0.03),
            ]
        );
        assert_eq!(suites.sum(|summary| summary.passed), 19);
    }
}
