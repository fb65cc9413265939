//! OpenAPI v3 and v2, as far as kubectl needs them: `create`, `apply` and `replace` read the
//! `fieldValidation` parameter of a kind's PATCH, `explain` reads the schema of a kind. kubectl
//! 1.28 and older read v2 first. Newer versions read it only for a file of `kind: List`, whose
//! objects they validate themselves.

mod gnostic;
mod v2;

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};

use super::discovery::{fingerprint, tagged};
use crate::api::request::encoded;
use crate::http::negotiate::{Media, negotiate_documents};
use crate::http::params::{self, Verb};
use crate::http::status::Status;
use tidings_api::codec::{Api, PAST_GROUP};
use tidings_core::fields::{Field, Kind, Rule, Type};

/// The documents of some versions.
struct Documents {
    /// Each version's v3 document.
    each: Vec<(Api, String)>,
    /// The v2 document of all of them, in JSON and in protobuf.
    joined: [Vec<u8>; 2],
}

impl Documents {
    fn of(versions: &[Api]) -> Self {
        let each: Vec<Value> = versions.iter().map(|api| document(*api)).collect();
        let joined = v2::joined(&each);
        let texts = each.iter().map(Value::to_string);
        Self {
            each: versions.iter().copied().zip(texts).collect(),
            joined: [joined.to_string().into_bytes(), gnostic::encode(&joined)],
        }
    }
}

/// The documents of a server.
static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| Documents::of(&VERSIONS));
/// The document of an archive's API group.
static PAST: LazyLock<Documents> = LazyLock::new(|| Documents::of(&[Api::Past]));
const VERSIONS: [Api; 2] = [Api::Core, Api::Events];

