//! Checks the dependencies of crates, from `cargo metadata`: on our own crates, and on libraries
//! that only some crates may use.

use serde_json::Value;

/// Our crates, each with those of our crates that it may use. Tests may use any.
const LAYERS: [(&str, &[&str]); 15] = [
    ("tidings-connect", &[]),
    ("tidings-core", &[]),
    ("tidings-api", &["tidings-core"]),
    ("tidings-store", &[]),
    ("tidings-history", &["tidings-store"]),
    ("tidings", &["tidings-core"]),
    (
        "tidings-server",
        &[
            "tidings-api",
            "tidings-connect",
            "tidings-core",
            "tidings-history",
            "tidings-store",
        ],
    ),
    (
        "tidings-archive",
        &[
            "tidings-api",
            "tidings-core",
            "tidings-history",
            "tidings-store",
        ],
    ),
    (
        "tidings-objects",
        &[
            "tidings-api",
            "tidings-archive",
            "tidings-connect",
            "tidings-core",
            "tidings-history",
            "tidings-store",
        ],
    ),
    (
        "tidings-feeds",
        &[
            "tidings-api",
            "tidings-connect",
            "tidings-core",
            "tidings-history",
            "tidings-store",
        ],
    ),
    (
        "tidings-cli",
        &[
            "tidings",
            "tidings-archive",
            "tidings-connect",
            "tidings-core",
            "tidings-feeds",
            "tidings-history",
            "tidings-objects",
            "tidings-server",
            "tidings-store",
        ],
    ),
    (
        "tidings-conformance",
        &[
            "tidings",
            "tidings-core",
            "tidings-objects",
            "tidings-server",
            "tidings-store",
            "tidings-testing",
        ],
    ),
    (
        "tidings-bench",
        &[
            "tidings",
            "tidings-core",
            "tidings-history",
            "tidings-objects",
            "tidings-server",
            "tidings-store",
            "tidings-cli",
            "tidings-testing",
        ],
    ),
    ("tidings-testing", &["tidings-server", "tidings-store"]),
    ("xtask", &["tidings-testing"]),
];

/// Libraries, and the only crates that may use them.
const ONLY_IN: [(&str, &[&str]); 11] = [
    ("axum", &["tidings-server", "tidings-testing"]),
    (
        "hyper",
        &[
            "tidings-connect",
            "tidings-server",
            "tidings-conformance",
            "tidings-bench",
            "tidings-testing",
        ],
    ),
    (
        "hyper-util",
        &[
            "tidings-connect",
            "tidings-server",
            "tidings-conformance",
            "tidings-bench",
            "tidings-testing",
        ],
    ),
    ("minijinja", &["tidings-feeds"]),
    ("object_store", &["tidings-objects"]),
    ("parquet", &["tidings-objects"]),
    ("lsm-tree", &["tidings-store"]),
    ("etcd-client", &["tidings-store"]),
    // The crate that makes files for tests has no other way to compress.
    ("zstd", &["tidings-store", "tidings-objects", "tidings-cli"]),
    (
        "kube",
        &[
            "tidings",
            "tidings-archive",
            "tidings-cli",
            // Their recorder is compared with ours here.
            "tidings-conformance",
            "tidings-bench",
            "tidings-testing",
        ],
    ),
    ("indicatif", &["tidings-cli"]),
];

/// Libraries that the core must not use, not even through a feature: it takes arguments and returns
/// values, and does nothing else.
const NEVER_IN_CORE: [&str; 8] = [
    "tokio",
    "futures",
    "async-trait",
    "kube",
    "rand",
    "getrandom",
    "tracing",
    "metrics",
];

/// Crates whose users choose the Kubernetes version: the published libraries that use k8s-openapi.
const VERSION_IS_THE_USERS: [&str; 7] = [
    "tidings-core",
    "tidings-api",
    "tidings",
    "tidings-archive",
    "tidings-objects",
    "tidings-feeds",
    "tidings-server",
];

