//! OTLP: resources and log records of real events, and what partial successes mean.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};
use tidings_feeds::encode::otlp::message::{
    self, ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse, KeyValue,
};
use tidings_feeds::encode::otlp::{Names, Otlp};
use tidings_feeds::encode::{Encoder, Outcome, Verdict};
use tidings_feeds::{Record, RecordBody};

use crate::events::{BACK_OFF, NODE, SERIES, answer, hostile, kind, record, records, source};

fn exported(names: Names, records: &[Record]) -> ExportLogsServiceRequest {
    let encoded = Otlp::new(names).encode(&source(), records);
    assert_eq!(encoded.path, "/v1/logs");
    ExportLogsServiceRequest::decode(encoded.body).unwrap()
}

fn object(attributes: &[KeyValue]) -> Value {
    let object: BTreeMap<&str, Value> = attributes
        .iter()
        .map(|attribute| {
            let value = attribute.value.clone().unwrap().value.unwrap();
            let value = match value {
                message::Value::Text(text) => json!(text),
                message::Value::Integer(integer) => json!(integer),
            };
            (attribute.key.as_str(), value)
        })
        .collect();
    assert_eq!(object.len(), attributes.len());
    json!(object)
}

#[test]
fn log_records_have_the_names_of_the_semantic_conventions() {
    let exported = exported(
        Names::Tidings,
        &[record(BACK_OFF), record(SERIES), record(NODE)],
    );
    let resources: Vec<Value> = exported
        .resource_logs
        .iter()
        .map(|logs| object(&logs.resource.as_ref().unwrap().attributes))
        .collect();
    assert_eq!(
        resources,
        [
            json!({"k8s.cluster.name": "prod", "k8s.cluster.uid": "c1d2e3f4",
                "k8s.namespace.name": "kube-system", "k8s.object.kind": "Pod",
                "k8s.object.name": "storage-provisioner",
                "k8s.object.uid": "8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52",
                "k8s.object.api_version": "v1", "k8s.object.resource_version": "488",
                "k8s.object.fieldpath": "spec.containers{storage-provisioner}",
                "k8s.container.name": "storage-provisioner",
                "k8s.pod.name": "storage-provisioner",
                "k8s.pod.uid": "8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52"}),
            json!({"k8s.cluster.name": "prod", "k8s.cluster.uid": "c1d2e3f4",
                "k8s.namespace.name": "kube-system", "k8s.object.kind": "Pod",
                "k8s.object.name": "coredns-789f8477df-knmwr",
                "k8s.object.uid": "3032ab28-3ae1-44a6-9fb6-28f57a24e176",
                "k8s.object.api_version": "v1", "k8s.object.resource_version": "537",
                "k8s.pod.name": "coredns-789f8477df-knmwr",
                "k8s.pod.uid": "3032ab28-3ae1-44a6-9fb6-28f57a24e176"}),
            // Kubelet states the node's name as its uid.
            json!({"k8s.cluster.name": "prod", "k8s.cluster.uid": "c1d2e3f4",
                "k8s.object.kind": "Node", "k8s.object.name": "worker-1",
                "k8s.object.uid": "worker-1", "k8s.node.name": "worker-1"}),
        ]
    );
    let log = &exported.resource_logs[1].scope_logs[0].log_records[0];
    assert_eq!(
        object(&log.attributes),
        json!({"k8s.event.reason": "FailedScheduling", "k8s.event.action": "Scheduling",
            "k8s.event.start_time": "2026-01-02T19:58:26Z",
            "k8s.event.name": "coredns-789f8477df-knmwr.1887024c74597238",
            "k8s.event.uid": "45e43204-21e0-414c-b55a-a850e3045809", "k8s.event.count": 26,
            "k8s.event.reporting_controller": "default-scheduler",
            "k8s.event.reporting_instance":
                "default-scheduler-ip-172-16-123-141.ec2.internal",
            "tidings.event.occurrences": 2,
            "log.record.uid": "45e43204-21e0-414c-b55a-a850e3045809/0/2375"})
    );
    assert_eq!(log.time_unix_nano, 1_767_384_140_396_050_000);
    assert_eq!(log.observed_time_unix_nano, 1_767_384_141_396_000_000);
    assert_eq!(
        (log.severity_number, log.severity_text.as_str()),
        (13, "Warning")
    );
}

