//! Runs other programs. Their output is visible, and a failure is an error.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// An error message for a terminal.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// Builds a program in a profile, and returns its path. In the profile of tests the whole
/// workspace's features are chosen, as for the tests, so that no dependency is compiled again.
pub(crate) fn build(root: &Path, profile: &str, package: &str, program: &str) -> Result<PathBuf> {
    let is_of_tests = profile == "dev";
    let mut build = cargo(
        root,
        &["build", "-q", "--profile", profile, "--bin", program],
    );
    if is_of_tests {
        build.arg("--workspace");
    } else {
        build.args(["-p", package]);
    }
    run(&mut build)?;
    let folder = if is_of_tests { "debug" } else { profile };
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    Ok(target(root).join(folder).join(file))
}

/// The cargo that runs this task.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    // The variables that cargo sets for this task are removed. Build scripts (such as ring's) run
    // again when these change, and then dependent crates are built again: each time a developer
    // alternates between `cargo xtask` and `cargo build`.
    let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| own.iter().any(|own| name.starts_with(own)))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Prints a command and runs it. It prints to our own output.
pub(crate) fn run(command: &mut Command) -> Result {
    announce(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| not_started(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed: {status}", describe(command)))
    }
}

/// Prints a command and runs it. Every line of its standard output is passed to `line` instead of
/// being printed.
pub(crate) fn run_lines(command: &mut Command, mut line: impl FnMut(&str)) -> Result {
    announce(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| not_started(command, &error))?;
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        // Lines are read as bytes, because the output of tests need not be UTF-8.
        while output
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|length| length > 0)
        {
            line(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']));
            bytes.clear();
        }
    }
    let status = child.wait().map_err(|error| not_started(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed: {status}", describe(command)))
    }
}

/// Like [`run_lines`], but also passes on the lines that the command and its children print to
/// standard error, in the order of writing. It does not wait for a child that outlives the command.
pub(crate) fn run_all_lines(command: &mut Command, mut line: impl FnMut(&str)) -> Result {
    /// Maximum time to wait for the last lines after the end of a command.
    const LAST_LINES: Duration = Duration::from_secs(2);
    announce(command);
    let (output, input) = std::io::pipe().map_err(|error| not_started(command, &error))?;
    let copy = input
        .try_clone()
        .map_err(|error| not_started(command, &error))?;
    let spawned = command
        .stdin(Stdio::null())
        .stdout(input)
        .stderr(copy)
        .spawn();
    // The command value also holds ends of the pipe, which would then never close.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = spawned.map_err(|error| not_started(command, &error))?;
    let (sender, lines) = std::sync::mpsc::channel();
    let ended = sender.clone();
    std::thread::spawn(move || {
        for bytes in BufReader::new(output)
            .split(b'\n')
            .map_while(std::io::Result::ok)
        {
            if sender.send(Some(bytes)).is_err() {
                break;
            }
        }
    });
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        // The receiver may have ended already.
        let _ = ended.send(None);
        status
    });
    let mut has_ended = false;
    loop {
        let next = if has_ended {
            lines.recv_timeout(LAST_LINES).ok()
        } else {
            lines.recv().ok()
        };
        match next {
            Some(Some(bytes)) => line(String::from_utf8_lossy(&bytes).trim_end_matches('\r')),
            Some(None) => has_ended = true,
            None => break,
        }
    }
    let status = waiter
        .join()
        .map_err(|_| format!("`{}` could not be waited for", describe(command)))?
        .map_err(|error| not_started(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed: {status}", describe(command)))
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
        let named = file.display();
        Err(format!("{variable} names {named}, which cannot be run"))
    })
}

/// Builds a package of a Go module, with flags for the linker.
pub(crate) fn go_build(module: &Path, package: &str, flags: &str, program: &Path) -> Result {
    if find("go").is_none() {
        return Err("there is no Go to build it with".to_owned());
    }
    // If the module proxy cannot be reached, this fails before a long build.
    let mut download = Command::new("go");
    download
        .args(["list", "-deps", package])
        .current_dir(module);
    output(&mut download).map_err(|error| format!("its modules cannot be had: {error}"))?;
    let name = program.file_name().unwrap_or_default().display();
    eprintln!("{name}: building it, some minutes the first time");
    let mut build = Command::new("go");
    build
        .args(["build", "-mod=readonly", "-ldflags"])
        .arg(format!("-s -w {flags}"))
        .arg("-o")
        .args([program.as_os_str(), package.as_ref()])
        .current_dir(module);
    run(&mut build)
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
    let environment = command
        .get_envs()
        .filter(|(name, _)| *name == "RUSTFLAGS")
        .filter_map(|(name, value)| {
            Some(format!(
                "{}='{}'",
                name.to_string_lossy(),
                value?.to_string_lossy()
            ))
        });
    let words = std::iter::once(program)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy);
    environment
        .chain(words.map(std::borrow::Cow::into_owned))
        .collect::<Vec<_>>()
        .join(" ")
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("could not run `{}`: {error}", describe(command))
}
