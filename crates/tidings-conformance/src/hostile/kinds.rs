//! Every kind of hostile input, each with a function that makes its script for a size and a new
//! namespace. The largest size is at the server's limit: 400 KB of headers, 64 KB of target, 3 MiB
//! of body, 1.5 MiB of stored event. A server refuses larger input without reading it.

use std::fmt::Write;

use http::Method;

use super::archived::ARCHIVED;
use super::at_once::AT_ONCE;
use super::frames;
use super::kind::{Kind, few, kind, large};
use super::script::{
    APPLY, Act, Ask, JSON, JSON_PATCH, MERGE, PROTOBUF, STRATEGIC, Script, YAML, event, events,
    items, large_events, nested, one,
};
use super::timeline::TIMELINE;

pub(super) const KINDS: &[&[Kind]] = &[
    HEADERS,
    TARGETS,
    DOCUMENTS,
    METADATA,
    PATCHES,
    APPLIED,
    OTHER,
    STORED,
    TIMELINE,
    ARCHIVED,
    AT_ONCE,
    CONNECTIONS,
];

const HEADERS: &[Kind] = &[
    kind("Accept: clauses, no credentials", 90_000, |n, ns| {
        let accept = ["*/a,".repeat(n / 2), "a/a,".repeat(n / 2)].concat();
        let list = Ask::list(ns, "").without_token();
        list.header("accept", accept).into()
    }),
    kind("Accept: parameters of a clause", 90_000, |n, ns| {
        let accept = format!("application/json{}", ";a=b".repeat(n));
        Ask::list(ns, "").header("accept", accept).into()
    }),
    kind("Accept: tables of unknown versions", 9_000, |n, ns| {
        let accept = "application/json;as=Table;v=v9;g=meta,".repeat(n);
        Ask::list(ns, "").header("accept", accept).into()
    }),
    kind("Accept-Encoding: codings", 60_000, |n, ns| {
        let codings = "a;q=0,".repeat(n);
        Ask::list(ns, "").header("accept-encoding", codings).into()
    }),
    kind("Content-Type: parameters", 90_000, |n, ns| {
        let content_type = format!("{JSON}{}", ";a=b".repeat(n));
        Ask::create(ns, &content_type, event(ns, "web.1", "", "")).into()
    }),
    kind("User-Agent: long", 380_000, |n, ns| {
        Script::from(Ask::new(Method::PATCH, one(ns)).header("user-agent", "é".repeat(n / 2)))
            .after_event(ns)
    }),
    kind("Authorization: long", 380_000, |n, ns| {
        let list = Ask::list(ns, "").without_token();
        list.header("authorization", format!("Bearer {}", "a".repeat(n)))
            .into()
    }),
    kind("Audit-ID: long", 380_000, |n, ns| {
        Ask::list(ns, "").header("audit-id", "a".repeat(n)).into()
    }),
    kind("headers", 90, |n, ns| {
        let header =
            |list: Ask, number| list.named_header(&format!("x-{number}"), "a".repeat(4_000));
        (0..n).fold(Ask::list(ns, ""), header).into()
    }),
    kind("Impersonate-Group: headers", 90, |n, ns| {
        let list = Ask::list(ns, "").header("impersonate-user", "ann");
        let header = |list: Ask, _| list.header("impersonate-group", "a".repeat(4_000));
        (0..n).fold(list, header).into()
    }),
    kind("Impersonate-Extra: headers", 90, |n, ns| {
        let list = Ask::list(ns, "").header("impersonate-user", "ann");
        let header = |list: Ask, number| {
            list.named_header(&format!("impersonate-extra-{number}"), "%61".repeat(1_300))
        };
        (0..n).fold(list, header).into()
    }),
    kind("Impersonate-User: long", 380_000, |n, ns| {
        Ask::list(ns, "")
            .header("impersonate-user", "a".repeat(n))
            .into()
    }),
];

