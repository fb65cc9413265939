//! `cargo xtask mutants`: faults put into a crate one at a time (cargo-mutants), and which of them
//! no test notices. The crate's own tests run first; what survives them is tried against the tests
//! of the crates that reach it. `.cargo/mutants.toml` says what is left out, and why.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, cargo, output};

/// The crates whose faults are looked for, and the crates whose tests reach them beside their own.
const REACHED_FROM: [(&str, &[&str]); 5] = [
    ("tidings-core", &["tidings", "tidings-conformance"]),
    ("tidings", &["tidings-conformance"]),
    ("tidings-store", &["tidings-server"]),
    ("tidings-server", &["tidings-cli"]),
    ("tidings-cli", &[]),
];

/// Fewer cases of each property than usual: what survives them is tried with all.
const PROPERTY_CASES: &str = "32";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The crate to look for faults in
    #[arg(long, default_value = "tidings-core", value_parser = package_names())]
    package: String,
    /// Draw this number of faults at random [default: every fault]
    #[arg(long, value_name = "NUMBER")]
    sample: Option<usize>,
    /// Where the random numbers begin, to repeat a draw [default: another one each time]
    #[arg(long, requires = "sample")]
    seed: Option<u64>,
    /// Only the crate's own tests
    #[arg(long)]
    own: bool,
    /// Fail when a smaller share of them is caught
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    at_least: usize,
}

fn package_names() -> clap::builder::PossibleValuesParser {
    REACHED_FROM.map(|(package, _)| package).into()
}

/// What became of the faults of a run, as cargo-mutants lists them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    caught: usize,
    /// Those that do not compile.
    unviable: usize,
    survived: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    if output(&mut cargo(root, &["mutants", "--version"])).is_err() {
        println!("skipped: no cargo-mutants (`cargo install cargo-mutants --locked`)");
        return Ok(());
    }
    let drawn = match args.sample {
        None => Vec::new(),
        Some(number) => {
            let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
            println!("seed {seed}");
            let listed = output(&mut cargo(
                root,
                &["mutants", "--list", "-p", &args.package],
            ))?;
            draw(&listed, number, seed)
        }
    };
    let mut own = mutants(root, args, &[args.package.as_str()], &drawn);
    own.env("PROPTEST_CASES", PROPERTY_CASES);
    let mut found = tried(root, &mut own)?;

    let reached_from = REACHED_FROM.iter().find(|(name, _)| *name == args.package);
    let further = reached_from.map_or(&[][..], |(_, further)| further);
    if !args.own && !found.survived.is_empty() {
        let packages = [&[args.package.as_str()], further].concat();
        let again = tried(root, &mut mutants(root, args, &packages, &found.survived))?;
        found.caught += again.caught;
        found.survived = again.survived;
    }
    println!();
    for fault in &found.survived {
        println!("survived: {fault}");
    }
    let viable = found.caught + found.survived.len();
    println!(
        "{}: {} of {viable} faults caught; {} more do not compile",
        args.package, found.caught, found.unviable
    );
    if found.caught * 100 < viable * args.at_least {
        return Err(format!("fewer than {} % were caught", args.at_least));
    }
    Ok(())
}

/// `number` of the lines, in their order.
fn draw(listed: &str, number: usize, seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn: Vec<_> = listed.lines().enumerate().collect();
    random.shuffle(&mut drawn);
    drawn.truncate(number);
    drawn.sort_unstable();
    drawn.into_iter().map(|(_, line)| line.to_owned()).collect()
}

/// cargo-mutants with the tests of `packages`, for these faults, or for every one if there are
/// none.
fn mutants(root: &Path, args: &Args, packages: &[&str], faults: &[String]) -> Command {
    let mut command = cargo(root, &["mutants", "-p", &args.package, "--colors", "never"]);
    for package in packages {
        command.args(["--test-package", package]);
    }
    for fault in faults {
        command.args(["--re", &format!("^{}$", escaped(fault))]);
    }
    command.arg("--output").arg(folder(root));
    // Unit and integration tests: an example in the documentation takes a build of its own.
    command.args(["--", "--tests"]);
    // A build for each fault: no more than the tests need, and apart from our own.
    command
        .env("CARGO_TARGET_DIR", folder(root).join("target"))
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "none");
    command
}

/// A fault's name as a regular expression.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

fn folder(root: &Path) -> PathBuf {
    command::target(root).join("mutants")
}

/// Runs cargo-mutants and reads what it wrote down.
fn tried(root: &Path, command: &mut Command) -> Result<Outcome> {
    let written = folder(root).join("mutants.out");
    // An earlier run's would be taken for this one's if this one cannot begin.
    let _ = std::fs::remove_dir_all(&written);
    // Fails when a fault survives, too, so its answer says less than what it wrote.
    let finished = command::run(command);
    let read = |name: &str| std::fs::read_to_string(written.join(name));
    let lists = ["missed.txt", "caught.txt", "timeout.txt", "unviable.txt"].map(read);
    let [Ok(missed), Ok(caught), Ok(timeout), Ok(unviable)] = lists else {
        return Err(finished
            .err()
            .unwrap_or_else(|| format!("cargo-mutants left no lists in {}", written.display())));
    };
    let outcome = Outcome {
        caught: caught.lines().count() + timeout.lines().count(),
        unviable: unviable.lines().count(),
        survived: missed.lines().map(str::to_owned).collect(),
    };
    if outcome == Outcome::default() {
        finished?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_lines_again_in_their_order() {
        let listed = (0..100).map(|n| format!("{n}\n")).collect::<String>();
        let numbers = |seed| {
            let drawn = draw(&listed, 10, seed);
            drawn
                .iter()
                .map(|line| line.parse::<u32>())
                .collect::<Vec<_>>()
        };
        let drawn = numbers(1);
        assert_eq!(drawn.len(), 10);
        assert!(drawn.is_sorted_by_key(|number| number.clone().ok()));
        assert_eq!(drawn, numbers(1));
        assert_ne!(drawn, numbers(2));
        assert_eq!(draw(&listed, 1000, 1).len(), 100);
    }

    #[test]
    fn a_name_is_a_pattern_of_itself_only() {
        assert_eq!(
            escaped("src/a_b.rs:1:2: replace * with +"),
            r"src\/a\_b\.rs\:1\:2\: replace \* with \+"
        );
    }
}
