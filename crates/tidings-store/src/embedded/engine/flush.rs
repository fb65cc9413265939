//! Flushes frozen memtables to the trees: sorted, one new table for each tree with changes.
//!
//! A flush may be repeated, or may find some entries in the trees already: in the end each entry is
//! as in the memtable. Therefore versions that an earlier, interrupted flush may have written are
//! removed if they have ended since.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use lsm_tree::{AbstractTree, AnyTree, SeqNo};

use super::bucket::Buckets;
use crate::Revision;
use crate::embedded::index::counts::{self, Changes};
use crate::embedded::index::keys::{self, IndexKey, Placed, Pointer};
use crate::embedded::index::memtable::Memtable;
use crate::embedded::index::{Index, Tree};

/// Changes of one bucket's tree. There are hundreds of thousands, so the form is compact.
#[derive(Default)]
struct Entries {
    /// Keys of versions, and whether each exists from now on.
    keys: Vec<(IndexKey, bool)>,
    /// The versions that ended, with the revisions of their ends.
    ended: Vec<(Revision, Revision)>,
}

impl Entries {
    fn add(&mut self, version: Placed, is_there: bool) {
        self.keys.extend(version.keys().map(|key| (key, is_there)));
    }
}

/// Flushes all frozen memtables, the oldest first. After each flush readers find its entries in the
/// trees.
pub(in crate::embedded) fn flush(index: &Index, buckets: &Buckets) -> lsm_tree::Result<()> {
    while let Some(memtable) = index.oldest_aside() {
        flush_one(index, buckets, &memtable)?;
        index.forget_oldest();
    }
    Ok(())
}

fn flush_one(index: &Index, buckets: &Buckets, memtable: &Memtable) -> lsm_tree::Result<()> {
    let outcome = memtable.outcome(Revision::MAX);
    let opened_at = index.opened_at.load(Ordering::Acquire);
    let mut entries = BTreeMap::<u64, Entries>::new();
    for (placed, ended) in outcome.versions() {
        let Pointer {
            revision, bucket, ..
        } = placed.pointer;
        let of_bucket = entries.entry(bucket).or_default();
        match ended {
            None => of_bucket.add(placed, true),
            Some(by) => {
                if revision <= opened_at {
                    of_bucket.add(placed, false);
                }
                of_bucket.ended.push((revision, by));
            }
        }
    }
    for (placed, by) in &outcome.ended_before {
        let of_bucket = entries.entry(placed.pointer.bucket).or_default();
        of_bucket.add(*placed, false);
        of_bucket.ended.push((placed.pointer.revision, *by));
    }
    let mut changes = counts::changes(&outcome, &memtable.reasons(), |bucket| {
        let bucket = buckets.get(&bucket);
        bucket.map(|bucket| counted(&bucket.index)).transpose()
    })?;
    let mut written = memtable.written.lock();
    for (name, entries) in entries {
        // A bucket dropped since is skipped. A bucket that has its entries does not get them again
        // in a retry.
        if let Some(bucket) = buckets.get(&name)
            && !written.contains(&name)
        {
            let changes = changes.remove(&name).unwrap_or_default();
            write_entries(&bucket.index, entries, &changes, outcome.last())?;
            written.insert(name);
        }
    }
    let changed = outcome.names();
    if changed.is_empty() {
        return Ok(());
    }
    let before = index.names.disk_space();
    let mut names = index.names.ingestion()?;
    for (name, pointer) in changed {
        match pointer {
            Some(pointer) => names.write(name, pointer.encode())?,
            None => names.write_tombstone(name)?,
        }
    }
    names.finish()?;
    index.names.count_flushed(before);
    Ok(())
}

/// The revision up to which a tree has counted its versions.
fn counted(tree: &AnyTree) -> lsm_tree::Result<Revision> {
    let counted = tree.get(&keys::counted_key()[..], SeqNo::MAX)?;
    let revision = counted.map_or(Ok(0), |bytes| keys::trailing_revision(&bytes));
    revision.map_err(|_| lsm_tree::Error::Unrecoverable)
}

fn write_entries(
    tree: &Tree,
    entries: Entries,
    changes: &Changes,
    until: Revision,
) -> lsm_tree::Result<()> {
    let Entries {
        mut keys,
        mut ended,
    } = entries;
    keys.sort_unstable_by_key(|(key, _)| key.order());
    ended.sort_unstable();
    // A tree takes a key only once.
    keys.dedup_by_key(|(key, _)| *key);
    ended.dedup_by_key(|(version, _)| *version);
    let counts = changes.iter().map(|((hour, reason), change)| {
        let key = keys::count_key(hour.0, reason);
        let before = tree.get(&key, SeqNo::MAX)?;
        let before = before.map_or(Ok(0), |bytes| keys::decode_count(&bytes));
        let before = before.map_err(|_| lsm_tree::Error::Unrecoverable)?;
        Ok((key, before.saturating_add_signed(*change)))
    });
    let counts: Vec<_> = counts.collect::<lsm_tree::Result<_>>()?;
    let before = tree.disk_space();
    let mut table = tree.ingestion()?;
    for (key, count) in counts {
        match count {
            0 => table.write_tombstone(key)?,
            count => table.write(key, keys::encode_count(count))?,
        }
    }
    for (key, is_there) in keys {
        if is_there {
            table.write(&key[..], [])?;
        } else {
            table.write_tombstone(&key[..])?;
        }
    }
    table.write(&keys::counted_key()[..], keys::revision_key(until))?;
    // These keys sort after all others, so they are written last.
    for (version, by) in ended {
        table.write(&keys::ended_key(version)[..], keys::revision_key(by))?;
    }
    table.finish()?;
    tree.count_flushed(before);
    Ok(())
}