const TARGETS: &[Kind] = &[
    kind("path: segments", 30_000, |n, _| {
        Ask::get("/a".repeat(n)).into()
    }),
    kind("path: escapes", 20_000, |n, _| {
        Ask::get(events(&"%5F".repeat(n))).into()
    }),
    kind("query: parameters", 15_000, |n, ns| {
        Ask::list(ns, &"a=b&".repeat(n)).into()
    }),
    kind("query: dry runs", 6_000, |n, ns| {
        let target = format!("{}?{}", events(ns), "dryRun=a&".repeat(n));
        Ask::new(Method::POST, target).into()
    }),
    kind("query: digits of a limit", 60_000, |n, ns| {
        Ask::list(ns, &format!("limit={}", "9".repeat(n))).into()
    }),
    kind("query: digits of a version", 60_000, |n, ns| {
        Ask::list(ns, &format!("resourceVersion={}", "9".repeat(n))).into()
    }),
    kind("query: units of a timeout", 15_000, |n, ns| {
        Ask::list(ns, &format!("timeout={}", "1us".repeat(n))).into()
    }),
    kind("query: continue token", 60_000, |n, ns| {
        Ask::list(ns, &format!("continue={}", "QUFB".repeat(n / 4))).into()
    }),
    kind("query: field manager", 60_000, |n, ns| {
        let target = format!("{}?fieldManager={}", events(ns), "a".repeat(n));
        Ask::new(Method::POST, target).into()
    }),
    kind("field selector: terms", 7_000, |n, ns| {
        Ask::list(ns, &format!("fieldSelector={}", "reason=a,".repeat(n))).into()
    }),
    kind(
        "field selector: terms all true of 200 events",
        7_000,
        |n, ns| {
            let terms = items(n, |_| "type!=a".to_owned());
            Script::from(Ask::list(ns, &format!("fieldSelector={terms}"))).after(few(ns, 200))
        },
    ),
    kind("field selector: unknown label", 60_000, |n, ns| {
        Ask::list(ns, &format!("fieldSelector={}=a", "a".repeat(n))).into()
    }),
    kind("label selector: requirements", 10_000, |n, ns| {
        Ask::list(
            ns,
            &format!("labelSelector={}", items(n, |i| format!("k{i}"))),
        )
        .into()
    }),
    kind(
        "label selector: requirements all true of 200 events",
        9_000,
        |n, ns| {
            let terms = items(n, |i| format!("!k{i}"));
            Script::from(Ask::list(ns, &format!("labelSelector={terms}"))).after(few(ns, 200))
        },
    ),
    kind(
        "label selector: requirements of as many labels",
        10_000,
        |n, ns| {
            let labels = items(n, |i| format!("\"k{i}\":\"\""));
            let terms = items(n, |i| format!("k{i}"));
            Script::from(Ask::list(ns, &format!("labelSelector={terms}"))).after([Ask::event(
                ns,
                &format!(",\"labels\":{{{labels}}}"),
                "",
            )])
        },
    ),
    kind("label selector: values of a set", 10_000, |n, ns| {
        let values = items(n, |i| format!("v{i}"));
        Ask::list(ns, &format!("labelSelector=a+in+({values})")).into()
    }),
    kind("label selector: parentheses", 60_000, |n, ns| {
        Ask::list(ns, &format!("labelSelector={}", "(".repeat(n))).into()
    }),
];

