//! OpenAPI v3, as far as kubectl reads it: `create`, `apply` and `replace` look for the `fieldValidation` parameter of a
//! kind's PATCH, `explain` for the schema of a kind.

use axum::Json;
use axum::extract::Path;
use axum::response::IntoResponse;
use http::header;
use serde_json::{Map, Value, json};

use crate::http::status::Status;
use tidings_api::codec::Api;
use tidings_core::fields::{Field, Kind, Rule, Type};

/// GET /openapi/v3
pub(crate) async fn index() -> impl IntoResponse {
    let entry = |api: Api| {
        let path = path(api);
        let hash = super::discovery::fingerprint(document(api).to_string().as_bytes());
        (
            path.to_owned(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash:X}")}),
        )
    };
    let paths: Map<String, Value> = [Api::Core, Api::Events].map(entry).into_iter().collect();
    // Upstream does not say that it is JSON, and Go then finds plain text.
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (content_type, json!({"paths": paths}).to_string())
}

/// GET /openapi/v3/{path}
pub(crate) async fn version(Path(wanted): Path<String>) -> Result<Json<Value>, Status> {
    [Api::Core, Api::Events]
        .into_iter()
        .find(|api| path(*api) == wanted)
        .map(|api| Json(document(api)))
        .ok_or_else(Status::no_such_path)
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
    let parameter = |name: &str, what: &str| json!({"name": name, "in": "query", "description": what, "schema": {"type": "string", "uniqueItems": true}});
    let write_parameters = json!([
        parameter("dryRun", "When it is All, nothing is stored."),
        parameter("fieldManager", "Who makes this change."),
        parameter(
            "fieldValidation",
            "What becomes of unknown fields: Ignore, Warn or Strict."
        ),
    ]);
    let content = |media: &[&str], schema: &str| -> Value {
        let schema = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
        let content: Map<String, Value> = media
            .iter()
            .map(|media| ((*media).to_owned(), schema.clone()))
            .collect();
        Value::Object(content)
    };
    let operation = |action: &str, request: Option<Value>| -> Value {
        let mut operation = json!({
            "responses": {"200": {"description": "OK", "content": content(&BODIES, event_schema)}},
            "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": kind,
        });
        if let (Some(request), Some(operation)) = (request, operation.as_object_mut()) {
            let mut parameters = write_parameters.clone();
            if action == "patch"
                && let Some(parameters) = parameters.as_array_mut()
            {
                parameters.push(json!({
                    "name": "force", "in": "query",
                    "description": "An apply takes the fields that others manage.",
                    "schema": {"type": "boolean", "uniqueItems": true},
                }));
            }
            operation.insert("parameters".into(), parameters);
            operation.insert("requestBody".into(), json!({"content": request}));
        }
        operation
    };
    let base = format!("/{}/namespaces/{{namespace}}/events", path(api));
    let paths = json!({
        &base: {
            "get": operation("list", None),
            "post": operation("post", Some(content(&BODIES, event_schema))),
        },
        format!("{base}/{{name}}"): {
            "get": operation("get", None),
            "put": operation("put", Some(content(&BODIES, event_schema))),
            "patch": operation("patch", Some(content(&PATCHES, PATCH_SCHEMA))),
            "delete": operation("delete", None),
        },
    });
    let mut schemas = schemas(api);
    let mut event = object(api, api.event());
    event["properties"]["apiVersion"] = json!({"type": "string", "description": api.api_version()});
    event["properties"]["kind"] = json!({"type": "string", "description": "Event"});
    event["x-kubernetes-group-version-kind"] = json!([kind]);
    schemas.insert(event_schema.into(), event);
    schemas.insert(
        PATCH_SCHEMA.into(),
        json!({"type": "object", "description": "A patch."}),
    );
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "tidings"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The schemas of the types that an event is made of.
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
