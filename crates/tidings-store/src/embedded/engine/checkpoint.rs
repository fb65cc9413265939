//! The position of the index on disk: the file `CHECKPOINT`.
//!
//! The file is one line of text with a checksum, and is replaced atomically.
//!
//! Invariant: the file has a commit's number only when everything up to that commit is in the index
//! and synced. So opening reads the log only from there, and a missing commit above it is damage.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::REVISION_OF_NEW;
use crate::embedded::codec::{COUNTED_MAX, State, Swept};
use crate::embedded::error::OpenError;
use crate::embedded::files::{confirmed_time, disk};
use crate::embedded::index::{Index, NAMES};
use crate::embedded::log::Log;

const FILE: &str = "CHECKPOINT";

/// The beginning of the line. In formats up to 3 the line begins with a number.
const FORM: &str = "v4 ";

/// A position of the index; see the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Checkpoint {
    pub(in crate::embedded) number: u64,
    pub(in crate::embedded) state: State,
    /// The buckets in the log, with the order in which their records expire. The pair is the latest
    /// expiry, and the moment before which all early expiries are written.
    pub(in crate::embedded) buckets: BTreeMap<u64, (i64, i64)>,
}

impl Default for Checkpoint {
    /// The checkpoint of a store without writes.
    fn default() -> Self {
        let state = State {
            revision: REVISION_OF_NEW,
            ..State::default()
        };
        Self {
            number: 0,
            state,
            buckets: BTreeMap::new(),
        }
    }
}

