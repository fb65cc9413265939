//! Elasticsearch: actions and documents of real events, and outcomes of each of them.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_feeds::encode::elasticsearch::{Elasticsearch, ElasticsearchOptions, Index, Mode};
use tidings_feeds::encode::{ANSWER_LEN_MAX, Encoder, Outcome, Verdict};
use tidings_feeds::{Record, RecordBody, Source};

use crate::events::{BACK_OFF, NODE, SERIES, answer, hostile, kind, record, records, source};

fn encoder(index: &str, mode: Mode) -> Elasticsearch {
    let index = Index::parse(index).unwrap();
    Elasticsearch::new(ElasticsearchOptions { index, mode })
}

fn lines(encoder: &Elasticsearch, records: &[Record]) -> Vec<Value> {
    let body = encoder.encode(&source(), records).body;
    let text = std::str::from_utf8(&body).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn version(event: &str, epoch: u64, number: u64) -> Record {
    let mut record = record(event);
    if let RecordBody::Version(version) = &mut record.body {
        (version.version.epoch, version.version.number) = (epoch, number);
    }
    record
}

#[test]
fn each_version_is_created_under_its_key_in_the_index_of_its_day() {
    let created = |index: &str, id: &str| json!({"create": {"_index": index, "_id": id}});
    let encoder = encoder("kubernetes-events-{yyyy.MM.dd}-a", Mode::Versions);
    let lines = lines(&encoder, &records());
    let actions: Vec<&Value> = lines.iter().step_by(2).collect();
    assert_eq!(
        actions,
        [
            &created(
                "kubernetes-events-2021.06.21-a",
                "prod:e7ea77f9-1e5c-41eb-94e3-fceebd328bfa:0:1179"
            ),
            &created(
                "kubernetes-events-2026.01.02-a",
                "prod:45e43204-21e0-414c-b55a-a850e3045809:0:2375"
            ),
            &created(
                "kubernetes-events-2026.01.02-a",
                "prod:0b1c2d3e-0000-4000-8000-000000000001:0:90"
            ),
            &created(
                "kubernetes-events-2026.01.02-a",
                "prod:gap::1767384000000:1767384600000:compacted"
            ),
            &created(
                "kubernetes-events-2026.01.02-a",
                "prod:skip:shop:1767384000000:1767384600000:47"
            ),
            &created("kubernetes-events-2026.01.02-a", "prod:test:1767384600000"),
        ]
    );
}

#[test]
fn documents_have_the_fields_of_ecs_and_metricbeat() {
    let encoder = encoder("kubernetes-events", Mode::Versions);
    let lines = lines(&encoder, &[record(BACK_OFF), records().remove(4)]);
    let message = "Back-off restarting \"failed\" container";
    assert_eq!(
        lines[1],
        json!({
            "@timestamp": "2021-06-21T02:31:23Z", "message": message,
            "event": {"kind": "event", "module": "kubernetes", "dataset": "kubernetes.event",
                "id": "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa/0/1179",
                "created": "2021-06-21T02:31:24Z"},
            "orchestrator": {"cluster": {"name": "prod", "id": "c1d2e3f4"}},
            "kubernetes": {"namespace": "kube-system", "event": {
                "type": "Warning", "reason": "BackOff", "message": message, "count": 7,
                "timestamp": {"first_occurrence": "2021-06-21T02:29:23Z",
                    "last_occurrence": "2021-06-21T02:31:23Z"},
                "source": {"component": "kubelet", "host": "minikube"},
                "involved_object": {"api_version": "v1", "kind": "Pod",
                    "name": "storage-provisioner", "namespace": "kube-system",
                    "uid": "8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52", "resource_version": "488"},
                "metadata": {"name": "storage-provisioner.168a78018af09212",
                    "namespace": "kube-system", "uid": "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa",
                    "resource_version": "1179", "timestamp": {"created": "2021-06-21T02:29:23Z"}},
            }},
            "tidings": {"epoch": 0, "occurrences": 2},
        })
    );
    assert_eq!(lines[3]["kubernetes"]["event"]["type"], "Warning");
    assert_eq!(
        lines[3]["kubernetes"]["event"]["reason"],
        "VersionsNotDelivered"
    );
    assert_eq!(
        lines[3]["event"]["id"],
        "skip/shop/1767384000000/1767384600000/47"
    );
}

/// Keys of labels and annotations are anyone's, so no document adds to the mapping. No text is too
/// long for its field.
#[test]
fn the_template_names_every_field_and_keys_of_labels_are_none() {
    let members =
        r#""metadata":{"labels":{"a.b/c":"","d":"e"},"annotations":{"a..b":"2026-01-02"},"#;
    let labelled = BACK_OFF.replacen("\"metadata\":{", members, 1);
    let encoder = encoder("kubernetes-events-{yyyy.MM}", Mode::Versions);
    let template = encoder.template();
    assert_eq!(template["index_patterns"], json!(["kubernetes-events-*"]));
    let mappings = &template["template"]["mappings"];
    assert_eq!(mappings["dynamic"], false);
    let text = mappings.to_string();
    let keywords = text.matches(r#""type":"keyword""#).count();
    assert_eq!(keywords, text.matches(r#""ignore_above":1024"#).count());
    let mut unnamed = Vec::new();
    let records = [record(&labelled), record(SERIES), records().remove(3)];
    let lines = lines(&encoder, &records);
    for line in lines.iter().skip(1).step_by(2) {
        missing(line, mappings, "", &mut unnamed);
    }
    assert!(unnamed.is_empty(), "{unnamed:?}");
    let metadata = &lines[1]["kubernetes"]["event"]["metadata"];
    assert_eq!(metadata["labels"], json!(["a.b/c=", "d=e"]));
    assert_eq!(metadata["annotations"], json!(["a..b=2026-01-02"]));
}

fn missing(value: &Value, mapping: &Value, path: &str, unnamed: &mut Vec<String>) {
    match (value, &mapping["properties"]) {
        (Value::Object(members), properties) if !properties.is_null() => {
            for (name, member) in members {
                missing(
                    member,
                    &properties[name],
                    &format!("{path}.{name}"),
                    unnamed,
                );
            }
        }
        _ if mapping["type"].is_string() => {}
        _ => unnamed.push(path.to_owned()),
    }
}

/// Later versions have greater numbers, also after the source went back to an earlier state.
#[test]
fn the_latest_version_of_an_event_has_the_greatest_number() {
    let encoder = encoder("latest", Mode::Latest);
    let order = [
        (0, 5),
        (0, 1 << 60),
        (1, (1 << 60) - 9),
        (2, 7 + (1 << 60)),
        (u64::MAX, 1),
    ];
    let records: Vec<Record> = order.iter().map(|of| version(NODE, of.0, of.1)).collect();
    let lines = lines(&encoder, &records);
    let numbers: Vec<u64> = lines
        .iter()
        .step_by(2)
        .map(|action| {
            assert_eq!(
                action["index"]["_id"],
                "prod:0b1c2d3e-0000-4000-8000-000000000001"
            );
            assert_eq!(action["index"]["version_type"], "external_gte");
            action["index"]["version"].as_u64().unwrap()
        })
        .collect();
    assert!(
        numbers.is_sorted_by(|before, after| before < after),
        "{numbers:?}"
    );
    assert!(
        numbers.iter().all(|number| i64::try_from(*number).is_ok()),
        "{numbers:?}"
    );
}

#[test]
fn each_document_is_judged_by_its_own_status() {
    let encoder = encoder("kubernetes-events", Mode::Versions);
    let judge = |status: u16, items: Value| {
        let body = json!({"errors": true, "items": items}).to_string();
        let records: Vec<Record> = records().drain(..5).collect();
        encoder.judge(&answer(status, &body), &records)
    };
    let item = |status: u16| {
        json!({"create": {"status": status,
        "error": {"type": "mapper_parsing_exception", "reason": "failed to parse"}}})
    };
    let text = |status: u16| format!("{status} mapper_parsing_exception: failed to parse");
    assert_eq!(
        judge(
            200,
            json!([item(201), item(409), item(429), item(503), item(400)])
        ),
        Verdict::Items(vec![
            Outcome::Delivered,
            Outcome::Delivered,
            Outcome::Busy(text(429)),
            Outcome::Busy(text(503)),
            Outcome::Rejected(text(400)),
        ])
    );
    // One index of several may be absent or write-protected.
    let one = Verdict::Items(vec![
        Outcome::Delivered,
        Outcome::Delivered,
        Outcome::Retry(text(404)),
        Outcome::Delivered,
        Outcome::Retry(text(403)),
    ]);
    let items = [item(201), item(409), item(404), item(201), item(403)];
    assert_eq!(judge(200, json!(items)), one);
    let all = [item(404), item(403), item(403), item(401), item(404)];
    assert_eq!(judge(200, json!(all)), Verdict::Refused(text(404)));
    assert!(matches!(
        judge(200, json!([item(201)])),
        Verdict::Refused(_)
    ));
}

/// Errors with one status are about documents, about the index, or about the cluster.
#[test]
fn errors_of_documents_are_judged_by_their_types() {
    let encoder = encoder("kubernetes-events", Mode::Versions);
    for (of, reason, expected) in [
        ("document_parsing_exception", "failed to parse", "items"),
        (
            "illegal_argument_exception",
            "Limit of total fields [1000]",
            "items",
        ),
        (
            "validation_exception",
            "this action would add [2] shards",
            "items retry",
        ),
        ("index_closed_exception", "closed", "items retry"),
        (
            "invalid_index_name_exception",
            "Invalid index name [.]",
            "refused",
        ),
        (
            "illegal_argument_exception",
            "only write ops with an op_type of create are allowed in data streams",
            "refused",
        ),
    ] {
        let item = json!({"index": {"status": 400, "error": {"type": of, "reason": reason}}});
        let body = json!({"errors": true, "items": [item, item]}).to_string();
        let verdict = encoder.judge(&answer(200, &body), &records()[..2]);
        let found = match &verdict {
            Verdict::Items(all) if matches!(all[..], [Outcome::Retry(_), Outcome::Retry(_)]) => {
                "items retry"
            }
            other => kind(other),
        };
        assert_eq!(found, expected, "{of} {reason}");
    }
}

/// An answer whose end is missing says nothing of each document, and comes again the same.
#[test]
fn a_cut_answer_is_asked_for_in_halves() {
    let encoder = encoder("kubernetes-events", Mode::Versions);
    let body = format!(
        "{{\"errors\":true,\"items\":[\"{}",
        "x".repeat(ANSWER_LEN_MAX)
    );
    let judge = |body: &str, number| {
        let records = &records()[..number];
        encoder.judge(&answer(200, body), records)
    };
    assert_eq!(judge(&body[..ANSWER_LEN_MAX], 2), Verdict::TooLarge);
    // No answer about one document is that long.
    assert_eq!(kind(&judge(&body[..ANSWER_LEN_MAX], 1)), "refused");
    assert_eq!(kind(&judge(&body[..900], 2)), "refused");
}

#[test]
fn an_index_has_at_most_one_date() {
    for text in [
        "a",
        "a-{yyyy}",
        "{yyyy-MM-dd}-b",
        "a.{MM_dd}",
        &format!("{}{{yyyy}}", "x".repeat(251)),
        &"x".repeat(255),
    ] {
        assert!(Index::parse(text).is_ok(), "{text}");
    }
    for text in [
        "",
        "A",
        "a b",
        "-a",
        "_a",
        "a*",
        "a{",
        "a}",
        "a{}",
        "a-{..}",
        "{.}",
        "{-}x",
        "{_}x",
        "{-yyyy}",
        "{_MM}x",
        "a{2006}",
        "a{yyyy}{MM}",
        "a{YYYY}",
        "..",
        "a,b",
        &"x".repeat(256),
        &format!("{}{{yyyy}}", "x".repeat(252)),
    ] {
        assert!(Index::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_key_that_is_too_long_is_not_sent() {
    let mut long = record(NODE);
    long.id = "x".repeat(600);
    let unknown = Source {
        uid: String::new(),
        ..source()
    };
    let encoder = encoder("kubernetes-events", Mode::Versions);
    let encoded = encoder.encode(&unknown, &[record(BACK_OFF), long, record(SERIES)]);
    assert_eq!(encoded.unencodable.len(), 1);
    assert_eq!(encoded.unencodable[0].0, 1);
    let text = std::str::from_utf8(&encoded.body).unwrap();
    assert_eq!(text.lines().count(), 4);
    assert!(
        text.starts_with(r#"{"create":{"_id":"prod:e7ea77f9"#),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_data(record in hostile()) {
        let RecordBody::Version(version) = &record.body else { unreachable!() };
        let message = version.event.message().to_owned();
        for mode in [Mode::Versions, Mode::Latest] {
            let lines = lines(&encoder("e", mode), std::slice::from_ref(&record));
            prop_assert_eq!(lines.len(), 2);
            prop_assert_eq!(lines[1]["message"].as_str().unwrap_or_default(), &message);
        }
    }
}
