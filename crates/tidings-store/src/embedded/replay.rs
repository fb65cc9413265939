//! What the log says and the index does not yet, put into the index while opening.
//!
//! It goes by the log alone, never by what it finds in the index, so it does no harm that some trees may already have some
//! of it: in the end each entry is as the last commit left it.

use std::sync::atomic::Ordering;

use super::codec::Codec;
use super::folder::OpenError;
use super::history::{Event, Events};
use super::keys::{self, Pointer};
use super::read::{Stored, unpack};
use super::tables::{Bucket, Tables};
use crate::{Fault, Revision};

/// When the index has so many bytes in memory, they are written out before going on.
const MEMORY_MAX: u64 = 32 << 20;

/// Puts every change after a revision into the index.
pub(crate) fn replay(tables: &Tables, codec: &Codec, after: Revision) -> Result<(), OpenError> {
    let published = tables.published();
    let mut replay = Replay {
        tables,
        codec,
        buckets: &published.buckets,
        put: 0,
    };
    let mut events = Events::new(&published.buckets, after, published.state.revision)?;
    let mut sequence = tables.index.next_sequence();
    while let Some((revision, event)) = events.next()? {
        replay.apply(revision, event, sequence)?;
        if tables.memory.load(Ordering::Relaxed) > MEMORY_MAX {
            tables.index.publish(sequence, published.state.swept, || {});
            write_out(tables)?;
        }
        // An entry may be changed again, and a tree takes each only once per number.
        sequence = tables.index.next_sequence();
    }
    tables.index.publish(sequence, published.state.swept, || {});
    Ok(())
}

/// Without a note: the log is to be replayed from where it was, should this be interrupted.
fn write_out(tables: &Tables) -> Result<(), OpenError> {
    tables.set_aside();
    let watermark = tables.index.watermark();
    let trees = tables.buckets();
    let trees = trees
        .values()
        .map(|bucket| &bucket.index)
        .chain([&tables.index.names]);
    for tree in trees {
        let written = tree.write_out(watermark).and_then(|()| {
            if tree.is_crowded() {
                tree.merge(watermark)
            } else {
                Ok(())
            }
        });
        written.map_err(super::index::fault)?;
    }
    Ok(())
}

struct Replay<'a> {
    tables: &'a Tables,
    codec: &'a Codec,
    buckets: &'a super::tables::Buckets,
    /// The revision of the last version that was put.
    put: Revision,
}

impl Replay<'_> {
    fn apply(&mut self, revision: Revision, event: Event, sequence: u64) -> Result<(), Fault> {
        match event {
            Event::Put { bucket, bytes } => {
                let stored = unpack(self.codec, &bytes, revision, bucket)?;
                if let Some((previous, bucket)) = stored.previous {
                    self.end(previous, bucket, revision, sequence)?;
                }
                let Some(Bucket { index, .. }) = self.buckets.get(&bucket) else {
                    return Ok(());
                };
                for key in keys::index_keys(&stored.index, &stored.record.key, revision) {
                    self.tables.set(index, &key[..], Some(&[]), sequence);
                }
                let pointer = Pointer {
                    revision,
                    bucket,
                    expires_at: stored.record.expires_at,
                };
                let key = &stored.record.key[..];
                self.tables.set(
                    &self.tables.index.names,
                    key,
                    Some(&pointer.encode()),
                    sequence,
                );
                self.put = revision;
            }
            Event::End {
                version, bucket, ..
            } => {
                if let Some(stored) = self.end(version, bucket, revision, sequence)? {
                    let key = &stored.record.key[..];
                    self.tables
                        .set(&self.tables.index.names, key, None, sequence);
                }
            }
            Event::Replaced { version, bucket } => {
                let replaced = self.end(version, bucket, revision, sequence)?;
                // The new version lies in a bucket that goes earlier, so it was put just now, or is gone with its bucket.
                if let Some(stored) = replaced.filter(|_| self.put != revision) {
                    let key = &stored.record.key[..];
                    self.tables
                        .set(&self.tables.index.names, key, None, sequence);
                }
            }
        }
        Ok(())
    }

    /// Takes a version out of the indexes, as [`Batch`](super::batch::Batch) does.
    fn end(
        &self,
        version: Revision,
        bucket: u64,
        by: Revision,
        sequence: u64,
    ) -> Result<Option<Stored>, Fault> {
        let Some(Bucket { log, index }) = self.buckets.get(&bucket) else {
            return Ok(None);
        };
        // In the bucket that never ends, what the history no longer needs may be gone.
        let Some(bytes) = log.version(version)? else {
            return Ok(None);
        };
        let stored = unpack(self.codec, &bytes, version, bucket)?;
        for key in keys::index_keys(&stored.index, &stored.record.key, version) {
            self.tables.set(index, &key[..], None, sequence);
        }
        self.tables.set(
            index,
            &keys::ended_key(version)[..],
            Some(&keys::revision_key(by)),
            sequence,
        );
        Ok(Some(stored))
    }
}
