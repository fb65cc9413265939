//! The files of a spill: events in order, in files of an eighth of the bound, each with a second file of marks beside it. Plain blocking I/O.
//!
//! ```text
//!   0000000000000001.events  0000000000000001.done    oldest
//!   0000000000000002.events  0000000000000002.done
//!   0000000000000003.events                           the one that is appended to
//!   lock                                              held as long as this exists
//! ```
//!
//! Invariants: a place (`sequence`) is never given twice, and grows along the files; a file is removed when it is not appended to any more and
//! everything in it is done, its marks first, so that no mark outlives what it marks.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tidings_core::Event;

use super::record::{self, Found};
use super::{Kept, SpillError, SpillOptions};
use crate::recorder::is_sampled;

/// How much is read of a file at a time.
const READ_BYTES: usize = 256 << 10;

struct Segment {
    number: u64,
    bytes: u64,
    /// Events in it that are not done.
    unsettled: usize,
}

/// Where reading goes on.
#[derive(Clone, Copy)]
struct Cursor {
    number: u64,
    offset: u64,
    /// Everything below was read, or need not be.
    sequence: u64,
}

/// What reading came to.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) kept: Vec<Kept>,
    /// The places of events that are damaged.
    pub(super) lost: Vec<u64>,
    /// The disk gave no answer: what lies there is to be read later.
    pub(super) failed: bool,
}

