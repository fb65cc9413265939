//! Servers for one measurement each: fresh, so that nobody finds what another left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::Result;
use crate::command::{self, cargo};

/// A server with whoever started it: it ends when this is dropped, and its folder goes.
pub(super) struct Running {
    children: Vec<Child>,
    folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // They may have ended by themselves; either way they are gone afterwards.
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// Runs a server of our kind: given a data folder it prints the path of a kubeconfig when it is ready.
    pub(super) fn start(server: &Path, arguments: &[&str]) -> Result<Self> {
        let folder =
            tempfile::tempdir().map_err(|error| format!("a folder for the server: {error}"))?;
        let mut child = Command::new(server)
            .args(arguments)
            .arg("--data-dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("could not run {}: {error}", server.display()))?;
        let output = child.stdout.take();
        let running = Self {
            children: vec![child],
            folder,
        };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(|error| format!("the server: {error}"))?;
        }
        if running.kubeconfig().is_file() {
            Ok(running)
        } else {
            Err(format!(
                "{} did not become ready; it said {line:?}",
                server.display()
            ))
        }
    }

    /// What clients get in with.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The process that serves.
    pub(super) fn process(&self) -> u32 {
        self.children.last().map_or(0, Child::id)
    }

    /// Resident memory of its processes, in bytes, where the system tells (Linux).
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        self.children
            .iter()
            .map(|child| resident_bytes(child.id()))
            .sum()
    }
}

fn resident_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Builds programs of this workspace, before anything is measured, and returns where they are.
pub(super) fn build(root: &Path, package: &str) -> Result<PathBuf> {
    command::run(&mut cargo(
        root,
        &["build", "--release", "-q", "-p", package],
    ))?;
    Ok(command::target(root).join("release"))
}

/// A program of those built.
pub(super) fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}
