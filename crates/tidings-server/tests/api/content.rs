//! Forms of bodies and answers, unknown paths, and authentication.

use axum::body::Body;
use http::{Method, Request};
use k8s_pb::api::core::v1::Event;
use prost::Message;
use serde_json::{Value, json};
use tidings_api::codec::protobuf;
use tidings_api::codec::stored::put_bytes;
use tidings_core::fields::Kind;
use tidings_store::NewRecord;

use crate::support::{Server, event};

const SHOP: &str = "/api/v1/namespaces/shop/events";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[tokio::test]
async fn nobody_is_anonymous() {
    let server = Server::new();
    for header in [
        None,
        Some("Bearer wrong"),
        Some("Basic YTpi"),
        Some("Bearer"),
    ] {
        for path in [
            SHOP,
            "/api",
            "/nowhere",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz/store",
        ] {
            let mut request = Request::get(path);
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let answer = server.send(request.body(Body::empty()).unwrap()).await;
            let status = answer.expect(401);
            assert_eq!(
                (&status["reason"], &status["message"]),
                (&json!("Unauthorized"), &json!("Unauthorized"))
            );
        }
    }
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/readyz?verbose",
        "/version",
    ] {
        let answer = server
            .send(Request::get(path).body(Body::empty()).unwrap())
            .await;
        assert_eq!(answer.code, 200, "{path}");
    }
}

#[tokio::test]
async fn paths_and_methods_that_are_none() {
    let server = Server::new();
    for (method, path, code) in [
        (Method::GET, "/api/v1/pods", 404),
        (Method::GET, "/api/v2", 404),
        (Method::GET, "/apis/apps/v2", 404),
        (Method::GET, "/apis/apps/v1/deployments", 404),
        (Method::GET, "/api/v1/namespaces/shop/events/a/status", 404),
        (Method::GET, "/api/v1/namespaces/shop/events/a", 404),
        (Method::GET, "/api/v1/namespaces/shop/events/a%2Fb", 404),
        (Method::POST, "/api/v1/events", 405),
        (Method::DELETE, "/api/v1/events", 405),
        (Method::PUT, SHOP, 405),
        (Method::POST, "/api/v1/namespaces/shop/events/a", 405),
    ] {
        let status = server
            .call(method.clone(), path, &[], "")
            .await
            .expect(code);
        assert_eq!(
            (&status["kind"], &status["code"]),
            (&json!("Status"), &json!(code)),
            "{method} {path}"
        );
    }
    // For unknown paths the answer is that of Go's HTTP server.
    for path in [
        "/apis/nothing",
        "/healthz/nothing",
        "/nothing",
        "//api/v1/events",
    ] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.code.as_u16(), answer.text()),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
    for path in [
        "/api/",
        "/api/v1/",
        "/apis/events.k8s.io/v1/events/",
        &format!("{SHOP}/"),
        "/version/",
        "/",
    ] {
        server.get(path).await.expect(200);
    }
    assert_eq!(server.call(Method::HEAD, SHOP, &[], "").await.code, 405);
    assert_eq!(server.call(Method::POST, "/apis", &[], "").await.code, 200);
}

/// Errors have the form that the client accepts.
#[tokio::test]
async fn errors_in_every_form() {
    let server = Server::new();
    let gone = &format!("{SHOP}/gone");
    for (accept, content_type) in [
        ("application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf",
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/json",
        ),
    ] {
        let answer = server.get_as(gone, accept).await;
        assert_eq!(answer.code, 404, "{accept}");
        assert_eq!(answer.header("content-type"), content_type, "{accept}");
        let message = b"events \"gone\" not found";
        let escaped = br#"events \"gone\" not found"#;
        let says = |text: &[u8]| answer.body.windows(text.len()).any(|part| part == text);
        assert!(says(message) || says(escaped), "{accept}");
    }
}

#[tokio::test]
async fn every_answer_has_the_common_headers() {
    let server = Server::new();
    for path in [SHOP, "/healthz", "/nowhere"] {
        let answer = server
            .call(Method::GET, path, &[("audit-id", "mine")], "")
            .await;
        assert_eq!(answer.header("audit-id"), "mine");
        assert_eq!(answer.header("cache-control"), "no-cache, private");
        assert_eq!(server.get(path).await.header("audit-id").len(), 36);
    }
}

