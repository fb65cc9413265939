//! Measuring programs, which are built for distribution, and the figures that they print as JSON
//! lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{self, Result, cargo, output, run_lines};

/// The cargo profile of measured programs.
pub(super) const PROFILE: &str = "dist";

/// A JSON line that a program printed.
#[derive(Debug, Clone)]
pub(super) struct Figure(pub(super) Value);

impl Figure {
    pub(super) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, field: &str) -> Option<f64> {
        self.0[field].as_f64()
    }

    /// The figure with this added to its name.
    pub(super) fn renamed(mut self, added: &str) -> Self {
        self.0["name"] = format!("{}{added}", self.text("name")).into();
        self
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
    /// The path of a program, which is built unless it was built before.
    pub(super) fn program(&self, root: &Path, package: &str, name: &str) -> Result<PathBuf> {
        match &self.programs {
            Some(folder) => Ok(folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))),
            None => build(root, package, name),
        }
    }

    /// A line about the machine, versions and profile of the measurement.
    pub(super) fn machine(&self) -> String {
        // cargo names the folder after the profile.
        let folder = self.programs.as_deref().and_then(Path::file_name);
        let profile = folder.map_or(PROFILE.into(), |name| name.to_string_lossy());
        format!("{}Built with the profile `{profile}`.\n", machine(false))
    }
}

/// Builds a single program of a package, since each takes minutes. Returns its path.
pub(super) fn build(root: &Path, package: &str, program: &str) -> Result<PathBuf> {
    let words = [
        "build",
        "--profile",
        PROFILE,
        "-q",
        "-p",
        package,
        "--bin",
        program,
    ];
    command::run(&mut cargo(root, &words))?;
    let folder = command::target(root).join(PROFILE);
    Ok(folder.join(format!("{program}{}", std::env::consts::EXE_SUFFIX)))
}

/// The folder of real events: this one, or else that of `TIDINGS_CAPTURES`, as in tests; `None` if
/// there is none.
pub(super) fn real_events(named: Option<&Path>) -> Option<PathBuf> {
    let of_tests = || std::env::var_os("TIDINGS_CAPTURES").map(PathBuf::from);
    let folder = named.map(Path::to_owned).or_else(of_tests);
    folder.filter(|folder| folder.is_dir())
}

/// Runs a program, and returns the JSON lines that it prints.
pub(super) fn figures(command: &mut Command) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    run_lines(command, |line| match serde_json::from_str::<Value>(line) {
        Ok(value @ Value::Object(_)) => {
            println!("{line}");
            figures.push(Figure(value));
        }
        _ => println!("{line}"),
    })?;
    if figures.is_empty() {
        return Err("it printed no figure, expected lines of JSON".to_owned());
    }
    Ok(figures)
}

/// A line about the machine and versions of the measurement.
pub(super) fn machine(has_go: bool) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
    let first_line =
        |mut command: Command| output(&mut command).ok()?.lines().next().map(str::to_owned);
    let version = |program: &str, argument: &str| {
        let mut command = Command::new(program);
        command.arg(argument);
        first_line(command)
    };
    let go = has_go.then(|| version("go", "version")).flatten();
    let parts = [
        Some(format!("{cores} cores")),
        processor,
        version("rustc", "--version"),
        go,
    ];
    format!(
        "Measured on {}.\n",
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    )
}
