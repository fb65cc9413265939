//! Retention: how long the rules in force keep events.

use std::time::Duration;

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
}
