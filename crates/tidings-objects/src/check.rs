//! Compares a sealed archive with its newest manifest.
//!
//! It reads every file whole and compares every column of every row with what the event's bytes
//! say. It also compares rollups, sums and the order of rows, and finds objects that should not be
//! there.
//!
//! Memory: one file with one of its row groups.

use std::sync::Arc;

use bytes::Bytes;

use crate::described::Described;
use crate::file::read::{FileError, Reader};
use crate::file::rollup::{self, Rollup};
use crate::folder::{Folder, FolderError};
use crate::manifest::{File, Manifest, not_before, not_behind};
use crate::place::Place;
use crate::row::Row;

/// What a check found in the sealed archive of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The newest manifest, with which the objects were compared.
    pub manifest: Manifest,
    /// Number of rows read.
    pub rows: u64,
    /// The problems found, one line each.
    pub problems: Vec<String>,
    /// Number of leftovers of writers: unfinished files, and objects that the manifest does not
    /// name, not even as yet to be deleted.
    pub leavings: u64,
}

/// Why an archive cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The object storage failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There is no archive of this cluster.
    #[error("there is no archive of {cluster:?} at {url}")]
    None {
        /// The name of the cluster that was asked for.
        cluster: String,
        /// The URL at which the archive was looked for.
        url: String,
    },
}

/// Reads the newest manifest of a cluster.
///
/// # Errors
///
/// The object storage failed, or there is no archive.
pub async fn newest(place: &Place, cluster: &str) -> Result<Manifest, CheckError> {
    newest_in(&Folder::new(place, cluster), place, cluster).await
}

async fn newest_in(folder: &Folder, place: &Place, cluster: &str) -> Result<Manifest, CheckError> {
    let newest = folder.newest().await?;
    newest.ok_or_else(|| CheckError::None {
        cluster: cluster.to_owned(),
        url: place.url().to_owned(),
    })
}

/// Reads and checks everything that is archived of a cluster.
///
/// # Errors
///
/// The object storage failed, or there is no archive. A damaged file is not an error:
/// [`Checked::problems`] names it.
pub async fn check(place: &Place, cluster: &str) -> Result<Checked, CheckError> {
    let folder = Folder::new(place, cluster);
    let manifest = newest_in(&folder, place, cluster).await?;
    let name: Arc<str> = cluster.into();
    let mut problems = Vec::new();
    problems.extend(check_before(&folder, &manifest).await);
    let mut rows = 0;
    for file in &manifest.files {
        let bytes = whole(&folder, &file.path, file.bytes, &file.checksum).await;
        let checked = bytes.and_then(|bytes| check_file(&name, file, &bytes));
        let counted = match checked {
            Ok((number, counted)) => {
                rows += number;
                Some(counted)
            }
            Err(why) => {
                problems.push(format!("{}: {why}", file.path));
                None
            }
        };
        if let Some(rollup) = &file.rollup {
            let bytes = whole(&folder, &rollup.path, rollup.bytes, &rollup.checksum).await;
            if let Err(why) = bytes.and_then(|bytes| check_rollup(&bytes, counted)) {
                problems.push(format!("{}: {why}", rollup.path));
            }
        }
    }
    let named = folder.named(&manifest);
    let found = folder.files().await?;
    let leavings = found
        .iter()
        .filter(|found| !named.contains(&found.location));
    let leavings = leavings.count() + folder.unfinished().await?.len();
    Ok(Checked {
        rows,
        problems,
        leavings: leavings as u64,
        manifest,
    })
}

/// Compares a manifest with the one before it, if that still exists and can be read. Both have to
/// be of the same archive, and a writer's sealed position must not go back.
async fn check_before(folder: &Folder, manifest: &Manifest) -> Option<String> {
    let before = folder.read(manifest.number.saturating_sub(1)).await.ok()?;
    let is_same = before.archive.is_none() || before.archive == manifest.archive;
    let goes_back =
        before.writer == manifest.writer && before.sealed_through > manifest.sealed_through;
    let number = manifest.number;
    if !is_same {
        return Some(format!(
            "manifest {number} is not of the archive that the one before it is of"
        ));
    }
    goes_back.then(|| format!("manifest {number} seals less than the one before it"))
}

async fn whole(folder: &Folder, path: &str, len: u64, checksum: &str) -> Result<Bytes, String> {
    let bytes = folder.whole(path, len, checksum).await;
    bytes.unwrap_or_else(|error| Err(error.to_string()))
}

/// Returns the file's number of rows and the rollup counted from them, or what is wrong with it.
fn check_file(cluster: &Arc<str>, file: &File, bytes: &Bytes) -> Result<(u64, Bytes), String> {
    let found = describe(cluster, bytes.clone()).map_err(|error| error.to_string());
    let (found, counted) = found?;
    let rows = found.rows;
    let mut found = found.file(file.level, bytes);
    found.path.clone_from(&file.path);
    found.rollup.clone_from(&file.rollup);
    // Manifests of early versions state the first and last places at full length. The bounds are
    // shortened here as they are today, so that both compare equal.
    let as_now = |place: &[String; 3], bounded: fn([&str; 3]) -> [String; 3]| {
        bounded(place.each_ref().map(String::as_str))
    };
    if found.first == as_now(&file.first, not_behind)
        && found.last == as_now(&file.last, not_before)
    {
        found.first.clone_from(&file.first);
        found.last.clone_from(&file.last);
    }
    // Manifests of early versions do not state when events were last seen.
    found.seen = found.seen.filter(|_| file.seen.is_some());
    if found != *file {
        return Err(format!(
            "the manifest says {}, found {}",
            json(file),
            json(&found)
        ));
    }
    Ok((rows, counted))
}

/// Compares a stored rollup with the one counted from the rows, if those could be read.
fn check_rollup(bytes: &Bytes, counted: Option<Bytes>) -> Result<(), String> {
    let Some(counted) = counted else {
        return Ok(());
    };
    match rollup::is_same(bytes, &counted) {
        Ok(true) => Ok(()),
        Ok(false) => Err("it does not say what the events say".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Writes what a manifest says of a file as JSON. It cannot fail: texts and numbers can always be
/// written.
fn json(file: &File) -> String {
    serde_json::to_string(file).unwrap_or_default()
}

/// Reads a whole file; returns what a manifest should say of it, and its rollup.
fn describe(cluster: &Arc<str>, bytes: Bytes) -> Result<(Described, Bytes), FileError> {
    let reader = Reader::new(cluster, bytes)?;
    let mut described = Described::default();
    let mut rollup = Rollup::new()?;
    let mut before: Option<Row> = None;
    for group in 0..reader.groups() {
        for row in reader.checked_group(group)? {
            if before.is_some_and(|before| !before.may_precede(&row)) {
                return Err(FileError::Order);
            }
            described.add(&row);
            rollup.add(&row)?;
            before = Some(row);
        }
    }
    Ok((described, rollup.finish()?.into()))
}
