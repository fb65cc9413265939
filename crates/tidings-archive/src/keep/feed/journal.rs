//! The journal of versions that are yet to be sealed: what its entries name, and how they are
//! numbered. `unsealed.rs` reads it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tidings_history::{CursorName, Gap, StoredGap, Version};
use tidings_store::embedded::EmbeddedStore;
use tidings_store::{Fault, NewRecord, UnixMillis, Write, WriteError};
use tokio::sync::{RwLock, RwLockReadGuard, watch};

use super::cursors::{Amount, Consumer};
use super::sealer_cursor::{Cursor, LastStored};
use crate::keep::json::json;
use crate::keep::keys;
use crate::version::record::Record;

/// Maximum number of records that an entry names.
const ENTRY_MAX: usize = 500;
/// Time in milliseconds for which an entry is kept longer than the versions that it names.
const LONGER_MILLIS: i64 = 60_000;
/// Minimum time in milliseconds for which an entry is kept for a named cursor, so that what the
/// cursor skips is counted: much longer than a cursor may be behind.
const COUNTED_MILLIS: i64 = 30 * 24 * 3_600_000;

/// Versions of one record of an event, for the feed's consumers. It is stored as a list of the
/// fields, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredItem", into = "StoredItem")]
pub(crate) struct Item {
    /// The event's key and uid.
    pub(in crate::keep) key: String,
    pub(in crate::keep) uid: String,
    /// The record's number among the event's records.
    pub(in crate::keep) record: u64,
    /// The versions' epoch, or [`ANY_EPOCH`].
    pub(in crate::keep) epoch: u64,
    /// The first and the last version.
    pub(in crate::keep) from: u64,
    pub(in crate::keep) to: u64,
}

type StoredItem = (String, String, u64, u64, u64, u64);

impl From<StoredItem> for Item {
    fn from((key, uid, record, epoch, from, to): StoredItem) -> Self {
        Self {
            key,
            uid,
            record,
            epoch,
            from,
            to,
        }
    }
}

impl From<Item> for StoredItem {
    fn from(item: Item) -> Self {
        let Item {
            key,
            uid,
            record,
            epoch,
            from,
            to,
        } = item;
        (key, uid, record, epoch, from, to)
    }
}

/// An event that was deleted here. It is stored as a list of key and uid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub(crate) struct Deleted {
    pub(in crate::keep) key: String,
    pub(in crate::keep) uid: String,
}

impl From<(String, String)> for Deleted {
    fn from((key, uid): (String, String)) -> Self {
        Self { key, uid }
    }
}

impl From<Deleted> for (String, String) {
    fn from(deleted: Deleted) -> Self {
        (deleted.key, deleted.uid)
    }
}

impl Item {
    /// The version that was just added to a record.
    pub(crate) fn newest(key: &Bytes, record: &Record) -> Self {
        let Version {
            uid, epoch, number, ..
        } = &record.newest;
        Self {
            key: String::from_utf8_lossy(key).into_owned(),
            uid: uid.to_string(),
            record: record.chunks,
            epoch: *epoch,
            from: *number,
            to: *number,
        }
    }
}

/// The journal of a cluster. It gets entries while something reads them: a sealer or a named
/// cursor.
pub(crate) struct Journal {
    /// The number of the next entry.
    pub(in crate::keep) next: AtomicU64,
    /// Held for reading from the choice of a number until the entry with it is written.
    pub(in crate::keep) gate: RwLock<()>,
    /// About how many versions wait.
    pub(in crate::keep) waiting: AtomicU64,
    cursor: Mutex<Cursor>,
    /// The lock is held while the cursor is stored.
    pub(in crate::keep) stored: tokio::sync::Mutex<LastStored>,
    /// The named cursors. The lock is not held across an await.
    pub(in crate::keep) consumers: parking_lot::Mutex<BTreeMap<CursorName, Consumer>>,
    /// What was added since the journal was opened, with what was there.
    added: parking_lot::Mutex<Amount>,
    /// Entries before this one are deleted.
    pub(in crate::keep) trimmed: AtomicU64,
    /// The number of the next handle of a named cursor.
    pub(in crate::keep) handles: AtomicU64,
    /// Notified when entries were added.
    pub(in crate::keep) news: watch::Sender<()>,
    /// Why the last attempt to seal failed, if it did.
    failure: Mutex<Option<NotSealed>>,
    /// Bytes of the archive's newest manifest; 0 if that is not known.
    pub(in crate::keep) manifest_bytes: AtomicU64,
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
    pub(in crate::keep) fn new(next: u64, cursor: Cursor, mark: u64) -> Self {
        Self {
            next: AtomicU64::new(next),
            gate: RwLock::new(()),
            waiting: AtomicU64::new(0),
            cursor: Mutex::new(cursor),
            stored: tokio::sync::Mutex::new(LastStored::of(mark)),
            consumers: parking_lot::Mutex::default(),
            added: parking_lot::Mutex::default(),
            trimmed: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            news: watch::Sender::new(()),
            failure: Mutex::default(),
            manifest_bytes: AtomicU64::new(0),
        }
    }

