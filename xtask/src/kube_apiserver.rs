//! The kube-apiserver to compare with: found, or built from Kubernetes' own modules.

use std::path::{Path, PathBuf};

use crate::command::{self, Result, find, is_executable};

/// The release to build. Its modules are pinned in `MODULE`.
const RELEASE: (&str, &str) = ("1", "36");
const PATCH: &str = "3";
/// The Go module that only names kube-apiserver.
const MODULE: &str = "crates/tidings-conformance/kube-apiserver";
const PACKAGE: &str = "k8s.io/kubernetes/cmd/kube-apiserver";
/// The environment variable with a kube-apiserver to use instead of building one.
pub(crate) const VARIABLE: &str = "KUBE_APISERVER";

/// Finds a kube-apiserver, or builds one from Kubernetes' own modules.
pub(crate) fn find_or_build(root: &Path, may_build: bool) -> Result<PathBuf> {
    if let Some(named) = command::named(VARIABLE) {
        return named;
    }
    let (major, minor) = RELEASE;
    let version = format!("v{major}.{minor}.{PATCH}");
    let built = command::target(root)
        .join("tools")
        .join(format!("kube-apiserver-{version}"));
    if is_executable(&built) {
        return Ok(built);
    }
    if let Some(file) = find("kube-apiserver") {
        return Ok(file);
    }
    if !may_build {
        return Err(format!(
            "none on the PATH, none built, {VARIABLE} is not set"
        ));
    }
    let flags = format!(
        "-X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}",
        base = "k8s.io/component-base/version"
    );
    command::go_build(&root.join(MODULE), PACKAGE, &flags, &built)
        .map_err(|error| format!("none on the PATH, and {error}"))?;
    Ok(built)
}
