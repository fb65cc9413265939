//! The journal of versions that are yet to be sealed: what its entries name, and how they are
//! numbered. `unsealed.rs` reads it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_history::Version;
use tidings_store::embedded::EmbeddedStore;
use tidings_store::{Fault, NewRecord, UnixMillis, Write, WriteError};
use tokio::sync::{RwLock, RwLockReadGuard};

use super::cursor::{Cursor, LastStored};
use super::keys;
use super::own::json;
use crate::version::record::Record;

/// Maximum number of records that an entry names.
const ENTRY_MAX: usize = 500;
/// Time in milliseconds for which an entry is kept longer than the versions that it names.
const LONGER_MILLIS: i64 = 60_000;

/// Versions of one record that are to be sealed: the key and uid of the event, the number of the
/// record among the event's records, and the first and last of the versions, by epoch and number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item(
    pub(super) String,
    pub(super) String,
    pub(super) u64,
    pub(super) u64,
    pub(super) u64,
    pub(super) u64,
);

/// An event that was deleted here: its key and uid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deleted(pub(super) String, pub(super) String);

impl Item {
    /// The version that was just added to a record.
    pub(crate) fn newest(key: &Bytes, record: &Record) -> Self {
        let Version {
            uid, epoch, number, ..
        } = &record.newest;
        let key = String::from_utf8_lossy(key).into_owned();
        Self(
            key,
            uid.to_string(),
            record.chunks,
            *epoch,
            *number,
            *number,
        )
    }
}

/// The journal of a cluster that is or was sealed.
pub(crate) struct Journal {
    /// The number of the next entry.
    pub(super) next: AtomicU64,
    /// Held for reading from the choice of a number until the entry with it is written.
    pub(super) gate: RwLock<()>,
    /// About how many versions wait.
    pub(super) waiting: AtomicU64,
    cursor: Mutex<Cursor>,
    /// The lock is held while the cursor is stored.
    pub(super) stored: tokio::sync::Mutex<LastStored>,
    /// The mark at opening. Entries before it may be sealed already.
    pub(super) maybe_sealed: u64,
    /// Why the last attempt to seal failed, if it did.
    failure: Mutex<Option<NotSealed>>,
    /// Bytes of the archive's newest manifest; 0 if that is not known.
    pub(super) manifest_bytes: AtomicU64,
}

/// Why the last attempt to seal failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSealed {
    /// What went wrong.
    pub why: String,
    /// Whether the data folder is older than what it sealed. Then nothing is sealed until someone
    /// intervenes.
    pub is_older: bool,
}

impl Journal {
    /// A journal whose next entry has a number, with the mark that its store has.
    pub(super) fn new(next: u64, cursor: Cursor, mark: u64) -> Self {
        Self {
            next: AtomicU64::new(next),
            gate: RwLock::new(()),
            waiting: AtomicU64::new(0),
            cursor: Mutex::new(cursor),
            stored: tokio::sync::Mutex::new(LastStored::of(mark)),
            maybe_sealed: mark,
            failure: Mutex::default(),
            manifest_bytes: AtomicU64::new(0),
        }
    }

    /// Why the last attempt to seal failed. The lock is not held across an await.
    pub(super) fn failure(&self) -> MutexGuard<'_, Option<NotSealed>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sealer's cursor. The lock is not held across an await.
    pub(super) fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers of the entries that a commit has. No state of the journal is read while it is held.
pub(super) struct Numbered<'a> {
    _gate: RwLockReadGuard<'a, ()>,
    entries: Range<u64>,
    versions: u64,
    expires_at: Option<UnixMillis>,
}

impl Journal {
    /// Adds the journal's entries to some writes. What is returned is held until these are written.
    pub(super) async fn tell(
        &self,
        items: &[Item],
        end: Option<UnixMillis>,
        now: UnixMillis,
        writes: &mut Vec<Write>,
    ) -> Numbered<'_> {
        let gate = self.gate.read().await;
        let is_kept = end.is_some_and(|end| end > now);
        let items = if is_kept { items } else { &[] };
        Numbered {
            _gate: gate,
            entries: self.add(items, end, writes),
            versions: items.len() as u64,
            expires_at: end.map(expiry),
        }
    }

    /// Gives the numbers back of a commit that was refused. If others were given since, empty
    /// entries take them, so that no reader misses one.
    pub(super) async fn take_back(
        &self,
        store: &EmbeddedStore,
        refused: Numbered<'_>,
        why: &WriteError,
    ) {
        let Range { start, end } = refused.entries;
        if start == end || matches!(why, WriteError::Fault(Fault::Unknown(_))) {
            return;
        }
        self.count_less(refused.versions);
        let order = Ordering::Relaxed;
        if self.next.compare_exchange(end, start, order, order).is_ok() {
            return;
        }
        let empty = (start..end).map(|number| {
            let mut record = NewRecord::new(json::<[Item]>(&[]));
            record.expires_at = refused.expires_at;
            Write::put(keys::unsealed(number), record)
        });
        if let Err(error) = store.write_all(empty.collect()).await {
            tracing::debug!(%error, "numbers of the feed are not used");
        }
    }

    /// Counts fewer versions as waiting.
    pub(super) fn count_less(&self, versions: u64) {
        let less = |waiting: u64| Some(waiting.saturating_sub(versions));
        // It always is something.
        let _ = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Notes that an event was deleted here, and that sealed files may have versions of it.
    pub(super) fn erase(id: &[u8], key: &Bytes, uid: &str) -> Write {
        let text = String::from_utf8_lossy(key).into_owned();
        let record = NewRecord::new(json(&Deleted(text, uid.to_owned())));
        Write::put(keys::unerased(id), record)
    }

    /// Adds entries with these items, and returns their numbers.
    pub(super) fn add(
        &self,
        items: &[Item],
        end: Option<UnixMillis>,
        writes: &mut Vec<Write>,
    ) -> Range<u64> {
        let entries = items.chunks(ENTRY_MAX);
        let number = entries.len() as u64;
        let start = self.next.fetch_add(number, Ordering::Relaxed);
        self.waiting
            .fetch_add(items.len() as u64, Ordering::Relaxed);
        for (number, items) in (start..).zip(entries) {
            let mut record = NewRecord::new(json(&items));
            record.expires_at = end.map(expiry);
            writes.push(Write::put(keys::unsealed(number), record));
        }
        start..start + number
    }
}

/// When an entry expires whose versions do.
fn expiry(end: UnixMillis) -> UnixMillis {
    UnixMillis(end.0.saturating_add(LONGER_MILLIS))
}

impl Item {
    /// All versions that one of an event's records has now. Records before the newest one get no
    /// more versions, and do not move.
    pub(super) fn all(key: &Bytes, newest: &Record, number: u64) -> Self {
        let Self(key, uid, record, epoch, _, to) = Self::newest(key, newest);
        if number == record {
            return Self(key, uid, record, epoch, 0, to);
        }
        Self(key, uid, number, ANY_EPOCH, 0, u64::MAX)
    }

    pub(super) fn has(&self, version: &Version) -> bool {
        (self.3 == ANY_EPOCH || self.3 == version.epoch)
            && (self.4..=self.5).contains(&version.number)
    }
}

/// Stands for every epoch; no source goes back that often.
pub(super) const ANY_EPOCH: u64 = u64::MAX;
