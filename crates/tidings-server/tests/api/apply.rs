//! Server-side apply over HTTP, and the managedFields of other writes. tidings-api tests the
//! ownership of fields.

use http::Method;
use serde_json::{Value, json};
use tidings_server::{ApiOptions, ManagedFields};

use crate::support::{Answer, Server, event, events};

const WEB: &str = "/api/v1/namespaces/shop/events/web.1";
const WEB_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events/web.1";

fn tracking() -> Server {
    let mut options = ApiOptions::default();
    options.managed_fields = ManagedFields::Always;
    Server::with(options)
}

async fn apply(server: &Server, uri: &str, config: &str) -> Answer {
    let headers = [("content-type", "application/apply-patch+yaml")];
    server
        .call(Method::PATCH, uri, &headers, config.to_owned())
        .await
}

fn config(members: &Value) -> String {
    let mut config = json!({"apiVersion": "v1", "kind": "Event"});
    let all = config.as_object_mut().unwrap();
    all.extend(members.as_object().unwrap().clone());
    config.to_string()
}

/// The managers of an event, each as `name operation`.
fn managers(event: &Value) -> Vec<String> {
    let entries = event["metadata"]["managedFields"].as_array();
    let name = |entry: &Value| {
        format!(
            "{} {}",
            entry["manager"].as_str().unwrap(),
            entry["operation"].as_str().unwrap()
        )
    };
    entries.into_iter().flatten().map(name).collect()
}

#[tokio::test]
async fn apply_creates_changes_and_removes() {
    let server = Server::new();
    let yaml = "apiVersion: v1\nkind: Event\nmetadata:\n  name: web.1\n  labels: {tier: web}\ninvolvedObject: {kind: Pod, \
                namespace: shop, name: web}\nreason: Tested\ncount: 5\n";
    let uri = format!("{WEB}?fieldManager=ann");
    let dry = apply(&server, &format!("{uri}&dryRun=All"), yaml).await;
    assert_eq!(dry.expect(201)["metadata"].get("resourceVersion"), None);
    server.get(WEB).await.expect(404);
    let created = apply(&server, &uri, yaml).await.expect(201);
    assert_eq!(created["reason"], "Tested");
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "ann", "operation": "Apply", "apiVersion": "v1", "time": "2026-03-04T05:06:07Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:count": {}, "f:involvedObject": {}, "f:metadata": {"f:labels": {"f:tier": {}}}, "f:reason": {}},
        }])
    );
    assert_eq!(server.get(WEB).await.expect(200), created);

    // A repeated apply does not write, at any time.
    server.clock.advance(5000);
    assert_eq!(apply(&server, &uri, yaml).await.expect(200), created);

    // Fields of another manager, and fields that are no longer applied.
    let theirs = config(&json!({"metadata": {"name": "web.1"}, "count": 6}));
    let bob = format!("{WEB}?fieldManager=bob");
    let status = apply(&server, &bob, &theirs).await.expect(409);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "Apply failed with 1 conflict: conflict with \"ann\": .count",
            "details": {"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"ann\"", "field": ".count"}]},
        })
    );
    let forced = apply(&server, &format!("{bob}&force=true"), &theirs).await;
    assert_eq!(forced.expect(200)["count"], 6);
    let object = json!({"kind": "Pod", "namespace": "shop", "name": "web"});
    let less = json!({"metadata": {"name": "web.1"}, "involvedObject": object});
    let less = apply(&server, &uri, &config(&less)).await.expect(200);
    assert_eq!(less["metadata"].get("labels"), None);
    assert_eq!(less.get("reason"), None);
    assert_eq!(
        (&less["involvedObject"], &less["count"]),
        (&object, &json!(6))
    );
    assert_eq!(managers(&less), ["ann Apply", "bob Apply"]);
    // After an update, the field belongs to the updater.
    let patched = server
        .patch(
            "merge",
            &format!("{WEB}?fieldManager=cat"),
            &json!({"count": 7}),
        )
        .await;
    assert_eq!(managers(&patched.expect(200)), ["ann Apply", "cat Update"]);
}

