//! A scenario as its file has it: options, and then a line for each event with client-go's requests
//! to the sink.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tidings_core::{CorrelatorOptions, Event};

use crate::error::{Result, fail};

/// The fields of client-go's `CorrelatorOptions` that are data. 0 means the default, as in
/// client-go.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Options {
    #[serde(rename = "lruCacheSize")]
    lru_cache_size: i64,
    burst_size: i64,
    qps: f32,
    max_events: i64,
    max_interval_in_seconds: i64,
}

impl Options {
    /// The options of our correlator with the same effect. client-go also accepts negative numbers;
    /// what they do is written out here.
    pub(crate) fn to_correlator_options(&self) -> Result<CorrelatorOptions> {
        let mut options = CorrelatorOptions::client_go();
        if self.lru_cache_size != 0 {
            // With a negative size, every entry is evicted at once.
            options = options.cache_entries_max(usize::try_from(self.lru_cache_size).unwrap_or(0));
        }
        if self.burst_size != 0 {
            // With a negative burst, there is never a token.
            let burst = self.burst_size.clamp(0, u32::MAX.into());
            options = options.spam_burst(u32::try_from(burst).unwrap_or(u32::MAX));
        }
        if self.qps != 0. {
            // With a negative rate, tokens are never refilled.
            options = options.spam_qps(self.qps.max(0.));
        }
        if self.max_events < 0 {
            // client-go converts a negative number to an unsigned one, which is never reached.
            options = options.without_aggregation();
        } else if self.max_events > 0 {
            options =
                options.aggregate_events(usize::try_from(self.max_events).unwrap_or(usize::MAX));
        }
        if self.max_interval_in_seconds != 0 {
            let seconds = u64::try_from(self.max_interval_in_seconds).map_err(|_| {
                let seconds = self.max_interval_in_seconds;
                format!("maxIntervalInSeconds is {seconds}: it must not be negative")
            })?;
            options = options.aggregate_interval(Duration::from_secs(seconds));
        }
        options.validate()?;
        Ok(options)
    }
}

/// The first line of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    options: Options,
}

/// How the sink answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    Ok,
    NotFound,
    AlreadyExists,
    Forbidden,
    /// The sink does not answer, so the call is tried again.
    Transport,
}

/// A request of client-go to the sink.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) verb: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The event or the patch; null for a patch without a body.
    #[serde(deserialize_with = "without_type")]
    pub(crate) body: Value,
}

/// A line of the file: an event with its time, the sink's answers, and client-go's requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) at: Timestamp,
    #[serde(deserialize_with = "event")]
    pub(crate) event: Event,
    #[serde(default, deserialize_with = "list")]
    pub(crate) outcomes: Vec<Outcome>,
    #[serde(default, deserialize_with = "list")]
    pub(crate) calls: Vec<Call>,
}

/// A scenario with all its lines.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) options: CorrelatorOptions,
    pub(crate) steps: Vec<Step>,
}

/// The files with scenarios in a folder, sorted by name.
pub(crate) fn list_scenarios(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", dir.display());
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    let paths: std::io::Result<Vec<_>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut paths = paths.map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|it| it == "jsonl"));
    if paths.is_empty() {
        let dir = dir.display();
        return fail(format!(
            "{dir}: there is no *.jsonl, with one scenario each"
        ));
    }
    paths.sort();
    Ok(paths)
}

impl Scenario {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let mut lines = text.lines();
        let Some(head) = lines.next() else {
            let form = "the first line is {\"options\": {…}}";
            return fail(format!("{file}:1: no options: {form}"));
        };
        let wrong = |line, error: &dyn std::fmt::Display| format!("{file}:{line}: {error}");
        let head: Head = serde_json::from_str(head).map_err(|error| wrong(1, &error))?;
        let options = head.options.to_correlator_options();
        let options = options.map_err(|error| wrong(1, &error))?;

        let mut steps = Vec::new();
        for (line, text) in (2..).zip(lines) {
            if !text.trim().is_empty() {
                steps.push(serde_json::from_str(text).map_err(|error| wrong(line, &error))?);
            }
        }
        Ok(Self { options, steps })
    }
}

/// An event or a patch without `kind` and `apiVersion`. client-go's recorder sets neither; its REST
/// client adds both after the point where calls are noted, and we add them with the body.
pub(crate) fn untyped(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    body
}

fn without_type<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Value, D::Error> {
    Value::deserialize(deserializer).map(untyped)
}

fn event<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Event, D::Error> {
    let event: v1::Event =
        serde_json::from_value(without_type(deserializer)?).map_err(serde::de::Error::custom)?;
    Ok(Event::from_wire(event))
}

/// Reads a list. Null is an empty list, as in Go.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
