//! The files of a spill: events in order, in files of an eighth of the bound or 8 MiB, each with a
//! second file of marks beside it. Blocking I/O. Events are encoded and written about a megabyte at
//! a time.
//!
//! ```text
//!   0000000000000001.events  0000000000000001.done    oldest
//!   0000000000000002.events  0000000000000002.done
//!   0000000000000003.events                           the one that is appended to
//!   lock                                              held as long as this exists
//! ```
//!
//! Invariants: sequence numbers are unique and increase along the files. A file is removed when it
//! is no longer appended to and all its events are done. Its marks are removed last, so that a done
//! event is never found without its mark. Marks without a file are removed at the next start, and
//! no file gets a number that has marks. With `sync` this also holds if the machine dies: the
//! folder is synced before an append to a new file counts, and before marks are removed.
//!
//! Damage costs only the events it is in: reading continues at the next intact record. A missing
//! file costs its events. A file that cannot be read is tried again for a minute, and then left for
//! the next process.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tidings_core::Event;

use super::kept::{Kept, in_memory};
use super::options::{SpillError, SpillOptions};
use super::record::{self, Found};
use crate::sampling::is_sampled;

/// Maximum size of a file before the next begins. A process reads that much at once when it opens a
/// file.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Bytes written at a time, plus at most one event.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes read from a file at a time.
const READ_BYTES: usize = 256 << 10;

/// Failed reads of a file before it is left for the next process.
pub(super) const READ_TRIES_MAX: u32 = 12;

/// The highest number of a file; a file with a higher one was not made by a spill.
const NUMBER_MAX: u64 = u64::MAX >> 1;

/// More sequence numbers than a file can have.
const PLACES_OF_A_FILE: u64 = 1 << 32;

struct Segment {
    number: u64,
    bytes: u64,
    /// The number of the file's events that are not done.
    unsettled: usize,
}

/// Where reading continues.
#[derive(Clone, Copy)]
struct Cursor {
    number: u64,
    offset: u64,
    /// Events with lower sequence numbers were read, or need not be.
    sequence: u64,
}

/// The result of a read.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) kept: Vec<Kept>,
    /// The sequence numbers of damaged events.
    pub(super) lost: Vec<u64>,
    /// Whether a read failed, and is to be repeated later.
    pub(super) failed: bool,
}

pub(super) struct Log {
    folder: PathBuf,
    bytes_max: u64,
    sync: bool,
    /// The files in order; appends go to the last one.
    segments: VecDeque<Segment>,
    active: File,
    /// Whether a write to the active file failed, so that it may end with part of a record.
    torn: bool,
    /// Whether a file was created since the folder was last synced.
    folder_changed: bool,
    cursor: Cursor,
    /// Failed reads at the cursor.
    read_tries: u32,
    /// The sequence numbers of events found damaged at opening. They are not done yet.
    damaged: Vec<u64>,
    /// The file of each event that is not done, by sequence number.
    unsettled: HashMap<u64, u64>,
    /// Events with lower sequence numbers were appended by an earlier process.
    recovered_below: u64,
    next_sequence: u64,
    refused: u64,
    failures: u64,
    #[cfg(test)]
    pub(super) folder_syncs: u64,
    _lock: File,
}

