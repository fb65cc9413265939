//! What the log says and the index does not yet, put into the index while opening.
//!
//! It goes by the log alone, never by what it finds in the index, so it does no harm that some trees may already have some
//! of it: in the end each entry is as the last commit left it.

use std::sync::Arc;

use super::codec::Codec;
use super::folder::OpenError;
use super::history::{Event, Events};
use super::part::Part;
use super::read::{Stored, unpack};
use super::segment::Scratch;
use super::tables::{Bucket, Tables};
use super::write_out;
use crate::{Fault, Revision};

/// Puts every change after a revision into the index.
pub(crate) fn replay(tables: &Tables, codec: &Codec, after: Revision) -> Result<(), OpenError> {
    let published = tables.published();
    let mut replay = Replay {
        tables,
        codec,
        buckets: &published.buckets,
        part: tables.index.active(),
        put: 0,
    };
    tables.index.publish(published.state.swept, || {});
    let mut events = Events::new(&published.buckets, after, published.state.revision)?;
    while let Some((revision, event)) = events.next()? {
        replay.apply(revision, event)?;
        if tables.index.is_full() {
            write_out(tables)?;
            replay.part = tables.index.active();
        }
    }
    Ok(())
}

/// Without a note: the log is to be replayed from where it was, should this be interrupted.
fn write_out(tables: &Tables) -> Result<(), OpenError> {
    tables.index.set_aside();
    write_out::write_out(&tables.index, &tables.buckets()).map_err(super::index::fault)?;
    let watermark = tables.index.watermark();
    let trees = tables.buckets();
    let trees = trees
        .values()
        .map(|bucket| &bucket.index)
        .chain([&tables.index.names]);
    for tree in trees.filter(|tree| tree.is_crowded()) {
        tree.merge(watermark).map_err(super::index::fault)?;
    }
    Ok(())
}

struct Replay<'a> {
    tables: &'a Tables,
    codec: &'a Codec,
    buckets: &'a super::tables::Buckets,
    part: Arc<Part>,
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
                let replaced = replaced.map(|replaced| replaced.placed());
                if self.buckets.contains_key(&bucket) {
                    let key = &stored.record.key[..];
                    let hash = self.tables.index.hash(key);
                    self.part
                        .put(hash, key, &stored.placed(), replaced.as_ref());
                    self.put = revision;
                }
            }
            Event::End {
                version, bucket, ..
            } => self.remove(version, bucket, revision)?,
            // The new version lies in a bucket that goes earlier, so it was put just now, or is gone with its bucket.
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
            let hash = self.tables.index.hash(key);
            self.part.remove(hash, key, &ended.placed(), by);
        }
        Ok(())
    }

    /// `None` if it is gone with its bucket; or, in the bucket that never ends, if the history no longer needs it.
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
