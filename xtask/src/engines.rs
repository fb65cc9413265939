//! The engines that judge archives on object storage from outside: DuckDB and chDB, which is
//! ClickHouse in a library. Installed from Python's index into a folder of their own in the target
//! folder, and a part of nothing that is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, find, is_executable};

/// A Python that has both; tests find it by this variable.
pub(crate) const VARIABLE: &str = "ENGINES_PYTHON";
/// What is installed. DuckDB needs pytz for times.
const PACKAGES: [&str; 3] = ["duckdb>=1.1", "pytz", "chdb>=2"];

/// Finds a Python with the engines, or makes one.
pub(crate) fn find_or_install(folder: &Path, may_fetch: bool) -> Result<PathBuf> {
    if let Some(file) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return if is_executable(&file) {
            Ok(file)
        } else {
            let named = file.display();
            Err(format!("{VARIABLE} names {named}, which cannot be run"))
        };
    }
    let python = folder.join("bin/python3");
    if has_both(&python) {
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
    if has_both(&python) {
        Ok(python)
    } else {
        Err("they were installed and cannot be loaded".to_owned())
    }
}

fn has_both(python: &Path) -> bool {
    is_executable(python)
        && command::output(Command::new(python).args(["-c", "import duckdb, pytz, chdb"])).is_ok()
}
