//! Grafana Loki's push API, with JSON.
//!
//! Labels come from a closed list without names of objects, because Loki keeps a stream for each
//! set of labels. Everything else is in the line and in structured metadata, and so are the values
//! of labels that are `other`.
//!
//! Loki ignores an entry whose stream, time and line it just received. The time is the event's and
//! the line has the event's resourceVersion, so records that come twice are harmless.

mod answer;
mod labels;
mod line;
mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method};
use serde::Serialize;

use super::facts::{Facts, LABEL_LEN_MAX, OTHER, beginning, nanoseconds};
use super::{Answer, Encoded, Encoder, Verdict};
use crate::record::{Record, RecordBody, Source};

pub use labels::{Label, LabelError, Labels};
pub use line::Line;
use streams::Streams;

/// Options of a Loki receiver, whose URL ends in `/loki/api/v1/push`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LokiOptions {
    /// The tenant (`X-Scope-OrgID`), for receivers with several.
    pub tenant: Option<HeaderValue>,
    /// The labels of streams.
    pub labels: Labels,
    /// The form of lines.
    pub line: Line,
}

/// The encoder for Loki. Clones share the bounds of streams.
#[derive(Clone, Debug)]
pub struct Loki {
    options: LokiOptions,
    streams: Arc<Streams>,
}

#[derive(Serialize)]
struct Push<'a> {
    streams: Vec<Stream<'a>>,
}

#[derive(Serialize)]
struct Stream<'a> {
    stream: BTreeMap<&'a str, &'a str>,
    values: Vec<(String, String, BTreeMap<&'static str, String>)>,
}

impl Loki {
    /// Makes an encoder with these options.
    pub fn new(options: LokiOptions) -> Self {
        Self {
            options,
            streams: Arc::default(),
        }
    }
}

/// Encoders are equal if their options are, whatever streams they have admitted.
impl PartialEq for Loki {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl Eq for Loki {}

impl Encoder for Loki {
    fn encode(&self, source: &Source, records: &[Record]) -> Encoded {
        let mut streams: BTreeMap<BTreeMap<&str, &str>, Vec<_>> = BTreeMap::new();
        let written = self.options.labels.written();
        for record in records {
            let mut labels = self.options.labels.of(source, record);
            let mut metadata = metadata(source, record);
            if let Facts::Event(event) = record.facts() {
                let of = (source.cluster.as_str(), event.object.namespace());
                self.streams.bound(&mut labels, &written, of);
                for (name, label) in &written {
                    let is_other = labels.get(*name).is_some_and(|value| *value == OTHER);
                    let text = beginning(label.written(&event), LABEL_LEN_MAX);
                    let name = label.metadata().filter(|_| is_other);
                    metadata.extend(name.map(|name| (name, text.to_owned())));
                }
            }
            let metadata = metadata
                .into_iter()
                .filter(|(name, value)| !value.is_empty() && !labels.contains_key(name))
                .collect();
            let at = nanoseconds(record.at());
            let line = self.options.line.of(record);
            streams
                .entry(labels)
                .or_default()
                .push((at, line, metadata));
        }
        let stream = |(stream, mut values): (_, Vec<(i64, _, _)>)| {
            // Loki rejects entries that are an hour older than an entry before them. Versions of an
            // event at the same time stay in order.
            values.sort_by_key(|(at, ..)| *at);
            let values = values.into_iter();
            let values = values.map(|(at, line, metadata)| (at.to_string(), line, metadata));
            Stream {
                stream,
                values: values.collect(),
            }
        };
        let push = Push {
            streams: streams.into_iter().map(stream).collect(),
        };
        let json = HeaderValue::from_static("application/json");
        let mut headers = vec![(CONTENT_TYPE, json)];
        if let Some(tenant) = &self.options.tenant {
            headers.push((HeaderName::from_static("x-scope-orgid"), tenant.clone()));
        }
        Encoded {
            method: Method::POST,
            path: String::new(),
            headers,
            // Writing texts as JSON cannot fail.
            body: serde_json::to_vec(&push).unwrap_or_default().into(),
            unencodable: Vec::new(),
        }
    }

    fn judge(&self, answer: &Answer<'_>, records: &[Record]) -> Verdict {
        answer::judge(answer, records)
    }
}

/// Returns what a line's metadata has beside the labels.
fn metadata(source: &Source, record: &Record) -> Vec<(&'static str, String)> {
    let mut metadata = vec![
        ("id", record.id.clone()),
        ("cluster", source.cluster.clone()),
    ];
    if let Facts::Notice(notice) = record.facts() {
        metadata.push(("namespace", notice.namespace.to_owned()));
    }
    if let (Facts::Event(event), RecordBody::Version(version)) = (record.facts(), &record.body) {
        metadata.extend([
            ("namespace", event.object.namespace().to_owned()),
            ("name", event.object.name().to_owned()),
            ("uid", event.object.uid().to_owned()),
            ("node", event.node().to_owned()),
            ("count", event.count().to_string()),
            ("occurrences", version.occurrences.to_string()),
        ]);
    }
    metadata
}
