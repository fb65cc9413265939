//! The end of a record or a lease, and how it moves when the clock is set.
//!
//! An end computed from the remaining time of a lease lies that much monotonic time ahead. So it is
//! stored with the clock's lead (wall time minus monotonic time), and moves when the clock is set.
//! An end given in wall time does not move.

use crate::UnixMillis;
use crate::clock::Reading;

/// Milliseconds by which the lead may change before the clock counts as set.
pub(super) const SET_MILLIS: u64 = 2_000;

/// The time at which a record or a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: UnixMillis,
    /// The clock's lead when the end was computed from a remaining time. `None` if the end was
    /// given in wall time.
    pub(super) lead: Option<i64>,
}

impl End {
    pub(super) fn exact(at: UnixMillis) -> Self {
        Self { at, lead: None }
    }

    /// The end of a record or lease that has `seconds` seconds left.
    pub(super) fn after(now: Reading, seconds: i64) -> Self {
        let left = seconds.saturating_mul(1000);
        Self {
            at: UnixMillis(now.wall.0.saturating_add(left)),
            lead: Some(now.lead()),
        }
    }

    /// The same end by a clock with the lead `lead`.
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
