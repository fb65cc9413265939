//! Writes expiries of records by the confirmed time.
//!
//! In each bucket it first writes the early ones, by their expiry. Then it writes the others in the
//! order of their revisions, up to the first live one (see [`Track`]).
//!
//! Invariants: expiries in the order of revisions are in the state (a mark for each bucket, and the
//! last finished bucket), and do not change the index. An early expiry is written like a deletion,
//! but in a bucket that stays as long as its version's, so that a rebuilt index finds it.
//! Unreadable records in one bucket do not delay another bucket: not at all if they are damaged,
//! and for at most an hour if their file cannot be read.

use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, LOADED_MAX};
use crate::embedded::codec::version::{Ends, NEVER, Version};
use crate::embedded::engine::{Bucket, unpack_record};
use crate::embedded::index::keys::{self, Placed};
use crate::embedded::index::{TOLERANCE, Track, is_lasting, key_of};
use crate::embedded::log::frame::{Entry, Kind};
use crate::embedded::read::View;
use crate::{Fault, Record, Revision, UnixMillis};

/// Maximum versions that a sweep examines. Most of them may have ended before their expiry.
const STEPS_MAX: usize = 16 * 1024;

/// Milliseconds before the expiries in an unreadable file are given up. The store must have waited
/// that long, and the bucket must be expired for that long. The wait is in monotonic time: a
/// process may begin long after the expiry, or the machine may have been suspended.
const UNREADABLE_MAX: i64 = 3_600_000;

/// Number of early expiries examined at a time when measuring the lag.
const LOOKED_AT: usize = 256;

/// Maximum live records scanned for an expired one when measuring the lag.
const LOOKED_BEHIND: usize = 1024;

/// The work that is left for a sweep.
struct Budget {
    ends: usize,
    steps: usize,
    /// Bytes of values that may still end. They are in memory until the commit is done.
    bytes: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.ends == 0 || self.steps == 0 || self.bytes == 0
    }

    /// Counts the end of a record.
    fn spend(&mut self, record: &Record) {
        self.ends -= 1;
        self.bytes = self.bytes.saturating_sub(record.value.len());
    }

    fn left(&self) -> usize {
        self.ends.min(self.steps)
    }
}

