//! Detects that etcd has another history than the one that was followed.
//!
//! This happens if etcd was restored from a backup under this process, or if the endpoints lead to
//! another cluster.
//!
//! A backup is at an earlier revision than this process has seen, and other writes get the same
//! revisions again. etcd does not report this: a watch after a revision that is not reached waits
//! for it, and misses the writes before it.
//!
//! A restore ends every stream. So each time the feed has opened its stream, it compares etcd with
//! what it has seen: the id of the cluster, the greatest revision in any answer, and the last
//! change. The revision may be compared because reads are linearizable, so no member is behind. The
//! last change must be in etcd's history at its revision. If anything differs, the store forgets
//! all that it learned by revision, and every watch ends as if its revision were compacted.
//!
//! One case is not noticed: the cluster id is the same, etcd is beyond the seen revision, and no
//! change was seen or etcd has compacted the last one. If a backup was restored with a greater
//! revision and compacted up to it (`--bump-revision`, `--mark-compacted`), the watches end because
//! of that.

use std::sync::atomic::Ordering;

use super::Shared;
use super::client::{RANGE, unsigned};
use super::compact;
use super::failure::Failure;
use super::wire::{KeyValue, RangeRequest, RangeResponse};
use crate::{Change, Record, Revision};

impl Shared {
    /// The number of the current history; each replacement increases it.
    pub(super) fn history(&self) -> u64 {
        *self.history.borrow()
    }

    /// Returns once the history with this number was replaced by another one.
    pub(super) async fn until_replaced(&self, history: u64) {
        // `self` owns the sender, so the wait cannot end because the sender was dropped.
        let _ = self
            .history
            .subscribe()
            .wait_for(|now| *now != history)
            .await;
    }

    /// Whether etcd still has the history that was followed so far, or continues it. Only the feed
    /// calls this.
    pub(super) async fn is_same_history(&self) -> Result<bool, Failure> {
        let seen = self.client.revision();
        let request = RangeRequest {
            key: self.keys.full(b""),
            ..RangeRequest::default()
        };
        let deadline = self.client.deadline();
        let answer: RangeResponse = self.client.ask(RANGE, request, deadline).await?;
        let cluster = answer.header.map_or(0, |header| header.cluster_id);
        let latest = self.client.observe(answer.header);
        let known = self.cluster.load(Ordering::Acquire);
        let is_other = known != 0 && cluster != 0 && known != cluster;
        if is_other || latest < seen {
            return Ok(false);
        }
        self.cluster.store(cluster, Ordering::Release);
        match self.changes.last() {
            Some(last) => self.has(&last).await,
            None => Ok(true),
        }
    }

    /// Whether etcd made this change, as its history says. If etcd compacted the change's revision,
    /// nothing contradicts it, and this is `true`.
    async fn has(&self, change: &Change) -> Result<bool, Failure> {
        match self.is_as_seen(change).await {
            Err(failure) if failure.is_compacted() => Ok(true),
            Err(failure) if failure.is_future() => Ok(false),
            as_seen => as_seen,
        }
    }

    async fn is_as_seen(&self, change: &Change) -> Result<bool, Failure> {
        let (key, revision) = (change.key(), change.revision());
        let deadline = self.client.deadline();
        let left = self.version_at(key, revision, deadline).await?;
        if !is_version(change.record(), left.as_ref()) {
            return Ok(false);
        }
        if left.is_some() {
            return Ok(true);
        }
        // The key is absent, perhaps for another reason. This change deleted it if it existed just
        // before.
        let before = revision.saturating_sub(1);
        let previous = self.version_at(key, before, deadline).await?;
        Ok(is_version(change.previous(), previous.as_ref()))
    }

    /// Switches to the history that etcd has now, and returns its latest revision. Forgets
    /// everything learned by revisions of the former history, and ends its watches.
    pub(super) async fn begin_anew(&self) -> Result<Revision, Failure> {
        let (oldest, latest) = compact::oldest_and_latest(&self.client).await?;
        tracing::error!(
            followed = self.changes.latest(),
            latest,
            "etcd has another history than the followed one: it was restored from a backup, or is another cluster; \
             watchers must list anew"
        );
        self.client.begin_anew(latest);
        self.cluster.store(0, Ordering::Release);
        self.oldest.store(oldest, Ordering::Release);
        self.wrote.store(0, Ordering::Release);
        self.expiries.forget_written();
        self.index.reset();
        self.fed.send_replace(latest);
        // The number changes first: a watcher that falls behind the ring of changes then finds the
        // reason.
        self.history.send_modify(|number| *number += 1);
        self.changes.begin_anew(latest);
        Ok(latest)
    }
}

/// Whether etcd returned exactly this record; without a record, whether it returned nothing.
fn is_version(record: Option<&Record>, found: Option<&KeyValue>) -> bool {
    match (record, found) {
        (Some(record), Some(found)) => {
            unsigned(found.mod_revision) == record.revision && found.value == record.value
        }
        (record, found) => record.is_none() && found.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_from_another_one_of_the_same_key() {
        let record = Record {
            key: "a".into(),
            value: "1".into(),
            revision: 7,
            expires_at: None,
        };
        let version = |mod_revision, value: &'static str| KeyValue {
            mod_revision,
            value: value.into(),
            ..KeyValue::default()
        };
        let cases = [
            (Some(&record), Some(version(7, "1")), true),
            (Some(&record), Some(version(6, "1")), false),
            (Some(&record), Some(version(7, "2")), false),
            (Some(&record), None, false),
            (None, Some(version(7, "1")), false),
            (None, None, true),
        ];
        for (record, found, want) in cases {
            assert_eq!(is_version(record, found.as_ref()), want, "{found:?}");
        }
    }
}
