//! A source, the archive that follows it, and the proxy between them.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::archived::{self, CLUSTER, Coverage};
use super::args::Args;
use super::ledger::{Ledger, Verdict};
use super::proxy::Proxy;
use super::source::Source;
use crate::clock;
use crate::error::{Result, fail};
use crate::http::Caller;
use crate::servers::{ApiServer, Followed};

/// Maximum time for the archive to catch up.
const LEVEL: Duration = Duration::from_secs(240);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// A running `tidings archive`.
pub(super) struct Archive {
    pub(super) server: ApiServer,
    pub(super) caller: Caller,
}

impl Archive {
    /// Starts an archive in a folder, with more arguments.
    pub(super) async fn start(
        tidings: &Path,
        folder: &Path,
        followed: &[Followed<'_>],
        more: &[&str],
    ) -> Result<Self> {
        let kubeconfig = folder.join("sources.yaml");
        Followed::write(followed, &kubeconfig)?;
        let kubeconfig = kubeconfig.to_string_lossy();
        let mut arguments = vec!["--kubeconfig", &*kubeconfig];
        arguments.extend(more);
        arguments.extend(followed.iter().flat_map(|one| ["--context", one.name]));
        let server = ApiServer::ours(tidings, "archive", Some(folder), &arguments).await?;
        let caller = Caller::new(&server.client);
        let mut archive = Self { server, caller };
        // The archive is ready before it serves its clusters.
        for one in followed {
            archive.level(one.name, 0).await?;
        }
        Ok(archive)
    }

    /// Starts the archive if it does not run, and waits until it serves a cluster.
    pub(super) async fn be_ready(&mut self, cluster: &str) -> Result<()> {
        self.server.be_ready().await?;
        self.until(cluster, 0, |_| true).await.map(drop)
    }

    /// Waits until the archive has followed a cluster up to a version.
    pub(super) async fn level(&mut self, cluster: &str, version: u64) -> Result<Coverage> {
        self.level_in(cluster, 0, version).await
    }

    /// Like `level`, after the cluster went back this number of times.
    pub(super) async fn level_in(
        &mut self,
        cluster: &str,
        epoch: u64,
        version: u64,
    ) -> Result<Coverage> {
        let is_level = |coverage: &Coverage| {
            coverage.epoch >= epoch && coverage.version.is_some_and(|at| at >= version)
        };
        self.until(cluster, version, is_level).await
    }

    /// Waits until everything that the archive observed in a cluster is sealed.
    pub(super) async fn sealed(&mut self, cluster: &str) -> Result<()> {
        let until = clock::steady() + LEVEL;
        loop {
            let waiting = archived::waiting(&mut self.caller, cluster).await?;
            if waiting == Some(0) {
                return Ok(());
            }
            if clock::steady() > until {
                return fail(format!("{waiting:?} versions are not sealed"));
            }
            self.server.program.check()?;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Waits until the archive has followed a cluster up to the last version that was written, and
    /// compares its content with what was written.
    pub(super) async fn judge(
        &mut self,
        cluster: &str,
        ledger: &Ledger,
    ) -> Result<(Verdict, Coverage)> {
        let coverage = self.level(cluster, ledger.latest()).await?;
        let kept = archived::versions(&self.server.client, cluster).await?;
        Ok((ledger.judge(&kept, &coverage), coverage))
    }

    async fn until(
        &mut self,
        cluster: &str,
        wanted: u64,
        is_so: impl Fn(&Coverage) -> bool,
    ) -> Result<Coverage> {
        let until = clock::steady() + LEVEL;
        loop {
            // The archive may not answer for this cluster yet.
            match archived::coverage(&mut self.caller, cluster).await {
                Ok(coverage) if is_so(&coverage) => return Ok(coverage),
                _ if clock::steady() < until => {}
                Ok(coverage) => {
                    let at = coverage.version.unwrap_or_default();
                    let what = "the archive is at version";
                    return fail(format!("{what} {at} and does not reach {wanted}"));
                }
                Err(error) => return Err(error),
            }
            self.server.program.check()?;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

/// A source, its archive and the proxy between them, all running.
pub(super) struct Stage {
    pub(super) source: Source,
    pub(super) proxy: Proxy,
    pub(super) archive: Archive,
    pub(super) folder: TempDir,
}

impl Stage {
    /// Starts everything with a source of the kind that was asked for.
    pub(super) async fn start(args: &Args, more: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let source = Source::start(args, folder.path(), more).await?;
        Self::of(args, source, folder, "admin-token").await
    }

    /// Starts an archive that follows this source with this token.
    pub(super) async fn of(
        args: &Args,
        source: Source,
        folder: TempDir,
        token: &str,
    ) -> Result<Self> {
        let proxy = Proxy::start(&source.server.address).await?;
        let followed = Followed {
            address: &proxy.address,
            token,
            ..source.followed(CLUSTER)
        };
        Ok(Self {
            archive: Archive::start(&args.tidings, folder.path(), &[followed], &[]).await?,
            source,
            proxy,
            folder,
        })
    }
}
