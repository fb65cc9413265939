//! Deletes what is no longer part of an archive, once those who read it had their time: files that
//! were merged or are over, manifests that have followers, and what a writer left that ended before
//! it had written its manifest.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::folder::{self, Folder, FolderError};
use crate::manifest::Manifest;

/// The newest manifests stay, however old they are: so long a writer may wait between reading one
/// and writing the next.
const MANIFESTS_KEPT: usize = 100;

/// Deletes files that a manifest has taken out before a time; how many.
pub(crate) async fn removed(
    folder: &Folder,
    manifest: &mut Manifest,
    before: Timestamp,
) -> Result<u64, FolderError> {
    let is_over = |removed: &&crate::manifest::Removed| removed.at <= before;
    let over = manifest.removed.iter().filter(is_over);
    let mut deleted = 0;
    for file in over {
        folder.delete(&folder.path(&file.path)).await?;
        deleted += 1;
    }
    manifest.removed.retain(|removed| removed.at > before);
    Ok(deleted)
}

/// Deletes what no manifest names and was written before a time, and manifests that have many
/// followers; how many.
pub(crate) async fn leavings(
    folder: &Folder,
    manifest: &Manifest,
    before: Timestamp,
) -> Result<u64, FolderError> {
    let named = manifest.files.iter().map(|file| file.path.as_str());
    let named = named.chain(manifest.removed.iter().map(|removed| removed.path.as_str()));
    let named: HashSet<_> = named.map(|path| folder.path(path)).collect();
    let is_old =
        |found: &object_store::ObjectMeta| found.last_modified.timestamp() <= before.as_second();
    let mut deleted = 0;
    for found in folder.list("events").await? {
        if is_old(&found) && !named.contains(&found.location) {
            folder.delete(&found.location).await?;
            deleted += 1;
        }
    }
    let kept_from = manifest.number.saturating_sub(MANIFESTS_KEPT as u64);
    for found in folder.list("manifests").await? {
        let is_followed = folder::number(&found).is_some_and(|number| number < kept_from);
        if is_old(&found) && is_followed {
            folder.delete(&found.location).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
