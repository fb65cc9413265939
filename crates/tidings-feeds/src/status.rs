//! What is known of a feed: its state, its numbers, and the receiver's words.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidings_store::UnixMillis;

use crate::dead::DeadLetterCount;
use crate::delivery::DeadCause;

/// Upper bounds of the buckets of `tidings_feed_request_seconds`.
pub(crate) const SECONDS: [f64; 9] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// What a feed does for a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// Everything is delivered.
    #[default]
    Idle,
    /// It sends.
    Delivering,
    /// The receiver, or the data folder, failed. It is tried again.
    Retrying,
    /// The receiver refuses the feed. It is asked again every minute.
    Refused,
    /// The feed is not in the configuration any more, and its cursor is.
    Off,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Idle,
        Self::Delivering,
        Self::Retrying,
        Self::Refused,
        Self::Off,
    ];

    /// The state as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Delivering => "delivering",
            Self::Retrying => "retrying",
            Self::Refused => "refused",
            Self::Off => "off",
        }
    }
}

/// What became of the versions behind a cursor, since the cursor began. It is stored with the
/// cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Totals {
    /// Versions that the receiver has.
    pub delivered: u64,
    /// Versions that became dead letters, by cause.
    pub dead: BTreeMap<DeadCause, u64>,
    /// Versions that were skipped.
    pub skipped: u64,
    /// Versions that expired or were deleted before they were delivered.
    pub gone: u64,
    /// Versions that the filter left out.
    pub filtered: u64,
    /// Versions that a later one replaced (`every`).
    pub replaced: u64,
    /// Versions of the history before the feed that were read. They are also in one of the others.
    pub history: u64,
}

/// The state of a feed in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FeedStatus {
    /// The cluster's name.
    pub cluster: String,
    /// The feed's name.
    pub feed: String,
    /// What it does.
    pub state: State,
    /// When the receiver first failed or refused, of the present failure, in milliseconds since
    /// 1970; `None` while it takes records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// The receiver's last words when something was not taken; empty if nothing was.
    #[serde(default)]
    pub words: String,
    /// Versions of the backlog.
    pub backlog_versions: u64,
    /// Bytes that the backlog takes.
    pub backlog_bytes: u64,
    /// Age of the oldest version of the backlog in seconds.
    pub backlog_seconds: f64,
    /// Whether the history before the feed is being delivered; it is not in the backlog.
    pub is_in_history: bool,
    /// What became of the versions.
    #[serde(flatten)]
    pub totals: Totals,
    /// Requests that were sent again, since the process began.
    pub retried: u64,
    /// The dead letters of the feed, of all clusters.
    pub dead_letters: DeadLetterCount,
    /// What becomes of those that are being sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryStatus>,
}

/// The state of sending a feed's dead letters again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RetryStatus {
    /// What it does.
    pub state: State,
    /// When the receiver first failed or refused, of the present failure, in milliseconds since
    /// 1970; `None` while it takes records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// The receiver's last words when something was not taken; empty if nothing was.
    #[serde(default)]
    pub words: String,
}

/// The part of a status that the task of a feed changes.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<(State, Option<i64>, String)>,
    totals: Mutex<Totals>,
    retried: AtomicU64,
    seconds: Mutex<Seconds>,
}

/// How long requests took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds {
    /// A count for each bound of [`SECONDS`], and one for those above.
    pub(crate) counts: [u64; SECONDS.len() + 1],
    pub(crate) sum: f64,
}

impl Shared {
    pub(crate) fn set(&self, state: State) {
        let mut now = self.state.lock();
        (now.0, now.1) = (state, None);
    }

    /// Notes that nothing was taken, and why. Returns whether that is new.
    pub(crate) fn fail(&self, state: State, words: &str, now: UnixMillis) -> bool {
        let mut shown = self.state.lock();
        let is_new = shown.0 != state || shown.2 != words;
        let since = shown.1.filter(|_| shown.0 == state).unwrap_or(now.0);
        *shown = (state, Some(since), words.to_owned());
        is_new
    }

    /// Notes what the receiver said of a record.
    pub(crate) fn say(&self, words: &str) {
        words.clone_into(&mut self.state.lock().2);
    }

    pub(crate) fn set_totals(&self, totals: Totals) {
        *self.totals.lock() = totals;
    }

    pub(crate) fn observe(&self, took: Duration, is_retry: bool) {
        let seconds = took.as_secs_f64();
        let at = SECONDS.partition_point(|bound| *bound < seconds);
        let mut all = self.seconds.lock();
        all.sum += seconds;
        if let Some(count) = all.counts.get_mut(at) {
            *count += 1;
        }
        self.retried
            .fetch_add(u64::from(is_retry), Ordering::Relaxed);
    }

    pub(crate) fn seconds(&self) -> Seconds {
        self.seconds.lock().clone()
    }

    pub(crate) fn retry(&self) -> RetryStatus {
        let (state, since, words) = self.state.lock().clone();
        RetryStatus {
            state,
            since,
            words,
        }
    }

    pub(crate) fn show(&self, status: &mut FeedStatus) {
        let (state, since, words) = self.state.lock().clone();
        (status.state, status.since, status.words) = (state, since, words);
        status.totals.clone_from(&self.totals.lock());
        status.retried = self.retried.load(Ordering::Relaxed);
    }
}
