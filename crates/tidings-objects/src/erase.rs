//! Removes events that were deleted in the archive from files: finds the files that have any of
//! their versions, and filters the rows of a file.
//!
//! To search a file, its end is read first, then the filters of row groups that may have the
//! namespace, and then the uids of those whose filter may know one. Invariant: a file counts as one
//! without these events only if it was compared with its checksum since the process began; for that
//! it is read as a whole once. Memory: twenty thousand names of events, some MiB, and of one file
//! its end and a column of uids, or all of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use tidings_archive::Unerased;

use crate::background;
use crate::file::bounds::END_BYTES_MAX;
use crate::file::read::FileError;
use crate::file::uids::{Uids, may_have};
use crate::folder::{Folder, FolderError};
use crate::manifest::File;
use crate::row::Row;

/// Number of deleted events that are looked for together. A file that has versions of more of them
/// is rewritten several times, and each time the former file stays for its readers.
pub(crate) const EVENTS_AT_ONCE: usize = 20_000;
/// Maximum number of deleted events that are remembered because they may be in damaged files.
const PASSED_MAX: usize = 20_000;
/// Number of files looked into without a find, after which sealing gets its turn.
const LOOKED_AT_ONCE: usize = 500;
/// Bytes of files that are compared with their checksums, after which sealing gets its turn.
const COMPARED_AT_ONCE: u64 = 256 << 20;
/// Bytes of a file's end that are read at first.
const END: u64 = 64 << 10;
/// Maximum bytes of parts of a file that one request reads, with what lies between them.
const TOGETHER_MAX: u64 = 4 << 20;

/// Names of events that were deleted in the archive.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    /// The namespaces of each uid, as imported lines may name the uid of another event.
    uids: HashMap<String, BTreeSet<String>>,
    /// Events without a uid, as `namespace/name`.
    keys: HashSet<String>,
    namespaces: BTreeSet<String>,
}

impl Deleted {
    /// Collects events by their keys (`namespace/name`) and uids.
    fn new<'a>(events: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut deleted = Self::default();
        for (key, uid) in events {
            let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
            deleted.namespaces.insert(namespace.to_owned());
            if uid.is_empty() {
                deleted.keys.insert(key.to_owned());
            } else {
                let namespaces = deleted.uids.entry(uid.to_owned()).or_default();
                namespaces.insert(namespace.to_owned());
            }
        }
        deleted
    }

    /// Returns whether the row is a version of one of the deleted events.
    fn has(&self, row: &Row) -> bool {
        if row.uid.is_empty() {
            let key = || format!("{}/{}", row.namespace, row.event);
            return !self.keys.is_empty() && self.keys.contains(&key());
        }
        let namespaces = self.uids.get(&row.uid);
        namespaces.is_some_and(|namespaces| namespaces.contains(&row.namespace))
    }

    /// Returns whether a deleted event has this uid. For an empty uid it returns whether any
    /// deleted event has none.
    fn may_be(&self, uid: &[u8]) -> bool {
        match std::str::from_utf8(uid) {
            Ok("") => !self.keys.is_empty(),
            Ok(uid) => self.uids.contains_key(uid),
            Err(_) => false,
        }
    }

    /// Returns all uids, with an empty one if events without a uid are among them.
    fn uids(&self) -> impl Iterator<Item = &str> {
        let none = (!self.keys.is_empty()).then_some("");
        self.uids.keys().map(String::as_str).chain(none)
    }

    /// Returns whether a deleted event is in a namespace from `first` to `last`.
    fn are_between(&self, first: &str, last: Option<&str>) -> bool {
        let from = (Bound::Included(first), Bound::Unbounded);
        let next = self.namespaces.range::<str, _>(from).next();
        next.is_some_and(|next| last.is_none_or(|last| next.as_str() <= last))
    }

    fn may_be_in(&self, file: &File) -> bool {
        self.are_between(&file.first[0], Some(&file.last[0]))
    }
}

/// The state of a purge: the deleted events looked for, and how far the search is.
#[derive(Default)]
pub(crate) struct Erasing {
    events: Vec<Unerased>,
    deleted: Arc<Deleted>,
    /// Paths of files that have no version of these events.
    without: HashSet<String>,
    /// Number of files looked into since the search was last resumed.
    looked: usize,
    /// Paths of files that were compared with their checksums, for any search.
    compared: HashSet<String>,
    /// Number of bytes of the files compared since the search was last resumed.
    bytes: u64,
    /// The keys and uids of events that may be in damaged files. They are searched for again later.
    passed: HashSet<(String, String)>,
    /// The last event that was searched for, or passed over.
    after: Option<Unerased>,
}