/// The media types of v2 in kube-openapi's order. kubectl asks for the second, the old name of the
/// third, which is no valid media type.
const JOINED_MEDIA: [&str; 3] = [
    "application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// Any method of /openapi/v2
pub(crate) async fn joined(headers: HeaderMap) -> Result<Response, Status> {
    joined_of(&DOCUMENTS, &headers)
}

/// Any method of /openapi/v2, for an archive's API group.
pub(crate) async fn joined_past(headers: HeaderMap) -> Result<Response, Status> {
    joined_of(&PAST, &headers)
}

fn joined_of(documents: &Documents, headers: &HeaderMap) -> Result<Response, Status> {
    let [json, _, protobuf] = JOINED_MEDIA;
    let [as_json, as_protobuf] = &documents.joined;
    let (content_type, body) = match negotiate_documents(headers, &JOINED_MEDIA) {
        Some(media) if media == json => (json, as_json),
        Some(_) => (protobuf, as_protobuf),
        None => {
            let vary = [(header::VARY, "Accept")];
            return Ok((StatusCode::NOT_ACCEPTABLE, vary).into_response());
        }
    };
    tagged(headers, content_type, body.clone())
}

/// GET /openapi/v3
pub(crate) async fn index() -> impl IntoResponse {
    index_of(&DOCUMENTS)
}

/// GET /openapi/v3, for an archive's API group.
pub(crate) async fn index_past() -> impl IntoResponse {
    index_of(&PAST)
}

fn index_of(documents: &Documents) -> impl IntoResponse + use<> {
    let entry = |(api, document): &(Api, String)| {
        let path = path(*api);
        let hash = fingerprint(document.as_bytes());
        let url = format!("/openapi/v3/{path}?hash={hash:X}");
        (path, json!({"serverRelativeURL": url}))
    };
    let paths: Map<String, Value> = documents.each.iter().map(entry).collect();
    // Upstream sets no Content-Type here, and Go then detects plain text.
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (content_type, json!({"paths": paths}).to_string())
}

/// GET /openapi/v3/{path}
pub(crate) async fn version(Path(wanted): Path<String>) -> Result<Response, Status> {
    version_of(&DOCUMENTS, &wanted)
}

/// GET /openapi/v3/{path}, for an archive's API group.
pub(crate) async fn version_past(Path(wanted): Path<String>) -> Result<Response, Status> {
    version_of(&PAST, &wanted)
}

fn version_of(documents: &Documents, wanted: &str) -> Result<Response, Status> {
    let found = documents.each.iter().find(|(api, _)| path(*api) == wanted);
    let (_, document) = found.ok_or_else(Status::no_such_path)?;
    let json = document.clone().into_bytes();
    Ok(encoded(StatusCode::OK, Media::Json, json))
}

fn path(api: Api) -> String {
    match api {
        Api::Core => "api/v1".to_owned(),
        Api::Events | Api::Past => format!("apis/{}", api.api_version()),
    }
}

/// The prefix of the names of an archive's schemas. All are its own: a name that other groups have,
/// too, would have to mean the same in all of them.
fn past_prefix() -> String {
    let labels: Vec<&str> = PAST_GROUP.rsplit('.').collect();
    format!("{}.v1", labels.join("."))
}

const BODIES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const PATCH_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The metadata of a list.
const LIST_META: &str = "ListMeta";

/// Codes of answers and their descriptions.
const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");

fn document(api: Api) -> Value {
    let kind = |kind: &str| json!({"group": api.group(), "version": "v1", "kind": kind});
    let event_schema = match api {
        Api::Core => "io.k8s.api.core.v1.Event".to_owned(),
        Api::Events => "io.k8s.api.events.v1.Event".to_owned(),
        Api::Past => format!("{}.{}", past_prefix(), api.kind()),
    };
    let event_schema = event_schema.as_str();
    let list_schema = format!("{event_schema}List");
    let parameters = |verb| -> Value {
        let declared = params::of(verb).map(|parameter| {
            json!({
                "name": parameter.name, "in": "query", "description": parameter.about,
                "schema": {"type": parameter.kind.name(), "uniqueItems": true},
            })
        });
        declared.collect()
    };
    let of_path = |name: &str, description: &str| {
        json!({
            "name": name, "in": "path", "required": true, "description": description,
            "schema": {"type": "string", "uniqueItems": true},
        })
    };
    let namespace = of_path("namespace", "The namespace of the events.");
    let name = of_path("name", "The name of the event.");
    let content = |media: &[&str], schema: &str| -> Value {
        let schema = json!({"schema": reference(schema)});
        media.iter().map(|media| (*media, schema.clone())).collect()
    };
    let answers = |codes: &[(&str, &str)], schema: &str| -> Value {
        let content = content(&BODIES, schema);
        let answer = |description: &str| json!({"description": description, "content": content});
        codes.iter().map(|(code, it)| (*code, answer(it))).collect()
    };
    let operation = |action: &str, verb, request: Option<Value>, answers: Value| -> Value {
        let mut operation = json!({
            "parameters": parameters(verb),
            "responses": answers,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind(api.kind()),
        });
        if let Some(request) = request {
            operation["requestBody"] = json!({"content": request, "required": true});
        }
        operation
    };
    let event = || Some(content(&BODIES, event_schema));
    let patch = Some(content(&PATCHES, PATCH_SCHEMA));
    let list = || answers(&[OK], &list_schema);
    let written = || answers(&[OK, CREATED], event_schema);
    // The answer is a Status or, if finalizers delay the deletion, the event.
    let deleted = json!({"200": {"description": "OK"}});
    let base = format!("/{}/namespaces/{{namespace}}/{}", path(api), api.plural());
    let mut paths = json!({
        &base: {
            "parameters": [namespace],
            "get": operation("list", Verb::List, None, list()),
            "post": operation("post", Verb::Create, event(), answers(&[CREATED], event_schema)),
            "delete": operation("deletecollection", Verb::DeleteCollection, None, list()),
        },
        format!("{base}/{{name}}"): {
            "parameters": [namespace, name],
            "get": operation("get", Verb::Get, None, answers(&[OK], event_schema)),
            "put": operation("put", Verb::Update, event(), written()),
            "patch": operation("patch", Verb::Patch, patch, written()),
            "delete": operation("delete", Verb::Delete, None, deleted),
        },
    });
    if api == Api::Past {
        let operations = paths.as_object_mut().into_iter().flatten();
        for (_, operations) in operations {
            if let Some(operations) = operations.as_object_mut() {
                operations.retain(|name, _| matches!(name.as_str(), "parameters" | "get"));
            }
        }
    }
    let mut schemas = schemas(api);
    let mut event = object(api, api.event());
    event["properties"]["apiVersion"] = json!({"type": "string", "description": api.api_version()});
    event["properties"]["kind"] = json!({"type": "string", "description": api.kind()});
    event["x-kubernetes-group-version-kind"] = json!([kind(api.kind())]);
    schemas.insert(event_schema.into(), event);
    let mut list = list_of(api, event_schema);
    list["x-kubernetes-group-version-kind"] = json!([kind(api.list_kind())]);
    schemas.insert(list_schema, list);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "tidings"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// The schema of a list of events.
fn list_of(api: Api, event_schema: &str) -> Value {
    let metadata = reference(&schema_name(api, LIST_META));
    json!({
        "type": "object",
        "description": "A list of events.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": api.api_version()},
            "kind": {"type": "string", "description": api.list_kind()},
            "metadata": {"allOf": [metadata], "description": "The version and the next page."},
            "items": {
                "type": "array", "items": {"allOf": [reference(event_schema)], "default": {}},
                "description": "The events.",
            },
        },
    })
}

