//! A source, the archive that follows it, and the proxy between them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tidings_testing::free_port;

use super::archived::{self, CLUSTER, Coverage};
use super::caller::Caller;
use super::clock;
use super::error::ArchiveError;
use super::program::Program;
use super::proxy::Proxy;
use super::source::{Programs, Source};
use crate::http::Client;
use crate::servers::TOKENS;

/// Maximum time for the archive to catch up.
const LEVEL: Duration = Duration::from_secs(240);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

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

/// A running `tidings archive`.
pub(super) struct Archive {
    pub(super) program: Program,
    pub(super) client: Client,
    pub(super) caller: Caller,
    address: String,
    certificate: PathBuf,
}

impl Archive {
    pub(super) async fn start(
        tidings: &Path,
        folder: &Path,
        followed: &[Followed<'_>],
    ) -> Result<Self, ArchiveError> {
        Self::start_with(tidings, folder, followed, &[]).await
    }

    /// Starts an archive with more arguments.
    pub(super) async fn start_with(
        tidings: &Path,
        folder: &Path,
        followed: &[Followed<'_>],
        more: &[&str],
    ) -> Result<Self, ArchiveError> {
        let kubeconfig = folder.join("sources.yaml");
        std::fs::write(&kubeconfig, Followed::kubeconfig(followed))?;
        let tokens = folder.join("archive-tokens.csv");
        std::fs::write(&tokens, TOKENS)?;
        let (port, data) = (free_port().to_string(), folder.join("archive"));
        let own = [
            "archive",
            "--secure-port",
            &port,
            "--data-dir",
            &data.to_string_lossy(),
            "--kubeconfig",
            &kubeconfig.to_string_lossy(),
            "--token-auth-file",
            &tokens.to_string_lossy(),
        ];
        let contexts = followed.iter().flat_map(|one| ["--context", one.name]);
        let arguments = own.iter().chain(more).copied().chain(contexts);
        let arguments = arguments.map(str::to_owned);
        let mut program = Program::new(tidings, arguments.collect(), folder, "archive");
        program.start()?;
        let address = format!("127.0.0.1:{port}");
        let certificate = data.join("pki/ca.crt");
        let client = program.ready(&address, &certificate).await?;
        let mut archive = Self {
            program,
            caller: Caller::new(&client),
            client,
            address,
            certificate,
        };
        // The archive is ready before it serves its clusters.
        for one in followed {
            archive.level(one.name, 0).await?;
        }
        Ok(archive)
    }

    /// Starts the archive if it does not run, and waits until it serves a cluster.
    pub(super) async fn be_ready(&mut self, cluster: &str) -> Result<(), ArchiveError> {
        self.program.be_started().await?;
        let (address, certificate) = (&self.address, &self.certificate);
        self.program.ready(address, certificate).await?;
        self.until(cluster, 0, |_| true).await.map(drop)
    }

    /// Waits until the archive has followed a cluster up to a version.
    pub(super) async fn level(
        &mut self,
        cluster: &str,
        version: u64,
    ) -> Result<Coverage, ArchiveError> {
        self.level_in(cluster, 0, version).await
    }

    /// Like `level`, after the cluster went back this number of times.
    pub(super) async fn level_in(
        &mut self,
        cluster: &str,
        epoch: u64,
        version: u64,
    ) -> Result<Coverage, ArchiveError> {
        let is_level = |coverage: &Coverage| {
            coverage.epoch >= epoch && coverage.version.is_some_and(|at| at >= version)
        };
        self.until(cluster, version, is_level).await
    }

    /// Waits until everything that the archive observed in a cluster is sealed.
    pub(super) async fn sealed(&mut self, cluster: &str) -> Result<(), ArchiveError> {
        let until = clock::steady() + LEVEL;
        loop {
            let waiting = archived::waiting(&mut self.caller, cluster).await?;
            if waiting == Some(0) {
                return Ok(());
            }
            if clock::steady() > until {
                return Err(ArchiveError::NotSealed { waiting });
            }
            self.program.check()?;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn until(
        &mut self,
        cluster: &str,
        wanted: u64,
        is_so: impl Fn(&Coverage) -> bool,
    ) -> Result<Coverage, ArchiveError> {
        let until = clock::steady() + LEVEL;
        loop {
            // The archive may not answer for this cluster yet.
            match archived::coverage(&mut self.caller, cluster).await {
                Ok(coverage) if is_so(&coverage) => return Ok(coverage),
                _ if clock::steady() < until => {}
                Ok(coverage) => {
                    return Err(ArchiveError::NotLevel {
                        at: coverage.version.unwrap_or_default(),
                        wanted,
                    });
                }
                Err(error) => return Err(error),
            }
            self.program.check()?;
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
    pub(super) async fn start(programs: &Programs, more: &[&str]) -> Result<Self, ArchiveError> {
        let folder = tempfile::tempdir()?;
        let source = Source::start_of(programs, folder.path(), more).await?;
        Self::of(programs, source, folder).await
    }

    pub(super) async fn of(
        programs: &Programs,
        source: Source,
        folder: TempDir,
    ) -> Result<Self, ArchiveError> {
        Self::with(programs, source, folder, "admin-token").await
    }

    /// Starts an archive that follows this source with this token.
    pub(super) async fn with(
        programs: &Programs,
        source: Source,
        folder: TempDir,
        token: &str,
    ) -> Result<Self, ArchiveError> {
        let proxy = Proxy::start(&source.address).await?;
        let followed = Followed {
            name: CLUSTER,
            address: &proxy.address,
            trusted: &source.certificate,
            token,
        };
        Ok(Self {
            archive: Archive::start(&programs.tidings, folder.path(), &[followed]).await?,
            source,
            proxy,
            folder,
        })
    }
}
