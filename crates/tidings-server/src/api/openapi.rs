//! OpenAPI v3, as far as kubectl reads it: `create`, `apply` and `replace` look for the `fieldValidation` parameter of a
//! kind's PATCH, `explain` for the schema of a kind.

use axum::Json;
use axum::extract::Path;
use axum::response::IntoResponse;
use http::header;
use serde_json::{Map, Value, json};

use crate::http::status::Status;
use tidings_api::codec::Api;

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
    if let Some(event) = event.as_object_mut() {
        event.insert("x-kubernetes-group-version-kind".into(), json!([kind]));
    }
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

/// A type, what it is, its fields, those that are required, and whether it is owned as a whole.
type Table = (
    &'static str,
    &'static str,
    &'static [Field],
    &'static [&'static str],
    bool,
);

const TABLES: [Table; 6] = [
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
    (
        "ObjectMeta",
        "What all objects have in common.",
        &[
            ("name", "string", "Unique within the namespace."),
            (
                "generateName",
                "string",
                "What the name is made from if none is given.",
            ),
            ("namespace", "string", "Where the object lives."),
            ("labels", "map", "What the object can be selected by."),
            ("annotations", "map", "What tools keep with the object."),
            ("uid", "string", "Set by the server."),
            ("resourceVersion", "string", "Set by the server."),
            ("generation", "int64", "Unused by events."),
            ("creationTimestamp", "Time", "Set by the server."),
            (
                "deletionTimestamp",
                "Time",
                "Set by the server when finalizers hold back a delete.",
            ),
            ("deletionGracePeriodSeconds", "int64", "Set by the server."),
            ("finalizers", "set", "What has to be done before a delete."),
            (
                "ownerReferences",
                "OwnerReference[uid]",
                "The objects this one belongs to.",
            ),
            (
                "managedFields",
                "ManagedFieldsEntry[]",
                "Who manages which fields, once somebody applied the object.",
            ),
            ("selfLink", "string", "Accepted and not kept."),
        ],
        &[],
        false,
    ),
    (
        "OwnerReference",
        "An object that another belongs to.",
        &[
            ("apiVersion", "string", "The version of the owner's API."),
            ("kind", "string", "The owner's kind."),
            ("name", "string", "The owner's name."),
            ("uid", "string", "The owner's uid."),
            (
                "controller",
                "boolean",
                "Whether the owner is the controller.",
            ),
            (
                "blockOwnerDeletion",
                "boolean",
                "Whether the owner waits for this object when it is deleted.",
            ),
        ],
        &["apiVersion", "kind", "name", "uid"],
        true,
    ),
    (
        "ManagedFieldsEntry",
        "What one manager manages.",
        &[
            ("manager", "string", "Who manages the fields."),
            ("operation", "string", "How: Apply or Update."),
            (
                "apiVersion",
                "string",
                "The version whose names the fields have.",
            ),
            ("time", "Time", "When the manager last changed a field."),
            ("fieldsType", "string", "FieldsV1."),
            ("fieldsV1", "FieldsV1", "The fields."),
            ("subresource", "string", "Unused by events."),
        ],
        &[],
        false,
    ),
];

fn schemas(api: Api) -> Map<String, Value> {
    let mut schemas: Map<String, Value> = TABLES
        .into_iter()
        .map(|(name, what, fields, required, atomic)| {
            let required = match (name, api) {
                ("EventSeries", Api::Events) => &["count", "lastObservedTime"],
                _ => required,
            };
            let mut schema = object(api, what, fields, required);
            if let Some(schema) = schema.as_object_mut().filter(|_| atomic) {
                schema.insert("x-kubernetes-map-type".into(), json!("atomic"));
            }
            (schema_name(api, name), schema)
        })
        .collect();
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

fn schema_name(api: Api, name: &str) -> String {
    match (name, api) {
        ("EventSeries", Api::Events) => format!("io.k8s.api.events.v1.{name}"),
        ("ObjectReference" | "EventSource" | "EventSeries", _) => {
            format!("io.k8s.api.core.v1.{name}")
        }
        _ => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
    }
}

/// The schema of an object. A field's kind is a JSON type, `map` (of strings), `set` (of strings), a type's name, or a
/// list of a type's, with the key of its items if it has one.
fn object(api: Api, what: &str, fields: &[Field], required: &[&str]) -> Value {
    let reference =
        |name: &str| json!({"$ref": format!("#/components/schemas/{}", schema_name(api, name))});
    let property = |kind: &str, what: &str| match kind {
        "string" | "boolean" => json!({"type": kind, "description": what}),
        "int32" | "int64" => json!({"type": "integer", "format": kind, "description": what}),
        "map" => json!({
            "type": "object", "additionalProperties": {"type": "string", "default": ""}, "description": what,
        }),
        "set" => json!({
            "type": "array", "items": {"type": "string", "default": ""}, "description": what,
            "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
        }),
        list if list.ends_with(']') => {
            let (item, key) = list
                .trim_end_matches(']')
                .split_once('[')
                .unwrap_or((list, ""));
            let items = json!({"allOf": [reference(item)], "default": {}});
            if key.is_empty() {
                json!({
                    "type": "array", "items": items, "description": what, "x-kubernetes-list-type": "atomic",
                })
            } else {
                json!({
                    "type": "array", "items": items, "description": what, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": [key], "x-kubernetes-patch-merge-key": key,
                    "x-kubernetes-patch-strategy": "merge",
                })
            }
        }
        name => json!({"allOf": [reference(name)], "description": what}),
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