impl Erasing {
    /// Returns whether a search is under way.
    pub(crate) fn is_begun(&self) -> bool {
        !self.events.is_empty()
    }

    /// Resumes the search, which may look into as many files as before.
    pub(crate) fn resume(&mut self) {
        (self.looked, self.bytes) = (0, 0);
    }

    /// Returns whether sealing and merging have waited long enough for this search.
    pub(crate) fn is_to_pause(&self) -> bool {
        self.looked >= LOOKED_AT_ONCE || self.bytes >= COMPARED_AT_ONCE
    }

    /// Begins a search for further events, which come after [`after`](Self::after). Those that may
    /// be in damaged files are left for later.
    pub(crate) fn begin(&mut self, mut events: Vec<Unerased>) {
        let last = events.last().cloned();
        events.retain(|it| !self.passed.contains(&(it.key.clone(), it.uid.clone())));
        if events.is_empty() {
            self.after = last;
        }
        let named = events.iter().map(|it| (it.key.as_str(), it.uid.as_str()));
        self.deleted = Arc::new(Deleted::new(named));
        self.events = events;
        self.without.clear();
    }

    /// Notes that there are no further events. The next search begins with the first event again,
    /// to find those that were deleted since.
    pub(crate) fn reached_end(&mut self) {
        if self.passed.len() < PASSED_MAX {
            self.after = None;
        }
    }

    pub(crate) fn after(&self) -> Option<&Unerased> {
        self.after.as_ref()
    }

    pub(crate) fn deleted(&self) -> Arc<Deleted> {
        Arc::clone(&self.deleted)
    }

    /// Returns the files that are still to be searched, without the damaged ones.
    pub(crate) fn left(&mut self, files: &[File], damaged: &HashSet<String>) -> Vec<File> {
        // Files that no longer exist are forgotten.
        if self.compared.len() > 2 * files.len() {
            let paths: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
            self.compared.retain(|path| paths.contains(path.as_str()));
        }
        let files = files.iter();
        let left = files.filter(|file| self.is_left(file) && !damaged.contains(&file.path));
        left.cloned().collect()
    }

    pub(crate) fn is_compared(&self, file: &File) -> bool {
        self.compared.contains(&file.path)
    }

    /// Notes that a file was compared with its checksum.
    pub(crate) fn compared(&mut self, file: &File) {
        self.compared.insert(file.path.clone());
        self.bytes += file.bytes;
    }

    fn is_left(&self, file: &File) -> bool {
        self.deleted.may_be_in(file) && !self.without.contains(&file.path)
    }

    /// Notes that files were just written without these events.
    pub(crate) fn wrote(&mut self, files: &[File]) {
        self.without
            .extend(files.iter().map(|file| file.path.clone()));
    }

    /// Notes that a file has no version of these events.
    pub(crate) fn note_none(&mut self, file: &File) {
        self.without.insert(file.path.clone());
        self.looked += 1;
    }

    /// Ends the search when no readable file has any of the events. Returns these events, or none
    /// if damaged files remain that may have them.
    pub(crate) fn end(&mut self, files: &[File]) -> Vec<Unerased> {
        let events = std::mem::take(&mut self.events);
        if files.iter().any(|file| self.is_left(file)) {
            self.after = events.last().cloned();
            let room = PASSED_MAX - self.passed.len().min(PASSED_MAX);
            let passed = events.into_iter().take(room);
            self.passed.extend(passed.map(|it| (it.key, it.uid)));
            return Vec::new();
        }
        events
    }

    /// Lets the next search begin with the first event again, after damaged files were replaced.
    pub(crate) fn again(&mut self) {
        self.after = None;
        self.passed.clear();
    }
}

/// The number of rows that were removed from a file, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) rows: u64,
    /// Sum of the hashes of these rows.
    pub(crate) sum: u64,
}

