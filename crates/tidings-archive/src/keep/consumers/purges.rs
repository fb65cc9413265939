//! Events that were deleted here and may still be in sealed files. They are noted in the commit
//! that deletes them, until no file has any of their versions.
//!
//! Invariant: once an event is noted, no more versions of it are read to be sealed.

use bytes::Bytes;
use tidings_store::{
    Expected, ListRequest, ReadError, Revision, Store, WRITES_MAX, Write, WriteError,
};

use super::sealer::{JournalError, Unsealed};
use crate::keep::feed::Deleted;
use crate::keep::json::parse;
use crate::keep::keys;

/// An event that was deleted here, and may still be in sealed files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unerased {
    /// Its namespace and name here, as `namespace/name`. An older event whose name was used again
    /// has the name that it was given then.
    pub key: String,
    /// Its uid.
    pub uid: String,
    /// The key of the note.
    mark: Bytes,
    /// The revision of the note.
    revision: Revision,
}

impl Unsealed {
    /// The events that were deleted here and may still be in files: those after a given one, and at
    /// most this number.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn unerased(
        &self,
        after: Option<&Unerased>,
        max: usize,
    ) -> Result<Vec<Unerased>, JournalError> {
        let mut request = ListRequest::prefix(keys::UNERASED).limit(max);
        request.after = after.map(|after| after.mark.clone());
        let page = self.keeper.store.list(request).await?;
        let found = page.records.into_iter().map(|found| {
            let Deleted { key, uid } = parse(&found.value)?;
            Ok(Unerased {
                key,
                uid,
                mark: found.key,
                revision: found.revision,
            })
        });
        let found: Result<Vec<_>, ReadError> = found.collect();
        Ok(found?)
    }

    /// Removes the notes of these events, since no file has them any more. The note of an event
    /// that was deleted again meanwhile stays.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn erased(&self, events: &[Unerased]) -> Result<(), JournalError> {
        for some in events.chunks(WRITES_MAX) {
            let writes = some.iter().map(delete).collect();
            match self.keeper.store.write_all(writes).await {
                // One of the events was deleted again, or its note is gone.
                Err(WriteError::NotFound | WriteError::Conflict { .. }) => {
                    self.erased_each(some).await?;
                }
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// Removes the notes one by one.
    async fn erased_each(&self, events: &[Unerased]) -> Result<(), JournalError> {
        for event in events {
            match self.keeper.store.write_all(vec![delete(event)]).await {
                Ok(_) | Err(WriteError::NotFound | WriteError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn delete(event: &Unerased) -> Write {
    Write::delete(event.mark.clone()).expecting(Expected::At(event.revision))
}
