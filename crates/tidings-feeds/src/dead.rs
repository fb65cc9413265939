//! Dead letters: the records that a receiver rejected, in two files for each feed.
//!
//! Invariants: a dead letter is synced before its version is committed. There are at most
//! [`LETTERS_MAX`] of at most [`BYTES_MAX`]: when the newer file has half of that, it becomes the
//! older one, whose dead letters are deleted and counted. Dead letters that are sent again are in
//! files of their own until the last of them is settled, with the number of those that are: so they
//! are counted and shown like the others, and each is sent again once, but for crashes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidings_history::{Gap, Limits, Skip, Version};
use tidings_store::UnixMillis;

use crate::delivery::DeadCause;
use crate::exclusive::Exclusive;
use crate::file::{cut_torn, open, sync_folder};
use crate::record::{Record, RecordBody, Source};

/// Maximum number of dead letters of a feed.
pub(crate) const LETTERS_MAX: u64 = 10_000;
/// Maximum bytes of a feed's dead letters.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// A record that was not delivered, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetter {
    at: i64,
    cluster: String,
    /// The cluster's identity; empty if it is not known.
    #[serde(default)]
    cluster_uid: String,
    id: String,
    pub(crate) cause: DeadCause,
    why: String,
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

/// A dead letter without its record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct DeadLetterSummary {
    /// When the record became a dead letter, in milliseconds since 1970.
    pub at: i64,
    /// The cluster's name.
    pub cluster: String,
    /// The record's id.
    pub id: String,
    /// Why it was given up.
    pub cause: DeadCause,
    /// The receiver's words.
    pub why: String,
}

/// How many dead letters a feed has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetterCount {
    /// Their number, with those that are being sent again.
    pub letters: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Number of the oldest ones that were deleted to make room, since the process began.
    pub deleted: u64,
    /// Whether some are being sent again.
    pub is_retrying: bool,
}

/// The dead letters of a feed.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    files: Exclusive<Files>,
    shown: Arc<Mutex<DeadLetterCount>>,
}

