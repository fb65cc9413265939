//! Makes OpenAPI v2 from the v3 documents. It is one document for all versions, and states once
//! what v3 states for each media type.

use serde_json::{Map, Value, json};

/// The prefix of references to schemas in v3.
const SCHEMAS: &str = "#/components/schemas/";
/// The prefix of references to schemas in v2.
const DEFINITIONS: &str = "#/definitions/";

/// Makes the v2 document that corresponds to these v3 documents.
pub(in crate::api) fn joined(documents: &[Value]) -> Value {
    let all = |pointer: &str, convert: fn(&Value) -> Value| -> Map<String, Value> {
        let parts = documents.iter().filter_map(|it| it.pointer(pointer));
        parts.flat_map(|part| each(part, convert)).collect()
    };
    json!({
        "swagger": "2.0",
        "info": documents.first().map(|first| first["info"].clone()),
        "paths": all("/paths", path),
        "definitions": all("/components/schemas", schema),
    })
}

/// The members of an object, each converted.
fn each(of: &Value, convert: impl Fn(&Value) -> Value) -> Map<String, Value> {
    let members = of.as_object().into_iter().flatten();
    let converted = members.map(|(name, value)| (name.clone(), convert(value)));
    converted.collect()
}

/// The operations of a path, and the parameters that all of them share.
fn path(of: &Value) -> Value {
    each(of, |it| match it {
        Value::Array(all) => all.iter().map(parameter).collect(),
        one => operation(one),
    })
    .into()
}

/// A parameter of the path or the query, with the members of its schema.
fn parameter(of: &Value) -> Value {
    let mut parameter = of.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(schema)) = parameter.remove("schema") {
        parameter.extend(schema);
    }
    parameter.into()
}

fn operation(of: &Value) -> Value {
    let members = of.as_object().into_iter().flatten();
    let extensions = members.filter(|(name, _)| name.starts_with("x-"));
    let mut operation: Map<String, Value> = extensions
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut parameters = Vec::new();
    if let Some((media, schema)) = content(&of["requestBody"]) {
        let body = json!({"in": "body", "name": "body", "required": true, "schema": schema});
        parameters.push(body);
        operation.insert("consumes".into(), media);
    }
    let declared = of["parameters"].as_array().into_iter().flatten();
    parameters.extend(declared.map(parameter));
    operation.insert("parameters".into(), parameters.into());
    let answers = each(&of["responses"], |it| match content(it) {
        Some((_, schema)) => json!({"description": it["description"], "schema": schema}),
        None => json!({"description": it["description"]}),
    });
    operation.insert("responses".into(), answers.into());
    let mut answers = of["responses"].as_object().into_iter().flatten();
    if let Some((media, _)) = answers.find_map(|(_, it)| content(it)) {
        operation.insert("produces".into(), media);
    }
    operation.into()
}

/// The media types of a body, and its schema, which is the same for each.
fn content(of: &Value) -> Option<(Value, Value)> {
    let content = of["content"].as_object()?;
    let (_, first) = content.iter().next()?;
    let media = content.keys().map(String::as_str).collect();
    Some((media, schema(&first["schema"])))
}

/// A schema without defaults, which kube-openapi omits, and with a reference beside its
/// description.
fn schema(of: &Value) -> Value {
    let mut converted = Map::new();
    for (name, value) in of.as_object().into_iter().flatten() {
        let value = match name.as_str() {
            "default" => continue,
            "allOf" => {
                if let Value::Object(referred) = schema(&value[0]) {
                    converted.extend(referred);
                }
                continue;
            }
            "$ref" => {
                let to = value.as_str().unwrap_or_default();
                to.replace(SCHEMAS, DEFINITIONS).into()
            }
            "items" | "additionalProperties" => schema(value),
            "properties" => each(value, schema).into(),
            _ => value.clone(),
        };
        converted.insert(name.clone(), value);
    }
    converted.into()
}
