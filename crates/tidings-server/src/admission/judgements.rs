//! Metrics of admission plugins.

use std::time::Duration;

use crate::metrics::{Histograms, Label, Text};

const ADMISSION_DURATIONS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// The admission plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judge {
    NamespaceLifecycle,
    EventRateLimit,
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
}

#[derive(Debug)]
pub(super) struct Judgements(Histograms<[Label; 4]>);

impl Default for Judgements {
    fn default() -> Self {
        Self(Histograms::of_durations(
            "apiserver_admission_controller_admission_duration_seconds",
            "Time an admission plugin took for a write.",
            ADMISSION_DURATIONS,
        ))
    }
}

impl Judgements {
    /// Counts a plugin's decision about a write.
    pub(super) fn add(&self, by: Judge, operation: Operation, rejected: bool, took: Duration) {
        let (name, step) = match by {
            Judge::NamespaceLifecycle => ("NamespaceLifecycle", "admit"),
            Judge::EventRateLimit => ("EventRateLimit", "validate"),
        };
        let operation = match operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
        };
        let rejected = if rejected { "true" } else { "false" };
        let labels = [
            ("name", name),
            ("operation", operation),
            ("rejected", rejected),
            ("type", step),
        ];
        self.0.of(labels).observe_duration(took);
    }

    /// Appends the metrics.
    pub(super) fn write(&self, text: &mut Text) {
        text.family(&self.0);
    }
}