const DOCUMENTS: &[Kind] = &[
    kind("JSON: nested arrays", 3_000_000, |n, ns| {
        Ask::create(ns, JSON, "[".repeat(n)).into()
    }),
    kind("JSON: nested objects", 500_000, |n, ns| {
        Ask::create(ns, JSON, nested("{\"a\":", "1", "}", n)).into()
    }),
    kind("JSON: a field repeated", 240_000, |n, ns| {
        Ask::event(ns, "", &",\"count\":1".repeat(n)).into()
    }),
    kind("JSON: unknown fields", 200_000, |n, ns| {
        let fields = items(n, |i| format!("\"x{i}\":1"));
        Ask::event(ns, "", &format!(",{fields}")).into()
    }),
    kind(
        "JSON: an unknown field with a long name",
        3_000_000,
        |n, ns| Ask::event(ns, "", &format!(",\"{}\":1", "a".repeat(n))).into(),
    ),
    kind(
        "JSON: a value of the wrong kind, long",
        3_000_000,
        |n, ns| Ask::event(ns, "", &format!(",\"count\":\"{}\"", "a".repeat(n))).into(),
    ),
    kind("JSON: digits", 3_000_000, |n, ns| {
        Ask::event(ns, "", &format!(",\"count\":{}", "1".repeat(n))).into()
    }),
    kind("JSON: broken surrogates", 400_000, |n, ns| {
        Ask::event(ns, "", &format!(",\"message\":\"{}\"", "\\ud800".repeat(n))).into()
    }),
    kind("JSON: bytes that are no text", 3_000_000, |n, ns| {
        let mut body = event(ns, "web.1", "", ",\"message\":\"").into_bytes();
        body.truncate(body.len() - 1);
        body.resize(body.len() + n, 0xff);
        body.extend_from_slice(b"\"}");
        Ask::create(ns, JSON, body).into()
    }),
    kind("JSON: a kind with a long name", 3_000_000, |n, ns| {
        Ask::create(ns, JSON, format!("{{\"kind\":\"{}\"}}", "K".repeat(n))).into()
    }),
    kind("YAML: nested flow", 3_000_000, |n, ns| {
        Ask::create(ns, YAML, "[".repeat(n)).into()
    }),
    kind("YAML: nested blocks", 1_000_000, |n, ns| {
        Ask::create(ns, YAML, "- ".repeat(n)).into()
    }),
    kind("YAML: indented blocks", 2_300, |n, ns| {
        let line = |depth: usize| format!("{}a:\n", " ".repeat(depth));
        Ask::create(ns, YAML, (0..n).map(line).collect::<String>()).into()
    }),
    kind("YAML: aliases of aliases", 60_000, |n, ns| {
        let mut text = "a0: &a0 [a]\n".to_owned();
        for line in 1..n {
            let aliases = vec![format!("*a{}", line - 1); 4].join(",");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "a{line}: &a{line} [{aliases}]");
        }
        Ask::create(ns, YAML, text).into()
    }),
    kind("YAML: aliases of a long text", 300_000, |n, ns| {
        let aliases = items(n, |_| "*a".to_owned());
        let text = format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(1_000_000));
        Ask::create(ns, YAML, text).into()
    }),
    kind("YAML: merges", 100_000, |n, ns| {
        let text = format!("a: &a {{b: c}}\nd:\n{}", "  <<: *a\n".repeat(n));
        Ask::create(ns, YAML, text).into()
    }),
    kind("YAML: anchors", 200_000, |n, ns| {
        let lines = (0..n).map(|i| format!("- &a{i} 1\n"));
        Ask::create(ns, YAML, lines.collect::<String>()).into()
    }),
    kind("YAML: a key repeated", 700_000, |n, ns| {
        Ask::create(ns, YAML, "a: \n".repeat(n)).into()
    }),
    kind("YAML: keys", 300_000, |n, ns| {
        let lines = (0..n).map(|i| format!("k{i}: \n"));
        Ask::create(ns, YAML, lines.collect::<String>()).into()
    }),
    kind("YAML: documents", 700_000, |n, ns| {
        Ask::create(ns, YAML, "---\n".repeat(n)).into()
    }),
    kind("protobuf: unknown fields", 1_000_000, |n, ns| {
        Ask::create(ns, PROTOBUF, enveloped(&[0xf8, 0x07, 1].repeat(n))).into()
    }),
    kind("protobuf: nested groups", 1_500_000, |n, ns| {
        let groups = [[0xfb, 0x07].repeat(n / 2), [0xfc, 0x07].repeat(n / 2)].concat();
        Ask::create(ns, PROTOBUF, enveloped(&groups)).into()
    }),
    kind("protobuf: finalizers", 1_000_000, |n, ns| {
        let metadata = field(14, b"a").repeat(n);
        Ask::create(ns, PROTOBUF, enveloped(&field(1, &metadata))).into()
    }),
    kind("protobuf: an annotation repeated", 300_000, |n, ns| {
        let entry = [field(1, b"a"), field(2, b"b")].concat();
        let metadata = field(12, &entry).repeat(n);
        Ask::create(ns, PROTOBUF, enveloped(&field(1, &metadata))).into()
    }),
    kind("protobuf: the object repeated", 700_000, |n, ns| {
        let object = field(2, &field(1, b"")).repeat(n);
        Ask::create(ns, PROTOBUF, enveloped(&object)).into()
    }),
];

/// Encodes a length-delimited field of a protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(bytes);
    message
}

/// Wraps an encoded event in `runtime.Unknown`.
fn enveloped(event: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, b"Event")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, event)].concat()
}