/// Yields rows without versions of deleted events. Also returns the sums of the removed rows, which
/// are complete once all rows are read.
pub(crate) fn without<R>(
    rows: R,
    deleted: Arc<Deleted>,
) -> (
    impl Iterator<Item = Result<Row, FileError>> + Send + 'static,
    Arc<Mutex<Taken>>,
)
where
    R: Iterator<Item = Result<Row, FileError>> + Send + 'static,
{
    let taken = Arc::new(Mutex::new(Taken::default()));
    let counted = Arc::clone(&taken);
    let rows = rows.filter(move |row| {
        let Ok(row) = row else {
            return true;
        };
        let is_taken = deleted.has(row);
        if is_taken {
            let mut taken = counted.lock();
            taken.rows += 1;
            taken.sum = taken.sum.wrapping_add(row.hash());
        }
        !is_taken
    });
    (rows, taken)
}

/// Why it is unknown whether a file has versions of some events.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// The object storage failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file is damaged.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file's bytes differ from those that were written.
    #[error("{0}")]
    Damaged(String),
    /// Reading the file panicked, or no thread could be started for it; the log says which.
    #[error("the file could not be read")]
    NotRead,
}

impl LookError {
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Self::Folder(error) if error.is_slow())
    }
}

/// A file of which parts are read.
struct Parts<'a> {
    folder: &'a Folder,
    file: &'a File,
    /// The whole file, if it was just compared with its checksum.
    whole: Option<Bytes>,
}

impl Parts<'_> {
    async fn range(&self, range: Range<u64>) -> Result<Bytes, FolderError> {
        match &self.whole {
            Some(whole) => Ok(part(whole, &range, 0).unwrap_or_default()),
            None => self.folder.range(&self.file.path, range).await,
        }
    }
}

