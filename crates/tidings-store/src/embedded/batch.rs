//! One atomic batch in the making: each request is decided against the store plus what the batch already holds.
//!
//! Invariants: the name of a key points to its current version or to nothing; a version that was replaced or deleted before
//! its time has an `x` mark and no other index entries; every change takes the next revision; a version whose bucket was
//! swept past it has its end in the log. All of it becomes visible at once, by [`Batch::commit`], or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{OwnedWriteBatch, PersistMode, Readable};

use super::codec::Codec;
use super::committer::Put;
use super::keys::{self, Ends, NEVER, Pointer, State, Version};
use super::read::{Stored, View, unpack};
use super::tables::{Bucket, Tables, bucket_for, fault};
use crate::changes::Logged;
use crate::{Change, Deleted, Fault, Record, Revision, UnixMillis, WriteError};

/// Log entries, and versions of the bucket that never expires, that [`Batch::trim`] removes at most.
const TRIM_MAX: usize = 4096;

/// Versions a sweep looks at, at most; most of them may have ended before their time.
const STEPS_MAX: usize = 16 * 1024;

/// See the module documentation.
pub(crate) struct Batch<'a> {
    view: View<'a>,
    writes: OwnedWriteBatch,
    state: State,
    now: UnixMillis,
    /// What the keys this batch wrote point to now.
    written: HashMap<Bytes, Option<Stored>>,
    logged: Vec<Logged>,
    dirty: bool,
    /// A bucket and a revision in it up to which no version waits for its end, as far as is known. Unlike what is
    /// written down as swept it binds nobody, so it may lie in a bucket whose time is far off.
    pub(crate) passed: (u64, Revision),
    /// Records whose end it writes down.
    pub(crate) expired: u64,
    /// Buckets it finished; see [`Committer`](super::committer::Committer).
    pub(crate) finished: Vec<(u64, Revision)>,
}

impl Pointer {
    fn to(stored: &Stored) -> Self {
        let Record {
            revision,
            expires_at,
            ..
        } = stored.record;
        Self {
            revision,
            bucket: stored.bucket,
            expires_at,
        }
    }
}

/// How much a sweep may still do.
struct Budget {
    ends: usize,
    steps: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.ends == 0 || self.steps == 0
    }
}

/// The version a key points to.
enum Current {
    Known(Stored),
    Pointed(Pointer),
}