impl Log {
    pub(super) fn open(options: &SpillOptions) -> Result<Self, SpillError> {
        options.validate()?;
        let folder = options.folder.clone();
        let failed = |error: io::Error| SpillError::Io {
            folder: folder.clone(),
            message: error.to_string(),
        };
        make_folder(&folder, options.sync).map_err(failed)?;
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpillError::InUse { folder }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let numbers = numbers(&folder, "events").map_err(failed)?;
        let marked = self::numbers(&folder, "done").map_err(failed)?;
        let (mut segments, mut unsettled, mut damaged) =
            (VecDeque::new(), HashMap::new(), Vec::new());
        let mut next_sequence = 0;
        for number in &numbers {
            match recover(&folder, *number) {
                Ok(found) => {
                    let places = found.unsettled.iter();
                    unsettled.extend(places.map(|place| (*place, *number)));
                    damaged.extend(found.damaged);
                    next_sequence =
                        next_sequence.max(found.last.map_or(0, |last| last.saturating_add(1)));
                    segments.push_back(Segment {
                        number: *number,
                        bytes: found.bytes,
                        unsettled: found.unsettled.len(),
                    });
                }
                Err(error) => {
                    tracing::error!(
                        file = number, %error, folder = %folder.display(),
                        "Unable to read events of an earlier process: they are kept for the next one"
                    );
                    // The file's sequence numbers are unknown, and must not be used again.
                    next_sequence += PLACES_OF_A_FILE;
                }
            }
        }
        for number in marked.iter().filter(|number| !numbers.contains(number)) {
            if let Err(error) = fs::remove_file(done_path(&folder, *number)) {
                tracing::warn!(file = number, %error, "Unable to remove the marks of a file that is gone");
            }
        }
        // A file of an earlier process is never appended to, as its end may be torn.
        let last = numbers.iter().chain(&marked).max();
        let number = last.map_or(1, |last| last + 1);
        let active = create(&folder, number).map_err(failed)?;
        segments.push_back(Segment {
            number,
            bytes: 0,
            unsettled: 0,
        });
        let mut log = Self {
            cursor: Cursor {
                number: numbers.first().copied().unwrap_or(number),
                offset: 0,
                sequence: 0,
            },
            folder,
            bytes_max: options.bytes_max,
            sync: options.sync,
            segments,
            active,
            torn: false,
            folder_changed: true,
            read_tries: 0,
            damaged,
            unsettled,
            recovered_below: next_sequence,
            next_sequence,
            refused: 0,
            failures: 0,
            #[cfg(test)]
            folder_syncs: 0,
            _lock: lock,
        };
        log.remove_done();
        Ok(log)
    }

    /// The number of events that are not done.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Makes the next append begin a new file, because the last write may be incomplete.
    pub(super) fn start_over(&mut self) {
        self.torn = true;
    }

    /// Takes the sequence numbers of events found damaged at opening.
    pub(super) fn take_damaged(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.damaged)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Whether half of the room is used.
    pub(super) fn is_filling(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// Appends `events` up to the first for which there is no room or whose write fails; later ones
    /// would overtake it.
    pub(super) fn append(&mut self, events: Vec<Event>) -> Vec<Kept> {
        let mut kept = in_memory(events);
        let (mut rest, mut on_disk) = (kept.as_mut_slice(), 0);
        let mut bytes = Vec::new();
        while !rest.is_empty() {
            let room = self.bytes_max.saturating_sub(self.bytes());
            bytes.clear();
            let (first, mut number) = (self.next_sequence, 0);
            for (kept, sequence) in rest.iter().zip(first..) {
                let room = usize::try_from(room).unwrap_or(usize::MAX) - bytes.len();
                if bytes.len() >= CHUNK_BYTES
                    || !record::write(&mut bytes, sequence, &kept.event, room)
                {
                    break;
                }
                number += 1;
            }
            let Some((chunk, later)) = rest.split_at_mut_checked(number).filter(|_| number > 0)
            else {
                break;
            };
            // These sequence numbers are never used again, even if the write fails, because some
            // records may be on disk.
            self.next_sequence += number as u64;
            let file = match self.write(&bytes) {
                Ok(file) => file,
                Err(error) => {
                    self.failed(
                        &error,
                        "Unable to write events to disk: they are in memory only",
                    );
                    return kept;
                }
            };
            for (kept, sequence) in chunk.iter_mut().zip(first..) {
                kept.sequence = Some(sequence);
                self.unsettled.insert(sequence, file);
            }
            if let Some(segment) = self.segments.back_mut() {
                segment.unsettled += number;
            }
            on_disk += number;
            rest = later;
        }
        let refused = (kept.len() - on_disk) as u64;
        if refused > 0 {
            if is_sampled(self.refused, refused) {
                tracing::error!(
                    refused = self.refused + refused, bytes = self.bytes(), folder = %self.folder.display(),
                    "No room on disk for events: they are in memory only"
                );
            }
            self.refused += refused;
        }
        kept
    }

    /// Writes `bytes` to the active file, or to a new one if that is full or a write to it failed.
    /// Returns the number of the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let full = (self.bytes_max / 8).min(FILE_BYTES_MAX);
        // Records after a torn one would not be found.
        if self.torn || self.segments.back().is_none_or(|last| last.bytes >= full) {
            self.rotate()?;
        }
        let written = self.active.write_all(bytes);
        let synced = written.and_then(|()| {
            if !self.sync {
                return Ok(());
            }
            self.active.sync_data()?;
            if self.folder_changed {
                self.sync_folder()?;
            }
            Ok(())
        });
        let last = self.segments.back_mut().ok_or(io::ErrorKind::NotFound)?;
        if let Err(error) = synced {
            self.torn = true;
            // Otherwise the next process would find the written part, and write events that this
            // process writes from memory.
            let path = events_path(&self.folder, last.number);
            let file = OpenOptions::new().write(true).open(path);
            if let Err(error) = file.and_then(|file| file.set_len(last.bytes)) {
                tracing::warn!(%error, "Unable to undo part of an append: the next process may write its events again");
            }
            return Err(error);
        }
        last.bytes += bytes.len() as u64;
        Ok(last.number)
    }

