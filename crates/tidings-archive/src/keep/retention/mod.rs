//! How long events are kept: expiry by the clock, rules that changed, and the quota.
//!
//! Invariant: only the archive's clock decides what goes, never a time that an event states.
//!
//! From outside: [`Expiry`] watches the clock, [`Quota`] the used space, and [`apply_rules`] gives
//! existing events the expiry of new rules.

mod expiry;
mod fair_share;
#[cfg(test)]
mod quarter_tests;
mod quota;
#[cfg(test)]
mod quota_tests;
mod rules;
#[cfg(test)]
mod rules_tests;

pub(crate) use expiry::{CHECK_INTERVAL, Expiry, believed_time};
pub(super) use quota::trimmed;
pub(crate) use quota::trimmed_of;
pub(crate) use quota::{Quota, Trimmed, segment_bytes_max};
pub(crate) use rules::{Outcome, apply_rules};
pub(super) use rules::{ended_by_rules, retention};
