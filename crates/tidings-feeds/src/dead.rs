//! Dead letters: the records that a receiver rejected, in a file for each feed.
//!
//! Invariants: a dead letter is synced before its version is committed. There are at most
//! [`LETTERS_MAX`] of at most [`BYTES_MAX`]; beyond that the oldest quarter is deleted and counted.
//! Dead letters that are sent again are in a second file until the last of them is settled.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidings_history::{Gap, Skip, Version};
use tidings_store::UnixMillis;

use crate::delivery::DeadCause;
use crate::file::{cut_torn, open, sync_folder};
use crate::record::{Record, RecordBody, Source};

/// Maximum number of dead letters of a feed.
pub(crate) const LETTERS_MAX: u64 = 10_000;
/// Maximum bytes of a feed's dead letters.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// A record that was not delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetter {
    /// When it was given up, in milliseconds since 1970.
    pub at: i64,
    /// The cluster's name.
    pub cluster: String,
    /// The cluster's identity; empty if it is not known.
    #[serde(default)]
    pub cluster_uid: String,
    /// The record's id.
    pub id: String,
    /// Why it was given up.
    pub cause: DeadCause,
    /// The receiver's words.
    pub why: String,
    body: Body,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Body {
    Version {
        uid: String,
        epoch: u64,
        number: u64,
        observed_at: i64,
        occurrences: u64,
        /// The stored event, in base64.
        event: String,
    },
    Gap(Gap),
    Skip {
        from: i64,
        to: i64,
        versions: u64,
    },
    Test(String),
}

fn body_of(version: &Version, occurrences: u64) -> Body {
    Body::Version {
        uid: version.uid.to_string(),
        epoch: version.epoch,
        number: version.number,
        observed_at: version.observed_at.0,
        occurrences,
        event: STANDARD.encode(&version.event),
    }
}

impl DeadLetter {
    /// Makes the dead letter of a record.
    pub(crate) fn new(
        source: &Source,
        record: &Record,
        (cause, why): (DeadCause, String),
        now: UnixMillis,
    ) -> Self {
        let body = match &record.body {
            RecordBody::Version(found) => body_of(&found.version, found.occurrences),
            RecordBody::Gap(gap) => Body::Gap(gap.clone()),
            RecordBody::Skip(skip) => Body::Skip {
                from: skip.from.0,
                to: skip.to.0,
                versions: skip.versions,
            },
            RecordBody::Test { text, .. } => Body::Test(text.clone()),
        };
        Self {
            at: now.0,
            cluster: source.cluster.clone(),
            cluster_uid: source.uid.clone(),
            id: record.id.clone(),
            cause,
            why,
            body,
        }
    }

    /// Makes the dead letter of a version that is no event.
    pub(crate) fn unreadable(
        source: &Source,
        (version, occurrences): (&Version, u64),
        why: String,
        now: UnixMillis,
    ) -> Self {
        Self {
            at: now.0,
            cluster: source.cluster.clone(),
            cluster_uid: source.uid.clone(),
            id: format!("{}/{}/{}", version.uid, version.epoch, version.number),
            cause: DeadCause::Unreadable,
            why,
            body: body_of(version, occurrences),
        }
    }

    /// Returns the record, and the cluster that it is from.
    pub(crate) fn record(&self) -> Result<(Source, Record), String> {
        let source = Source {
            cluster: self.cluster.clone(),
            uid: self.cluster_uid.clone(),
        };
        let record = match &self.body {
            Body::Version {
                uid,
                epoch,
                number,
                observed_at,
                occurrences,
                event,
            } => {
                let event = STANDARD.decode(event).map_err(|error| error.to_string())?;
                let version = Version {
                    uid: uid.as_str().into(),
                    epoch: *epoch,
                    number: *number,
                    observed_at: UnixMillis(*observed_at),
                    event: event.into(),
                };
                Record::version(version, *occurrences)?
            }
            Body::Gap(gap) => Record::gap(gap.clone()),
            Body::Skip { from, to, versions } => Record {
                id: self.id.clone(),
                body: RecordBody::Skip(Skip {
                    from: UnixMillis(*from),
                    to: UnixMillis(*to),
                    versions: *versions,
                }),
            },
            Body::Test(text) => Record {
                id: self.id.clone(),
                body: RecordBody::Test {
                    at: UnixMillis(self.at),
                    text: text.clone(),
                },
            },
        };
        Ok((source, record))
    }
}