    /// Syncs the folder if files were created, so that their names are durable.
    fn sync_folder(&mut self) -> io::Result<()> {
        sync_folder(&self.folder)?;
        self.folder_changed = false;
        #[cfg(test)]
        {
            self.folder_syncs += 1;
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let number = self.segments.back().map_or(1, |last| last.number + 1);
        self.active = create(&self.folder, number)?;
        self.torn = false;
        self.folder_changed = true;
        self.segments.push_back(Segment {
            number,
            bytes: 0,
            unsettled: 0,
        });
        self.remove_done();
        Ok(())
    }

    /// Moves the read position past everything appended so far, because it is in memory.
    pub(super) fn skip_read(&mut self) {
        if let Some(last) = self.segments.back() {
            self.cursor = Cursor {
                number: last.number,
                offset: last.bytes,
                sequence: self.next_sequence,
            };
        }
    }

    /// Reads the next events that are not done: up to `events_max` events and about `bytes_max`
    /// bytes, but at least one.
    pub(super) fn read_next(&mut self, events_max: usize, bytes_max: usize) -> Taken {
        let mut read = Taken::default();
        while read.kept.is_empty() {
            let Cursor { number, offset, .. } = self.cursor;
            // The file may have been removed since, with all files before it.
            let Some(segment) = self
                .segments
                .iter()
                .find(|segment| segment.number >= number)
            else {
                break;
            };
            let (current, end) = (segment.number, segment.bytes);
            let offset = if current == number { offset } else { 0 };
            (self.cursor.number, self.cursor.offset) = (current, offset);
            if offset < end {
                let wanted = (events_max.max(1), bytes_max.min(READ_BYTES));
                match self.read_on(current, offset, end, wanted, &mut read) {
                    Ok(next) => {
                        self.read_tries = 0;
                        self.cursor.offset = next;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.lose(
                            current,
                            u64::MAX,
                            "A file of events is gone",
                            &mut read.lost,
                        );
                        self.cursor.offset = end;
                        // Anything appended to this file would be lost, too.
                        self.torn |= self.is_last(current);
                    }
                    Err(error) => {
                        self.read_tries += 1;
                        if self.read_tries < READ_TRIES_MAX {
                            self.failed(&error, "Unable to read events from disk (will try again)");
                            read.failed = true;
                            break;
                        }
                        tracing::error!(
                            file = current, %error, folder = %self.folder.display(),
                            "Unable to read events from disk: they are kept for the next process"
                        );
                        self.read_tries = 0;
                        self.cursor.offset = end;
                    }
                }
                continue;
            }
            if self.is_last(current) {
                break;
            }
            (self.cursor.number, self.cursor.offset) = (current + 1, 0);
        }
        read
    }

    fn is_last(&self, number: u64) -> bool {
        self.segments
            .back()
            .is_some_and(|last| last.number == number)
    }

    /// Reads events of one file from `offset`; if they are damaged, searches the next intact
    /// record. Returns the offset at which to continue.
    fn read_on(
        &mut self,
        number: u64,
        offset: u64,
        end: u64,
        wanted: (usize, usize),
        into: &mut Taken,
    ) -> io::Result<u64> {
        let bytes = self.read_from(number, offset, end, wanted, into)?;
        if bytes > 0 {
            return Ok(offset + bytes);
        }
        let mut rest = Vec::new();
        let mut file = File::open(events_path(&self.folder, number))?;
        file.seek(SeekFrom::Start(offset))?;
        file.take(end - offset).read_to_end(&mut rest)?;
        let next = record::find(&rest, 1);
        let below = next.map_or(u64::MAX, |(_, place)| place);
        self.lose(number, below, "Spilled events are damaged", &mut into.lost);
        Ok(next.map_or(end, |(at, _)| offset + at as u64))
    }

    /// Gives up the events of a file that were not read yet and have sequence numbers below
    /// `below`.
    fn lose(&mut self, number: u64, below: u64, why: &str, lost: &mut Vec<u64>) {
        let before = lost.len();
        let places = self.cursor.sequence..below;
        let unsettled = self.unsettled.iter();
        let rest = unsettled.filter(|(place, file)| **file == number && places.contains(*place));
        lost.extend(rest.map(|(place, _)| *place));
        tracing::error!(
            file = number,
            offset = self.cursor.offset,
            events = lost.len() - before,
            "{why}: they are lost"
        );
    }

    /// Reads events of one file from `offset`. Returns the number of bytes read.
    fn read_from(
        &mut self,
        number: u64,
        offset: u64,
        end: u64,
        (events_max, bytes_max): (usize, usize),
        into: &mut Taken,
    ) -> io::Result<u64> {
        let mut file = File::open(events_path(&self.folder, number))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut file = file.take(end - offset);
        let (mut bytes, mut read, mut wanted) = (Vec::new(), 0, bytes_max);
        while into.kept.len() < events_max {
            let rest = bytes.get(read..).unwrap_or_default();
            match record::read(rest, |sequence| self.unsettled.contains_key(&sequence)) {
                Found::Record {
                    sequence,
                    event,
                    bytes,
                } => {
                    read += bytes;
                    self.cursor.sequence = sequence + 1;
                    match event {
                        Some(event) => into.kept.push(Kept {
                            event: *event,
                            sequence: Some(sequence),
                            recovered: sequence < self.recovered_below,
                        }),
                        // The record is intact, but contains no event.
                        None if self.unsettled.contains_key(&sequence) => into.lost.push(sequence),
                        None => {}
                    }
                }
                Found::More(needed) => {
                    if read > 0 {
                        break;
                    }
                    wanted = wanted.max(needed);
                    let missing = wanted.saturating_sub(bytes.len()) as u64;
                    if missing == 0 || file.by_ref().take(missing).read_to_end(&mut bytes)? == 0 {
                        break;
                    }
                }
                Found::Torn => break,
            }
        }
        Ok(read as u64)
    }

    /// Marks events as done.
    pub(super) fn mark_done(&mut self, sequences: &[u64]) {
        let mut marks: HashMap<u64, Vec<u8>> = HashMap::new();
        for sequence in sequences {
            if let Some(number) = self.unsettled.remove(sequence) {
                marks
                    .entry(number)
                    .or_default()
                    .extend(record::mark(*sequence));
                let mut segments = self.segments.iter_mut();
                if let Some(segment) = segments.find(|segment| segment.number == number) {
                    segment.unsettled = segment.unsettled.saturating_sub(1);
                }
            }
        }
        self.remove_done();
        for (number, marks) in marks {
            if !self.segments.iter().any(|segment| segment.number == number) {
                continue;
            }
            let mut options = OpenOptions::new();
            let file = options
                .create(true)
                .append(true)
                .open(done_path(&self.folder, number));
            if let Err(error) = file.and_then(|file| append_marks(file, &marks)) {
                self.failed(
                    &error,
                    "Unable to mark events as done: a next process delivers them again",
                );
            }
        }
    }

    /// Removes the files whose events are all done, except the last. A file that cannot be removed
    /// stays, with its marks, and is tried again with the next.
    fn remove_done(&mut self) {
        let last = self.segments.back().map(|last| last.number);
        let (mut gone, mut kept) = (Vec::new(), VecDeque::new());
        for segment in std::mem::take(&mut self.segments) {
            let is_done = segment.unsettled == 0 && Some(segment.number) != last;
            if is_done && self.remove(&events_path(&self.folder, segment.number)) {
                gone.push(segment);
            } else {
                kept.push_back(segment);
            }
        }
        self.segments = kept;
        if self.sync
            && !gone.is_empty()
            && let Err(error) = self.sync_folder()
        {
            self.failed(&error, "Unable to sync the folder of events");
        }
        for segment in &gone {
            self.remove(&done_path(&self.folder, segment.number));
        }
    }

    /// Removes a file; returns whether it no longer exists.
    fn remove(&mut self, path: &Path) -> bool {
        match fs::remove_file(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                self.failed(&error, "Unable to remove a file of events that are done");
                false
            }
        }
    }

