//! The correlator tested event by event against a small API server.

mod client_go;
mod mended;
mod properties;
mod refresh;

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::{
    ClusterScopedNamespace, EventSource, EventType, NewEvent, Reference, ReferenceFields,
    TEXT_BYTES_MAX,
};
use jiff::Timestamp;

/// The time `seconds` after the start of 2024.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_704_067_200 + seconds).expect("a time of this age")
}

/// The fields of an event that a test sets; all others are constant.
#[derive(Clone, Copy, Debug)]
struct Said<'a> {
    reason: &'a str,
    message: &'a str,
    field_path: &'a str,
    object: &'a str,
    annotation: &'a str,
}

const SAID: Said<'static> = Said {
    reason: "R",
    message: "m",
    field_path: "",
    object: "p",
    annotation: "",
};

/// A correlator, and a sink that records which events it has.
struct Bench {
    correlator: Correlator,
    names: Arc<NameStamps>,
    stored: HashMap<String, i32>,
}

impl Bench {
    fn new(options: CorrelatorOptions) -> Self {
        let names = Arc::new(NameStamps::new(1));
        Self {
            correlator: Correlator::new(options, Arc::clone(&names)).expect("options in range"),
            names,
            stored: HashMap::new(),
        }
    }

    fn event(&self, said: &Said<'_>, seconds: i64) -> Event {
        let regarding = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: said.object,
            uid: "u",
            api_version: "v1",
            field_path: said.field_path,
            ..Default::default()
        });
        let annotations = [("a".to_owned(), said.annotation.to_owned())];
        let annotations = Arc::new(BTreeMap::from(annotations));
        Event::new(
            &NewEvent {
                source: &EventSource::component("ctl").host("n"),
                regarding: &regarding,
                related: None,
                event_type: EventType::Normal,
                reason: said.reason,
                action: "Acting",
                message: &said.message,
                annotations: (!said.annotation.is_empty()).then_some(&annotations),
                labels: None,
                cluster_scoped_namespace: &ClusterScopedNamespace::Default,
                text_bytes_max: TEXT_BYTES_MAX,
            },
            &self.names,
            at(seconds),
        )
    }

    fn correlate(&mut self, said: &Said<'_>, seconds: i64) -> Option<Occurrence> {
        let event = self.event(said, seconds);
        match self.correlator.correlate(Now::at(at(seconds)), &event) {
            Correlated::Write(occurrence) => Some(occurrence),
            Correlated::Filtered | Correlated::HeldBack { .. } => None,
        }
    }

    /// Records and writes an event; returns the calls to the sink.
    fn write(&mut self, said: &Said<'_>, seconds: i64) -> String {
        let Some(occurrence) = self.correlate(said, seconds) else {
            return "-".to_owned();
        };
        let mut calls = Vec::new();
        let name = occurrence.name().into_owned();
        let mut create = occurrence.kind() == OccurrenceKind::Create;
        if !create {
            let body = String::from_utf8(occurrence.patch_body()).expect("JSON is text");
            calls.push(format!("patch {name} {body}"));
            create = !self.stored.contains_key(&name);
        }
        if create {
            let event = occurrence.as_create().to_wire();
            let time = |time: Option<_>| match time {
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time)) => {
                    time.as_second() - at(0).as_second()
                }
                None => -1,
            };
            calls.push(format!(
                "create {name} {} {}..{} {}",
                event.count.unwrap_or(0),
                time(event.first_timestamp),
                time(event.last_timestamp),
                event.message.unwrap_or_default(),
            ));
        }
        self.stored.insert(name, occurrence.count());
        self.correlator.acknowledged(&occurrence);
        calls.join(" | ")
    }

    #[track_caller]
    fn check(&mut self, seconds: i64, said: &Said<'_>, expected: &str) {
        assert_eq!(self.write(said, seconds), expected, "{said:?} at {seconds}");
    }
}

/// The name of an event about `p` that was made at the start.
const N0: &str = "p.17a6101701650000";

fn both() -> [CorrelatorOptions; 2] {
    [CorrelatorOptions::client_go(), CorrelatorOptions::default()]
}
