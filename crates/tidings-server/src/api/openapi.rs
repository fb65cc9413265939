//! OpenAPI v3, as far as kubectl needs it: `create`, `apply` and `replace` look for the
//! `fieldValidation` parameter of a kind's PATCH, `explain` for the schema of a kind.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use super::body::encoded;
use crate::http::negotiate::Media;
use crate::http::params::{self, Verb};
use crate::http::status::Status;
use tidings_api::codec::Api;
use tidings_core::fields::{Field, Kind, Rule, Type};

/// Each version's document, in the order of [`VERSIONS`].
static DOCUMENTS: LazyLock<[String; 2]> =
    LazyLock::new(|| VERSIONS.map(|api| document(api).to_string()));
const VERSIONS: [Api; 2] = [Api::Core, Api::Events];

/// GET /openapi/v3
pub(crate) async fn index() -> impl IntoResponse {
    let entry = |(api, document): (Api, &String)| {
        let path = path(api);
        let hash = super::discovery::fingerprint(document.as_bytes());
        (
            path.to_owned(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash:X}")}),
        )
    };
    let documents = VERSIONS.into_iter().zip(&*DOCUMENTS);
    let paths: Map<String, Value> = documents.map(entry).collect();
    // Upstream sets no Content-Type here, and Go then detects plain text.
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (content_type, json!({"paths": paths}).to_string())
}

/// GET /openapi/v3/{path}
pub(crate) async fn version(Path(wanted): Path<String>) -> Result<Response, Status> {
    let mut documents = VERSIONS.into_iter().zip(&*DOCUMENTS);
    let found = documents.find(|(api, _)| path(*api) == wanted);
    let (_, document) = found.ok_or_else(Status::no_such_path)?;
    Ok(encoded(
        StatusCode::OK,
        Media::Json,
        document.clone().into_bytes(),
    ))
}

fn path(api: Api) -> &'static str {
    match api {
        Api::Core => "api/v1",
        Api::Events => "apis/events.k8s.io/v1",
    }
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

fn document(api: Api) -> Value {
    let kind = json!({"group": api.group(), "version": "v1", "kind": "Event"});
    let event_schema = match api {
        Api::Core => "io.k8s.api.core.v1.Event",
        Api::Events => "io.k8s.api.events.v1.Event",
    };
    let parameters = |verb| -> Value {
        let declared = params::of(verb).map(|parameter| {
            json!({
                "name": parameter.name, "in": "query", "description": parameter.about,
                "schema": {"type": parameter.kind.name(), "uniqueItems": true},
            })
        });
        declared.collect()
    };
    let content = |media: &[&str], schema: &str| -> Value {
        let schema = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
        let content: Map<String, Value> = media
            .iter()
            .map(|media| ((*media).to_owned(), schema.clone()))
            .collect();
        Value::Object(content)
    };
    let operation = |action: &str, verb, request: Option<Value>| -> Value {
        let mut operation = json!({
            "parameters": parameters(verb),
            "responses": {"200": {"description": "OK", "content": content(&BODIES, event_schema)}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        });
        if let Some(request) = request {
            operation["requestBody"] = json!({"content": request});
        }
        operation
    };
    let event = || Some(content(&BODIES, event_schema));
    let base = format!("/{}/namespaces/{{namespace}}/events", path(api));
    let paths = json!({
        &base: {
            "get": operation("list", Verb::List, None),
            "post": operation("post", Verb::Create, event()),
            "delete": operation("deletecollection", Verb::DeleteCollection, None),
        },
        format!("{base}/{{name}}"): {
            "get": operation("get", Verb::Get, None),
            "put": operation("put", Verb::Update, event()),
            "patch": operation("patch", Verb::Patch, Some(content(&PATCHES, PATCH_SCHEMA))),
            "delete": operation("delete", Verb::Delete, None),
        },
    });
    let mut schemas = schemas(api);
    let mut event = object(api, api.event());
    event["properties"]["apiVersion"] = json!({"type": "string", "description": api.api_version()});
    event["properties"]["kind"] = json!({"type": "string", "description": "Event"});
    event["x-kubernetes-group-version-kind"] = json!([kind]);
    schemas.insert(event_schema.into(), event);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "tidings"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The schemas of an event's types.
fn schemas(api: Api) -> Map<String, Value> {
    let mut schemas = Map::new();
    add_schemas(api, api.event(), &mut schemas);
    for name in ["Time", "MicroTime"] {
        schemas.insert(
            schema_name(api, name),
            json!({"type": "string", "format": "date-time"}),
        );
    }
    schemas.insert(
        schema_name(api, "FieldsV1"),
        json!({"type": "object", "description": "A set of fields, as a tree of f:, k: and v: keys."}),
    );
    schemas.insert(
        PATCH_SCHEMA.into(),
        json!({"type": "object", "description": "A patch."}),
    );
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
        ("EventSeries", Api::Events) => format!("io.k8s.api.events.v1.{name}"),
        ("ObjectReference" | "EventSource" | "EventSeries", _) => {
            format!("io.k8s.api.core.v1.{name}")
        }
        _ => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
    }
}

/// The schema of an object.
fn object(api: Api, of: &Type) -> Value {
    let properties: Map<String, Value> = of
        .fields
        .iter()
        .map(|field| (field.name().to_owned(), property(api, field)))
        .collect();
    let required: Vec<&str> = of
        .fields
        .iter()
        .filter(|field| field.rule == Rule::Required)
        .map(Field::name)
        .collect();
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
    let reference =
        |name: &str| json!({"$ref": format!("#/components/schemas/{}", schema_name(api, name))});
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