#[tokio::test]
async fn what_apply_refuses() {
    let server = Server::new();
    server.create("shop", "web.1").await;
    let new = format!("{}/new", events("shop"));
    let by = |uri: &str| format!("{uri}?fieldManager=ann");
    for (uri, body, code, message) in [
        (
            WEB.to_owned(),
            config(&json!({})),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (by(WEB), "[]".into(), 400, "error decoding YAML: "),
        (by(WEB), "a: b: c".into(), 400, "error decoding YAML: "),
        (by(WEB), String::new(), 400, "invalid object type: /, Kind="),
        (
            by(WEB_EVENTS),
            config(&json!({})),
            400,
            "invalid object type: /v1, Kind=Event",
        ),
        (
            by(WEB),
            config(&json!({"metadata": {"managedFields": []}})),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            by(WEB),
            config(&json!({"colour": 1})),
            500,
            "failed to create typed patch object (/; /v1, Kind=Event): .colour: field not declared in schema",
        ),
        (
            by(WEB),
            config(&json!({"count": 5_000_000_000_i64})),
            500,
            "failed to convert new object (/; /v1, Kind=Event) to proper version: ",
        ),
        (
            by(WEB),
            config(&json!({"metadata": {"name": "other"}})),
            400,
            "the name of the object (other) does not match the name on the URL (web.1)",
        ),
        (
            by(&new),
            config(&json!({})),
            400,
            "the name of the object (new based on URL) was undeterminable: name must be provided",
        ),
        (
            by(&new),
            config(&json!({"metadata": {"name": "new", "uid": "u"}})),
            409,
            "Operation cannot be fulfilled on events \"new\": uid mismatch: the provided object specified uid u, and no existing \
             object was found",
        ),
        (
            by(WEB),
            config(&json!({"metadata": {"namespace": "bank"}})),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            by(WEB),
            config(&json!({"metadata": {"resourceVersion": "77"}})),
            409,
            "Operation cannot be fulfilled on events \"web.1\": the object has been modified",
        ),
        (
            by(WEB),
            config(&json!({"metadata": {"uid": "other"}})),
            422,
            "Event \"web.1\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable",
        ),
        (
            format!("{}&fieldValidation=Strict", by(WEB)),
            "apiVersion: v1\nkind: Event\nreason: A\nreason: A\n".into(),
            400,
            "error strict decoding YAML: ",
        ),
    ] {
        // The test ignores the managers.
        let uri = if uri == WEB {
            uri
        } else {
            format!("{uri}&force=true")
        };
        let status = apply(&server, &uri, &body).await.expect(code);
        let found = status["message"].as_str().unwrap();
        assert!(found.starts_with(message), "{body}: {found}");
    }
    let forced = server
        .patch("merge", &format!("{WEB}?force=true"), &json!({}))
        .await;
    assert_eq!(forced.expect(422)["details"]["causes"][0]["field"], "force");
    // The last value of a duplicate key is used, with a warning.
    let twice = "apiVersion: v1\nkind: Event\nmessage: A\nmessage: B\n";
    let twice = apply(&server, &format!("{}&force=true", by(WEB)), twice).await;
    assert_eq!(twice.expect(200)["message"], "B");
    assert!(twice.header("warning").contains("message"));
    // JSON that is not valid YAML.
    let crab = r#"{"apiVersion":"v1","kind":"Event","message":"\ud83e\udd80"}"#;
    let crab = apply(&server, &format!("{}&force=true", by(WEB)), crab).await;
    assert_eq!(crab.expect(200)["message"], "🦀");
}

#[tokio::test]
async fn of_several_documents_the_first_is_applied() {
    let server = Server::new();
    server.create("shop", "web.1").await;
    let uri = format!("{WEB}?fieldManager=ann&force=true");
    let own = "apiVersion: v1\nkind: Event\nmessage: mine\n";
    for config in [
        format!("{own}---\n"),
        format!("---\n{own}---\nmessage: other\n"),
        format!("{own}...\n---\n{own}message: twice\n"),
    ] {
        let applied = apply(&server, &uri, &config).await.expect(200);
        assert_eq!(applied["message"], "mine", "{config}");
    }
}

#[tokio::test]
async fn every_write_is_tracked_if_so_asked() {
    let server = tracking();
    let posted = server
        .call(
            Method::POST,
            &events("shop"),
            &[("user-agent", "probe/1.0 (linux)")],
            event("shop", "web.1").to_string(),
        )
        .await
        .expect(201);
    assert_eq!(managers(&posted), ["probe Update"]);
    let mut changed = event("shop", "web.1");
    changed["message"] = json!("other");
    let put = server
        .put(&format!("{WEB}?fieldManager=editor"), &changed)
        .await
        .expect(200);
    assert_eq!(managers(&put), ["editor Update", "probe Update"]);
    // A change without effect does not write, and adds no manager.
    let same = server
        .put(&format!("{WEB}?fieldManager=idler"), &changed)
        .await
        .expect(200);
    assert_eq!(same, put);
    let listed = server.get(&events("shop")).await.expect(200);
    assert_eq!(
        listed["items"][0]["metadata"]["managedFields"],
        put["metadata"]["managedFields"]
    );
    // A client may rewrite or remove managedFields.
    let moved = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [
        {"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:reason": {}}},
    ]}]);
    let moved = server.patch("json", WEB, &moved).await.expect(200);
    assert_eq!(managers(&moved), ["z Apply"]);
    let reset = json!({"metadata": {"managedFields": [{}]}});
    let reset = server.patch("merge", WEB, &reset).await.expect(200);
    assert_eq!(reset["metadata"].get("managedFields"), None);
    let created = server
        .put(&format!("{}/new", events("shop")), &event("shop", "new"))
        .await;
    assert_eq!(managers(&created.expect(201)), ["unknown Update"]);
}

#[tokio::test]
async fn simultaneous_applies_all_count() {
    let server = Server::new();
    let applies = (0..16).map(|n| {
        let config = config(&json!({"metadata": {
            "name": "web.1", "labels": {format!("l{n}"): "x"},
        }, "involvedObject": {"namespace": "shop"}}));
        let server = &server;
        async move {
            apply(server, &format!("{WEB}?fieldManager=m{n}"), &config)
                .await
                .code
        }
    });
    let codes = futures::future::join_all(applies).await;
    assert_eq!(
        codes.iter().filter(|code| **code == 201).count(),
        1,
        "{codes:?}"
    );
    let event = server.get(WEB).await.json();
    assert_eq!(event["metadata"]["labels"].as_object().unwrap().len(), 16);
    assert_eq!(managers(&event).len(), 16);
}
