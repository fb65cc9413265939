//! The OpenTelemetry collector that the archive is compared with, and that receives feeds: found,
//! or built from its modules.

use std::path::{Path, PathBuf};

use crate::command::{self, Result, is_executable};

/// The Go module that builds it, with pinned components.
const MODULE: &str = "crates/tidings-conformance/collector";
/// The version of the components, and a number of our build. With another one it is built again.
const VERSION: &str = "v0.111.0-1";
/// The environment variable with a collector to use instead of building one.
pub(crate) const VARIABLE: &str = "OTEL_COLLECTOR";

/// Finds a collector, or builds one.
pub(crate) fn find_or_build(root: &Path) -> Result<PathBuf> {
    if let Some(named) = command::named(VARIABLE) {
        return named;
    }
    let built = command::target(root)
        .join("tools")
        .join(format!("otel-collector-{VERSION}"));
    if is_executable(&built) {
        return Ok(built);
    }
    command::go_build(&root.join(MODULE), ".", "", &built)
        .map_err(|error| format!("{error}; {VARIABLE} may name one"))?;
    Ok(built)
}