impl DeadLetters {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let shown = Arc::<Mutex<DeadLetterCount>>::default();
        let files = Files {
            folder,
            counted: None,
            shown: Arc::clone(&shown),
        };
        Self {
            files: Exclusive::new(files),
            shown,
        }
    }

    /// Counts what is in the files, so that [`count`](Self::count) says it.
    pub(crate) async fn open(&self) -> io::Result<()> {
        self.files.run(|files| files.counted().map(drop)).await
    }

    /// Returns how many there were after the last call. It never waits.
    pub(crate) fn count(&self) -> DeadLetterCount {
        *self.shown.lock()
    }

    /// Delays all calls until the result is dropped.
    #[cfg(test)]
    pub(crate) async fn hold(&self) -> impl Sized + use<> {
        self.files.hold().await
    }

    /// Waits until the calls that began have ended.
    pub(crate) async fn settle(&self) {
        self.files.settle().await;
    }

    /// Whether the calls that began have ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.files.is_settled()
    }

    /// Appends dead letters, and syncs them. If that fails, none of them is there.
    pub(crate) async fn append(&self, letters: &[DeadLetter]) -> io::Result<()> {
        let mut lines = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut lines, letter)?;
            lines.push(b'\n');
        }
        let letters = letters.len() as u64;
        self.files
            .run(move |files| files.append(&lines, letters))
            .await
    }

    /// Appends a line that is no dead letter of this version of the program, as it is.
    pub(crate) async fn append_line(&self, line: Vec<u8>) -> io::Result<()> {
        self.files.run(move |files| files.append(&line, 1)).await
    }

    /// Returns the dead letters, the oldest first, without lines of another version of the program.
    /// Those that are being sent again are among them until they are settled.
    pub(crate) async fn read(&self) -> io::Result<Vec<DeadLetterSummary>> {
        let read = self.files.run(|files| {
            let others = Letters::open(&[files.older(), files.newer()])?;
            let mut found = Vec::new();
            for mut letters in [files.unsettled()?, others] {
                while let Some(line) = letters.line()? {
                    found.extend(serde_json::from_slice::<DeadLetterSummary>(&line).ok());
                }
            }
            Ok(found)
        });
        read.await
    }

    /// Deletes all dead letters, also those that were being sent again. Returns how many there
    /// were.
    pub(crate) async fn delete(&self) -> io::Result<u64> {
        let deleted = self.files.run(|files| {
            let [older, newer, retried] = files.counted()?;
            remove(&files.older())?;
            remove(&files.newer())?;
            files.remove_retried()?;
            files.counted()?;
            Ok(older.letters + newer.letters + retried.letters)
        });
        deleted.await
    }

    /// Sets all dead letters apart to be sent again. Returns how many, or `None` if others are
    /// being sent again.
    pub(crate) async fn begin_retry(&self) -> io::Result<Option<u64>> {
        let begun = self.files.run(|files| {
            let [older, newer, _] = files.counted()?;
            if files.shown.lock().is_retrying {
                return Ok(None);
            }
            // A crash can have left the number of former ones.
            files.remove_retried()?;
            for (from, to) in [files.older(), files.newer()].iter().zip(files.retried()) {
                match std::fs::rename(from, to) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    renamed => {
                        renamed?;
                        sync_folder(&files.folder)?;
                    }
                }
            }
            files.counted()?;
            Ok(Some(older.letters + newer.letters))
        });
        begun.await
    }

    /// Opens the dead letters that are to be sent again and are not settled.
    pub(crate) async fn to_retry(&self) -> io::Result<Letters> {
        self.files.run(|files| files.unsettled()).await
    }

    /// Stores that the next ones of those that are sent again are settled. If that fails, nothing
    /// changed.
    pub(crate) async fn settle_retried(&self, letters: u64) -> io::Result<()> {
        let stored = self.files.run(move |files| {
            let [older, newer, mut retried] = files.counted()?;
            let settled = files.settled() + letters;
            // A number that a crash makes unreadable is 0: they are sent once more.
            let next = files.folder.join("retried.settled.next");
            std::fs::write(&next, settled.to_string())?;
            std::fs::rename(next, files.settled_path())?;
            retried.letters = retried.letters.saturating_sub(letters);
            files.note([older, newer, retried]);
            Ok(())
        });
        stored.await
    }

    /// Notes that all of them are settled.
    pub(crate) async fn end_retry(&self) -> io::Result<()> {
        let ended = self.files.run(|files| {
            files.remove_retried()?;
            files.counted().map(drop)
        });
        ended.await
    }

    /// Deletes the folder, once the feed is removed. Returns whether there was one.
    pub(crate) async fn remove(&self) -> io::Result<bool> {
        let removed = self.files.run(|files| {
            files.counted = None;
            match std::fs::remove_dir_all(&files.folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                removed => removed.map(|()| true),
            }
        });
        removed.await
    }
}

/// What a file has.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    letters: u64,
    bytes: u64,
}

/// The files of dead letters.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    /// What the older file, the newer file, and those that are sent again have; `None` if it is to
    /// be counted.
    counted: Option<[Amount; 3]>,
    shown: Arc<Mutex<DeadLetterCount>>,
}

impl Files {
    fn newer(&self) -> PathBuf {
        self.folder.join("dead-letters.jsonl")
    }

    fn older(&self) -> PathBuf {
        self.folder.join("dead-letters.old.jsonl")
    }

    fn retried(&self) -> [PathBuf; 2] {
        ["retried.old.jsonl", "retried.jsonl"].map(|name| self.folder.join(name))
    }

    fn settled_path(&self) -> PathBuf {
        self.folder.join("retried.settled")
    }

    /// The number of settled dead letters among those that are sent again.
    fn settled(&self) -> u64 {
        let stored = std::fs::read_to_string(self.settled_path());
        stored.ok().and_then(|it| it.parse().ok()).unwrap_or(0)
    }

    /// Opens those that are sent again and are not settled.
    fn unsettled(&self) -> io::Result<Letters> {
        let mut letters = Letters::open(&self.retried())?;
        for _ in 0..self.settled() {
            if letters.line()?.is_none() {
                break;
            }
        }
        Ok(letters)
    }

