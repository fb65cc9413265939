//! The bulk API of Elasticsearch and OpenSearch, with the fields of ECS and of Metricbeat's events.
//!
//! Each document has an `_id` made of the record's key, and its index depends on the record only.
//! So a record that comes twice meets itself, which answers 409 and counts as delivered. An `_id`
//! is unique in one index only: a data stream or an alias that rolls over between the two has the
//! record twice.

mod answer;
mod index;

use std::collections::BTreeMap;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_api::codec;
use tidings_history::timestamp;

use super::facts::{EventFacts, Facts};
use super::{Answer, Encoded, Encoder, Verdict};
use crate::record::{Record, Source};

pub use index::{Index, IndexError};

/// Maximum bytes of an `_id`.
const ID_LEN_MAX: usize = 512;
/// Maximum characters of a text that is indexed as a keyword. Longer than 32,766 bytes, it would be
/// an error.
const KEYWORD_LEN_MAX: usize = 1024;

/// Options of an Elasticsearch or OpenSearch receiver, whose URL is that of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElasticsearchOptions {
    /// The index of documents.
    pub index: Index,
    /// Which versions have documents.
    pub mode: Mode,
}

/// Which versions have documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `versions`: each version has a document, which never changes.
    #[default]
    Versions,
    /// `latest`: each event has one document with its latest version. The index must have no date,
    /// or an event has a document for each day, and must be no data stream, which takes none.
    Latest,
}

/// The encoder for Elasticsearch and OpenSearch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elasticsearch(ElasticsearchOptions);

impl Elasticsearch {
    /// Makes an encoder with these options.
    pub fn new(options: ElasticsearchOptions) -> Self {
        Self(options)
    }

    /// Returns the body of `PUT /_index_template/NAME` for these options. Fields that it does not
    /// name are stored and not indexed, and so are texts of more than 1,024 characters, except
    /// `message`.
    pub fn template(&self) -> Value {
        let keyword = json!({"type": "keyword", "ignore_above": KEYWORD_LEN_MAX});
        let (date, long) = (json!({"type": "date"}), json!({"type": "long"}));
        let text = json!({"type": "text"});
        let of = |fields: Value| json!({"properties": fields});
        let object = of(
            json!({"api_version": keyword, "kind": keyword, "name": keyword,
            "namespace": keyword, "uid": keyword, "resource_version": keyword}),
        );
        let metadata = of(
            json!({"name": keyword, "namespace": keyword, "uid": keyword,
            "resource_version": keyword, "timestamp": of(json!({"created": date})),
            "labels": keyword, "annotations": keyword}),
        );
        let event = of(
            json!({"type": keyword, "reason": keyword, "message": text, "count": long,
            "action": keyword, "involved_object": object, "metadata": metadata,
            "source": of(json!({"component": keyword, "host": keyword})),
            "timestamp": of(json!({"first_occurrence": date, "last_occurrence": date}))}),
        );
        json!({
            "index_patterns": [self.0.index.pattern()],
            "template": {"mappings": {"dynamic": false, "properties": {
                "@timestamp": date,
                "message": text,
                "event": of(json!({"kind": keyword, "module": keyword, "dataset": keyword,
                    "id": keyword, "created": date})),
                "orchestrator": of(json!({"cluster": of(json!({"name": keyword, "id": keyword}))})),
                "kubernetes": of(json!({"namespace": keyword, "event": event})),
                "tidings": of(json!({"epoch": long, "occurrences": long})),
            }}},
        })
    }

    fn action(&self, source: &Source, record: &Record) -> Value {
        let index = self.0.index.on(record.observed());
        match (self.0.mode, record.facts()) {
            (Mode::Latest, Facts::Event(event)) => {
                let version = &event.record.version;
                json!({"index": {"_index": index, "_id": format!("{}:{}", source.cluster, version.uid),
                    "version": ordinal(version.epoch, version.number),
                    "version_type": "external_gte"}})
            }
            _ => json!({"create": {"_index": index, "_id": document_id(source, record)}}),
        }
    }
}