const METADATA: &[Kind] = &[
    kind("owners that control", 30_000, |n, ns| {
        Ask::event(ns, &owners(0, n, ",\"controller\":true"), "").into()
    }),
    kind("owners without anything", 900_000, |n, ns| {
        let owners = items(n, |_| "{}".to_owned());
        Ask::event(ns, &format!(",\"ownerReferences\":[{owners}]"), "").into()
    }),
    kind("owners that are the same", 30_000, |n, ns| {
        let owner = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"u\"}";
        let owners = items(n, |_| owner.to_owned());
        Ask::event(ns, &format!(",\"ownerReferences\":[{owners}]"), "").into()
    }),
    kind("labels with invalid keys", 200_000, |n, ns| {
        let labels = items(n, |i| format!("\"_{i}\":\"\""));
        Ask::event(ns, &format!(",\"labels\":{{{labels}}}"), "").into()
    }),
    kind("labels with long invalid keys", 8, |n, ns| {
        let labels = items(n, |i| format!("\"{}{i}\":\"\"", "_".repeat(384_000)));
        Ask::event(ns, &format!(",\"labels\":{{{labels}}}"), "").into()
    }),
    kind("labels with invalid values", 200_000, |n, ns| {
        let labels = items(n, |i| format!("\"k{i}\":\"_\""));
        Ask::event(ns, &format!(",\"labels\":{{{labels}}}"), "").into()
    }),
    kind("labels", 90_000, |n, ns| {
        let labels = items(n, |i| format!("\"k{i}\":\"v\""));
        Ask::event(ns, &format!(",\"labels\":{{{labels}}}"), "").into()
    }),
    kind("annotations with invalid keys", 200_000, |n, ns| {
        let annotations = items(n, |i| format!("\"_{i}\":\"\""));
        Ask::event(ns, &format!(",\"annotations\":{{{annotations}}}"), "").into()
    }),
    kind("an annotation", 3_000_000, |n, ns| {
        let annotations = format!("\"a\":\"{}\"", "a".repeat(n));
        Ask::event(ns, &format!(",\"annotations\":{{{annotations}}}"), "").into()
    }),
    kind("finalizers", 120_000, |n, ns| {
        Ask::event(ns, &finalizers(n), "").into()
    }),
    kind("finalizers that are invalid", 700_000, |n, ns| {
        let finalizers = items(n, |_| "\"\"".to_owned());
        Ask::event(ns, &format!(",\"finalizers\":[{finalizers}]"), "").into()
    }),
    kind("a write to an event with finalizers", 120_000, |n, ns| {
        Script::from(Ask::patch(ns, MERGE, "{\"message\":\"m\"}")).after([Ask::event(
            ns,
            &finalizers(n),
            "",
        )])
    }),
    kind(
        "a deletion of an event with finalizers",
        120_000,
        |n, ns| Script::from(Ask::delete(ns, "")).after([Ask::event(ns, &finalizers(n), "")]),
    ),
    kind("a write to an event with owners", 15_000, |n, ns| {
        Script::from(Ask::patch(ns, MERGE, "{\"message\":\"m\"}")).after([Ask::event(
            ns,
            &owners(0, n, ""),
            "",
        )])
    }),
    kind("managed fields: entries", 25_000, |n, ns| {
        Ask::event(ns, &managed(n, "{}"), "").into()
    }),
    kind("managed fields: fields", 250_000, |n, ns| {
        let fields = items(n, |i| format!("\"f:k{i}\":{{}}"));
        Ask::event(ns, &managed(1, &format!("{{{fields}}}")), "").into()
    }),
    kind("managed fields: depth", 400_000, |n, ns| {
        Ask::event(ns, &managed(1, &nested("{\"f:a\":", "{}", "}", n)), "").into()
    }),
    kind("managed fields: entries, and an apply", 12_000, |n, ns| {
        Script::from(Ask::patch(ns, APPLY, applied(ns, ""))).after([
            Ask::event(ns, &owners(0, 1, ""), ""),
            Ask::patch(ns, APPLY, applied(ns, ",\"labels\":{\"a\":\"b\"}")),
            Ask::new(Method::PUT, one(ns)).body(JSON, event(ns, "web.1", &managed(n, "{}"), "")),
        ])
    }),
    kind("object with long fields", 3_000_000, |n, ns| {
        let long = "_".repeat(n / 4);
        let fields = format!(
            ",\"action\":\"{long}\",\"reportingComponent\":\"{long}\",\"reportingInstance\":\"{long}\",\
             \"eventTime\":\"2026-03-04T05:06:07.000000Z\",\"message\":\"{long}\""
        );
        Ask::event(ns, "", &fields).into()
    }),
    kind("a name", 3_000_000, |n, ns| {
        Ask::create(ns, JSON, event(ns, &"_".repeat(n), "", "")).into()
    }),
];

