//! Deletes what an archive no longer needs, after its readers had the time of the grace.
//!
//! These are files that were merged or expired, old manifests, what manifests say of deleted
//! events, and leftovers of a writer that ended before it had written its manifest.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::folder::{self, Folder, FolderError};
use crate::manifest::{Manifest, PLACEHOLDER_BYTES_MAX};
use crate::unfinished::{self, Unfinished};

/// Number of newest manifests that stay, however old they are. A writer that pauses between reading
/// one manifest and writing the next then still finds its number taken.
const MANIFESTS_KEPT: usize = 100;

/// Number of failed deletions after which no more are tried in this round.
const FAILED_MAX: usize = 10;
/// Maximum number of objects that are remembered because they could not be deleted.
const STUCK_MAX: usize = 10_000;
/// Maximum time after which a store believes its clock.
const BELIEVED_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Objects that could not be deleted. The next round tries them last, so that a few objects that
/// the storage has to keep do not keep others from being deleted.
#[derive(Debug, Default)]
pub(crate) struct Stuck(HashSet<Path>);

impl Stuck {
    fn note(&mut self, path: Path, is_done: bool) {
        if is_done {
            self.0.remove(&path);
        } else if self.0.len() < STUCK_MAX {
            self.0.insert(path);
        }
    }
}

/// Deletes the files that a manifest removed before the grace. Returns how many, and why the first
/// of the others could not be deleted; these stay in the manifest. `believed` is the store's
/// confirmed time: a file that was removed while the clock was ahead waits no longer than others.
pub(crate) async fn removed(
    folder: &Folder,
    manifest: &mut Manifest,
    (believed, grace): (Timestamp, SignedDuration),
    stuck: &mut Stuck,
) -> (u64, Option<FolderError>) {
    let before = believed.saturating_sub(grace).unwrap_or(Timestamp::MIN);
    // If the clock is behind, it does not show that a removal lies in the future.
    if believed >= manifest.sealed_until {
        let latest = believed.saturating_add(BELIEVED_AFTER);
        let latest = latest.unwrap_or(Timestamp::MAX);
        for removed in &mut manifest.removed {
            removed.at = removed.at.min(latest);
        }
    }
    let mut done = Done::default();
    let over = manifest.removed.iter();
    let over = over.filter(|removed| removed.at <= before);
    let mut over: Vec<Path> = over.map(|removed| folder.path(&removed.path)).collect();
    over.sort_by_key(|path| stuck.0.contains(path));
    let mut gone = HashSet::new();
    for path in over {
        if done.is_enough() {
            break;
        }
        let is_done = done.note(folder.delete(&path).await);
        stuck.note(path.clone(), is_done);
        if is_done {
            gone.insert(path);
        }
    }
    let removed = &mut manifest.removed;
    removed.retain(|removed| !gone.contains(&folder.path(&removed.path)));
    (done.deleted, done.failure)
}

/// The objects that were written before some time, whether or not a manifest names them.
pub(crate) struct Leavings {
    files: Vec<ObjectMeta>,
    manifests: Vec<ObjectMeta>,
    unfinished: Vec<Unfinished>,
}

/// What to do with a manifest.
enum Job {
    Delete,
    /// Replaces the manifest of this number by a placeholder, so that a delayed writer still finds
    /// the number taken.
    Empty(u64),
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
        stuck: &mut Stuck,
    ) -> (u64, Option<FolderError>) {
        let named = folder.named(manifest);
        let kept_from = manifest.number.saturating_sub(MANIFESTS_KEPT as u64);
        let files = self.files.into_iter().map(|found| found.location);
        let files = files.filter(|path| !named.contains(path));
        let files = files.map(|path| (path, Job::Delete));
        let manifests = self.manifests.into_iter().filter_map(|found| {
            let number = folder::number(&found)?;
            let is_named = number < manifest.purged && found.size > PLACEHOLDER_BYTES_MAX;
            let job = match number {
                number if number < kept_from => Job::Delete,
                number if is_named => Job::Empty(number),
                _ => return None,
            };
            Some((found.location, job))
        });
        let mut jobs: Vec<(Path, Job)> = files.chain(manifests).collect();
        jobs.sort_by_key(|(path, _)| stuck.0.contains(path));
        let mut done = Done::default();
        for (path, job) in jobs {
            if done.is_enough() {
                return (done.deleted, done.failure);
            }
            let is_done = match job {
                Job::Delete => done.note(folder.delete(&path).await),
                Job::Empty(number) => !done.failed(folder.empty(number).await),
            };
            stuck.note(path, is_done);
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
