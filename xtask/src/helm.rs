//! Helm, for the tests of the chart: found, or built from its own module.

use std::path::{Path, PathBuf};

use crate::command::{self, Result, find, is_executable};

/// The release to build, which the Go module pins.
const VERSION: &str = "v3.22.0";
/// The Go module that only names Helm.
const MODULE: &str = "crates/tidings-conformance/helm";
const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";
/// The environment variable with a Helm to use instead of another one.
pub(crate) const VARIABLE: &str = "HELM";

/// Finds Helm, or builds it from its own module.
pub(crate) fn find_or_build(root: &Path, may_build: bool) -> Result<PathBuf> {
    if let Some(named) = command::named(VARIABLE) {
        return named;
    }
    if let Some(file) = find("helm") {
        return Ok(file);
    }
    let tools = command::target(root).join("tools");
    let built = tools.join(format!("helm-{VERSION}"));
    if is_executable(&built) {
        return Ok(built);
    }
    if !may_build {
        return Err(format!(
            "none on the PATH, none built, {VARIABLE} is not set"
        ));
    }
    let flags = format!("-X helm.sh/helm/v3/internal/version.version={VERSION}");
    command::go_build(&root.join(MODULE), PACKAGE, &flags, &built)
        .map_err(|error| format!("none on the PATH, and {error}"))?;
    Ok(built)
}
