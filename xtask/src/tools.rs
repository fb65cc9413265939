//! Programs that some tests need: kubectl and etcd, found on the PATH or downloaded from Debian's
//! archive into the target folder. Nothing is installed, no service is started, and root is needed
//! only to refresh apt's lists. Also kube-apiserver, if one is available or was built.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, find, is_executable};
use crate::{engines, helm, kube_apiserver, npm};

/// A program, and its Debian package.
struct Tool {
    program: &'static str,
    package: &'static str,
    /// The environment variable with its path, for tests that do not use the PATH.
    variable: &'static str,
    /// The tests that are skipped without it.
    skipped: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool {
        program: "kubectl",
        package: "kubernetes-client",
        variable: "KUBECTL",
        skipped: "the tests that drive the server with it",
    },
    Tool {
        program: "etcd",
        package: "etcd-server",
        variable: "ETCD",
        skipped: "the tests that store events in it",
    },
];

/// The environment variables with the paths of the programs, for tests.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    environment: Vec<(OsString, OsString)>,
    /// A line about each missing program.
    pub(crate) missing: Vec<String>,
}

impl Tools {
    /// Finds or fetches every tool. A missing one is not an error.
    pub(crate) fn find(root: &Path, may_fetch: bool) -> Self {
        let folder = root.join("target/tools");
        let mut tools = Self::default();
        for tool in &TOOLS {
            match tool.find(&folder, may_fetch) {
                Ok(file) => {
                    eprintln!("{}: {}", tool.program, file.display());
                    tools.environment.push((tool.variable.into(), file.into()));
                }
                Err(reason) => {
                    tools.missing.push(format!(
                        "no {} ({reason}): skips {}",
                        tool.program, tool.skipped
                    ));
                }
            }
        }
        // The machine's own programs come first, so that only missing ones are taken from the
        // folder.
        let own = [folder.join("usr/bin"), folder.join("usr/sbin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = std::env::join_paths(std::env::split_paths(&path).chain(own)) {
            tools.environment.push(("PATH".into(), path));
        }
        tools
    }

    /// Adds a kube-apiserver, built if that is allowed.
    pub(crate) fn and_kube_apiserver(mut self, root: &Path, may_build: bool) -> Self {
        match kube_apiserver::find_or_build(root, may_build) {
            Ok(file) => {
                eprintln!("kube-apiserver: {}", file.display());
                let variable = kube_apiserver::VARIABLE;
                self.environment.push((variable.into(), file.into()));
            }
            Err(reason) => self.missing.push(format!(
                "no kube-apiserver ({reason}; `cargo xtask reference` builds one): skips the tests that need it"
            )),
        }
        self
    }

    /// Adds Helm, built if that is allowed.
    pub(crate) fn and_helm(mut self, root: &Path, may_build: bool) -> Self {
        match helm::find_or_build(root, may_build) {
            Ok(file) => {
                eprintln!("helm: {}", file.display());
                self.environment.push((helm::VARIABLE.into(), file.into()));
            }
            Err(reason) => self
                .missing
                .push(format!("no helm ({reason}): skips the tests of the chart")),
        }
        self
    }

    /// Adds the npm packages that check the timeline's page, installed if that is allowed. A
    /// browser is too large to download, and is only searched for.
    pub(crate) fn and_browser(mut self, root: &Path, may_fetch: bool) -> Self {
        for program in ["chromium", "chromedriver"] {
            if find(program).is_none() {
                self.missing.push(format!(
                    "no {program} on the PATH (Debian: chromium chromium-driver): skips the tests of the timeline's page in a browser"
                ));
            }
        }
        for package in &npm::PACKAGES {
            match package.find(&root.join("target/tools/npm"), may_fetch) {
                Ok(file) => {
                    self.environment
                        .push((package.variable.into(), file.into()));
                }
                Err(reason) => self.missing.push(format!(
                    "no {} ({reason}): skips {}",
                    package.name, package.skipped
                )),
            }
        }
        self
    }

    /// Adds the Python with the engines that read archives on object storage, installed if that is
    /// allowed.
    pub(crate) fn and_engines(mut self, root: &Path, may_fetch: bool) -> Self {
        match engines::find_or_install(&root.join("target/tools/engines"), may_fetch) {
            Ok(file) => self
                .environment
                .push((engines::VARIABLE.into(), file.into())),
            Err(reason) => self.missing.push(format!(
                "no DuckDB and chDB ({reason}): skips the tests that read archives with them"
            )),
        }
        self
    }

    /// The path of the program with this variable, if available.
    pub(crate) fn program(&self, variable: &str) -> Option<PathBuf> {
        let mut environment = self.environment.iter();
        let (_, file) = environment.find(|(name, _)| name == variable)?;
        Some(PathBuf::from(file))
    }

    /// Sets the environment variables for a command.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)))
    }
}

impl Tool {
    fn find(&self, folder: &Path, may_fetch: bool) -> Result<PathBuf> {
        if let Some(named) = command::named(self.variable) {
            return named;
        }
        let fetched = folder.join("usr/bin").join(self.program);
        if let Some(file) =
            find(self.program).or_else(|| is_executable(&fetched).then(|| fetched.clone()))
        {
            return Ok(file);
        }
        if !may_fetch {
            return Err("not on the PATH".to_owned());
        }
        if find("apt-get").is_none() || find("dpkg-deb").is_none() {
            return Err("not on the PATH, and no apt-get to fetch it with".to_owned());
        }
        self.fetch(folder)
            .map_err(|error| format!("not on the PATH, and {error}"))?;
        if is_executable(&fetched) {
            Ok(fetched)
        } else {
            Err(format!("{} has no {}", self.package, self.program))
        }
    }

    fn fetch(&self, folder: &Path) -> Result {
        eprintln!("{}: fetching Debian's {}", self.program, self.package);
        let here = |error: std::io::Error| format!("cannot write {}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(here)?;
        let download = tempfile::tempdir_in(folder).map_err(here)?;
        let apt = |arguments: &[&str]| {
            // A machine without a network should fail soon.
            let options = [
                "-qq",
                "-o",
                "Acquire::Retries=1",
                "-o",
                "Acquire::http::Timeout=20",
            ];
            let mut command = Command::new("apt-get");
            command
                .args(options)
                .args(arguments)
                .current_dir(download.path());
            command::output(&mut command)
        };
        if apt(&["download", self.package]).is_err() {
            // apt's lists may be missing or old. Refreshing them needs root, so this may fail; only
            // the second attempt to download counts.
            let _ = apt(&["update"]);
            apt(&["download", self.package])?;
        }
        let package = std::fs::read_dir(download.path())
            .map_err(here)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| format!("apt-get brought no {}", self.package))?;
        command::output(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder)).map(drop)
    }
}
