//! Grafana Loki's push API, with JSON.
//!
//! Labels come from a closed list without names of objects, because Loki keeps a stream for each
//! set of labels. Everything else is in the line and in structured metadata.
//!
//! Loki ignores an entry whose stream, time and line it just received. The time is the event's and
//! the line has the event's resourceVersion, so records that come twice are harmless.

mod labels;
mod line;

use std::collections::BTreeMap;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use serde::Serialize;

use super::facts::{Facts, nanoseconds};
use super::{Answer, Encoded, Encoder, Outcome, Verdict, judge_failure, words};
use crate::record::{Record, RecordBody, Source};

pub use labels::{Label, LabelError, Labels};
pub use line::Line;

/// Options of a Loki receiver, whose URL ends in `/loki/api/v1/push`.
#[derive(Clone, Debug, Default)]
pub struct LokiOptions {
    /// The tenant (`X-Scope-OrgID`), for receivers with several.
    pub tenant: Option<HeaderValue>,
    /// The labels of streams.
    pub labels: Labels,
    /// The form of lines.
    pub line: Line,
}

/// The encoder for Loki.
#[derive(Clone, Debug)]
pub struct Loki(LokiOptions);

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
        Self(options)
    }
}

impl Encoder for Loki {
    fn encode(&self, source: &Source, records: &[Record]) -> Encoded {
        let mut streams: BTreeMap<BTreeMap<&str, &str>, Vec<_>> = BTreeMap::new();
        for record in records {
            let labels = self.0.labels.of(source, record);
            let metadata = metadata(record)
                .into_iter()
                .filter(|(name, value)| !value.is_empty() && !labels.contains_key(name))
                .collect();
            let at = nanoseconds(record.at()).to_string();
            let line = self.0.line.of(record);
            streams
                .entry(labels)
                .or_default()
                .push((at, line, metadata));
        }
        let streams = streams.into_iter();
        let push = Push {
            streams: streams
                .map(|(stream, values)| Stream { stream, values })
                .collect(),
        };
        let json = HeaderValue::from_static("application/json");
        let mut headers = vec![(CONTENT_TYPE, json)];
        if let Some(tenant) = &self.0.tenant {
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

    /// Loki answers 400 if it rejects any entry, and takes the others.
    ///
    /// Its distributor states the oldest time that it accepts: older records are rejected, and the
    /// others are sent again, which is harmless. Its ingester names at most ten entries of one
    /// stream, so any other 400 rejects the request as a whole, which is then sent in halves.
    fn judge(&self, answer: &Answer<'_>, records: &[Record]) -> Verdict {
        match answer.status.as_u16() {
            204 => return Verdict::Delivered,
            // Some receivers of Loki's form answer so.
            200 if answer.body.is_empty() => return Verdict::Delivered,
            _ => {}
        }
        let oldest = match answer.status.as_u16() {
            400 => oldest_accepted(answer.body),
            _ => None,
        };
        let Some(oldest) = oldest.filter(|at| records.iter().any(|record| record.at() < *at))
        else {
            return judge_failure(answer);
        };
        let outcome = |record: &Record| {
            if record.at() < oldest {
                Outcome::Rejected(words(answer))
            } else {
                Outcome::Retry(words(answer))
            }
        };
        Verdict::Items(records.iter().map(outcome).collect())
    }
}

/// Returns the oldest time that the distributor accepts, from its text (Loki has no other form):
/// `entry for stream '{…}' has timestamp too old: T, oldest acceptable timestamp is: T`.
fn oldest_accepted(body: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.rsplit_once("has timestamp too old: ")?;
    let (_, rest) = rest.split_once("oldest acceptable timestamp is: ")?;
    let end = rest.find('Z')?;
    rest[..=end].parse().ok()
}

/// Returns what a line's metadata has beside the labels.
fn metadata(record: &Record) -> Vec<(&'static str, String)> {
    let mut metadata = vec![("id", record.id.clone())];
    if let (Facts::Event(event), RecordBody::Version(version)) = (record.facts(), &record.body) {
        let node = match event.object.kind() {
            "Node" => event.object.name(),
            _ => event.host(),
        };
        metadata.extend([
            ("name", event.object.name().to_owned()),
            ("uid", event.object.uid().to_owned()),
            ("node", node.to_owned()),
            ("count", event.count().to_string()),
            ("occurrences", version.occurrences.to_string()),
        ]);
    }
    metadata
}
