//! External programs of some tests. A test without its program passes, and reports that it was
//! skipped.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// kubectl: `$KUBECTL`, or the first on the PATH.
pub fn kubectl() -> Option<PathBuf> {
    named("KUBECTL")
        .or_else(|| on_path("kubectl"))
        .or_else(|| skipped("no kubectl on the PATH nor in $KUBECTL"))
}

/// etcd: `$ETCD`, or the first on the PATH.
pub fn etcd() -> Option<PathBuf> {
    named("ETCD")
        .or_else(|| on_path("etcd"))
        .or_else(|| skipped("no etcd on the PATH nor in $ETCD (apt-get install etcd-server)"))
}

/// kube-apiserver: `$KUBE_APISERVER`.
pub fn kube_apiserver() -> Option<PathBuf> {
    named("KUBE_APISERVER")
        .filter(|program| program.is_file())
        .or_else(|| skipped("$KUBE_APISERVER names no program"))
}

/// Helm: `$HELM`, or the first on the PATH.
pub fn helm() -> Option<PathBuf> {
    named("HELM")
        .or_else(|| on_path("helm"))
        .or_else(|| skipped("no helm on the PATH nor in $HELM (cargo xtask test builds it)"))
}

/// Chromium: `$CHROMIUM`, or the first on the PATH.
pub fn chromium() -> Option<PathBuf> {
    named("CHROMIUM")
        .or_else(|| on_path("chromium"))
        .or_else(|| skipped("no chromium on the PATH nor in $CHROMIUM (apt-get install chromium)"))
}

/// Chromium's driver: `$CHROMEDRIVER`, or the first on the PATH.
pub fn chromedriver() -> Option<PathBuf> {
    named("CHROMEDRIVER")
        .or_else(|| on_path("chromedriver"))
        .or_else(|| skipped("no chromedriver on the PATH nor in $CHROMEDRIVER (chromium-driver)"))
}

/// TypeScript's compiler, which checks JavaScript: `$TSC`, or the first on the PATH.
pub fn tsc() -> Option<PathBuf> {
    named("TSC")
        .or_else(|| on_path("tsc"))
        .or_else(|| skipped("no tsc on the PATH nor in $TSC (npm's typescript)"))
}

/// The script that checks accessibility: `$AXE`, axe-core's axe.min.js.
pub fn axe() -> Option<PathBuf> {
    named("AXE").or_else(|| skipped("$AXE names no axe.min.js (npm's axe-core)"))
}

/// A Python with DuckDB and chDB: `$ENGINES_PYTHON`.
pub fn engines() -> Option<PathBuf> {
    named("ENGINES_PYTHON").or_else(|| {
        skipped("$ENGINES_PYTHON names no python with duckdb and chdb (cargo xtask test makes one)")
    })
}

/// Azurite, an emulator of Azure's object storage: `$AZURITE`, the script of its blob service,
/// which Node runs.
pub fn azurite() -> Option<PathBuf> {
    named("AZURITE")
        .filter(|_| on_path("node").is_some())
        .or_else(|| {
            skipped("no node, or $AZURITE names no azurite-blob (cargo xtask clouds fetches it)")
        })
}

/// fake-gcs-server, an emulator of Google's object storage: `$FAKE_GCS`, built from
/// crates/tidings-testing/gcs.
pub fn fake_gcs() -> Option<PathBuf> {
    named("FAKE_GCS").or_else(|| {
        skipped("$FAKE_GCS names no storage of Google's (cargo xtask clouds builds it)")
    })
}

/// VictoriaLogs, a receiver of feeds: `$VICTORIA_LOGS`.
pub fn victoria_logs() -> Option<PathBuf> {
    named("VICTORIA_LOGS")
        .or_else(|| skipped("$VICTORIA_LOGS names no VictoriaLogs (cargo xtask feeds builds it)"))
}

/// An OpenTelemetry collector that receives OTLP: `$OTEL_COLLECTOR`.
pub fn otel_collector() -> Option<PathBuf> {
    named("OTEL_COLLECTOR")
        .or_else(|| skipped("$OTEL_COLLECTOR names no collector (cargo xtask feeds builds it)"))
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|program| program.is_file())
}

/// Prints once why tests are skipped.
fn skipped(why: &'static str) -> Option<PathBuf> {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if SAID
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(why)
    {
        // Written past the test's capture, so that it is seen although the test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
    }
    None
}