impl Current {
    fn pointer(&self) -> Pointer {
        match self {
            Self::Pointed(pointer) => *pointer,
            Self::Known(stored) => Pointer::to(stored),
        }
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(tables: &'a Tables, codec: &'a Codec, state: State, now: UnixMillis) -> Self {
        let snapshot = tables.db.snapshot();
        let view = View {
            tables,
            codec,
            snapshot,
            buckets: tables.buckets(),
            state,
        };
        let writes = tables.db.batch().durability(Some(PersistMode::SyncData));
        let (written, logged, finished) = (HashMap::new(), Vec::new(), Vec::new());
        Self {
            view,
            writes,
            state,
            now,
            written,
            logged,
            dirty: false,
            passed: (0, 0),
            expired: 0,
            finished,
        }
    }

    pub(crate) fn put(&mut self, put: Put) -> Result<Revision, WriteError> {
        let Put {
            key,
            value,
            index,
            expires_at,
            body,
            expected,
            found,
        } = put;
        let current = self.current(&key)?;
        let live = current
            .as_ref()
            .map(Current::pointer)
            .filter(|pointer| pointer.is_live(self.now));
        match (live, expected) {
            (Some(Pointer { revision, .. }), None) => {
                return Err(WriteError::AlreadyExists { revision });
            }
            (None, Some(_)) => return Err(WriteError::NotFound),
            (Some(Pointer { revision, .. }), Some(expected)) if revision != expected => {
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
        let replaced = current
            .map(|current| self.load(current, found))
            .transpose()?;
        let bucket = bucket_for(
            self.now,
            expires_at,
            self.last_finished(),
            self.view.buckets.keys(),
        );
        let tables = self.bucket(bucket)?;

        // From here on nothing fails, so a request is in the batch wholly or not at all.
        let (replaced, ended) = if live.is_some() {
            (replaced, None)
        } else {
            (None, replaced)
        };
        if let Some(ended) = ended {
            self.end(ended, true);
        }
        let revision = self.next_revision();
        if let Some(replaced) = &replaced {
            self.unindex(replaced, revision);
            self.uncount(replaced);
        }
        let previous = replaced
            .as_ref()
            .map(|stored| (stored.record.revision, stored.bucket));
        let version = Version {
            expires_at,
            previous,
            body: body.as_packed(),
        };
        self.writes.insert(
            &tables.data,
            keys::revision_key(revision),
            version.encode(revision, bucket),
        );
        self.state.records += 1;
        self.state.value_bytes += value.len() as u64;

        let record = Record {
            key: key.clone(),
            value,
            revision,
            expires_at,
        };
        let stored = Stored {
            record: record.clone(),
            index: Arc::new(index),
            bucket,
            previous,
        };
        self.written.insert(key, Some(stored));
        self.logged.push(Logged {
            previous_index: replaced.as_ref().map(|stored| Arc::clone(&stored.index)),
            previous_bucket: replaced.as_ref().map_or(0, |stored| stored.bucket),
            change: Arc::new(Change::Put {
                record,
                previous: replaced.map(|stored| stored.record),
            }),
        });
        Ok(revision)
    }

    pub(crate) fn delete(
        &mut self,
        key: &Bytes,
        expected: Option<Revision>,
    ) -> Result<Deleted, WriteError> {
        let current = self
            .current(key)?
            .filter(|current| current.pointer().is_live(self.now));
        let Some(current) = current else {
            return Err(WriteError::NotFound);
        };
        let revision = current.pointer().revision;
        if let Some(expected) = expected.filter(|expected| *expected != revision) {
            return Err(WriteError::Conflict {
                expected,
                current: revision,
            });
        }
        let stored = self.load(current, None)?;
        let previous = stored.record.clone();
        let revision = self.end(stored, false);
        Ok(Deleted { revision, previous })
    }

    /// Forgets the history up to a revision on demand.
    pub(crate) fn compact(&mut self, revision: Revision) -> Result<(), WriteError> {
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

    /// Forgets the history up to a revision.
    pub(crate) fn forget(&mut self, revision: Revision) {
        if revision > self.state.compacted {
            self.state.compacted = revision;
            self.dirty = true;
        }
    }

    /// Removes some of what only the forgotten history needed, from the log at a revision on; returns where to go on.
    pub(crate) fn trim(&mut self, start: Revision) -> Result<Revision, Fault> {
        let compacted = self.view.state.compacted;
        let Self { view, writes, .. } = self;
        let mut reached = start;
        let forgotten = keys::revision_key(start)..=keys::revision_key(compacted);
        if start <= compacted {
            for entry in view
                .snapshot
                .range(&view.tables.log, forgotten)
                .take(TRIM_MAX)
            {
                let (key, value) = entry.into_inner().map_err(fault)?;
                let next =
                    keys::read_revision_key(&key)? + Ends::decode(&value)?.versions.len() as u64;
                if next > compacted + 1 {
                    break;
                }
                writes.remove(&view.tables.log, key);
                self.dirty = true;
                reached = next;
            }
        }
        // Other buckets are dropped whole in the end; this one never is.
        if let Some(never) = view.buckets.get(&NEVER) {
            for entry in view.snapshot.prefix(&never.index, b"x").take(TRIM_MAX) {
                let (key, ended_by) = entry.into_inner().map_err(fault)?;
                if keys::read_revision_key(&ended_by)? <= compacted {
                    writes.remove(
                        &never.data,
                        keys::revision_key(keys::trailing_revision(&key)?),
                    );
                    writes.remove(&never.index, key);
                    self.dirty = true;
                }
            }
        }
        Ok(reached)
    }

    /// Writes down the ends of records that have expired, bucket by bucket in the order of their writing, at most about
    /// `quota` of them; whether there may be more. Must come before anything else in the batch.
    ///
    /// A record that lives on holds up those written after it to the same bucket, until the bucket's end at most. Readers
    /// do not notice: they go by each record's own time.
    pub(crate) fn sweep(&mut self, quota: usize) -> Result<bool, Fault> {
        let mut budget = Budget {
            ends: quota,
            steps: STEPS_MAX,
        };
        let buckets = Arc::clone(&self.view.buckets);
        for (bucket, tables) in buckets.range(self.state.swept.0..NEVER) {
            let after = [self.state.swept, self.passed]
                .into_iter()
                .filter(|(reached, _)| reached == bucket);
            let start = match after.map(|(_, revision)| revision).max() {
                Some(Revision::MAX) => continue,
                Some(revision) => revision + 1,
                None => 0,
            };
            let complete = self.sweep_bucket(*bucket, tables, start, &mut budget)?;
            if budget.is_spent() {
                return Ok(true);
            }
            if !complete || *bucket > self.now.0.max(0).cast_unsigned() {
                break;
            }
            self.state.swept = (*bucket, Revision::MAX);
            self.finished.push((*bucket, self.state.revision));
            self.dirty = true;
        }
        Ok(false)
    }

    /// Whether it came to the end of the bucket. What it did before an error stands.
    fn sweep_bucket(
        &mut self,
        name: u64,
        bucket: &Bucket,
        start: Revision,
        budget: &mut Budget,
    ) -> Result<bool, Fault> {
        let first = self.state.revision + 1;
        let mut versions = Vec::new();
        let complete = self.sweep_versions(name, bucket, start, budget, &mut versions);
        if !versions.is_empty() {
            let ends = Ends {
                expired: true,
                bucket: name,
                versions,
            };
            self.writes.insert(
                &self.view.tables.log,
                keys::revision_key(first),
                ends.encode(),
            );
        }
        complete
    }

    fn sweep_versions(
        &mut self,
        name: u64,
        bucket: &Bucket,
        start: Revision,
        budget: &mut Budget,
        versions: &mut Vec<Revision>,
    ) -> Result<bool, Fault> {
        // Both run in the order of revisions, so the marks are walked along.
        let marks = &keys::ended_key(start)[..]..&b"y"[..];
        let mut marks = self.view.snapshot.range(&bucket.index, marks).map(|entry| {
            let key = entry.key().map_err(fault)?;
            keys::trailing_revision(&key)
        });
        let mut mark = marks.next().transpose()?;
        for entry in self
            .view
            .snapshot
            .range(&bucket.data, keys::revision_key(start)..)
        {
            let (key, bytes) = entry.into_inner().map_err(fault)?;
            let revision = keys::read_revision_key(&key)?;
            while mark.is_some_and(|mark| mark < revision) {
                mark = marks.next().transpose()?;
            }
            if mark != Some(revision) {
                let expires_at = Version::decode(&bytes, revision, name)?.expires_at;
                if expires_at.is_none_or(|at| at > self.now) {
                    return Ok(false);
                }
                let stored = unpack(self.view.codec, &bytes, revision, name)?;
                let ended = self.next_revision();
                versions.push(revision);
                self.ended(stored, ended, true);
                self.state.swept = (name, revision);
                budget.ends -= 1;
            }
            self.passed = (name, revision);
            budget.steps -= 1;
            if budget.is_spent() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes and syncs the batch; on success the changes it made, in order.
    pub(crate) fn commit(self) -> (State, Result<Vec<Logged>, fjall::Error>) {
        if !self.dirty && self.logged.is_empty() {
            return (self.state, Ok(Vec::new()));
        }
        // The engine takes a key only once per batch. So names and index entries, which several requests may touch, are
        // written last, as they are in the end.
        let Self {
            view,
            mut writes,
            state,
            written,
            ..
        } = self;
        for (key, stored) in written {
            let Some(stored) = stored else {
                writes.remove(&view.tables.names, &key[..]);
                continue;
            };
            let pointer = Pointer::to(&stored);
            writes.insert(&view.tables.names, &key[..], pointer.encode());
            if let Some(bucket) = view.buckets.get(&stored.bucket) {
                for entry in keys::index_keys(&stored.index, pointer.revision) {
                    writes.insert(&bucket.index, entry, []);
                }
            }
        }
        writes.insert(&view.tables.meta, keys::STATE, state.encode());
        (state, writes.commit().map(|()| self.logged))
    }

    fn current(&self, key: &Bytes) -> Result<Option<Current>, Fault> {
        match self.written.get(key) {
            Some(written) => Ok(written.clone().map(Current::Known)),
            None => Ok(self.view.pointer(key)?.map(Current::Pointed)),
        }
    }

    fn load(&self, current: Current, found: Option<Stored>) -> Result<Stored, Fault> {
        let pointer = match current {
            Current::Known(stored) => return Ok(stored),
            Current::Pointed(pointer) => pointer,
        };
        if let Some(found) = found.filter(|found| found.record.revision == pointer.revision) {
            return Ok(found);
        }
        self.view
            .version(pointer.revision, pointer.bucket)?
            .ok_or_else(|| {
                Fault::Corrupt(format!(
                    "the bucket of revision {} is missing",
                    pointer.revision
                ))
            })
    }

    /// The bucket to write to; making one is the moment to write out the others.
    fn bucket(&mut self, name: u64) -> Result<Bucket, Fault> {
        if let Some(bucket) = self.view.buckets.get(&name) {
            return Ok(bucket.clone());
        }
        let tables = self.view.tables;
        let bucket = tables.bucket(name).map_err(fault)?;
        for other in self.view.buckets.values() {
            other.flush().map_err(fault)?;
        }
        self.view.buckets = tables.buckets();
        Ok(bucket)
    }

    fn last_finished(&self) -> u64 {
        match self.state.swept {
            (bucket, Revision::MAX) => bucket,
            (bucket, _) => bucket.saturating_sub(1),
        }
    }

    fn next_revision(&mut self) -> Revision {
        self.state.revision += 1;
        self.state.revision
    }

    /// Ends the version a key points to, and returns the revision of that.
    fn end(&mut self, stored: Stored, expired: bool) -> Revision {
        let revision = self.next_revision();
        self.unindex(&stored, revision);
        let ends = Ends {
            expired,
            bucket: stored.bucket,
            versions: vec![stored.record.revision],
        };
        self.writes.insert(
            &self.view.tables.log,
            keys::revision_key(revision),
            ends.encode(),
        );
        self.ended(stored, revision, expired);
        revision
    }

    /// What every end has in common besides its bytes on disk.
    fn ended(&mut self, stored: Stored, revision: Revision, expired: bool) {
        self.uncount(&stored);
        self.expired += u64::from(expired);
        let Stored {
            record,
            index,
            bucket,
            ..
        } = stored;
        self.written.insert(record.key.clone(), None);
        let change = Arc::new(Change::Delete {
            revision,
            previous: record,
            expired,
        });
        self.logged.push(Logged {
            change,
            previous_index: Some(index),
            previous_bucket: bucket,
        });
    }

    /// Takes a version out of the indexes and marks it as ended by this revision.
    fn unindex(&mut self, stored: &Stored, ended_by: Revision) {
        let Some(bucket) = self.view.buckets.get(&stored.bucket) else {
            return;
        };
        let revision = stored.record.revision;
        let is_in_batch = revision > self.view.state.revision;
        if !is_in_batch {
            for entry in keys::index_keys(&stored.index, revision) {
                self.writes.remove(&bucket.index, entry);
            }
        }
        self.writes.insert(
            &bucket.index,
            keys::ended_key(revision),
            keys::revision_key(ended_by),
        );
    }

    fn uncount(&mut self, stored: &Stored) {
        self.state.records = self.state.records.saturating_sub(1);
        self.state.value_bytes = self
            .state
            .value_bytes
            .saturating_sub(stored.record.value.len() as u64);
    }
}
