//! A server of our own for one measurement: fresh, so that nobody finds what another left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Figure, figures};
use crate::Result;
use crate::command::{self, cargo};

const EVENTS: &str = "20000";

/// Ends the server with whoever started it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds the `tidings` command, before anything is measured, and returns where it is.
pub(super) fn build(root: &Path) -> Result<PathBuf> {
    command::run(&mut cargo(
        root,
        &["build", "--release", "-q", "-p", "tidings-cli"],
    ))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target
        .join("release")
        .join(format!("tidings{}", std::env::consts::EXE_SUFFIX)))
}

/// Has `command` send its burst to a fresh server.
pub(super) fn measure(server: &Path, command: &mut Command) -> Result<Vec<Figure>> {
    let folder =
        tempfile::tempdir().map_err(|error| format!("a folder for the server: {error}"))?;
    let child = Command::new(server)
        .args(["serve", "--secure-port", "0", "--data-dir"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("could not run {}: {error}", server.display()))?;
    let mut running = Running(child);
    // It prints the path of its kubeconfig when it is ready.
    let mut line = String::new();
    if let Some(output) = running.0.stdout.take() {
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(|error| format!("the server: {error}"))?;
    }
    let kubeconfig = folder.path().join("kubeconfig");
    if !kubeconfig.is_file() {
        return Err(format!("the server did not become ready; it said {line:?}"));
    }
    figures(command.arg("--kubeconfig").arg(kubeconfig).args([
        "--events",
        EVENTS,
        "--objects",
        EVENTS,
    ]))
}