/// The schemas of an event's types.
fn schemas(api: Api) -> Map<String, Value> {
    let mut schemas = Map::new();
    add_schemas(api, api.event(), &mut schemas);
    let time = json!({"type": "string", "format": "date-time"});
    schemas.insert(schema_name(api, "Time"), time.clone());
    schemas.insert(schema_name(api, "MicroTime"), time);
    let fields = json!({"type": "object", "description": "A set of fields, as a tree of f:, k: and v: keys."});
    schemas.insert(schema_name(api, "FieldsV1"), fields);
    let patch = json!({"type": "object", "description": "A patch."});
    schemas.insert(PATCH_SCHEMA.into(), patch);
    let list_meta = json!({
        "type": "object",
        "description": "What all lists have in common.",
        "properties": {
            "selfLink": {"type": "string", "description": "No longer set."},
            "resourceVersion": {"type": "string", "description": "The version of the list."},
            "continue": {"type": "string", "description": "The token of the next page."},
            "remainingItemCount": {
                "type": "integer", "format": "int64",
                "description": "How many follow after this page, as far as that is known.",
            },
        },
    });
    schemas.insert(schema_name(api, LIST_META), list_meta);
    schemas
}

/// Adds the schemas of the types below one.
fn add_schemas(api: Api, of: &Type, schemas: &mut Map<String, Value>) {
    for field in of.fields {
        if let Kind::Object(inner) | Kind::List(inner, _) = field.kind {
            schemas.insert(schema_name(api, inner.name), object(api, inner));
            add_schemas(api, inner, schemas);
        }
    }
}

fn schema_name(api: Api, name: &str) -> String {
    match (name, api) {
        (_, Api::Past) => format!("{}.{name}", past_prefix()),
        ("EventSeries", Api::Events) => format!("io.k8s.api.events.v1.{name}"),
        ("ObjectReference" | "EventSource" | "EventSeries", _) => {
            format!("io.k8s.api.core.v1.{name}")
        }
        _ => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
    }
}

