//! Converts events as kubectl before 1.12 dumped them: Kubernetes' internal types, with Go's field
//! names, and metadata without a field of its own.

use serde_json::{Map, Value};

/// The fields of metadata, which have their usual names in this form.
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// The event with the field names of core/v1.
pub(super) fn external(object: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut event = Map::new();
    for (name, value) in object {
        match (name.as_str(), value) {
            ("ObjectMeta" | "metadata", Value::Object(fields)) => metadata.extend(fields),
            ("TypeMeta", _) => {}
            (name, value) if METADATA.contains(&name) => {
                metadata.insert(name.to_owned(), value);
            }
            (name, value) => {
                event.insert(field(name), renamed(value));
            }
        }
    }
    event.insert("metadata".to_owned(), metadata.into());
    event
}

fn renamed(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(
                fields
                    .map(|(name, it)| (field(&name), renamed(it)))
                    .collect(),
            )
        }
        value => value,
    }
}

fn field(name: &str) -> String {
    match name {
        "UID" => return "uid".to_owned(),
        "APIVersion" => return "apiVersion".to_owned(),
        "ReportingController" => return "reportingComponent".to_owned(),
        _ => {}
    }
    let mut rest = name.chars();
    let first = rest.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(rest).collect()
}