    /// Removes those that are sent again, and then their number: the other way round, settled ones
    /// would be sent once more.
    fn remove_retried(&mut self) -> io::Result<()> {
        self.counted = None;
        for path in self.retried() {
            remove(&path)?;
        }
        remove(&self.settled_path())
    }

    /// Counts what is in the files, if that is not known.
    fn counted(&mut self) -> io::Result<[Amount; 3]> {
        let counted = if let Some(counted) = self.counted {
            counted
        } else {
            let mut retried = Amount::default();
            for path in self.retried() {
                let of_file = amount(&path)?;
                retried.letters += of_file.letters;
                retried.bytes += of_file.bytes;
            }
            retried.letters = retried.letters.saturating_sub(self.settled());
            [amount(&self.older())?, amount(&self.newer())?, retried]
        };
        self.note(counted);
        Ok(counted)
    }

    fn note(&mut self, counted: [Amount; 3]) {
        self.counted = Some(counted);
        let is_retrying = self.retried().iter().any(|path| path.exists());
        let mut shown = self.shown.lock();
        shown.letters = counted.iter().map(|it| it.letters).sum();
        shown.bytes = counted.iter().map(|it| it.bytes).sum();
        shown.is_retrying = is_retrying;
    }

    fn append(&mut self, lines: &[u8], letters: u64) -> io::Result<()> {
        let [mut older, mut newer, retried] = self.counted()?;
        self.counted = None;
        std::fs::create_dir_all(&self.folder)?;
        let bytes = lines.len() as u64;
        let is_full =
            newer.letters + letters > LETTERS_MAX / 2 || newer.bytes + bytes > BYTES_MAX / 2;
        if is_full && newer.letters > 0 {
            // Room is made without any space on disk.
            std::fs::rename(self.newer(), self.older())?;
            sync_folder(&self.folder)?;
            if older.letters > 0 {
                self.shown.lock().deleted += older.letters;
                let folder = self.folder.display();
                tracing::error!(%folder, letters = older.letters, "the oldest dead letters are deleted");
            }
            (older, newer) = (newer, Amount::default());
        }
        let (mut file, is_new) = open(&self.newer())?;
        #[cfg(unix)]
        if is_new {
            use std::os::unix::fs::PermissionsExt;
            // Whole events are nothing for other users of the machine.
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        let written = file.write_all(lines).and_then(|()| file.sync_data());
        if let Err(error) = written {
            file.set_len(newer.bytes)?;
            return Err(error);
        }
        if is_new {
            sync_folder(&self.folder)?;
        }
        newer.letters += letters;
        newer.bytes += bytes;
        self.note([older, newer, retried]);
        Ok(())
    }
}

/// Counts what a file has, and removes a line that was cut.
fn amount(path: &Path) -> io::Result<Amount> {
    let Some(mut file) = open_existing(path)? else {
        return Ok(Amount::default());
    };
    cut_torn(&mut file)?;
    let bytes = file.metadata()?.len();
    file.rewind()?;
    let (mut lines, mut line, mut letters) = (BufReader::new(file), Vec::new(), 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        letters += 1;
        line.clear();
    }
    Ok(Amount { letters, bytes })
}

/// Reads dead letters from files. A line that is none is returned as it is.
#[derive(Debug)]
pub(crate) struct Letters(Vec<BufReader<File>>);

impl Letters {
    /// Opens those files that exist.
    fn open(paths: &[PathBuf]) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in paths.iter().rev() {
            files.extend(open_existing(path)?.map(BufReader::new));
        }
        Ok(Self(files))
    }

    /// Reads the next dead letters: at most 500, and about a MiB. There are none at the end.
    pub(crate) async fn page(mut self) -> io::Result<(Self, Vec<Result<DeadLetter, Vec<u8>>>)> {
        let read = tokio::task::spawn_blocking(move || {
            let (mut page, mut bytes) = (Vec::new(), 0);
            let limits = Limits::default();
            while page.len() < limits.versions && bytes < limits.bytes {
                let Some(line) = self.line()? else {
                    break;
                };
                bytes += line.len();
                page.push(serde_json::from_slice(&line).map_err(|_| line));
            }
            Ok((self, page))
        });
        read.await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        while let Some(file) = self.0.last_mut() {
            if file.read_until(b'\n', &mut line)? > 0 {
                return Ok(Some(line));
            }
            self.0.pop();
        }
        Ok(None)
    }
}

