//! Deletes the chunks with older versions of events.
//!
//! Invariant: the chunks of an event are deleted in the commit that deletes the event, or later. If
//! there are too many for one commit, the commit notes the event, and they are deleted at the next
//! start at the latest.

use bytes::Bytes;
use tidings_store::{
    Expected, ListRequest, NewRecord, ReadError, Record, Revision, Store, Write, WriteError,
};

use super::keeper::{KeepError, Keeper, is_of_others};
use crate::keep::keys;

/// Chunks read per page.
const PAGE: usize = 1000;

/// The writes that delete chunks in the same commit as their events.
#[derive(Debug, Default)]
pub(in crate::keep) struct DeletesOfChunks {
    pub(in crate::keep) writes: Vec<Write>,
    /// Bytes of these chunks.
    pub(in crate::keep) bytes: u64,
    /// Prefixes of chunks for which the commit had no room.
    pub(in crate::keep) left: Vec<Bytes>,
}

impl Keeper {
    /// The writes that delete the chunks under these prefixes, as many as there is room for. Each
    /// prefix takes at least one write, so there must be room for one each.
    pub(in crate::keep) async fn deletes_of_chunks(
        &self,
        prefixes: impl IntoIterator<Item = Bytes, IntoIter: ExactSizeIterator>,
        room: usize,
    ) -> Result<DeletesOfChunks, ReadError> {
        let mut deletes = DeletesOfChunks::default();
        let prefixes = prefixes.into_iter();
        let mut others = prefixes.len();
        for prefix in prefixes {
            others -= 1;
            let mut after = prefix.clone();
            loop {
                let taken = deletes.writes.len() + others;
                let free = room.saturating_sub(taken);
                let found = self.chunks(&prefix, after, free.clamp(1, PAGE)).await?;
                let Some(last) = found.last() else {
                    break;
                };
                if free <= found.len() {
                    let left = NewRecord::new(prefix.clone());
                    deletes.writes.push(Write::put(keys::left(&prefix), left));
                    deletes.left.push(prefix);
                    break;
                }
                after = last.key.clone();
                deletes.bytes += bytes(&found);
                deletes.writes.extend(found.iter().map(delete));
            }
        }
        Ok(deletes)
    }

    /// After the commit of [`DeletesOfChunks`]: deletes the chunks for which it had no room.
    /// Returns their number of bytes. If this fails, it is logged, and the next start deletes them.
    pub(in crate::keep) async fn delete_left(&self, left: &[Bytes], committed: &[Revision]) -> u64 {
        let mut bytes = 0;
        let committed = committed.iter().copied().max().unwrap_or(0);
        for prefix in left {
            match self.delete_chunks_before(prefix, committed).await {
                Ok(deleted) => bytes += deleted,
                Err(error) => tracing::warn!(
                    %error,
                    "older versions of a deleted event are deleted only at the next start"
                ),
            }
        }
        bytes
    }

    /// When the store is opened, deletes the chunks that an earlier process did not get to.
    pub(crate) async fn delete_all_left(&self) -> Result<(), KeepError> {
        for left in self
            .store
            .list(ListRequest::prefix(keys::LEFT))
            .await?
            .records
        {
            self.delete_chunks_before(&left.value, left.revision)
                .await?;
        }
        Ok(())
    }

    /// Deletes the chunks under a prefix that are older than a commit. The event may have been
    /// observed again since then, and have newer chunks.
    async fn delete_chunks_before(
        &self,
        prefix: &Bytes,
        committed: Revision,
    ) -> Result<u64, KeepError> {
        let (mut all, mut after) = (0, prefix.clone());
        loop {
            let found = self.chunks(prefix, after.clone(), PAGE).await?;
            let Some(last) = found.last().map(|last| last.key.clone()) else {
                break;
            };
            let old = found.iter().filter(|chunk| chunk.revision < committed);
            let deletes: Vec<_> = old.clone().map(delete).collect();
            if !deletes.is_empty() {
                match self.store.write_all(deletes).await {
                    Ok(_) => {}
                    // One of the chunks expired or was written again. The next page no longer lists
                    // it.
                    Err(error) if is_of_others(&error) => continue,
                    Err(error) => return Err(error.into()),
                }
                all += old.map(|chunk| chunk.value.len() as u64).sum::<u64>();
            }
            after = last;
        }
        let done = Write::delete(keys::left(prefix));
        match self.store.write_all(vec![done]).await {
            Ok(_) | Err(WriteError::NotFound) => Ok(all),
            Err(error) => Err(error.into()),
        }
    }

    async fn chunks(
        &self,
        prefix: &Bytes,
        after: Bytes,
        limit: usize,
    ) -> Result<Vec<Record>, ReadError> {
        let chunks = ListRequest::prefix(prefix.clone())
            .after(after)
            .limit(limit);
        Ok(self.store.list(chunks).await?.records)
    }
}

fn delete(chunk: &Record) -> Write {
    Write::delete(chunk.key.clone()).expecting(Expected::At(chunk.revision))
}

fn bytes(chunks: &[Record]) -> u64 {
    chunks.iter().map(|chunk| chunk.value.len() as u64).sum()
}
