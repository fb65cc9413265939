//! Reads the entries of the feed, stores cursors, and deletes the entries that none of them needs.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidings_history::CursorName;
use tidings_store::embedded::EmbeddedStore;
use tidings_store::{
    Expected, Fault, ListRequest, NewRecord, Page, ReadError, Record, Store, Write, WriteError,
};

use super::cursors::{Amount, Consumer, Stored};
use super::journal::{Item, Journal, amount};
use super::sealer_cursor::LastStored;
use crate::keep::error::KeepError;
use crate::keep::json::{json, parse};
use crate::keep::keys;

/// Number of entries that are read at once.
const ENTRIES_READ: usize = 500;
/// Number of records of gaps that are deleted at once.
const PAGE: usize = 100;

impl Journal {
    /// Moves the sealer's cursor, stores it, and deletes the entries that may be.
    pub(in crate::keep) async fn advance(
        &self,
        store: &EmbeddedStore,
        through: u64,
    ) -> Result<(), KeepError> {
        let from = self.cursor().sealed;
        // Counted before the cursor moves, so that a call that failed can be repeated.
        let versions = if through > from {
            count(store, from, through).await?.0
        } else {
            0
        };
        self.cursor().advance(through);
        self.count_less(versions);
        self.store(store, 0).await?;
        self.trim(store).await
    }

    /// The number of the first entry that the sealer has not read yet; 0 if the cluster is not
    /// sealed.
    pub(in crate::keep) fn given(&self) -> u64 {
        let cursor = *self.cursor();
        if cursor.is_none() { 0 } else { cursor.given }
    }

    /// Stores that the entries before a number were given to be sealed, with the cursor. If the
    /// disk is full, the entries of the last seal are deleted: room is more important than entries
    /// for readers, and what is sealed is known from the manifest, too.
    pub(in crate::keep) async fn store(
        &self,
        store: &EmbeddedStore,
        given: u64,
    ) -> Result<(), KeepError> {
        let mut last = self.stored.lock().await;
        {
            let mut cursor = self.cursor();
            cursor.given = cursor.given.max(given);
        }
        let stored = self.write_with(store, &mut last, given, Vec::new()).await;
        if let Err(WriteError::Fault(Fault::NoSpace)) = stored {
            {
                let mut cursor = self.cursor();
                cursor.first = cursor.first.max(cursor.sealed);
            }
            self.trim(store).await?;
        }
        Ok(stored?)
    }

    /// Does some writes in one commit with the sealer's cursor and a mark of at least a number,
    /// unless these are stored already.
    pub(in crate::keep) async fn write_with(
        &self,
        store: &EmbeddedStore,
        last: &mut LastStored,
        mark: u64,
        mut writes: Vec<Write>,
    ) -> Result<(), WriteError> {
        let cursor = *self.cursor();
        // Numbers before the cursor are not used again.
        let sealed = if cursor.is_none() { 0 } else { cursor.sealed };
        let (mark, cursor) = (mark.max(last.mark).max(sealed), cursor.stored());
        if (last.mark, last.cursor) != (mark, Some(cursor)) {
            writes.push(Write::put(keys::SEALED, NewRecord::new(json(&mark))));
            writes.push(Write::put(keys::FEED, NewRecord::new(json(&cursor))));
        }
        if writes.is_empty() {
            return Ok(());
        }
        store.write_all(writes).await?;
        *last = LastStored {
            mark,
            cursor: Some(cursor),
        };
        Ok(())
    }

    /// Entries before this one are needed by no cursor.
    fn floor(&self) -> u64 {
        // A cursor that is added meanwhile begins at this number or later.
        let next = self.next();
        let consumers = self.consumers.lock();
        let named = consumers.values().map(|consumer| consumer.stored.through);
        let named = named.min().unwrap_or(u64::MAX);
        next.min(named).min(self.cursor().floor())
    }

