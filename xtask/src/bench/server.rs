//! A fresh server for each measurement.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tidings_testing::process::{self, Process};

use super::figure::{Built, Figure};
use crate::command::Result;

/// A running server. When this is dropped, the server ends and its folder is removed.
pub(super) struct Running {
    process: Process,
    /// The kubeconfig of clients.
    pub(super) kubeconfig: PathBuf,
    /// The processes whose memory is counted as the server's.
    processes: Vec<u32>,
    /// Whether the program itself ends the servers that it started when its standard input ends.
    is_keeper: bool,
    _folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_keeper {
            self.process.close_input();
        }
    }
}

impl Running {
    /// Runs a program like our server, which takes a data folder and prints the path of a
    /// kubeconfig when it is ready.
    pub(super) fn start(server: &Path, arguments: &[&str]) -> Result<Self> {
        Self::start_in(folder()?, server, arguments)
    }

    /// Runs such a program in a data folder that may have content.
    fn start_in(folder: TempDir, server: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(server);
        command.args(arguments).arg("--data-dir").arg(folder.path());
        let (process, line) = first_line(&mut command)?;
        Ok(Self {
            processes: vec![process.id()],
            process,
            kubeconfig: PathBuf::from(line),
            is_keeper: false,
            _folder: folder,
        })
    }

    /// Runs a kube-apiserver with its own etcd, by a program of ours that prints their addresses as
    /// JSON.
    pub(super) fn start_kube_apiserver(command: &mut Command) -> Result<Self> {
        let folder = folder()?;
        let (process, line) = first_line(command)?;
        let said: Value = serde_json::from_str(&line)
            .map_err(|error| format!("kube-apiserver: {error} in {line:?}"))?;
        let processes = said["processes"].as_array().into_iter().flatten();
        Ok(Self {
            process,
            kubeconfig: PathBuf::from(said["kubeconfig"].as_str().unwrap_or_default()),
            processes: processes
                .filter_map(|process| u32::try_from(process.as_u64()?).ok())
                .collect(),
            is_keeper: true,
            _folder: folder,
        })
    }

    /// The number of the server's process.
    pub(super) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Resident memory of the server's processes in bytes, if the system has it (Linux).
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let processes = self.processes.iter().copied();
        processes.map(process::resident_bytes).sum()
    }

    /// Starts a server on a data folder that `fill`, which gets its path, has filled with events.
    pub(super) fn start_filled(
        root: &Path,
        built: &Built,
        fill: impl FnOnce(&str) -> Result<Vec<Figure>>,
    ) -> Result<Self> {
        let tidings = built.tidings(root)?;
        let data = folder()?;
        fill(&data.path().to_string_lossy())?;
        Self::start_in(
            data,
            &tidings,
            &["serve", "--secure-port=0", "--event-ttl=2160h"],
        )
    }
}

/// Makes an empty data folder.
pub(super) fn folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|error| format!("a folder for the server: {error}"))
}

/// Starts a program, and waits for the line that it prints when it is ready.
fn first_line(command: &mut Command) -> Result<(Process, String)> {
    let command = command.stdin(Stdio::piped()).stderr(Stdio::null());
    let program = command.get_program().display().to_string();
    let (process, line) =
        Process::start_and_hear(command).map_err(|error| format!("{program}: {error}"))?;
    if line.is_empty() {
        return Err(format!("{program} did not become ready"));
    }
    Ok((process, line))
}
