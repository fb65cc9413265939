//! Requests of two sizes, whose cost must grow in proportion to the size.

use std::fmt::Write;

use http::Method;
use serde_json::{Value, json};

use crate::Sent;

/// Columns: a name, the smaller size, accepted status codes, and the requests of a given size, of
/// which the last one is measured.
type Case = (&'static str, usize, &'static [u16], fn(usize) -> Vec<Sent>);

const EVENT: &str = "/api/v1/namespaces/shop/events/web.1";
const EVENTS: &str = "/api/v1/namespaces/shop/events";
const APPLY: &str = "/api/v1/namespaces/shop/events/web.1?fieldManager=m";

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLIED: &str = "application/apply-patch+yaml";

fn event(metadata: &Value) -> Value {
    let mut event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web"},
        "type": "Normal",
    });
    for (name, value) in metadata.as_object().unwrap() {
        event["metadata"][name] = value.clone();
    }
    event
}

fn text(value: &Value) -> String {
    value.to_string()
}

fn create(metadata: &Value) -> Sent {
    Sent::new(Method::POST, EVENTS, text(&event(metadata)))
}

fn patch(kind: &str, body: impl Into<Vec<u8>>) -> Sent {
    Sent::new(Method::PATCH, EVENT, body).header("content-type", kind)
}

fn apply(metadata: &Value) -> Sent {
    Sent::new(Method::PATCH, APPLY, text(&event(metadata))).header("content-type", APPLIED)
}

fn get(query: &str) -> Sent {
    Sent::new(Method::GET, format!("{EVENTS}?{query}"), "")
}

fn each<T: Into<Value>>(size: usize, make: impl Fn(usize) -> T) -> Value {
    (0..size)
        .map(|number| make(number).into())
        .collect::<Vec<Value>>()
        .into()
}

fn finalizers(size: usize) -> Value {
    each(size, |number| format!("example.com/f{number}"))
}

fn many(size: usize, make: impl Fn(usize) -> String) -> String {
    (0..size).map(make).collect::<Vec<_>>().join(",")
}

fn lines(size: usize, make: impl Fn(usize) -> String) -> String {
    (0..size).map(make).collect()
}

/// A JSON patch of `size` operations, after one that adds a list of fifty times as many numbers to
/// the event.
fn operations(size: usize, make: impl Fn(usize) -> Value) -> Vec<Sent> {
    let list = json!({"op": "add", "path": "/a", "value": vec![1; size * 50]});
    let operations: Vec<Value> = [list].into_iter().chain((0..size).map(make)).collect();
    vec![
        create(&json!({})),
        patch(JSON_PATCH, text(&operations.into())),
    ]
}

