//! The policy of retention: how long events of a cluster are kept, and which rule says so.

use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;

use super::rules_in_force::Lives;

/// How long an event is kept after it was last observed.
pub type KeepFor = Arc<dyn Fn(&Event) -> Duration + Send + Sync>;

/// The name of the rule that decides about an event.
pub type RuleOf = Arc<dyn Fn(&Event) -> Arc<str> + Send + Sync>;

/// The name that takes the place of a rule's for events that no rule matches.
pub const EVENT_TTL: &str = "event TTL";

/// How long events of a cluster are kept.
#[derive(Clone)]
#[non_exhaustive]
pub struct RetentionPolicy {
    /// How long an event is kept after it was last observed.
    pub keep_for: KeepFor,
    /// The name of the rule that decides about an event. Events that a changed policy ends are
    /// counted by it. Default: [`EVENT_TTL`].
    pub rule_of: RuleOf,
    /// Identifies the policy: if it differs from the one that was applied last, the policy is
    /// applied to everything that is kept. Default: empty.
    pub text: String,
    /// What coverage reports about the times of `keep_for`. Default: nothing.
    pub lives: Option<Lives>,
}

impl RetentionPolicy {
    /// Makes a policy without rules.
    pub fn new(keep_for: KeepFor) -> Self {
        Self {
            keep_for,
            rule_of: Arc::new(|_| EVENT_TTL.into()),
            text: String::new(),
            lives: None,
        }
    }
}