    /// Makes the next append fail, for tests.
    #[cfg(test)]
    pub(super) fn fail_appends(&mut self) {
        let last = self.segments.back().unwrap().number;
        self.active = File::open(events_path(&self.folder, last)).unwrap();
    }

    fn failed(&mut self, error: &io::Error, what: &str) {
        if is_sampled(self.failures, 1) {
            tracing::error!(%error, folder = %self.folder.display(), "{what}");
        }
        self.failures += 1;
    }
}

fn events_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.events"))
}

fn done_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.done"))
}

fn create(folder: &Path, number: u64) -> io::Result<File> {
    if number > NUMBER_MAX {
        return Err(io::Error::other("the numbers of files are used up"));
    }
    File::create_new(events_path(folder, number))
}

/// Creates the folder and its parents. With `sync`, the parent of each new one is synced.
fn make_folder(folder: &Path, sync: bool) -> io::Result<()> {
    let missing = folder.ancestors().take_while(|folder| !folder.exists());
    let missing: Vec<&Path> = missing.collect();
    fs::create_dir_all(folder)?;
    if sync {
        for made in missing {
            match made.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent)?,
                _ => sync_folder(Path::new("."))?,
            }
        }
    }
    Ok(())
}

/// Syncs a folder, so that the names of its files are durable.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does nothing: on other systems folders cannot be synced, or need not be.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Appends marks after the last complete mark; after a torn one they would not be found.
fn append_marks(mut file: File, marks: &[u8]) -> io::Result<()> {
    let bytes = file.metadata()?.len();
    let torn = bytes % record::MARK_BYTES as u64;
    if torn > 0 {
        file.set_len(bytes - torn)?;
    }
    file.write_all(marks)
}