pub(crate) const ALL: &[Case] = &[
    ("clauses of Accept", 5_000, &[401], |size| {
        let clauses = format!(
            "{},{}",
            many(size, |_| "*/a".into()),
            many(size, |_| "a/a".into())
        );
        vec![
            Sent::new(Method::GET, EVENTS, "")
                .without_credentials()
                .header("accept", clauses),
        ]
    }),
    ("parameters of Accept", 5_000, &[401], |size| {
        let clause = format!("application/json{}", ";as=Table".repeat(size));
        vec![
            Sent::new(Method::GET, EVENTS, "")
                .without_credentials()
                .header("accept", clause),
        ]
    }),
    (
        "members given twice below a long name",
        2_000,
        &[404],
        |size| {
            let members = many(size, |_| "\"a\":1".into());
            vec![patch(
                MERGE,
                format!("{{\"{}\":{{{members}}}}}", "k".repeat(size * 10)),
            )]
        },
    ),
    (
        "objects with members given twice, each anew",
        1_000,
        &[404],
        |size| {
            let members = many(size, |_| "\"k\":{\"a\":1,\"a\":1}".into());
            vec![patch(
                MERGE,
                format!("{{\"{}\":{{{members}}}}}", "k".repeat(size * 10)),
            )]
        },
    ),
    (
        "members of a long name given twice, refused",
        2_000,
        &[422],
        |size| {
            let members = many(size, |number| format!("\"a{number}\":1,\"a{number}\":1"));
            let body = format!("{{\"{}\":{{{members}}}}}", "k".repeat(size * 10));
            let uri = format!("{EVENT}?fieldValidation=Strict");
            vec![
                create(&json!({})),
                Sent::new(Method::PATCH, uri, body).header("content-type", MERGE),
            ]
        },
    ),
    ("unknown members of operations", 2_000, &[422], |size| {
        let members = many(size, |number| format!("\"a{number}\":1"));
        let body = format!("[{{\"op\":\"test\",\"path\":\"/x\",{members}}}]");
        let uri = format!("{EVENT}?fieldValidation=Strict");
        vec![
            create(&json!({})),
            Sent::new(Method::PATCH, uri, body).header("content-type", JSON_PATCH),
        ]
    }),
    ("controllers", 150, &[422], |size| {
        let owner = |number: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": format!("{number}"), "controller": true});
        vec![create(&json!({"ownerReferences": each(size, owner)}))]
    }),
    ("events that own the event", 150, &[422], |size| {
        let owner = |number: usize| json!({"apiVersion": "v1", "kind": "Event", "name": "a".repeat(size), "uid": format!("{number}")});
        vec![create(&json!({"ownerReferences": each(size, owner)}))]
    }),
    ("invalid labels", 2_000, &[422], |size| {
        let labels: serde_json::Map<String, Value> = (0..size)
            .map(|number| (format!("-{number}"), "".into()))
            .collect();
        vec![create(&json!({"labels": labels}))]
    }),
    ("invalid annotations", 2_000, &[422], |size| {
        let annotations: serde_json::Map<String, Value> = (0..size)
            .map(|number| (format!("-{number}"), "".into()))
            .collect();
        vec![create(&json!({"annotations": annotations}))]
    }),
    ("invalid finalizers", 2_000, &[422], |size| {
        vec![create(&json!({"finalizers": each(size, |_| "-")}))]
    }),
    (
        "finalizers of an event that waits for them",
        4_000,
        &[422],
        |size| {
            let more = each(size + 1, |number| format!("example.com/g{number}"));
            vec![
                create(&json!({"finalizers": finalizers(size)})),
                Sent::new(Method::DELETE, EVENT, ""),
                Sent::new(
                    Method::PUT,
                    EVENT,
                    text(&event(&json!({"finalizers": more}))),
                ),
            ]
        },
    ),
    ("a long name", 100_000, &[422], |size| {
        vec![create(&json!({"name": "a/".repeat(size)}))]
    }),
    (
        "a long object that may not change",
        100_000,
        &[422],
        |size| {
            let uri = "/apis/events.k8s.io/v1/namespaces/shop/events/web.1";
            let event = |path: &str| {
                json!({
                    "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "web.1"},
                    "regarding": {"namespace": "shop", "fieldPath": format!("{}{path}", "\\".repeat(size))},
                    "eventTime": "2026-03-04T05:06:07.000000Z", "type": "Normal", "reason": "r", "action": "a",
                    "reportingController": "c", "reportingInstance": "i",
                })
            };
            vec![
                Sent::new(
                    Method::POST,
                    "/apis/events.k8s.io/v1/namespaces/shop/events",
                    text(&event("a")),
                ),
                Sent::new(Method::PUT, uri, text(&event("b"))),
            ]
        },
    ),
    ("a patch that leaves no event", 100_000, &[422], |size| {
        let body = json!({"message": {"a": "\\".repeat(size)}});
        vec![create(&json!({})), patch(MERGE, text(&body))]
    }),
    (
        "a patch with an unknown directive",
        100_000,
        &[500],
        |size| {
            let body = json!({"$patch": "x", "a": "\\".repeat(size)});
            vec![create(&json!({})), patch(STRATEGIC, text(&body))]
        },
    ),
    ("a patch of mixed lists", 20_000, &[500], |size| {
        let mut items = each(size, |number| number);
        items[0] = "x".into();
        let body = json!({"metadata": {"finalizers": items}});
        vec![
            create(&json!({"finalizers": ["a/b"]})),
            patch(STRATEGIC, text(&body)),
        ]
    }),
    (
        "deletions from a list of one owner, again and again",
        500,
        &[200, 422],
        |size| {
            let mut owners =
                vec![json!({"uid": "u", "x": each(size * 10, |number| format!("{number}"))})];
            owners.resize(
                size,
                json!({"uid": "u", "$deleteFromPrimitiveList/x": ["z"]}),
            );
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"});
            let body = json!({"metadata": {"ownerReferences": owners}});
            vec![
                create(&json!({"ownerReferences": [owner]})),
                patch(STRATEGIC, text(&body)),
            ]
        },
    ),
    ("items put before all others", 1_000, &[422], |size| {
        operations(size, |_| json!({"op": "add", "path": "/a/0", "value": 1}))
    }),
    (
        "items taken from before all others",
        1_000,
        &[422],
        |size| operations(size, |_| json!({"op": "remove", "path": "/a/0"})),
    ),
    ("a list moved to and fro", 500, &[422], |size| {
        operations(size, |number| match number % 2 {
            0 => json!({"op": "move", "from": "/a", "path": "/b"}),
            _ => json!({"op": "move", "from": "/b", "path": "/a"}),
        })
    }),
    ("copies that are too many", 500, &[422], |size| {
        operations(
            size,
            |number| json!({"op": "copy", "from": "/a", "path": format!("/b{number}")}),
        )
    }),
    ("a list tested again and again", 500, &[422], |size| {
        operations(size, |_| json!({"op": "test", "path": "/a", "value": [1]}))
    }),
    ("finalizers applied", 3_000, &[201], |size| {
        vec![apply(&json!({"finalizers": finalizers(size)}))]
    }),
    ("finalizers applied twice each", 3_000, &[500], |size| {
        let twice =
            [finalizers(size), finalizers(size)].map(|list| list.as_array().unwrap().clone());
        vec![apply(&json!({"finalizers": twice.concat()}))]
    }),
    ("finalizers applied over others", 2_000, &[200], |size| {
        let more = each(size, |number| format!("example.com/g{number}"));
        vec![
            create(&json!({"finalizers": finalizers(size)})),
            apply(&json!({"finalizers": more})),
        ]
    }),
    ("labels applied as numbers", 5_000, &[500], |size| {
        let labels: serde_json::Map<String, Value> = (0..size)
            .map(|number| (format!("l{number}"), 1.into()))
            .collect();
        vec![apply(&json!({"labels": labels}))]
    }),
    (
        "labels of a manager with a long name, in conflict",
        1_000,
        &[409],
        |size| {
            let labels = |value: &str| -> serde_json::Map<String, Value> {
                (0..size)
                    .map(|number| (format!("l{number}"), value.into()))
                    .collect()
            };
            let fields: serde_json::Map<String, Value> = (0..size)
                .map(|number| (format!("f:l{number}"), json!({})))
                .collect();
            let manager = json!({
                "manager": "m".repeat(size * 10), "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": fields}},
            });
            vec![
                create(&json!({"labels": labels("a")})),
                Sent::new(
                    Method::PUT,
                    EVENT,
                    text(&event(
                        &json!({"labels": labels("a"), "managedFields": [manager]}),
                    )),
                ),
                apply(&json!({"labels": labels("b")})),
            ]
        },
    ),
    (
        "a manager of characters that do not print",
        1_000,
        &[422],
        |size| {
            let uri = format!("{EVENTS}?fieldManager={}", "%01".repeat(size));
            vec![Sent::new(Method::POST, uri, text(&event(&json!({}))))]
        },
    ),
    ("dry runs", 1_400, &[422], |size| {
        let uri = format!("{EVENT}?{}", "dryRun=%01&".repeat(size));
        vec![Sent::new(Method::DELETE, uri, "")]
    }),
    ("options of a delete", 100_000, &[422], |size| {
        let body = json!({"propagationPolicy": "\u{1}".repeat(size), "orphanDependents": true});
        vec![Sent::new(Method::DELETE, EVENT, text(&body))]
    }),
    ("values of a label selector", 2_000, &[400], |size| {
        vec![get(&format!(
            "labelSelector=a+in+({})",
            many(size, |number| format!("-{number}"))
        ))]
    }),
    ("requirements of a label selector", 3_000, &[200], |size| {
        vec![get(&format!(
            "labelSelector={}",
            many(size, |_| "a!=b".into())
        ))]
    }),
    ("terms of a field selector", 2_000, &[200], |size| {
        vec![get(&format!(
            "fieldSelector={}",
            many(size, |_| "type!=b".into())
        ))]
    }),
    (
        "a field selector of other characters",
        10_000,
        &[400],
        |size| vec![get(&format!("fieldSelector={}", "%00".repeat(size / 2)))],
    ),
    ("an invalid continue token", 10_000, &[400], |size| {
        vec![get(&format!("continue={}", "A".repeat(size)))]
    }),
    ("parameters of a query", 3_500, &[200], |size| {
        vec![get(&"a=b&".repeat(size))]
    }),
    ("a long path", 5_000, &[404], |size| {
        vec![Sent::new(
            Method::GET,
            format!("{EVENTS}/{}", "%01".repeat(size)),
            "",
        )]
    }),
    ("whom to act as", 20_000, &[200], |size| {
        vec![get("").header("impersonate-user", "a".repeat(size))]
    }),
    (
        "YAML with a long text named again and again",
        800,
        &[400],
        |size| {
            let mut body = format!("long: &long {}\n", "x".repeat(size * 50));
            for number in 0..size {
                writeln!(
                    body,
                    "a{number}: &a{number} x\nb{number}: *long\nc{number}: *long"
                )
                .unwrap();
            }
            vec![Sent::new(Method::POST, EVENTS, body).header("content-type", "application/yaml")]
        },
    ),
    ("YAML with anchors in anchors", 5_000, &[400], |size| {
        let open = lines(60, |number| format!("&a{number} ["));
        let body = format!(
            "a: {open}{}{}\n",
            many(size, |_| "1".into()),
            "]".repeat(60)
        );
        vec![Sent::new(Method::POST, EVENTS, body).header("content-type", "application/yaml")]
    }),
    ("YAML with long lines", 20_000, &[400, 422], |size| {
        let body = format!("a: |\n{}", " b\n".repeat(size));
        vec![Sent::new(Method::POST, EVENTS, body).header("content-type", "application/yaml")]
    }),
    ("YAML of many members", 5_000, &[400, 422], |size| {
        let members = lines(size, |number| format!("k{number}: 1\n"));
        vec![Sent::new(Method::POST, EVENTS, members).header("content-type", "application/yaml")]
    }),
    ("JSON of many unknown members", 500, &[400], |size| {
        let members = many(size, |number| format!("\"{}{number}\":1", "k".repeat(1000)));
        let uri = format!("{EVENTS}?fieldValidation=Strict");
        vec![Sent::new(Method::POST, uri, format!("{{{members}}}"))]
    }),
];
