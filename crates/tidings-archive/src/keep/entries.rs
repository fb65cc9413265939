//! Reads the entries of the feed, moves and stores the sealer's cursor, and deletes entries.

use bytes::Bytes;
use tidings_store::embedded::EmbeddedStore;
use tidings_store::{
    Expected, Fault, ListRequest, NewRecord, ReadError, Record, Store, Write, WriteError,
};

use super::cursor::LastStored;
use super::error::KeepError;
use super::journal::{Item, Journal};
use super::keys;
use super::own::{json, parse};

/// Number of entries that are read at once.
const ENTRIES_READ: usize = 500;

impl Journal {
    /// Moves the sealer's cursor, stores it, and deletes the entries that may be.
    pub(super) async fn advance(
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
        let stored = self.store(store, 0).await;
        if let Err(WriteError::Fault(Fault::NoSpace)) = stored {
            // Room is more important than entries for readers. What is sealed is known from the
            // manifest, too.
            let mut cursor = self.cursor();
            cursor.first = cursor.first.max(cursor.sealed);
        }
        self.trim(store).await?;
        Ok(stored?)
    }

    /// Stores the cursor, and a mark of at least a number, unless both are stored already.
    pub(super) async fn store(&self, store: &EmbeddedStore, mark: u64) -> Result<(), WriteError> {
        let mut last = self.stored.lock().await;
        let mark = mark.max(last.mark);
        let cursor = self.cursor().stored();
        if (last.mark, last.cursor) == (mark, Some(cursor)) {
            return Ok(());
        }
        let writes = vec![
            Write::put(keys::SEALED, NewRecord::new(json(&mark))),
            Write::put(keys::FEED, NewRecord::new(json(&cursor))),
        ];
        store.write_all(writes).await?;
        *last = LastStored {
            mark,
            cursor: Some(cursor),
        };
        Ok(())
    }

    /// Deletes the entries that are no longer needed.
    pub(super) async fn trim(&self, store: &EmbeddedStore) -> Result<(), KeepError> {
        let floor = self.cursor().floor();
        loop {
            let page = entries(store, None).await?;
            let over = page.iter().filter(|(number, _)| *number < floor);
            let deletes = over.map(|(_, entry)| {
                Write::delete(entry.key.clone()).expecting(Expected::At(entry.revision))
            });
            let deletes: Vec<_> = deletes.collect();
            if deletes.is_empty() {
                return Ok(());
            }
            match store.write_all(deletes).await {
                // An error: one of the entries expired.
                Ok(_) | Err(WriteError::NotFound | WriteError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Counts the versions in the entries from a number on and before `to`. Also returns the number
/// after the last of these entries; zero if there is none.
pub(super) async fn count(
    store: &EmbeddedStore,
    from: u64,
    to: u64,
) -> Result<(u64, u64), ReadError> {
    let (mut versions, mut end) = (0, 0);
    let mut after = from.checked_sub(1).map(keys::unsealed);
    loop {
        let page = entries(store, after).await?;
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
pub(super) async fn entries(
    store: &EmbeddedStore,
    after: Option<Bytes>,
) -> Result<Vec<(u64, Record)>, ReadError> {
    let mut request = ListRequest::prefix(keys::UNSEALED).limit(ENTRIES_READ);
    request.after = after;
    let found = store.list(request).await?.records.into_iter();
    let numbered = found.map(|entry| Ok((keys::unsealed_number(&entry.key)?, entry)));
    numbered.collect()
}

pub(super) fn items(value: &[u8]) -> Result<Vec<Item>, ReadError> {
    Ok(parse(value)?)
}