/// How many dead letters a feed has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetterCount {
    /// Their number, without those that are being sent again.
    pub letters: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of the oldest ones that were deleted to make room, since the process began.
    pub deleted: u64,
    /// Whether some are being sent again.
    pub is_retrying: bool,
}

/// The dead letters of a feed. All methods block.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    folder: PathBuf,
    count: Mutex<Option<DeadLetterCount>>,
}

impl DeadLetters {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            count: Mutex::new(None),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("dead-letters.jsonl")
    }

    fn retried(&self) -> PathBuf {
        self.folder.join("retried.jsonl")
    }

    /// Counts what is in the files, if that was not done yet.
    fn counted(&self, count: &mut Option<DeadLetterCount>) -> io::Result<DeadLetterCount> {
        if let Some(count) = *count {
            return Ok(count);
        }
        let mut found = DeadLetterCount {
            is_retrying: self.retried().exists(),
            ..DeadLetterCount::default()
        };
        match open_existing(&self.path())? {
            None => {}
            Some(mut file) => {
                cut_torn(&mut file)?;
                found.bytes = file.metadata()?.len();
                let mut lines = BufReader::new(File::open(self.path())?);
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line)? > 0 {
                    found.letters += 1;
                    line.clear();
                }
            }
        }
        *count = Some(found);
        Ok(found)
    }

    pub(crate) fn count(&self) -> io::Result<DeadLetterCount> {
        self.counted(&mut self.count.lock())
    }

    /// Appends dead letters, and syncs them.
    pub(crate) fn append(&self, letters: &[DeadLetter]) -> io::Result<()> {
        let mut count = self.count.lock();
        let mut now = self.counted(&mut count)?;
        *count = None;
        std::fs::create_dir_all(&self.folder)?;
        let mut lines = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut lines, letter)?;
            lines.push(b'\n');
        }
        let (mut file, is_new) = open(&self.path())?;
        file.write_all(&lines)?;
        file.sync_data()?;
        if is_new {
            sync_folder(&self.folder)?;
        }
        now.letters += letters.len() as u64;
        now.bytes += lines.len() as u64;
        if now.letters > LETTERS_MAX || now.bytes > BYTES_MAX {
            self.make_room(&mut now)?;
        }
        *count = Some(now);
        Ok(())
    }

    /// Deletes the oldest dead letters until three quarters of the bounds are left.
    fn make_room(&self, now: &mut DeadLetterCount) -> io::Result<()> {
        let rest = self.folder.join("dead-letters.new");
        let mut out = BufWriter::new(File::create(&rest)?);
        let mut lines = BufReader::new(File::open(self.path())?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            if now.letters > LETTERS_MAX / 4 * 3 || now.bytes > BYTES_MAX / 4 * 3 {
                now.letters = now.letters.saturating_sub(1);
                now.bytes = now.bytes.saturating_sub(line.len() as u64);
                now.deleted += 1;
            } else {
                out.write_all(&line)?;
            }
            line.clear();
        }
        out.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_data()?;
        std::fs::rename(&rest, self.path())?;
        sync_folder(&self.folder)
    }

    /// Returns the dead letters, the oldest first, without those that are being sent again.
    pub(crate) fn read(&self) -> io::Result<Vec<DeadLetter>> {
        let _count = self.count.lock();
        let Some(file) = open_existing(&self.path())? else {
            return Ok(Vec::new());
        };
        Letters(BufReader::new(file)).collect()
    }

    /// Deletes all dead letters. Returns how many there were.
    pub(crate) fn delete(&self) -> io::Result<u64> {
        let mut count = self.count.lock();
        let found = self.counted(&mut count)?;
        remove(&self.path())?;
        *count = Some(DeadLetterCount {
            letters: 0,
            bytes: 0,
            ..found
        });
        Ok(found.letters)
    }

    /// Sets all dead letters apart to be sent again. Returns how many, or `None` if others are
    /// being sent again.
    pub(crate) fn begin_retry(&self) -> io::Result<Option<u64>> {
        let mut count = self.count.lock();
        let found = self.counted(&mut count)?;
        if found.is_retrying {
            return Ok(None);
        }
        if found.letters > 0 {
            std::fs::rename(self.path(), self.retried())?;
            sync_folder(&self.folder)?;
            *count = Some(DeadLetterCount {
                letters: 0,
                bytes: 0,
                is_retrying: true,
                ..found
            });
        }
        Ok(Some(found.letters))
    }

    /// Opens the dead letters that are to be sent again.
    pub(crate) fn to_retry(&self) -> io::Result<Option<Letters>> {
        let file = open_existing(&self.retried())?;
        Ok(file.map(|file| Letters(BufReader::new(file))))
    }

    /// Notes that all of them are settled.
    pub(crate) fn end_retry(&self) -> io::Result<()> {
        let mut count = self.count.lock();
        let found = self.counted(&mut count)?;
        remove(&self.retried())?;
        *count = Some(DeadLetterCount {
            is_retrying: false,
            ..found
        });
        Ok(())
    }

    /// Deletes the folder, once the feed is removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Reads dead letters from a file.
