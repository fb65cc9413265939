//! A real etcd that a test starts on free loopback ports in a folder of its own, and that ends with
//! the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{free_port, process::Process, programs};

/// A member of an etcd cluster; killed when dropped.
pub struct Member {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    data: PathBuf,
    url: String,
    process: Option<Process>,
}

impl Member {
    /// Starts the process, unless it runs.
    pub fn start(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log);
        let log = log.unwrap();
        self.process.get_or_insert_with(|| {
            let mut command = Command::new(&self.program);
            let command = command.args(&self.arguments).stdin(Stdio::null());
            let command = command.stdout(log.try_clone().unwrap()).stderr(log);
            Process::start(command).unwrap()
        });
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The number of the process, if it runs.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The folder of its data. It may be copied or replaced while the process does not run.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Sends the process this signal, if it runs.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        if let Some(process) = &self.process {
            process.signal(name);
        }
    }
}

/// An etcd cluster of one or more members.
pub struct Cluster {
    /// The members, in the order of their numbers.
    pub members: Vec<Member>,
    _folder: TempDir,
}

impl Cluster {
    /// Starts a cluster; `None` if there is no etcd on this machine.
    pub fn start(size: usize, more_arguments: &[&str]) -> Option<Self> {
        let program = programs::etcd()?;
        let folder = tempfile::tempdir().unwrap();
        // With a certificate, a member speaks TLS to its clients.
        let tls = more_arguments.contains(&"--cert-file");
        let scheme = if tls { "https" } else { "http" };
        let ports: Vec<_> = (0..size).map(|_| (free_port(), free_port())).collect();
        let peers: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(number, (_, peer))| format!("m{number}=http://127.0.0.1:{peer}"))
            .collect();
        let url = |client: u16| format!("{scheme}://127.0.0.1:{client}");
        let members = ports.iter().enumerate().map(|(number, (client, peer))| {
            let data = folder.path().join(format!("m{number}"));
            let mut member = Member {
                program: program.clone(),
                arguments: arguments(number, &url(*client), *peer, &peers.join(","), &data),
                data,
                log: folder.path().join(format!("m{number}.log")),
                url: url(*client),
                process: None,
            };
            member
                .arguments
                .extend(more_arguments.iter().map(ToString::to_string));
            member.start();
            member
        });
        Some(Self {
            members: members.collect(),
            _folder: folder,
        })
    }

    /// The client URLs of the members.
    pub fn endpoints(&self) -> Vec<String> {
        self.members
            .iter()
            .map(|member| member.url.clone())
            .collect()
    }
}

fn arguments(number: usize, client: &str, peer: u16, peers: &str, data: &Path) -> Vec<String> {
    let pairs = [
        ("--name", format!("m{number}")),
        ("--data-dir", data.to_string_lossy().into_owned()),
        ("--listen-client-urls", client.to_owned()),
        ("--advertise-client-urls", client.to_owned()),
        ("--listen-peer-urls", format!("http://127.0.0.1:{peer}")),
        (
            "--initial-advertise-peer-urls",
            format!("http://127.0.0.1:{peer}"),
        ),
        ("--initial-cluster", peers.to_owned()),
        // Values may be as large as the store's contract allows.
        ("--max-request-bytes", "4194304".to_owned()),
        ("--logger", "zap".to_owned()),
        ("--log-level", "warn".to_owned()),
    ];
    pairs
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
}
