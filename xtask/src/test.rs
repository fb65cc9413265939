//! `cargo xtask test`: runs every test, from a fresh clone. After a failed step the others still
//! run.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::command::{self, Result, cargo, run_all_lines, run_lines};
use crate::tidy;
use crate::tools::Tools;

/// Test programs that run at once. Many tests wait for programs that they started: one test program
/// after the other, as cargo runs them, would leave half of the processors' time unused.
const PROGRAMS_AT_ONCE: usize = 2;
/// Tests of a program that run at once, for each processor.
const TESTS_PER_PROCESSOR: usize = 2;
/// The variable by which libtest takes their number.
const THREADS: &str = "RUST_TEST_THREADS";
/// The test programs that take longest. They start first, so that none is left alone at the end.
const LONGEST: [&str; 4] = ["api", "objects", "verbs", "timeline_page"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not fetch kubectl, etcd and others where they are missing
    #[arg(long)]
    offline: bool,
}

/// The summary that a test program prints at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    passed: u64,
    failed: u64,
    seconds: f64,
}

/// A test program that was built.
#[derive(Debug, PartialEq)]
struct Program {
    /// Its name and its source, such as `api (tests/api/main.rs)`.
    name: String,
    file: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
}

/// What is run at once with others.
enum Job {
    Program(Program),
    /// The examples of the documentation, which cargo builds while it runs them.
    Examples,
}

/// The test programs that ran, in this order.
#[derive(Debug, Default)]
struct Suites {
    ended: Vec<(String, Summary)>,
}

impl Suites {
    /// Takes the summaries from the output of a test program, or of several with their headings.
    fn note<'a>(&mut self, name: &str, lines: impl IntoIterator<Item = &'a str>) {
        let mut name = name.to_owned();
        for line in lines {
            if line.trim_start().starts_with("Doc-tests ") {
                line.trim_start().clone_into(&mut name);
            } else if let Some(summary) = parse_summary(line) {
                self.ended.push((name.clone(), summary));
            }
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

pub(crate) fn run(root: &Path, args: &Args, tasks: &clap::Command) -> Result {
    let mut tools = Tools::find(root, !args.offline)
        .and_kube_apiserver(root, false)
        .and_helm(root, !args.offline)
        .and_browser(root, !args.offline)
        .and_engines(root, !args.offline);
    let mut suites = Suites::default();
    let mut failures = Vec::new();
    let started = now();

    let mut step = |result: Result| failures.extend(result.err());
    step(tidy::run(root, tasks));
    match build(root, &tools) {
        Ok(programs) => {
            for failure in run_programs(root, &tools, programs, &mut suites) {
                step(Err(failure));
            }
        }
        Err(error) => step(Err(error)),
    }
    step(vectors(
        root,
        &root.join("crates/tidings-conformance/vectors/correlator"),
    ));
    match command::find("promtool") {
        Some(promtool) => {
            let rules = root.join("deploy/prometheus/alerts.yaml");
            let mut command = Command::new(promtool);
            step(command::run(command.args(["check", "rules"]).arg(rules)));
        }
        None => tools.missing.push(
            "skipped: the check of the alert rules by promtool, which is not on the PATH"
                .to_owned(),
        ),
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

/// Builds all test programs.
fn build(root: &Path, tools: &Tools) -> Result<Vec<Program>> {
    let arguments = ["test", "--workspace", "--no-run"];
    let mut command = cargo(root, &arguments);
    command.arg("--message-format=json-render-diagnostics");
    let started = now();
    let mut programs = Vec::new();
    run_lines(tools.tell(&mut command), |line| {
        programs.extend(parse_built(line));
    })?;
    println!("built in {:.1} s", started.elapsed().as_secs_f64());
    programs.sort_by_key(|program| {
        let word = program.name.split(' ').next();
        let place = LONGEST.iter().position(|name| Some(*name) == word);
        place.unwrap_or(LONGEST.len())
    });
    Ok(programs)
}

/// The test program of a message of cargo about what it built, if it is one.
fn parse_built(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let file = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let source = source.strip_prefix(folder).unwrap_or(source).display();
    let name = message["target"]["name"].as_str()?;
    Some(Program {
        name: format!("{name} ({source})"),
        file,
        folder: folder.to_owned(),
    })
}

/// Runs test programs, some at once, and the examples of the documentation with them. The output of
/// each is printed when it has ended. Returns what failed.
fn run_programs(
    root: &Path,
    tools: &Tools,
    programs: Vec<Program>,
    suites: &mut Suites,
) -> Vec<String> {
    let mut jobs: VecDeque<Job> = programs.into_iter().map(Job::Program).collect();
    jobs.push_back(Job::Examples);
    let jobs = Mutex::new(jobs);
    let ended = Mutex::new((suites, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = lock(&jobs).pop_front();
                    let Some(job) = next else { break };
                    let (name, mut command) = match job {
                        Job::Program(program) => {
                            let mut command = Command::new(&program.file);
                            command.current_dir(&program.folder);
                            (program.name, command)
                        }
                        Job::Examples => {
                            let arguments = ["test", "--workspace", "--doc", "--no-fail-fast"];
                            ("examples".to_owned(), cargo(root, &arguments))
                        }
                    };
                    if std::env::var_os(THREADS).is_none() {
                        let processors = std::thread::available_parallelism();
                        let processors = processors.map_or(1, usize::from);
                        command.env(THREADS, (processors * TESTS_PER_PROCESSOR).to_string());
                    }
                    let mut lines = Vec::new();
                    let result = run_all_lines(tools.tell(&mut command), |line| {
                        lines.push(line.to_owned());
                    });
                    let mut ended = lock(&ended);
                    println!("\n     Running {name}");
                    for line in &lines {
                        println!("{line}");
                    }
                    ended.0.note(&name, lines.iter().map(String::as_str));
                    if let Err(error) = result {
                        ended.1.push(format!("{name}: {error}"));
                    }
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    use serde_json::json;

    use super::*;

    #[test]
    fn the_summaries_of_test_programs_are_counted_by_program() {
        let mut suites = Suites::default();
        let of = |suites: &mut Suites, name, lines: &[&str]| {
            suites.note(name, lines.iter().copied());
        };
        let lines = [
            "test a ... ok",
            "test result: ok. 13 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 7.02s",
        ];
        of(&mut suites, "tidings_core (src/lib.rs)", &lines);
        let lines = ["test result: FAILED. 0 passed; 1 failed"];
        of(&mut suites, "api (tests/api/main.rs)", &lines);
        let lines = [
            "   Doc-tests tidings_store",
            "test result: ok. 6 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s",
            "test result: ok.",
            "",
        ];
        of(&mut suites, "examples", &lines);
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

    #[test]
    fn a_program_is_taken_from_cargos_message_if_it_has_tests() {
        let message = |is_test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/src/crates/server/Cargo.toml",
                "target": {"name": "api", "src_path": "/src/crates/server/tests/api/main.rs"},
                "profile": {"test": is_test},
                "executable": executable,
            })
            .to_string()
        };
        let expected = Program {
            name: "api (tests/api/main.rs)".to_owned(),
            file: "/target/api-1".into(),
            folder: "/src/crates/server".into(),
        };
        let file = json!("/target/api-1");
        assert_eq!(parse_built(&message(true, file.clone())), Some(expected));
        assert_eq!(parse_built(&message(false, file)), None);
        assert_eq!(parse_built(&message(true, Value::Null)), None);
        assert_eq!(parse_built("warning: nothing"), None);
    }
}
