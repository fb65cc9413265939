//! A server whose events are followed: `tidings serve`, alone or over an etcd, or kube-apiserver.

use std::path::{Path, PathBuf};

use tidings_testing::free_port;

use super::error::ArchiveError;
use super::etcd::Etcd;
use super::program::Program;
use crate::http::Client;
use crate::servers::{KUBE_CERTIFICATE, KUBE_CERTIFICATES, TOKENS, kube_arguments};

/// Paths of the programs that sources are started from.
pub(super) struct Programs {
    pub(super) tidings: PathBuf,
    pub(super) etcd: Option<PathBuf>,
    /// The kube-apiserver to use as source; without it, sources are `tidings serve`.
    pub(super) kube_apiserver: Option<PathBuf>,
}

impl Programs {
    /// The path of etcd, or an error if none was given.
    pub(super) fn etcd(&self) -> Result<&Path, ArchiveError> {
        self.etcd.as_deref().ok_or(ArchiveError::NoEtcd)
    }
}

/// A running server whose events are followed.
pub(super) struct Source {
    pub(super) program: Program,
    /// The etcd with its events; `None` if it stores them in a folder of its own.
    pub(super) etcd: Option<Etcd>,
    pub(super) client: Client,
    pub(super) address: String,
    pub(super) certificate: PathBuf,
}

impl Source {
    /// Starts a source of the kind that was asked for in a folder, with further arguments that both
    /// kinds accept.
    pub(super) async fn start_of(
        programs: &Programs,
        folder: &Path,
        more: &[&str],
    ) -> Result<Self, ArchiveError> {
        match &programs.kube_apiserver {
            Some(program) => Self::kube_apiserver(program, programs.etcd()?, folder, more).await,
            None => Self::tidings(&programs.tidings, folder, more).await,
        }
    }

    /// Like `start_of`, but its events are in an etcd, whatever its kind.
    pub(super) async fn over_etcd(
        programs: &Programs,
        folder: &Path,
    ) -> Result<Self, ArchiveError> {
        if programs.kube_apiserver.is_some() {
            return Self::start_of(programs, folder, &[]).await;
        }
        let etcd = Etcd::start(programs.etcd()?, folder).await?;
        let more = ["--etcd-servers", &etcd.url];
        let mut source = Self::tidings(&programs.tidings, folder, &more).await?;
        source.etcd = Some(etcd);
        Ok(source)
    }

    /// Starts a `tidings serve` as source.
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
        let program = Program::new(tidings, arguments.collect(), folder, "source");
        Self::started(program, None, &port, data.join("pki/ca.crt")).await
    }

    async fn kube_apiserver(
        kube_apiserver: &Path,
        etcd: &Path,
        folder: &Path,
        more: &[&str],
    ) -> Result<Self, ArchiveError> {
        let (port, etcd) = (free_port(), Etcd::start(etcd, folder).await?);
        let mut arguments = kube_arguments(folder, &etcd.url, port)?;
        arguments.extend(more.iter().copied().map(str::to_owned));
        let program = Program::new(kube_apiserver, arguments, folder, "source");
        let certificate = folder.join(KUBE_CERTIFICATES).join(KUBE_CERTIFICATE);
        Self::started(program, Some(etcd), &port.to_string(), certificate).await
    }

    async fn started(
        mut program: Program,
        etcd: Option<Etcd>,
        port: &str,
        certificate: PathBuf,
    ) -> Result<Self, ArchiveError> {
        program.start()?;
        let address = format!("127.0.0.1:{port}");
        Ok(Self {
            client: program.ready(&address, &certificate).await?,
            program,
            etcd,
            address,
            certificate,
        })
    }

    /// The source's etcd, or an error if it has none.
    pub(super) fn etcd(&mut self) -> Result<&mut Etcd, ArchiveError> {
        self.etcd.as_mut().ok_or(ArchiveError::NoEtcd)
    }

    /// Kills the source, its etcd, or both, at random.
    pub(super) async fn kill(&mut self, random: &mut fastrand::Rng) -> Result<(), ArchiveError> {
        let part = random.u32(0..3);
        if let Some(etcd) = &mut self.etcd
            && part > 0
        {
            etcd.program.kill().await?;
            if part == 1 {
                return Ok(());
            }
        }
        self.program.kill().await
    }

    /// Starts the parts that do not run, and waits until they are ready.
    pub(super) async fn be_ready(&mut self) -> Result<(), ArchiveError> {
        if let Some(etcd) = &mut self.etcd {
            etcd.be_ready().await?;
        }
        self.program.be_started().await?;
        let (address, certificate) = (&self.address, &self.certificate);
        self.program.ready(address, certificate).await.map(drop)
    }

    /// How often the source or its etcd was killed.
    pub(super) fn kills(&self) -> u64 {
        self.program.kills + self.etcd.as_ref().map_or(0, |etcd| etcd.program.kills)
    }
}
