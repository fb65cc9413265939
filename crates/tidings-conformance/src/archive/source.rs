//! A server whose events are followed: `tidings serve`, alone or over an etcd, or kube-apiserver.

use std::path::Path;

use super::args::{Args, SourceKind};
use crate::error::{Result, fail};
use crate::servers::{ApiServer, Etcd, Followed};

/// A running server whose events are followed.
pub(super) struct Source {
    pub(super) server: ApiServer,
    /// The etcd with its events; `None` if it stores them in a folder of its own.
    pub(super) etcd: Option<Etcd>,
}

impl Source {
    /// Starts a source of the kind that was asked for in a folder, with further arguments that both
    /// kinds accept.
    pub(super) async fn start(args: &Args, folder: &Path, more: &[&str]) -> Result<Self> {
        let (server, etcd) = if args.source == SourceKind::KubeApiserver {
            let Some(program) = &args.kube_apiserver else {
                return fail("there is no kube-apiserver: --kube-apiserver names none");
            };
            let etcd = start_etcd(args, folder).await?;
            let server = ApiServer::kube(program, &etcd, Some(folder), more).await?;
            (server, Some(etcd))
        } else {
            let tidings = &args.tidings;
            let server = ApiServer::ours(tidings, "serve", Some(folder), more).await?;
            (server, None)
        };
        Ok(Self { server, etcd })
    }

    /// Like `start`, but its events are in an etcd, whatever its kind.
    pub(super) async fn over_etcd(args: &Args, folder: &Path) -> Result<Self> {
        if args.source == SourceKind::KubeApiserver {
            return Self::start(args, folder, &[]).await;
        }
        let etcd = start_etcd(args, folder).await?;
        let mut source = Self::start(args, folder, &["--etcd-servers", &etcd.url]).await?;
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

async fn start_etcd(args: &Args, folder: &Path) -> Result<Etcd> {
    match &args.etcd {
        Some(program) => Etcd::start(program, folder).await,
        None => no_etcd(),
    }
}

fn no_etcd<T>() -> Result<T> {
    fail("there is no etcd: --etcd names none")
}
