//! `cargo xtask release`: makes what a release consists of, without the network: static programs
//! with their pages and completions, the image, the packaged chart, the manifest of the kubectl
//! plugin for krew, the bill of materials, and the checksums of all of them.
//!
//! Everything is made twice from the same programs, and must have the same bytes.

mod image;
mod materials;
mod packed;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::image::Images;
use self::packed::{Archive, Files, gzip, sha256};
use crate::command::{self, Result, cargo, output};
use crate::image::{Recipe, can_build};
use crate::tools::HELM;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The architectures: their names in Rust and in images.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];
/// The folder below cargo's target folder.
const FOLDER: &str = "artefacts";
/// The chart's folder.
const CHART: &str = "deploy/helm/tidings";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile of the programs: that of a release takes very long to compile
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Where the files will be published, for the plugin's manifest
    #[arg(long, default_value = "https://example.invalid/tidings")]
    url: String,
}

/// A built program.
struct Program {
    target: String,
    /// The architecture's name in images.
    architecture: &'static str,
    file: PathBuf,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let recipe = Recipe::read(root)?;
    let mut programs = Vec::new();
    for (name, architecture) in ARCHITECTURES {
        match build(root, args, &recipe, (name, architecture)) {
            Ok(program) => programs.push(program),
            Err(Unbuilt::Skipped(reason)) => println!("skipped: {name}: {reason}"),
            Err(Unbuilt::Failed(error)) => return Err(error),
        }
    }
    let host = |program: &&Program| program.target.starts_with(std::env::consts::ARCH);
    let Some(host) = programs.iter().find(host) else {
        println!("skipped: no program for this machine, which prints pages and completions");
        return Ok(());
    };
    let files = assemble(root, args, &recipe, &programs, host)?;
    if files != assemble(root, args, &recipe, &programs, host)? {
        return Err("the files are others when they are made again".to_owned());
    }
    let folder = command::target(root).join(FOLDER);
    write(&folder, &files)?;
    check_chart(root, &folder)?;
    for (name, bytes) in files.iter().filter(|(name, _)| !name.contains('/')) {
        println!("{:9.1} MiB  {name}", mebibytes(bytes.len()));
    }
    println!("ok: {}, the same when made twice", folder.display());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Why there is no program.
enum Unbuilt {
    Skipped(String),
    Failed(String),
}

/// Builds the program for an architecture as the container file does, and strips it.
fn build(
    root: &Path,
    args: &Args,
    recipe: &Recipe,
    (name, architecture): (&str, &'static str),
) -> std::result::Result<Program, Unbuilt> {
    let target = format!("{name}-unknown-linux-musl");
    let is_own = name == std::env::consts::ARCH;
    let prefix = if is_own {
        String::new()
    } else {
        format!("{name}-linux-musl-")
    };
    let compiler = if is_own {
        "musl-gcc".to_owned()
    } else {
        format!("{prefix}gcc")
    };
    can_build(&target, &compiler).map_err(Unbuilt::Skipped)?;
    let mut words = recipe.build.clone();
    for word in &mut words {
        if word == "dist" {
            args.profile.clone_into(word);
        }
    }
    let mut build = cargo(root, &["--quiet"]);
    build.args(words).args(["--offline", "--target", &target]);
    if !is_own {
        let upper = target.to_uppercase().replace('-', "_");
        build.env(format!("CARGO_TARGET_{upper}_LINKER"), &compiler);
        build.env(format!("CC_{}", target.replace('-', "_")), &compiler);
    }
    command::run(&mut build).map_err(Unbuilt::Failed)?;
    let folder = if args.profile == "dev" {
        "debug"
    } else {
        &args.profile
    };
    let built = command::target(root).join(&target).join(folder);
    let file = built.join("tidings-stripped");
    let mut strip = Command::new(format!("{prefix}strip"));
    strip.arg("-o").arg(&file).arg(built.join("tidings"));
    output(&mut strip).map_err(Unbuilt::Failed)?;
    Ok(Program {
        target,
        architecture,
        file,
    })
}

/// All files by their names.
fn assemble(
    root: &Path,
    args: &Args,
    recipe: &Recipe,
    programs: &[Program],
    host: &Program,
) -> Result<Files> {
    let mut files = Files::new();
    let extras = extras(root, &host.file)?;
    let mut images = Images::new(recipe, VERSION)?;
    let mut platforms = String::new();
    for program in programs {
        let bytes = read(&program.file)?;
        let mut archive = Archive::new();
        archive.file("tidings", &bytes, 0o755)?;
        for (path, bytes) in &extras {
            archive.file(path, bytes, 0o644)?;
        }
        let packed = gzip(archive.finish()?)?;
        let name = format!("tidings-{VERSION}-{}.tar.gz", program.target);
        platforms += &platform(args, program.architecture, &name, &sha256(&packed));
        files.insert(name, packed);
        let image = images.add(program.architecture, &bytes)?;
        let name = format!("tidings-{VERSION}-image-{}.tar", program.architecture);
        files.insert(name, image);
    }
    let layout = images.layout().into_iter();
    files.extend(layout.map(|(path, bytes)| (format!("oci/{path}"), bytes)));

    let mut chart = Files::new();
    below(&root.join(CHART), "", &mut chart)?;
    let chart = gzip(Archive::of("tidings/", &chart)?)?;
    files.insert(format!("tidings-{VERSION}.tgz"), chart);
    files.insert(
        "tidings.yaml".to_owned(),
        (plugin() + &platforms).into_bytes(),
    );

    let words = ["metadata", "--format-version=1", "--locked", "--offline"];
    let mut metadata = cargo(root, &words);
    let metadata = output(metadata.args(["--filter-platform", &host.target]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = read(&root.join("Cargo.lock"))?;
    let bill = materials::bill(&metadata, &String::from_utf8_lossy(&lock), "tidings-cli")?;
    files.insert(
        format!("tidings-{VERSION}.cdx.json"),
        format!("{bill:#}\n").into_bytes(),
    );

    // The files of the layout are named by their digests.
    let published = files.iter().filter(|(name, _)| !name.contains('/'));
    let sums = published.map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
    let sums: String = sums.collect();
    files.insert("SHA256SUMS".to_owned(), sums.into_bytes());
    Ok(files)
}

/// What goes beside the program: its licence, pages and completions.
fn extras(root: &Path, program: &Path) -> Result<Files> {
    let mut files = Files::new();
    files.insert("LICENSE".to_owned(), read(&root.join("LICENSE"))?);
    for (shell, name) in [
        ("bash", "tidings.bash"),
        ("fish", "tidings.fish"),
        ("zsh", "_tidings"),
    ] {
        let printed = output(Command::new(program).args(["completions", shell]))?;
        files.insert(format!("completions/{name}"), printed.into_bytes());
    }
    let pages = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    output(
        Command::new(program)
            .args(["man", "--dir"])
            .arg(pages.path()),
    )?;
    below(pages.path(), "man/", &mut files)?;
    Ok(files)
}

/// Adds the files below a folder.
fn below(folder: &Path, prefix: &str, files: &mut Files) -> Result {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            below(&path, &format!("{prefix}{name}/"), files)?;
        } else {
            files.insert(format!("{prefix}{name}"), read(&path)?);
        }
    }
    Ok(())
}

/// The manifest of the plugin without its platforms.
fn plugin() -> String {
    format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: tidings
spec:
  version: v{VERSION}
  shortDescription: Read Events, of now and of months ago
  description: |
    Lists, watches, describes and counts the Events of a cluster. If tidings keeps
    the cluster's Events, it reads those of the past, too.
  platforms:
"
    )
}

fn platform(args: &Args, architecture: &str, name: &str, sum: &str) -> String {
    let url = args.url.trim_end_matches('/');
    format!(
        "  - selector:
      matchLabels:
        os: linux
        arch: {architecture}
    uri: {url}/{name}
    sha256: {sum}
    bin: tidings
"
    )
}

/// Replaces the folder with these files.
fn write(folder: &Path, files: &Files) -> Result {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    for (name, bytes) in files {
        let file = folder.join(name);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(file, bytes).map_err(failed)?;
    }
    Ok(())
}

/// Checks that Helm takes the packaged chart, if there is a Helm.
fn check_chart(root: &Path, folder: &Path) -> Result {
    match HELM.find(root, false) {
        Ok(helm) => {
            let chart = folder.join(format!("tidings-{VERSION}.tgz"));
            output(Command::new(helm).args(["lint", "--strict"]).arg(chart)).map(drop)
        }
        Err(reason) => {
            println!("skipped: the check of the packaged chart: {reason}");
            Ok(())
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
