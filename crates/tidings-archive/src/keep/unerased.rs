//! Events that were deleted here and may still be in files that were sealed: noted in the commit
//! that deletes them, until no file has any of their versions.
//!
//! Invariant: once an event is noted, nothing more of it is read to be sealed.

use bytes::Bytes;
use tidings_store::{
    Expected, ListRequest, ReadError, Revision, Store, WRITES_MAX, Write, WriteError,
};

use super::journal::Deleted;
use super::keys;
use super::own::parse;
use super::unsealed::{JournalError, Unsealed};

/// An event that was deleted here, and may still be in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unerased {
    /// Its namespace and name, as `namespace/name`. An elder one has the name that it had here.
    pub key: String,
    /// Its uid.
    pub uid: String,
    /// Where that is noted.
    mark: Bytes,
    /// The version of the note.
    revision: Revision,
}

impl Unsealed {
    /// Events that were deleted here and may still be in files: behind one of them, and at most as
    /// many.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn unerased(
        &self,
        after: Option<&Unerased>,
        max: usize,
    ) -> Result<Vec<Unerased>, JournalError> {
        let mut request = ListRequest::prefix(keys::UNERASED).limit(max);
        request.after = after.map(|after| after.mark.clone());
        let page = self.keeper.store.list(request).await?;
        let found = page.records.into_iter().map(|found| {
            let Deleted(key, uid) = parse(&found.value)?;
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

    /// No file has any of these. What was deleted again meanwhile stays noted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn erased(&self, events: &[Unerased]) -> Result<(), JournalError> {
        for some in events.chunks(WRITES_MAX) {
            let writes = some.iter().map(delete).collect();
            match self.keeper.store.write_all(writes).await {
                // One of them was.
                Err(WriteError::NotFound | WriteError::Conflict { .. }) => {
                    self.erased_each(some).await?;
                }
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// The same, each by itself.
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
