//! Manifests: what an archive of one cluster consists of, as JSON.
//!
//! Invariants: a manifest names every file that is in the archive, and everything else in the
//! folder is not; files that it names were whole before it was written; it is never changed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_archive::{Gap, Position};

/// The form of manifests.
pub(crate) const FORM: u64 = 1;

/// What the archive of a cluster consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The form of the manifest: 1.
    pub form: u64,
    /// The cluster's name.
    pub cluster: String,
    /// Its number, by one more than that of the one before.
    pub number: u64,
    /// Made at random for it.
    pub id: String,
    /// When it was written.
    pub written_at: Timestamp,
    /// The identity of the store whose versions are sealed.
    pub writer: String,
    /// Up to which entry of that store's journal they are.
    pub sealed_through: u64,
    /// Up to when everything that was observed is in the files.
    pub sealed_until: Timestamp,
    /// How far the cluster was followed then, by namespaces.
    pub positions: Vec<(String, Position)>,
    /// The latest gaps.
    pub gaps: Vec<Gap>,
    /// Versions that ended or were deleted before they were sealed.
    pub gone: u64,
    /// All files, in the order of the first time in them.
    pub files: Vec<File>,
    /// Files that are no longer part of the archive, and are yet to be deleted.
    pub removed: Vec<Removed>,
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// Where it is, from the folder of the cluster.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// XXH3 of its bytes, in 16 hexadecimal digits.
    pub checksum: String,
    /// How many versions it has.
    pub rows: u64,
    /// The sum of the versions' hashes, in 16 hexadecimal digits: that of files that are merged is
    /// the sum of theirs.
    pub sum: String,
    /// How often what it has was merged.
    pub level: u32,
    /// When the first of its versions was observed.
    pub from: Timestamp,
    /// When the last was.
    pub to: Timestamp,
    /// When what it has was last seen: the first and the last time, in milliseconds. Manifests of
    /// the first days do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Namespace, kind and name of the first object.
    pub first: [String; 3],
    /// Of the last one.
    pub last: [String; 3],
    /// How many of its versions have the same namespace, kind, hour, reason and type. Files of the
    /// first days do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<Rollup>,
}

/// A file beside one of an archive, which says how many of its versions have the same columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollup {
    /// Where it is, from the folder of the cluster.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// XXH3 of its bytes, in 16 hexadecimal digits.
    pub checksum: String,
}

impl File {
    /// Where it is, and its rollup.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let rollup = self.rollup.iter().map(|rollup| rollup.path.as_str());
        std::iter::once(self.path.as_str()).chain(rollup)
    }
}

/// A file that is yet to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Where it is.
    pub path: String,
    /// Since when it is not part of the archive.
    pub at: Timestamp,
}

impl Manifest {
    /// Of an archive that has nothing yet; number 0, which is not written.
    pub(crate) fn empty(cluster: &str, writer: &str) -> Self {
        Self {
            form: FORM,
            cluster: cluster.to_owned(),
            number: 0,
            id: String::new(),
            written_at: Timestamp::UNIX_EPOCH,
            writer: writer.to_owned(),
            sealed_through: 0,
            sealed_until: Timestamp::UNIX_EPOCH,
            positions: Vec::new(),
            gaps: Vec::new(),
            gone: 0,
            files: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// The one that follows.
    pub(crate) fn next(&self, id: String, now: Timestamp) -> Self {
        Self {
            number: self.number + 1,
            id,
            written_at: now,
            ..self.clone()
        }
    }

    /// Adds files, in their order.
    pub(crate) fn add(&mut self, files: Vec<File>) {
        self.files.extend(files);
        self.files
            .sort_by(|one, other| (one.from, &one.path).cmp(&(other.from, &other.path)));
    }

    /// Takes files out, with their rollups.
    pub(crate) fn remove(&mut self, paths: &BTreeSet<String>, now: Timestamp) {
        let is_removed = |file: &mut File| paths.contains(&file.path);
        for file in self.files.extract_if(.., is_removed) {
            let removed = file.paths().map(|path| Removed {
                path: path.to_owned(),
                at: now,
            });
            self.removed.extend(removed);
        }
    }

    /// How many versions it has.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// How many bytes its files and their rollups have.
    pub fn bytes(&self) -> u64 {
        let of = |file: &File| file.bytes + file.rollup.as_ref().map_or(0, |rollup| rollup.bytes);
        self.files.iter().map(of).sum()
    }
}
