//! One commit in the making: each request is decided against the store plus what the commit already holds.
//!
//! Invariants: the name of a key points to its current version or to nothing; a version that was replaced or deleted before
//! its time has an `x` mark and no other index entries; every change takes the next revision; a version whose bucket was
//! swept past it has its end in the log. All of it becomes visible at once, by [`Batch::commit`], or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::codec::Codec;
use super::committer::Put;
use super::frame::Kind;
use super::index::key_of;
use super::keys::{self, Ends, IndexKey, NEVER, Pointer, State, Version, put_varint};
use super::log::{Failure, Frames, Unfinished};
use super::read::{Stored, View, unpack};
use super::tables::{Bucket, Tables, bucket_for};
use crate::changes::Logged;
use crate::{Change, Deleted, Fault, Record, Revision, UnixMillis, WriteError};

/// Versions a sweep looks at, at most; most of them may have ended before their time.
const STEPS_MAX: usize = 16 * 1024;

/// See the module documentation.
pub(crate) struct Batch<'a> {
    view: View<'a>,
    /// What it adds to the log.
    frames: Frames,
    /// Index entries to set or to remove.
    entries: Vec<Entry>,
    /// Where ends go that expiry brings.
    home: u64,
    state: State,
    now: UnixMillis,
    /// What the keys this batch wrote point to now.
    written: HashMap<Bytes, Option<Stored>, RandomState>,
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

/// An entry of a bucket's tree to set, to a revision, or to remove.
struct Entry {
    bucket: u64,
    key: IndexKey,
    value: Option<Revision>,
}