#[tokio::test]
async fn tables() {
    let server = Server::new();
    server.create("shop", "web.1").await;
    let mut series = event("shop", "web.2");
    for (field, value) in [
        (
            "series",
            json!({"count": 3, "lastObservedTime": "2026-03-04T05:06:00.500000Z"}),
        ),
        ("eventTime", json!("2026-03-04T02:06:07.000000Z")),
        ("firstTimestamp", json!(null)),
        ("message", json!("  trimmed\n")),
        ("source", json!({})),
        ("reportingComponent", json!("example.com/controller")),
        ("reportingInstance", json!("controller-0")),
        ("action", json!("Restart")),
    ] {
        series[field] = value;
    }
    series["involvedObject"]["fieldPath"] = json!("spec.containers{web}");
    server.post(SHOP, &series).await.expect(201);
    let mut bare = event("default", "bare");
    bare.as_object_mut()
        .unwrap()
        .retain(|key, _| key == "metadata");
    bare["involvedObject"] = json!({"kind": "Node"});
    server
        .post("/api/v1/namespaces/default/events", &bare)
        .await
        .expect(201);

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let answer = server.get_as("/api/v1/events?limit=500", accept).await;
    assert_eq!(answer.header("content-type"), "application/json");
    let table = answer.expect(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    let columns: Vec<(&str, i64)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["priority"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("Last Seen", 0),
            ("Type", 0),
            ("Reason", 0),
            ("Object", 0),
            ("Subobject", 1),
            ("Source", 1),
            ("Message", 0),
            ("First Seen", 1),
            ("Count", 1),
            ("Name", 1),
        ]
    );
    let cells: Vec<&Value> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["cells"])
        .collect();
    assert_eq!(
        cells,
        [
            &json!([
                "<unknown>",
                "",
                "",
                "node",
                "",
                "",
                "",
                "<unknown>",
                1,
                "bare"
            ]),
            &json!([
                "7s",
                "Warning",
                "BackOff",
                "pod/web",
                "",
                "kubelet, node-1",
                "Back-off restarting failed container",
                "6m7s",
                7,
                "web.1"
            ]),
            &json!([
                "6s",
                "Warning",
                "BackOff",
                "pod/web",
                "spec.containers{web}",
                "example.com/controller, controller-0",
                "trimmed",
                "3h",
                3,
                "web.2"
            ]),
        ]
    );
    let object = &table["rows"][1]["object"];
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("web.1"))
    );
    assert!(object.get("message").is_none());
    let whole = server
        .get_as(&format!("{SHOP}?includeObject=Object"), accept)
        .await
        .expect(200);
    assert_eq!(
        whole["rows"][0]["object"]["message"],
        "Back-off restarting failed container"
    );
    let none = server
        .get_as(&format!("{SHOP}/web.1?includeObject=None"), accept)
        .await
        .expect(200);
    assert_eq!(none["rows"][0]["object"], json!(null));
    server
        .get_as(&format!("{SHOP}?includeObject=Half"), accept)
        .await
        .expect(400);
}

#[tokio::test]
async fn metadata_only() {
    let server = Server::new();
    server.create("shop", "web.1").await;
    let one = server
        .get_as(
            &format!("{SHOP}/web.1"),
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        )
        .await
        .expect(200);
    assert_eq!(one["kind"], "PartialObjectMetadata");
    assert_eq!(one.as_object().unwrap().len(), 3);
    let list = server
        .get_as(
            SHOP,
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )
        .await
        .expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"], one["metadata"]);
    server
        .get_as(
            SHOP,
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        )
        .await
        .expect(406);
}

#[tokio::test]
async fn yaml_both_ways() {
    let server = Server::new();
    let yaml = "apiVersion: v1\nkind: Event\nmetadata:\n  name: web.1\nmessage: |\n  two\n  lines\ncount: 3\n";
    let path = "/api/v1/namespaces/default/events";
    let created = server
        .call(
            Method::POST,
            path,
            &[("content-type", "application/yaml")],
            yaml,
        )
        .await
        .expect(201);
    assert_eq!(
        (&created["message"], &created["count"]),
        (&json!("two\nlines\n"), &json!(3))
    );
    let answer = server
        .get_as(&format!("{path}/web.1"), "application/yaml")
        .await;
    assert_eq!(answer.header("content-type"), "application/yaml");
    let read: Value = serde_saphyr::from_str(answer.text()).unwrap();
    assert_eq!(read, created);
}

