//! Manifests that this store writes to an archive on object storage, noted before they are written:
//! by these a store that was restored from a copy is told from the one that sealed since.
//!
//! Invariants: a manifest is noted, with the entry up to which it seals, before it is put into the
//! bucket. So the newest manifest there is the last one that was followed, or one of those noted to
//! follow it, whose request may have been held up. If it is another one, the store is older than
//! the bucket, the bucket older than the store, or the manifest forged: nothing that it says is
//! believed. A store restored from a copy never has what was noted since, however far its own
//! entries get.

use serde::{Deserialize, Serialize};
use tidings_store::{NewRecord, ReadError, Store, Write};

use super::keys;
use super::own::{json, parse};
use super::unsealed::{JournalError, Unsealed};

/// Maximum manifests noted to follow the same one. A sealer makes four attempts a minute at most,
/// so that the request of an older one was given up a quarter of an hour ago.
const BEGUN_MAX: usize = 100;

/// What a store knows of a manifest of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// The manifest's number.
    pub number: u64,
    /// Its random id.
    pub id: String,
    /// The journal's entries in front of this one are sealed by it.
    pub sealed_through: u64,
}

/// What is noted of an archive.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Commits {
    /// The manifest that was followed last.
    last: Commit,
    /// Those that may follow it, the latest attempt last.
    begun: Vec<Commit>,
}

impl Unsealed {
    /// Notes that a manifest is about to be written behind another one of the archive.
    ///
    /// # Errors
    /// Those of the store: the manifest must not be written.
    pub async fn begin_commit(
        &self,
        archive: &str,
        last: &Commit,
        next: Commit,
    ) -> Result<(), JournalError> {
        let noted = self.commits(archive).await?.unwrap_or_default();
        let mut begun = noted.begun;
        if noted.last != *last {
            begun.clear();
        }
        begun.push(next);
        let over = begun.len().saturating_sub(BEGUN_MAX);
        begun.drain(..over);
        let last = last.clone();
        let record = NewRecord::new(json(&Commits { last, begun }));
        let write = Write::put(keys::commits(archive), record);
        self.keeper.store.write_all(vec![write]).await?;
        Ok(())
    }

    /// Whether this store may continue behind a manifest that names it: it noted to write it. Of an
    /// archive without an identity, as former versions of this program wrote them, only the entry
    /// is known, which this store has to have given out to be sealed.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn has_committed(
        &self,
        archive: Option<&str>,
        newest: &Commit,
    ) -> Result<bool, JournalError> {
        let Some(archive) = archive else {
            return Ok(newest.sealed_through <= self.given().await?);
        };
        let noted = self.commits(archive).await?;
        Ok(noted.is_some_and(|noted| noted.last == *newest || noted.begun.contains(newest)))
    }

    async fn commits(&self, archive: &str) -> Result<Option<Commits>, ReadError> {
        let found = self.keeper.store.get(keys::commits(archive)).await?;
        Ok(found.map(|found| parse(&found.value)).transpose()?)
    }
}
