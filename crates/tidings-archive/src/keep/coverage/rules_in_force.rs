//! How long the rules in force keep events, as coverage reports it.
//!
//! Invariant: only what is known is reported. Without rules in force, as where nothing is followed,
//! nothing is.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidings_history::HeldRules;

/// How long events of a cluster are kept after they were last observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// Retention of events that no rule matches.
    pub otherwise: Duration,
    /// The shortest retention that an event can have.
    pub shortest: Duration,
    /// The longest retention that an event can have.
    pub longest: Duration,
    /// Number of rules that can match events of the cluster.
    pub rules: usize,
}

impl Lives {
    /// Makes it from the times of the rules. `otherwise` is for events that no rule matches, and is
    /// ignored if the rules `match_everything`.
    pub fn new(times: &[Duration], match_everything: bool, otherwise: Duration) -> Self {
        let further = (!match_everything).then_some(otherwise);
        let all = || times.iter().copied().chain(further);
        Self {
            otherwise,
            shortest: all().min().unwrap_or(otherwise),
            longest: all().max().unwrap_or(otherwise),
            rules: times.len(),
        }
    }
}

/// Changed rules that are not in force yet, for coverage and metrics.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<Option<HeldRules>>);

impl Held {
    pub(crate) fn set(&self, held: Option<HeldRules>) {
        *self.0.lock() = held;
    }

    pub(crate) fn get(&self) -> Option<HeldRules> {
        *self.0.lock()
    }
}

/// The stored note that rules were applied to everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// Since when that is so, in milliseconds since 1970.
    pub(crate) since: i64,
}

/// The stored number of events that expired at once when rules were changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedByRules {
    /// The number of events.
    pub(crate) events: u64,
    /// Numbers by rule. Earlier versions of the program did not note them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) by_rule: BTreeMap<String, u64>,
}

/// Maximum rules by which ended events are counted; those of further rules count as one.
const RULES_MAX: usize = 64;
/// The name of the rules beyond the maximum.
const OTHER: &str = "other rules";

impl EndedByRules {
    /// Counts an event that a rule ended.
    pub(crate) fn add(&mut self, rule: &str) {
        self.events += 1;
        let is_room = self.by_rule.len() < RULES_MAX || self.by_rule.contains_key(rule);
        let rule = if is_room { rule } else { OTHER };
        *self.by_rule.entry(rule.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_those_of_the_rules_and_of_what_they_do_not_match() {
        let days = |number: u64| Duration::from_secs(number * 86_400);
        for (times, match_everything, expected) in [
            (&[7, 90][..], false, [7, 90]),
            (&[], false, [30, 30]),
            (&[7], false, [7, 30]),
            (&[90], false, [30, 90]),
            // The rules match everything, so the default does not count.
            (&[7, 14], true, [7, 14]),
        ] {
            let times: Vec<_> = times.iter().copied().map(days).collect();
            let lives = Lives::new(&times, match_everything, days(30));
            assert_eq!([lives.shortest, lives.longest], expected.map(days));
            assert_eq!((lives.rules, lives.otherwise), (times.len(), days(30)));
        }
    }
}
