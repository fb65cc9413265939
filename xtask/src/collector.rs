//! The OpenTelemetry collector that the archive is compared with: found, or built from its modules.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Result, find, is_executable};

/// The Go module that builds it, with pinned components.
const MODULE: &str = "crates/tidings-conformance/collector";
const VERSION: &str = "v0.111.0";
/// The environment variable with a collector to use instead of building one.
pub(crate) const VARIABLE: &str = "OTEL_COLLECTOR";

/// Finds a collector, or builds one.
pub(crate) fn find_or_build(root: &Path) -> Result<PathBuf> {
    if let Some(file) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return if is_executable(&file) {
            Ok(file)
        } else {
            Err(format!(
                "{VARIABLE} names {}, which cannot be run",
                file.display()
            ))
        };
    }
    let built = command::target(root)
        .join("tools")
        .join(format!("otel-collector-{VERSION}"));
    if is_executable(&built) {
        return Ok(built);
    }
    if find("go").is_none() {
        return Err(format!(
            "there is no Go to build it with, and {VARIABLE} is not set"
        ));
    }
    let module = root.join(MODULE);
    // An unreachable module proxy is noticed here, before a long build.
    let mut download = Command::new("go");
    download.args(["list", "-deps", "."]).current_dir(&module);
    command::output(&mut download)
        .map_err(|error| format!("its modules cannot be had: {error}"))?;
    eprintln!("OpenTelemetry collector: building {VERSION}, some minutes the first time");
    let mut build = Command::new("go");
    build
        .args(["build", "-mod=readonly", "-ldflags", "-s -w", "-o"])
        .arg(&built)
        .current_dir(&module);
    command::run(&mut build)?;
    Ok(built)
}
