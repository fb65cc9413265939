//! `cargo xtask test`: runs every test, from a fresh clone. After a failed step the others still
//! run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::command::{self, Result, cargo, read_lines};
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

/// A test program that ran.
#[derive(Debug, Default, Clone, PartialEq)]
struct Suite {
    name: String,
    passed: u64,
    failed: u64,
    seconds: f64,
}

/// The test programs that ran, in this order.
#[derive(Debug, Default)]
struct Suites {
    /// The name of the program that runs now.
    current: String,
    ended: Vec<Suite>,
}

impl Suites {
    fn note(&mut self, line: &str) {
        if let Some(name) = parse_start(line) {
            self.current = name;
        }
        self.ended.extend(parse_summary(&self.current, line));
    }

    /// Prints the programs that took longest, and the number of tests.
    fn print(&mut self, seconds: f64) {
        const SHOWN_SECONDS: f64 = 2.0;
        let (passed, failed) = self.sum();
        self.ended.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let is_shown = |suite: &&Suite| suite.seconds >= SHOWN_SECONDS || suite.failed > 0;
        for suite in self.ended.iter().filter(is_shown) {
            let (name, passed, failed) = (&suite.name, suite.passed, suite.failed);
            println!(
                "{:7.1} s  {name}: {passed} passed, {failed} failed",
                suite.seconds
            );
        }
        println!("{seconds:7.1} s  in all");
        println!("{passed} passed, {failed} failed");
    }

    fn sum(&self) -> (u64, u64) {
        let sum = |number: fn(&Suite) -> u64| self.ended.iter().map(number).sum();
        (sum(|suite| suite.passed), sum(|suite| suite.failed))
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
    let mut tests = cargo(root, &["test", "--workspace", "--no-fail-fast"]);
    step(cargo_test(tools.tell(&mut tests), &mut suites));
    // The program is run directly. cargo would build its package alone, with other features of the
    // dependencies, and compile most of them again.
    let judge = format!("debug/tidings-conformance{}", std::env::consts::EXE_SUFFIX);
    let mut judge = Command::new(command::target(root).join(judge));
    let scenarios = root.join("crates/tidings-conformance/vectors/correlator");
    step(command::run(judge.arg("correlator").arg(scenarios)));
    if let Some(promtool) = tools.program(PROMTOOL.variable) {
        let rules = root.join("deploy/prometheus/alerts.yaml");
        let mut command = Command::new(promtool);
        step(command::run(command.args(["check", "rules"]).arg(rules)));
    }
    println!();
    for line in &tools.missing {
        eprintln!("skipped: {line}");
    }
    suites.print(started.elapsed().as_secs_f64());
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    match failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} steps failed")),
    }
}

#[expect(clippy::disallowed_methods, reason = "for whoever waits")]
fn now() -> Instant {
    Instant::now()
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
    read_lines(command, true, |line| {
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
fn parse_summary(name: &str, line: &str) -> Option<Suite> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut suite = Suite {
        name: name.to_owned(),
        ..Suite::default()
    };
    for entry in numbers.split("; ").map(str::trim) {
        if let Some(number) = entry.strip_suffix(" passed") {
            suite.passed = number.parse().ok()?;
        } else if let Some(number) = entry.strip_suffix(" failed") {
            suite.failed = number.parse().ok()?;
        } else if let Some(seconds) = entry.strip_prefix("finished in ") {
            suite.seconds = seconds.trim_end_matches('s').parse().ok()?;
        }
    }
    Some(suite)
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
        let suite = |name: &str, passed, failed, seconds| Suite {
            name: name.to_owned(),
            passed,
            failed,
            seconds,
        };
        let expected = [
            suite("tidings_core (src/lib.rs)", 13, 2, 7.02),
            suite("api (tests/api/main.rs)", 0, 1, 0.0),
            suite("Doc-tests tidings_store", 6, 0, 0.03),
        ];
        assert_eq!(suites.ended, expected);
        assert_eq!(suites.sum(), (19, 3));
    }
}
