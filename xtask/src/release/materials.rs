//! The bill of materials of the program, in the form of CycloneDX 1.6: every crate that is linked,
//! from `cargo metadata` and Cargo.lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::command::Result;

/// The bill of the package of this name.
pub(super) fn bill(metadata: &Value, lock: &str, name: &str) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let packages: HashMap<&str, &Value> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes = list(&metadata["resolve"]["nodes"]);
    let nodes: HashMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let found = packages.iter().find(|(_, package)| package["name"] == name);
    let (&program, _) = found.ok_or_else(|| format!("there is no package {name}"))?;

    let mut linked: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut open = vec![program];
    while let Some(id) = open.pop() {
        if linked.contains_key(id) {
            continue;
        }
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array());
        let dependencies = dependencies.into_iter().flatten();
        let normal = dependencies.filter(|dependency| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds
                .into_iter()
                .flatten()
                .any(|kind| kind["kind"].is_null())
        });
        let normal = normal.filter_map(|dependency| dependency["pkg"].as_str());
        let normal: BTreeSet<&str> = normal.collect();
        open.extend(&normal);
        linked.insert(id, normal);
    }

    let sums = checksums(lock);
    let reference = |id: &str| -> String {
        let package = packages.get(id).copied().unwrap_or(&Value::Null);
        let text = |name: &str| package[name].as_str().unwrap_or_default();
        format!("pkg:cargo/{}@{}", text("name"), text("version"))
    };
    let component = |id: &str, kind: &str| {
        let package = packages.get(id).copied().unwrap_or(&Value::Null);
        let reference = reference(id);
        let mut component = json!({
            "type": kind, "bom-ref": reference, "purl": reference,
            "name": package["name"], "version": package["version"],
        });
        if let Some(license) = package["license"].as_str() {
            // Older manifests separate alternatives by a slash.
            let license = license.replace('/', " OR ").replace("  ", " ");
            component["licenses"] = json!([{"expression": license}]);
        }
        if let Some(sum) = sums.get(reference.as_str()) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    };
    let others = linked.keys().filter(|id| **id != program);
    let mut components: Vec<Value> = others.map(|id| component(id, "library")).collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = linked
        .iter()
        .map(|(id, on)| {
            let on: BTreeSet<String> = on.iter().map(|id| reference(id)).collect();
            json!({"ref": reference(id), "dependsOn": on})
        })
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": component(program, "application")},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The checksums of Cargo.lock, by the crates' package URLs.
fn checksums(lock: &str) -> HashMap<String, &str> {
    let value = |block: &'_ str, name: &str| -> Option<String> {
        let mut lines = block.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
        Some(value.trim_end_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]");
    let sums = blocks.filter_map(|block| {
        let (_, sum) = block.split_once("\nchecksum = \"")?;
        let (sum, _) = sum.split_once('"')?;
        let (name, version) = (value(block, "name")?, value(block, "version")?);
        Some((format!("pkg:cargo/{name}@{version}"), sum))
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_what_is_linked_and_nothing_else() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let on = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let packages = ["program", "a", "b", "test", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "program", "deps": [on("a", Value::Null), on("test", "dev".into())]},
                {"id": "a", "deps": [on("b", Value::Null)]},
                {"id": "b", "deps": []},
                {"id": "other", "deps": [on("b", Value::Null)]},
            ]},
        });
        let lock = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = bill(&metadata, lock, "program").unwrap();
        assert_eq!(
            bill["metadata"]["component"]["bom-ref"],
            "pkg:cargo/program@1.0.0"
        );
        let names: Vec<_> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        assert_eq!(names, ["a", "b"]);
        let b = &bill["components"][1];
        assert_eq!(b["hashes"][0]["content"], "abc");
        assert_eq!(b["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(
            bill["dependencies"][0],
            json!({"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@1.0.0"]})
        );
        assert!(super::bill(&metadata, lock, "none").is_err());
    }
}
