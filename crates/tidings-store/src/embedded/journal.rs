//! Looks at the engine's journals before the engine does, and mends the one thing a crash can do to them.
//!
//! fjall appends batches (`Start`, items, `End` with a checksum) to the newest journal. A crash can leave the last batch,
//! which was not synced and not acknowledged, torn or with holes. fjall opens with most such tails but refuses some, and
//! it cuts at the first damage it finds wherever that is, whole batches behind it included. So:
//!
//! - damage with nothing whole behind it, in the newest journal, is a torn tail: it is cut off, kept and logged;
//! - damage with a whole batch behind it, or in an older journal, is no crash's doing: opening is refused.
//!
//! This reads fjall 3's journal format (`src/journal/entry.rs` there); the version is pinned for it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::folder::OpenError;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: &[u8] = b"FJL\x03";
const UNCOMPRESSED: u8 = 0;

/// Torn tails kept; older ones are removed.
const TORN_MAX: usize = 8;

/// See the module documentation.
pub(crate) fn repair(engine: &Path) -> Result<(), OpenError> {
    if !engine.is_dir() {
        return Ok(());
    }
    let journals = journals(engine).map_err(|error| OpenError::io("read folder", engine, error))?;
    let newest = journals.last().map(|(id, _)| *id);
    let mut seqno = None;
    for (id, path) in journals {
        let bytes = fs::read(&path).map_err(|error| OpenError::io("read", &path, error))?;
        let whole = whole_len(&bytes, &mut seqno);
        let tail = bytes.get(whole..).unwrap_or_default();
        if is_blank(tail) {
            continue;
        }
        if Some(id) != newest || has_whole_batch(tail) {
            return Err(OpenError::Damaged {
                file: path,
                offset: whole as u64,
            });
        }
        let len = tail
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let kept = keep(engine, id, whole, tail.get(..len).unwrap_or_default())
            .map_err(|error| OpenError::io("keep the torn tail of", &path, error))?;
        truncate(&path, whole)
            .map_err(|error| OpenError::io("cut the torn tail of", &path, error))?;
        tracing::error!(
            journal = %path.display(), offset = whole, torn_bytes = len, kept = %kept.display(),
            "the last batch in the journal is torn: the process or the machine died while writing it; \
             it was cut off and kept"
        );
    }
    Ok(())
}

/// The journals by age, oldest first.
fn journals(engine: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(engine)? {
        let path = entry?.path();
        let id = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        journals.extend(id.map(|id| (id, path)));
    }
    journals.sort();
    Ok(journals)
}

fn keep(engine: &Path, id: u64, offset: usize, tail: &[u8]) -> io::Result<PathBuf> {
    let folder = engine.with_file_name("torn");
    fs::create_dir_all(&folder)?;
    let mut kept: Vec<_> = fs::read_dir(&folder)?.collect::<io::Result<_>>()?;
    kept.sort_by_key(|entry| {
        entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    });
    for old in kept.iter().rev().skip(TORN_MAX - 1) {
        fs::remove_file(old.path())?;
    }
    let path = folder.join(format!("journal-{id}-from-{offset}"));
    fs::write(&path, tail)?;
    File::open(&path)?.sync_all()?;
    Ok(path)
}

fn truncate(path: &Path, len: usize) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(len as u64)?;
    file.sync_all()
}

/// Space the engine reserved and has not written to.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// How far whole batches in the order of their sequence numbers reach from the beginning.
///
/// The order matters because fjall's checksum does not cover the number: one that was torn to something smaller would
/// make the batch's writes older than those before it.
fn whole_len(bytes: &[u8], last: &mut Option<u64>) -> usize {
    let mut len = 0;
    while let Some(batch) = bytes.get(len..).and_then(read_batch)
        && last.is_none_or(|last| last < batch.seqno)
    {
        len += batch.len;
        *last = Some(batch.seqno);
    }
    len
}

/// Whether a whole batch follows the damaged one that the bytes begin with.
fn has_whole_batch(bytes: &[u8]) -> bool {
    let mut starts = bytes
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == START);
    starts.any(|(start, _)| bytes.get(start..).and_then(read_batch).is_some())
}

struct ReadBatch {
    len: usize,
    seqno: u64,
}

/// The batch at the beginning of the bytes, if it is whole.
fn read_batch(bytes: &[u8]) -> Option<ReadBatch> {
    let mut rest = bytes;
    let mut take = |len: usize| {
        let (taken, left) = rest.split_at_checked(len)?;
        rest = left;
        Some(taken)
    };
    let [START] = take(1)? else { return None };
    let items = u32::from_le_bytes(*take(4)?.first_chunk()?);
    let seqno = u64::from_le_bytes(*take(8)?.first_chunk()?);
    let items_at = 13;
    let mut len = items_at;
    for _ in 0..items {
        match take(1)? {
            [ITEM] => {
                let [_value_type, UNCOMPRESSED] = take(2)? else {
                    return None;
                };
                let _keyspace = take(8)?;
                let key_len = u16::from_le_bytes(*take(2)?.first_chunk()?);
                let value_len = u32::from_le_bytes(*take(4)?.first_chunk()?);
                let stored_len = u32::from_le_bytes(*take(4)?.first_chunk()?);
                if value_len != stored_len {
                    return None;
                }
                let body_len = usize::from(key_len) + stored_len as usize;
                take(body_len)?;
                len += 1 + 20 + body_len;
            }
            [CLEAR] => {
                take(8)?;
                len += 9;
            }
            _ => return None,
        }
    }
    let [END] = take(1)? else { return None };
    let checksum = u64::from_le_bytes(*take(8)?.first_chunk()?);
    let trailer = take(TRAILER.len())?;
    let mut hasher = Xxh3::new();
    hasher.update(bytes.get(items_at..len)?);
    let len = len + 9 + TRAILER.len();
    (trailer == TRAILER && hasher.digest() == checksum).then_some(ReadBatch { len, seqno })
}