/// Owner references with these numbers, each with further fields.
fn owners(first: usize, count: usize, more: &str) -> String {
    let owners = items(count, |i| {
        let number = first + i;
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p{number}\",\"uid\":\"u{number}\"{more}}}"
        )
    });
    format!(",\"ownerReferences\":[{owners}]")
}

fn finalizers(count: usize) -> String {
    let finalizers = items(count, |i| format!("\"a/{i}\""));
    format!(",\"finalizers\":[{finalizers}]")
}

/// Entries of managed fields, one for each of this number of managers.
fn managed(count: usize, fields: &str) -> String {
    let entries = items(count, |i| {
        format!(
            "{{\"manager\":\"m{i}\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{fields}}}"
        )
    });
    format!(",\"managedFields\":[{entries}]")
}

const PATCHES: &[Kind] = &[
    kind(
        "merge patch: a key repeated below a long one",
        400_000,
        |n, ns| {
            let repeated = items(n, |_| "\"a\":1".to_owned());
            let patch = format!("{{\"{}\":{{{repeated}}}}}", "k".repeat(100_000));
            Script::from(Ask::patch(ns, MERGE, patch)).after_event(ns)
        },
    ),
    kind("merge patch: unknown fields", 250_000, |n, ns| {
        let fields = items(n, |i| format!("\"x{i}\":1"));
        Script::from(Ask::patch(ns, MERGE, format!("{{{fields}}}"))).after_event(ns)
    }),
    kind("merge patch: nulls", 200_000, |n, ns| {
        let labels = items(n, |i| format!("\"k{i}\":null"));
        let patch = format!("{{\"metadata\":{{\"labels\":{{{labels}}}}}}}");
        Script::from(Ask::patch(ns, MERGE, patch)).after_event(ns)
    }),
    kind("merge patch: nested", 500_000, |n, ns| {
        let patch = nested("{\"a\":", "1", "}", n);
        Script::from(Ask::patch(ns, MERGE, patch)).after_event(ns)
    }),
    kind(
        "strategic: a key repeated below a long one",
        400_000,
        |n, ns| {
            let repeated = items(n, |_| "\"a\":1".to_owned());
            let patch = format!("{{\"{}\":{{{repeated}}}}}", "k".repeat(100_000));
            Script::from(Ask::patch(ns, STRATEGIC, patch)).after_event(ns)
        },
    ),
    kind("strategic: owners onto as many", 15_000, |n, ns| {
        let patch = format!("{{\"metadata\":{{{}}}}}", &owners(n, n, "")[1..]);
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after([Ask::event(
            ns,
            &owners(0, n, ""),
            "",
        )])
    }),
    kind("strategic: owners taken away", 15_000, |n, ns| {
        let patch = format!(
            "{{\"metadata\":{{{}}}}}",
            &owners(0, n, ",\"$patch\":\"delete\"")[1..]
        );
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after([Ask::event(
            ns,
            &owners(0, n, ""),
            "",
        )])
    }),
    kind("strategic: owners put in order", 15_000, |n, ns| {
        let order = items(n, |i| format!("{{\"uid\":\"u{}\"}}", n - 1 - i));
        let patch = format!("{{\"metadata\":{{\"$setElementOrder/ownerReferences\":[{order}]}}}}");
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after([Ask::event(
            ns,
            &owners(0, n, ""),
            "",
        )])
    }),
    kind("strategic: finalizers put in order", 100_000, |n, ns| {
        let order = items(n, |i| format!("\"a/{}\"", n - 1 - i));
        let patch = format!("{{\"metadata\":{{\"$setElementOrder/finalizers\":[{order}]}}}}");
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after([Ask::event(ns, &finalizers(n), "")])
    }),
    kind("strategic: finalizers taken away", 100_000, |n, ns| {
        let names = items(n, |i| format!("\"a/{i}\""));
        let patch =
            format!("{{\"metadata\":{{\"$deleteFromPrimitiveList/finalizers\":[{names}]}}}}");
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after([Ask::event(ns, &finalizers(n), "")])
    }),
    kind("strategic: finalizers added", 100_000, |n, ns| {
        let names = items(n, |i| format!("\"b/{i}\""));
        let patch = format!("{{\"metadata\":{{\"finalizers\":[{names}]}}}}");
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after([Ask::event(ns, &finalizers(n), "")])
    }),
    kind("strategic: keys retained", 250_000, |n, ns| {
        let keys = items(n, |i| format!("\"k{i}\""));
        let patch = format!("{{\"series\":{{\"$retainKeys\":[{keys}]}}}}");
        Script::from(Ask::patch(ns, STRATEGIC, patch)).after_event(ns)
    }),
    kind("JSON patch: tests", 50_000, |n, ns| {
        let test = "{\"op\":\"test\",\"path\":\"/reason\",\"value\":\"BackOff\"}";
        operations(ns, n, |_| test.to_owned()).after_event(ns)
    }),
    kind("JSON patch: long pointers", 300, |n, ns| {
        let path = "/a".repeat(5_000);
        operations(ns, n, |_| {
            format!("{{\"op\":\"test\",\"path\":\"{path}\",\"value\":1}}")
        })
        .after_event(ns)
    }),
    kind("JSON patch: a pointer", 1_500_000, |n, ns| {
        let path = "/a".repeat(n);
        operations(ns, 1, |_| {
            format!("{{\"op\":\"add\",\"path\":\"{path}\",\"value\":1}}")
        })
        .after_event(ns)
    }),
    kind("JSON patch: additions at the front", 40_000, |n, ns| {
        let add = |i| {
            format!("{{\"op\":\"add\",\"path\":\"/metadata/finalizers/0\",\"value\":\"b/{i}\"}}")
        };
        operations(ns, n, add).after([Ask::event(ns, ",\"finalizers\":[\"a/a\"]", "")])
    }),
    kind("JSON patch: removals at the front", 50_000, |n, ns| {
        let remove = "{\"op\":\"remove\",\"path\":\"/metadata/finalizers/0\"}";
        operations(ns, n, |_| remove.to_owned()).after([Ask::event(ns, &finalizers(n), "")])
    }),
    kind("JSON patch: copies of copies", 20_000, |n, ns| {
        let copy = |i| {
            format!(
                "{{\"op\":\"copy\",\"from\":\"/metadata\",\"path\":\"/metadata/annotations/x{i}\"}}"
            )
        };
        // Twenty copies double the event beyond the limit of copied bytes. `n` more follow.
        operations(ns, 20 + n, copy).after([Ask::event(ns, ",\"annotations\":{\"a\":\"b\"}", "")])
    }),
    kind("JSON patch: copies of a long text", 30_000, |n, ns| {
        let copy = "{\"op\":\"copy\",\"from\":\"/message\",\"path\":\"/metadata/annotations/x\"}";
        operations(ns, n, |_| copy.to_owned()).after([long_event(ns)])
    }),
    kind("JSON patch: moves of a long text", 30_000, |n, ns| {
        let (here, there) = ("/message", "/metadata/annotations/x");
        let moved = |i: usize| {
            let (from, path) = if i.is_multiple_of(2) {
                (here, there)
            } else {
                (there, here)
            };
            format!("{{\"op\":\"move\",\"from\":\"{from}\",\"path\":\"{path}\"}}")
        };
        operations(ns, n, moved).after([long_event(ns)])
    }),
    kind(
        "JSON patch: tests of a large object that fail late",
        30_000,
        |n, ns| {
            let test = "{\"op\":\"test\",\"path\":\"/metadata/finalizers\",\"value\":[]}";
            operations(ns, n, |_| test.to_owned()).after([Ask::event(ns, &finalizers(50_000), "")])
        },
    ),
    kind("JSON patch: operations of no kind", 150_000, |n, ns| {
        operations(ns, n, |_| "{\"op\":\"a\"}".to_owned()).after_event(ns)
    }),
];

