//! Logs of the OpenTelemetry protocol over HTTP, in protobuf.
//!
//! `log.record.uid` is the record's key. By its definition, receivers may remove log records with
//! the same one.

mod answer;
pub mod message;

use std::collections::HashMap;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use jiff::Timestamp;
use prost::Message;
use serde::Deserialize;
use tidings_api::codec;
use tidings_core::reading;

use super::facts::{EventFacts, Facts, nanoseconds};
use super::{Answer, Encoded, Encoder, Verdict};
use crate::record::{Record, Source};
use message::{
    AnyValue, ExportLogsServiceRequest, InstrumentationScope, KeyValue, LogRecord, Resource,
    ResourceLogs, ScopeLogs, Value,
};

/// The scope of log records in the form of the collector's `k8sevents` receiver.
const K8S_EVENTS_SCOPE: &str =
    "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8seventsreceiver";

/// Kinds that the semantic conventions name, with their groups and their parts of the attributes'
/// names.
const KINDS: [(&str, &str, &str); 13] = [
    ("", "Pod", "pod"),
    ("", "Node", "node"),
    ("apps", "Deployment", "deployment"),
    ("apps", "ReplicaSet", "replicaset"),
    ("apps", "StatefulSet", "statefulset"),
    ("apps", "DaemonSet", "daemonset"),
    ("batch", "Job", "job"),
    ("batch", "CronJob", "cronjob"),
    ("autoscaling", "HorizontalPodAutoscaler", "hpa"),
    ("", "ReplicationController", "replicationcontroller"),
    ("", "ResourceQuota", "resourcequota"),
    ("", "PersistentVolume", "persistentvolume"),
    ("", "PersistentVolumeClaim", "persistentvolumeclaim"),
];

/// The names of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// `tidings`: the semantic conventions, and the receiver's `k8s.event.*` and `k8s.object.*`.
    #[default]
    Tidings,
    /// `k8sevents`: exactly those of the collector's `k8sevents` receiver of events of `v1`, and
    /// in addition the cluster, the key, and occurrences.
    K8sEvents,
}

/// The encoder for OTLP. The receiver's URL is its base URL, such as `https://otel:4318`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Otlp {
    names: Names,
}

impl Otlp {
    /// Makes an encoder with these names.
    pub fn new(names: Names) -> Self {
        Self { names }
    }

