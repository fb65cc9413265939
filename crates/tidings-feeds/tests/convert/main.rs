//! Configurations of kubernetes-event-exporter as feeds: the forms of its documentation, and what
//! its users complain about.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod documented;
mod receivers;

use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::Value;
use tidings_feeds::Conditions;
use tidings_feeds::convert::{ConvertError, convert};

/// Returns the file of feeds, and each finding as `line what`.
fn converted(text: &str) -> (String, Vec<String>) {
    let converted = convert(text).unwrap();
    let findings = converted.findings.iter();
    let findings = findings.map(|finding| format!("{} {}", finding.line, finding.what));
    (converted.feeds, findings.collect())
}

/// Returns each feed's name and conditions.
fn conditions(feeds: &str) -> Vec<(String, Conditions)> {
    let feeds: Value = serde_saphyr::from_str(feeds).unwrap();
    let feeds = feeds["feeds"].as_array().unwrap().iter();
    feeds
        .map(|feed| {
            let read = serde_saphyr::from_str(&feed["match"].to_string());
            let conditions = match &feed["match"] {
                Value::Null => Conditions::default(),
                _ => read.unwrap(),
            };
            (feed["name"].as_str().unwrap().to_owned(), conditions)
        })
        .collect()
}

/// The drop of `*test*`, which is in its documentation, has never dropped an event.
#[test]
fn routes_are_conditions_and_an_invalid_pattern_is_named() {
    let text = r#"logLevel: error
maxEventAgeSeconds: 60
route:
  routes:
    - match:
        - receiver: dump
    - drop:
        - namespace: "*test*"
        - type: "Normal"
      match:
        - receiver: critical
    - match:
        - kind: "Pod|Deployment|ReplicaSet"
          labels:
            version: dev
          receiver: slack
receivers:
  - name: dump
    elasticsearch:
      hosts: [http://localhost:9200]
      indexFormat: "kube-events-{2006-01-02}"
      apiKey: ${ELASTIC_API_KEY}
      useEventID: true
      deDot: true
  - name: critical
    file: {path: /var/log/events, maxsize: 10, maxbackups: 3}
  - name: slack
    slack: {token: x, channel: "@{{ .InvolvedObject.Labels.owner }}"}
"#;
    let (feeds, findings) = converted(text);
    assert_eq!(
        feeds,
        r#"feeds:
- name: "dump"
  elasticsearch:
    index: "kube-events-{yyyy-MM-dd}"
    url: "http://localhost:9200"
  connection:
    apiKeyFile: "dump-apikey"
- name: "critical"
  match:
    not: [{"type":"*Normal*"}]
  file:
    keep: 3
    path: "/var/log/events"
    rotate: "10Mi"
"#
    );
    assert_eq!(
        findings,
        [
            "1 logLevel",
            "2 maxEventAgeSeconds",
            "8 route.routes[1].drop[0].namespace",
            "13 route.routes[2].match[0]",
            "15 route.routes[2].match[0].labels",
            "22 receivers[0].elasticsearch.apiKey",
            "23 receivers[0].elasticsearch.useEventID",
            "24 receivers[0].elasticsearch.deDot",
            "27 receivers[2]",
        ]
    );
    let invalid = convert(text).unwrap().findings[2].to_string();
    assert!(
        invalid.contains("missing argument to repetition operator: `*`"),
        "{invalid}"
    );
    assert!(invalid.contains("never dropped an event"), "{invalid}");
}

fn events() -> [Event; 4] {
    let text = |text: &str| Some(text.to_owned());
    let event = |namespace, kind, reason, event_type, message| Event {
        metadata: Some(ObjectMeta {
            namespace: text(namespace),
            ..ObjectMeta::default()
        }),
        involved_object: Some(ObjectReference {
            kind: text(kind),
            name: text("web-0"),
            ..ObjectReference::default()
        }),
        reason: text(reason),
        r#type: text(event_type),
        source: Some(EventSource {
            component: text("kubelet"),
            host: text("worker-1"),
        }),
        message: text(message),
        ..Event::default()
    };
    [
        event(
            "shop",
            "Pod",
            "BackOff",
            "Warning",
            "Back-off restarting failed container",
        ),
        event(
            "kube-system",
            "Pod",
            "Pulled",
            "Normal",
            "Successfully pulled image",
        ),
        event(
            "shop-test",
            "Deployment",
            "ScalingReplicaSet",
            "Normal",
            "Scaled up to 3",
        ),
        event(
            "default",
            "Node",
            "NodeNotReady",
            "Warning",
            "Node is not ready",
        ),
    ]
}

/// The numbers of the events that each feed selects.
fn selected_by(feeds: &str, events: &[Event]) -> Vec<String> {
    conditions(feeds)
        .iter()
        .map(|(_, conditions)| {
            let events = events.iter().enumerate();
            let selected = events.filter(|(_, event)| conditions.match_event("prod", event));
            selected.map(|(number, _)| number.to_string()).collect()
        })
        .collect()
}

/// Each row has rules, and which events reach the receiver by the conditions that are taken over.
#[test]
fn a_feed_selects_what_the_rules_select() {
    let events = events();
    for (route, selected) in [
        ("match: [{receiver: r}]", vec!["0123"]),
        ("match: [{type: Warning, receiver: r}]", vec!["03"]),
        ("match: [{namespace: shop, receiver: r}]", vec!["02"]),
        ("match: [{namespace: ^shop$, receiver: r}]", vec!["0"]),
        (
            "match: [{namespace: 'shop|default', type: Warning, receiver: r}]",
            vec!["03"],
        ),
        ("match: [{reason: '^Node.*Ready$', receiver: r}]", vec!["3"]),
        ("match: [{message: 'not ready', receiver: r}]", vec!["3"]),
        (
            "match: [{kind: Pod, receiver: r}, {kind: Node, receiver: r}]",
            vec!["01", "3"],
        ),
        (
            "match: [{component: kube, host: 'worker', receiver: r}]",
            vec!["0123"],
        ),
        (
            "{drop: [{type: Normal}], match: [{receiver: r}]}",
            vec!["03"],
        ),
        (
            "{drop: [{reason: Pulled}, {namespace: test}], match: [{receiver: r}]}",
            vec!["03"],
        ),
        (
            "{drop: [{message: 'pulled image'}], match: [{receiver: r}]}",
            vec!["023"],
        ),
        // A drop needs all of its conditions.
        (
            "{drop: [{type: Normal, kind: Pod}], match: [{receiver: r}]}",
            vec!["023"],
        ),
        (
            "{drop: [{message: Failed}, {message: '^Successfully|3$'}], match: [{receiver: r}]}",
            vec!["03"],
        ),
        (
            "match: [{message: 'failed|ready', receiver: r}]",
            vec!["03"],
        ),
        // What cannot be taken over drops nothing.
        (
            "{drop: [{type: Normal, minCount: 5}], match: [{receiver: r}]}",
            vec!["0123"],
        ),
        (
            "{drop: [{type: Unknown}, {reason: '(?i)pulled'}], match: [{receiver: r}]}",
            vec!["0123"],
        ),
        (
            "{drop: [{type: Normal, apiVersion: '*beta*'}], match: [{receiver: r}]}",
            vec!["0123"],
        ),
        (
            "{drop: [{namespace: '(?!shop)'}], match: [{receiver: r}]}",
            vec!["0123"],
        ),
        // What cannot be selected has no feed.
        ("match: [{namespace: '*', receiver: r}]", vec![]),
        ("match: [{minCount: 3, receiver: r}]", vec![]),
        ("match: [{message: 'a.b', receiver: r}]", vec![]),
        ("{drop: [{}], match: [{receiver: r}]}", vec![]),
        // Conditions and drops above hold below.
        (
            "{match: [{type: Warning}], routes: [{match: [{kind: Pod, receiver: r}]}]}",
            vec!["0"],
        ),
        (
            "{drop: [{kind: Node}], routes: [{match: [{type: Warning, receiver: r}]}]}",
            vec!["0"],
        ),
        (
            "{match: [{type: Warning}, {kind: Pod}], routes: [{match: [{receiver: r}]}]}",
            vec!["0"],
        ),
        (
            "{match: [{type: '*'}], routes: [{match: [{receiver: r}]}]}",
            vec![],
        ),
        (
            "{match: [{kind: Pod}], routes: [{match: [{kind: Node, receiver: r}]}]}",
            vec![],
        ),
    ] {
        let route_of = route
            .strip_prefix("match:")
            .map(|rules| format!("{{match:{rules}}}"));
        let route_of = route_of.unwrap_or_else(|| route.to_owned());
        let text = format!("route: {route_of}\nreceivers: [{{name: r, stdout: {{}}}}]");
        let (feeds, findings) = converted(&text);
        let found = selected_by(&feeds, &events);
        assert_eq!(found, selected, "{route}");
        // What has no feed has a finding.
        assert!(!found.is_empty() || !findings.is_empty(), "{route}");
    }
}

/// Converts a receiver. Returns its feed without its name, and the findings.
fn convert_one(receiver: &str) -> (String, String) {
    let text =
        format!("route: {{match: [{{receiver: r}}]}}\nreceivers:\n- name: r\n  {receiver}\n");
    let (feeds, findings) = converted(&text);
    (
        feeds.replace("feeds:\n- name: \"r\"\n", ""),
        findings.join(", "),
    )
}

#[test]
fn receivers_are_converted() {
    let of = |members: &str| members.trim_start_matches('\n').to_owned();
    for (receiver, expected, findings) in [
        ("stdout: {}", "  stdout: {}\n", ""),
        (
            "stdout: {deDot: true, layout: {a: '{{ .Message }}'}}",
            "  stdout: {}\n",
            "4 receivers[0].stdout.deDot, 4 receivers[0].stdout.layout",
        ),
        (
            "file: {path: /tmp/dump, maxage: 3}",
            "  file:\n    path: \"/tmp/dump\"\n",
            "4 receivers[0].file.maxage, 4 receivers[0].file.maxbackups",
        ),
        (
            "file: {path: /dev/stdout, maxsize: 5}",
            "  stdout: {}\n",
            "4 receivers[0].file.maxsize",
        ),
        ("file: {path: /proc/self/fd/1}", "  stdout: {}\n", ""),
        (
            "file: {path: /dev/stderr}",
            "feeds: []\n",
            "4 receivers[0].file.path",
        ),
        (
            "webhook:\n    endpoint: https://a.example/x\n    headers: {X-API-KEY: '123', User-Agent: kee}\n    tls: {insecureSkipVerify: true, caFile: /ca, serverName: b}",
            r#"
  webhook:
    body: "{{ event }}"
    form: "template"
    url: "https://a.example/x"
  connection:
    ca: "/ca"
    headerFiles: {"X-API-KEY":"r-x-api-key"}
    headers: {"User-Agent":"kee"}
    insecureSkipVerify: "a.example"
"#,
            "5 receivers[0].webhook.endpoint, 6 receivers[0].webhook.headers.X-API-KEY, 7 receivers[0].webhook.tls.serverName",
        ),
        (
            "opensearch: {hosts: ['https://a:9200', 'https://b:9200'], index: kube-events, username: u, password: 'pa$word1'}",
            r#"
  elasticsearch:
    index: "kube-events"
    url: "https://a:9200"
  connection:
    passwordFile: "r-password"
    username: "u"
"#,
            "4 receivers[0].opensearch.hosts, 4 receivers[0].opensearch.password",
        ),
        (
            "elasticsearch: {cloudID: 'x:y'}",
            "feeds: []\n",
            "4 receivers[0].elasticsearch.cloudID",
        ),
        (
            "opensearch: {hosts: ['https://a'], indexFormat: 'kube-{{ .InvolvedObject.Namespace }}-{2006}'}",
            "  elasticsearch:\n    url: \"https://a\"\n",
            "4 receivers[0].opensearch.indexFormat",
        ),
        // Without labels Loki took nothing, and nobody was told.
        (
            "loki: {url: 'http://loki/loki/api/v1/push'}",
            "  loki:\n    line: \"json\"\n    url: \"http://loki/loki/api/v1/push\"\n",
            "4 receivers[0].loki.url",
        ),
        (
            "loki: {url: 'http://loki', headers: {X-Scope-OrgID: ops}, streamLabels: {env: prod, ns: '{{ .InvolvedObject.Namespace }}', pod: '{{ .InvolvedObject.Name }}'}}",
            r#"
  loki:
    labels: {"env":{"text":"prod"},"ns":"namespace"}
    line: "json"
    tenant: "ops"
    url: "http://loki"
"#,
            "4 receivers[0].loki.streamLabels.ns, 4 receivers[0].loki.streamLabels.pod",
        ),
    ] {
        let found = convert_one(receiver);
        assert_eq!(found, (of(expected), findings.to_owned()), "{receiver}");
    }
}

/// An archive refuses two feeds with one file.
#[test]
fn a_file_has_one_feed() {
    let (feeds, findings) = converted(
        "route:
  match:
  - {type: Warning, receiver: a}
  - {kind: Pod, receiver: a}
  - {receiver: b}
receivers:
- {name: a, file: {path: /x/y, maxbackups: 1}}
- {name: b, file: {path: /x/./y, maxbackups: 1}}
",
    );
    let found = conditions(&feeds);
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(selected_by(&feeds, &events()), ["03"]);
    assert_eq!(findings, ["4 receiver", "8 receivers[1]"]);
}

#[test]
fn a_receiver_without_a_counterpart_is_named() {
    for kind in [
        "kafka",
        "kinesis",
        "firehose",
        "sns",
        "sqs",
        "pubsub",
        "bigquery",
        "eventbridge",
        "opscenter",
        "slack",
        "teams",
        "opsgenie",
        "syslog",
        "pipe",
        "prometheus",
        "inMemory",
        "unheard-of",
    ] {
        let found = convert_one(&format!("{kind}: {{a: b}}"));
        assert_eq!(
            found,
            ("feeds: []\n".to_owned(), format!("4 receivers[0].{kind}"))
        );
    }
}

#[test]
fn secrets_are_in_no_feed_and_variables_are_named() {
    let (feeds, findings) = converted(
        "route: {match: [{receiver: My_Loki}, {receiver: absent}]}
receivers:
- name: My_Loki
  loki:
    url: http://${HOST}/push
    headers: {Authorization: Basic c2VjcmV0, X-Team: \"${TEAM}\"}
    streamLabels: {cost: $15}
- name: unused
  stdout: {}
namespace: shop
",
    );
    assert!(!feeds.contains("c2VjcmV0"), "{feeds}");
    assert!(
        feeds.contains("- name: \"my-loki\"\n  match:\n    namespace: \"shop\"\n"),
        "{feeds}"
    );
    assert!(feeds.contains("url: \"http://${HOST}/push\""), "{feeds}");
    assert_eq!(
        findings,
        [
            "1 receiver",
            "5 receivers[0].loki.url",
            "6 receivers[0].loki.headers.Authorization",
            "6 receivers[0].loki.headers.X-Team",
            "7 receivers[0].loki.streamLabels.cost",
            "8 receivers[1]",
            "10 namespace",
        ]
    );
}

/// An archive refuses a URL with a password, and the file of feeds is no secret.
#[test]
fn a_password_in_a_url_becomes_a_file() {
    for (receiver, url, username, findings) in [
        (
            "webhook: {endpoint: 'https://us%40er:hunter%2F2@a.example/x?y=a@b'}",
            "https://a.example/x?y=a@b",
            Some("us@er"),
            "4 receivers[0].webhook.endpoint, 4 receivers[0].webhook.endpoint",
        ),
        (
            "elasticsearch: {hosts: ['http://elastic:hunter2@a:9200'], apiKey: hunter2}",
            "http://a:9200",
            Some("elastic"),
            "4 receivers[0].elasticsearch.hosts, 4 receivers[0].elasticsearch.apiKey",
        ),
        (
            "loki: {url: 'https://tidings:hunter2@loki/push', streamLabels: {a: b}}",
            "https://loki/push",
            Some("tidings"),
            "4 receivers[0].loki.url",
        ),
        (
            "loki: {url: 'https://hunter2@loki/push', streamLabels: {a: b}}",
            "https://loki/push",
            None,
            "4 receivers[0].loki.url",
        ),
        (
            "loki: {url: 'https://hunter2:@loki/push', streamLabels: {a: b}}",
            "https://loki/push",
            None,
            "4 receivers[0].loki.url",
        ),
        (
            "loki: {url: 'https://u:hunter2@loki', headers: {authorization: x}, streamLabels: {a: b}}",
            "https://loki",
            None,
            "4 receivers[0].loki.headers.authorization, 4 receivers[0].loki.url",
        ),
    ] {
        let text =
            format!("route: {{match: [{{receiver: r}}]}}\nreceivers:\n- name: r\n  {receiver}\n");
        let (feeds, found) = converted(&text);
        assert!(!feeds.contains("hunter"), "{feeds}");
        assert!(!found.join(", ").contains("hunter"), "{found:?}");
        assert!(feeds.contains(&format!("url: \"{url}\"\n")), "{feeds}");
        let login = username
            .map(|name| format!("    passwordFile: \"r-password\"\n    username: \"{name}\"\n"));
        match login {
            Some(login) => assert!(feeds.contains(&login), "{feeds}"),
            None => assert!(!feeds.contains("username"), "{feeds}"),
        }
        let mut expected: Vec<_> = findings.split(", ").collect();
        expected.sort_unstable();
        let mut found: Vec<_> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{receiver}");
    }
}

#[test]
fn text_that_is_no_configuration_is_refused_with_its_line() {
    let error =
        convert("receivers:\n- name: a\n  webhook:\n    layout:\n      a: {{ .Message }}\n");
    let error = error.unwrap_err();
    assert!(matches!(error, ConvertError::Template(_)), "{error:?}");
    assert!(
        error.to_string().contains("line 5") && error.to_string().contains("quotes"),
        "{error}"
    );
    for text in ["", "a: b", "route: {}", "- a"] {
        assert!(convert(text).is_err(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever the texts are, the feeds are YAML with valid conditions, and name a receiver each.
    #[test]
    fn any_texts_are_converted_to_valid_feeds(
        texts in prop::collection::vec(prop_oneof![any::<String>(), "[a-z*.|^$(){} \"':\n-]{0,12}"], 8),
    ) {
        let quoted: Vec<String> = texts.iter().map(|text| Value::from(text.as_str()).to_string()).collect();
        let [name, namespace, reason, message, url, header, value, label] = quoted.as_slice() else { unreachable!() };
        let text = format!(
            "route: {{drop: [{{reason: {reason}}}], match: [{{namespace: {namespace}, receiver: {name}}}, {{message: {message}, receiver: {name}}}]}}
receivers: [{{name: {name}, loki: {{url: {url}, headers: {{{header}: {value}}}, streamLabels: {{a: {label}}}}}}}]
"
        );
        if let Ok(converted) = convert(&text) {
            for (name, _) in conditions(&converted.feeds) {
                prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            }
        }
    }
}
