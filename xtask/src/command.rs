//! Runs other programs. Their output is visible, and a failure is an error.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// An error message for a terminal.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// Builds a program in a profile, and returns its path. In the profile of tests the features of the
/// whole workspace with its tests are chosen, so that no dependency is compiled again.
pub(crate) fn build(root: &Path, profile: &str, package: &str, program: &str) -> Result<PathBuf> {
    let words = ["build", "-q", "--profile", profile, "--bin", program];
    let mut build = cargo(root, &words);
    run(match profile {
        // cargo adds the features that only tests need if any test is among what is built.
        "dev" => build.args(["--workspace", "--test", "interchange"]),
        _ => build.args(["-p", package]),
    })?;
    let folder = target(root).join(if profile == "dev" { "debug" } else { profile });
    Ok(folder.join(format!("{program}{}", std::env::consts::EXE_SUFFIX)))
}

/// The cargo that runs this task.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    // The variables that cargo sets for this task are removed. Build scripts (such as ring's) run
    // again when these change, and then dependent crates are built again: each time a developer
    // alternates between `cargo xtask` and `cargo build`.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Prints a command and runs it. It prints to our own output.
pub(crate) fn run(command: &mut Command) -> Result {
    announce(command);
    let status = command.stdin(Stdio::null()).status();
    ended(command, status)
}

/// Prints a command and runs it. Every line of its standard output is passed to `line` instead of
/// being printed.
pub(crate) fn run_lines(command: &mut Command, line: impl FnMut(&str)) -> Result {
    read_lines(command, false, line)
}

/// Like [`run_lines`]. If chosen, the lines that the command and its children print to standard
/// error are passed on, too, in the order of writing. A child that outlives the command is not
/// waited for.
pub(crate) fn read_lines(
    command: &mut Command,
    with_errors: bool,
    mut line: impl FnMut(&str),
) -> Result {
    /// Maximum time to wait for the last lines after the end of a command.
    const LAST_LINES: Duration = Duration::from_secs(2);
    announce(command);
    let (output, input) = std::io::pipe().map_err(|error| not_started(command, &error))?;
    if with_errors {
        let copy = input.try_clone();
        command.stderr(copy.map_err(|error| not_started(command, &error))?);
    }
    let spawned = command.stdin(Stdio::null()).stdout(input).spawn();
    // The command value also holds ends of the pipe, which would then never close.
    command.stdout(Stdio::null());
    if with_errors {
        command.stderr(Stdio::null());
    }
    let mut child = spawned.map_err(|error| not_started(command, &error))?;
    let (sender, lines) = std::sync::mpsc::channel();
    let at_end = sender.clone();
    // Both ignore that the receiver may have ended. Lines are read as bytes, because the output of
    // tests need not be UTF-8.
    std::thread::spawn(move || {
        let lines = BufReader::new(output).split(b'\n');
        for bytes in lines.map_while(std::io::Result::ok) {
            let _ = sender.send(Ok(bytes));
        }
    });
    std::thread::spawn(move || at_end.send(Err(child.wait())));
    let mut status = None;
    loop {
        let next = match status {
            None => lines.recv().ok(),
            Some(_) => lines.recv_timeout(LAST_LINES).ok(),
        };
        match next {
            Some(Ok(bytes)) => line(String::from_utf8_lossy(&bytes).trim_end_matches('\r')),
            Some(Err(ended)) => status = Some(ended),
            None => break,
        }
    }
    let unknown = || Err(std::io::Error::other("its end is unknown"));
    ended(command, status.unwrap_or_else(unknown))
}

fn ended(command: &Command, status: std::io::Result<ExitStatus>) -> Result {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed: {status}", describe(command))),
        Err(error) => Err(not_started(command, &error)),
    }
}

/// Runs a command silently, and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(command, &error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{}` failed: {}", describe(command), error.trim()))
    }
}

/// The content of a file.
pub(crate) fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(cannot("read", file))
}

/// The bytes of a file.
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(cannot("read", file))
}

/// An empty folder, which is deleted when it is dropped.
pub(crate) fn folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|error| format!("a folder: {error}"))
}

/// Describes an error of input or output by what cannot be done with a path.
pub(crate) fn cannot(act: &str, path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("cannot {act} {}: {error}", path.display())
}

/// The path of a program on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

/// The path that an environment variable has; `None` if it is not set.
pub(crate) fn named(variable: &str) -> Option<Result<PathBuf>> {
    let file = std::env::var_os(variable).map(PathBuf::from)?;
    Some(if is_executable(&file) {
        Ok(file)
    } else {
        Err(format!(
            "{variable} names {}, which cannot be run",
            file.display()
        ))
    })
}

/// Whether a file is executable.
pub(crate) fn is_executable(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    file.is_file()
}

fn announce(command: &Command) {
    eprintln!("\n$ {}", describe(command));
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("could not run `{}`: {error}", describe(command))
}
