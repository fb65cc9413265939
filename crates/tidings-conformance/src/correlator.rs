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

use crate::difference::differences;
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
    let shown = |call: &Call| format!("{} {}/{}", call.verb, call.namespace, call.name);
    match (theirs, ours) {
        (None, None) => None,
        (Some(theirs), None) => Some(format!("client-go {}, tidings nothing", shown(theirs))),
        (None, Some(ours)) => Some(format!("client-go nothing, tidings {}", shown(ours))),
        (Some(theirs), Some(ours)) if theirs == ours => None,
        (Some(theirs), Some(ours)) => {
            let (their_call, our_call) = (shown(theirs), shown(ours));
            let mut parts = differences(&theirs.body, &ours.body);
            if their_call != our_call {
                parts.insert(0, format!("client-go {their_call}, tidings {our_call}"));
            }
            Some(parts.join("; "))
        }
    }
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
