//! Notes in the store each manifest that the archive is about to write to object storage. With
//! these notes, a store that was restored from a copy differs from the one that went on sealing.
//!
//! Invariants: a manifest is noted before it is put into the bucket, with the checksum of its bytes
//! and the journal's entry up to which it seals. It is noted again when it is there, before an
//! entry that it seals is removed from the journal. So the newest manifest in the bucket is the
//! last one that was completed, or one of those noted to follow it, whose request may have been
//! delayed. If it is another one, or has other bytes, then the store is older than the bucket, or
//! the bucket is older than the store, or the manifest is forged, and nothing in it is used. A
//! store restored from a copy never has the notes that were made after the copy, however many
//! entries it writes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_store::{ListRequest, NewRecord, ReadError, Store, Write};

use super::sealer::{JournalError, Unsealed};
use crate::keep::json::{json, parse};
use crate::keep::keys;

/// Maximum number of manifests noted to follow the same one. A sealer makes at most four attempts
/// per minute, so the request of an older one was given up a quarter of an hour ago.
const BEGUN_MAX: usize = 100;

/// What a store notes about a manifest that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// The manifest's number.
    pub number: u64,
    /// The manifest's random id.
    pub id: String,
    /// The manifest seals the journal's entries before this number.
    pub sealed_through: u64,
    /// The checksum of the manifest's bytes; empty if an older version of this program made the
    /// note.
    #[serde(default)]
    pub checksum: String,
}

impl Commit {
    /// Whether a manifest is the one of this note.
    fn is_of(&self, manifest: &Self) -> bool {
        let has_same_bytes = self.checksum.is_empty() || self.checksum == manifest.checksum;
        let named = |commit: &Self| (commit.number, commit.id.clone(), commit.sealed_through);
        has_same_bytes && named(self) == named(manifest)
    }
}

/// The notes about one archive on object storage.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::keep) struct Commits {
    /// The last manifest that was completed.
    last: Commit,
    /// The manifests that may follow it, the latest attempt last.
    begun: Vec<Commit>,
    /// Whether the store has begun or continued another archive since. What it sealed there is not
    /// in this one.
    #[serde(default)]
    is_left: bool,
}

impl Commits {
    /// Reads the notes about an archive; `None` if the store never wrote a manifest of it.
    pub(in crate::keep) async fn read(
        store: &dyn Store,
        archive: &str,
    ) -> Result<Option<Self>, ReadError> {
        let found = store.get(keys::commits(archive)).await?;
        Ok(found.map(|found| parse(&found.value)).transpose()?)
    }

    fn of(last: Commit, begun: Vec<Commit>) -> Self {
        Self {
            last,
            begun,
            is_left: false,
        }
    }

    /// Whether the archive has lost a manifest, or was left, when this is its newest one.
    pub(in crate::keep) fn are_behind(&self, newest: &Commit) -> bool {
        self.is_left
            || self.last.number > newest.number
            || self.last.number == newest.number && !self.last.is_of(newest)
    }
}

/// The writes that note all archives as left, except for the one whose notes have this key.
pub(in crate::keep) async fn leave(
    store: &dyn Store,
    but: Option<&Bytes>,
) -> Result<Vec<Write>, ReadError> {
    let noted = noted(store).await?.into_iter();
    let others = noted.filter(|(key, noted)| Some(key) != but && !noted.is_left);
    let left = others.map(|(key, noted)| {
        let noted = Commits {
            is_left: true,
            ..noted
        };
        Write::put(key, NewRecord::new(json(&noted)))
    });
    Ok(left.collect())
}

/// The notes about all archives, with their keys. A store has few: one for each bucket.
async fn noted(store: &dyn Store) -> Result<Vec<(Bytes, Commits)>, ReadError> {
    let page = store.list(ListRequest::prefix(keys::COMMITS)).await?;
    let noted = page.records.into_iter().map(|record| {
        let commits = parse(&record.value)?;
        Ok((record.key, commits))
    });
    noted.collect()
}

impl Unsealed {
    /// Notes that a manifest is about to be written after another one of the archive.
    ///
    /// # Errors
    /// Errors of the store. The manifest must then not be written.
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
        self.note_commits(archive, &Commits::of(last, begun)).await
    }

    /// Notes that a manifest was written, before any entry that it seals is removed from the
    /// journal. From then on the store does not continue after an earlier manifest.
    ///
    /// # Errors
    /// Errors of the store. No entry may then be removed.
    pub async fn end_commit(&self, archive: &str, done: &Commit) -> Result<(), JournalError> {
        let noted = Commits::read(&*self.keeper.store, archive).await?;
        if noted.is_some_and(|noted| noted.last == *done && noted.begun.is_empty()) {
            return Ok(());
        }
        let (last, begun) = (done.clone(), Vec::new());
        self.note_commits(archive, &Commits::of(last, begun)).await
    }

    async fn note_commits(&self, archive: &str, commits: &Commits) -> Result<(), JournalError> {
        let write = Write::put(keys::commits(archive), NewRecord::new(json(commits)));
        self.keeper.store.write_all(vec![write]).await?;
        Ok(())
    }

    /// Whether this store has sealed into an archive on object storage that it has not left since.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn has_sealed(&self) -> Result<bool, JournalError> {
        let noted = noted(&*self.keeper.store).await?;
        let is_sealed = |noted: &Commits| noted.last.number > 0 && !noted.is_left;
        Ok(noted.iter().any(|(_, noted)| is_sealed(noted)))
    }

    /// Whether this store may continue an archive after its newest manifest: only if the store
    /// noted that it would write this one. An archive without an identity was written by the first
    /// versions of this program, which noted no manifests. For such an archive the store must have
    /// no notes, and must have given the manifest's last entry to be sealed.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn has_committed(
        &self,
        archive: Option<&str>,
        newest: &Commit,
    ) -> Result<bool, JournalError> {
        let Some(archive) = archive else {
            let noted = ListRequest::prefix(keys::COMMITS).limit(1);
            let has_noted = !self.keeper.store.list(noted).await?.records.is_empty();
            return Ok(!has_noted && newest.sealed_through <= self.keeper.journal.given());
        };
        let noted = Commits::read(&*self.keeper.store, archive).await?;
        Ok(noted.filter(|noted| !noted.is_left).is_some_and(|noted| {
            let mut all = noted.begun.iter().chain([&noted.last]);
            all.any(|noted| noted.is_of(newest))
        }))
    }
}
