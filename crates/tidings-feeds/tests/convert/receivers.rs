//! The receivers of kubernetes-event-exporter's README, and those that its users complain about.

/// A receiver in YAML, the member of its feed (empty if it has none), and what is named.
pub(crate) type Row = (&'static str, &'static str, &'static [&'static str]);

pub(crate) const RECEIVERS: [Row; 29] = [
    (
        r#"opsgenie: {apiKey: xxx, priority: "P3", message: "Event {{ .Reason }}", alias: "{{ .UID }}", description: "<pre>{{ toPrettyJson . }}</pre>", tags: ["event", "{{ .Reason }}"]}"#,
        "",
        &["opsgenie"],
    ),
    (
        r#"webhook: {endpoint: "https://my-super-secret-service.com", headers: {X-API-KEY: "123", User-Agent: kube-event-exporter 1.0}, layout: }"#,
        "webhook",
        &["webhook.endpoint", "webhook.headers.X-API-KEY"],
    ),
    (
        r#"elasticsearch: {hosts: [http://localhost:9200], index: kube-events, indexFormat: "kube-events-{2006-01-02}", username: , password: , cloudID: , apiKey: , headers: , useEventID: true, deDot: true, layout: , tls: {insecureSkipVerify: true, serverName: a, caFile: /ca}}"#,
        "elasticsearch",
        &[
            "elasticsearch.index",
            "elasticsearch.useEventID",
            "elasticsearch.deDot",
            "elasticsearch.tls.serverName",
        ],
    ),
    (
        "opensearch: {hosts: [http://localhost:9200], index: kube-events, username: u, password: p, useEventID: true, deDot: false, layout: {a: b}, type: kube-event}",
        "elasticsearch",
        &[
            "opensearch.password",
            "opensearch.layout",
            "opensearch.type",
        ],
    ),
    (
        r#"slack: {token: YOUR-API-TOKEN-HERE, channel: "@{{ .InvolvedObject.Labels.owner }}", message: "{{ .Message }}", fields: {namespace: "{{ .Namespace }}"}}"#,
        "",
        &["slack"],
    ),
    (
        "kinesis: {streamName: events-pipeline, region: us-west-2, layout: }",
        "",
        &["kinesis"],
    ),
    (
        "firehose: {deliveryStreamName: events-pipeline, region: us-west-2}",
        "",
        &["firehose"],
    ),
    (
        "sns: {topicARN: 'arn:aws:sns:us-east-1:1234567890123456:mytopic', region: us-west-2}",
        "",
        &["sns"],
    ),
    (
        "sqs: {queueName: /tmp/dump, region: us-west-2}",
        "",
        &["sqs"],
    ),
    (
        "file: {path: /tmp/dump, layout: }",
        "file",
        &["file.maxbackups"],
    ),
    (
        "file: {path: /dev/stdout, maxsize: 5, maxage: 3}",
        "stdout",
        &["file.maxage", "file.maxsize"],
    ),
    ("file: {path: /dev/stderr}", "", &["file.path"]),
    (
        "file: {path: /tmp/dump, layout: {a: '{{ .Message }}'}, maxsize: 5, maxage: 3, maxbackups: 2, deDot: true}",
        "file",
        &["file.layout", "file.maxage", "file.deDot"],
    ),
    ("stdout: {deDot: true}", "stdout", &["stdout.deDot"]),
    (
        "kafka: {clientId: kubernetes, topic: kube-event, brokers: ['localhost:9092'], compressionCodec: snappy, tls: {enable: true, certFile: a, keyFile: b, caFile: c}, sasl: {enable: true, username: d, password: e, mechanism: sha512}, layout: {kind: '{{ .InvolvedObject.Kind }}'}}",
        "",
        &["kafka"],
    ),
    (
        r#"opscenter: {title: "{{ .Message }}", category: "{{ .Reason }}", notifications: [sns1], priority: "6", region: us-east1}"#,
        "",
        &["opscenter"],
    ),
    (
        "pubsub: {gcloud_project_id: my-project, topic: kube-event, create_topic: False}",
        "",
        &["pubsub"],
    ),
    (
        r#"teams: {endpoint: "https://outlook.office.com/webhook/..."}"#,
        "",
        &["teams"],
    ),
    (
        r#"syslog: {network: tcp, address: "127.0.0.1:11514", tag: k8s.event}"#,
        "",
        &["syslog"],
    ),
    (
        "bigquery: {location: a, project: b, dataset: c, table: d, batch_size: 1}",
        "",
        &["bigquery"],
    ),
    ("pipe: {path: /dev/stdout, deDot: true}", "", &["pipe"]),
    (
        r#"eventbridge: {detailType: deployment, source: cd, eventBusName: default, region: r, details: {message: "{{ .Message }}"}}"#,
        "",
        &["eventbridge"],
    ),
    ("inMemory: {}", "", &["inMemory"]),
    (
        "loki: {headers: {X-Scope-OrgID: tennantID}, streamLabels: {foo: bar}, url: 'http://127.0.0.1:3100/loki/api/v1/push'}",
        "loki",
        &[],
    ),
    // Loki took nothing, and nobody was told (issue 119).
    (
        "loki: {url: 'http://loki/loki/api/v1/push'}",
        "loki",
        &["loki.url"],
    ),
    // Labels cannot come from the event (issues 134 and 185).
    (
        "loki: {url: 'http://loki', streamLabels: {ns: '{{ .InvolvedObject.Namespace }}', pod: '{{ .InvolvedObject.Name }}'}}",
        "loki",
        &["loki.streamLabels.ns", "loki.streamLabels.pod"],
    ),
    // A misspelt field drops the whole layout (issue 69).
    (
        r#"webhook: {endpoint: "https://a", layout: {text: "{{ .Mesage }}", reason: "{{ .Reason }}"}}"#,
        "webhook",
        &["webhook.layout.text"],
    ),
    // Passwords in a ConfigMap (issue 48).
    (
        "elasticsearch: {hosts: ['http://a'], username: u, password: 'pa$$word'}",
        "elasticsearch",
        &["elasticsearch.password"],
    ),
    (
        "elasticsearch: {cloudID: 'x:y'}",
        "",
        &["elasticsearch.cloudID"],
    ),
];