impl Checkpoint {
    /// Reads a store's checkpoint; `None` if there is none, or if it cannot be read. An unreadable
    /// checkpoint is logged.
    pub(in crate::embedded) fn read(folder: &Path) -> Result<Option<Self>, OpenError> {
        let path = folder.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io("read", &path, error)),
        };
        let checkpoint = str::from_utf8(&text).ok().and_then(Self::decode);
        if checkpoint.is_none() {
            tracing::error!(file = %path.display(), "the checkpoint is damaged");
        }
        Ok(checkpoint)
    }

    /// Whether there is a checkpoint, even a damaged one.
    pub(in crate::embedded) fn is_there(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    fn decode(text: &str) -> Option<Self> {
        let (numbers, checksum) = text.trim_end().rsplit_once(' ')?;
        if u64::from_str_radix(checksum, 16).ok()? != xxh3_64(numbers.as_bytes()) {
            return None;
        }
        let (is_old, numbers) = match numbers.strip_prefix(FORM) {
            Some(numbers) => (false, numbers),
            None => (true, numbers),
        };
        let mut words = numbers.split(' ');
        let mut next = || words.next()?.parse::<u64>().ok();
        let number = next()?;
        let mut state = State {
            revision: next()?,
            compacted: next()?,
            swept: Swept::up_to(next()?, next()?),
            records: next()?,
            value_bytes: next()?,
        };
        let mut buckets = BTreeMap::new();
        for word in words {
            let mut parts = word.split(':');
            let bucket: u64 = parts.next()?.parse().ok()?;
            if is_old {
                // Old formats do not state the order, so the bucket may have any content.
                buckets.insert(
                    bucket,
                    (i64::try_from(bucket).unwrap_or(i64::MAX), i64::MIN),
                );
                continue;
            }
            let mark = parts.next()?.parse().ok()?;
            if mark > 0 {
                state.swept.set_mark(bucket, mark);
            }
            let mut time = || parts.next()?.parse().ok();
            buckets.insert(bucket, (time()?, time()?));
        }
        let is_possible = number <= COUNTED_MAX && state.is_possible();
        is_possible.then_some(Self {
            number,
            state,
            buckets,
        })
    }

    fn encode(&self) -> String {
        let State {
            revision,
            compacted,
            swept,
            records,
            value_bytes,
        } = &self.state;
        let mut line = format!(
            "{FORM}{} {revision} {compacted} {} 0 {records} {value_bytes}",
            self.number,
            swept.begins_at()
        );
        for (bucket, (latest, reached)) in &self.buckets {
            // Writing to a string cannot fail.
            let _ = write!(line, " {bucket}:{}:{latest}:{reached}", swept.mark(*bucket));
        }
        let checksum = xxh3_64(line.as_bytes());
        format!("{line} {checksum:016x}\n")
    }

    /// Whether the index has every tree that this checkpoint needs, none of them known to be
    /// damaged.
    pub(super) fn is_backed_by(&self, index: &Path, log: &Path) -> bool {
        let has_segments = |bucket: &u64| {
            let prefix = format!("{bucket:016x}-");
            fs::read_dir(log).is_ok_and(|mut entries| {
                entries.any(|entry| {
                    entry
                        .is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
                })
            })
        };
        // A bucket may have been dropped since the checkpoint.
        !Index::is_distrusted(index)
            && Index::has_tree(index, NAMES)
            && self.buckets.keys().all(|bucket| {
                Index::has_tree(index, &format!("{bucket:016x}")) || !has_segments(bucket)
            })
    }

    /// Whether the log lacks something that was not dropped. This is a bucket of the checkpoint, a
    /// segment whose `.idx` file exists, or the newest commit. A program that stores the time as
    /// this one does never drops a frame of the newest commit.
    pub(in crate::embedded) fn is_lost(&self, log: &Log, state: &State) -> bool {
        let there = log.buckets();
        let is_needed = |bucket: &u64| *bucket > state.swept.floor;
        let mut buckets = self.buckets.keys();
        let lost = buckets.find(|&bucket| !there.contains_key(bucket) && is_needed(bucket));
        if let Some(bucket) = lost {
            tracing::error!("the log has nothing of bucket {bucket:016x}, which was not dropped");
            return true;
        }
        if let Some(file) = log.missing(is_needed) {
            tracing::error!(file = %file.display(), "a file of the log is missing");
            return true;
        }
        let number = log.number();
        if number < self.number && confirmed_time::read(log.store()).is_some() {
            tracing::error!(
                number,
                newest = self.number,
                "the log ends before the newest commit: a file of it is missing"
            );
            return true;
        }
        false
    }

    /// Replaces the checkpoint of a store durably.
    pub(in crate::embedded) fn write(&self, folder: &Path) -> io::Result<()> {
        disk::replace(&folder.join(FILE), self.encode().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn checkpoints_round_trip(
            numbers in prop::array::uniform5(0..=COUNTED_MAX), floor in 0..u64::MAX, buckets: BTreeMap<u64, (i64, i64, u64)>,
        ) {
            let [number, revision, compacted, records, value_bytes] = numbers;
            let mut swept = Swept { floor, ..Swept::default() };
            for (bucket, (.., mark)) in buckets.iter().filter(|(_, (.., mark))| *mark > 0) {
                swept.set_mark(*bucket, *mark);
            }
            let state = State { revision, compacted, swept, records, value_bytes };
            let buckets = buckets.into_iter();
            let buckets = buckets.map(|(bucket, (latest, reached, _))| (bucket, (latest, reached)));
            let checkpoint = Checkpoint { number, state, buckets: buckets.collect() };
            prop_assert_eq!(Checkpoint::decode(&checkpoint.encode()), Some(checkpoint));
        }

        #[test]
        fn a_damaged_one_is_none(at in 0..60usize, byte: u8) {
            let checkpoint = Checkpoint { number: 123_456_789_012_345, ..Checkpoint::default() };
            let mut text = checkpoint.encode().into_bytes();
            let at = at % (text.len() - 1);
            prop_assume!(text[at] != byte);
            text[at] = byte;
            let read = str::from_utf8(&text).ok().and_then(Checkpoint::decode);
            // Only the case of a digit in the checksum may differ.
            prop_assert!(read.is_none() || read == Some(checkpoint));
        }
    }
}