impl Batch<'_> {
    /// Writes about `quota` expiries at most, of values of about [`LOADED_MAX`] bytes. Returns
    /// whether there may be more. The sweep must precede everything else in the batch. If the
    /// commit fails, the caller must restore the index's order of expiries.
    ///
    /// # Errors
    ///
    /// The error of the first bucket that could not be read; expiries written before remain.
    pub(super) fn sweep(&mut self, quota: usize) -> Result<bool, Fault> {
        let mut budget = Budget {
            ends: quota,
            steps: STEPS_MAX,
            bytes: LOADED_MAX,
        };
        let order = self.view.engine.index.order.clone();
        let (now, steady) = (self.confirmed.0, self.steady);
        let (mut failed, mut all_over) = (None, true);
        let buckets = Arc::clone(&self.view.buckets);
        for (name, bucket) in buckets.range(self.state.swept.floor.saturating_add(1)..NEVER) {
            let mut track = order.of(*name);
            let is_over = i64::try_from(*name).is_ok_and(|end| end <= now);
            all_over &= is_over;
            let swept = self.sweep_bucket((*name, bucket), &mut track, &mut budget);
            let since = track.unreadable.unwrap_or((now, steady));
            track.unreadable = swept.is_err().then_some(since);
            order.set(*name, track);
            let waited = steady.saturating_sub(since.1);
            match swept {
                // Everything in the bucket has expired. It must not delay later buckets for ever.
                Err(fault) if is_over && is_given_up((*name, waited), &fault, now) => {
                    tracing::error!(
                        bucket = name,
                        %fault,
                        "a bucket whose time is over cannot be read: the ends of its records from there on are not told, \
                         and they stay in the counts"
                    );
                }
                Err(fault) => {
                    all_over = false;
                    failed = failed.or(Some(fault));
                }
                Ok(()) => all_over &= track.next == i64::MAX,
            }
            if budget.is_spent() {
                // The swept position is stored, so that the next call does not examine the skipped
                // versions again.
                self.dirty = true;
                return Ok(true);
            }
            if all_over {
                self.state.swept.raise(*name);
                self.finished.push(*name);
                self.dirty = true;
            }
        }
        failed.map_or(Ok(false), Err)
    }

    fn sweep_bucket(
        &mut self,
        bucket: (u64, &Bucket),
        track: &mut Track,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        if track.early <= self.confirmed.0 {
            self.sweep_early(bucket, track, budget)?;
        }
        if track.next <= self.confirmed.0 && !budget.is_spent() {
            self.sweep_in_order(bucket, track, budget)?;
        }
        Ok(())
    }

    /// Logs consecutive expiries. Those before an error remain.
    fn log_ends(&mut self, to: u64, first: Revision, bucket: u64, versions: Vec<Revision>) {
        if !versions.is_empty() {
            let ends = Ends {
                expired: true,
                bucket,
                versions,
            };
            self.log(to, Kind::Ends, first, &ends.encode());
        }
    }

    fn sweep_early(
        &mut self,
        (name, bucket): (u64, &Bucket),
        track: &mut Track,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let first = self.state.revision + 1;
        let mut versions = Vec::new();
        let swept = self.sweep_early_versions((name, bucket), track, budget, &mut versions);
        // A rebuilt index must find the end as long as the version exists, so it goes to a bucket
        // that stays at least as long.
        let last = self.view.buckets.keys().next_back();
        let stays = if self.home >= name {
            self.home
        } else {
            last.copied().unwrap_or(name)
        };
        self.log_ends(stays, first, name, versions);
        swept
    }

    fn sweep_early_versions(
        &mut self,
        (name, bucket): (u64, &Bucket),
        track: &mut Track,
        budget: &mut Budget,
        versions: &mut Vec<Revision>,
    ) -> Result<(), Fault> {
        let due = self
            .view
            .early((name, bucket), track.reached, budget.left())?;
        let mut are_all = due.len() < budget.left();
        for (end, revision) in due {
            (track.reached, track.early) = ((end.0, revision), end.0);
            if end > self.confirmed {
                return Ok(());
            }
            budget.steps -= 1;
            let is_ended = self.view.is_ended(&bucket.index, revision)?;
            if is_ended || self.state.swept.has(name, revision) {
                continue;
            }
            // `None` if the version was removed from the log, so it has ended.
            let Some(found) = self.view.found(revision, name)? else {
                continue;
            };
            let placed = Placed {
                is_early: true,
                ..found.placed()
            };
            let ended = self.next_revision();
            versions.push(revision);
            let hash = self.view.engine.index.hash(&found.record.key);
            self.memtable
                .remove(hash, &found.record.key, &placed, ended);
            budget.spend(&found.record);
            self.ended(found.record, name, ended, true);
            if budget.bytes == 0 {
                are_all = false;
                break;
            }
        }
        if are_all {
            track.reached = (self.confirmed.0.saturating_add(1), 0);
            track.early = i64::MAX;
        } else {
            track.reached.1 += 1;
            budget.steps = 0;
        }
        Ok(())
    }

    fn sweep_in_order(
        &mut self,
        (name, bucket): (u64, &Bucket),
        track: &mut Track,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let first = self.state.revision + 1;
        let mut versions = Vec::new();
        let swept = self.sweep_versions((name, bucket), track, budget, &mut versions);
        // The state has the swept position as long as the bucket exists. The log has the expiries
        // as long as the history needs them, in whatever bucket. So they are written to the bucket
        // of this commit.
        self.log_ends(self.home, first, name, versions);
        swept
    }

    fn sweep_versions(
        &mut self,
        (name, bucket): (u64, &Bucket),
        track: &mut Track,
        budget: &mut Budget,
        versions: &mut Vec<Revision>,
    ) -> Result<(), Fault> {
        let start = self.state.swept.mark(name).saturating_add(1);
        // Marks and versions are both in the order of revisions, so the marks are read in step.
        let (first, last) = (keys::ended_key(start), keys::ended_key(Revision::MAX));
        let mut marks = self
            .view
            .snapshot
            .range(&bucket.index, &first[..]..=&last[..])
            .map(|entry| keys::trailing_revision(&key_of(entry)?));
        let mut mark = marks.next().transpose()?;
        let mut walk = bucket.log.walk(start);
        while !budget.is_spent() {
            let found = walk.next(|entry| {
                let revision = entry.revision;
                if entry.kind != Kind::Version || revision < start {
                    return Ok(None);
                }
                while mark.is_some_and(|mark| mark < revision) {
                    mark = marks.next().transpose()?;
                }
                // The memtables include versions that this batch ended.
                let memtables = &self.view.snapshot.memtables;
                if mark == Some(revision) || memtables.have_ended(revision, self.state.revision) {
                    return Ok(Some((revision, Found::Ended)));
                }
                let version = Version::decode(entry.content, revision, name)?;
                let end = version.expires_at.unwrap_or(UnixMillis(i64::MAX));
                if end > self.confirmed {
                    return Ok(Some((revision, Found::Lives(end))));
                }
                let record = unpack_record(self.view.codec, version, revision)?;
                Ok(Some((revision, Found::Expired(record))))
            })?;
            match found {
                None => {
                    track.next = i64::MAX;
                    return Ok(());
                }
                Some((_, Found::Lives(end))) => {
                    track.next = end.0;
                    return Ok(());
                }
                Some((revision, Found::Ended)) => self.state.swept.set_mark(name, revision),
                Some((revision, Found::Expired(record))) => {
                    let ended = self.next_revision();
                    versions.push(revision);
                    // The state has the end, so no entry of the index needs to change.
                    self.state.swept.set_mark(name, revision);
                    budget.spend(&record);
                    self.ended(record, name, ended, true);
                }
            }
            budget.steps -= 1;
        }
        Ok(())
    }
}

