//! New occurrences of each version, for consumers of the feed.
//!
//! Invariant: the occurrences of an event's versions, from one on, add up to its last count minus
//! the count before that version, whichever of them a consumer reads.

use tidings_api::codec;
use tidings_api::codec::stored::StoredEvent;
use tidings_history::Version;
use tidings_store::{ReadError, Store};

use crate::keep::feed::Item;
use crate::keep::keys;
use crate::keep::versions::Keeper;
use crate::version::record::Record;

impl Keeper {
    /// Reads the versions that an item names, oldest first. Each has the occurrences since the
    /// event's version before it.
    pub(super) async fn occurrences_of(
        &self,
        item: &Item,
    ) -> Result<Vec<(Version, u64)>, ReadError> {
        let (former, mut found, record) = self.versions_after(item).await?;
        let mut before = match former {
            Some(former) => Some(count(&former)),
            None if found.is_empty() => None,
            None => {
                self.count_before(&keys::id(&item.uid, item.key.as_bytes()), record)
                    .await?
            }
        };
        found.reverse();
        let counted = found.into_iter().map(|version| {
            let count = count(&version);
            let occurrences = count.saturating_sub(before.replace(count).unwrap_or(count - 1));
            (version, occurrences)
        });
        Ok(counted.collect())
    }

    /// Returns the count of the last version before a record of an event: 0 for its first record.
    /// `None` if that version has expired.
    pub(super) async fn count_before(
        &self,
        id: &[u8],
        record: u64,
    ) -> Result<Option<u64>, ReadError> {
        let Some(former) = record.checked_sub(1) else {
            return Ok(Some(0));
        };
        let stored = self.store.get(keys::chunk(id, former)).await?;
        let record = stored.and_then(|stored| Record::decode(&stored.value).ok());
        Ok(record.map(|record| count(&record.newest)))
    }
}

/// Returns how often the event of a version occurred so far, at least once.
pub(super) fn count(version: &Version) -> u64 {
    let stored = StoredEvent::open(&version.event, version.number);
    if let Some(brief) = stored.and_then(|stored| stored.brief()) {
        return brief.count;
    }
    let event = codec::decode_stored(&version.event, version.number).unwrap_or_default();
    let series = event.series.map(|series| series.count());
    let count = series.unwrap_or(event.count.unwrap_or(1));
    u64::try_from(count).unwrap_or(0).max(1)
}