fn operations(namespace: &str, count: usize, operation: impl Fn(usize) -> String) -> Script {
    let patch = format!("[{}]", items(count, operation));
    Ask::patch(namespace, JSON_PATCH, patch).into()
}

/// Creates an event with a message of a megabyte, and an annotation.
fn long_event(namespace: &str) -> Ask {
    let message = format!(",\"message\":\"{}\"", "m".repeat(1_000_000));
    Ask::event(namespace, ",\"annotations\":{\"a\":\"b\"}", &message)
}

const APPLIED: &[Kind] = &[
    kind("apply: labels", 60_000, |n, ns| {
        let labels = items(n, |i| format!("\"k{i}\":\"v\""));
        applying(ns, &format!(",\"labels\":{{{labels}}}"))
    }),
    kind("apply: owners", 12_000, |n, ns| {
        applying(ns, &owners(0, n, ""))
    }),
    kind("apply: owners that are the same", 12_000, |n, ns| {
        let owner = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"u\"}";
        let owners = items(n, |_| owner.to_owned());
        applying(ns, &format!(",\"ownerReferences\":[{owners}]"))
    }),
    kind("apply: finalizers", 60_000, |n, ns| {
        applying(ns, &finalizers(n))
    }),
    kind("apply: finalizers that are the same", 200_000, |n, ns| {
        let finalizers = items(n, |_| "\"a/a\"".to_owned());
        applying(ns, &format!(",\"finalizers\":[{finalizers}]"))
    }),
    kind("apply: labels in conflict", 30_000, |n, ns| {
        let labels = |value: &str| {
            let labels = items(n, |i| format!("\"k{i}\":\"{value}\""));
            applied(ns, &format!(",\"labels\":{{{labels}}}"))
        };
        let other = Ask::new(Method::PATCH, format!("{}?fieldManager=other", one(ns)));
        Script::from(Ask::patch(ns, APPLY, labels("a"))).after([other.body(APPLY, labels("b"))])
    }),
    kind("apply: owners, and then none", 6_000, |n, ns| {
        Script::from(Ask::patch(ns, APPLY, applied(ns, ""))).after([Ask::patch(
            ns,
            APPLY,
            applied(ns, &owners(0, n, "")),
        )])
    }),
    Kind {
        // The YAML library's map of keys outgrows the processor's caches.
        growth_max: 8.0,
        ..kind("apply: unknown fields", 200_000, |n, ns| {
            let fields = items(n, |i| format!("\"x{i}\":1"));
            applying(ns, &format!(",{fields}"))
        })
    },
    kind("apply: nested", 500_000, |n, ns| {
        Ask::patch(ns, APPLY, nested("{a: ", "1", "}", n)).into()
    }),
    kind("apply: aliases of aliases", 60_000, |n, ns| {
        let line = |i: usize| {
            format!(
                "a{i}: &a{i} [{}]\n",
                vec![format!("*a{}", i - 1); 4].join(",")
            )
        };
        let lines: String = (1..n).map(line).collect();
        Ask::patch(ns, APPLY, format!("a0: &a0 [a]\n{lines}")).into()
    }),
];