#[derive(Debug)]
pub(crate) struct Letters(BufReader<File>);

impl Iterator for Letters {
    type Item = io::Result<DeadLetter>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => {
                let letter = serde_json::from_slice(&line);
                Some(letter.map_err(|error| io::Error::new(ErrorKind::InvalidData, error)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn open_existing(path: &std::path::Path) -> io::Result<Option<File>> {
    match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
    {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn remove(path: &std::path::Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    fn letters(from: u64, to: u64) -> Vec<DeadLetter> {
        let source = Source {
            cluster: "prod".to_owned(),
            uid: "u".to_owned(),
        };
        let letters = (from..to).map(|number| {
            let version = Version {
                uid: "u-1".into(),
                epoch: 0,
                number,
                observed_at: UnixMillis(1),
                event: event("web", number),
            };
            let record = Record::version(version, 1).unwrap();
            let cause = (DeadCause::Rejected, "400".to_owned());
            DeadLetter::new(&source, &record, cause, UnixMillis(5))
        });
        letters.collect()
    }

    fn ids(letters: &[DeadLetter]) -> Vec<&str> {
        letters.iter().map(|letter| letter.id.as_str()).collect()
    }

    #[test]
    fn dead_letters_are_bounded_and_sent_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("feed");
        let dead = DeadLetters::new(at.clone());
        assert_eq!(dead.begin_retry().unwrap(), Some(0));
        dead.append(&letters(0, LETTERS_MAX)).unwrap();
        assert_eq!(dead.count().unwrap().letters, LETTERS_MAX);
        dead.append(&letters(LETTERS_MAX, LETTERS_MAX + 1)).unwrap();
        let dead = DeadLetters::new(at.clone());
        let count = dead.count().unwrap();
        assert_eq!(count.letters, LETTERS_MAX / 4 * 3);
        let found = dead.read().unwrap();
        assert_eq!(found.last(), letters(LETTERS_MAX, LETTERS_MAX + 1).last());
        assert_eq!(found.len() as u64, count.letters);
        let (_, record) = found[0].record().unwrap();
        assert_eq!(record.id, found[0].id);
        assert_eq!(dead.begin_retry().unwrap(), Some(count.letters));
        dead.append(&letters(1, 3)).unwrap();
        assert_eq!(dead.begin_retry().unwrap(), None, "others are being sent");
        // A crash in between: they are still to be sent, and the torn line is cut.
        let mut torn = std::fs::OpenOptions::new()
            .append(true)
            .open(dead.path())
            .unwrap();
        torn.write_all(b"{\"at\":").unwrap();
        let dead = DeadLetters::new(at.clone());
        assert!(dead.count().unwrap().is_retrying);
        assert_eq!(
            dead.to_retry().unwrap().unwrap().count() as u64,
            count.letters
        );
        dead.end_retry().unwrap();
        assert!(dead.to_retry().unwrap().is_none());
        assert_eq!(ids(&dead.read().unwrap()), ["u-1/0/1", "u-1/0/2"]);
        assert_eq!(dead.delete().unwrap(), 2);
        dead.remove().unwrap();
        assert!(!at.exists());
    }
}
