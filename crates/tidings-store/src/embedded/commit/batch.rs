//! One commit in progress: each request is decided against the store plus the commit so far.
//!
//! Invariants: a name leads to its current version or to none. A version that was replaced or
//! deleted before its expiry has a mark. Every change takes the next revision. A version whose
//! bucket was swept past it has its end in the log ([`sweep`](super::sweep)).
//!
//! The index in memory is updated at once; its readers skip revisions that are not published yet.
//! [`Batch::commit`] makes everything visible. Dropping a batch removes its part of the index
//! again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::request::{One, Put};
use crate::changes::Logged;
use crate::clock::Reading;
use crate::embedded::codec::varint::put_varint;
use crate::embedded::codec::version::{Ends, NEVER, Version};
use crate::embedded::codec::{Codec, PackedBody, State};
use crate::embedded::engine::{Engine, LookedUp, Stored, bucket_for};
use crate::embedded::index::keys::{Fields, Placed, Pointer};
use crate::embedded::index::memtable::{Found, Memtable};
use crate::embedded::log::frame::Kind;
use crate::embedded::log::{Failure, Frames, Unfinished};
use crate::embedded::read::View;
use crate::{Change, Deleted, Expected, Fault, Record, Revision, UnixMillis, WriteError};

/// Bytes of replaced and ended values at which a commit takes no further expiries or requests.
/// These values are in memory until the commit is done. Writes that belong together may exceed the
/// limit.
pub(in crate::embedded) const LOADED_MAX: usize = 8 << 20;

/// The times by which a commit decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Wall time: requests are decided by it.
    pub(super) wall: UnixMillis,
    /// Monotonic time of this process.
    pub(super) steady: Duration,
    /// The [confirmed time](crate::confirmed), by which expiries are written.
    pub(super) confirmed: UnixMillis,
    /// Buckets up to this one expire before the current history is forgotten.
    pub(super) spared: u64,
}

impl Times {
    pub(super) fn reading(self) -> Reading {
        Reading {
            wall: self.wall,
            steady: self.steady,
        }
    }
}

/// A commit in progress; see the module documentation.
pub(super) struct Batch<'a> {
    pub(super) view: View<'a>,
    /// The entries for the log, by bucket.
    frames: Frames,
    pub(super) memtable: Arc<Memtable>,
    /// The bucket whose segment gets the expiries.
    pub(super) home: u64,
    pub(super) state: State,
    now: UnixMillis,
    pub(super) confirmed: UnixMillis,
    pub(super) steady: Duration,
    /// The changes, one for each revision of the commit.
    logged: Vec<Logged>,
    pub(super) dirty: bool,
    /// Buckets up to this one are dropped soon, so ended values in them are not counted.
    spared: u64,
    /// Bytes of values that this commit ends in buckets that are not dropped soon.
    ended_bytes: u64,
    /// Bytes of all values that this commit replaces or ends; see [`LOADED_MAX`].
    pub(super) loaded: usize,
    /// Number of expiries that this commit writes.
    pub(super) expired: u64,
    /// Buckets all of whose expiries are written now; see
    /// [`Committer`](super::committer::Committer).
    pub(super) finished: Vec<u64>,
}

/// The result of a commit.
pub(super) struct Committed {
    pub(super) state: State,
    /// Bytes of values that the commit ended in buckets that are not dropped soon.
    pub(super) ended_bytes: u64,
    pub(super) logged: Vec<Logged>,
    pub(super) home: Option<u64>,
}

/// An accepted put, ready to be applied.
struct ReadyPut {
    hash: u64,
    bucket: u64,
    fields: Fields,
    reason: String,
    body: PackedBody,
    /// The new record. Its revision is assigned when the put is applied.
    record: Record,
    /// The live version that the put replaces.
    replaced: Option<Replaced>,
    /// The expired version whose expiry the put writes first.
    ended: Option<Replaced>,
}

/// An accepted delete, ready to be applied.
struct ReadyDelete {
    hash: u64,
    ended: Replaced,
}

enum Ready {
    Put(Box<ReadyPut>),
    Delete(ReadyDelete),
}

/// A key's current version, with its record read from the log.
struct Replaced {
    placed: Placed,
    record: Record,
}