/// The numbers of the files with this extension, in order.
fn numbers(folder: &Path, extension: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = PathBuf::from(entry?.file_name());
        if path.extension().is_some_and(|other| other == extension) {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let number = stem.and_then(|stem| u64::from_str_radix(stem, 16).ok());
            numbers.extend(number.filter(|number| *number <= NUMBER_MAX));
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The contents of a file of an earlier process.
struct Recovered {
    /// Bytes before a torn end.
    bytes: u64,
    /// The last sequence number in it.
    last: Option<u64>,
    /// The sequence numbers of events that are not done.
    unsettled: Vec<u64>,
    /// The damaged ones among these events.
    damaged: Vec<u64>,
}

fn recover(folder: &Path, number: u64) -> io::Result<Recovered> {
    let bytes = fs::read(events_path(folder, number))?;
    let done: HashSet<u64> = match fs::read(done_path(folder, number)) {
        Ok(bytes) => record::marks(&bytes).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
        Err(error) => return Err(error),
    };
    let (mut read, mut last) = (0, None);
    let (mut unsettled, mut damaged) = (Vec::new(), Vec::new());
    loop {
        if let Found::Record {
            sequence, bytes, ..
        } = record::read(bytes.get(read..).unwrap_or_default(), |_| false)
        {
            read += bytes;
            last = Some(sequence);
            unsettled.extend((!done.contains(&sequence)).then_some(sequence));
            continue;
        }
        let Some((next, place)) = record::find(&bytes, read + 1) else {
            break;
        };
        // The number of events before the first intact record is unknown, but not greater than the
        // number of bytes before it.
        let first = last.map_or(place.saturating_sub(1), |last| last.saturating_add(1));
        let first = first.max(place.saturating_sub((next - read) as u64));
        let lost = (first..place).filter(|place| !done.contains(place));
        damaged.extend(lost);
        read = next;
    }
    unsettled.extend(&damaged);
    if !damaged.is_empty() {
        tracing::error!(
            file = number,
            events = damaged.len(),
            "Spilled events are damaged: they are lost"
        );
    }
    if read < bytes.len() {
        tracing::warn!(
            file = number,
            bytes = bytes.len() - read,
            "The end of a spill file is incomplete: a process died while writing it, or it was damaged"
        );
    }
    Ok(Recovered {
        bytes: read as u64,
        last,
        unsettled,
        damaged,
    })
}
