//! A fresh server for each measurement.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::figure::{Built, Figure};
use crate::command::Result;

/// A running server. When this is dropped, the server ends and its folder is removed.
pub(super) struct Running {
    child: Child,
    kubeconfig: PathBuf,
    /// The processes whose memory is counted as the server's.
    processes: Vec<u32>,
    /// Whether the program itself ends the servers that it started when its standard input ends.
    is_keeper: bool,
    _folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        drop(self.child.stdin.take());
        if !self.is_keeper {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Running {
    /// Runs a program like our server, which takes a data folder and prints the path of a
    /// kubeconfig when it is ready.
    pub(super) fn start(server: &Path, arguments: &[&str]) -> Result<Self> {
        Self::start_in(folder()?, server, arguments)
    }

    /// Runs such a program in a data folder that may have content.
    pub(super) fn start_in(folder: TempDir, server: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(server);
        command.args(arguments).arg("--data-dir").arg(folder.path());
        let (child, line) = first_line(&mut command)?;
        Ok(Self {
            processes: vec![child.id()],
            child,
            kubeconfig: PathBuf::from(line.trim()),
            is_keeper: false,
            _folder: folder,
        })
    }

    /// Runs a kube-apiserver with its own etcd, by a program of ours that prints their addresses as
    /// JSON.
    pub(super) fn start_kube_apiserver(command: &mut Command) -> Result<Self> {
        let folder = folder()?;
        let (child, line) = first_line(command)?;
        let said: Value = serde_json::from_str(&line)
            .map_err(|error| format!("kube-apiserver: {error} in {line:?}"))?;
        let processes = said["processes"].as_array().into_iter().flatten();
        Ok(Self {
            child,
            kubeconfig: PathBuf::from(said["kubeconfig"].as_str().unwrap_or_default()),
            processes: processes
                .filter_map(|process| u32::try_from(process.as_u64()?).ok())
                .collect(),
            is_keeper: true,
            _folder: folder,
        })
    }

    /// The kubeconfig of clients.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The number of the server's process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Processor time of the server in seconds, to hundredths, if the system has it (Linux).
    pub(super) fn processor_seconds(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process())).ok()?;
        // The name, which may have any characters, ends with the last parenthesis; user and system
        // time are the 14th and 15th field.
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Some(ticks / 100.0)
    }

    /// Resident memory of the server's processes in bytes, if the system has it (Linux).
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        self.processes.iter().copied().map(resident_bytes).sum()
    }
}

/// A server that has the events to measure: a given one, or one that is filled and started.
pub(super) struct Filled {
    pub(super) kubeconfig: String,
    /// The started server, which ends when this is dropped.
    _running: Option<Running>,
}

impl Filled {
    /// Without the kubeconfig of a `given` server, fills a data folder by `fill`, which gets its
    /// path, and starts a server on it.
    pub(super) fn start(
        root: &Path,
        built: &Built,
        given: Option<&Path>,
        fill: impl FnOnce(&str) -> Result<Vec<Figure>>,
    ) -> Result<Self> {
        if let Some(given) = given {
            return Ok(Self {
                kubeconfig: given.to_string_lossy().into_owned(),
                _running: None,
            });
        }
        let tidings = built.program(root, "tidings-cli", "tidings")?;
        let data = folder()?;
        fill(&data.path().to_string_lossy())?;
        let serve = ["serve", "--secure-port", "0", "--event-ttl", "2160h"];
        let running = Running::start_in(data, &tidings, &serve)?;
        Ok(Self {
            kubeconfig: running.kubeconfig().to_string_lossy().into_owned(),
            _running: Some(running),
        })
    }
}

/// Makes an empty data folder.
pub(super) fn folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|error| format!("a folder for the server: {error}"))
}

/// Starts a program, and waits for the line that it prints when it is ready.
fn first_line(command: &mut Command) -> Result<(Child, String)> {
    let program = PathBuf::from(command.get_program());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("could not run {}: {error}", program.display()))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(|error| format!("{}: {error}", program.display()))?;
    }
    if line.is_empty() {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("{} did not become ready", program.display()));
    }
    Ok((child, line))
}

fn resident_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
