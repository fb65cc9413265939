//! The journal of versions that are yet to be sealed: what its entries name, and how they are
//! numbered. `unsealed.rs` reads it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_history::Version;
use tidings_store::{NewRecord, UnixMillis, Write};
use tokio::sync::{RwLock, RwLockReadGuard};

use super::kept::Kept;
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
    /// Entries that were removed, because what they name is sealed.
    kept: Mutex<Kept>,
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
    /// An empty journal, of which entries before this number may have been removed.
    pub(super) fn new(taken_out: u64) -> Self {
        Self {
            next: AtomicU64::new(taken_out),
            gate: RwLock::new(()),
            waiting: AtomicU64::new(0),
            kept: Mutex::new(Kept::new(taken_out)),
            failure: Mutex::default(),
            manifest_bytes: AtomicU64::new(0),
        }
    }

    /// Why the last attempt to seal failed. The lock is not held across an await.
    pub(super) fn failure(&self) -> MutexGuard<'_, Option<NotSealed>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The removed entries. The lock is not held across an await.
    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// Adds the journal's entries to some writes. The returned guard is held until these are
    /// written.
    pub(super) async fn tell(
        &self,
        items: &[Item],
        end: Option<UnixMillis>,
        now: UnixMillis,
        writes: &mut Vec<Write>,
    ) -> RwLockReadGuard<'_, ()> {
        let guard = self.gate.read().await;
        if end.is_some_and(|end| end > now) {
            self.add(items, end, writes);
        }
        guard
    }

    /// Notes that an event was deleted here, and that sealed files may have versions of it.
    pub(super) fn erase(id: &[u8], key: &Bytes, uid: &str) -> Write {
        let text = String::from_utf8_lossy(key).into_owned();
        let record = NewRecord::new(json(&Deleted(text, uid.to_owned())));
        Write::put(keys::unerased(id), record)
    }

    pub(super) fn add(&self, items: &[Item], end: Option<UnixMillis>, writes: &mut Vec<Write>) {
        self.waiting
            .fetch_add(items.len() as u64, Ordering::Relaxed);
        for items in items.chunks(ENTRY_MAX) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mut record = NewRecord::new(json(&items));
            record.expires_at = end.map(|end| UnixMillis(end.0.saturating_add(LONGER_MILLIS)));
            writes.push(Write::put(keys::unsealed(number), record));
        }
    }
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