    /// Why the last attempt to seal failed. The lock is not held across an await.
    pub(in crate::keep) fn failure(&self) -> MutexGuard<'_, Option<NotSealed>> {
        self.failure.lock()
    }

    /// Wakes the consumers that wait for entries.
    pub(crate) fn wake(&self) {
        self.news.send_replace(());
    }

    /// The number of the next entry.
    pub(in crate::keep) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// What was added.
    pub(in crate::keep) fn added(&self) -> Amount {
        *self.added.lock()
    }

    /// Counts as added what was there at opening.
    pub(in crate::keep) fn add_amount(&self, amount: Amount) {
        let mut added = self.added.lock();
        *added = added.plus(amount);
    }

    /// Whether the cluster is or was sealed.
    pub(in crate::keep) fn is_sealed(&self) -> bool {
        !self.cursor().is_none()
    }

    /// The sealer's cursor. The lock is not held across an await.
    pub(in crate::keep) fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock()
    }
}

/// What a commit adds to the journal.
#[derive(Debug)]
pub(in crate::keep) struct Added {
    entries: Range<u64>,
    /// Versions that wait to be sealed.
    versions: u64,
    amount: Amount,
    expires_at: Option<UnixMillis>,
}

/// The entries that a commit has. No state of the journal is read while it is held.
pub(in crate::keep) struct Numbered<'a> {
    _gate: RwLockReadGuard<'a, ()>,
    added: Added,
}

impl Numbered<'_> {
    /// Whether there are entries.
    pub(in crate::keep) fn is_some(&self) -> bool {
        !self.added.entries.is_empty()
    }
}

