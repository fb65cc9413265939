//! Checks the dependencies of crates, from `cargo metadata`: on our own crates, and on libraries
//! that only some crates may use.

use serde_json::Value;

/// Our crates, each with those of our crates that it may use. Tests may use any.
const LAYERS: &str = "
tidings-connect:
tidings-core:
tidings-api: tidings-core
tidings-store:
tidings-history: tidings-store
tidings: tidings-core
tidings-server: tidings-api tidings-connect tidings-core tidings-history tidings-store
tidings-archive: tidings-api tidings-core tidings-history tidings-store
tidings-objects: tidings-api tidings-archive tidings-connect tidings-core tidings-history \
    tidings-store
tidings-feeds: tidings-api tidings-connect tidings-core tidings-history tidings-store
tidings-cli: tidings tidings-archive tidings-connect tidings-core tidings-feeds tidings-history \
    tidings-objects tidings-server tidings-store
tidings-conformance: tidings tidings-core tidings-objects tidings-server tidings-store \
    tidings-testing
tidings-bench: tidings tidings-api tidings-core tidings-history tidings-objects tidings-store \
    tidings-testing
tidings-testing: tidings-server tidings-store
xtask: tidings-testing
";

/// Libraries, and the only crates that may use them. The crates that build files for tests have no
/// other way to compress than zstd. kube-rs's recorder is compared with ours.
const ONLY_IN: &str = "
axum: tidings-server tidings-testing
hyper: tidings-connect tidings-server tidings-conformance tidings-bench tidings-testing
hyper-util: tidings-connect tidings-server tidings-conformance tidings-bench tidings-testing
minijinja: tidings-feeds
object_store: tidings-objects
parquet: tidings-objects
lsm-tree: tidings-store
etcd-client: tidings-store
zstd: tidings-store tidings-objects tidings-cli
kube: tidings tidings-archive tidings-cli tidings-conformance tidings-bench tidings-testing
indicatif: tidings-cli
";

/// Libraries that the core must not use, not even through a feature: it takes arguments and returns
/// values, and does nothing else.
const NEVER_IN_CORE: &str = "tokio futures async-trait kube rand getrandom tracing metrics";

/// The words after this name in a table.
fn row<'a>(table: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let rows = table.lines().filter_map(|line| line.split_once(':'));
    let mut found = rows.filter(|(first, _)| *first == name);
    found
        .next()
        .map(|(_, words)| words.split_whitespace().collect())
}

pub(super) fn check(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let packages = list(&metadata["packages"]);
    if packages.is_empty() {
        problems.push("cargo metadata names no packages".to_owned());
    }
    let is_unpublished = |name: &str| {
        let mut named = packages.iter().filter(|package| package["name"] == name);
        named.any(|package| package["publish"].as_array().is_some_and(Vec::is_empty))
    };
    for package in packages {
        let name = text(&package["name"]);
        let Some(may_use) = row(LAYERS, name) else {
            problems.push(format!(
                "{name}: a crate without a layer in xtask/src/tidy/layers.rs"
            ));
            continue;
        };
        for field in ["description", "license", "rust_version"] {
            if text(&package[field]).is_empty() {
                problems.push(format!("{name}: Cargo.toml states no {field}"));
            }
        }
        let is_published = !is_unpublished(name);
        for dependency in list(&package["dependencies"]) {
            let uses = text(&dependency["name"]);
            let is_of_tests = dependency["kind"] == "dev";
            // cargo leaves out only dependencies of tests by path.
            let is_left_out = is_of_tests && dependency["req"] == "*";
            if is_published && is_unpublished(uses) && !is_left_out {
                problems.push(format!(
                    "{name} uses {uses}, which is not published: only tests may, without a version"
                ));
            }
            if !is_of_tests {
                let broken = broken(name, &may_use, is_published, dependency);
                problems.extend(broken.map(|rule| format!("{name} uses {uses}: {rule}")));
            }
        }
    }
    problems
}

/// The rule that a dependency breaks.
fn broken(name: &str, may_use: &[&str], is_published: bool, dependency: &Value) -> Option<String> {
    let uses = text(&dependency["name"]);
    if row(LAYERS, uses).is_some() && !may_use.contains(&uses) {
        return Some("its layer may not".to_owned());
    }
    if let Some(only) = row(ONLY_IN, uses).filter(|only| !only.contains(&name)) {
        return Some(format!("only {} may", only.join(" and ")));
    }
    if name == "tidings-core" && NEVER_IN_CORE.split(' ').any(|never| never == uses) {
        return Some("the core has no I/O, no async and no globals".to_owned());
    }
    if name == "tidings" && uses == "kube" && dependency["optional"] != true {
        return Some("only its feature kube may".to_owned());
    }
    // The command is the one published crate that is a final program.
    let is_library = is_published && name != "tidings-cli";
    let chooses = uses == "k8s-openapi" && !list(&dependency["features"]).is_empty();
    let why = "the version of Kubernetes is for its users to choose";
    (is_library && chooses).then(|| why.to_owned())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dependencies_across_layers_are_found_and_those_of_tests_are_not() {
        let latest = || json!({"name": "k8s-openapi", "features": ["latest"]});
        let testing =
            |kind: Value, req: &str| json!({"name": "tidings-testing", "kind": kind, "req": req});
        let cases = [
            ("tidings", json!({"name": "tidings-core"}), 0),
            ("tidings-core", json!({"name": "tidings"}), 1),
            ("tidings-core", json!({"name": "tidings", "kind": "dev"}), 0),
            ("tidings-core", json!({"name": "tokio", "kind": "build"}), 1),
            ("tidings-store", json!({"name": "tidings-core"}), 1),
            ("tidings-store", json!({"name": "axum"}), 1),
            ("tidings-server", json!({"name": "axum"}), 0),
            ("tidings-server", json!({"name": "lsm-tree"}), 1),
            ("tidings", json!({"name": "kube", "optional": true}), 0),
            ("tidings", json!({"name": "kube", "optional": false}), 1),
            ("tidings", latest(), 1),
            ("tidings-objects", latest(), 1),
            ("tidings-cli", latest(), 0),
            (
                "tidings",
                json!({"name": "k8s-openapi", "features": [1], "kind": "dev"}),
                0,
            ),
            ("tidings", testing("dev".into(), "*"), 0),
            ("tidings", testing("dev".into(), "^0.1.0"), 1),
            // The layer of the first may not use it either.
            ("tidings", testing(Value::Null, "*"), 2),
            ("xtask", testing(Value::Null, "*"), 0),
            ("unheard-of", json!({"name": "serde"}), 1),
        ];
        for (name, dependency, expected) in cases {
            let package = |name: &str, publish: Value, dependencies: Value| {
                json!({
                    "name": name, "publish": publish, "dependencies": dependencies,
                    "description": "d", "license": "l", "rust_version": "1.90",
                })
            };
            let publish = (name == "xtask").then(|| json!([]));
            let problems = check(&json!({"packages": [
                package("tidings-testing", json!([]), json!([])),
                package(name, publish.into(), json!([dependency])),
            ]}));
            assert_eq!(problems.len(), expected, "{name} with {dependency}");
        }
        let nameless = json!({"packages": [{"name": "tidings-core"}]});
        assert_eq!((check(&json!({})).len(), check(&nameless).len()), (1, 3));
    }
}
