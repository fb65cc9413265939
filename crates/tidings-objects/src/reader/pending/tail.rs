//! The pending versions after a manifest, as files in memory.
//!
//! Each file has the versions of some entries of the feed of the store that writes the archive.
//!
//! Invariant: the parts follow each other from the entry on up to which the manifest says that
//! versions are sealed. So a manifest with its tail has each version once. Memory: the files, whose
//! events have a bounded number of bytes.

use std::sync::Arc;

use bytes::Bytes;
use tidings_archive::Position;
use tidings_history::Gap;
use tidings_store::Revision;
use xxhash_rust::xxh3::xxh3_128;

use crate::described::Described;
use crate::file::bounds::{EVENT_BYTES_MAX, GROUP_BYTES_MAX, WAITING_BYTES_MAX};
use crate::file::read::{FileError, Reader};
use crate::file::write::Writer;
use crate::folder::Folder;
use crate::foreign::NUMBER_MAX;
use crate::manifest::{File, Manifest};
use crate::merge::{self, Merged};
use crate::reader::scan::Remote;
use crate::row::Row;
use crate::seal::encode_rows;
use crate::waiting::{Head, KEY};

/// Number of parts above which they are merged, so that a read has few files to inspect.
const PARTS_MAX: usize = 8;
/// Bits of a revision that hold the number of entries shown after the manifest. The bits above them
/// hold the manifest's number.
const ENTRY_BITS: u32 = 24;
/// Bits of a whole revision.
const NUMBER_BITS: u32 = 62;
const _: () = assert!(NUMBER_MAX < 1 << (NUMBER_BITS - ENTRY_BITS));
/// Maximum entries that are shown after a manifest.
pub(in crate::reader) const ENTRIES_MAX: u64 = (1 << ENTRY_BITS) - 1;

/// Maximum bytes of the events of an answer, which ends with the event that reaches four mebibytes.
const EVENTS_MAX: u64 = (GROUP_BYTES_MAX + EVENT_BYTES_MAX) as u64;

/// Returns a reader's revision: the manifest's number, then how many pending entries behind the
/// manifest the reader has.
pub(in crate::reader) fn revision(number: u64, entries: u64) -> Revision {
    number << ENTRY_BITS | entries.min(ENTRIES_MAX)
}

/// Splits a revision into the manifest's number and the number of entries after it.
pub(in crate::reader) fn parts_of(revision: Revision) -> (u64, u64) {
    (revision >> ENTRY_BITS, revision & ENTRIES_MAX)
}

/// Returns whether a number can be a reader's revision; those of an archive are greater.
pub(in crate::reader) fn may_be(revision: Revision) -> bool {
    revision >> NUMBER_BITS == 0
}

/// The versions of the entries `from..through`.
pub(in crate::reader) struct Part {
    pub(in crate::reader) file: File,
    pub(in crate::reader) remote: Remote,
    from: u64,
    through: u64,
    /// Total bytes of the events.
    pub(in crate::reader) events: u64,
}

/// The positions of a cluster by namespace, and its gaps.
pub(in crate::reader) type Followed = (Vec<(String, Position)>, Vec<Gap>);

/// Pending versions after one manifest; see the module documentation.
#[derive(Clone)]
pub(in crate::reader) struct Tail {
    /// The entry up to which versions are sealed.
    from: u64,
    parts: Vec<Arc<Part>>,
    /// The entry after the last known one.
    reached: u64,
    followed: Option<Arc<Followed>>,
}

/// An answer with pending versions.
pub(in crate::reader) struct Heard {
    pub(in crate::reader) head: Head,
    pub(in crate::reader) part: Option<Arc<Part>>,
}