/// What the collector's receiver makes of the same event, with empty texts and Go's time.
#[test]
fn log_records_can_have_the_names_of_the_collectors_receiver() {
    let exported = exported(Names::K8sEvents, &[record(BACK_OFF)]);
    let logs = &exported.resource_logs[0];
    let scope = logs.scope_logs[0].scope.as_ref().unwrap();
    assert!(
        scope.name.ends_with("receiver/k8seventsreceiver"),
        "{}",
        scope.name
    );
    assert_eq!(
        object(&logs.resource.as_ref().unwrap().attributes),
        json!({"k8s.cluster.name": "prod", "k8s.cluster.uid": "c1d2e3f4",
            "k8s.node.name": "minikube", "k8s.object.kind": "Pod",
            "k8s.object.name": "storage-provisioner",
            "k8s.object.uid": "8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52",
            "k8s.object.fieldpath": "spec.containers{storage-provisioner}",
            "k8s.object.api_version": "v1", "k8s.object.resource_version": "488"})
    );
    assert_eq!(
        object(&logs.scope_logs[0].log_records[0].attributes),
        json!({"k8s.event.reason": "BackOff", "k8s.event.action": "",
            "k8s.event.start_time": "2021-06-21 02:29:23 +0000 UTC",
            "k8s.event.name": "storage-provisioner.168a78018af09212",
            "k8s.event.uid": "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa",
            "k8s.namespace.name": "kube-system", "k8s.event.count": 7,
            "tidings.event.occurrences": 2,
            "log.record.uid": "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa/0/1179"})
    );
}

/// Kinds of other groups have the same names.
#[test]
fn kinds_are_those_of_kubernetes_own_groups() {
    for (version, of, expected) in [
        ("batch/v1", "Job", Some("k8s.job.name")),
        ("batch.volcano.sh/v1alpha1", "Job", None),
        ("apps/v1", "DaemonSet", Some("k8s.daemonset.name")),
        ("apps.kruise.io/v1alpha1", "DaemonSet", None),
        ("v1", "Node", Some("k8s.node.name")),
        ("", "Node", Some("k8s.node.name")),
        ("management.cattle.io/v3", "Node", None),
    ] {
        let event = json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u"},
            "involvedObject": {"apiVersion": version, "kind": of, "name": "x"},
            "source": {"host": "worker-1"}});
        let exported = exported(Names::Tidings, &[record(&event.to_string())]);
        let logs = &exported.resource_logs[0];
        let resource = object(&logs.resource.as_ref().unwrap().attributes);
        let resource = resource.as_object().unwrap();
        let name = resource
            .iter()
            .find(|(key, value)| *value == "x" && *key != "k8s.object.name");
        assert_eq!(
            name.map(|(key, _)| key.as_str()),
            expected,
            "{version} {of}"
        );
        let attributes = object(&logs.scope_logs[0].log_records[0].attributes);
        let is_node = expected == Some("k8s.node.name");
        assert_eq!(
            attributes["k8s.node.name"].is_null(),
            is_node,
            "{version} {of}"
        );
    }
}

