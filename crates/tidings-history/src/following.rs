//! Following: the present state of following a cluster, for health checks and metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use tidings_store::UnixMillis;

use crate::retention::HeldRules;

/// The state of following a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Following {
    /// The present activity, such as `watching`, `listing` or `waiting`: one of a few values, as it
    /// is a label of metrics.
    pub state: &'static str,
    /// Time since the cluster last answered, or since it is tried; `None` if it is not followed.
    pub since_progress: Option<Duration>,
    /// What is wrong, in one line; `None` if nothing is. Shown to authenticated users only.
    pub why: Option<String>,
    /// Events that are kept.
    pub events: u64,
    /// Versions of events that are kept.
    pub versions: u64,
    /// Bytes on disk.
    pub stored_bytes: u64,
    /// Changes received from the cluster since the start.
    pub received: u64,
    /// Spans of time in which versions may be missing.
    pub gaps: u64,
    /// Versions that could not be kept since the start, by cause: a few names, as they are a label
    /// of metrics. Empty for a sealed archive.
    pub not_kept: Vec<(&'static str, u64)>,
    /// When following began, if that is known.
    pub covered_since: Option<UnixMillis>,
    /// About when the oldest kept event was last seen, if there is one.
    pub kept_since: Option<UnixMillis>,
    /// The bytes that the cluster may take now, by its own quota and one that it shares; `None` if
    /// it has none.
    pub quota_bytes: Option<u64>,
    /// Changed rules of retention that are not in force yet, because they would end much at once.
    pub held_rules: Option<HeldRules>,
    /// Events that were deleted before their retention was over, since the folder was made; `None`
    /// for a sealed archive.
    pub taken: Option<Taken>,
    /// The events of [`Taken::by_rules`] by the names of the rules that ended them: a bounded
    /// number, as they are a label of metrics.
    pub ended_by_rule: BTreeMap<String, u64>,
    /// By how much the clock is ahead of what the followed clusters say, zero if it is not; `None`
    /// for a sealed archive.
    pub clock_ahead: Option<Duration>,
    /// The time up to which nothing is missing, except in gaps, if that is known.
    pub complete_until: Option<UnixMillis>,
    /// About how many versions are pending, that is, wait to be sealed into an object storage.
    /// `None` if the cluster was never sealed. For a sealed archive, the number of pending versions
    /// that it shows.
    pub pending: Option<u64>,
    /// Why the last attempt to seal pending versions failed, in one line; `None` if it did not, or
    /// none was made. Shown to authenticated users only.
    pub not_sealed: Option<String>,
    /// Whether nothing is sealed because the data folder was restored from a copy, and is older
    /// than its sealed archive.
    pub is_older_than_sealed: bool,
    /// Bytes of the newest manifest of the cluster's sealed archive; 0 if that is not known.
    pub manifest_bytes: u64,
    /// For a sealed archive that asks for pending versions, the time since the last answer; `None`
    /// if it does not ask, or was never answered.
    pub since_answer: Option<Duration>,
}

impl Following {
    /// Makes a state without problems.
    pub fn new(state: &'static str) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// Returns the problems of following and of sealing, in one line; `None` if there are none.
    ///
    /// ```
    /// let mut following = tidings_history::Following::new("unreachable");
    /// assert_eq!(following.problem(), None);
    /// following.why = Some("connection refused".to_owned());
    /// following.not_sealed = Some("bucket not found".to_owned());
    /// let all = "connection refused; not sealed: bucket not found";
    /// assert_eq!(following.problem().as_deref(), Some(all));
    /// ```
    pub fn problem(&self) -> Option<String> {
        let not_sealed = self.not_sealed.as_ref();
        let not_sealed = not_sealed.map(|why| format!("not sealed: {why}"));
        let all: Vec<String> = self.why.clone().into_iter().chain(not_sealed).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Events that were deleted before their retention was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events that were deleted to keep the quota.
    pub by_quota: u64,
    /// Events that expired at once when the rules of retention changed.
    pub by_rules: u64,
}
