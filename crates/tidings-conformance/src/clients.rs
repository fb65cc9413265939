//! Runs unmodified clients against our server and, if one is given, against kube-apiserver, which
//! must meet the same expectations: programs of client-go and controller-runtime (the Go module in
//! `clients/`), and kube-rs's recorder. Other clients read an archive that follows each server.

use std::io::Write;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::{Result, fail};
use crate::passing::{self, Kubectl};
use crate::servers::{ApiServer, Etcd};
use crate::{k9s, kube_rs};

/// The environment variable with the kubeconfig of an archive, for the Go clients.
const ARCHIVE: &str = "ARCHIVE_KUBECONFIG";

/// What to judge, and by which programs.
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
    /// The kubectl to read an archive with; without it that is left out.
    #[arg(long, env = "KUBECTL", value_name = "PROGRAM")]
    kubectl: Option<PathBuf>,
    /// The k9s to read an archive with, in a tmux; without it that is left out.
    #[arg(long, env = "K9S", value_name = "PROGRAM")]
    k9s: Option<PathBuf>,
    /// A kube-apiserver that has to pass, too.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    kube_apiserver: Option<PathBuf>,
    /// The etcd it needs.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
}

/// Runs the clients against each server. Returns whether all of them passed.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let ours = ApiServer::tidings(&args.tidings, &[]).await?;
    let mut passed = test(args, "tidings", &ours, out).await?;
    passed &= test_archive(args, "tidings", &ours, out).await?;
    if let Some(program) = &args.kube_apiserver {
        let Some(etcd) = &args.etcd else {
            return fail("--kube-apiserver needs --etcd");
        };
        let folder = tempfile::tempdir()?;
        let etcd = Etcd::start(etcd, folder.path()).await?;
        let theirs = ApiServer::kube(program, &etcd, None, &[]).await?;
        passed &= test(args, "kube-apiserver", &theirs, out).await?;
        passed &= test_archive(args, "kube-apiserver", &theirs, out).await?;
        passed &= test_passing(args, &theirs, out).await?;
    }
    Ok(passed)
}

/// Writes a line about a part that passed, or its error.
fn tell(what: &str, with: &str, wrong: Option<&str>, out: &mut impl Write) -> Result<bool> {
    writeln!(out, "{what} with {with}: {}", wrong.unwrap_or("passed"))?;
    out.flush()?;
    Ok(wrong.is_none())
}

async fn test(args: &Args, name: &str, server: &ApiServer, out: &mut impl Write) -> Result<bool> {
    let wrong = kube_rs::judge(&server.kubeconfig).await?;
    let passed = tell("kube-rs's recorder", name, wrong.as_deref(), out)?;
    Ok(test_go(args, name, server, None, out).await? && passed)
}

/// Runs the clients that read an archive which follows the server.
async fn test_archive(
    args: &Args,
    followed: &str,
    server: &ApiServer,
    out: &mut impl Write,
) -> Result<bool> {
    let archive = ApiServer::mirror(&args.tidings, server, &["judge", "again"], &[]).await?;
    let name = format!("an archive of {followed}");
    let own = &archive.own_kubeconfig;
    let wrong = kube_rs::follow(&server.kubeconfig, own).await?;
    let mut passed = tell("kube-rs's watcher", &name, wrong.as_deref(), out)?;
    match &args.k9s {
        Some(k9s) => {
            let folder = tempfile::tempdir()?;
            let shown = k9s::judge(k9s, &server.kubeconfig, own, folder.path()).await?;
            passed &= tell("k9s", &name, shown.as_ref().err().map(|it| &**it), out)?;
            if let Ok(screen) = shown {
                writeln!(out, "{}", screen.trim_end())?;
            }
        }
        None => writeln!(out, "skipped: k9s with {name}: there is none (K9S)")?,
    }
    Ok(test_go(args, &name, server, Some(own), out).await? && passed)
}

/// Runs kubectl with an archive that passes everything except events to a real cluster.
async fn test_passing(args: &Args, server: &ApiServer, out: &mut impl Write) -> Result<bool> {
    let Some(program) = &args.kubectl else {
        writeln!(out, "skipped: there is no kubectl to read an archive with")?;
        return Ok(true);
    };
    // It asks the followed cluster about users and permissions.
    let kubeconfig = server.kubeconfig.to_string_lossy();
    let more = [
        "--kubeconfig",
        &kubeconfig,
        "--cluster-access",
        "--pass-through",
    ];
    let archive = ApiServer::ours(&args.tidings, "archive", None, &more).await?;
    let home = tempfile::tempdir()?;
    let kubectl = Kubectl {
        program: program.clone(),
        home: home.path().to_owned(),
    };
    let wrong = passing::judge(&kubectl, &server.kubeconfig, &archive.kubeconfig).await?;
    let with = "an archive that passes on to kube-apiserver";
    tell("kubectl", with, wrong.as_deref(), out)
}

/// Runs the Go clients of a server, or those of an archive that follows it.
async fn test_go(
    args: &Args,
    name: &str,
    server: &ApiServer,
    archive: Option<&Path>,
    out: &mut impl Write,
) -> Result<bool> {
    let Some(go) = &args.go else {
        return Ok(true);
    };
    let mut test = Command::new(go);
    // `go test` must not answer with its cached result for another server.
    test.args(["test", "-count=1", "-v", "./..."])
        .current_dir(&args.dir)
        .env("KUBECONFIG", &server.kubeconfig)
        .env_remove(ARCHIVE)
        .kill_on_drop(true);
    if let Some(archive) = archive {
        test.env(ARCHIVE, archive).args(["-run", "^TestArchive"]);
    }
    let output = test.output().await;
    let output = output.map_err(|error| format!("could not run {}: {error}", go.display()))?;
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
    out.flush()?;
    Ok(good)
}