impl<'a> Batch<'a> {
    /// Starts a commit on the current state. `home` is the bucket of the last commit.
    pub(super) fn new(
        engine: &'a Engine,
        codec: &'a Codec,
        times: Times,
        home: Option<u64>,
    ) -> Self {
        let view = View::new(engine, codec);
        // A finished bucket may be dropped while the history still needs the expiries of other
        // buckets.
        let floor = view.state.swept.floor;
        let home = home.filter(|home| *home > floor && view.buckets.contains_key(home));
        Self {
            state: view.state.clone(),
            home: home
                .or_else(|| view.buckets.keys().next_back().copied())
                .unwrap_or(NEVER),
            memtable: Arc::clone(&view.snapshot.memtables.active),
            view,
            frames: Frames::new(),
            now: times.wall,
            confirmed: times.confirmed,
            steady: times.steady,
            logged: Vec::new(),
            dirty: false,
            expired: 0,
            spared: times.spared,
            ended_bytes: 0,
            loaded: 0,
            finished: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, put: Put) -> Result<Revision, WriteError> {
        let ready = self.ready_to_put(put)?;
        Ok(self.do_put(ready))
    }

    pub(super) fn delete(
        &mut self,
        key: &Bytes,
        expected: Option<Revision>,
    ) -> Result<Deleted, WriteError> {
        let expected = expected.map_or(Expected::Any, Expected::At);
        let ready = self.ready_to_delete(key, expected)?;
        let previous = ready.ended.record.clone();
        let revision = self.do_delete(ready);
        Ok(Deleted { revision, previous })
    }

    /// Applies all writes or none. Each is checked against the state before the first.
    pub(super) fn many(&mut self, writes: Vec<One>) -> Result<Vec<Revision>, WriteError> {
        let mut keys = HashSet::with_capacity(writes.len());
        if !writes.iter().all(|write| keys.insert(write.key())) {
            return Err(WriteError::RepeatedKey);
        }
        drop(keys);
        let ready = writes
            .into_iter()
            .map(|write| match write {
                One::Put(put) => {
                    let ready = self.ready_to_put(*put)?;
                    Ok(Ready::Put(Box::new(ready)))
                }
                One::Delete(key, expected) => {
                    self.ready_to_delete(&key, expected).map(Ready::Delete)
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let done = ready.into_iter().map(|ready| match ready {
            Ready::Put(ready) => self.do_put(*ready),
            Ready::Delete(ready) => self.do_delete(ready),
        });
        Ok(done.collect())
    }

    /// Checks whether a put is possible, and prepares it.
    fn ready_to_put(&mut self, put: Put) -> Result<ReadyPut, WriteError> {
        let Put {
            key,
            value,
            fields,
            reason,
            expires_at,
            body,
            expected,
            looked_up,
            found,
        } = put;
        let hash = self.view.engine.index.hash(&key);
        let current = self.current(hash, &key, Some(looked_up))?;
        let live = current.filter(|pointer| pointer.is_live(self.now));
        match (live, expected) {
            (Some(Pointer { revision, .. }), Expected::Absent) => {
                return Err(WriteError::AlreadyExists { revision });
            }
            (None, Expected::At(_)) => return Err(WriteError::NotFound),
            (Some(Pointer { revision, .. }), Expected::At(expected)) if revision != expected => {
                return Err(WriteError::Conflict {
                    expected,
                    current: revision,
                });
            }
            _ => {}
        }
        if let Some(expires_at) = expires_at.filter(|at| *at <= self.now) {
            return Err(WriteError::AlreadyExpired {
                expires_at,
                now: self.now,
            });
        }
        let current = current
            .map(|current| self.load(hash, current, found))
            .transpose()?;
        let bucket = bucket_for(
            self.now,
            expires_at,
            self.state.swept.floor,
            self.view.buckets.keys(),
        );
        self.make_bucket(bucket)?;
        let (replaced, ended) = if live.is_some() {
            (current, None)
        } else {
            (None, current)
        };
        Ok(ReadyPut {
            hash,
            bucket,
            fields,
            reason,
            body,
            record: Record {
                key,
                value,
                revision: 0,
                expires_at,
            },
            replaced,
            ended,
        })
    }

    /// Applies an accepted put. Nothing here fails, so a request is in the batch completely or not
    /// at all.
    fn do_put(&mut self, ready: ReadyPut) -> Revision {
        let ReadyPut {
            hash,
            bucket,
            fields,
            reason,
            body,
            mut record,
            replaced,
            ended,
        } = ready;
        let expires_at = record.expires_at;
        if let Some(ended) = ended {
            self.end(hash, ended, true);
        }
        let revision = self.next_revision();
        record.revision = revision;
        if let Some(replaced) = &replaced {
            self.uncount(&replaced.record, replaced.placed.pointer.bucket);
        }
        let placed = Placed {
            pointer: Pointer {
                revision,
                bucket,
                expires_at,
            },
            fields,
            is_early: self.view.engine.index.order.put(bucket, expires_at),
        };
        let before = replaced.as_ref().map(|replaced| &replaced.placed);
        self.memtable.know_reason(&fields, &reason);
        self.memtable.put(hash, &record.key, &placed, before);
        let previous = before.map(|before| (before.pointer.revision, before.pointer.bucket));
        let version = Version {
            expires_at,
            previous,
            body: body.as_packed(),
        };
        let content = version.encode(revision, bucket);
        self.log(bucket, Kind::Version, revision, &content);
        // The old version's bucket is dropped later than the new version's, so it must itself
        // record that its version ended.
        if let Some((replaced, old)) = previous.filter(|(_, old)| *old > bucket) {
            let mut content = Vec::new();
            put_varint(&mut content, replaced);
            self.log(old, Kind::Replaced, revision, &content);
        }
        self.state.records += 1;
        self.state.value_bytes += record.value.len() as u64;
        self.logged.push(Logged {
            previous_index: None,
            previous_bucket: previous.map_or(0, |(_, bucket)| bucket),
            change: Arc::new(Change::Put {
                record,
                previous: replaced.map(|replaced| replaced.record),
            }),
        });
        revision
    }

    /// Checks whether a delete is possible, and prepares it.
    fn ready_to_delete(
        &mut self,
        key: &Bytes,
        expected: Expected,
    ) -> Result<ReadyDelete, WriteError> {
        let hash = self.view.engine.index.hash(key);
        let current = self
            .current(hash, key, None)?
            .filter(|current| current.is_live(self.now));
        let Some(current) = current else {
            return Err(WriteError::NotFound);
        };
        let revision = current.revision;
        match expected {
            Expected::At(expected) if revision != expected => {
                return Err(WriteError::Conflict {
                    expected,
                    current: revision,
                });
            }
            Expected::Absent => return Err(WriteError::AlreadyExists { revision }),
            Expected::Any | Expected::At(_) => {}
        }
        let ended = self.load(hash, current, None)?;
        Ok(ReadyDelete { hash, ended })
    }

    fn do_delete(&mut self, ready: ReadyDelete) -> Revision {
        self.end(ready.hash, ready.ended, false)
    }

    /// Forgets the history up to a revision, on a client's request.
    pub(super) fn compact(&mut self, revision: Revision) -> Result<(), WriteError> {
        let current = self.state.revision;
        if revision > current {
            return Err(WriteError::FutureRevision {
                requested: revision,
                current,
            });
        }
        self.forget(revision);
        Ok(())
    }

    /// Makes the commit write a frame to a bucket, even an empty frame.
    pub(super) fn write_to(&mut self, bucket: u64) -> Result<(), Fault> {
        self.make_bucket(bucket)?;
        self.frames.entry(bucket).or_default();
        self.dirty = true;
        Ok(())
    }

    /// Forgets the history up to a revision, unless more is forgotten already.
    pub(super) fn forget(&mut self, revision: Revision) {
        if revision > self.state.compacted {
            self.state.compacted = revision;
            self.dirty = true;
        }
    }

    pub(super) fn log(&mut self, bucket: u64, kind: Kind, revision: Revision, content: &[u8]) {
        self.frames
            .entry(bucket)
            .or_default()
            .push(bucket, kind, revision, content);
    }

    /// Writes and syncs the commit under this number, and makes it visible. Returns its changes, in
    /// order, and its bucket; `None` if there is nothing to commit.
    pub(super) fn commit(
        mut self,
        engine: &Engine,
        number: u64,
        unfinished: &mut Unfinished,
    ) -> Result<Option<Committed>, Failure> {
        if !self.dirty && self.logged.is_empty() {
            return Ok(None);
        }
        let first = self.view.state.revision + 1;
        if self.frames.is_empty() {
            self.frames.entry(self.home).or_default();
        }
        let home = self
            .frames
            .iter()
            .max_by_key(|(_, frame)| frame.len())
            .map(|(bucket, _)| *bucket);
        let frames = std::mem::take(&mut self.frames);
        let state = self.state.clone();
        engine
            .log
            .commit(frames, number, first, state.clone(), unfinished)?;
        engine.publish(state.clone(), number);
        self.view.state = state.clone();
        Ok(Some(Committed {
            ended_bytes: self.ended_bytes,
            state,
            logged: std::mem::take(&mut self.logged),
            home,
        }))
    }

    /// The current version of a key. The caller may have looked it up before.
    fn current(
        &self,
        hash: u64,
        key: &Bytes,
        looked_up: Option<LookedUp>,
    ) -> Result<Option<Pointer>, Fault> {
        let pointer = match self.view.in_memory(hash, key, self.state.revision) {
            Found::Placed(placed) => Some(placed.pointer),
            Found::Gone => None,
            Found::Unknown => self.view.still_in_trees(key, looked_up)?,
        };
        // This commit may have swept the version.
        Ok(pointer.filter(|pointer| !self.state.swept.has(pointer.bucket, pointer.revision)))
    }

    /// Reads the current version of a key. `found` is the version that the caller expects.
    fn load(&self, hash: u64, current: Pointer, found: Option<Stored>) -> Result<Replaced, Fault> {
        let Pointer {
            revision, bucket, ..
        } = current;
        // A version that this batch wrote is not in the log yet.
        let in_batch = revision
            .checked_sub(self.view.state.revision + 1)
            .and_then(|at| self.logged.get(usize::try_from(at).ok()?))
            .and_then(|logged| logged.change.record());
        if let Some(record) = in_batch
            && let Found::Placed(placed) =
                self.memtable.find(hash, &record.key, self.state.revision)
        {
            return Ok(Replaced {
                placed,
                record: record.clone(),
            });
        }
        let stored = match found.filter(|found| found.record.revision == revision) {
            Some(found) => found,
            None => self.view.version(revision, bucket)?.ok_or_else(|| {
                Fault::Corrupt(format!("the bucket of revision {revision} is missing"))
            })?,
        };
        let placed = stored.placed();
        self.memtable
            .know_reason(&placed.fields, &stored.index.reason);
        Ok(Replaced {
            placed,
            record: stored.record,
        })
    }

    /// Creates a bucket unless it exists.
    fn make_bucket(&mut self, name: u64) -> Result<(), Fault> {
        if !self.view.buckets.contains_key(&name) {
            self.view.engine.bucket(name)?;
            self.view.buckets = self.view.engine.buckets();
        }
        Ok(())
    }

    pub(super) fn next_revision(&mut self) -> Revision {
        self.state.revision += 1;
        self.state.revision
    }

    /// Ends a version, and returns the revision of its end.
    fn end(&mut self, hash: u64, ending: Replaced, expired: bool) -> Revision {
        let revision = self.next_revision();
        let Replaced { placed, record } = ending;
        let bucket = placed.pointer.bucket;
        self.memtable.remove(hash, &record.key, &placed, revision);
        let ends = Ends {
            expired,
            bucket,
            versions: vec![record.revision],
        };
        // The end is logged in the version's own bucket, so that a reader that finds the version
        // also finds its end.
        self.log(bucket, Kind::Ends, revision, &ends.encode());
        self.ended(record, bucket, revision, expired);
        revision
    }

    /// Counts an end and adds its change, without touching log and index.
    pub(super) fn ended(&mut self, record: Record, bucket: u64, revision: Revision, expired: bool) {
        self.uncount(&record, bucket);
        self.expired += u64::from(expired);
        let change = Arc::new(Change::Delete {
            revision,
            previous: record,
            expired,
        });
        self.logged.push(Logged {
            change,
            previous_index: None,
            previous_bucket: bucket,
        });
    }

    fn uncount(&mut self, record: &Record, bucket: u64) {
        self.loaded = self.loaded.saturating_add(record.value.len());
        if bucket > self.spared {
            self.ended_bytes += record.value.len() as u64;
        }
        self.state.records = self.state.records.saturating_sub(1);
        self.state.value_bytes = self
            .state
            .value_bytes
            .saturating_sub(record.value.len() as u64);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // After a commit the view has the new state; then nothing is removed.
        if self.state.revision > self.view.state.revision {
            self.memtable.truncate(self.view.state.revision);
        }
    }
}
