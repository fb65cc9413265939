//! What is not taken over, with its line.

use std::fmt;

/// Something that was not taken over, or not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line in the configuration, from 1.
    pub line: u64,
    /// The place, such as `receivers[0].elasticsearch.deDot`.
    pub what: String,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}: {}", self.line, self.what, self.why)
    }
}

/// Collects findings.
#[derive(Debug, Default)]
pub(super) struct Notes(pub(super) Vec<Finding>);

impl Notes {
    pub(super) fn add(&mut self, line: u64, what: &str, why: &str) {
        let what = what.to_owned();
        let why = why.to_owned();
        self.0.push(Finding { line, what, why });
    }
}
