//! Retention: how long the rules in force keep events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_store::UnixMillis;

use crate::wire;

/// How long events are kept after they were last observed. Times are exact to a second in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// The shortest retention that an event can have.
    #[serde(rename = "shortestSeconds", with = "wire::seconds")]
    pub shortest: Duration,
    /// The longest retention that an event can have.
    #[serde(rename = "longestSeconds", with = "wire::seconds")]
    pub longest: Duration,
    /// Retention of events that no rule matches.
    #[serde(rename = "eventTTLSeconds", with = "wire::seconds")]
    pub event_ttl: Duration,
    /// Number of rules that can match events of the cluster.
    #[serde(default)]
    pub rules: usize,
    /// Whether all kept events have the expiry that these rules give. If not, the rules are still
    /// being applied.
    pub applied: bool,
    /// Since when that is so, if it is known. Earlier rules may have expired events sooner before.
    #[serde(default, with = "wire::optional_time")]
    pub since: Option<UnixMillis>,
    /// Whether events are also deleted when they end at their source.
    #[serde(default)]
    pub mirrors_deletions: bool,
    /// Changed rules that are not in force yet, because they would end much at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldRules>,
}

impl Retention {
    /// Leaves out the rules that wait: their numbers are those of the whole cluster, and of now.
    pub(crate) fn without_held(self) -> Self {
        Self { held: None, ..self }
    }
}

/// Changed rules of retention that wait before they come into force, since they would end a large
/// part of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldRules {
    /// When they come into force, unless they are changed again.
    #[serde(with = "wire::time")]
    pub until: UnixMillis,
    /// Events that they would end at once.
    pub ended: u64,
    /// All events that were examined.
    pub events: u64,
}

/// Rules that are not in force: the retention of a stored event and the name of its rule; `None` if
/// no rule matches.
pub type Rules = Arc<dyn Fn(&Bytes) -> Option<(Duration, Arc<str>)> + Send + Sync>;

/// What rules would end at once if they came into force, by the names of the rules.
///
/// ```
/// let mut outlook = tidings_history::Outlook::default();
/// outlook.add("{type: Warning, ttl: 5m}", true);
/// outlook.add("{type: Warning, ttl: 5m}", false);
/// assert_eq!((outlook.events(), outlook.ended()), (2, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outlook {
    /// The numbers of each rule that decides about any event.
    pub by_rule: BTreeMap<String, RuleOutlook>,
}

/// What a rule would end at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleOutlook {
    /// Events that the rule decides about.
    pub events: u64,
    /// Events of these that would end at once.
    pub ended: u64,
}

impl Outlook {
    /// Counts an event that a rule decides about.
    pub fn add(&mut self, rule: &str, is_over: bool) {
        if !self.by_rule.contains_key(rule) {
            self.by_rule.insert(rule.to_owned(), RuleOutlook::default());
        }
        if let Some(found) = self.by_rule.get_mut(rule) {
            found.events += 1;
            found.ended += u64::from(is_over);
        }
    }

    /// Returns the number of all events.
    pub fn events(&self) -> u64 {
        self.by_rule.values().map(|rule| rule.events).sum()
    }

    /// Returns the number of events that would end at once.
    pub fn ended(&self) -> u64 {
        self.by_rule.values().map(|rule| rule.ended).sum()
    }

    /// Adds the numbers of further events.
    pub fn add_all(&mut self, further: Self) {
        for (rule, further) in further.by_rule {
            let found = self.by_rule.entry(rule).or_default();
            found.events += further.events;
            found.ended += further.ended;
        }
    }
}

/// What rules would end at once of some of the events, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutlookPage {
    /// The numbers of these events.
    pub outlook: Outlook,
    /// The place behind the last examined event; `None` if there are no more.
    pub more: Option<String>,
}
