//! A source, the archive that follows it, and the proxy between them.

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
use crate::http::Client;

/// Who is let in, everywhere.
const TOKENS: &str = "admin-token,admin,1,\"system:masters\"\nfollower-token,follower,2\n";

/// The archive is level by then.
const LEVEL: Duration = Duration::from_secs(240);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// A server whose events are followed.
pub(super) struct Source {
    pub(super) program: Program,
    pub(super) client: Client,
    pub(super) address: String,
    pub(super) certificate: PathBuf,
}

impl Source {
    /// `tidings serve` in a folder, with further arguments.
    pub(super) async fn tidings(
        tidings: &Path,
        folder: &Path,
        more: &[&str],
    ) -> Result<Self, ArchiveError> {
        let (port, data) = (free_port().to_string(), folder.join("data"));
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, TOKENS)?;
        let (data_flag, tokens) = (data.to_string_lossy(), tokens.to_string_lossy());
        let own = ["serve", "--secure-port", &port, "--data-dir", &data_flag];
        let own = own.into_iter().chain(["--token-auth-file", &tokens]);
        let arguments = own.chain(more.iter().copied()).map(str::to_owned);
        let mut program = Program::new(tidings, arguments.collect(), folder, "source");
        program.start()?;
        let address = format!("127.0.0.1:{port}");
        let certificate = data.join("pki/ca.crt");
        Ok(Self {
            client: program.ready(&address, &certificate).await?,
            program,
            address,
            certificate,
        })
    }

    /// Starts it again, and waits until it is ready.
    pub(super) async fn start(&mut self) -> Result<(), ArchiveError> {
        self.program.start()?;
        self.program
            .ready(&self.address, &self.certificate)
            .await
            .map(drop)
    }
}

/// `tidings archive`.
pub(super) struct Archive {
    pub(super) program: Program,
    pub(super) client: Client,
    pub(super) caller: Caller,
    address: String,
    certificate: PathBuf,
}

impl Archive {
    /// Follows what is behind an address, as who has the token.
    pub(super) async fn start(
        tidings: &Path,
        folder: &Path,
        address: &str,
        trusted: &Path,
        token: &str,
    ) -> Result<Self, ArchiveError> {
        let kubeconfig = folder.join("source.yaml");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: source\n\
             contexts: [{{name: source, context: {{cluster: source, user: follower}}}}]\n\
             users: [{{name: follower, user: {{token: {token}}}}}]\n\
             clusters:\n- name: source\n  cluster: {{server: 'https://{address}', certificate-authority: '{}'}}\n",
            trusted.display(),
        );
        std::fs::write(&kubeconfig, text)?;
        let tokens = folder.join("archive-tokens.csv");
        std::fs::write(&tokens, TOKENS)?;
        let (port, data) = (free_port().to_string(), folder.join("archive"));
        let arguments = [
            "archive",
            "--name",
            CLUSTER,
            "--secure-port",
            &port,
            "--data-dir",
            &data.to_string_lossy(),
            "--kubeconfig",
            &kubeconfig.to_string_lossy(),
            "--token-auth-file",
            &tokens.to_string_lossy(),
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        let mut program = Program::new(tidings, arguments, folder, "archive");
        program.start()?;
        let address = format!("127.0.0.1:{port}");
        let certificate = data.join("pki/ca.crt");
        let client = program.ready(&address, &certificate).await?;
        Ok(Self {
            program,
            caller: Caller::new(&client),
            client,
            address,
            certificate,
        })
    }

    /// Starts it again, and waits until it is ready.
    pub(super) async fn start_again(&mut self) -> Result<(), ArchiveError> {
        self.program.start()?;
        let (address, certificate) = (&self.address, &self.certificate);
        self.program.ready(address, certificate).await.map(drop)
    }

    pub(super) async fn coverage(&mut self) -> Result<Coverage, ArchiveError> {
        archived::coverage(&mut self.caller).await
    }

    /// Waits until it has followed the source up to a version.
    pub(super) async fn level(&mut self, version: u64) -> Result<Coverage, ArchiveError> {
        self.level_in(0, version).await
    }

    /// The same after the source went back so often.
    pub(super) async fn level_in(
        &mut self,
        epoch: u64,
        version: u64,
    ) -> Result<Coverage, ArchiveError> {
        let until = clock::steady() + LEVEL;
        loop {
            // It may have begun to answer just now.
            let coverage = self.coverage().await;
            match coverage {
                Ok(coverage)
                    if coverage.epoch >= epoch
                        && coverage.version.is_some_and(|at| at >= version) =>
                {
                    return Ok(coverage);
                }
                _ if clock::steady() < until => {}
                Ok(coverage) => {
                    return Err(ArchiveError::NotLevel {
                        at: coverage.version.unwrap_or_default(),
                        wanted: version,
                    });
                }
                Err(error) => return Err(error),
            }
            self.program.check()?;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

/// See the module documentation.
pub(super) struct Stage {
    pub(super) source: Source,
    pub(super) proxy: Proxy,
    pub(super) archive: Archive,
    pub(super) folder: TempDir,
}

impl Stage {
    /// With `tidings serve` for a source.
    pub(super) async fn tidings(tidings: &Path, more: &[&str]) -> Result<Self, ArchiveError> {
        let folder = tempfile::tempdir()?;
        let source = Source::tidings(tidings, folder.path(), more).await?;
        Self::of(tidings, source, folder).await
    }

    pub(super) async fn of(
        tidings: &Path,
        source: Source,
        folder: TempDir,
    ) -> Result<Self, ArchiveError> {
        Self::with(tidings, source, folder, "admin-token").await
    }

    /// With a token of the source for the archive.
    pub(super) async fn with(
        tidings: &Path,
        source: Source,
        folder: TempDir,
        token: &str,
    ) -> Result<Self, ArchiveError> {
        let proxy = Proxy::start(&source.address).await?;
        let place = folder.path();
        let archive = Archive::start(tidings, place, &proxy.address, &source.certificate, token);
        let mut archive = archive.await?;
        // The cluster is served a little later than the archive itself.
        archive.level(0).await?;
        Ok(Self {
            source,
            proxy,
            archive,
            folder,
        })
    }
}