/// The output of a probe is cut to a number of bytes, and Go does not check the texts of a message.
#[tokio::test]
async fn a_message_that_ends_within_a_character_is_kept() {
    let server = Server::new();
    let path = "/api/v1/namespaces/default/events";
    let mut raw = Event {
        metadata: Some(k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("web.1".into()),
            ..Default::default()
        }),
        ..Event::default()
    }
    .encode_to_vec();
    put_bytes(4, b"probe failed: caf\xc3", &mut raw);
    let body = protobuf::envelop_bytes("v1", "Event", &raw);
    let created = server
        .call(
            Method::POST,
            path,
            &[("content-type", PROTOBUF)],
            body.clone(),
        )
        .await
        .expect(201);
    assert_eq!(created["message"], "probe failed: caf\u{fffd}");

    // A kube-apiserver on the same etcd stores the bytes as they are.
    let record = NewRecord::new(body);
    server
        .store
        .create("default/web.2".into(), record)
        .await
        .unwrap();
    for query in ["", "?fieldSelector=type!=Normal"] {
        let list = server.get(&format!("{path}{query}")).await.expect(200);
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 2, "{query}");
        assert_eq!(items[1]["message"], created["message"], "{query}");
    }
}

#[tokio::test]
async fn protobuf_both_ways() {
    let server = Server::new();
    let mut known = event("shop", "web.1");
    known["eventTime"] = json!("2026-03-04T02:06:07.000001Z");
    for (field, value) in [
        ("reportingComponent", "c"),
        ("reportingInstance", "i"),
        ("action", "a"),
    ] {
        known[field] = json!(value);
    }
    server.post(SHOP, &known).await.expect(201);
    let answer = server
        .get_as(
            &format!("{SHOP}/web.1"),
            &format!("{PROTOBUF},application/json"),
        )
        .await;
    assert_eq!(
        (answer.code.as_u16(), answer.header("content-type")),
        (200, PROTOBUF)
    );
    // Magic, then the TypeMeta of a v1 Event.
    assert!(
        answer
            .body
            .starts_with(b"k8s\0\n\x0b\n\x02v1\x12\x05Event\x12")
    );

    // The event that was read is posted under another name, as client-go does, with every string
    // present.
    let body = answer.body.clone();
    let start = body
        .windows(5)
        .position(|window| window == b"web.1")
        .unwrap();
    let mut renamed = body;
    renamed[start..start + 5].copy_from_slice(b"web.2");
    let refused = server
        .call(
            Method::POST,
            SHOP,
            &[("content-type", PROTOBUF)],
            renamed.clone(),
        )
        .await;
    assert_eq!(refused.code, 500, "a resourceVersion was set");

    let minimal = Event {
        metadata: Some(k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("web.3".into()),
            generate_name: Some(String::new()),
            namespace: Some(String::new()),
            creation_timestamp: Some(k8s_pb::apimachinery::pkg::apis::meta::v1::Time::default()),
            ..Default::default()
        }),
        reason: Some("R".into()),
        message: Some(String::new()),
        count: Some(0),
        ..Event::default()
    };
    let raw = minimal.encode_to_vec();
    let mut body = b"k8s\0\n\x0b\n\x02v1\x12\x05Event\x12".to_vec();
    prost::encode_length_delimiter(raw.len(), &mut body).unwrap();
    body.extend(raw);
    body.extend(b"\x1a\0\"\0");
    let path = "/api/v1/namespaces/default/events";
    let created = server
        .call(Method::POST, path, &[("content-type", PROTOBUF)], body)
        .await
        .expect(201);
    assert_eq!(created["reason"], "R");
    assert!(created.get("message").is_none() && created.get("count").is_none());

    let list = server
        .get_as("/apis/events.k8s.io/v1/events", PROTOBUF)
        .await;
    assert!(list.body.starts_with(b"k8s\0"));
    for (body, code) in [
        (&b""[..], 400),
        (b"{}", 400),
        (b"k8s\0", 400),
        (b"k8s\0\xff", 400),
        (b"k8s\0\n\x0b\n\x02v1\x12\x05Event", 422),
    ] {
        let answer = server
            .call(Method::POST, path, &[("content-type", PROTOBUF)], body)
            .await;
        assert_eq!(answer.code.as_u16(), code, "{body:?}: {}", answer.text());
    }
    let answer = server
        .get_as(&format!("{SHOP}/web.1"), "application/cbor")
        .await;
    answer.expect(406);
    server
        .call(Method::POST, path, &[("content-type", "text/plain")], "x")
        .await
        .expect(415);
}

