//! The engines that read archives on object storage independently of us: DuckDB and chDB, which is
//! ClickHouse as a library. They are installed from PyPI into a folder in the target folder, and
//! are not part of any build.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, find, is_executable};

/// The environment variable with a Python that has both, for tests.
pub(crate) const VARIABLE: &str = "ENGINES_PYTHON";
/// The packages to install, in the versions that the how-tos name. DuckDB needs pytz for times. Its
/// extension for S3, httpfs, is not among PyPI's packages in this version.
const PACKAGES: [&str; 3] = ["duckdb==2.0.1", "pytz==2026.6", "chdb==4.4.0"];
/// A Python program that succeeds if all packages are there in these versions.
const CHECK: &str = "import sys, importlib.metadata as m, duckdb, pytz, chdb
sys.exit(any(m.version(p.split('==')[0]) != p.split('==')[1] for p in sys.argv[1:]))";

/// Finds a Python with the engines, or makes one.
pub(crate) fn find_or_install(folder: &Path, may_fetch: bool) -> Result<PathBuf> {
    if let Some(named) = command::named(VARIABLE) {
        return named;
    }
    let python = folder.join("bin/python3");
    if has_all(&python) {
        return Ok(python);
    }
    if !may_fetch {
        return Err("not installed yet".to_owned());
    }
    if find("python3").is_none() {
        return Err("no python3 on the PATH".to_owned());
    }
    eprintln!("DuckDB and chDB: installing into {}", folder.display());
    command::output(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--retries=1",
            "--timeout=20",
        ])
        .arg("--disable-pip-version-check")
        .args(PACKAGES);
    command::output(&mut install)?;
    if has_all(&python) {
        Ok(python)
    } else {
        Err("they were installed and cannot be loaded".to_owned())
    }
}

fn has_all(python: &Path) -> bool {
    let mut check = Command::new(python);
    check.args(["-c", CHECK]).args(PACKAGES);
    is_executable(python) && command::output(&mut check).is_ok()
}