/// Whether the rest of an expired bucket is given up because of a fault. Damage counts at once, a
/// file that cannot be read after some time.
fn is_given_up((bucket, waited): (u64, Duration), fault: &Fault, now: i64) -> bool {
    let end = i64::try_from(bucket).unwrap_or(i64::MAX);
    let has_waited = waited >= Duration::from_millis(UNREADABLE_MAX.cast_unsigned())
        && end.saturating_add(UNREADABLE_MAX) <= now;
    matches!(fault, Fault::Corrupt(_)) || has_waited && is_lasting(fault)
}

/// The next version that a sweep finds.
enum Found {
    Ended,
    Expired(Record),
    Lives(UnixMillis),
}

impl View<'_> {
    /// The first `limit` early expiries of a bucket from a position on, in order.
    fn early(
        &self,
        (name, bucket): (u64, &Bucket),
        from: (i64, Revision),
        limit: usize,
    ) -> Result<Vec<(UnixMillis, Revision)>, Fault> {
        let mut found = Vec::new();
        for memtable in self.snapshot.memtables.iter() {
            let early = memtable.early(name, from, limit).into_iter();
            found.extend(early.map(|(end, revision)| (UnixMillis(end), revision)));
        }
        let first = keys::early_key(UnixMillis(from.0), from.1);
        let last = keys::early_key(UnixMillis(i64::MAX), Revision::MAX);
        let entries = self.snapshot.range(&bucket.index, &first[..]..=&last[..]);
        for entry in entries.take(limit) {
            found.push(keys::read_early_key(&key_of(entry)?)?);
        }
        // Each source returned its next `limit`, so the first `limit` of all are among them. An
        // expiry that is being flushed is found twice.
        found.sort_unstable();
        found.dedup();
        found.truncate(limit);
        Ok(found)
    }

    /// Milliseconds by which the earliest unwritten expiry is overdue. Where the log is damaged, it
    /// is overdue since the damage was found.
    pub(super) fn expiry_lag(&self, now: UnixMillis) -> Result<u64, Fault> {
        let mut first = now;
        for (name, bucket) in self
            .buckets
            .range(self.state.swept.floor.saturating_add(1)..NEVER)
        {
            let in_order = self.first_in_order((*name, bucket), now)?;
            first = first.min(in_order.unwrap_or(now));
            first = first.min(self.first_early((*name, bucket), now)?.unwrap_or(now));
        }
        Ok(now.0.saturating_sub(first.0).max(0).cast_unsigned())
    }

    /// The expiry of the first record that is due in the order of revisions. It may come after live
    /// records that delay the sweep, as long as these expire within the tolerance. Expired records
    /// after any other live record are early, so they are not in this order.
    fn first_in_order(
        &self,
        (name, bucket): (u64, &Bucket),
        now: UnixMillis,
    ) -> Result<Option<UnixMillis>, Fault> {
        let start = self.state.swept.mark(name).saturating_add(1);
        let mut walk = bucket.log.walk(start);
        let mut left = LOOKED_BEHIND;
        loop {
            let found = walk.next(|entry| {
                let Entry { kind, revision, .. } = entry;
                if kind != Kind::Version || revision < start {
                    return Ok(None);
                }
                let version = Version::decode(entry.content, revision, name)?;
                let end = version.expires_at.filter(|end| *end <= now);
                if let Some(end) = end {
                    return Ok(Some(Some((end, revision))));
                }
                let holds_up = version
                    .expires_at
                    .is_some_and(|end| end.0 <= now.0.saturating_add(TOLERANCE));
                left -= 1;
                Ok((!holds_up || left == 0).then_some(None))
            });
            match found {
                Ok(Some(Some((end, revision)))) => {
                    if !self.is_ended(&bucket.index, revision)? {
                        return Ok(Some(end));
                    }
                }
                Ok(_) => return Ok(None),
                // The lag of other buckets, and all other statistics, are still reported.
                Err(Fault::Corrupt(_)) => {
                    let since = self.engine.index.order.of(name).unreadable;
                    return Ok(since.map(|(confirmed, _)| UnixMillis(confirmed)));
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    fn first_early(
        &self,
        (name, bucket): (u64, &Bucket),
        now: UnixMillis,
    ) -> Result<Option<UnixMillis>, Fault> {
        let mut from = self.engine.index.order.of(name).reached;
        loop {
            let due = self.early((name, bucket), from, LOOKED_AT)?;
            let are_all = due.len() < LOOKED_AT;
            for (end, revision) in due {
                if end > now {
                    return Ok(None);
                }
                let is_swept = self.state.swept.has(name, revision);
                if !is_swept && !self.is_ended(&bucket.index, revision)? {
                    return Ok(Some(end));
                }
                from = (end.0, revision.saturating_add(1));
            }
            if are_all {
                return Ok(None);
            }
        }
    }
}
