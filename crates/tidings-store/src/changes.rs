//! The recent history: one bounded ring of changes, shared by all watchers.
//!
//! Invariants: the changes in the ring are in revision order, and complete from `oldest`
//! (exclusive) to `latest` (inclusive). A watcher owns only its position in the ring, so a slow
//! watcher costs no memory. A watcher whose position is older than the ring reads the backend's
//! older history ([`Older`]). It gets `Compacted` if that does not reach back far enough either.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{
    BoxFuture, Change, Fault, Index, REVISION_OF_NEW, Record, Revision, Watch, WatchError,
};

/// Maximum changes that one call of [`Watch::next`] returns. A slow watcher holds these in memory
/// until its next call. The change that reaches the byte limit is the last one, unless later
/// changes share its revision.
const TAKE_MAX: Bounds = Bounds {
    changes: 1024,
    bytes: 128 << 10,
};

/// A change with the index values of the version that it replaced. Lists at older revisions need
/// those values.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) change: Arc<Change>,
    pub(crate) previous_index: Option<Arc<Index>>,
    /// The bucket of the replaced version, in a store that has buckets.
    pub(crate) previous_bucket: u64,
}

/// A number of changes and of their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) changes: usize,
    pub(crate) bytes: usize,
}

/// The backend's older history: changes that are no longer in the ring.
pub(crate) trait Older: Send + Sync {
    /// Reads the first changes after the revision `after`, in order. Also returns the revision up
    /// to which the result is complete. A revision is never split.
    fn read(
        &self,
        after: Revision,
        limit: Bounds,
    ) -> Result<(Vec<Arc<Change>>, Revision), WatchError>;

    /// The oldest revision after which a watch can start.
    fn oldest(&self) -> Result<Revision, Fault>;
}

struct Ring {
    changes: VecDeque<Logged>,
    bytes: usize,
    /// The ring has all changes with a revision greater than this one.
    oldest: Revision,
    latest: Revision,
    /// Counts how often the backend's history was replaced by another one.
    history: u64,
}

/// The ring of recent changes; see the module documentation.
pub(crate) struct Changes {
    ring: RwLock<Ring>,
    bounds: Bounds,
    /// The latest revision, or the fault that ended the history.
    latest: watch::Sender<Result<Revision, Fault>>,
}

/// The result of reading the ring from a position.
enum Found {
    /// The changes found, perhaps none, and the revision up to which the result is complete.
    Changes(Vec<Arc<Change>>, Revision),
    /// The ring no longer has the changes after the position.
    TooOld,
}

impl Changes {
    pub(crate) fn new(latest: Revision, bounds: Bounds) -> Self {
        // A new store has no changes before its first revision, so the ring is complete from zero.
        let new = latest == REVISION_OF_NEW;
        let ring = Ring {
            changes: VecDeque::new(),
            bytes: 0,
            oldest: if new { 0 } else { latest },
            latest,
            history: 0,
        };
        Self {
            ring: RwLock::new(ring),
            bounds,
            latest: watch::Sender::new(Ok(latest)),
        }
    }

    /// Adds changes in revision order and wakes the watchers. Changes with a revision greater than
    /// `latest` stay invisible until a later call raises it.
    pub(crate) fn publish(&self, changes: impl IntoIterator<Item = Logged>, latest: Revision) {
        {
            let mut ring = self.ring.write();
            for logged in changes {
                ring.bytes += weight(&logged.change);
                ring.changes.push_back(logged);
            }
            ring.latest = latest;
            while ring.changes.len() > self.bounds.changes || ring.bytes > self.bounds.bytes {
                let Some(front) = ring.changes.front().map(|logged| logged.change.revision())
                else {
                    break;
                };
                ring.forget(front);
            }
        }
        self.latest.send_modify(|current| {
            if current.is_ok() {
                *current = Ok(latest);
            }
        });
    }

    /// Drops all changes at or before a revision from the ring.
    pub(crate) fn forget(&self, revision: Revision) {
        self.ring.write().forget(revision);
    }

    /// Ends every watch with this fault.
    pub(crate) fn close(&self, fault: Fault) {
        self.latest.send_modify(|current| {
            if current.is_ok() {
                *current = Err(fault);
            }
        });
    }

    /// The oldest revision after which the ring is complete.
    pub(crate) fn oldest(&self) -> Revision {
        self.ring.read().oldest
    }