impl Journal {
    /// Adds the journal's entries to some writes, if somebody reads them. What is returned is held
    /// until these are written.
    pub(in crate::keep) async fn tell(
        &self,
        (items, gaps): (&[Item], &[Gap]),
        end: Option<UnixMillis>,
        now: UnixMillis,
        writes: &mut Vec<Write>,
    ) -> Numbered<'_> {
        let gate = self.gate.read().await;
        let has_cursors = !self.consumers.lock().is_empty();
        let is_kept = end.is_some_and(|end| end > now) && (has_cursors || self.is_sealed());
        let items = if is_kept { items } else { &[] };
        let gaps = if has_cursors { gaps } else { &[] };
        let mut expires_at = end.map(expiry);
        if has_cursors {
            let counted = UnixMillis(now.0.saturating_add(COUNTED_MILLIS));
            expires_at = Some(expires_at.unwrap_or(counted).max(counted));
        }
        Numbered {
            _gate: gate,
            added: self.add(items, gaps, expires_at, writes),
        }
    }

    /// Gives the numbers back of a commit that was refused. If others were given since, empty
    /// entries take them, so that no reader misses one.
    pub(in crate::keep) async fn take_back(
        &self,
        store: &EmbeddedStore,
        refused: Numbered<'_>,
        why: &WriteError,
    ) {
        let Range { start, end } = refused.added.entries;
        if start == end || matches!(why, WriteError::Fault(Fault::Unknown(_))) {
            return;
        }
        self.count_less(refused.added.versions);
        {
            let mut added = self.added.lock();
            *added = added.minus(refused.added.amount);
        }
        let order = Ordering::Relaxed;
        if self.next.compare_exchange(end, start, order, order).is_ok() {
            return;
        }
        let empty = (start..end).map(|number| {
            let mut record = NewRecord::new(json::<[Item]>(&[]));
            record.expires_at = refused.added.expires_at;
            Write::put(keys::unsealed(number), record)
        });
        if let Err(error) = store.write_all(empty.collect()).await {
            tracing::debug!(%error, "numbers of the feed are not used");
        }
    }

    /// Counts fewer versions as waiting.
    pub(in crate::keep) fn count_less(&self, versions: u64) {
        let less = |waiting: u64| Some(waiting.saturating_sub(versions));
        // It always is something.
        let _ = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Notes that an event was deleted here, and that sealed files may have versions of it.
    pub(in crate::keep) fn erase(id: &[u8], key: &Bytes, uid: &str) -> Write {
        let text = String::from_utf8_lossy(key).into_owned();
        let record = NewRecord::new(json(&Deleted {
            key: text,
            uid: uid.to_owned(),
        }));
        Write::put(keys::unerased(id), record)
    }

    /// Adds entries with these items; first an empty one for gaps, if there are any.
    pub(in crate::keep) fn add(
        &self,
        items: &[Item],
        gaps: &[Gap],
        expires_at: Option<UnixMillis>,
        writes: &mut Vec<Write>,
    ) -> Added {
        let mut entries: Vec<&[Item]> = items.chunks(ENTRY_MAX).collect();
        if !gaps.is_empty() {
            entries.insert(0, &[]);
        }
        let number = entries.len() as u64;
        let start = self.next.fetch_add(number, Ordering::Relaxed);
        let versions = items.len() as u64;
        self.waiting.fetch_add(versions, Ordering::Relaxed);
        let mut put = |key, value| {
            let mut record = NewRecord::new(value);
            record.expires_at = expires_at;
            writes.push(Write::put(key, record));
        };
        if !gaps.is_empty() {
            let gaps: Vec<_> = gaps.iter().map(StoredGap::from).collect();
            put(keys::feed_gaps(start), json(&gaps));
        }
        let mut total = Amount::default();
        for (number, items) in (start..).zip(entries) {
            let value = json(items);
            total = total.plus(amount(items, value.len()));
            put(keys::unsealed(number), value);
        }
        self.add_amount(total);
        Added {
            entries: start..start + number,
            versions,
            amount: total,
            expires_at,
        }
    }
}

/// What an entry with these items and this length adds to a backlog.
pub(in crate::keep) fn amount(items: &[Item], bytes: usize) -> Amount {
    Amount {
        versions: items.iter().filter(|item| item.is_version()).count() as u64,
        bytes: bytes as u64,
    }
}

/// When an entry expires whose versions do.
pub(in crate::keep) fn expiry(end: UnixMillis) -> UnixMillis {
    UnixMillis(end.0.saturating_add(LONGER_MILLIS))
}

impl Item {
    /// All versions that one of an event's records has now. Records before the newest one get no
    /// more versions, and do not move.
    pub(in crate::keep) fn all(key: &Bytes, newest: &Record, number: u64) -> Self {
        let mut item = Self::newest(key, newest);
        item.from = 0;
        if number != item.record {
            item.record = number;
            item.epoch = ANY_EPOCH;
            item.to = u64::MAX;
        }
        item
    }

    /// Whether it names one version, as those of new versions do.
    pub(in crate::keep) fn is_version(&self) -> bool {
        self.epoch != ANY_EPOCH && self.from == self.to
    }

    pub(in crate::keep) fn has(&self, version: &Version) -> bool {
        (self.epoch == ANY_EPOCH || self.epoch == version.epoch)
            && (self.from..=self.to).contains(&version.number)
    }
}

/// Stands for every epoch; no source goes back that often.
pub(in crate::keep) const ANY_EPOCH: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::json::parse;

    /// Programs of other versions read and write the same folder.
    #[test]
    fn entries_are_stored_as_lists() {
        let item = Item {
            key: "shop/web".into(),
            uid: "u".into(),
            record: 2,
            epoch: 1,
            from: 7,
            to: 9,
        };
        let list = br#"["shop/web","u",2,1,7,9]"#;
        assert_eq!(
            (&*json(&item), parse::<Item>(list).unwrap()),
            (&list[..], item)
        );
        let deleted = Deleted {
            key: "shop/web".into(),
            uid: "u".into(),
        };
        let list = br#"["shop/web","u"]"#;
        assert_eq!(
            (&*json(&deleted), parse::<Deleted>(list).unwrap()),
            (&list[..], deleted)
        );
    }
}