#[tokio::test]
async fn people_get_indented_json() {
    let server = Server::new();
    server.create("shop", "web.1").await;
    for (agent, query, lines) in [
        ("curl/8", "", 30),
        ("curl/8", "?pretty=false", 1),
        ("kubectl/v1", "", 1),
        ("x", "?pretty=true", 30),
        ("x", "?pretty", 1),
    ] {
        let answer = server
            .call(
                Method::GET,
                &format!("{SHOP}/web.1{query}"),
                &[("user-agent", agent)],
                "",
            )
            .await;
        assert_eq!(answer.json()["metadata"]["name"], "web.1");
        assert!(
            (answer.text().lines().count() > 1) == (lines > 1),
            "{agent} {query}: {}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn discovery() {
    let server = Server::new();
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    for (path, group) in [("/api", ""), ("/apis", "events.k8s.io")] {
        let answer = server.get_as(path, accept).await;
        assert_eq!(
            answer.header("content-type"),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        let groups = answer.expect(200);
        let name = groups["items"][0]["metadata"]["name"].as_str();
        assert_eq!(name.unwrap_or_default(), group);
        assert_eq!(
            groups["items"][0]["versions"][0]["resources"][0]["resource"],
            "events"
        );
        let etag = answer.header("etag").to_owned();
        let again = server
            .call(
                Method::GET,
                path,
                &[("accept", accept), ("if-none-match", &etag)],
                "",
            )
            .await;
        assert_eq!((again.code.as_u16(), again.body.len()), (304, 0));
    }
    assert_eq!(server.get("/api").await.json()["versions"], json!(["v1"]));
    assert_eq!(
        server.get("/apis").await.json()["groups"][0]["name"],
        "events.k8s.io"
    );
    for path in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let resources = server.get(path).await.json();
        assert_eq!(resources["resources"][0]["kind"], "Event");
    }
    let index = server.get("/openapi/v3").await.json();
    for (path, schema) in [
        ("api/v1", "io.k8s.api.core.v1.Event"),
        ("apis/events.k8s.io/v1", "io.k8s.api.events.v1.Event"),
    ] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
        let document = server.get(url).await.expect(200);
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            schemas[schema]["x-kubernetes-group-version-kind"][0]["kind"],
            "Event"
        );
        // The parts that applying clients read: atomic objects, and the merge keys of lists.
        let metadata = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"];
        assert_eq!(
            metadata["ownerReferences"]["x-kubernetes-list-map-keys"],
            json!(["uid"])
        );
        assert_eq!(metadata["finalizers"]["x-kubernetes-list-type"], "set");
        assert_eq!(
            schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"],
            "atomic"
        );
        let patch = format!("/{path}/namespaces/{{namespace}}/events/{{name}}");
        let patch = &document["paths"][&patch]["patch"];
        assert!(patch["requestBody"]["content"]["application/apply-patch+yaml"].is_object());
        assert_eq!(patch["requestBody"]["required"], json!(true));
        let declared = |path: &str, verb: &str| -> Vec<String> {
            let parameters = document["paths"][path][verb]["parameters"]
                .as_array()
                .unwrap();
            let shown = |it: &Value| format!("{}: {}", it["name"], it["schema"]["type"]);
            parameters
                .iter()
                .map(|it| shown(it).replace('"', ""))
                .collect()
        };
        let all = format!("/{path}/namespaces/{{namespace}}/events");
        let one = format!("{all}/{{name}}");
        for (path, verb, parameter, expected) in [
            (&one, "patch", "fieldValidation: string", true),
            (&one, "patch", "force: boolean", true),
            (&one, "put", "force: boolean", false),
            (&one, "get", "limit: integer", false),
            (&one, "delete", "gracePeriodSeconds: integer", true),
            (&all, "get", "limit: integer", true),
            (&all, "get", "watch: boolean", true),
            (&all, "delete", "labelSelector: string", true),
            (&all, "delete", "watch: boolean", false),
        ] {
            let declared = declared(path, verb);
            let found = declared.iter().any(|it| it == parameter);
            assert_eq!(
                found, expected,
                "{verb} {path}: {parameter} in {declared:?}"
            );
        }
        // Every field of the table is declared.
        let event = match path {
            "api/v1" => &tidings_core::fields::core_v1::EVENT,
            _ => &tidings_core::fields::events_v1::EVENT,
        };
        let mut types = vec![event];
        while let Some(of) = types.pop() {
            let suffix = format!(".{}", of.name);
            let mut schemas = schemas.as_object().unwrap().iter();
            let (_, schema) = schemas.find(|(name, _)| name.ends_with(&suffix)).unwrap();
            for field in of.fields {
                let declared = &schema["properties"][field.name()];
                assert_eq!(declared["description"], field.what, "{}", field.name());
                if let Kind::Object(inner) | Kind::List(inner, _) = field.kind {
                    types.push(inner);
                }
            }
        }
        // Every referenced type is defined.
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas[name].is_object(), "{name}");
        }
    }
}

