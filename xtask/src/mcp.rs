//! `cargo xtask mcp`: lets programs of others judge `tidings mcp`: the conformance suite and the
//! inspector of the Model Context Protocol (npm), and the client of its Python library (PyPI).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, cargo, find};
use crate::npm::{MCP_CONFORMANCE, MCP_INSPECTOR, NODE};

/// The version of the Python library.
const PYTHON: &str = "mcp==2.3.*";
/// The environment variable with the Python interpreter that has the library, for tests.
const PYTHON_VARIABLE: &str = "MCP_PYTHON";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not fetch what is missing
    #[arg(long)]
    offline: bool,
}

/// Runs the judges that are available. Prints which are skipped, and why.
pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let may_fetch = !args.offline;
    let tools = root.join("target/tools");
    let mut command = cargo(
        root,
        &["test", "--workspace", "--test", "verbs", "judges::"],
    );
    let mut has_one = false;
    for package in [NODE, MCP_CONFORMANCE, MCP_INSPECTOR] {
        match package.find(&tools.join(package.variable.to_lowercase()), may_fetch) {
            Ok(file) => {
                has_one = true;
                command.env(package.variable, file);
            }
            Err(reason) => println!("skipped {}: {reason}", package.skipped),
        }
    }
    match python(&tools.join("mcp_python"), may_fetch) {
        Ok(file) => {
            has_one = true;
            command.env(PYTHON_VARIABLE, file);
        }
        Err(reason) => println!("skipped the Python client: {reason}"),
    }
    if has_one {
        command::run_lines(&mut command, |line| println!("{line}"))
    } else {
        Ok(())
    }
}

/// The interpreter of a virtual environment with the library.
fn python(folder: &Path, may_fetch: bool) -> Result<PathBuf> {
    if let Some(named) = command::named(PYTHON_VARIABLE) {
        return named;
    }
    let interpreter = folder.join("bin/python");
    if folder.join("installed").is_file() {
        return Ok(interpreter);
    }
    if !may_fetch {
        return Err("not fetched yet".to_owned());
    }
    let python = find("python3").ok_or("no python3 on the PATH")?;
    command::output(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    let mut install = Command::new(&interpreter);
    command::output(install.args(["-m", "pip", "install", "--quiet", PYTHON]))?;
    std::fs::write(folder.join("installed"), PYTHON)
        .map_err(|error| format!("cannot write {}: {error}", folder.display()))?;
    Ok(interpreter)
}