/// What a commit did.
pub(crate) struct Committed {
    pub(crate) state: State,
    pub(crate) logged: Vec<Logged>,
    pub(crate) home: Option<u64>,
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
    /// `home` is the bucket the last commit wrote to.
    pub(crate) fn new(
        tables: &'a Tables,
        codec: &'a Codec,
        now: UnixMillis,
        home: Option<u64>,
    ) -> Self {
        let view = View::new(tables, codec);
        let home = home.filter(|home| view.buckets.contains_key(home));
        Self {
            state: view.state,
            home: home
                .or_else(|| view.buckets.keys().next_back().copied())
                .unwrap_or(NEVER),
            view,
            frames: Frames::new(),
            entries: Vec::new(),
            now,
            written: HashMap::default(),
            logged: Vec::new(),
            dirty: false,
            passed: (0, 0),
            expired: 0,
            finished: Vec::new(),
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
        self.make_bucket(bucket)?;

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
        let content = version.encode(revision, bucket);
        self.log(bucket, Kind::Version, revision, &content);
        // A bucket that outlives the new version must itself tell that its version is replaced.
        if let Some((replaced, old)) = previous.filter(|(_, old)| *old > bucket) {
            let mut content = Vec::new();
            put_varint(&mut content, replaced);
            self.log(old, Kind::Replaced, revision, &content);
        }
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
            let is_over = *bucket <= self.now.0.max(0).cast_unsigned();
            let complete = match self.sweep_bucket(*bucket, tables, start, &mut budget) {
                // All in it has expired. It must not hold up the buckets behind it for ever.
                Err(Fault::Corrupt(damage)) if is_over => {
                    tracing::error!(
                        bucket,
                        damage,
                        "a bucket whose time is over is damaged: the ends of its records from there on are not told, \
                         and they stay in the counts"
                    );
                    true
                }
                swept => swept?,
            };
            if budget.is_spent() {
                return Ok(true);
            }
            if !complete || !is_over {
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
            // What was swept is told by the state for as long as the bucket is there, and its ends by the log for as long
            // as the history needs them, wherever they lie. So they go where this commit writes anyway.
            self.log(self.home, Kind::Ends, first, &ends.encode());
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
        let mut marks = self
            .view
            .snapshot
            .range(&bucket.index, marks)
            .map(|entry| keys::trailing_revision(&key_of(entry)?));
        let mut mark = marks.next().transpose()?;
        let mut walk = bucket.log.walk(start);
        loop {
            let found = walk.next(|entry| {
                let wanted = entry.kind == Kind::Version && entry.revision >= start;
                Ok(wanted.then(|| (entry.revision, entry.content.to_vec())))
            })?;
            let Some((revision, bytes)) = found else {
                return Ok(true);
            };
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
                // The state tells of it, so no entry of the index need be touched.
                self.state.swept = (name, revision);
                self.ended(stored, ended, true);
                budget.ends -= 1;
            }
            self.passed = (name, revision);
            budget.steps -= 1;
            if budget.is_spent() {
                return Ok(false);
            }
        }
    }

    fn log(&mut self, bucket: u64, kind: Kind, revision: Revision, content: &[u8]) {
        self.frames
            .entry(bucket)
            .or_default()
            .push(bucket, kind, revision, content);
    }

    /// Writes and syncs the commit with this number, and makes it visible; on success the changes it made, in order, and the
    /// bucket it wrote to.
    pub(crate) fn commit(
        mut self,
        tables: &Tables,
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
        let Self {
            view,
            frames,
            entries,
            state,
            written,
            ..
        } = self;
        tables
            .log
            .commit(frames, number, first, state, unfinished)?;

        let sequence = tables.index.next_sequence();
        for Entry { bucket, key, value } in entries {
            if let Some(bucket) = view.buckets.get(&bucket) {
                let value = value.map(keys::revision_key);
                tables.set(
                    &bucket.index,
                    &key[..],
                    value.as_ref().map(|value| &value[..]),
                    sequence,
                );
            }
        }
        // A tree takes a key only once per commit. So names and the entries of new versions, which several requests may
        // touch, are written last, as they are in the end.
        let names = &tables.index.names;
        for (key, stored) in written {
            let Some(stored) = stored else {
                tables.set(names, &key[..], None, sequence);
                continue;
            };
            let pointer = Pointer::to(&stored);
            if let Some(bucket) = view.buckets.get(&stored.bucket) {
                for entry in keys::index_keys(&stored.index, &key, pointer.revision) {
                    tables.set(&bucket.index, &entry[..], Some(&[]), sequence);
                }
            }
            tables.set(names, &key[..], Some(&pointer.encode()), sequence);
        }
        tables.publish(sequence, state, number);
        Ok(Some(Committed {
            state,
            logged: self.logged,
            home,
        }))
    }

    fn current(&self, key: &Bytes) -> Result<Option<Current>, Fault> {
        if let Some(written) = self.written.get(key) {
            return Ok(written.clone().map(Current::Known));
        }
        let pointer = self.view.pointer(key)?;
        // It may have been swept by this commit.
        let pointer =
            pointer.filter(|pointer| (pointer.bucket, pointer.revision) > self.state.swept);
        Ok(pointer.map(Current::Pointed))
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

    /// Makes the bucket to write to, if it is not there.
    fn make_bucket(&mut self, name: u64) -> Result<(), Fault> {
        if !self.view.buckets.contains_key(&name) {
            self.view.tables.bucket(name)?;
            self.view.buckets = self.view.tables.buckets();
        }
        Ok(())
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
        // In its own bucket, so that whoever finds the version finds its end.
        self.log(stored.bucket, Kind::Ends, revision, &ends.encode());
        self.written.insert(stored.record.key.clone(), None);
        self.ended(stored, revision, expired);
        revision
    }

    /// What every end has in common besides the log and the index.
    fn ended(&mut self, stored: Stored, revision: Revision, expired: bool) {
        self.uncount(&stored);
        self.expired += u64::from(expired);
        let Stored {
            record,
            index,
            bucket,
            ..
        } = stored;
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
        let Record { key, revision, .. } = &stored.record;
        let bucket = stored.bucket;
        let is_in_batch = *revision > self.view.state.revision;
        if !is_in_batch {
            let keys = keys::index_keys(&stored.index, key, *revision);
            self.entries.extend(keys.map(|key| Entry {
                bucket,
                key,
                value: None,
            }));
        }
        let key = keys::ended_key(*revision);
        self.entries.push(Entry {
            bucket,
            key,
            value: Some(ended_by),
        });
    }

    fn uncount(&mut self, stored: &Stored) {
        self.state.records = self.state.records.saturating_sub(1);
        self.state.value_bytes = self
            .state
            .value_bytes
            .saturating_sub(stored.record.value.len() as u64);
    }
}
