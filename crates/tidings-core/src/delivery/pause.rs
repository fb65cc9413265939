//! The circuit breaker of a delivery: while the server is out of reach, only one probe is sent at a
//! time.
//!
//! Out of reach means: no answer, or 429, 502, 503 or 504. Every other answer, also an error, shows
//! that the server works: the error concerns one event and delays no others. So does a 429 that
//! refuses one event for its rate (see `WriteError::is_rate_limited`).
//!
//! ```text
//!   open for writing ──(several keys failed so in a row, no answer between)──▶ paused until a time ──▶ one probe in flight
//!          ▲                                                                        ▲                     │      │
//!          │                                                                        └──────(it failed)────┘      │
//!          └──────────────────────────(any answer)───────────────────────────────────────────────────────────────┘
//! ```

use std::time::Duration;

use crate::Monotonic;

pub(super) struct Pause {
    /// The number of keys that must fail before writing pauses; 0 for never.
    after_keys: u32,
    /// The number of the current period between two answers, from 1.
    stretch: u64,
    /// Keys that failed in this period.
    failed_keys: u32,
    /// While paused: when the next probe may start.
    until: Option<Monotonic>,
    /// The number of the probe in flight.
    probe: Option<u64>,
    /// Failures of this pause: the one that began it, and the probes'.
    failures: u32,
}

impl Pause {
    pub(super) fn new(after_keys: u32) -> Self {
        Self {
            after_keys,
            stretch: 1,
            failed_keys: 0,
            until: None,
            probe: None,
            failures: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.until.is_some()
    }

    /// Whether a write may start.
    pub(super) fn allows(&self, now: Monotonic) -> bool {
        self.until
            .is_none_or(|until| self.probe.is_none() && until <= now)
    }

    /// When a write may start that would otherwise start at `lane`; `None` if it must wait for the
    /// probe.
    pub(super) fn earliest(&self, lane: Monotonic) -> Option<Monotonic> {
        match self.until {
            None => Some(lane),
            Some(_) if self.probe.is_some() => None,
            Some(until) => Some(lane.max(until)),
        }
    }

    /// Records that a write starts. While paused, it is the probe.
    pub(super) fn note_write(&mut self, number: u64) {
        if self.is_open() {
            self.probe = Some(number);
        }
    }

    /// Records that a write was answered or failed. Returns whether it was the probe.
    pub(super) fn note_answer(&mut self, number: u64) -> bool {
        let was_probe = self.probe == Some(number);
        if was_probe {
            self.probe = None;
        }
        was_probe
    }

    /// Records that the server answers. Returns whether that ended a pause.
    pub(super) fn note_success(&mut self) -> bool {
        self.stretch += 1;
        self.failed_keys = 0;
        self.failures = 0;
        self.probe = None;
        self.until.take().is_some()
    }

    /// Consecutive failures of the pause, including this one.
    pub(super) fn failures(&self, was_probe: bool) -> u32 {
        if was_probe || !self.is_open() {
            self.failures.saturating_add(1)
        } else {
            self.failures
        }
    }

    /// Records that a write found the server out of reach; `failed_in` is the lane's field of that
    /// name. Returns whether that began a pause, of length `wait`.
    pub(super) fn note_failure(
        &mut self,
        now: Monotonic,
        failed_in: &mut u64,
        was_probe: bool,
        wait: Duration,
    ) -> bool {
        if *failed_in != self.stretch {
            *failed_in = self.stretch;
            self.failed_keys = self.failed_keys.saturating_add(1);
        }
        if self.is_open() {
            if was_probe {
                self.failures = self.failures.saturating_add(1);
                self.until = Some(now.saturating_add(wait));
            }
            return false;
        }
        let begins = self.after_keys > 0 && self.failed_keys >= self.after_keys;
        if begins {
            self.failures = 1;
            self.until = Some(now.saturating_add(wait));
        }
        begins
    }

    /// Lets the next probe start at once.
    pub(super) fn shorten(&mut self) {
        if let Some(until) = &mut self.until {
            *until = Monotonic::from_nanos(i64::MIN);
        }
    }
}