/// The document that kubectl reads for a file of `kind: List`, and before 1.29 for every file.
#[tokio::test]
async fn openapi_version_2() {
    const JSON: &str = "application/json";
    const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let server = Server::new();
    let path = "/openapi/v2";
    for (accept, content_type) in [
        ("", JSON),
        (JSON, JSON),
        ("text/html,*/*;q=0.1", JSON),
        (ASKED, ANSWERED),
        (ANSWERED, ANSWERED),
    ] {
        let answer = server.get_as(path, accept).await;
        let shown = (answer.code.as_u16(), answer.header("content-type"));
        assert_eq!(shown, (200, content_type), "{accept}");
        assert_eq!(answer.header("vary"), "Accept");
        // kubectl caches the document, and a proxy may change its tag.
        let etag = answer.header("etag");
        let weak = format!("\"x\", W/{etag}");
        for (known, code) in [(etag, 304), (weak.as_str(), 304), ("\"x\"", 200)] {
            let headers = [("accept", accept), ("if-none-match", known)];
            let again = server.call(Method::GET, path, &headers, "").await;
            assert_eq!(again.code.as_u16(), code, "{known}");
            assert_eq!(again.body.is_empty(), code == 304, "{known}");
            assert_eq!(again.header("content-type").is_empty(), code == 304);
            assert_eq!(again.header("etag"), etag);
        }
    }
    assert_eq!(server.get_as(path, "text/html").await.code.as_u16(), 406);

    let document = server.get(path).await.json();
    for (group, version, schema) in [
        ("", "/api/v1", "io.k8s.api.core.v1.Event"),
        (
            "events.k8s.io",
            "/apis/events.k8s.io/v1",
            "io.k8s.api.events.v1.Event",
        ),
    ] {
        let kind = |kind: &str| json!({"group": group, "version": "v1", "kind": kind});
        let patch = format!("{version}/namespaces/{{namespace}}/events/{{name}}");
        let patch = &document["paths"][&patch]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind("Event"));
        let parameters = patch["parameters"].as_array().unwrap();
        for name in ["fieldValidation", "dryRun"] {
            let found = parameters.iter().find(|it| it["name"] == name);
            assert_eq!(found.unwrap()["in"], "query", "{name}");
        }
        let consumes = patch["consumes"].as_array().unwrap();
        assert!(consumes.contains(&json!("application/strategic-merge-patch+json")));
        for (schema, of) in [
            (schema.to_owned(), "Event"),
            (format!("{schema}List"), "EventList"),
        ] {
            let kinds = &document["definitions"][&schema]["x-kubernetes-group-version-kind"];
            assert_eq!(kinds, &json!([kind(of)]));
        }
    }
}
