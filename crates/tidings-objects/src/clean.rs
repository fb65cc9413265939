//! Deletes what is no longer part of an archive, once those who read it had their time: files that
//! were merged or are over, manifests that have followers, what manifests say of deleted events,
//! and what a writer left that ended before it had written its manifest.

use jiff::Timestamp;
use object_store::ObjectMeta;

use crate::folder::{self, Folder, FolderError};
use crate::manifest::{Manifest, PLACEHOLDER_BYTES_MAX};
use crate::unfinished::{self, Unfinished};

/// The newest manifests stay, however old they are: so long a writer may wait between reading one
/// and writing the next.
const MANIFESTS_KEPT: usize = 100;

/// Files that cannot be deleted, after which no more are tried for now.
const FAILED_MAX: usize = 10;

/// Deletes files that a manifest has taken out before a time; how many, and why the first of those
/// that are left could not be deleted. These stay in the manifest.
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

/// Objects that were written before a time, whether a manifest names them or not.
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

    /// Deletes those that no manifest names, and manifests that have many followers, and empties
    /// those that may name deleted events; how many objects were deleted, and why the first of
    /// those that are left could not be. The manifest is one that was the
    /// newest after they were found.
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
        // Their numbers stay taken, for a writer that was held up.
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

/// What came of deleting.
#[derive(Default)]
struct Done {
    deleted: u64,
    failures: usize,
    /// One had no answer in time: the next would take as long.
    is_slow: bool,
    /// The first one.
    failure: Option<FolderError>,
}

impl Done {
    fn is_enough(&self) -> bool {
        self.failures >= FAILED_MAX || self.is_slow
    }

    /// Whether it was deleted.
    fn note(&mut self, result: Result<(), FolderError>) -> bool {
        let is_done = !self.failed(result);
        self.deleted += u64::from(is_done);
        is_done
    }

    /// Whether it failed.
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