pub(super) struct Log {
    folder: PathBuf,
    bytes_max: u64,
    sync: bool,
    /// In order; the last is appended to.
    segments: VecDeque<Segment>,
    active: File,
    /// A write to that failed: there may be part of a record at its end.
    torn: bool,
    cursor: Cursor,
    /// Which file each event that is not done lies in.
    unsettled: HashMap<u64, u64>,
    /// Those below this were appended by an earlier process.
    recovered_below: u64,
    next_sequence: u64,
    refused: u64,
    failures: u64,
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
        fs::create_dir_all(&folder).map_err(failed)?;
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpillError::InUse { folder }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut numbers = numbers(&folder).map_err(failed)?;
        numbers.sort_unstable();
        let mut segments = VecDeque::new();
        let mut unsettled = HashMap::new();
        let mut next_sequence = 0;
        for number in &numbers {
            let (segment, last) = recover(&folder, *number, &mut unsettled).map_err(failed)?;
            next_sequence = next_sequence.max(last.map_or(0, |last| last + 1));
            segments.push_back(segment);
        }
        // Never appended to what may be torn.
        let number = numbers.last().map_or(1, |last| last + 1);
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
            unsettled,
            recovered_below: next_sequence,
            next_sequence,
            refused: 0,
            failures: 0,
            _lock: lock,
        };
        log.remove_done();
        Ok(log)
    }

    /// How many events are not done.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Whether half of the room is taken.
    pub(super) fn is_filling(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// Appends as many of `events` as there is room for.
    pub(super) fn append(&mut self, events: Vec<Event>) -> Vec<Kept> {
        let mut room = self.bytes_max.saturating_sub(self.bytes());
        let (mut out, mut sequence) = (Vec::new(), self.next_sequence);
        let mut kept: Vec<Kept> = Vec::with_capacity(events.len());
        for event in events {
            let before = out.len();
            let written = record::write(&mut out, sequence, &event);
            let size = (out.len() - before) as u64;
            let fits = written && size <= room;
            if fits {
                room -= size;
                sequence += 1;
            } else {
                out.truncate(before);
            }
            kept.push(Kept {
                event,
                sequence: fits.then(|| sequence - 1),
                recovered: false,
            });
        }
        let refused = kept.iter().filter(|kept| kept.sequence.is_none()).count() as u64;
        if refused > 0 {
            if is_sampled(self.refused, refused) {
                tracing::error!(
                    refused = self.refused + refused, bytes = self.bytes(), folder = %self.folder.display(),
                    "No room on disk for events: they are in memory only"
                );
            }
            self.refused += refused;
        }
        // Used up whatever happens: a torn write may have left some of them.
        self.next_sequence = sequence;
        if out.is_empty() {
            return kept;
        }
        match self.write(&out) {
            Ok(number) => {
                let places = kept.iter().filter_map(|kept| kept.sequence);
                self.unsettled.extend(places.map(|place| (place, number)));
                let written = kept.iter().filter(|kept| kept.sequence.is_some()).count();
                if let Some(segment) = self.segments.back_mut() {
                    segment.unsettled += written;
                }
            }
            Err(error) => {
                self.failed(
                    &error,
                    "Unable to write events to disk: they are in memory only",
                );
                for kept in &mut kept {
                    kept.sequence = None;
                }
            }
        }
        kept
    }

    /// Writes `bytes` to the file in turn, or to a new one if that is full or a write to it failed. Returns its number.
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let full = self.bytes_max / 8;
        // What follows a torn record would not be found.
        if self.torn || self.segments.back().is_none_or(|last| last.bytes >= full) {
            self.rotate()?;
        }
        let written = self.active.write_all(bytes);
        let synced = written.and_then(|()| {
            if self.sync {
                self.active.sync_data()
            } else {
                Ok(())
            }
        });
        if let Err(error) = synced {
            self.torn = true;
            return Err(error);
        }
        let last = self.segments.back_mut().ok_or(io::ErrorKind::NotFound)?;
        last.bytes += bytes.len() as u64;
        Ok(last.number)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let number = self.segments.back().map_or(1, |last| last.number + 1);
        self.active = create(&self.folder, number)?;
        self.torn = false;
        self.segments.push_back(Segment {
            number,
            bytes: 0,
            unsettled: 0,
        });
        self.remove_done();
        Ok(())
    }

    /// What was appended so far needs no reading: it is in memory.
    pub(super) fn skip_read(&mut self) {
        if let Some(last) = self.segments.back() {
            self.cursor = Cursor {
                number: last.number,
                offset: last.bytes,
                sequence: self.next_sequence,
            };
        }
    }

    /// The next events that are not done: up to `events_max` of them, and about `bytes_max` bytes, but one at least, if there is one.
    pub(super) fn read_next(&mut self, events_max: usize, bytes_max: usize) -> Taken {
        let mut read = Taken::default();
        while read.kept.is_empty() {
            let Cursor { number, offset, .. } = self.cursor;
            // It may have been removed since, with all before it.
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
                match self.read_from(current, offset, end, wanted, &mut read) {
                    Ok(bytes) if bytes > 0 => {
                        self.cursor.offset = offset + bytes;
                        continue;
                    }
                    Ok(_) => self.lose_rest(current, &mut read.lost),
                    Err(error) => {
                        self.failed(&error, "Unable to read events from disk (will try again)");
                        read.failed = true;
                        break;
                    }
                }
                self.cursor.offset = end;
            }
            if self
                .segments
                .back()
                .is_some_and(|last| last.number == current)
            {
                break;
            }
            (self.cursor.number, self.cursor.offset) = (current + 1, 0);
        }
        read
    }

    /// Where a record is damaged nobody knows where the next one begins.
    fn lose_rest(&mut self, number: u64, lost: &mut Vec<u64>) {
        let before = lost.len();
        let from = self.cursor.sequence;
        let unsettled = self.unsettled.iter();
        let rest = unsettled.filter(|(place, file)| **file == number && **place >= from);
        lost.extend(rest.map(|(place, _)| *place));
        tracing::error!(
            file = number,
            offset = self.cursor.offset,
            events = lost.len() - before,
            "A spilled event is damaged: it and the rest of its file are lost"
        );
    }

    /// Reads events of one file from `offset`; returns how many bytes they took.
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
                        // Whole, and yet no event.
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
            if let Err(error) = file.and_then(|mut file| file.write_all(&marks)) {
                self.failed(
                    &error,
                    "Unable to mark events as done: a next process delivers them again",
                );
            }
        }
    }

    /// Removes the files in which everything is done, but the last.
    fn remove_done(&mut self) {
        let last = self.segments.back().map(|last| last.number);
        let (gone, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.segments)
            .into_iter()
            .partition(|segment| segment.unsettled == 0 && Some(segment.number) != last);
        self.segments = kept;
        for segment in gone {
            for path in [
                done_path(&self.folder, segment.number),
                events_path(&self.folder, segment.number),
            ] {
                match fs::remove_file(path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        self.failed(&error, "Unable to remove a file of events that are done");
                    }
                }
            }
        }
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
    File::create_new(events_path(folder, number))
}

/// The numbers of the files of events.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".events"));
        numbers.extend(number.and_then(|number| u64::from_str_radix(number, 16).ok()));
    }
    Ok(numbers)
}

/// What a file has that is not done, and the last place in it.
fn recover(
    folder: &Path,
    number: u64,
    unsettled: &mut HashMap<u64, u64>,
) -> io::Result<(Segment, Option<u64>)> {
    let bytes = fs::read(events_path(folder, number))?;
    let done = match fs::read(done_path(folder, number)) {
        Ok(bytes) => record::marks(&bytes).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let done: std::collections::HashSet<u64> = done.into_iter().collect();
    let (mut read, mut count, mut last) = (0, 0, None);
    while let Found::Record {
        sequence, bytes, ..
    } = record::read(bytes.get(read..).unwrap_or_default(), |_| false)
    {
        read += bytes;
        last = last.max(Some(sequence));
        if !done.contains(&sequence) {
            unsettled.insert(sequence, number);
            count += 1;
        }
    }
    if read < bytes.len() {
        tracing::warn!(
            file = number,
            bytes = bytes.len() - read,
            "The end of a spilled file is torn: the event being written when a process died"
        );
    }
    let segment = Segment {
        number,
        bytes: read as u64,
        unsettled: count,
    };
    Ok((segment, last))
}
