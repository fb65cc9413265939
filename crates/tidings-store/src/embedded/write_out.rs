//! Writes the parts of the index that were set aside to the trees: sorted, one new table for each tree they concern.
//!
//! Doing so again, or after the trees have some of it already, does no harm: in the end each entry is as the part says. To
//! that end, versions that may be in a tree by an earlier, interrupted try are taken out when they have ended since.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use lsm_tree::AnyTree;

use super::index::Index;
use super::keys::{self, IndexKey};
use super::part::Part;
use super::tables::Buckets;
use crate::Revision;

/// What becomes of an entry of a bucket's tree.
#[derive(Clone, Copy)]
enum Becomes {
    There,
    Gone,
    /// A mark, with the revision of what ended the version.
    Mark(Revision),
}

type Entries = Vec<(IndexKey, Becomes)>;

/// Writes all that was set aside, the oldest first, and has readers to come find it in the trees.
pub(crate) fn write_out(index: &Index, buckets: &Buckets) -> lsm_tree::Result<()> {
    while let Some(part) = index.oldest_aside() {
        write_part(index, buckets, &part)?;
        index.forget_oldest();
    }
    Ok(())
}

fn write_part(index: &Index, buckets: &Buckets, part: &Part) -> lsm_tree::Result<()> {
    let outcome = part.outcome();
    let opened_at = index.opened_at.load(Ordering::Acquire);
    let mut entries = BTreeMap::<u64, Entries>::new();
    for (placed, ended) in outcome.versions() {
        let of_bucket = entries.entry(placed.pointer.bucket).or_default();
        let revision = placed.pointer.revision;
        match ended {
            None => {
                let keys = placed.fields.keys(revision);
                of_bucket.extend(keys.map(|key| (key, Becomes::There)));
            }
            Some(by) => {
                if revision <= opened_at {
                    let keys = placed.fields.keys(revision);
                    of_bucket.extend(keys.map(|key| (key, Becomes::Gone)));
                }
                of_bucket.push((keys::ended_key(revision), Becomes::Mark(by)));
            }
        }
    }
    for (placed, by) in &outcome.ended_before {
        let of_bucket = entries.entry(placed.pointer.bucket).or_default();
        let revision = placed.pointer.revision;
        let keys = placed.fields.keys(revision);
        of_bucket.extend(keys.map(|key| (key, Becomes::Gone)));
        of_bucket.push((keys::ended_key(revision), Becomes::Mark(*by)));
    }
    let mut written = part.written.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, entries) in entries {
        // A bucket that was dropped since is not missed, and one that has it is not given it again when it is tried again.
        if let Some(bucket) = buckets.get(&name)
            && !written.contains(&name)
        {
            write_entries(&bucket.index, entries)?;
            written.insert(name);
            bucket.index.trim(index.watermark())?;
        }
    }
    let changed = outcome.names();
    if changed.is_empty() {
        return Ok(());
    }
    let mut names = index.names.ingestion()?;
    for (name, pointer) in changed {
        match pointer {
            Some(pointer) => names.write(name, pointer.encode())?,
            None => names.write_tombstone(name)?,
        }
    }
    names.finish()?;
    index.names.trim(index.watermark())
}

fn write_entries(tree: &AnyTree, mut entries: Entries) -> lsm_tree::Result<()> {
    entries.sort_unstable_by_key(|(key, _)| key.order());
    // A tree takes a key only once.
    entries.dedup_by_key(|(key, _)| *key);
    let mut tree = tree.ingestion()?;
    for (key, becomes) in entries {
        match becomes {
            Becomes::There => tree.write(&key[..], [])?,
            Becomes::Gone => tree.write_tombstone(&key[..])?,
            Becomes::Mark(by) => tree.write(&key[..], keys::revision_key(by))?,
        }
    }
    tree.finish()
}
