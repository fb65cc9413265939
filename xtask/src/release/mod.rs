//! `cargo xtask release`: makes what a release consists of, without the network: static programs
//! with their pages and completions, the image, the packaged chart, the manifest of the kubectl
//! plugin for krew, the bill of materials, and the checksums of all of them.
//!
//! Everything is made twice from the same programs, and must have the same bytes.

mod image;
mod materials;
mod packed;

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::image::image;
use self::packed::{Archive, Files, gzip, sha256};
use crate::command::{self, Result, cannot, cargo, output, read, read_bytes};
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

/// A program for an architecture.
struct Program {
    target: String,
    /// The architecture's name in images.
    architecture: &'static str,
    /// The beginning of the names of its compiler and its tools.
    prefix: String,
    compiler: String,
    file: PathBuf,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let recipe = Recipe::read(root)?;
    let mut programs = Vec::new();
    for (name, architecture) in ARCHITECTURES {
        let program = Program::new(root, args, name, architecture);
        match can_build(&program.target, &program.compiler) {
            Ok(()) => {
                program.build(root, args, &recipe)?;
                programs.push(program);
            }
            Err(reason) => println!("skipped: {name}: {reason}"),
        }
    }
    let Some(host) = programs.iter().find(|program| program.prefix.is_empty()) else {
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
    for (name, bytes) in &files {
        println!("{:9} KiB  {name}", bytes.len().div_ceil(1024));
    }
    println!("ok: {}, the same when made twice", folder.display());
    Ok(())
}

impl Program {
    fn new(root: &Path, args: &Args, name: &str, architecture: &'static str) -> Self {
        let target = format!("{name}-unknown-linux-musl");
        let (prefix, compiler) = match name {
            ARCH => (String::new(), "musl-gcc".to_owned()),
            _ => (
                format!("{name}-linux-musl-"),
                format!("{name}-linux-musl-gcc"),
            ),
        };
        let folder = match args.profile.as_str() {
            "dev" => "debug",
            profile => profile,
        };
        let built = command::target(root).join(&target).join(folder);
        Self {
            file: built.join("tidings-stripped"),
            target,
            architecture,
            prefix,
            compiler,
        }
    }

    /// Builds the program as the container file does, and strips it.
    fn build(&self, root: &Path, args: &Args, recipe: &Recipe) -> Result {
        let words = recipe.build.iter();
        let words = words.map(|word| if word == "dist" { &args.profile } else { word });
        let mut build = cargo(root, &["--quiet"]);
        build.args(words).arg("--offline");
        build.args(["--target", &self.target]);
        if !self.prefix.is_empty() {
            let name = self.target.replace('-', "_");
            let linker = format!("CARGO_TARGET_{}_LINKER", name.to_uppercase());
            build.env(linker, &self.compiler);
            build.env(format!("CC_{name}"), &self.compiler);
        }
        command::run(&mut build)?;
        let mut strip = Command::new(format!("{}strip", self.prefix));
        strip.arg("-o").arg(&self.file);
        output(strip.arg(self.file.with_file_name("tidings"))).map(drop)
    }
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
    let mut platforms = String::new();
    for program in programs {
        let bytes = read_bytes(&program.file)?;
        let mut archive = Archive::new();
        archive.file("tidings", &bytes, 0o755)?;
        for (path, bytes) in &extras {
            archive.file(path, bytes, 0o644)?;
        }
        let packed = gzip(&archive.finish()?)?;
        let name = format!("tidings-{VERSION}-{}.tar.gz", program.target);
        platforms += &platform(&args.url, program.architecture, &name, &sha256(&packed));
        files.insert(name, packed);
        let image = image(recipe, VERSION, program.architecture, &bytes)?;
        let name = format!("tidings-{VERSION}-image-{}.tar", program.architecture);
        files.insert(name, image);
    }

    let mut chart = Files::new();
    below(&root.join(CHART), "", &mut chart)?;
    let chart = gzip(&Archive::of("tidings/", &chart)?)?;
    files.insert(format!("tidings-{VERSION}.tgz"), chart);
    let plugin = plugin() + &platforms;
    files.insert("tidings.yaml".to_owned(), plugin.into_bytes());

    let words = ["metadata", "--format-version=1", "--locked", "--offline"];
    let mut metadata = cargo(root, &words);
    let metadata = output(metadata.args(["--filter-platform", &host.target]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = read(&root.join("Cargo.lock"))?;
    let bill = materials::bill(&metadata, &lock, "tidings-cli")?;
    let bill = format!("{bill:#}\n");
    files.insert(format!("tidings-{VERSION}.cdx.json"), bill.into_bytes());

    let sum = |(name, bytes): (&String, &Vec<u8>)| format!("{}  {name}\n", sha256(bytes));
    let sums: String = files.iter().map(sum).collect();
    files.insert("SHA256SUMS".to_owned(), sums.into_bytes());
    Ok(files)
}

/// What goes beside the program: its licence, pages and completions.
fn extras(root: &Path, program: &Path) -> Result<Files> {
    let mut files = Files::new();
    files.insert("LICENSE".to_owned(), read_bytes(&root.join("LICENSE"))?);
    let names = ["tidings.bash", "tidings.fish", "_tidings"];
    for (shell, name) in ["bash", "fish", "zsh"].into_iter().zip(names) {
        let printed = output(Command::new(program).args(["completions", shell]))?;
        files.insert(format!("completions/{name}"), printed.into_bytes());
    }
    let pages = command::folder()?;
    let mut man = Command::new(program);
    output(man.args(["man", "--dir"]).arg(pages.path()))?;
    below(pages.path(), "man/", &mut files)?;
    Ok(files)
}

/// Adds the files below a folder.
fn below(folder: &Path, prefix: &str, files: &mut Files) -> Result {
    for entry in std::fs::read_dir(folder).map_err(cannot("read", folder))? {
        let path = entry.map_err(cannot("read", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            below(&path, &format!("{prefix}{name}/"), files)?;
        } else {
            files.insert(format!("{prefix}{name}"), read_bytes(&path)?);
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

/// A platform of the manifest.
fn platform(url: &str, architecture: &str, name: &str, sum: &str) -> String {
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
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(cannot("remove", folder))?;
    }
    std::fs::create_dir_all(folder).map_err(cannot("make", folder))?;
    for (name, bytes) in files {
        let file = folder.join(name);
        std::fs::write(&file, bytes).map_err(cannot("write", &file))?;
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