    /// The latest published revision.
    pub(crate) fn latest(&self) -> Revision {
        self.ring.read().latest
    }

    /// The number of open watches.
    pub(crate) fn watches(&self) -> u64 {
        self.latest.receiver_count() as u64
    }

    /// All changes with revisions in (`after`, `until`], or `None` if the ring lacks some.
    pub(crate) fn between(&self, after: Revision, until: Revision) -> Option<Vec<Logged>> {
        let ring = self.ring.read();
        let complete = (ring.oldest..=until).contains(&after) && until <= ring.latest;
        complete.then(|| {
            ring.changes
                .range(ring.position(after)..ring.position(until))
                .cloned()
                .collect()
        })
    }

    /// Empties the ring and continues at a later revision of the same history.
    #[cfg(feature = "etcd")]
    pub(crate) fn reset(&self, latest: Revision) {
        self.empty(latest, 0);
    }

    /// Replaces the history by another one, which is at revision `latest`. That revision may be
    /// less than the current one. Every watcher of the former history ends as if it had fallen
    /// behind, whatever its position.
    #[cfg(feature = "etcd")]
    pub(crate) fn begin_anew(&self, latest: Revision) {
        self.empty(latest, 1);
    }

    #[cfg(feature = "etcd")]
    fn empty(&self, latest: Revision, replaced: u64) {
        {
            let mut ring = self.ring.write();
            *ring = Ring {
                changes: VecDeque::new(),
                bytes: 0,
                oldest: latest,
                latest,
                history: ring.history + replaced,
            };
        }
        self.publish([], latest);
    }

    /// The latest change, if the ring still has it.
    #[cfg(feature = "etcd")]
    pub(crate) fn last(&self) -> Option<Arc<Change>> {
        let ring = self.ring.read();
        let last = ring.changes.back()?;
        Some(Arc::clone(&last.change))
    }

    /// The record that was written at a revision, if the ring still has the change. It assumes that
    /// each revision has one change.
    pub(crate) fn written(&self, revision: Revision) -> Option<Record> {
        let ring = self.ring.read();
        let first = ring.changes.front()?.change.revision();
        let at = usize::try_from(revision.checked_sub(first)?).ok()?;
        let record = ring.changes.get(at)?.change.record()?;
        (record.revision == revision).then(|| record.clone())
    }

    /// Whether a watcher must act: changes follow its position, or its history was replaced.
    fn is_ahead_of(&self, position: Revision, history: u64) -> bool {
        let ring = self.ring.read();
        ring.latest > position || ring.history != history
    }

    fn take(&self, (after, history): (Revision, u64), prefix: &[u8]) -> Found {
        let ring = self.ring.read();
        if after < ring.oldest || ring.history != history {
            return Found::TooOld;
        }
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut reached = after;
        for logged in ring.changes.range(ring.position(after)..) {
            let revision = logged.change.revision();
            let is_full = taken.len() >= TAKE_MAX.changes || bytes >= TAKE_MAX.bytes;
            if is_full && revision > reached {
                return Found::Changes(taken, reached);
            }
            reached = revision;
            if logged.change.key().starts_with(prefix) {
                bytes += weight(&logged.change);
                taken.push(Arc::clone(&logged.change));
            }
        }
        Found::Changes(taken, ring.latest.max(after))
    }

    /// Starts a watch of one prefix after a revision. The caller has checked that the revision is
    /// reached.
    pub(crate) fn watch(
        self: &Arc<Self>,
        prefix: Bytes,
        after: Revision,
        older: Arc<dyn Older>,
    ) -> Result<Box<dyn Watch>, WatchError> {
        let oldest = older.oldest()?;
        if after < oldest {
            return Err(WatchError::Compacted { after, oldest });
        }
        let latest = self.latest.subscribe();
        if let Err(fault) = &*latest.borrow() {
            return Err(fault.clone().into());
        }
        let history = self.ring.read().history;
        Ok(Box::new(Watcher {
            changes: Arc::clone(self),
            older,
            prefix,
            position: after,
            history,
            latest,
            ended: None,
        }))
    }
}

impl Ring {
    /// The index of the first change after a revision.
    fn position(&self, after: Revision) -> usize {
        self.changes
            .partition_point(|logged| logged.change.revision() <= after)
    }

