//! A server whose events are followed: `tidings serve`, alone or over an etcd, or kube-apiserver.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::{Result, fail};
use crate::servers::{ApiServer, Etcd};

/// A cluster that the archive follows.
pub(super) struct Followed<'a> {
    pub(super) name: &'a str,
    pub(super) address: &'a str,
    pub(super) trusted: &'a Path,
    /// The token with which the archive follows the cluster.
    pub(super) token: &'a str,
}

impl Followed<'_> {
    /// The kubeconfig of these clusters. The first one is the current context.
    pub(super) fn kubeconfig(followed: &[Self]) -> String {
        let first = followed.first().map_or("", |it| it.name);
        let mut text = format!("apiVersion: v1\nkind: Config\ncurrent-context: {first}\n");
        let mut list = |title: &str, item: &dyn Fn(&Self) -> String| {
            text.push_str(title);
            for one in followed {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "- {{name: {}, {}}}", one.name, item(one));
            }
        };
        list("contexts:\n", &|one| {
            format!("context: {{cluster: {0}, user: {0}}}", one.name)
        });
        list("users:\n", &|one| format!("user: {{token: {}}}", one.token));
        list("clusters:\n", &|one| {
            let (address, trusted) = (one.address, one.trusted.display());
            format!("cluster: {{server: 'https://{address}', certificate-authority: '{trusted}'}}")
        });
        text
    }
}

/// Paths of the programs that sources are started from.
pub(super) struct Programs {
    pub(super) tidings: PathBuf,
    pub(super) etcd: Option<PathBuf>,
    /// The kube-apiserver to use as source; without it, sources are `tidings serve`.
    pub(super) kube_apiserver: Option<PathBuf>,
}

/// A running server whose events are followed.
pub(super) struct Source {
    pub(super) server: ApiServer,
    /// The etcd with its events; `None` if it stores them in a folder of its own.
    pub(super) etcd: Option<Etcd>,
}

impl Source {
    /// Starts a source of the kind that was asked for in a folder, with further arguments that both
    /// kinds accept.
    pub(super) async fn start(programs: &Programs, folder: &Path, more: &[&str]) -> Result<Self> {
        let (server, etcd) = if let Some(program) = &programs.kube_apiserver {
            let etcd = start_etcd(programs, folder).await?;
            let server = ApiServer::kube(program, &etcd, Some(folder), more).await?;
            (server, Some(etcd))
        } else {
            let tidings = &programs.tidings;
            let server = ApiServer::ours(tidings, "serve", Some(folder), more).await?;
            (server, None)
        };
        Ok(Self { server, etcd })
    }

    /// Like `start`, but its events are in an etcd, whatever its kind.
    pub(super) async fn over_etcd(programs: &Programs, folder: &Path) -> Result<Self> {
        if programs.kube_apiserver.is_some() {
            return Self::start(programs, folder, &[]).await;
        }
        let etcd = start_etcd(programs, folder).await?;
        let mut source = Self::start(programs, folder, &["--etcd-servers", &etcd.url]).await?;
        source.etcd = Some(etcd);
        Ok(source)
    }

    /// How an archive follows it, under this name.
    pub(super) fn followed<'a>(&'a self, name: &'a str) -> Followed<'a> {
        Followed {
            name,
            address: &self.server.address,
            trusted: &self.server.certificate,
            token: "admin-token",
        }
    }

    /// The source's etcd, or an error if it has none.
    pub(super) fn etcd(&mut self) -> Result<&mut Etcd> {
        self.etcd.as_mut().map_or_else(no_etcd, Ok)
    }

    /// Kills the source, its etcd, or both, at random.
    pub(super) async fn kill(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        let part = random.u32(0..3);
        if let Some(etcd) = &mut self.etcd
            && part > 0
        {
            etcd.program.kill().await?;
            if part == 1 {
                return Ok(());
            }
        }
        self.server.program.kill().await
    }

    /// Kills the source, and gives its etcd the data again that it had when it was backed up.
    pub(super) async fn restore(&mut self) -> Result<()> {
        self.server.program.kill().await?;
        self.etcd()?.restore().await?;
        self.be_ready().await
    }

    /// Starts the parts that do not run, and waits until they are ready.
    pub(super) async fn be_ready(&mut self) -> Result<()> {
        if let Some(etcd) = &mut self.etcd {
            etcd.be_ready().await?;
        }
        self.server.be_ready().await
    }

    /// How often the source or its etcd was killed.
    pub(super) fn kills(&self) -> u64 {
        self.server.program.kills + self.etcd.as_ref().map_or(0, |etcd| etcd.program.kills)
    }
}

async fn start_etcd(programs: &Programs, folder: &Path) -> Result<Etcd> {
    match &programs.etcd {
        Some(program) => Etcd::start(program, folder).await,
        None => no_etcd(),
    }
}

fn no_etcd<T>() -> Result<T> {
    fail("there is no etcd: --etcd names none")
}
