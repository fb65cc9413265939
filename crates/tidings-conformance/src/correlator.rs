//! Compares the correlator and the delivery with client-go's: the same events at the same times,
//! with the same answers of the sink, must lead to the same calls.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tidings_core::{
    Correlated, Correlator, Delivery, DeliveryOptions, Fate, Monotonic, NameStamps, Now,
    Occurrence, OccurrenceKind, StatusFailure, WriteError,
};

use crate::error::Result;
use crate::scenario::{Call, Outcome, Scenario, Step, list_scenarios, untyped};

/// Replays every scenario in `dir`, and writes each difference and a summary to `out`. Returns
/// whether there was no difference.
pub(crate) fn run(dir: &Path, out: &mut impl Write) -> Result<bool> {
    let (mut scenarios, mut steps, mut differing) = (0, 0, 0);
    for path in list_scenarios(dir)? {
        let scenario = Scenario::read(&path)?;
        scenarios += 1;
        steps += scenario.steps.len();
        let name = path.file_name().unwrap_or(path.as_os_str());
        for difference in replay(&scenario) {
            differing += 1;
            writeln!(out, "{}: {difference}", name.display())?;
        }
    }
    writeln!(
        out,
        "{scenarios} scenarios, {steps} steps, {differing} differences"
    )?;
    Ok(differing == 0)
}

/// Replays a scenario. Returns the differences, call by call.
fn replay(scenario: &Scenario) -> Vec<String> {
    let names = Arc::new(NameStamps::new(0));
    let mut correlator = match Correlator::new(scenario.options.clone(), names) {
        Ok(correlator) => correlator,
        Err(error) => return vec![error.to_string()],
    };
    let mut delivery = match Delivery::new(DeliveryOptions::client_go(), 0) {
        Ok(delivery) => delivery,
        Err(error) => return vec![error.to_string()],
    };
    let mut found = Vec::new();
    for (index, step) in scenario.steps.iter().enumerate() {
        let calls = handle(&mut correlator, &mut delivery, step);
        // The number of the step's line in the file, whose first line has the options.
        let line = index + 2;
        for call in 0..calls.len().max(step.calls.len()) {
            let place = format!("line {line} ({}), call {}", step.at, call + 1);
            found.extend(
                differ(step.calls.get(call), calls.get(call))
                    .map(|difference| format!("{place}: {difference}")),
            );
        }
    }
    found
}

fn differ(theirs: Option<&Call>, ours: Option<&Call>) -> Option<String> {
    let shown = |call: Option<&Call>| match call {
        None => "nothing".to_owned(),
        Some(it) => format!("{} {}/{} {}", it.verb, it.namespace, it.name, it.body),
    };
    let (their_call, our_call) = (shown(theirs), shown(ours));
    (theirs != ours).then(|| format!("client-go {their_call}, tidings {our_call}"))
}

/// Makes the calls for one event as client-go's `recordToSink` does, but without its pauses.
fn handle(
    correlator: &mut Correlator,
    delivery: &mut Delivery<Occurrence>,
    step: &Step,
) -> Vec<Call> {
    let Correlated::Write(occurrence) = correlator.correlate(Now::at(step.at), &step.event) else {
        return Vec::new();
    };
    let mut sink = Sink {
        outcomes: &step.outcomes,
        calls: Vec::new(),
    };
    delivery.offer(Monotonic::ZERO, occurrence);
    while let Some(now) = delivery.poll_timeout() {
        while let Some(write) = delivery.poll_write(now) {
            let result = sink.call(write.kind, &write.occurrence);
            delivery.handle_written(now, write.id, result);
        }
    }
    while let Some(settled) = delivery.poll_settled() {
        if settled.fate == Fate::Delivered {
            correlator.acknowledged(&settled.occurrence);
        } else {
            correlator.lost(&settled.occurrence);
        }
    }
    sink.calls
}

/// A sink that notes every call. Its answers are those of the scenario, and then `ok`.
struct Sink<'a> {
    outcomes: &'a [Outcome],
    calls: Vec<Call>,
}

impl Sink<'_> {
    fn call(
        &mut self,
        kind: OccurrenceKind,
        occurrence: &Occurrence,
    ) -> std::result::Result<(), WriteError> {
        let outcome = self.outcomes.get(self.calls.len()).copied();
        let (verb, body) = match kind {
            OccurrenceKind::Create => ("create", occurrence.create_body()),
            OccurrenceKind::Patch => ("patch", occurrence.patch_body()),
        };
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body)
                .unwrap_or_else(|error| Value::from(format!("no JSON: {error}")))
        };
        self.calls.push(Call {
            verb: verb.to_owned(),
            namespace: occurrence.namespace().to_owned(),
            name: occurrence.name().into_owned(),
            body: untyped(body),
        });
        let refused = |code, reason: &str| {
            let failure = StatusFailure {
                code,
                reason: reason.to_owned(),
                ..StatusFailure::default()
            };
            Err(WriteError::status(failure, reason))
        };
        match outcome.unwrap_or(Outcome::Ok) {
            Outcome::Ok => Ok(()),
            Outcome::NotFound => refused(404, "NotFound"),
            Outcome::AlreadyExists => refused(409, "AlreadyExists"),
            Outcome::Forbidden => refused(403, "Forbidden"),
            Outcome::Transport => Err(WriteError::transport("connection reset by peer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn own_vectors() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/correlator")
    }

    fn replayed(dir: &Path) -> Result<(bool, String)> {
        let mut out = Vec::new();
        let same = run(dir, &mut out)?;
        Ok((same, String::from_utf8(out)?))
    }

    /// Replays one of our scenarios, changed by `change`, in a folder of its own.
    fn changed(change: impl Fn(&str) -> String) -> Result<(bool, String)> {
        let dir = tempfile::tempdir()?;
        let text = std::fs::read_to_string(&list_scenarios(&own_vectors())?[0])?;
        std::fs::write(dir.path().join("changed.jsonl"), change(&text))?;
        replayed(dir.path())
    }

    /// `TIDINGS_VECTORS` names a folder with further scenarios.
    #[test]
    fn our_calls_are_those_of_client_go() {
        let further = std::env::var_os("TIDINGS_VECTORS");
        let further = further.map(|dir| Path::new(&dir).join("correlator"));
        for dir in further.into_iter().chain([own_vectors()]) {
            let (same, said) = replayed(&dir).expect("the scenarios can be read");
            assert!(same && said.ends_with(" 0 differences\n"), "{said}");
        }
    }

    #[test]
    fn a_difference_is_shown() {
        let (theirs, other) = (r#""verb":"create""#, r#""verb":"patch""#);
        let replayed = changed(|text| text.replacen(theirs, other, 1));
        let (same, said) = replayed.expect("the scenario can be read");
        assert!(!same && said.ends_with(" 1 differences\n"), "{said}");
        let is_told = said.starts_with("changed.jsonl: line ") && said.contains("client-go patch");
        assert!(is_told, "{said}");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (replayed, expected) in [
            (
                changed(|text| text[..text.len() / 2].into()),
                "changed.jsonl:",
            ),
            (
                changed(|text| text.replacen("qps", "qqps", 1)),
                "unknown field `qqps`",
            ),
            (changed(|_| String::new()), "no options"),
            (replayed(&own_vectors().join("..")), "there is no *.jsonl"),
            (replayed(Path::new("no-such-folder")), "no-such-folder: "),
        ] {
            let error = replayed.expect_err(expected).to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
