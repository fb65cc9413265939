//! `cargo xtask image`: tests deploy/Containerfile without pulling its base image from a registry.
//! The program is built and started with the file's own commands, and runs as in a container: alone
//! in a read-only root, as the first process, without privileges.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use tidings_testing::free_port;
use tidings_testing::process::Process;

use crate::command::{self, Result, cannot, cargo, find, output, read};
use crate::tools::{KUBECTL, Tools};

/// A shell script that makes the root read-only except for the data, and executes the program in
/// it.
const ENTER: &str = r#"
root=$1 data=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$data" "$root/data"
exec chroot --userspec="$user" "$root" "$@"
"#;

/// The commands of the container file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// The arguments of cargo.
    pub(crate) build: Vec<String>,
    pub(crate) user: String,
    /// The program and its arguments.
    pub(crate) start: Vec<String>,
    /// The folder of the data.
    pub(crate) volume: String,
    pub(crate) port: String,
}

impl Recipe {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        Self::parse(&read(&root.join("deploy/Containerfile"))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let said = |instruction: &str| {
            let mut lines = text.lines().rev();
            lines
                .find_map(|line| line.strip_prefix(instruction))
                .ok_or(format!("the container file has no line of {instruction:?}"))
        };
        let words = |text: &str| {
            serde_json::from_str::<Vec<String>>(text).map_err(|error| format!("{text}: {error}"))
        };
        let build = said("RUN cargo ")?.split("&&").next().unwrap_or_default();
        let start = [words(said("ENTRYPOINT ")?)?, words(said("CMD ")?)?].concat();
        Ok(Self {
            build: build.split_whitespace().map(str::to_owned).collect(),
            user: said("USER ")?.to_owned(),
            start,
            volume: said("VOLUME ")?.to_owned(),
            port: said("EXPOSE ")?.to_owned(),
        })
    }
}

pub(crate) fn run(root: &Path) -> Result {
    let recipe = Recipe::read(root)?;
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let tools = Tools::find(root, true);
    if !tools.suffice(&[KUBECTL]) {
        return Ok(());
    }
    if let Err(reason) = can_build(&target, "musl-gcc").and_then(|()| can_enter()) {
        println!("skipped: {reason}");
        return Ok(());
    }
    let kubectl = tools.program(KUBECTL.variable).unwrap_or_default();

    // Built for debugging: with the image's profile it takes minutes.
    let words = recipe
        .build
        .iter()
        .filter(|word| !matches!(word.as_str(), "--profile" | "dist"));
    let mut build = cargo(root, &["--quiet"]);
    command::run(build.args(words).args(["--target", &target]))?;
    let program = command::target(root).join(&target).join("debug/tidings");
    let mut container = Container::start(&recipe, &program)?;
    let proved = container.prove(&recipe, &kubectl);
    proved.map_err(|error| format!("{error}; it said:\n{}", container.said()))?;
    println!(
        "ok: static, alone in a read-only root, {}, written and read, ended by SIGTERM",
        recipe.user
    );
    Ok(())
}

/// Whether Rust can be built for a target, and C with this compiler.
pub(crate) fn can_build(target: &str, compiler: &str) -> Result {
    let library =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    if !Path::new(library.trim()).is_dir() {
        return Err(format!(
            "there is no Rust for {target}: rustup target add {target}"
        ));
    }
    let missing = || format!("there is no {compiler} (musl-gcc is in Debian's musl-tools)");
    find(compiler).map(drop).ok_or_else(missing)
}

/// Whether this machine can run a program in a root of its own.
fn can_enter() -> Result {
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err("only root can run a program in a root of its own".to_owned());
    }
    output(Command::new("unshare").args(["--mount", "--pid", "--fork", "true"])).map(drop)
}

/// A running program as in the image. It ends when this is dropped.
struct Container {
    /// The process of unshare, whose only child is the program.
    process: Process,
    kubeconfig: PathBuf,
    folder: TempDir,
}

