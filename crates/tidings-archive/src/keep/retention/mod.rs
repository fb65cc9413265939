//! How long events are kept: expiry by the clock, rules that changed, and the quota.
//!
//! Invariant: only the archive's clock decides what goes, never a time that an event states.
//!
//! From outside: [`Expiry`] watches the clock, [`Retaining`] applies changed rules and keeps the
//! quota, [`outlook`] says what rules would end, and clusters may have a [`SharedQuota`].

mod expiry;
mod fair_share;
#[cfg(test)]
mod quarter_tests;
mod quota;
#[cfg(test)]
mod quota_tests;
mod retaining;
mod rules;
#[cfg(test)]
mod rules_tests;
mod shared_quota;

pub(crate) use expiry::{CHECK_INTERVAL, Expiry, believed_time};
#[cfg(test)]
pub(crate) use quota::Quota;
pub(super) use quota::trimmed;
pub(crate) use quota::trimmed_of;
pub(crate) use quota::{Trimmed, segment_bytes_max, taken};
pub(crate) use retaining::{LOOK, Retaining};
pub(super) use rules::ended_by_rules;
pub(crate) use rules::{EXAMINED_MAX, hold, outlook, retention};
pub(crate) use shared_quota::Share;
pub use shared_quota::SharedQuota;