/// The YAML of an event to apply, with this metadata.
fn applied(namespace: &str, metadata: &str) -> String {
    event(namespace, "web.1", metadata, "")
}

fn applying(namespace: &str, metadata: &str) -> Script {
    Ask::patch(namespace, APPLY, applied(namespace, metadata)).into()
}

const OTHER: &[Kind] = &[
    kind("delete options: dry runs", 600_000, |n, ns| {
        let options = format!("{{\"dryRun\":[{}]}}", items(n, |_| "\"a\"".to_owned()));
        Script::from(Ask::delete(ns, options)).after_event(ns)
    }),
    kind("delete options: unknown fields", 250_000, |n, ns| {
        let options = format!("{{{}}}", items(n, |i| format!("\"x{i}\":1")));
        Script::from(Ask::delete(ns, options)).after_event(ns)
    }),
    kind("delete options: a long precondition", 3_000_000, |n, ns| {
        let options = format!("{{\"preconditions\":{{\"uid\":\"{}\"}}}}", "u".repeat(n));
        Script::from(Ask::delete(ns, options)).after_event(ns)
    }),
    kind("delete options: a long policy", 3_000_000, |n, ns| {
        let options = format!("{{\"propagationPolicy\":\"{}\"}}", "\\u0001".repeat(n / 6));
        Script::from(Ask::delete(ns, options)).after_event(ns)
    }),
    kind("a review's long verb", 3_000_000, |n, _| {
        let verb = "v".repeat(n);
        let review = format!("{{\"spec\":{{\"resourceAttributes\":{{\"verb\":\"{verb}\"}}}}}}");
        review_of(review)
    }),
    kind("a review, nested", 7_000, |n, _| {
        review_of(nested("{\"spec\":", "1", "}", n))
    }),
];

fn review_of(review: String) -> Script {
    let target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    Ask::new(Method::POST, target).body(JSON, review).into()
}

