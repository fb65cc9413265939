//! Each configuration of kubernetes-event-exporter's README, and of what its users complain about:
//! it becomes a feed, or the error or a finding has its name. No member is left out in silence.

use serde_json::{Map, Value, json};
use tidings_feeds::convert::{Converted, convert};

use crate::receivers::RECEIVERS;

fn converted(receiver: &Value) -> Converted {
    let route = json!({"match": [{"receiver": "r"}]});
    let text = json!({"route": route, "receivers": [receiver]}).to_string();
    convert(&text).unwrap()
}

fn receiver(text: &str) -> Value {
    let mut receiver: Map<String, Value> = serde_saphyr::from_str(text).unwrap();
    receiver.insert("name".to_owned(), "r".into());
    receiver.into()
}

#[test]
fn each_documented_receiver_is_a_feed_or_named() {
    for (text, member, named) in RECEIVERS {
        let converted = converted(&receiver(text));
        let feeds: Value = serde_saphyr::from_str(&converted.feeds).unwrap();
        let feeds = feeds["feeds"].as_array().unwrap();
        match member {
            "" => assert!(feeds.is_empty(), "{text}: {feeds:?}"),
            member => assert!(feeds[0][member].is_object(), "{text}: {feeds:?}"),
        }
        let found = converted.findings.iter().map(|it| it.what.as_str());
        let mut found: Vec<_> = found
            .filter_map(|it| it.strip_prefix("receivers[0]."))
            .collect();
        found.sort_unstable();
        let mut named = named.to_vec();
        named.sort_unstable();
        assert_eq!(found, named, "{text}");
    }
}

/// If another value of a member makes no difference, a finding has its name, or that of what it is
/// in.
#[test]
fn no_member_is_left_out_in_silence() {
    for (text, ..) in RECEIVERS {
        let whole = receiver(text);
        let before = converted(&whole);
        let mut all = Vec::new();
        paths(&whole, "", "receivers[0]", &mut all);
        for (pointer, path) in all {
            let mut changed = whole.clone();
            let value = changed.pointer_mut(&pointer).unwrap();
            *value = match value.take() {
                Value::Bool(is) => json!(!is),
                Value::Number(number) => json!(number.as_i64().unwrap() + 1),
                other => json!(format!("{}z", other.as_str().unwrap())),
            };
            let after = converted(&changed);
            let names = |it: &Converted| it.findings.iter().any(|it| path.starts_with(&it.what));
            let is_named = names(&before) || names(&after);
            assert!(is_named || after.feeds != before.feeds, "{path} of {text}");
        }
    }
}

/// Collects the pointer and the path of each text, number and boolean, but of the name.
fn paths(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                paths(
                    value,
                    &format!("{pointer}/{name}"),
                    &format!("{path}.{name}"),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                paths(
                    value,
                    &format!("{pointer}/{number}"),
                    &format!("{path}[{number}]"),
                    found,
                );
            }
        }
        Value::Null => {}
        _ if pointer == "/name" => {}
        _ => found.push((pointer.to_owned(), path.to_owned())),
    }
}

/// The layout of its section "Customizing Payload", which only a webhook can have.
#[test]
fn layouts_are_templates_whose_values_stay_texts() {
    let layout = r#"webhook: {endpoint: "https://a", layout: {all: "{{ toJson . }}", createdAt: "{{ .GetTimestampMs }}", details: {count: "{{ .Count }}", kind: "{{.InvolvedObject.Kind}}", labels: "{{ toJson .InvolvedObject.Labels}}", message: "{{ .Message }}", place: "{{ .Namespace }}/{{ .Source.Host }}"}, nano: "{{ mul .GetTimestampMs 1000000 }}", own: "{{ .Labels.team }}", region: us-west-2, team: '{{ .Labels.team | default "x" }}'}}"#;
    let converted = converted(&receiver(layout));
    let what: Vec<_> = converted.findings.iter().map(ToString::to_string).collect();
    let [labels, team] = what.as_slice() else {
        panic!("{what:?}");
    };
    assert!(
        labels.contains(".InvolvedObject.Labels, since it has the event"),
        "{labels}"
    );
    assert!(
        team.contains(r#"nothing like {{ .Labels.team | default "x" }}"#),
        "{team}"
    );
    let feeds: Value = serde_saphyr::from_str(&converted.feeds).unwrap();
    assert_eq!(
        feeds["feeds"][0]["webhook"]["body"],
        r#"{"all": {{ event }}, "createdAt": {{ "" ~ firstSeenMs }}, "details": {"count": {{ "" ~ event.count }}, "kind": {{ "" ~ event.involvedObject.kind }}, "message": {{ "" ~ message }}, "place": {{ event.metadata.namespace ~ "/" ~ event.source.host }}}, "nano": {{ "" ~ (firstSeenMs * 1000000) }}, "own": {{ "" ~ (event.metadata.labels["team"] | default('')) }}, "region": "us-west-2"}"#
    );
}

/// A comma behind a value, as its README has it, and a template without quotes (issue 49).
#[test]
fn text_that_is_no_yaml_is_refused_with_its_line() {
    for (receiver, words) in [
        ("opscenter:\n    title: \"{{ .Message }}\",", "line 4"),
        ("webhook:\n    endpoint: {{ .Message }}", "needs quotes"),
    ] {
        let text = format!("route: {{match: [{{receiver: r}}]}}\nreceivers:\n- {receiver}\n");
        let error = convert(&text).unwrap_err().to_string();
        assert!(error.contains("line 4") && error.contains(words), "{error}");
    }
}
