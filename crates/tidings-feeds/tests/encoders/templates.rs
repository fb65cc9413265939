//! Bodies of webhooks by templates.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_feeds::encode::Encoder;
use tidings_feeds::encode::webhook::{Template, Webhook};
use tidings_feeds::{Record, RecordBody};

use crate::events::{BACK_OFF, SERIES, hostile, record, records, source};

fn body(template: &str, record: &Record) -> Result<Value, String> {
    let template = Template::parse(template).map_err(|error| error.to_string())?;
    let encoded = Webhook::Template(template).encode(&source(), std::slice::from_ref(record));
    match encoded.unencodable.into_iter().next() {
        Some((_, why)) => Err(why),
        None => Ok(serde_json::from_slice(&encoded.body).unwrap()),
    }
}

#[test]
fn values_are_json() {
    for (template, event, expected) in [
        (
            r#"{"text": {{ message }}, "n": {{ count }}, "new": {{ occurrences }}}"#,
            BACK_OFF,
            json!({"text": "Back-off restarting \"failed\" container", "n": 7, "new": 2}),
        ),
        (
            "{{ reason ~ ': ' ~ event.involvedObject.name ~ ' on ' ~ event.source.host }}",
            BACK_OFF,
            json!("BackOff: storage-provisioner on minikube"),
        ),
        // A field that the event does not have is empty, and a label can have a default.
        (
            "[{{ event.action }}, {{ event.count }}, {{ event.firstTimestamp }}, \
             {{ event.metadata.labels.team | default('none') }}]",
            BACK_OFF,
            json!(["", 7, "2021-06-21T02:29:23Z", "none"]),
        ),
        (
            "[{{ event.count }}, {{ count }}, {{ event.series.count }}, {{ event.source.host }}]",
            SERIES,
            json!([0, 26, 26, ""]),
        ),
        (
            "[{{ firstSeenMs }}, {{ firstSeen }}, {{ lastSeen }}, {{ observed }}]",
            BACK_OFF,
            json!([
                1_624_242_563_000_i64,
                "2021-06-21T02:29:23Z",
                "2021-06-21T02:31:23Z",
                "2021-06-21T02:31:24Z"
            ]),
        ),
        (
            "[{{ kind }}, {{ id }}, {{ cluster }}, {{ clusterUid }}, {{ namespace }}, {{ type }}]",
            BACK_OFF,
            json!([
                "event",
                "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa/0/1179",
                "prod",
                "c1d2e3f4",
                "kube-system",
                "Warning"
            ]),
        ),
        (
            "{{ 'page' if type == 'Warning' and 'restarting' in message else 'log' }}",
            BACK_OFF,
            json!("page"),
        ),
    ] {
        assert_eq!(body(template, &record(event)), Ok(expected), "{template}");
    }
    // The whole event is a value, without the fields that it does not have.
    let whole = body("{\"event\": {{ event }}}", &record(BACK_OFF)).unwrap();
    let mut expected: Value = serde_json::from_str(BACK_OFF).unwrap();
    for absent in ["eventTime", "reportingComponent", "reportingInstance"] {
        assert!(
            whole["event"][absent]
                .as_str()
                .unwrap_or_default()
                .is_empty()
        );
        expected[absent] = whole["event"][absent].clone();
    }
    assert_eq!(whole["event"], expected);
}

#[test]
fn a_template_is_good_for_every_kind_of_record() {
    let template = "[{{ kind }}, {{ reason }}, {{ event.involvedObject.name }}, {{ message }}]";
    let kinds: Vec<_> = records()
        .iter()
        .map(|record| {
            body(template, record).unwrap()[0]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(kinds, ["event", "event", "event", "gap", "skip", "test"]);
}

#[test]
fn a_wrong_template_is_an_error_before_it_is_used() {
    let long = " ".repeat(70_000);
    for (template, said) in [
        (
            "{\n\"a\": {{ mesage }}}",
            "mesage, which is no field: expected",
        ),
        (
            "{{ event.involvedObject.nmae }}",
            "event.involvedObject.nmae, which is no field",
        ),
        ("{{ message.text }}", "message.text, which is no field"),
        ("{{ .Message }}", "line 1 of the body: "),
        ("{\n{% if kind %}1", "line 2 of the body: "),
        ("{{ message | sprig }}", "unknown filter"),
        // Quotes around a value, and a text as it is.
        (
            "{\"text\": \"{{ message }}\"}",
            "an event: the body is no JSON",
        ),
        (
            "{\"text\": {{ message | safe }}}",
            "an event: the body is no JSON",
        ),
        ("event {{ message }}", "the body is no JSON"),
        // It is right for events only.
        ("{{ 70 // event.count }}", "an event without fields"),
        (
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "fuel",
        ),
        ("{{ 'x' * 3000000 }}", "more than"),
        ("{% include 'other' %}", "body"),
        (&long, "more than"),
    ] {
        let error = body(template, &record(BACK_OFF)).unwrap_err();
        assert!(error.contains(said), "{template}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Quotes and newlines of messages made invalid JSON in other exporters.
    #[test]
    fn any_text_stays_a_value(record in hostile()) {
        let RecordBody::Version(version) = &record.body else { unreachable!() };
        let message = version.event.message();
        let found = body("{\"a\": {{ message }}, \"b\": {{ '<' ~ message ~ '>' }}, \"c\": {{ event }}}", &record);
        let found = found.map_err(TestCaseError::fail)?;
        prop_assert_eq!(found["a"].as_str(), Some(message));
        prop_assert_eq!(&found["b"], &json!(format!("<{message}>")));
        prop_assert_eq!(found["c"]["message"].as_str().unwrap_or_default(), message);
    }
}
