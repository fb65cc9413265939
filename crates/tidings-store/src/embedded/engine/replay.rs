//! Replays the part of the log that is not in the index yet, at opening.
//!
//! It uses only the log, not the index. So some trees may have some entries already: in the end
//! each entry is in the state of the last commit.
//!
//! Each flush of a memtable writes a checkpoint, so a process that is killed during a replay leaves
//! less to the next one.

use std::sync::Arc;

use super::bucket::{Bucket, Buckets};
use super::flush;
use super::history::{Event, Events};
use super::stored::{Stored, unpack};
use crate::embedded::codec::{Codec, State};
use crate::embedded::error::OpenError;
use crate::embedded::index::keys::Placed;
use crate::embedded::index::memtable::Memtable;
use crate::embedded::index::{Index, fault};
use crate::embedded::log::frame::Header;
use crate::embedded::log::segment::Scratch;
use crate::{Fault, Revision};

/// Applies every change after a revision to the index, up to the store's state. `commits` are the
/// headers of these changes' commits, as far as known. After a flush, `note` gets the last commit
/// that the trees have completely.
pub(super) fn replay(
    index: &Index,
    codec: &Codec,
    (buckets, commits): (&Buckets, &[Header]),
    state: &State,
    after: Revision,
    note: impl Fn(&Header) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let mut replay = Replay {
        index,
        codec,
        buckets,
        memtable: index.active(),
        put: 0,
    };
    index.publish(&state.swept, || {});
    let mut events = Events::new(buckets, after, state.revision)?;
    while let Some((revision, event)) = events.next()? {
        replay.apply(revision, event)?;
        if index.is_full(1) {
            flush(index, buckets)?;
            replay.memtable = index.active();
            // More changes of the current commit may follow, so only commits before it count.
            let whole = commits.partition_point(|commit| commit.state.revision < revision);
            if let Some(commit) = whole.checked_sub(1).and_then(|at| commits.get(at)) {
                note(commit)?;
            }
        }
    }
    Ok(())
}

/// Flushes the memtables. It merges only what is necessary; the flusher does the rest once the
/// store is open.
fn flush(index: &Index, buckets: &Buckets) -> Result<(), OpenError> {
    index.set_aside();
    flush::flush(index, buckets).map_err(fault)?;
    let watermark = index.watermark();
    let trees = buckets
        .values()
        .map(|bucket| &bucket.index)
        .chain([&index.names]);
    for tree in trees.filter(|tree| tree.is_full()) {
        tree.merge(watermark).map_err(fault)?;
    }
    Ok(())
}

struct Replay<'a> {
    index: &'a Index,
    codec: &'a Codec,
    buckets: &'a Buckets,
    memtable: Arc<Memtable>,
    /// The revision of the last version that was put.
    put: Revision,
}

impl Replay<'_> {
    fn apply(&mut self, revision: Revision, event: Event) -> Result<(), Fault> {
        match event {
            Event::Put { bucket, bytes } => {
                let stored = unpack(self.codec, &bytes, revision, bucket)?;
                let replaced = match stored.previous {
                    Some((previous, bucket)) => self.version(previous, bucket)?,
                    None => None,
                };
                let replaced = replaced.map(|replaced| self.placed(&replaced));
                if self.buckets.contains_key(&bucket) {
                    let key = &stored.record.key[..];
                    let hash = self.index.hash(key);
                    let placed = Placed {
                        is_early: self.index.order.put(bucket, stored.record.expires_at),
                        ..self.placed(&stored)
                    };
                    self.memtable.put(hash, key, &placed, replaced.as_ref());
                    self.put = revision;
                }
            }
            Event::End {
                version, bucket, ..
            } => self.remove(version, bucket, revision)?,
            // The new version is in a bucket that is dropped earlier. So it was put just now, or
            // was dropped with its bucket.
            Event::Replaced { version, bucket } if self.put != revision => {
                self.remove(version, bucket, revision)?;
            }
            Event::Replaced { .. } => {}
        }
        Ok(())
    }

    fn remove(&self, version: Revision, bucket: u64, by: Revision) -> Result<(), Fault> {
        if let Some(ended) = self.version(version, bucket)? {
            let key = &ended.record.key[..];
            let hash = self.index.hash(key);
            self.memtable.remove(hash, key, &self.placed(&ended), by);
        }
        Ok(())
    }

    fn placed(&self, stored: &Stored) -> Placed {
        let placed = stored.placed();
        self.memtable
            .know_reason(&placed.fields, &stored.index.reason);
        placed
    }

    /// Reads a version from the log. `None` if it was dropped with its bucket; or, in the bucket
    /// that never expires, if the history no longer needs it.
    fn version(&self, version: Revision, bucket: u64) -> Result<Option<Stored>, Fault> {
        let Some(Bucket { log, .. }) = self.buckets.get(&bucket) else {
            return Ok(None);
        };
        let mut scratch = Scratch::default();
        let bytes = log.version(version, &mut scratch)?;
        bytes
            .map(|bytes| unpack(self.codec, bytes, version, bucket))
            .transpose()
    }
}