impl Container {
    /// Starts the program, and waits until it is ready.
    fn start(recipe: &Recipe, program: &Path) -> Result<Self> {
        let here = program.parent().unwrap_or(program);
        let folder = tempfile::tempdir_in(here).map_err(|error| format!("a folder: {error}"))?;
        let (root, data) = (folder.path().join("root"), folder.path().join("data"));
        let entry = recipe
            .start
            .first()
            .ok_or("the container file starts nothing")?;
        let entry = root.join(entry.trim_start_matches('/'));
        let made = || {
            for folder in [&data, &root.join("data"), &entry.with_file_name("")] {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::hard_link(program, &entry)?;
            File::create(folder.path().join("log"))
        };
        let log = made().map_err(cannot("make", folder.path()))?;
        command::run(Command::new("chown").arg(&recipe.user).arg(&data))?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        command
            .args(["sh", "-euc", ENTER, "sh"])
            .args([&root, &data]);
        command.arg(&recipe.user).args(&recipe.start);
        command.arg(format!("--secure-port={}", free_port()));
        command.env_clear().stdin(Stdio::null()).stderr(log);
        command.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let started = Process::start_and_hear(&mut command);
        let (process, line) = started.map_err(|error| format!("unshare: {error}"))?;
        let container = Self {
            process,
            kubeconfig: data.join("kubeconfig"),
            folder,
        };
        if line.is_empty() {
            return Err(format!("it did not start; it said:\n{}", container.said()));
        }
        Ok(container)
    }

    fn prove(&mut self, recipe: &Recipe, kubectl: &Path) -> Result {
        let unshare = self.process.id();
        let children = format!("/proc/{unshare}/task/{unshare}/children");
        let program = read(Path::new(&children))?.trim().to_owned();
        let status = read(Path::new(&format!("/proc/{program}/status")))?;
        let (user, _) = recipe.user.split_once(':').unwrap_or((&recipe.user, ""));
        for expected in [
            format!("Uid:\t{user}\t{user}\t"),
            "CapEff:\t0000000000000000\n".into(),
        ] {
            if !status.contains(&expected) {
                let (name, _) = expected.split_once(':').unwrap_or_default();
                let line = status.lines().find(|line| line.starts_with(name));
                return Err(format!("{line:?} where {expected:?} was expected"));
            }
        }

        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "proof", "namespace": "default"}, "reason": "Proved",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
        });
        let file = self.folder.path().join("event.json");
        std::fs::write(&file, event.to_string()).map_err(|error| format!("an event: {error}"))?;
        let file = file.to_string_lossy();
        for (arguments, expected) in [
            (&["get", "--raw", "/readyz"] as &[&str], "ok"),
            (&["create", "-f", &file], "event/proof created"),
            (&["get", "events", "-o=jsonpath={..reason}"], "Proved"),
        ] {
            let mut command = Command::new(kubectl);
            command.arg("--kubeconfig").arg(&self.kubeconfig);
            let answer = output(command.args(arguments))?;
            if answer.trim() != expected {
                return Err(format!("kubectl {}: {answer}", arguments.join(" ")));
            }
        }

        // The first process of a namespace gets only those signals that it handles.
        output(Command::new("kill").args(["-TERM", &program]))?;
        match self.process.wait() {
            status if status.success() => Ok(()),
            status => Err(format!("SIGTERM ended it with {status}")),
        }
    }

    fn said(&self) -> String {
        read(&self.folder.path().join("log")).unwrap_or_else(|error| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_file_is_understood() {
        let text = "FROM rust AS build\nRUN apk add x\nRUN cargo build --locked && strip y\n\
                    FROM scratch\nUSER 1:2\nVOLUME /v\nEXPOSE 3\nENTRYPOINT [\"/a\"]\nCMD [\"b\", \"--c=d\"]\n";
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let expected = Recipe {
            build: words(&["build", "--locked"]),
            user: "1:2".to_owned(),
            start: words(&["/a", "b", "--c=d"]),
            volume: "/v".to_owned(),
            port: "3".to_owned(),
        };
        assert_eq!(Recipe::parse(text), Ok(expected));
        assert!(Recipe::parse("FROM scratch").is_err());
    }
}