impl Encoder for Elasticsearch {
    fn encode(&self, source: &Source, records: &[Record]) -> Encoded {
        let mut body = Vec::new();
        let mut unencodable = Vec::new();
        for (at, record) in records.iter().enumerate() {
            let len = document_id(source, record).len();
            if len > ID_LEN_MAX {
                let reason = format!("the _id has {len} bytes, at most {ID_LEN_MAX} are accepted");
                unencodable.push((at, reason));
                continue;
            }
            for line in [self.action(source, record), document(source, record)] {
                // Writing a value to memory cannot fail.
                let _ = serde_json::to_writer(&mut body, &line);
                body.push(b'\n');
            }
        }
        let form = HeaderValue::from_static("application/x-ndjson");
        Encoded {
            method: Method::POST,
            path: "/_bulk?filter_path=errors,items.*.status,items.*.error.type,\
                   items.*.error.reason"
                .to_owned(),
            headers: vec![(CONTENT_TYPE, form)],
            body: body.into(),
            unencodable,
        }
    }

    fn judge(&self, answer: &Answer<'_>, records: &[Record]) -> Verdict {
        answer::judge(answer, records)
    }
}

/// The archive's name of the cluster is in each `_id`. Its identity is not, because a feed can
/// begin before it is known, and a record that comes twice must have the same `_id`.
fn document_id(source: &Source, record: &Record) -> String {
    format!("{}:{}", source.cluster, record.id.replace('/', ":"))
}

/// Returns a number that grows from version to version. It holds as long as a source that went back
/// to an earlier state went back by less than 2^48.
fn ordinal(epoch: u64, number: u64) -> u64 {
    let epochs = epoch.saturating_mul(1 << 48);
    number.saturating_add(epochs).min(i64::MAX as u64)
}

fn document(source: &Source, record: &Record) -> Value {
    let mut document = match record.facts() {
        Facts::Event(event) => event_fields(&event),
        Facts::Notice(notice) => json!({
            "message": notice.message,
            "event": {"created": timestamp(notice.at).to_string()},
            "kubernetes": {"namespace": notice.namespace, "event": {
                "type": notice.event_type, "reason": notice.reason, "message": notice.message,
                "source": {"component": "tidings"},
            }},
        }),
    };
    document["@timestamp"] = record.at().to_string().into();
    document["event"]["id"] = record.id.clone().into();
    document["event"]["kind"] = "event".into();
    document["event"]["module"] = "kubernetes".into();
    document["event"]["dataset"] = "kubernetes.event".into();
    document["orchestrator"] = json!({"cluster": {"name": source.cluster, "id": source.uid}});
    prune(&mut document);
    document
}

fn event_fields(facts: &EventFacts<'_>) -> Value {
    let (event, object, version) = (facts.event(), facts.object, &facts.record.version);
    let metadata = event.metadata.clone().unwrap_or_default();
    let times = codec::times(event);
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    json!({
        "message": event.message(),
        "event": {"created": facts.observed().to_string()},
        "kubernetes": {"namespace": metadata.namespace(), "event": {
            "type": event.r#type(), "reason": event.reason(), "message": event.message(),
            "count": facts.count(), "action": event.action(),
            "timestamp": {
                "first_occurrence": text(times.first_seen()),
                "last_occurrence": text(times.last_seen()),
            },
            "source": {"component": facts.controller(), "host": facts.host()},
            "involved_object": {
                "api_version": object.api_version(), "kind": object.kind(), "name": object.name(),
                "namespace": object.namespace(), "uid": object.uid(),
                "resource_version": object.resource_version(),
            },
            "metadata": {
                "name": metadata.name(), "namespace": metadata.namespace(), "uid": metadata.uid(),
                "resource_version": metadata.resource_version(),
                "timestamp": {"created": text(times.creation_timestamp)},
                "labels": pairs(&metadata.labels), "annotations": pairs(&metadata.annotations),
            },
        }},
        "tidings": {"epoch": version.epoch, "occurrences": facts.record.occurrences},
    })
}

/// Returns labels or annotations as texts `KEY=VALUE`: as an object, each key would be a field, and
/// keys with dots would be objects.
fn pairs(of: &BTreeMap<String, String>) -> Vec<String> {
    of.iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

/// Removes empty texts, lists and objects, and a count of 0.
fn prune(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|name, member| {
            prune(member);
            match member {
                Value::String(text) => !text.is_empty(),
                Value::Object(members) => !members.is_empty(),
                Value::Array(list) => !list.is_empty(),
                Value::Number(number) => name != "count" || number.as_i64() != Some(0),
                _ => true,
            }
        });
    }
}