    fn forget(&mut self, revision: Revision) {
        while let Some(front) = self.changes.front()
            && front.change.revision() <= revision
        {
            self.bytes -= weight(&front.change);
            self.changes.pop_front();
        }
        self.oldest = self.oldest.max(revision.min(self.latest));
    }
}

/// The bytes that a change counts for in the ring: keys, values, and a constant.
fn weight(change: &Change) -> usize {
    let record = |record: &Record| record.key.len() + record.value.len();
    200 + change.record().map_or(0, record) + change.previous().map_or(0, record)
}

struct Watcher {
    changes: Arc<Changes>,
    older: Arc<dyn Older>,
    prefix: Bytes,
    position: Revision,
    /// The number of the history that the position belongs to.
    history: u64,
    latest: watch::Receiver<Result<Revision, Fault>>,
    ended: Option<WatchError>,
}

impl Watcher {
    async fn wait(&mut self) -> Result<Vec<Arc<Change>>, WatchError> {
        loop {
            let state = self.latest.borrow_and_update().clone();
            if self.changes.is_ahead_of(self.position, self.history) {
                let place = (self.position, self.history);
                let (changes, reached) = match self.changes.take(place, &self.prefix) {
                    Found::Changes(changes, reached) => (changes, reached),
                    Found::TooOld => self.read_older().await?,
                };
                self.position = reached;
                if !changes.is_empty() {
                    return Ok(changes);
                }
                continue;
            }
            // The end is reported only now: all changes committed before it have been returned.
            if let Err(fault) = state {
                return Err(fault.into());
            }
            if self.latest.changed().await.is_err() {
                return Err(Fault::Closed.into());
            }
        }
    }

    async fn read_older(&self) -> Result<(Vec<Arc<Change>>, Revision), WatchError> {
        let (older, after) = (Arc::clone(&self.older), self.position);
        let read = tokio::task::spawn_blocking(move || older.read(after, TAKE_MAX));
        let (mut changes, reached) = read
            .await
            .map_err(|error| Fault::Storage(Arc::new(error)))??;
        changes.retain(|change| change.key().starts_with(&self.prefix));
        Ok((changes, reached))
    }
}

impl Watch for Watcher {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>> {
        Box::pin(async move {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            self.wait()
                .await
                .inspect_err(|error| self.ended = Some(error.clone()))
        })
    }

    fn revision(&self) -> Revision {
        self.position
    }
}

#[cfg(all(test, feature = "etcd"))]
mod tests {
    use super::*;

    struct Nothing;

    impl Older for Nothing {
        fn read(
            &self,
            after: Revision,
            _: Bounds,
        ) -> Result<(Vec<Arc<Change>>, Revision), WatchError> {
            Err(WatchError::Compacted { after, oldest: 0 })
        }

        fn oldest(&self) -> Result<Revision, Fault> {
            Ok(0)
        }
    }

    /// The new history may be at an earlier, the same or a later revision.
    #[tokio::test]
    async fn watchers_of_a_history_end_when_another_one_takes_its_place() {
        let bounds = Bounds {
            changes: 8,
            bytes: 1 << 20,
        };
        let changes = Arc::new(Changes::new(10, bounds));
        let watch_after = |after| {
            let watch = changes.watch(Bytes::new(), after, Arc::new(Nothing));
            watch.unwrap()
        };
        for latest in [4, 5, 20] {
            let before = changes.latest();
            let (mut waits, mut late) = (watch_after(before), watch_after(before));
            let waiting = tokio::spawn(async move { waits.next().await });
            tokio::task::yield_now().await;
            changes.begin_anew(latest);
            for ended in [waiting.await.unwrap(), late.next().await] {
                let want = WatchError::Compacted {
                    after: before,
                    oldest: 0,
                };
                assert_eq!(ended.unwrap_err().to_string(), want.to_string());
            }
            // Changes of the new history reach watchers that started in it.
            let mut watch = watch_after(latest);
            let deleted = Change::Delete {
                revision: latest + 1,
                previous: Record {
                    key: "a".into(),
                    value: Bytes::new(),
                    revision: 1,
                    expires_at: None,
                },
                expired: false,
            };
            let logged = Logged {
                change: Arc::new(deleted),
                previous_index: None,
                previous_bucket: 0,
            };
            changes.publish([logged], latest + 1);
            assert_eq!(watch.next().await.unwrap()[0].revision(), latest + 1);
            assert_eq!(changes.last().map(|last| last.revision()), Some(latest + 1));
        }
    }
}