/// The schema of an object.
fn object(api: Api, of: &Type) -> Value {
    let named = |it: &Field| (it.name().to_owned(), property(api, it));
    let properties: Value = of.fields.iter().map(named).collect();
    let required = of.fields.iter().filter(|it| it.rule == Rule::Required);
    let required: Vec<&str> = required.map(Field::name).collect();
    let mut schema = json!({"type": "object", "description": of.about, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if of.atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    schema
}

/// The schema of a field.
fn property(api: Api, field: &Field) -> Value {
    let reference = |name: &str| reference(&schema_name(api, name));
    let what = field.what;
    let other = |name: &str| json!({"allOf": [reference(name)], "description": what});
    match field.kind {
        Kind::Text => json!({"type": "string", "description": what}),
        Kind::Bool => json!({"type": "boolean", "description": what}),
        Kind::Int32 => json!({"type": "integer", "format": "int32", "description": what}),
        Kind::Int64 => json!({"type": "integer", "format": "int64", "description": what}),
        Kind::Time => other("Time"),
        Kind::MicroTime => other("MicroTime"),
        Kind::Json => other("FieldsV1"),
        Kind::Object(inner) => other(inner.name),
        Kind::Map => json!({
            "type": "object", "additionalProperties": {"type": "string", "default": ""}, "description": what,
        }),
        Kind::Set => json!({
            "type": "array", "items": {"type": "string", "default": ""}, "description": what,
            "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
        }),
        Kind::List(item, key) => {
            let mut list = json!({
                "type": "array", "items": {"allOf": [reference(item.name)], "default": {}}, "description": what,
                "x-kubernetes-list-type": if key.is_some() { "map" } else { "atomic" },
            });
            if let Some(key) = key {
                list["x-kubernetes-list-map-keys"] = json!([key]);
                list["x-kubernetes-patch-merge-key"] = json!(key);
                list["x-kubernetes-patch-strategy"] = json!("merge");
            }
            list
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protobuf message that gnostic writes for the document below, except for extensions,
    /// which gnostic writes with YAML's line breaks.
    const WRITTEN: &[u8] =
        b"\n\x032.0\x12\x06\n\x01T\x12\x011B\xac\x02\x12\xa9\x02\n\x09/a/{name}\x12\
            \x9b\x02B\xec\x012\x10application/json:\x10application/jsonB%\n#\n!\x12\x04b\
            ody\x1a\x04body \x01*\x11\n\x0f#/definitions/AB,\n*\x12(\x1a&\x12\x05query\
            \x1a\nNo effect.\"\x06dryRun2\x06string\xa0\x01\x01J$\n\"\n\x03200\x12\x1b\n\
            \x19\n\x02OK\x12\x13\n\x11\n\x0f#/definitions/AjK\n\x1fx-kubernetes-group-ve\
            rsion-kind\x12(\x12&{\"group\":\"\",\"kind\":\"A\",\"version\":\"v1\"}J*\n(\
            \x12&\"$\x08\x01\x12\x04path\x1a\x09Its name.\"\x04name*\x06string\x98\x01\
            \x01J\xa4\x01\n\xa1\x01\n\x01A\x12\x9b\x01\"\x05An A.\x9a\x01\x01n\xb2\x01\
            \x08\n\x06object\xca\x01\x81\x01\n%\n\x01l\x12 \xb2\x01\x07\n\x05array\xba\
            \x01\x13\n\x11\n\x0f#/definitions/A\n \n\x01m\x12\x1b\xaa\x01\x0d\n\x0b\xb2\
            \x01\x08\n\x06string\xb2\x01\x08\n\x06object\n\x18\n\x01n\x12\x13\x12\x05int\
            32\xb2\x01\x09\n\x07integer\n\x1c\n\x01o\x12\x17\n\x0f#/definitions/A\"\x04O\
            ne.";

    #[test]
    fn version_2_says_what_version_3_says() {
        let to_a = reference("A");
        let document = json!({
            "info": {"title": "T", "version": "1"},
            "paths": {"/a/{name}": {
                "parameters": [{
                    "name": "name", "in": "path", "required": true, "description": "Its name.",
                    "schema": {"type": "string", "uniqueItems": true},
                }],
                "patch": {
                    "parameters": [{
                        "name": "dryRun", "in": "query", "description": "No effect.",
                        "schema": {"type": "string", "uniqueItems": true},
                    }],
                    "requestBody": {"content": {"application/json": {"schema": to_a}}},
                    "responses": {"200": {
                        "description": "OK", "content": {"application/json": {"schema": to_a}},
                    }},
                    "x-kubernetes-group-version-kind": {"group": "", "kind": "A", "version": "v1"},
                },
            }},
            "components": {"schemas": {"A": {
                "type": "object", "description": "An A.", "required": ["n"],
                "properties": {
                    "l": {"type": "array", "items": {"allOf": [to_a], "default": {}}},
                    "m": {
                        "type": "object", "additionalProperties": {"type": "string", "default": ""},
                    },
                    "n": {"type": "integer", "format": "int32"},
                    "o": {"allOf": [to_a], "description": "One."},
                },
            }}},
        });
        let to_a = json!({"$ref": "#/definitions/A"});
        let expected = json!({
            "swagger": "2.0",
            "info": {"title": "T", "version": "1"},
            "paths": {"/a/{name}": {
                "parameters": [{
                    "name": "name", "in": "path", "required": true, "description": "Its name.",
                    "type": "string", "uniqueItems": true,
                }],
                "patch": {
                    "consumes": ["application/json"],
                    "produces": ["application/json"],
                    "parameters": [
                        {"name": "body", "in": "body", "required": true, "schema": to_a},
                        {
                            "name": "dryRun", "in": "query", "description": "No effect.",
                            "type": "string", "uniqueItems": true,
                        },
                    ],
                    "responses": {"200": {"description": "OK", "schema": to_a}},
                    "x-kubernetes-group-version-kind": {"group": "", "kind": "A", "version": "v1"},
                },
            }},
            "definitions": {"A": {
                "type": "object", "description": "An A.", "required": ["n"],
                "properties": {
                    "l": {"type": "array", "items": to_a},
                    "m": {"type": "object", "additionalProperties": {"type": "string"}},
                    "n": {"type": "integer", "format": "int32"},
                    "o": {"$ref": "#/definitions/A", "description": "One."},
                },
            }},
        });
        let joined = v2::joined(&[document]);
        assert_eq!(joined, expected);
        let written = gnostic::encode(&joined);
        assert_eq!(
            written.escape_ascii().to_string(),
            WRITTEN.escape_ascii().to_string()
        );
    }

    /// kubectl ignores a document that refers to an unknown type.
    #[test]
    fn every_type_that_version_2_refers_to_is_there() {
        for documents in [VERSIONS.map(document).to_vec(), vec![document(Api::Past)]] {
            let document = v2::joined(&documents);
            let text = document.to_string();
            let mut references = text.split("\"#/definitions/").skip(1).peekable();
            assert!(references.peek().is_some());
            for reference in references {
                let name = reference.split('"').next().unwrap_or_default();
                assert!(document["definitions"][name].is_object(), "{name}");
            }
        }
    }
}
