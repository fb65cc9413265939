//! Measuring programs, which are built for distribution, the figures that they print as JSON lines,
//! and the document that has their tables.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::command::{self, Result, output, run_lines};

/// The cargo profile of measured programs.
pub(super) const PROFILE: &str = "dist";

/// A JSON line that a program printed.
#[derive(Debug, Clone)]
pub(super) struct Figure(pub(super) Value);

impl Figure {
    /// The figure of a line, if it has one.
    pub(super) fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        value.is_object().then_some(Self(value))
    }

    pub(super) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// The program that the figure is of. Our own need not print their name.
    pub(super) fn peer(&self) -> &str {
        self.0["peer"].as_str().unwrap_or("tidings")
    }

    pub(super) fn number(&self, field: &str) -> Option<f64> {
        self.0[field].as_f64()
    }

    /// The figure with this field.
    pub(super) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0[field] = value.into();
        self
    }

    /// The figure with this added to its name.
    pub(super) fn renamed(self, added: &str) -> Self {
        let name = format!("{}{added}", self.text("name"));
        self.with("name", name)
    }
}

/// Where the measured programs come from.
#[derive(Debug, Default, Clone, clap::Args)]
pub(super) struct Built {
    /// Folder of programs that were built before, like target/release [default: they are built with
    /// the profile dist]
    #[arg(long)]
    programs: Option<PathBuf>,
}

impl Built {
    /// The path of a program, which is built unless it was built before. A single one is built,
    /// since each takes minutes.
    pub(super) fn program(&self, root: &Path, package: &str, name: &str) -> Result<PathBuf> {
        match &self.programs {
            Some(folder) => Ok(folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))),
            None => command::build(root, PROFILE, package, name),
        }
    }

    /// The program `tidings`.
    pub(super) fn tidings(&self, root: &Path) -> Result<PathBuf> {
        self.program(root, "tidings-cli", "tidings")
    }

    /// A measuring program.
    pub(super) fn bench(&self, root: &Path, name: &str) -> Result<PathBuf> {
        self.program(root, "tidings-bench", name)
    }

    /// A line about the machine, versions and profile of the measurement.
    pub(super) fn machine(&self) -> String {
        // cargo names the folder after the profile.
        let folder = self.programs.as_deref().and_then(Path::file_name);
        let profile = folder.map_or(PROFILE.into(), |name| name.to_string_lossy());
        format!("{}Built with the profile `{profile}`.\n", machine(false))
    }
}

/// Where the tables go.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Output {
    /// Write the tables into docs/benchmarks.md
    #[arg(long)]
    write: bool,
}

impl Output {
    /// An error if the document has no place of this name for the tables, so that nothing is
    /// measured in vain.
    pub(super) fn check(self, root: &Path, place: &str) -> Result {
        if self.write {
            with_tables(&document(root), place, "")?;
        }
        Ok(())
    }

    /// Prints the tables and what was skipped, and writes the tables if nothing was.
    pub(super) fn put(self, root: &Path, place: &str, tables: &str, skipped: &[String]) -> Result {
        println!("\n{tables}");
        for line in skipped {
            println!("skipped {line}");
        }
        if self.write {
            if !skipped.is_empty() {
                return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
            }
            let document = document(root);
            let text = with_tables(&document, place, tables)?;
            std::fs::write(&document, text)
                .map_err(|error| format!("write {}: {error}", document.display()))?;
        }
        Ok(())
    }
}

fn document(root: &Path) -> PathBuf {
    root.join("docs/benchmarks.md")
}

/// The text of the document with these tables; an error if it has no place for them.
fn with_tables(document: &Path, name: &str, tables: &str) -> Result<String> {
    let place = document.display();
    let text =
        std::fs::read_to_string(document).map_err(|error| format!("read {place}: {error}"))?;
    replace(&text, name, tables).ok_or_else(|| {
        format!("{place} has no place for them: a line `<!-- {name}: begin -->` and, below, `<!-- {name}: end -->`")
    })
}

fn replace(text: &str, name: &str, tables: &str) -> Option<String> {
    let [begin, end] = ["begin", "end"].map(|edge| format!("<!-- {name}: {edge} -->"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    let tables = tables.trim();
    Some(format!("{before}{begin}\n\n{tables}\n\n{end}{after}"))
}

/// The folder of real events, as in tests; `None` if there is none.
pub(super) fn real_events() -> Option<PathBuf> {
    let folder = std::env::var_os("TIDINGS_CAPTURES").map(PathBuf::from);
    folder.filter(|folder| folder.is_dir())
}

/// Why the figures of real events are missing.
pub(super) const NO_REAL_EVENTS: &str = "real events: TIDINGS_CAPTURES names no folder of them";

/// Runs a program, and returns the JSON lines that it prints.
pub(super) fn figures(command: &mut Command) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    run_lines(command, |line| {
        println!("{line}");
        figures.extend(Figure::read(line));
    })?;
    if figures.is_empty() {
        return Err("it printed no figure, expected lines of JSON".to_owned());
    }
    Ok(figures)
}

/// Runs a command, which must succeed. Returns the time.
pub(super) fn seconds(command: &mut Command, what: &str) -> Result<f64> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = now();
    let status = command
        .status()
        .map_err(|error| format!("{what}: {error}"))?;
    if status.success() {
        Ok(started.elapsed().as_secs_f64())
    } else {
        Err(format!("{what}: {status}"))
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// A line about the machine and versions of the measurement.
pub(super) fn machine(has_go: bool) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = processors.lines();
    let processor = lines.find(|line| line.starts_with("model name"));
    let processor = processor.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()));
    let version = |program: &str, argument: &str| {
        let text = output(Command::new(program).arg(argument)).ok()?;
        text.lines().next().map(str::to_owned)
    };
    let go = has_go.then(|| version("go", "version")).flatten();
    let parts = [
        Some(format!("{cores} cores")),
        processor,
        version("rustc", "--version"),
        go,
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("Measured on {}.\n", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_of_the_tables_is_written() {
        let text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let written = "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb\n";
        assert_eq!(replace(text, "x", "new\n").as_deref(), Some(written));
        assert_eq!(replace(written, "x", "new").as_deref(), Some(written));
        assert_eq!(replace(text, "y", "new"), None);
    }
}
