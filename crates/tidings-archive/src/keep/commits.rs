//! Manifests that this store writes to an archive on object storage, noted before they are written:
//! by these a store that was restored from a copy is told from the one that sealed since.
//!
//! Invariants: a manifest is noted, with the entry up to which it seals and the checksum of its
//! bytes, before it is put into the bucket; again once it is there, before an entry that it seals
//! is taken out of the journal. So the newest manifest there is the last one that was followed, or
//! one of those noted to follow it, whose request may have been held up. If it is another one, or
//! has other bytes, the store is older than the bucket, the bucket older than the store, or the
//! manifest forged: nothing that it says is believed. A store restored from a copy never has what
//! was noted since, however far its own entries get.

use serde::{Deserialize, Serialize};
use tidings_store::{ListRequest, NewRecord, ReadError, Store, Write};

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
    /// The checksum of its bytes; empty if it was noted by a program that did not note this.
    #[serde(default)]
    pub checksum: String,
}

impl Commit {
    /// Whether a manifest is the one that was noted here.
    fn is_of(&self, manifest: &Self) -> bool {
        let has_same_bytes = self.checksum.is_empty() || self.checksum == manifest.checksum;
        let named = |commit: &Self| (commit.number, commit.id.clone(), commit.sealed_through);
        has_same_bytes && named(self) == named(manifest)
    }
}

/// What is noted of an archive.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Commits {
    /// The manifest that was followed last.
    last: Commit,
    /// Those that may follow it, the latest attempt last.
    begun: Vec<Commit>,
}

impl Commits {
    /// Of an archive; `None` if the store never wrote a manifest of it.
    pub(super) async fn read(store: &dyn Store, archive: &str) -> Result<Option<Self>, ReadError> {
        let found = store.get(keys::commits(archive)).await?;
        Ok(found.map(|found| parse(&found.value)).transpose()?)
    }

    /// Whether an archive whose newest manifest is this one has lost a later one.
    pub(super) fn are_behind(&self, newest: &Commit) -> bool {
        self.last.number > newest.number
            || self.last.number == newest.number && !self.last.is_of(newest)
    }
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
        let noted = Commits::read(&*self.keeper.store, archive).await?;
        let noted = noted.unwrap_or_default();
        let mut begun = noted.begun;
        if !noted.last.is_of(last) {
            begun.clear();
        }
        begun.push(next);
        let over = begun.len().saturating_sub(BEGUN_MAX);
        begun.drain(..over);
        let last = last.clone();
        self.note_commits(archive, &Commits { last, begun }).await
    }

    /// Notes that a manifest is there, before anything that it seals is taken out of the journal:
    /// one before it is not continued any more.
    ///
    /// # Errors
    /// Those of the store: nothing may be taken out.
    pub async fn end_commit(&self, archive: &str, done: &Commit) -> Result<(), JournalError> {
        let noted = Commits::read(&*self.keeper.store, archive).await?;
        if noted.is_some_and(|noted| noted.last == *done && noted.begun.is_empty()) {
            return Ok(());
        }
        let (last, begun) = (done.clone(), Vec::new());
        self.note_commits(archive, &Commits { last, begun }).await
    }

    async fn note_commits(&self, archive: &str, commits: &Commits) -> Result<(), JournalError> {
        let write = Write::put(keys::commits(archive), NewRecord::new(json(commits)));
        self.keeper.store.write_all(vec![write]).await?;
        Ok(())
    }

    /// Whether this store may continue behind a manifest that names it: it noted to write it. Of an
    /// archive without an identity, as the first versions of this program wrote them, only the
    /// entry is known, which this store has to have given out to be sealed; and such a program
    /// noted no manifest, so that a store that noted one does not continue it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn has_committed(
        &self,
        archive: Option<&str>,
        newest: &Commit,
    ) -> Result<bool, JournalError> {
        let Some(archive) = archive else {
            let noted = ListRequest::prefix(keys::COMMITS).limit(1);
            let has_noted = !self.keeper.store.list(noted).await?.records.is_empty();
            return Ok(!has_noted && newest.sealed_through <= self.given().await?);
        };
        let noted = Commits::read(&*self.keeper.store, archive).await?;
        Ok(noted.is_some_and(|noted| {
            let mut all = noted.begun.iter().chain([&noted.last]);
            all.any(|noted| noted.is_of(newest))
        }))
    }
}
