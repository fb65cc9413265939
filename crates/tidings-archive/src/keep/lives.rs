//! How long the rules in force let events live, as coverage says it.
//!
//! Invariant: only what is known is said. Without rules in force, as where nothing is followed,
//! there is nothing to say.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long events of a cluster live after they were last observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// Of events that no rule matches.
    pub otherwise: Duration,
    /// The shortest time that an event can have.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
    /// Number of rules that can match events of the cluster.
    pub rules: usize,
}

impl Lives {
    /// Of rules with these times. `otherwise` is for events that no rule matches; it counts unless
    /// the rules `match_everything`.
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

/// The rules that a cluster is followed with.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    /// Their name, by which it is known whether they were applied.
    pub(crate) rules: String,
    pub(crate) lives: Lives,
}

/// What the store has of rules that were applied to everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// Since when, in milliseconds since 1970.
    pub(crate) since: i64,
}

/// What the store has of events that ended at once when rules were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedByRules {
    /// Their number.
    pub(crate) events: u64,
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
            // No event is left for the time of the others.
            (&[7, 14], true, [7, 14]),
        ] {
            let times: Vec<_> = times.iter().copied().map(days).collect();
            let lives = Lives::new(&times, match_everything, days(30));
            assert_eq!([lives.shortest, lives.longest], expected.map(days));
            assert_eq!((lives.rules, lives.otherwise), (times.len(), days(30)));
        }
    }
}
