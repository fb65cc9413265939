//! When a record or a lease ends, and what happens to that when the clock is set.
//!
//! An end that was reckoned from the life a lease had left comes when that much steady time has
//! passed. So it is kept with the clock's lead by which it was reckoned, and moves with a clock
//! that is set. An end that was said as a time of the clock stays as it is.

use crate::UnixMillis;
use crate::clock::Reading;

/// By how many milliseconds the clock's lead may differ without its being taken to be set.
pub(super) const SET_MILLIS: u64 = 2_000;

/// When a record or a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: UnixMillis,
    /// The clock's lead by which it was reckoned from time that is left; `None` if it was said as a
    /// time of the clock.
    pub(super) lead: Option<i64>,
}

impl End {
    pub(super) fn exact(at: UnixMillis) -> Self {
        Self { at, lead: None }
    }

    /// The end of a record or lease that has `seconds` seconds left now.
    pub(super) fn after(now: Reading, seconds: i64) -> Self {
        let left = seconds.saturating_mul(1000);
        Self {
            at: UnixMillis(now.wall.0.saturating_add(left)),
            lead: Some(now.lead()),
        }
    }

    /// The same end by a clock that has this lead.
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