impl Heard {
    /// Reads an answer from the bytes of a file.
    ///
    /// # Errors
    ///
    /// The bytes are not such an answer, or are damaged.
    pub(in crate::reader) fn read(
        folder: &Folder,
        cluster: &Arc<str>,
        bytes: Bytes,
    ) -> Result<Self, FileError> {
        if bytes.len() > WAITING_BYTES_MAX {
            return Err(FileError::Long);
        }
        let file = Reader::new(cluster, bytes.clone())?;
        let head = file
            .said(KEY)
            .and_then(|head| serde_json::from_str(head).ok());
        let head: Head = head.ok_or(FileError::Waiting)?;
        let mut described = Described::default();
        let mut events = 0;
        let mut last: Option<Row> = None;
        for group in 0..file.groups() {
            for row in file.group(group)? {
                if last.is_some_and(|last| !last.may_precede(&row)) {
                    return Err(FileError::Order);
                }
                events += row.object.len() as u64;
                if events > EVENTS_MAX {
                    return Err(FileError::Long);
                }
                described.add(&row);
                last = Some(row);
            }
        }
        let (from, through) = (head.from, head.through);
        let part = last.map(|_| {
            let file = described.file(0, &bytes);
            Arc::new(Part::new(folder, file, bytes, (from, through, events)))
        });
        Ok(Self { head, part })
    }
}

impl Part {
    fn new(
        folder: &Folder,
        mut file: File,
        bytes: Bytes,
        (from, through, events): (u64, u64, u64),
    ) -> Self {
        // The name ends with a random number, so it stands for these bytes in the cache.
        let name = file.path.rsplit('/').next().unwrap_or_default();
        file.path = format!("waiting/{name}");
        let path = folder.path(&file.path);
        let remote = Remote {
            id: xxh3_128(path.as_ref().as_bytes()),
            len: file.bytes,
            checksum: file.checksum.clone(),
            path,
            held: Some(bytes),
        };
        Self {
            file,
            remote,
            from,
            through,
            events,
        }
    }
}

/// What remains of a tail after a newer manifest.
pub(in crate::reader) struct Moved {
    /// The beginning, which has to be extended up to `to`, if that is given.
    pub(in crate::reader) tail: Tail,
    pub(in crate::reader) to: Option<u64>,
    /// What follows that.
    rest: Option<Tail>,
}

impl Moved {
    /// Returns the whole tail, if its beginning is now `tail`.
    pub(in crate::reader) fn end(self, mut tail: Tail) -> Tail {
        if let Some(rest) = self.rest {
            tail.parts.extend(rest.parts);
            tail.reached = tail.reached.max(rest.reached);
            tail.followed = rest.followed.or(tail.followed);
        }
        tail
    }
}

impl Tail {
    /// Makes an empty tail after a manifest.
    pub(in crate::reader) fn behind(manifest: &Manifest) -> Self {
        Self {
            from: manifest.sealed_through,
            parts: Vec::new(),
            reached: manifest.sealed_through,
            followed: None,
        }
    }

    /// Appends an answer.
    pub(in crate::reader) fn with(mut self, heard: Heard) -> Self {
        self.reached = heard.head.through;
        self.parts.extend(heard.part);
        if !heard.head.positions.is_empty() {
            self.followed = Some(Arc::new((heard.head.positions, heard.head.gaps)));
        }
        self
    }

    /// Returns what remains when a newer manifest of the same store seals the entries before.
    pub(in crate::reader) fn moved(&self, manifest: &Manifest) -> Moved {
        let tail = Self::behind(manifest);
        if self.reached <= tail.from {
            let (to, rest) = (None, None);
            return Moved { tail, to, rest };
        }
        let mut rest = self.clone();
        let split = self.parts.iter();
        let mut split = split.filter(|part| part.from < tail.from && part.through > tail.from);
        let to = split.next().map(|part| part.through);
        rest.parts.retain(|part| part.from >= tail.from);
        Moved {
            tail,
            to,
            rest: Some(rest),
        }
    }

    /// Returns the parts, in order.
    pub(in crate::reader) fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    /// Returns the entry after the last known one.
    pub(in crate::reader) fn reached(&self) -> u64 {
        self.reached
    }

    /// Returns the number of entries that are shown.
    pub(in crate::reader) fn entries(&self) -> u64 {
        let last = self.parts.last().map_or(self.from, |part| part.through);
        last - self.from
    }

    /// Returns the total bytes of the events.
    pub(in crate::reader) fn events(&self) -> u64 {
        self.parts.iter().map(|part| part.events).sum()
    }

