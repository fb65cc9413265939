//! Deletes what an archive no longer needs, after its readers had the time of the grace.
//!
//! These are files that were merged or expired, old manifests, what manifests say of deleted
//! events, and leftovers of a writer that ended before it had written its manifest.

use jiff::Timestamp;
use object_store::ObjectMeta;

use crate::folder::{self, Folder, FolderError};
use crate::manifest::{Manifest, PLACEHOLDER_BYTES_MAX};
use crate::unfinished::{self, Unfinished};

/// Number of newest manifests that stay, however old they are. A writer that pauses between reading
/// one manifest and writing the next then still finds its number taken.
const MANIFESTS_KEPT: usize = 100;

/// Number of failed deletions after which no more are tried in this round.
const FAILED_MAX: usize = 10;

/// Deletes the files that a manifest took out before a time. Returns how many were deleted, and why
/// the first of the others could not be. Those that remain stay in the manifest's list.
pub(crate) async fn removed(
    folder: &Folder,
    manifest: &mut Manifest,
    before: Timestamp,
) -> (u64, Option<FolderError>) {
    let mut done = Done::default();
    let mut left = Vec::new();
    for removed in std::mem::take(&mut manifest.removed) {
        if removed.at > before
            || done.is_enough()
            || !done.note(folder.delete(&folder.path(&removed.path)).await)
        {
            left.push(removed);
        }
    }
    manifest.removed = left;
    (done.deleted, done.failure)
}

/// The objects that were written before a time, whether a manifest names them or not.
pub(crate) struct Leavings {
    files: Vec<ObjectMeta>,
    manifests: Vec<ObjectMeta>,
    unfinished: Vec<Unfinished>,
}

impl Leavings {
    pub(crate) async fn find(folder: &Folder, before: Timestamp) -> Result<Self, FolderError> {
        let is_old = |found: &ObjectMeta| found.last_modified.timestamp() <= before.as_second();
        let mut files = folder.files().await?;
        files.retain(is_old);
        let mut manifests = folder.list("manifests").await?;
        manifests.retain(is_old);
        let mut unfinished = folder.unfinished().await?;
        unfinished.retain(|found| found.modified <= before);
        Ok(Self {
            files,
            manifests,
            unfinished,
        })
    }

    /// Deletes unnamed objects and old manifests, and empties manifests that may name deleted
    /// events.
    ///
    /// Returns how many objects were deleted, and the first failure. `manifest` has to be one that
    /// was the newest *after* the leftovers were found: otherwise a file that was just written
    /// would look unnamed.
    pub(crate) async fn delete(
        self,
        folder: &Folder,
        manifest: &Manifest,
    ) -> (u64, Option<FolderError>) {
        let named = folder.named(manifest);
        let kept_from = manifest.number.saturating_sub(MANIFESTS_KEPT as u64);
        let is_followed =
            |found: &ObjectMeta| folder::number(found).is_some_and(|number| number < kept_from);
        let files = self.files.iter();
        let files = files.filter(|found| !named.contains(&found.location));
        let manifests = self.manifests.iter().filter(|found| is_followed(found));
        let mut done = Done::default();
        for found in files.chain(manifests) {
            if done.is_enough() {
                return (done.deleted, done.failure);
            }
            done.note(folder.delete(&found.location).await);
        }
        // They are emptied, not deleted: their numbers stay taken, so that a delayed writer cannot
        // reuse one.
        let named = self.manifests.iter().filter_map(|found| {
            let number = folder::number(found)?;
            let is_named = (kept_from..manifest.purged).contains(&number);
            (is_named && found.size > PLACEHOLDER_BYTES_MAX).then_some(number)
        });
        for number in named {
            if done.is_enough() {
                return (done.deleted, done.failure);
            }
            done.failed(folder.empty(number).await);
        }
        for found in self.unfinished {
            if done.is_enough() {
                break;
            }
            done.note(unfinished::delete(found).await.map_err(FolderError::Local));
        }
        (done.deleted, done.failure)
    }
}

/// Counts of a round of deletions.
#[derive(Default)]
struct Done {
    deleted: u64,
    failures: usize,
    /// Whether a deletion had no answer in time; the next one would probably take as long.
    is_slow: bool,
    /// The first failure.
    failure: Option<FolderError>,
}

impl Done {
    fn is_enough(&self) -> bool {
        self.failures >= FAILED_MAX || self.is_slow
    }

    /// Counts a deletion; returns whether the object was deleted.
    fn note(&mut self, result: Result<(), FolderError>) -> bool {
        let is_done = !self.failed(result);
        self.deleted += u64::from(is_done);
        is_done
    }

    /// Counts a failure; returns whether there was one.
    fn failed(&mut self, result: Result<(), FolderError>) -> bool {
        let Err(error) = result else {
            return false;
        };
        self.failures += 1;
        self.is_slow |= error.is_slow();
        self.failure.get_or_insert(error);
        true
    }
}