pub(super) fn check(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let packages = metadata["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if packages.is_empty() {
        problems.push("cargo metadata names no packages".to_owned());
    }
    let is_published = |package: &&Value| {
        package["publish"]
            .as_array()
            .is_none_or(|to| !to.is_empty())
    };
    let unpublished: Vec<&str> = packages
        .iter()
        .filter(|package| !is_published(package))
        .map(|package| text(&package["name"]))
        .collect();
    for package in packages {
        let name = text(&package["name"]);
        let Some((_, may_use)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            problems.push(format!(
                "{name}: a crate no layer is stated for in xtask/src/tidy/layers.rs"
            ));
            continue;
        };
        for field in ["description", "license", "rust_version"] {
            if text(&package[field]).is_empty() {
                problems.push(format!("{name}: Cargo.toml states no {field}"));
            }
        }
        let dependencies = package["dependencies"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for dependency in dependencies {
            if is_published(&package) && unpublished.contains(&text(&dependency["name"])) {
                problems.extend(check_unpublished(name, dependency));
            }
            if dependency["kind"] != "dev" {
                check_dependency(name, may_use, dependency, &mut problems);
            }
        }
    }
    problems
}

fn check_dependency(name: &str, may_use: &[&str], dependency: &Value, problems: &mut Vec<String>) {
    let uses = text(&dependency["name"]);
    if LAYERS.iter().any(|(layer, _)| *layer == uses) && !may_use.contains(&uses) {
        problems.push(format!("{name} uses {uses}, which its layer may not"));
    }
    if let Some((_, only_in)) = ONLY_IN.iter().find(|(library, _)| *library == uses)
        && !only_in.contains(&name)
    {
        problems.push(format!(
            "{name} uses {uses}, which only {} may",
            only_in.join(" and ")
        ));
    }
    if name == "tidings-core" && NEVER_IN_CORE.contains(&uses) {
        problems.push(format!(
            "{name} uses {uses}: the core has no I/O, no async and no globals"
        ));
    }
    if name == "tidings" && uses == "kube" && dependency["optional"] != true {
        problems.push("tidings uses kube without its feature kube".to_owned());
    }
    let features = dependency["features"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if uses == "k8s-openapi" && VERSION_IS_THE_USERS.contains(&name) && !features.is_empty() {
        problems.push(format!(
            "{name} chooses a version of Kubernetes, which is for its users to choose"
        ));
    }
}

/// A published package must not depend on an unpublished crate: cargo leaves out only dependencies
/// of tests by path.
fn check_unpublished(name: &str, dependency: &Value) -> Option<String> {
    let by_path_alone = dependency["kind"] == "dev" && dependency["req"] == "*";
    let uses = text(&dependency["name"]);
    (!by_path_alone).then(|| {
        format!("{name} uses {uses}, which is not published: only tests may, without a version")
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(name: &str, dependency: &Value) -> usize {
        let package = json!({
            "name": name, "description": "d", "license": "l", "rust_version": "1.90", "dependencies": [dependency],
        });
        check(&json!({"packages": [package]})).len()
    }

    #[test]
    fn dependencies_across_layers_are_found_and_those_of_tests_are_not() {
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
            (
                "tidings",
                json!({"name": "k8s-openapi", "features": ["latest"]}),
                1,
            ),
            (
                "tidings",
                json!({"name": "k8s-openapi", "features": ["latest"], "kind": "dev"}),
                0,
            ),
            (
                "tidings-objects",
                json!({"name": "k8s-openapi", "features": ["latest"]}),
                1,
            ),
            (
                "tidings-cli",
                json!({"name": "k8s-openapi", "features": ["latest"]}),
                0,
            ),
            ("unheard-of", json!({"name": "serde"}), 1),
        ];
        for (name, dependency, expected) in cases {
            assert_eq!(
                problems(name, &dependency),
                expected,
                "{name} with {dependency}"
            );
        }
        assert_eq!(check(&json!({})).len(), 1);
    }

    #[test]
    fn a_published_crate_uses_an_unpublished_one_in_tests_by_path_alone() {
        let cases = [
            (json!({"kind": "dev", "req": "*"}), 0),
            (json!({"kind": "dev", "req": "^0.1.0"}), 1),
            (json!({"kind": "build", "req": "*"}), 2),
            (json!({"kind": null, "req": "*"}), 2),
        ];
        for (mut dependency, expected) in cases {
            dependency["name"] = "tidings-testing".into();
            let package = |name: &str, publish: Value, dependencies: Value| {
                json!({
                    "name": name, "publish": publish, "dependencies": dependencies,
                    "description": "d", "license": "l", "rust_version": "1.90",
                })
            };
            let packages = json!([
                package("tidings-testing", json!([]), json!([])),
                package("tidings-core", json!(null), json!([dependency])),
                package("xtask", json!([]), json!([dependency])),
            ]);
            let problems = check(&json!({"packages": packages}));
            // xtask is not published, and its layer allows this dependency.
            assert_eq!(problems.len(), expected, "{problems:?}");
        }
    }
}