const STORED: &[Kind] = &[
    large("newest first, of large events", 40, |n, ns| {
        Script::from(Ask::list(ns, "order=newest&limit=500")).after(large_events(ns, n))
    }),
    large("newest first, of large events, as YAML", 40, |n, ns| {
        Script::from(Ask::list(ns, "order=newest&limit=500").header("accept", YAML))
            .after(large_events(ns, n))
    }),
    large("a list of large events", 40, |n, ns| {
        Script::from(Ask::list(ns, "limit=500")).after(large_events(ns, n))
    }),
    large("a list of large events, as protobuf", 40, |n, ns| {
        Script::from(Ask::list(ns, "").header("accept", PROTOBUF)).after(large_events(ns, n))
    }),
    large("a list of large events, as YAML", 40, |n, ns| {
        Script::from(Ask::list(ns, "").header("accept", YAML)).after(large_events(ns, n))
    }),
    large("a table of large events", 40, |n, ns| {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let list = Ask::list(ns, "includeObject=Object").header("accept", table);
        Script::from(list).after(large_events(ns, n))
    }),
    large(
        "a list of large events that a selector leaves out",
        40,
        |n, ns| Script::from(Ask::list(ns, "labelSelector=a")).after(large_events(ns, n)),
    ),
    Kind {
        // The watch returns only events of its namespace, but the server reads everything that was
        // written since.
        alone: true,
        ..large("a watch of large events from before them", 40, |n, ns| {
            let watch = "watch=true&resourceVersion=1&timeoutSeconds=1";
            Script::from(Ask::list(ns, watch)).after(large_events(ns, n))
        })
    },
    large("a watch that begins with large events", 40, |n, ns| {
        let watch = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
        Script::from(Ask::list(ns, watch)).after(large_events(ns, n))
    }),
    large("deletion of large events", 40, |n, ns| {
        Script::from(Ask::new(Method::DELETE, events(ns))).after(large_events(ns, n))
    }),
    large("deletion of large events, as YAML", 40, |n, ns| {
        Script::from(Ask::new(Method::DELETE, events(ns)).header("accept", YAML))
            .after(large_events(ns, n))
    }),
    kind("pages of one", 200, |n, ns| {
        Script::from(vec![Ask::list(ns, "limit=1"); n]).after(few(ns, n))
    }),
];

const CONNECTIONS: &[Kind] = &[
    kind("tokens of nobody", 400, |n, ns| {
        let ask = |i| {
            let token = format!("Bearer {i}{}", "t".repeat(1_000));
            Ask::list(ns, "")
                .without_token()
                .header("authorization", token)
        };
        (0..n).map(ask).collect::<Vec<_>>().into()
    }),
    kind("requests sent ahead", 1_000, |n, _| {
        let request = "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n";
        Act::Bytes(None, request.repeat(n).into_bytes()).into()
    }),
    kind("a body in chunks of a byte", 400_000, |n, ns| {
        chunked(ns, &"1\r\n{\r\n".repeat(n))
    }),
    kind("a chunk's length with zeros", 2_400_000, |n, ns| {
        chunked(ns, &"0".repeat(n))
    }),
    kind("TLS handshakes", 200, |n, _| Act::Handshakes(n).into()),
    kind("idle connections", 1_000, |n, _| Act::Idle(n).into()),
    kind("HTTP/2: streams", 1_600, |n, _| http2(frames::streams(n))),
    kind("HTTP/2: streams reset at once", 16_000, |n, _| {
        http2(frames::resets(n))
    }),
    kind("HTTP/2: headers without an end", 16_000, |n, _| {
        http2(frames::continuations(n))
    }),
    kind("HTTP/2: a long header repeated", 160, |n, _| {
        http2(frames::repeated_header(n))
    }),
    kind("HTTP/2: settings", 16_000, |n, _| {
        http2(frames::settings(n))
    }),
    kind("HTTP/2: pings", 16_000, |n, _| http2(frames::pings(n))),
    kind("HTTP/2: data without data", 16_000, |n, _| {
        http2(frames::empty_data(n))
    }),
    kind("HTTP/2: room for answers", 16_000, |n, _| {
        http2(frames::window_updates(n))
    }),
];

/// Sends a body in these chunks.
fn chunked(namespace: &str, chunks: &str) -> Script {
    let target = events(namespace);
    let request = format!(
        "POST {target} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer admin-token\r\ncontent-type: {JSON}\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
    );
    Act::Bytes(None, request.into_bytes()).into()
}

fn http2(bytes: Vec<u8>) -> Script {
    Act::Bytes(Some(b"h2"), bytes).into()
}