    /// Returns the bytes of its files.
    pub(in crate::reader) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.file.bytes).sum()
    }

    pub(in crate::reader) fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.file.rows).sum()
    }

    /// Returns whether it has all versions of another tail.
    pub(in crate::reader) fn has_same_versions(&self, other: &Self) -> bool {
        let sum = |tail: &Self| {
            let files: Vec<File> = tail.parts.iter().map(|part| part.file.clone()).collect();
            merge::sum(&files)
        };
        self.rows() == other.rows() && sum(self) == sum(other)
    }

    /// Returns how far the cluster was followed when this was asked for, if that is known.
    pub(in crate::reader) fn followed(&self) -> Option<&Followed> {
        self.followed.as_deref()
    }

    /// Returns whether it has so many parts that they should be merged.
    pub(in crate::reader) fn is_crowded(&self) -> bool {
        self.parts.len() > PARTS_MAX
    }

    /// Merges parts. A first part that is larger than all others stays as it is, so that a version
    /// is not merged often.
    pub(in crate::reader) fn merged(
        mut self,
        folder: &Folder,
        cluster: &Arc<str>,
    ) -> Result<Self, FileError> {
        let first = self.parts.first().map_or(0, |part| part.file.bytes);
        let is_large = first > self.bytes() - first;
        let many = self.parts.split_off(usize::from(is_large));
        let [Some(one), Some(last)] = [many.first(), many.last()] else {
            return Ok(self);
        };
        let events = many.iter().map(|part| part.events).sum();
        let entries = (one.from, last.through, events);
        let files = many.iter().map(|part| {
            let bytes = part.remote.held.clone().unwrap_or_default();
            Reader::new(cluster, bytes)?.rest()
        });
        let mut rows = Merged::new(files.collect::<Result<_, _>>()?)?;
        // One file, however large: rows do not tell entries apart. It has no rollup, as that would
        // have to be read as well; its rows are counted instead.
        let writer = Writer::new(false)?;
        let (file, bytes) = encode_rows(writer, 0, usize::MAX, &mut rows, |_| Ok(false))?;
        if file.rows != many.iter().map(|part| part.file.rows).sum::<u64>() {
            return Err(FileError::Order);
        }
        let part = Part::new(folder, file, bytes, entries);
        self.parts.push(Arc::new(part));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
    use object_store::memory::InMemory;
    use tidings_api::codec;
    use tidings_store::UnixMillis;

    use super::*;
    use crate::merge::FILE_BYTES_MAX;
    use crate::place::Place;

    /// A reader may hold more than one file of an archive may have; merging must not lose the rest.
    #[test]
    fn parts_become_one_however_much_they_have() {
        const PARTS: u64 = 9;
        let cluster: Arc<str> = "prod".into();
        let place = Place::of(Arc::new(InMemory::new()), "memory:");
        let folder = Folder::new(&place, &cluster);
        let mut random = fastrand::Rng::with_seed(1);
        let part = |number: u64| {
            let mut rows = (0..4).rev().map(|place| {
                // Random bytes cannot be compressed.
                let mut noise = vec![0; FILE_BYTES_MAX / 32];
                random.fill(&mut noise);
                let mut event = Event {
                    metadata: Some(ObjectMeta {
                        managed_fields: vec![ManagedFieldsEntry {
                            fields_v1: Some(FieldsV1 { raw: Some(noise) }),
                            ..ManagedFieldsEntry::default()
                        }],
                        ..ObjectMeta::default()
                    }),
                    ..Event::default()
                };
                Ok(Row::new(
                    &cluster,
                    0,
                    4 * number + place,
                    UnixMillis(1),
                    codec::encode_stored(&mut event),
                )?)
            });
            let mut events = 0;
            let writer = Writer::new(false).unwrap();
            let encoded = encode_rows(writer, 0, usize::MAX, &mut rows, |row| {
                events += row.object.len() as u64;
                Ok(false)
            });
            let (file, bytes) = encoded.unwrap();
            let entries = (number, number + 1, events);
            Arc::new(Part::new(&folder, file, bytes, entries))
        };
        let tail = Tail {
            from: 0,
            parts: (0..PARTS).map(part).collect(),
            reached: PARTS,
            followed: None,
        };
        assert!(tail.is_crowded() && tail.bytes() > FILE_BYTES_MAX as u64);
        let events = tail.events();
        let merged = tail.merged(&folder, &cluster).unwrap();
        assert_eq!((merged.parts().len(), merged.rows()), (1, 4 * PARTS));
        assert_eq!((merged.entries(), merged.events()), (PARTS, events));
    }
}