/// Returns whether a file has versions of deleted events. `is_compared` means that it was compared
/// with its checksum before.
pub(crate) async fn has(
    folder: &Folder,
    file: &File,
    is_compared: bool,
    deleted: &Arc<Deleted>,
) -> Result<bool, LookError> {
    let whole = if is_compared {
        None
    } else {
        let whole = folder.whole(&file.path, file.bytes, &file.checksum);
        Some(whole.await?.map_err(LookError::Damaged)?)
    };
    let file = &Parts {
        folder,
        file,
        whole,
    };
    let uids = end(file).await?;
    for group in groups(file, &uids, deleted).await? {
        let column = uids.column(group).map_err(FileError::from)?;
        let column = file.range(column).await?;
        let (uids, deleted) = (Arc::clone(&uids), Arc::clone(deleted));
        let found = decoded(move || uids.any(group, column, |uid| deleted.may_be(uid)));
        if found.await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the end of a file, twice if it is longer than expected.
async fn end(file: &Parts<'_>) -> Result<Arc<Uids>, LookError> {
    let len = file.file.bytes;
    let mut wanted = END;
    loop {
        let from = len.saturating_sub(wanted);
        let end = file.range(from..len).await?;
        let parsed = background::run(move || Uids::of(&end, len)).await;
        match parsed.map_err(|_| LookError::NotRead)? {
            Ok(uids) => return Ok(Arc::new(uids)),
            Err(ParquetError::NeedMoreData(needed))
                if from > 0 && needed <= END_BYTES_MAX && needed as u64 > wanted =>
            {
                wanted = needed as u64;
            }
            Err(error) => return Err(FileError::from(error).into()),
        }
    }
}

/// Returns the row groups that may have versions of deleted events, by namespaces and bloom
/// filters.
async fn groups(
    file: &Parts<'_>,
    uids: &Uids,
    deleted: &Arc<Deleted>,
) -> Result<Vec<usize>, LookError> {
    let groups = uids.groups(|first, last| deleted.are_between(first, last));
    let ranges = groups.iter().map(|group| uids.filter(*group));
    let filters = parts(file, ranges.collect()).await?;
    let groups: Vec<(usize, Option<Bytes>)> = groups.into_iter().zip(filters).collect();
    let deleted = Arc::clone(deleted);
    let may = decoded(move || {
        let mut may = Vec::new();
        for (group, filter) in groups {
            let has = filter.map_or(Ok(true), |filter| may_have(&filter, deleted.uids()))?;
            if has {
                may.push(group);
            }
        }
        Ok(may)
    });
    may.await
}

/// Reads parts of a file, in their order. Parts that are close together are read by one request;
/// bloom filters are, as all of them come after the row groups.
async fn parts(
    file: &Parts<'_>,
    ranges: Vec<Option<Range<u64>>>,
) -> Result<Vec<Option<Bytes>>, FolderError> {
    let known = || ranges.iter().flatten();
    let first = known().map(|range| range.start).min();
    let last = known().map(|range| range.end).max();
    let all = first.zip(last).map(|(first, last)| first..last);
    if let Some(all) = all.filter(|all| all.end - all.start <= TOGETHER_MAX) {
        let read = file.range(all.clone()).await?;
        let parts = ranges.iter();
        return Ok(parts
            .map(|range| part(&read, range.as_ref()?, all.start))
            .collect());
    }
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        parts.push(match range {
            Some(range) => Some(file.range(range).await?),
            None => None,
        });
    }
    Ok(parts)
}

/// Returns a range of a file from a piece that begins at `begin`.
fn part(bytes: &Bytes, range: &Range<u64>, begin: u64) -> Option<Bytes> {
    let at = |place: u64| usize::try_from(place.checked_sub(begin)?).ok();
    let part = at(range.start)?..at(range.end)?;
    (part.start <= part.end && part.end <= bytes.len()).then(|| bytes.slice(part))
}

/// Runs a read of a file's bytes, whose damage may make the Parquet crate panic.
async fn decoded<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ParquetError> + Send + 'static,
) -> Result<T, LookError> {
    let read = background::run(read).await;
    let read = read.map_err(|_| LookError::NotRead)?;
    Ok(read.map_err(FileError::from)?)
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use tidings_api::codec;
    use tidings_store::UnixMillis;

    use super::*;

    fn row(namespace: &str, name: &str, uid: &str) -> Row {
        let mut event = Event {
            metadata: Some(ObjectMeta {
                namespace: Some(namespace.into()),
                name: Some(name.into()),
                uid: Some(uid.into()),
                ..ObjectMeta::default()
            }),
            ..Event::default()
        };
        Row::new(
            &"prod".into(),
            0,
            1,
            UnixMillis(1),
            codec::encode_stored(&mut event),
        )
        .unwrap()
    }

    /// The name of a deleted event may have been used again by another event.
    #[test]
    fn an_event_is_known_by_its_uid_or_by_its_name_if_it_note_none() {
        let events = [("a/elder.uid-1", "uid-1"), ("c/none", "")];
        let deleted = Deleted::new(events.into_iter());
        for (namespace, name, uid, expected) in [
            ("a", "elder", "uid-1", true),
            // An imported line may name the uid of an event in another namespace.
            ("b", "elder", "uid-1", false),
            ("a", "elder", "uid-2", false),
            ("a", "elder", "", false),
            ("c", "none", "", true),
            ("c", "none", "uid-2", false),
            ("c", "other", "", false),
            ("b", "none", "", false),
        ] {
            let row = row(namespace, name, uid);
            assert_eq!(deleted.has(&row), expected, "{row:?}");
            let may_be = deleted.may_be(uid.as_bytes());
            let is_known = deleted.uids().any(|known| known == uid);
            assert_eq!(may_be, is_known);
            assert!(may_be || !expected, "{row:?}");
        }
        for (first, last, expected) in [
            ("", None, true),
            ("", Some("0"), false),
            ("", Some("a"), true),
            ("a", Some("a"), true),
            ("aa", Some("b"), false),
            ("b", Some("d"), true),
            ("c", None, true),
            ("d", None, false),
            // No file ends before it begins.
            ("z", Some("a"), false),
        ] {
            let found = deleted.are_between(first, last);
            assert_eq!(found, expected, "{first} to {last:?}");
        }
    }

    /// Otherwise pending versions would wait until the files of years were searched.
    #[test]
    fn files_are_looked_into_some_at_a_time() {
        let file = File::at("events/1.parquet");
        let mut erasing = Erasing::default();
        for time in 0..2 {
            erasing.resume();
            for looked in 0..LOOKED_AT_ONCE {
                assert!(!erasing.is_to_pause(), "{looked} at time {time}");
                erasing.note_none(&file);
            }
            assert!(erasing.is_to_pause());
        }
    }

    #[test]
    fn what_is_taken_out_is_counted() {
        let deleted = Deleted::new([("a/one", "uid-1")].into_iter());
        let all = ["uid-0", "uid-1", "uid-2"].map(|uid| row("a", "one", uid));
        let hash = all[1].hash();
        let rows = all.into_iter().map(Ok);
        let (rows, taken) = without(rows, Arc::new(deleted));
        let left: Vec<_> = rows.map(|row| row.unwrap().uid).collect();
        assert_eq!(left, ["uid-0", "uid-2"]);
        let taken = *taken.lock();
        assert_eq!((taken.rows, taken.sum), (1, hash));
    }
}
