//! OpenAPI v3, as far as kubectl reads it: `create`, `apply` and `replace` look for the `fieldValidation` parameter of a
//! kind's PATCH, `explain` for the schema of a kind.

use axum::Json;
use axum::extract::Path;
use serde_json::{Map, Value, json};

use crate::codec::Api;
use crate::error::Status;

/// GET /openapi/v3
pub(crate) async fn index() -> Json<Value> {
    let entry = |api: Api| {
        let path = path(api);
        let hash = super::discovery::fingerprint(document(api).to_string().as_bytes());
        (
            path.to_owned(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash:X}")}),
        )
    };
    let paths: Map<String, Value> = [Api::Core, Api::Events].map(entry).into_iter().collect();
    Json(json!({"paths": paths}))
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
const PATCHES: [&str; 3] = [
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
            operation.insert("parameters".into(), write_parameters.clone());
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
    let mut schemas = schemas();
    let mut event = object(
        "A report of something that happened to an object, kept for a limited time.",
        event_fields(api),
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
            ("count", "integer", "How often the event was seen."),
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
                "integer",
                "How often the event was seen, in core/v1's form.",
            ),
        ],
    }
}

fn schemas() -> Map<String, Value> {
    let tables: [(&str, &str, &[Field]); 4] = [
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
        ),
        (
            "EventSource",
            "Who reported an event.",
            &[
                ("component", "string", "The program."),
                ("host", "string", "The node it runs on."),
            ],
        ),
        (
            "EventSeries",
            "The repetitions of an event.",
            &[
                ("count", "integer", "How often it was seen so far."),
                ("lastObservedTime", "MicroTime", "When it was last seen."),
            ],
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
                ("generation", "integer", "Unused by events."),
                ("creationTimestamp", "Time", "Set by the server."),
                (
                    "deletionTimestamp",
                    "Time",
                    "Set by the server when finalizers hold back a delete.",
                ),
                (
                    "deletionGracePeriodSeconds",
                    "integer",
                    "Set by the server.",
                ),
                (
                    "finalizers",
                    "strings",
                    "What has to be done before a delete.",
                ),
                (
                    "ownerReferences",
                    "objects",
                    "The objects this one belongs to.",
                ),
                ("managedFields", "objects", "Accepted and not kept."),
                ("selfLink", "string", "Accepted and not kept."),
            ],
        ),
    ];
    let mut schemas: Map<String, Value> = tables
        .into_iter()
        .map(|(name, what, fields)| (schema_name(name), object(what, fields)))
        .collect();
    for name in ["Time", "MicroTime"] {
        schemas.insert(
            schema_name(name),
            json!({"type": "string", "format": "date-time"}),
        );
    }
    schemas
}

fn schema_name(name: &str) -> String {
    match name {
        "ObjectMeta" | "Time" | "MicroTime" => {
            format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")
        }
        _ => format!("io.k8s.api.core.v1.{name}"),
    }
}

fn object(what: &str, fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, kind, what)| {
            let schema = match *kind {
                "string" => json!({"type": "string", "description": what}),
                "integer" => json!({"type": "integer", "format": "int64", "description": what}),
                "map" => json!({"type": "object", "additionalProperties": {"type": "string"}, "description": what}),
                "strings" => json!({"type": "array", "items": {"type": "string"}, "description": what}),
                "objects" => json!({"type": "array", "items": {"type": "object"}, "description": what}),
                reference => json!({
                    "allOf": [{"$ref": format!("#/components/schemas/{}", schema_name(reference))}],
                    "description": what,
                }),
            };
            ((*name).to_owned(), schema)
        })
        .collect();
    json!({"type": "object", "description": what, "properties": properties})
}
