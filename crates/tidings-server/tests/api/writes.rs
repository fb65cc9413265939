//! Create, update, patch and delete.

use http::Method;
use serde_json::{Value, json};
use tidings_server::ApiOptions;

use crate::support::{Server, event, events};

const SHOP: &str = "/api/v1/namespaces/shop/events";
const WEB: &str = "/api/v1/namespaces/shop/events/web.1";

/// An event with every field of both versions.
fn full() -> Value {
    let reference = json!({
        "kind": "Pod", "namespace": "shop", "name": "web", "uid": "u1", "apiVersion": "v1", "resourceVersion": "12",
        "fieldPath": "spec.containers{web}",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": "web.1",
            "namespace": "shop",
            "labels": {"a": "b"},
            "annotations": {"note": "<&>\u{2028}"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1", "controller": false, "blockOwnerDeletion": true},
            ],
        },
        "involvedObject": reference,
        "reason": "BackOff",
        "message": "line one\nline two \u{1f980}",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2026-03-04T05:00:00Z",
        "lastTimestamp": "2026-03-04T05:06:00Z",
        "count": 7,
        "type": "Warning",
        "eventTime": "2026-03-04T05:00:00.000120Z",
        "series": {"count": 9, "lastObservedTime": "2026-03-04T05:06:00.999999Z"},
        "action": "Restart",
        "related": reference,
        "reportingComponent": "example.com/kubelet",
        "reportingInstance": "node-1",
    })
}

#[tokio::test]
async fn what_is_posted_comes_back() {
    let server = Server::new();
    let bare = json!({
        "metadata": {"name": "bare", "namespace": "default"},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": null,
        "lastTimestamp": null,
        "eventTime": null,
        "reportingComponent": "",
        "reportingInstance": "",
    });
    for (path, posted) in [(SHOP, full()), ("/api/v1/namespaces/default/events", bare)] {
        let created = server.post(path, &posted).await.expect(201);
        let name = posted["metadata"]["name"].as_str().unwrap();
        let mut read = server.get(&format!("{path}/{name}")).await.expect(200);
        assert_eq!(created, read);
        let metadata = read["metadata"].as_object_mut().unwrap();
        assert_eq!(
            metadata.remove("creationTimestamp"),
            Some(json!("2026-03-04T05:06:07Z"))
        );
        assert_eq!(metadata.remove("uid").unwrap().as_str().unwrap().len(), 36);
        assert!(metadata.remove("resourceVersion").is_some());
        let read = read.as_object_mut().unwrap();
        if posted.get("kind").is_none() {
            assert_eq!(
                (read.remove("kind"), read.remove("apiVersion")),
                (Some(json!("Event")), Some(json!("v1")))
            );
        }
        assert_eq!(&Value::Object(read.clone()), &posted);
    }
}

