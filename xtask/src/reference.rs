//! `cargo xtask reference`: our server beside a real kube-apiserver, found or built: what they answer differently, and
//! client-go with both.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::command::{self, cargo, find, is_executable};
use crate::tools::Tools;

/// The release that is built. Its modules are pinned in `MODULE`.
const RELEASE: (&str, &str) = ("1", "36");
const PATCH: &str = "3";
/// The Go module that does nothing but name kube-apiserver.
const MODULE: &str = "crates/tidings-conformance/kube-apiserver";
const PACKAGE: &str = "k8s.io/kubernetes/cmd/kube-apiserver";
/// The cases and what is explained.
const CASES: &str = "crates/tidings-conformance/reference";
/// client-go programs, which have to work with both.
const CLIENTS: &str = "crates/tidings-conformance/clients";
/// A kube-apiserver to be used instead of one that is built.
pub(crate) const VARIABLE: &str = "KUBE_APISERVER";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build no kube-apiserver (about ten minutes the first time) and fetch nothing: judge if all is at hand
    #[arg(long)]
    short: bool,
    /// Judge a release build of ours
    #[arg(long)]
    release: bool,
    /// Only cases with such a name; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Show what is explained, too
    #[arg(long)]
    verbose: bool,
    /// A folder of cases instead of ours
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let tools = Tools::find(root, !args.short);
    for line in &tools.missing {
        eprintln!("{line}");
    }
    let server = match kube_apiserver(root, !args.short) {
        Ok(server) => server,
        Err(reason) => {
            println!("skipped: no kube-apiserver to judge by ({reason})");
            return Ok(());
        }
    };
    if tools.program("ETCD").is_none() {
        println!("skipped: kube-apiserver needs an etcd");
        return Ok(());
    }
    let profile: &[&str] = if args.release { &["--release"] } else { &[] };
    let mut build = cargo(root, &["build", "-q", "-p", "tidings-cli"]);
    command::run(build.args(profile))?;
    let mut build = cargo(root, &["build", "-q", "-p", "tidings-conformance"]);
    command::run(&mut build)?;

    let target = command::target(root);
    let built = |folder: &str, name: &str| {
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        target.join(folder).join(name)
    };
    let folder = if args.release { "release" } else { "debug" };
    let suite = |name: &str, folder_of_suite: PathBuf| {
        let mut suite = Command::new(built("debug", "tidings-conformance"));
        suite
            .arg(name)
            .arg(folder_of_suite)
            .arg("--tidings")
            .arg(built(folder, "tidings"))
            .arg("--kube-apiserver")
            .arg(&server);
        tools.tell(&mut suite);
        suite
    };
    let mut judge = suite(
        "reference",
        args.cases.clone().unwrap_or_else(|| root.join(CASES)),
    );
    if let Some(only) = &args.only {
        judge.args(["--only", only]);
    }
    if args.verbose {
        judge.arg("--verbose");
    }
    let judged = command::run(&mut judge);
    if args.only.is_some() || args.cases.is_some() {
        return judged;
    }
    let mut clients = suite("clients", root.join(CLIENTS));
    match find("go") {
        Some(go) => _ = clients.arg("--go").arg(go),
        None => println!("skipped: no Go to build its clients with"),
    }
    judged.and(command::run(&mut clients))
}

/// Finds a kube-apiserver, or builds one from Kubernetes' own modules.
pub(crate) fn kube_apiserver(root: &Path, may_build: bool) -> Result<PathBuf> {
    if let Some(file) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return if is_executable(&file) {
            Ok(file)
        } else {
            Err(format!(
                "{VARIABLE} names {}, which cannot be run",
                file.display()
            ))
        };
    }
    let (major, minor) = RELEASE;
    let version = format!("v{major}.{minor}.{PATCH}");
    let built = command::target(root)
        .join("tools")
        .join(format!("kube-apiserver-{version}"));
    if is_executable(&built) {
        return Ok(built);
    }
    if let Some(file) = find("kube-apiserver") {
        return Ok(file);
    }
    if !may_build {
        return Err(format!(
            "none on the PATH, none built, {VARIABLE} is not set"
        ));
    }
    if find("go").is_none() {
        return Err("none on the PATH, and no Go to build it with".to_owned());
    }
    let module = root.join(MODULE);
    // A module proxy out of reach shows here, before minutes are spent.
    let mut download = Command::new("go");
    download
        .args(["list", "-deps", PACKAGE])
        .current_dir(&module);
    command::output(&mut download)
        .map_err(|error| format!("its modules cannot be had: {error}"))?;
    eprintln!("kube-apiserver: building {version}, about ten minutes the first time");
    let flags = format!(
        "-s -w -X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}",
        base = "k8s.io/component-base/version"
    );
    let mut build = Command::new("go");
    build
        .args(["build", "-mod=readonly", "-ldflags", &flags, "-o"])
        .arg(&built)
        .arg(PACKAGE)
        .current_dir(&module);
    command::run(&mut build)?;
    Ok(built)
}
