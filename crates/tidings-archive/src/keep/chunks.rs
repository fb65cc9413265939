//! Deletes the older versions of events.

use bytes::Bytes;
use tidings_store::{ListRequest, Store, WRITES_MAX, Write, WriteError};

use super::keeper::{Batch, KeepError, Keeper};
use super::keys;

impl Keeper {
    /// Deletes the older versions of the events that a batch deletes: first, so that none remains
    /// without its event.
    pub(super) async fn delete_chunks_of(&self, batch: &Batch) -> Result<(), KeepError> {
        for chunks in &batch.without_chunks {
            self.delete_below(chunks).await?;
        }
        Ok(())
    }

    /// Deletes the older versions of an event. Returns their bytes.
    pub(crate) async fn delete_chunks(&self, id: &[u8]) -> Result<u64, KeepError> {
        self.delete_below(&keys::chunks(id)).await
    }

    pub(super) async fn delete_below(&self, prefix: &Bytes) -> Result<u64, KeepError> {
        let mut bytes = 0;
        loop {
            let chunks = ListRequest::prefix(prefix.clone()).limit(WRITES_MAX);
            let chunks = self.store.list(chunks).await?.records;
            if chunks.is_empty() {
                return Ok(bytes);
            }
            bytes += chunks
                .iter()
                .map(|chunk| chunk.value.len() as u64)
                .sum::<u64>();
            let deletes = chunks.into_iter().map(|chunk| Write::delete(chunk.key));
            match self.store.write_all(deletes.collect()).await {
                // One of them expired.
                Ok(_) | Err(WriteError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