fn open_existing(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn remove(path: &Path) -> io::Result<()> {
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

    async fn shown(dead: &DeadLetters) -> Vec<String> {
        let letters = dead.read().await.unwrap().into_iter();
        letters.map(|letter| letter.id).collect()
    }

    #[tokio::test]
    async fn dead_letters_are_bounded_and_sent_again_once() {
        const HALF: u64 = LETTERS_MAX / 2;
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("feed");
        let dead = DeadLetters::new(at.clone());
        assert_eq!(dead.begin_retry().await.unwrap(), Some(0));
        for from in [0, HALF, 2 * HALF] {
            let all = letters(from, from + HALF);
            dead.append(&all).await.unwrap();
        }
        let count = dead.count();
        assert_eq!((count.letters, count.deleted), (LETTERS_MAX, HALF));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let of_file = std::fs::metadata(at.join("dead-letters.jsonl")).unwrap();
            assert_eq!(of_file.permissions().mode() & 0o777, 0o600);
        }
        let dead = DeadLetters::new(at.clone());
        dead.open().await.unwrap();
        assert_eq!(dead.count().letters, LETTERS_MAX);
        let all = letters(HALF, 3 * HALF);
        assert_eq!(shown(&dead).await, ids(&all), "the oldest are deleted");
        assert_eq!(dead.begin_retry().await.unwrap(), Some(LETTERS_MAX));
        dead.append(&letters(1, 3)).await.unwrap();
        assert_eq!(
            dead.begin_retry().await.unwrap(),
            None,
            "others are being sent"
        );
        // A crash in between: they are still to be sent, and the torn line is cut.
        let newer = at.join("dead-letters.jsonl");
        let mut torn = OpenOptions::new().append(true).open(&newer).unwrap();
        torn.write_all(b"{\"at\":").unwrap();
        let dead = DeadLetters::new(at.clone());
        dead.open().await.unwrap();
        assert!(dead.count().is_retrying);
        assert_eq!(dead.count().letters, LETTERS_MAX + 2);
        let mut again: Vec<DeadLetter> = Vec::new();
        loop {
            // What is settled is not sent again after a crash, nor shown.
            let to_retry = dead.to_retry().await.unwrap();
            let (_, page) = to_retry.page().await.unwrap();
            let settled = page.len();
            if settled == 0 {
                break;
            }
            assert!(settled <= Limits::default().versions);
            again.extend(page.into_iter().map(Result::unwrap));
            dead.settle_retried(settled as u64).await.unwrap();
            let left = all.len() - again.len() + 2;
            assert_eq!(dead.count().letters, left as u64);
        }
        assert_eq!(ids(&again), ids(&all));
        let (_, record) = again[0].record().unwrap();
        assert_eq!(record.id, again[0].id);
        dead.append(&letters(3, 4)).await.unwrap();
        dead.append_line(b"{\"at\":\"later\"}\n".to_vec())
            .await
            .unwrap();
        dead.end_retry().await.unwrap();
        assert!(!dead.count().is_retrying);
        assert_eq!(shown(&dead).await, ids(&letters(1, 4)));
        // A crash can leave the number of former ones.
        std::fs::write(at.join("retried.settled"), "7").unwrap();
        assert_eq!(shown(&dead).await, ids(&letters(1, 4)));
        assert_eq!(dead.begin_retry().await.unwrap(), Some(4));
        dead.settle_retried(1).await.unwrap();
        dead.append(&letters(4, 5)).await.unwrap();
        assert_eq!(shown(&dead).await, ids(&letters(2, 5)));
        assert_eq!(dead.delete().await.unwrap(), 4);
        assert_eq!(dead.count().letters, 0);
        assert!(!dead.count().is_retrying);
        assert!(dead.remove().await.unwrap() && !dead.remove().await.unwrap());
    }
}