    fn resource(self, source: &Source, record: &Record) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::text("k8s.cluster.name", &source.cluster),
            KeyValue::text("k8s.cluster.uid", &source.uid),
        ];
        let Facts::Event(event) = record.facts() else {
            return filled(attributes);
        };
        let object = event.object;
        let of_object = [
            KeyValue::text("k8s.object.kind", object.kind()),
            KeyValue::text("k8s.object.name", object.name()),
            KeyValue::text("k8s.object.uid", object.uid()),
            KeyValue::text("k8s.object.fieldpath", object.field_path()),
            KeyValue::text("k8s.object.api_version", object.api_version()),
            KeyValue::text("k8s.object.resource_version", object.resource_version()),
        ];
        if self.names == Names::K8sEvents {
            let mut attributes = filled(attributes);
            attributes.push(KeyValue::text("k8s.node.name", event.host()));
            attributes.extend(of_object);
            return attributes;
        }
        attributes.extend(of_object);
        attributes.push(KeyValue::text("k8s.namespace.name", object.namespace()));
        attributes.push(KeyValue::text("k8s.container.name", event.container()));
        let is_about = |(group, kind, _): &&(&str, &str, &str)| event.is_about(group, kind);
        if let Some((_, _, part)) = KINDS.iter().find(is_about) {
            let uid = reading::object_uid(object.name(), object.uid());
            attributes.push(KeyValue::text(&format!("k8s.{part}.name"), object.name()));
            attributes.push(KeyValue::text(&format!("k8s.{part}.uid"), uid));
        }
        filled(attributes)
    }

    fn log_record(self, source: &Source, record: &Record) -> LogRecord {
        let at = |at: Timestamp| u64::try_from(nanoseconds(at)).unwrap_or_default();
        let (event_type, text, attributes) = match record.facts() {
            Facts::Event(event) => (
                event.event().r#type(),
                event.event().message().to_owned(),
                self.event_attributes(&event, &record.id),
            ),
            Facts::Notice(notice) => (
                notice.event_type,
                notice.message,
                vec![
                    KeyValue::text("k8s.event.reason", notice.reason),
                    KeyValue::text("k8s.event.reporting_controller", "tidings"),
                    KeyValue::text("k8s.namespace.name", notice.namespace),
                    // The keys of gaps and skips are unique within a cluster only.
                    KeyValue::text(
                        "log.record.uid",
                        &format!("{}/{}", source.cluster, record.id),
                    ),
                ],
            ),
        };
        LogRecord {
            time_unix_nano: at(record.at()),
            observed_time_unix_nano: at(record.observed()),
            severity_number: self.severity(event_type),
            severity_text: event_type.to_owned(),
            body: Some(AnyValue {
                value: Some(Value::Text(text)),
            }),
            attributes,
        }
    }

    /// Returns the severity of a type; 0 if it is unknown. Kubernetes has two types, and the
    /// collector's receiver knows two more.
    fn severity(self, event_type: &str) -> i32 {
        match event_type.to_ascii_lowercase().as_str() {
            "normal" => 9,
            "warning" => 13,
            "error" if self.names == Names::K8sEvents => 17,
            "critical" if self.names == Names::K8sEvents => 21,
            _ => 0,
        }
    }

    fn event_attributes(self, facts: &EventFacts<'_>, id: &str) -> Vec<KeyValue> {
        let event = facts.event();
        let metadata = event.metadata.clone().unwrap_or_default();
        let started = codec::times(event).creation_timestamp;
        let is_receivers = self.names == Names::K8sEvents;
        let started = started.map_or_else(String::new, |at| {
            if is_receivers {
                // The receiver has Go's form of times.
                at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
            } else {
                at.to_string()
            }
        });
        let mut attributes = vec![
            KeyValue::text("k8s.event.reason", event.reason()),
            KeyValue::text("k8s.event.action", event.action()),
            KeyValue::text("k8s.event.start_time", &started),
            KeyValue::text("k8s.event.name", metadata.name()),
            KeyValue::text("k8s.event.uid", metadata.uid()),
        ];
        if is_receivers {
            attributes.push(KeyValue::text(
                "k8s.namespace.name",
                facts.object.namespace(),
            ));
        } else {
            // The resource has the node that an event is about.
            let is_about_node = facts.is_about("", "Node");
            let node = if is_about_node { "" } else { facts.host() };
            let instance = event.reporting_instance();
            attributes.extend([
                KeyValue::text("k8s.event.reporting_controller", facts.controller()),
                KeyValue::text("k8s.event.reporting_instance", instance),
                KeyValue::text("k8s.node.name", node),
            ]);
            attributes = filled(attributes);
        }
        if facts.count() != 0 {
            attributes.push(KeyValue::integer("k8s.event.count", facts.count().into()));
        }
        let occurrences = i64::try_from(facts.record.occurrences).unwrap_or(i64::MAX);
        attributes.push(KeyValue::integer("tidings.event.occurrences", occurrences));
        attributes.push(KeyValue::text("log.record.uid", id));
        attributes
    }
}

impl Encoder for Otlp {
    /// Encodes one `ResourceLogs` for each involvedObject, in the order in which the objects first
    /// appear.
    fn encode(&self, source: &Source, records: &[Record]) -> Encoded {
        let mut request = ExportLogsServiceRequest::default();
        let mut places = HashMap::new();
        for record in records {
            let resource = Resource {
                attributes: self.resource(source, record),
            };
            let place = *places.entry(resource.encode_to_vec()).or_insert_with(|| {
                let (name, version) = match self.names {
                    Names::Tidings => ("tidings", env!("CARGO_PKG_VERSION")),
                    Names::K8sEvents => (K8S_EVENTS_SCOPE, ""),
                };
                request.resource_logs.push(ResourceLogs {
                    resource: Some(resource),
                    scope_logs: vec![ScopeLogs {
                        scope: Some(InstrumentationScope {
                            name: name.to_owned(),
                            version: version.to_owned(),
                        }),
                        log_records: Vec::new(),
                    }],
                });
                request.resource_logs.len() - 1
            });
            let scope = &mut request.resource_logs[place].scope_logs[0];
            scope.log_records.push(self.log_record(source, record));
        }
        let form = HeaderValue::from_static("application/x-protobuf");
        Encoded {
            method: Method::POST,
            path: "/v1/logs".to_owned(),
            headers: vec![(CONTENT_TYPE, form)],
            body: request.encode_to_vec().into(),
            unencodable: Vec::new(),
        }
    }

    fn judge(&self, answer: &Answer<'_>, records: &[Record]) -> Verdict {
        answer::judge(answer, records.len())
    }
}

/// Removes attributes with empty texts.
fn filled(mut attributes: Vec<KeyValue>) -> Vec<KeyValue> {
    attributes.retain(|attribute| {
        let value = attribute.value.as_ref().and_then(|any| any.value.as_ref());
        !matches!(value, Some(Value::Text(text)) if text.is_empty())
    });
    attributes
}
