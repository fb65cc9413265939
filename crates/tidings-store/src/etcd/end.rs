//! The end of a record or a lease, and its change when the clock is set.
//!
//! An end that was computed from the remaining time of a lease comes after that much steady time.
//! So it is stored with the clock's lead at that time, and moves when the clock is set. An end that
//! was given in wall time does not change.

use crate::UnixMillis;
use crate::clock::Reading;

/// Milliseconds by which the clock's lead may differ without meaning that the clock was set.
pub(super) const SET_MILLIS: u64 = 2_000;

/// The end of a record or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: UnixMillis,
    /// The clock's lead when it was computed from remaining time; `None` if it was given in wall
    /// time.
    pub(super) lead: Option<i64>,
}

impl End {
    pub(super) fn exact(at: UnixMillis) -> Self {
        Self { at, lead: None }
    }

    /// The end of a record or lease with `seconds` remaining seconds.
    pub(super) fn after(now: Reading, seconds: i64) -> Self {
        let left = seconds.saturating_mul(1000);
        Self {
            at: UnixMillis(now.wall.0.saturating_add(left)),
            lead: Some(now.lead()),
        }
    }

    /// The same end by a clock with this lead.
    pub(super) fn under(self, lead: i64) -> Self {
        match self.lead {
            Some(of) if of.abs_diff(lead) > SET_MILLIS => Self {
                at: UnixMillis(self.at.0.saturating_add(lead.saturating_sub(of))),
                lead: Some(lead),
            },
            _ => self,
        }
    }
}
