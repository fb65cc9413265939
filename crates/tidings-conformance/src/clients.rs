//! Unmodified programs of client-go and controller-runtime (the Go module in `clients/`) and
//! kube-rs's recorder against our server and, where there is one, against kube-apiserver: what is
//! expected of ours has to be true of it, too.

use std::io::Write;
use std::path::PathBuf;

use tokio::process::Command;

use crate::kube_rs::{self, KubeRsError};
use crate::servers::{ApiServer, Etcd, StartError};

/// Why nothing could be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ClientsError {
    #[error("--kube-apiserver needs --etcd")]
    NoEtcd,
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    KubeRs(#[from] KubeRsError),
    #[error("could not run {program}: {source}")]
    Go {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("what was found cannot be written: {0}")]
    Write(#[from] std::io::Error),
}

/// What to judge, by what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the Go module with the clients.
    dir: PathBuf,
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    tidings: PathBuf,
    /// The Go to build its clients with; without it they are left out.
    #[arg(long, value_name = "PROGRAM")]
    go: Option<PathBuf>,
    /// A kube-apiserver that has to pass, too.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    kube_apiserver: Option<PathBuf>,
    /// The etcd it needs.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
}

/// Runs the clients against each server; whether all of them passed.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool, ClientsError> {
    let ours = ApiServer::start_tidings(&args.tidings, &[]).await?;
    let mut passed = test(args, "tidings", &ours, out).await?;
    if let Some(program) = &args.kube_apiserver {
        let etcd = args.etcd.as_deref().ok_or(ClientsError::NoEtcd)?;
        let etcd = Etcd::start(etcd)?;
        let theirs = ApiServer::start_kube(program, &etcd, &[]).await?;
        passed &= test(args, "kube-apiserver", &theirs, out).await?;
    }
    Ok(passed)
}

async fn test(
    args: &Args,
    name: &str,
    server: &ApiServer,
    out: &mut impl Write,
) -> Result<bool, ClientsError> {
    let wrong = kube_rs::judge(&server.kubeconfig).await?;
    let verdict = wrong.as_deref().unwrap_or("passed");
    writeln!(out, "kube-rs's recorder with {name}: {verdict}")?;
    let Some(go) = &args.go else {
        return Ok(wrong.is_none());
    };
    let output = Command::new(go)
        // Never a result of another server's.
        .args(["test", "-count=1", "-v", "./..."])
        .current_dir(&args.dir)
        .env("KUBECONFIG", &server.kubeconfig)
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|source| ClientsError::Go {
            program: go.clone(),
            source,
        })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let results = |word: &str| said.lines().filter(|line| line.starts_with(word)).count();
    let (passed, failed) = (results("--- PASS"), results("--- FAIL"));
    writeln!(
        out,
        "Go clients with {name}: {passed} passed, {failed} failed"
    )?;
    let good = output.status.success() && passed > 0;
    if !good {
        writeln!(out, "{said}{}", String::from_utf8_lossy(&output.stderr))?;
    }
    Ok(good && wrong.is_none())
}