    /// Deletes the entries that no cursor needs, with their gaps.
    pub(in crate::keep) async fn trim(&self, store: &EmbeddedStore) -> Result<(), KeepError> {
        let floor = self.floor();
        let trimmed = self.trimmed.load(Ordering::Relaxed);
        if floor <= trimmed {
            return Ok(());
        }
        // What was deleted lies before this, and a store is slow to pass over it.
        let mut after = keys::before(trimmed);
        let most = usize::try_from(floor - trimmed).unwrap_or(usize::MAX);
        let most = most.min(ENTRIES_READ);
        loop {
            let page = numbered(store.list(request(after.clone()).limit(most)).await?)?;
            let over = page.iter().filter(|(number, _)| *number < floor);
            let deletes = over.map(|(_, entry)| {
                Write::delete(entry.key.clone()).expecting(Expected::At(entry.revision))
            });
            let mut deletes: Vec<_> = deletes.collect();
            let request = ListRequest::prefix(keys::FEED_GAPS).limit(PAGE);
            let gaps = store.list(request).await?.records.into_iter();
            let gaps = gaps.filter(|gaps| gaps.key < keys::feed_gaps(floor));
            deletes.extend(gaps.map(|gaps| Write::delete(gaps.key)));
            if deletes.is_empty() {
                self.trimmed.store(floor, Ordering::Relaxed);
                return Ok(());
            }
            let last = page.iter().rev().find(|(number, _)| *number < floor);
            match store.write_all(deletes).await {
                Ok(_) => after = last.map(|(_, entry)| entry.key.clone()).or(after),
                // One of the entries expired.
                Err(WriteError::NotFound | WriteError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets the cursors when the journal is opened, and stores them if they changed.
    pub(in crate::keep) async fn set_consumers(
        &self,
        store: &EmbeddedStore,
        cursors: Vec<(CursorName, Stored)>,
        is_stored: bool,
    ) -> Result<(), KeepError> {
        let Some(first) = cursors.iter().map(|(_, stored)| stored.through).min() else {
            return Ok(());
        };
        if !is_stored {
            let mut last = self.stored.lock().await;
            let writes = cursors.iter().map(|(name, stored)| stored.write(name));
            self.write_with(store, &mut last, 0, writes.collect())
                .await?;
        }
        let consumers = cursors.into_iter().map(|(name, stored)| {
            let consumer = Consumer {
                stored,
                holder: None,
                passed: Amount::default(),
            };
            (name, consumer)
        });
        let mut consumers: Vec<_> = consumers.collect();
        let all = self.backlog(store, first).await?;
        for (_, consumer) in &mut consumers {
            let backlog = self.backlog(store, consumer.stored.through).await?;
            consumer.passed = all.minus(backlog);
        }
        self.add_amount(all);
        *self.consumers.lock() = consumers.into_iter().collect();
        Ok(())
    }

    /// Returns the amount of the entries from a number on.
    pub(in crate::keep) async fn backlog(
        &self,
        store: &EmbeddedStore,
        from: u64,
    ) -> Result<Amount, ReadError> {
        let mut all = Amount::default();
        let mut after = keys::before(from);
        loop {
            let page = entries(store, after).await?;
            let Some((_, last)) = page.last() else {
                return Ok(all);
            };
            after = Some(last.key.clone());
            for (_, entry) in &page {
                all = all.plus(amount(&items(&entry.value)?, entry.value.len()));
            }
        }
    }
}

/// Returns how many versions the entries name, those among them that a clock hides, whose numbers
/// are at least `from` and less than `to`, and the number that follows the last of these entries,
/// or zero if there is no such entry.
pub(in crate::keep) async fn count(
    store: &EmbeddedStore,
    from: u64,
    to: u64,
) -> Result<(u64, u64), ReadError> {
    let (mut versions, mut end) = (0, 0);
    let mut after = keys::before(from);
    loop {
        let page = confirmed_entries(store, after).await?;
        let Some((_, last)) = page.last() else {
            return Ok((versions, end));
        };
        after = Some(last.key.clone());
        for (number, entry) in page {
            if number >= to {
                return Ok((versions, end));
            }
            versions += items(&entry.value)?.len() as u64;
            end = number.saturating_add(1);
        }
    }
}

/// Reads the first entries, or those after a key, with their numbers.
pub(in crate::keep) async fn entries(
    store: &EmbeddedStore,
    after: Option<Bytes>,
) -> Result<Vec<(u64, Record)>, ReadError> {
    entries_up_to(store, after, ENTRIES_READ).await
}

/// Like [`entries`], but reads at most `most` entries, and at least one.
pub(in crate::keep) async fn entries_up_to(
    store: &EmbeddedStore,
    after: Option<Bytes>,
    most: usize,
) -> Result<Vec<(u64, Record)>, ReadError> {
    let most = most.clamp(1, ENTRIES_READ);
    numbered(store.list(request(after).limit(most)).await?)
}

/// Like [`entries`], with those that are hidden because the clock is ahead. When it is right again
/// they are there, so that their numbers must not be used again, and they are not sealed.
pub(in crate::keep) async fn confirmed_entries(
    store: &EmbeddedStore,
    after: Option<Bytes>,
) -> Result<Vec<(u64, Record)>, ReadError> {
    numbered(store.list_confirmed(request(after)).await?)
}

fn request(after: Option<Bytes>) -> ListRequest {
    let mut request = ListRequest::prefix(keys::UNSEALED).limit(ENTRIES_READ);
    request.after = after;
    request
}

fn numbered(page: Page) -> Result<Vec<(u64, Record)>, ReadError> {
    let found = page.records.into_iter();
    let numbered = found.map(|entry| Ok((keys::unsealed_number(&entry.key)?, entry)));
    numbered.collect()
}

pub(in crate::keep) fn items(value: &[u8]) -> Result<Vec<Item>, ReadError> {
    Ok(parse(value)?)
}