#[test]
fn versions_of_an_object_share_a_resource_and_stay_in_order() {
    let mut later = record(BACK_OFF);
    later.id = "later".into();
    let records = [record(BACK_OFF), record(NODE), later];
    let exported = exported(Names::Tidings, &records);
    let ids: Vec<Vec<String>> = exported
        .resource_logs
        .iter()
        .map(|logs| {
            let records = logs.scope_logs[0].log_records.iter();
            let id = |attributes: &[KeyValue]| object(attributes)["log.record.uid"].to_string();
            records.map(|record| id(&record.attributes)).collect()
        })
        .collect();
    assert_eq!(ids.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(ids[0][1], "\"later\"");
}

#[test]
fn types_have_the_severities_of_their_names() {
    for (of, ours, receivers) in [
        ("Normal", 9, 9),
        ("Warning", 13, 13),
        ("Error", 0, 17),
        ("Critical", 0, 21),
        ("Other", 0, 0),
    ] {
        let record = record(&BACK_OFF.replace("Warning", of));
        for (names, expected) in [(Names::Tidings, ours), (Names::K8sEvents, receivers)] {
            let exported = exported(names, std::slice::from_ref(&record));
            let log = &exported.resource_logs[0].scope_logs[0].log_records[0];
            assert_eq!(log.severity_number, expected, "{of}");
            assert_eq!(log.severity_text, of);
        }
    }
}

#[test]
fn gaps_skips_and_test_records_have_keys_of_their_cluster_and_a_level() {
    let exported = exported(Names::Tidings, &records()[3..]);
    assert_eq!(exported.resource_logs.len(), 1);
    let logs = &exported.resource_logs[0].scope_logs[0].log_records;
    let levels: Vec<i32> = logs.iter().map(|log| log.severity_number).collect();
    assert_eq!(levels, [13, 13, 9]);
    let attributes = object(&logs[1].attributes);
    assert_eq!(attributes["k8s.event.reason"], "VersionsNotDelivered");
    assert_eq!(
        attributes["log.record.uid"],
        "prod/skip/shop/1767384000000/1767384600000/47"
    );
}

#[test]
fn a_partial_success_is_not_repeated() {
    let encoder = Otlp::default();
    let judge = |status: u16, body: &[u8]| {
        let text = String::from_utf8_lossy(body);
        encoder.judge(&answer(status, &text), &records())
    };
    let partial = |rejected: i64| {
        ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                rejected_log_records: rejected,
                error_message: "too old".into(),
            }),
        }
        .encode_to_vec()
    };
    let rejected = "3 of 6 log records, it is not known which: 200 OK too old".to_owned();
    let rejected = Verdict::PartlyRejected(3, rejected);
    assert_eq!(judge(200, &partial(3)), rejected);
    for json in [
        r#"{"partialSuccess":{"rejectedLogRecords":3,"errorMessage":"too old"}}"#,
        r#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#,
        r#"{"partial_success":{"rejected_log_records":3,"error_message":"too old"}}"#,
    ] {
        assert_eq!(judge(200, json.as_bytes()), rejected, "{json}");
    }
    // None was taken, so it is known which were rejected.
    let all = Verdict::Items(vec![Outcome::Rejected("200 OK too old".to_owned()); 6]);
    assert_eq!(judge(200, &partial(6)), all);
    assert_eq!(judge(200, &partial(7)), all);
    // An error that came with the status of a success.
    for body in [
        r#"{"code":13,"message":"internal"}"#,
        r#"{"partialSuccess":{"rejectedLogRecords":"many"}}"#,
        "OK\n",
    ] {
        assert_eq!(kind(&judge(200, body.as_bytes())), "refused", "{body}");
    }
    // 0a 7b …: the length of this partial success is the first character of an object.
    let json_like = ExportLogsServiceResponse {
        partial_success: Some(ExportLogsPartialSuccess {
            rejected_log_records: 3,
            error_message: "x".repeat(119),
        }),
    };
    let json_like = json_like.encode_to_vec();
    assert_eq!(json_like[..2], *b"\n{");
    assert_eq!(kind(&judge(200, &json_like)), "partly rejected");
    for body in [&b""[..], b"{}", &partial(0)] {
        assert_eq!(judge(200, body), Verdict::Delivered);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_data(record in hostile()) {
        let RecordBody::Version(version) = &record.body else { unreachable!() };
        for names in [Names::Tidings, Names::K8sEvents] {
            let exported = exported(names, std::slice::from_ref(&record));
            let log = &exported.resource_logs[0].scope_logs[0].log_records[0];
            let body = log.body.clone().unwrap().value.unwrap();
            prop_assert_eq!(body, message::Value::Text(version.event.message().to_owned()));
        }
    }
}