/// The exact bytes, because Go's encoding has rules for order, escapes, and fields that are always
/// present.
#[tokio::test]
async fn output_is_written_as_go_does() {
    let server = Server::new();
    let small = json!({"metadata": {"name": "a", "uid": "mine"}, "message": "<&>"});
    let answer = server
        .post("/api/v1/namespaces/default/events", &small)
        .await;
    let uid = answer.json()["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_ne!(uid, "mine");
    let core = format!(
        "{{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"default\",\
         \"uid\":\"{uid}\",\"resourceVersion\":\"2\",\"creationTimestamp\":\"2026-03-04T05:06:07Z\"}},\
         \"involvedObject\":{{}},\"message\":\"\\u003c\\u0026\\u003e\",\"source\":{{}},\"firstTimestamp\":null,\
         \"lastTimestamp\":null,\"eventTime\":null,\"reportingComponent\":\"\",\"reportingInstance\":\"\"}}\n"
    );
    assert_eq!(answer.text(), core);
    let events = format!(
        "{{\"kind\":\"Event\",\"apiVersion\":\"events.k8s.io/v1\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"default\",\
         \"uid\":\"{uid}\",\"resourceVersion\":\"2\",\"creationTimestamp\":\"2026-03-04T05:06:07Z\"}},\
         \"eventTime\":null,\"regarding\":{{}},\"note\":\"\\u003c\\u0026\\u003e\",\"deprecatedSource\":{{}},\
         \"deprecatedFirstTimestamp\":null,\"deprecatedLastTimestamp\":null}}\n"
    );
    let answer = server
        .get("/apis/events.k8s.io/v1/namespaces/default/events/a")
        .await;
    assert_eq!(answer.text(), events);
}

#[tokio::test]
async fn both_versions_are_one_object() {
    let server = Server::new();
    server.post(SHOP, &full()).await.expect(201);
    let event = server
        .get("/apis/events.k8s.io/v1/namespaces/shop/events/web.1")
        .await
        .expect(200);
    let core = server.get(WEB).await.expect(200);
    assert_eq!(event["metadata"], core["metadata"]);
    for (events_name, core_name) in [
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("reportingController", "reportingComponent"),
        ("reportingInstance", "reportingInstance"),
        ("series", "series"),
        ("eventTime", "eventTime"),
        ("related", "related"),
        ("action", "action"),
        ("reason", "reason"),
        ("type", "type"),
    ] {
        assert_eq!(event[events_name], core[core_name], "{events_name}");
    }
}

#[tokio::test]
async fn bodies_that_are_refused() {
    let server = Server::new();
    server.create("shop", "taken").await;
    let with = |pointer: &str, value: Value| {
        let mut event = event("shop", "x");
        match pointer.rsplit_once('/') {
            Some((parent, key)) => event.pointer_mut(parent).unwrap()[key] = value,
            None => event = value,
        }
        event.to_string()
    };
    for (body, code, message) in [
        (
            "{".to_owned(),
            400,
            "the object provided is unrecognized (must be of type Event): couldn't get version/kind; json parse error: \
             unexpected end of JSON input ({)",
        ),
        (
            "[]".into(),
            400,
            "json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string",
        ),
        (
            format!("{} x", with("/reason", json!("a"))),
            400,
            "json parse error: invalid character 'x' after top-level value",
        ),
        (
            with("/reason", json!(5)),
            400,
            "json: cannot unmarshal number into Go struct field Event.reason of type string",
        ),
        (
            with("/count", json!("5")),
            400,
            "json: cannot unmarshal string into Go struct field Event.count of type int32",
        ),
        (
            with("/count", json!(3_000_000_000_u32)),
            400,
            "json: cannot unmarshal number 3000000000 into Go struct field Event.count of type int32",
        ),
        (
            with("/count", json!(1.5)),
            400,
            "json: cannot unmarshal number 1.5 into Go struct field Event.count of type int32",
        ),
        (
            with("/metadata/labels", json!({"a": 1})),
            400,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            with("/eventTime", json!("2026-03-04T05:00:00Z")),
            400,
            "cannot parse \"Z\" as \".000000\"",
        ),
        (
            with("/firstTimestamp", json!("yesterday")),
            400,
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
        ),
        (
            with("/kind", json!("Pod")),
            400,
            "Pod in version \"v1\" cannot be handled as a Event",
        ),
        (
            with("/apiVersion", json!("v2")),
            400,
            "no kind \"Event\" is registered for version \"v2\"",
        ),
        (
            with("/metadata/namespace", json!("bank")),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            with("/metadata/resourceVersion", json!("5")),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            with("/metadata/name", json!("taken")),
            409,
            "events \"taken\" already exists",
        ),
        (
            with("/metadata/name", json!("a/b")),
            422,
            "Event \"a/b\" is invalid: metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            with("/metadata/name", json!(null)),
            422,
            "Event \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            with("/involvedObject/namespace", json!("bank")),
            422,
            "Event \"x\" is invalid: involvedObject.namespace: Invalid value: \"bank\": does not match event.namespace",
        ),
    ] {
        let answer = server.call(Method::POST, SHOP, &[], body.clone()).await;
        let status = answer.expect(code);
        assert_eq!(status["kind"], "Status", "{body}");
        assert_eq!(status["code"], code, "{body}");
        let found = status["message"].as_str().unwrap();
        assert!(found.contains(message), "{found}");
    }
    assert_eq!(
        server.get(SHOP).await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_status_names_causes_and_details() {
    let server = Server::new();
    let mut strict = json!({
        "metadata": {"name": "x"}, "eventTime": "2026-03-04T05:00:00.000000Z", "type": "Odd", "reason": "R", "action": "A",
        "reportingController": "c", "reportingInstance": "i", "deprecatedCount": 1,
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let status = server.post(path, &strict).await.expect(422);
    assert_eq!(status["reason"], "Invalid");
    assert_eq!(
        status["details"],
        json!({"name": "x", "kind": "Event", "causes": [
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"\": has invalid value: Odd", "field": "type"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"\": needs to be unset", "field": "count"},
        ]})
    );
    strict["type"] = json!("Normal");
    strict.as_object_mut().unwrap().remove("deprecatedCount");
    server.post(path, &strict).await.expect(201);
    let status = server.post(path, &strict).await.expect(409);
    assert_eq!(status["reason"], "AlreadyExists");
    assert_eq!(
        status["message"],
        "events.events.k8s.io \"x\" already exists"
    );
    assert_eq!(
        status["details"],
        json!({"name": "x", "group": "events.k8s.io", "kind": "events"})
    );
    // Through this version only the series of such an event may change.
    let changed = json!({"note": "other", "series": {"count": 2, "lastObservedTime": "2026-03-04T05:00:01.000000Z"}});
    let status = server
        .patch("merge", &format!("{path}/x"), &changed)
        .await
        .expect(422);
    assert_eq!(status["details"]["causes"][0]["field"], "message");
    let changed = json!({"series": changed["series"]});
    server
        .patch("strategic-merge", &format!("{path}/x"), &changed)
        .await
        .expect(200);
}

#[tokio::test]
async fn names_are_generated() {
    let server = Server::new();
    let long = "x".repeat(100);
    for (base, stem) in [("web-", "web-"), (long.as_str(), &long[..58])] {
        let mut posted = event("shop", "");
        posted["metadata"] = json!({"generateName": base});
        let created = server.post(SHOP, &posted).await.expect(201);
        let name = created["metadata"]["name"].as_str().unwrap();
        assert_eq!(name.strip_prefix(stem).unwrap().len(), 5, "{name}");
    }
}

/// As in kube-apiserver, only the base decides; clients recognise this error by its words.
#[tokio::test]
async fn a_taken_name_with_a_base_of_names_is_told_as_one_that_was_generated() {
    let server = Server::new();
    let mut posted = event("shop", "web.1");
    posted["metadata"]["generateName"] = json!("web-");
    posted["metadata"]["finalizers"] = json!(["example.com/archive"]);
    server.post(SHOP, &posted).await.expect(201);
    let taken = "events \"web.1\" already exists, the server was not able to generate a unique \
                 name for the object";
    let deleted = format!("object is being deleted: {taken}");
    for message in [taken, &deleted] {
        for uri in [SHOP.to_owned(), format!("{SHOP}?dryRun=All")] {
            let answer = server.post(&uri, &posted).await;
            let status = answer.expect(409);
            assert_eq!(status["message"], message, "{uri}");
            assert_eq!(status["details"]["retryAfterSeconds"], 1, "{uri}");
            assert_eq!(answer.header("retry-after"), "1", "{uri}");
        }
        server.delete(WEB).await.expect(200);
    }
}

#[tokio::test]
async fn unknown_fields() {
    let server = Server::new();
    let body =
        r#"{"metadata":{"name":"w","name":"x","colour":1},"extra":{"deep":[]},"managedFields":1}"#;
    let path = "/api/v1/namespaces/default/events?dryRun=All&fieldValidation=";
    let strict = server
        .call(Method::POST, &format!("{path}Strict"), &[], body)
        .await
        .expect(400);
    let message = strict["message"].as_str().unwrap();
    for expected in [
        "strict decoding error: ",
        "unknown field \"extra\"",
        "unknown field \"metadata.colour\"",
        "duplicate field \"metadata.name\"",
    ] {
        assert!(message.contains(expected), "{message}");
    }
    let warned = server
        .call(Method::POST, &format!("{path}Warn"), &[], body)
        .await;
    warned.expect(201);
    let warnings: Vec<&str> = warned
        .headers
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    assert!(
        warnings.contains(&"299 - \"unknown field \\\"metadata.colour\\\"\""),
        "{warnings:?}"
    );
    assert!(
        server
            .call(Method::POST, &format!("{path}Ignore"), &[], body)
            .await
            .headers
            .get("warning")
            .is_none()
    );
    server
        .call(Method::POST, &format!("{path}Maybe"), &[], body)
        .await
        .expect(422);
    // Fields that a server sets are known, and are dropped if they are not stored.
    let mut known = event("default", "known");
    known["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    known["metadata"]["selfLink"] = json!("/x");
    let created = server
        .post(
            "/api/v1/namespaces/default/events?fieldValidation=Strict",
            &known,
        )
        .await
        .expect(201);
    assert!(
        created["metadata"].get("managedFields").is_none()
            && created["metadata"].get("selfLink").is_none()
    );
}

#[tokio::test]
async fn put_replaces_or_creates() {
    let server = Server::new();
    let mut event = event("shop", "web.1");
    event["metadata"]["resourceVersion"] = json!("77");
    let created = server.put(WEB, &event).await.expect(201);
    event["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    event["count"] = json!(8);
    let replaced = server.put(WEB, &event).await.expect(200);
    assert_eq!(replaced["count"], 8);
    assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(
        replaced["metadata"]["creationTimestamp"],
        created["metadata"]["creationTimestamp"]
    );

    event["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let status = server.put(WEB, &event).await.expect(409);
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on events \"web.1\": the object has been modified; please apply your changes to the \
         latest version and try again"
    );
    event["metadata"]["resourceVersion"] = json!("x");
    server.put(WEB, &event).await.expect(400);
    event["metadata"] = json!({"name": "other"});
    let status = server.put(WEB, &event).await.expect(400);
    assert_eq!(
        status["message"],
        "the name of the object (other) does not match the name on the URL (web.1)"
    );
    event["metadata"] = json!({"name": "web.1", "uid": "another"});
    server.put(WEB, &event).await.expect(409);
    event["metadata"] = json!({"name": "gone", "uid": "another"});
    server
        .put(&format!("{SHOP}/gone"), &event)
        .await
        .expect(409);
}

#[tokio::test]
async fn patches() {
    let server = Server::new();
    let created = server.create("shop", "web.1").await;
    let merged = server
        .patch(
            "merge",
            WEB,
            &json!({"count": 8, "metadata": {"labels": {"a": "b"}}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&merged["count"], &merged["metadata"]["labels"]),
        (&json!(8), &json!({"a": "b"}))
    );
    let repeat = json!({"count": 9, "lastTimestamp": "2026-03-04T05:07:00Z", "message": "again"});
    let repeated = server
        .patch("strategic-merge", WEB, &repeat)
        .await
        .expect(200);
    assert_eq!(
        (&repeated["count"], &repeated["message"]),
        (&json!(9), &json!("again"))
    );
    let operations = json!([{"op": "test", "path": "/count", "value": 9}, {"op": "remove", "path": "/metadata/labels"}]);
    let patched = server.patch("json", WEB, &operations).await.expect(200);
    assert!(patched["metadata"].get("labels").is_none());
    assert_eq!(patched["metadata"]["uid"], created["metadata"]["uid"]);

    for (kind, path, patch, code) in [
        (
            "merge",
            &format!("{SHOP}/gone")[..],
            json!({"count": 1}),
            404,
        ),
        (
            "strategic-merge",
            &format!("{SHOP}/gone"),
            json!({"count": 1}),
            404,
        ),
        ("json", &format!("{SHOP}/gone"), json!([]), 404),
        ("json", WEB, operations, 422),
        ("json", WEB, json!({}), 400),
        ("merge", WEB, json!([]), 400),
        ("merge", WEB, json!({"count": "many"}), 422),
        (
            "merge",
            WEB,
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
        ),
        ("merge", WEB, json!({"metadata": {"name": "other"}}), 400),
        ("merge", WEB, json!({"metadata": {"name": null}}), 400),
        (
            "merge",
            WEB,
            json!({"metadata": {"namespace": "bank"}}),
            400,
        ),
        ("merge", WEB, json!({"metadata": {"uid": "other"}}), 422),
        ("strategic-merge", WEB, json!({"$patch": "explode"}), 500),
        ("odd", WEB, json!({}), 415),
    ] {
        server.patch(kind, path, &patch).await.expect(code);
    }
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_none() {
    let server = Server::new();
    let created = server.create("shop", "web.1").await;
    server.clock.advance(1000);
    let same = server
        .patch("merge", WEB, &json!({"count": 7}))
        .await
        .expect(200);
    assert_eq!(same, created);
    assert_eq!(
        server.put(WEB, &event("shop", "web.1")).await.expect(200),
        created
    );
    assert_eq!(
        server.get(SHOP).await.json()["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn events_end_an_hour_after_the_last_write() {
    const MINUTE: i64 = 60_000;
    let server = Server::new();
    server.create("shop", "web.1").await;
    server.clock.advance(59 * MINUTE);
    server
        .patch("merge", WEB, &json!({"count": 8}))
        .await
        .expect(200);
    server.clock.advance(59 * MINUTE);
    // This patch changes nothing, so it does not restart the TTL.
    server
        .patch("merge", WEB, &json!({"count": 8}))
        .await
        .expect(200);
    server.clock.advance(MINUTE);
    server.get(WEB).await.expect(404);
    server
        .patch("merge", WEB, &json!({"count": 9}))
        .await
        .expect(404);
    server.create("shop", "web.1").await;
}

#[tokio::test]
async fn delete() {
    let server = Server::new();
    let uid = server.create("shop", "web.1").await["metadata"]["uid"].clone();
    let delete = async |body: Value| {
        server
            .call(Method::DELETE, WEB, &[], body.to_string())
            .await
    };
    delete(json!({"preconditions": {"uid": "other"}}))
        .await
        .expect(409);
    delete(json!({"preconditions": {"resourceVersion": "99"}}))
        .await
        .expect(409);
    delete(json!({"kind": "Pod"})).await.expect(400);
    delete(json!({"dryRun": ["Some"]})).await.expect(422);
    delete(json!({"dryRun": ["All"]})).await.expect(200);
    let status = delete(json!({"propagationPolicy": "Background", "preconditions": {"uid": uid}}))
        .await
        .expect(200);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "web.1", "kind": "events", "uid": uid},
        })
    );
    let status = server.delete(WEB).await.expect(404);
    assert_eq!(status["message"], "events \"web.1\" not found");
    assert_eq!(status["reason"], "NotFound");
}

#[tokio::test]
async fn finalizers_hold_a_delete_back() {
    let server = Server::new();
    let mut held = event("shop", "web.1");
    held["metadata"]["finalizers"] = json!(["example.com/archive"]);
    server.post(SHOP, &held).await.expect(201);
    let deleted = server.delete(WEB).await.expect(200);
    assert_eq!(
        deleted["metadata"]["deletionTimestamp"],
        "2026-03-04T05:06:07Z"
    );
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    server.clock.advance(2 * 3_600_000);
    server.get(WEB).await.expect(200);
    server
        .patch("merge", WEB, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    server.get(WEB).await.expect(404);
}

#[tokio::test]
async fn finalizers_of_the_garbage_collector_hold_nothing_back() {
    let server = Server::new();
    let mut held = event("shop", "web.1");
    held["metadata"]["finalizers"] = json!(["orphan"]);
    server.post(SHOP, &held).await.expect(201);
    assert_eq!(server.delete(WEB).await.expect(200)["status"], "Success");
    server.get(WEB).await.expect(404);

    held["metadata"]["finalizers"] = json!(["foregroundDeletion", "example.com/archive"]);
    server.post(SHOP, &held).await.expect(201);
    server.delete(WEB).await.expect(200);
    let waiting = server.get(WEB).await.expect(200);
    let left = json!(["example.com/archive"]);
    assert_eq!(waiting["metadata"]["finalizers"], left);
    let again = server.post(SHOP, &held).await.expect(409);
    let message = "object is being deleted: events \"web.1\" already exists";
    assert_eq!(again["message"], message);
}

#[tokio::test]
async fn what_is_created_has_no_version_yet() {
    let server = Server::new();
    for (version, code) in [("0", 201), ("latest", 201), ("7", 500)] {
        let mut sent = event("shop", version);
        sent["metadata"]["resourceVersion"] = version.into();
        server.post(SHOP, &sent).await.expect(code);
        // Validation comes before admission.
        sent["involvedObject"]["namespace"] = "bank".into();
        server.post(SHOP, &sent).await.expect(422);
    }
}

#[tokio::test]
async fn events_of_the_newer_group_have_finalizers_with_a_domain() {
    let server = Server::new();
    let uri = "/apis/events.k8s.io/v1/namespaces/shop/events";
    let mut sent = json!({
        "metadata": {"name": "web.1", "finalizers": ["orphan", "archive"]},
        "eventTime": "2026-03-04T05:00:00.000000Z",
        "reportingController": "example.com/controller",
        "reportingInstance": "controller-0",
        "action": "Restart",
        "reason": "BackOff",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "web"},
        "type": "Warning",
    });
    let status = server.post(uri, &sent).await.expect(422);
    let causes = &status["details"]["causes"];
    assert_eq!(causes[0]["field"], "metadata.finalizers[1]");
    assert_eq!(causes[1], Value::Null);
    sent["metadata"]["finalizers"] = json!(["orphan"]);
    server.post(uri, &sent).await.expect(201);
    let patch = json!({"metadata": {"finalizers": ["archive"]}});
    let newer = format!("{uri}/web.1");
    server.patch("merge", &newer, &patch).await.expect(422);
    server.patch("merge", WEB, &patch).await.expect(200);
}

#[tokio::test]
async fn the_last_day_of_all_is_a_time() {
    let server = Server::new();
    let mut last = event("shop", "web.1");
    last["lastTimestamp"] = "9999-12-31T23:59:59Z".into();
    server.post(SHOP, &last).await.expect(201);
    let patch = json!({"deprecatedLastTimestamp": null});
    let newer = "/apis/events.k8s.io/v1/namespaces/shop/events/web.1";
    // The field was set, and must not change.
    let status = server.patch("merge", newer, &patch).await.expect(422);
    assert!(
        status["message"].to_string().contains("lastTimestamp"),
        "{status}"
    );
}

#[tokio::test]
async fn owners_are_kept_once() {
    let server = Server::new();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "1"});
    let mut twice = event("shop", "web.1");
    // Only equal owners are repeated ones, not all with the same uid.
    twice["metadata"]["ownerReferences"] = json!([owner("a"), owner("b"), owner("a")]);
    let created = server.post(SHOP, &twice).await;
    let kept = json!([owner("a"), owner("b")]);
    assert_eq!(created.expect(201)["metadata"]["ownerReferences"], kept);
    let warning = created.header("warning").to_owned();
    assert!(
        warning.contains("duplicate UID(s) observed: 1"),
        "{warning}"
    );
    let patched = server
        .patch("merge", WEB, &json!({"metadata": twice["metadata"]}))
        .await;
    assert_eq!(patched.expect(200)["metadata"]["ownerReferences"], kept);
    let warning = patched.header("warning").to_owned();
    assert!(warning.contains("after mutating admission"), "{warning}");
}

#[tokio::test]
async fn options_that_are_not_accepted_are_all_named() {
    let server = Server::new();
    let uri = format!(
        "{SHOP}?fieldManager={}&dryRun=Some&fieldValidation=Maybe",
        "x".repeat(129)
    );
    let status = server.post(&uri, &event("shop", "x")).await.expect(422);
    assert_eq!(
        status["details"],
        json!({"group": "meta.k8s.io", "kind": "CreateOptions", "causes": [
            {"reason": "FieldValueTooLong", "message": "Too long: may not be more than 128 bytes", "field": "fieldManager"},
            {"reason": "FieldValueNotSupported", "message": "Unsupported value: [\"Some\"]: supported values: \"All\"", "field": "dryRun"},
            {"reason": "FieldValueNotSupported", "field": "fieldValidation",
             "message": "Unsupported value: \"Maybe\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""},
        ]})
    );
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let server = Server::new();
    let created = server
        .post(&format!("{SHOP}?dryRun=All"), &event("shop", "web.1"))
        .await
        .expect(201);
    assert!(created["metadata"].get("resourceVersion").is_none());
    server.get(WEB).await.expect(404);
    server.create("shop", "web.1").await;
    server
        .post(&format!("{SHOP}?dryRun=All"), &event("shop", "web.1"))
        .await
        .expect(409);
    let patched = server
        .patch("merge", &format!("{WEB}?dryRun=All"), &json!({"count": 99}))
        .await
        .expect(200);
    assert_eq!(patched["count"], 99);
    assert_eq!(server.get(WEB).await.json()["count"], 7);
    server
        .post(&format!("{SHOP}?dryRun=Some"), &event("shop", "y"))
        .await
        .expect(422);
}

#[tokio::test]
async fn simultaneous_patches_are_all_applied() {
    let server = Server::new();
    server.create("shop", "web.1").await;
    let patches = (0..32).map(|n| {
        let label = json!({"metadata": {"labels": {format!("l{n}"): "x"}}});
        let server = &server;
        async move { server.patch("merge", WEB, &label).await.expect(200) }
    });
    futures::future::join_all(patches).await;
    assert_eq!(
        server.get(WEB).await.json()["metadata"]["labels"]
            .as_object()
            .unwrap()
            .len(),
        32
    );
}

#[tokio::test]
async fn bodies_are_limited() {
    let server = Server::new();
    let mut large = event("shop", "x");
    large["message"] = json!("x".repeat(3 * 1024 * 1024));
    let status = server.post(&events("shop"), &large).await.expect(413);
    assert_eq!(
        status["message"],
        "Request entity too large: limit is 3145728"
    );
    let long = event("shop", &"x".repeat(1100));
    server.post(&events("shop"), &long).await.expect(413);
    let mut options = ApiOptions::default();
    options.request_bytes_max = 100;
    let status = Server::with(options)
        .post(&events("shop"), &event("shop", "x"))
        .await
        .expect(413);
    assert_eq!(status["message"], "Request entity too large: limit is 100");
}

/// The answer may need a question to a cluster, which would block a thread for long bodies.
#[tokio::test]
async fn a_review_of_access_is_short() {
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let server = Server::new();
    for (len, code) in [(60 * 1024, 201), (70 * 1024, 413)] {
        let review = json!({
            "metadata": {"annotations": {"a": "x".repeat(len)}},
            "spec": {"nonResourceAttributes": {"verb": "get", "path": "/api"}},
        });
        server.post(REVIEWS, &review).await.expect(code);
    }
}
