//! OpenAPI v3, as far as kubectl reads it: `create`, `apply` and `replace` look for the `fieldValidation` parameter of a
//! kind's PATCH, `explain` for the schema of a kind.

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

/// The schemas of what all kinds have: `ObjectMeta` and what it consists of, times and patches.
const META_SCHEMAS: &str = include_str!("meta_schemas.json");

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
    // Upstream does not say that it is JSON, and Go then finds plain text.
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
    let required: &[&str] = match api {
        Api::Core => &["metadata", "involvedObject"],
        Api::Events => &["eventTime"],
    };
    let mut event = object(
        api,
        "A report of something that happened to an object, kept for a limited time.",
        event_fields(api),
        required,
    );
    event["x-kubernetes-group-version-kind"] = json!([kind]);
    schemas.insert(event_schema.into(), event);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "tidings"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

type Field = (&'static str, &'static str, &'static str);

fn event_fields(api: Api) -> &'static [Field] {
    match api {
        Api::Core => &[
            ("apiVersion", "string", "v1"),
            ("kind", "string", "Event"),
            (
                "metadata",
                "ObjectMeta",
                "Name, namespace, labels and the like.",
            ),
            (
                "involvedObject",
                "ObjectReference",
                "The object the event is about.",
            ),
            (
                "reason",
                "string",
                "Why the event happened, in one word for machines.",
            ),
            ("message", "string", "What happened, in words for humans."),
            ("source", "EventSource", "Who reported the event."),
            ("firstTimestamp", "Time", "When the event was first seen."),
            ("lastTimestamp", "Time", "When the event was last seen."),
            ("count", "int32", "How often the event was seen."),
            ("type", "string", "Normal or Warning."),
            (
                "eventTime",
                "MicroTime",
                "When the event was first observed.",
            ),
            (
                "series",
                "EventSeries",
                "The repetitions of the event, if it repeats.",
            ),
            (
                "action",
                "string",
                "What was done, or failed to be done, to the object.",
            ),
            (
                "related",
                "ObjectReference",
                "Another object that took part.",
            ),
            (
                "reportingComponent",
                "string",
                "The controller that reported the event, e.g. kubernetes.io/kubelet.",
            ),
            (
                "reportingInstance",
                "string",
                "Which instance of that controller.",
            ),
        ],
        Api::Events => &[
            ("apiVersion", "string", "events.k8s.io/v1"),
            ("kind", "string", "Event"),
            (
                "metadata",
                "ObjectMeta",
                "Name, namespace, labels and the like.",
            ),
            (
                "eventTime",
                "MicroTime",
                "When the event was first observed.",
            ),
            (
                "series",
                "EventSeries",
                "The repetitions of the event, if it repeats.",
            ),
            (
                "reportingController",
                "string",
                "The controller that reported the event, e.g. kubernetes.io/kubelet.",
            ),
            (
                "reportingInstance",
                "string",
                "Which instance of that controller.",
            ),
            (
                "action",
                "string",
                "What was done, or failed to be done, to the object.",
            ),
            (
                "reason",
                "string",
                "Why it was done, in one word for machines.",
            ),
            (
                "regarding",
                "ObjectReference",
                "The object the event is about.",
            ),
            (
                "related",
                "ObjectReference",
                "Another object that took part.",
            ),
            ("note", "string", "What happened, in words for humans."),
            ("type", "string", "Normal or Warning."),
            (
                "deprecatedSource",
                "EventSource",
                "Who reported the event, in core/v1's form.",
            ),
            (
                "deprecatedFirstTimestamp",
                "Time",
                "When the event was first seen, in core/v1's form.",
            ),
            (
                "deprecatedLastTimestamp",
                "Time",
                "When the event was last seen, in core/v1's form.",
            ),
            (
                "deprecatedCount",
                "int32",
                "How often the event was seen, in core/v1's form.",
            ),
        ],
    }
}

/// A type of an event's own, what it is, its fields, those that are required, and whether it is owned as a whole.
type Table = (
    &'static str,
    &'static str,
    &'static [Field],
    &'static [&'static str],
    bool,
);

const TABLES: [Table; 3] = [
    (
        "ObjectReference",
        "Points at an object, or at a part of it.",
        &[
            ("apiVersion", "string", "The version of the object's API."),
            ("kind", "string", "The object's kind."),
            ("namespace", "string", "The object's namespace."),
            ("name", "string", "The object's name."),
            ("uid", "string", "The object's uid."),
            (
                "resourceVersion",
                "string",
                "The version of the object the event is about.",
            ),
            (
                "fieldPath",
                "string",
                "The part of the object, e.g. spec.containers{web}.",
            ),
        ],
        &[],
        true,
    ),
    (
        "EventSource",
        "Who reported an event.",
        &[
            ("component", "string", "The program."),
            ("host", "string", "The node it runs on."),
        ],
        &[],
        false,
    ),
    (
        "EventSeries",
        "The repetitions of an event.",
        &[
            ("count", "int32", "How often it was seen so far."),
            ("lastObservedTime", "MicroTime", "When it was last seen."),
        ],
        &[],
        false,
    ),
];

fn schemas(api: Api) -> Map<String, Value> {
    // A test reads it.
    let mut schemas: Map<String, Value> = serde_json::from_str(META_SCHEMAS).unwrap_or_default();
    schemas.extend(
        TABLES
            .into_iter()
            .map(|(name, what, fields, required, atomic)| {
                let required = match (name, api) {
                    ("EventSeries", Api::Events) => &["count", "lastObservedTime"],
                    _ => required,
                };
                let mut schema = object(api, what, fields, required);
                if atomic {
                    schema["x-kubernetes-map-type"] = "atomic".into();
                }
                (schema_name(api, name), schema)
            }),
    );
    schemas
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

/// The schema of an object. A field's kind is a JSON type or a type's name.
fn object(api: Api, what: &str, fields: &[Field], required: &[&str]) -> Value {
    let property = |kind: &str, what: &str| match kind {
        "string" => json!({"type": kind, "description": what}),
        "int32" => json!({"type": "integer", "format": kind, "description": what}),
        name => {
            let reference = format!("#/components/schemas/{}", schema_name(api, name));
            json!({"allOf": [{"$ref": reference}], "description": what})
        }
    };
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, kind, what)| ((*name).to_owned(), property(kind, what)))
        .collect();
    if required.is_empty() {
        json!({"type": "object", "description": what, "properties": properties})
    } else {
        json!({"type": "object", "description": what, "properties": properties, "required": required})
    }
}
