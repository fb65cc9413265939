//! The bill of materials of the program, in the form of CycloneDX 1.6: every crate that is linked,
//! from `cargo metadata` and Cargo.lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::command::Result;

/// The bill of the package of this name.
pub(super) fn bill(metadata: &Value, lock: &str, name: &str) -> Result<Value> {
    let by_id = |list: &'_ Value| -> HashMap<String, Value> {
        let entries = list.as_array().cloned().unwrap_or_default().into_iter();
        entries.map(|entry| (text(&entry["id"]), entry)).collect()
    };
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let mut named = packages.values().filter(|package| package["name"] == name);
    let program = named.next().ok_or(format!("there is no package {name}"))?;

    // The linked packages, each with those that it uses itself.
    let mut linked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![text(&program["id"])];
    while let Some(id) = open.pop() {
        if let Some(node) = nodes.get(&id).filter(|_| !linked.contains_key(&id)) {
            let dependencies = node["deps"].as_array().into_iter().flatten();
            let is_normal = |it: &&Value| {
                let mut kinds = it["dep_kinds"].as_array().into_iter().flatten();
                kinds.any(|kind| kind["kind"].is_null())
            };
            let normal = dependencies.filter(is_normal).map(|it| text(&it["pkg"]));
            let normal: BTreeSet<String> = normal.collect();
            open.extend(normal.iter().cloned());
            linked.insert(id, normal);
        }
    }

    let sums = checksums(lock);
    let reference = |id: &String| {
        let package = packages.get(id).unwrap_or(&Value::Null);
        let [name, version] = ["name", "version"].map(|field| text(&package[field]));
        format!("pkg:cargo/{name}@{version}")
    };
    let component = |id: &String, kind: &str| {
        let package = packages.get(id).unwrap_or(&Value::Null);
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
        if let Some(sum) = sums.get(&reference) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    };
    // Sorted by their references.
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for (id, on) in &linked {
        let on: BTreeSet<String> = on.iter().map(reference).collect();
        let own = reference(id);
        components.insert(own.clone(), component(id, "library"));
        dependencies.insert(own.clone(), json!({"ref": own, "dependsOn": on}));
    }
    let own = text(&program["id"]);
    components.remove(&reference(&own));
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": component(&own, "application")},
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The checksums of Cargo.lock, by the crates' package URLs.
fn checksums(lock: &str) -> HashMap<String, &str> {
    let value = |block: &'_ str, name: &str| -> Option<String> {
        let (_, value) = block.split_once(&format!("\n{name} = \""))?;
        Some(value.split_once('"')?.0.to_owned())
    };
    let sums = lock.split("[[package]]").filter_map(|block| {
        let (_, sum) = block.split_once("\nchecksum = \"")?;
        let (name, version) = (value(block, "name")?, value(block, "version")?);
        Some((
            format!("pkg:cargo/{name}@{version}"),
            sum.split_once('"')?.0,
        ))
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
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(2));
        assert_eq!(bill["components"][0]["name"], "a");
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
