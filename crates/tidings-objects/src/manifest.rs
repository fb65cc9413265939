//! Manifests: JSON objects that say what the archive of one cluster consists of.
//!
//! Invariants: a manifest names every file of the archive, and nothing else in the folder belongs
//! to it; the files it names were whole before it was written; it never changes.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_archive::{Commit, Position};
use tidings_history::{Gap, stored_gaps};
use xxhash_rust::xxh3::xxh3_64;

use crate::file::bounds::{FILE_BYTES_MAX, GROUP_ROWS_MAX, GROUPS_MAX};
use crate::foreign;

/// The form (format version) of manifests.
pub(crate) const FORM: u64 = 1;
/// Maximum bytes of a manifest: about 100,000 files.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// Maximum files in a manifest.
const FILES_MAX: usize = 200_000;
/// Maximum rows of a file.
const ROWS_MAX: u64 = (GROUPS_MAX * GROUP_ROWS_MAX) as u64;
/// Maximum epoch: no source goes back to an earlier state more often.
const EPOCH_MAX: u64 = u32::MAX as u64;
/// Maximum bytes of one part of an object's place in a manifest; Kubernetes' own names are shorter.
const PLACE_BYTES_MAX: usize = 256;

/// The checksum of a manifest, if it is known. It follows from the other fields, so that two
/// manifests are equal whether or not it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checksum(OnceLock<String>);

impl PartialEq for Checksum {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Checksum {}

/// What the archive of a cluster consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The form (format version) of the manifest: 1.
    pub form: u64,
    /// The cluster's name.
    pub cluster: String,
    /// The manifest's number, one more than that of the one before.
    pub number: u64,
    /// A random id of this manifest.
    pub id: String,
    /// A random id of the archive, the same in all its manifests. Manifests of early versions do
    /// not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// When it was written.
    pub written_at: Timestamp,
    /// The identity of the store whose versions are sealed.
    pub writer: String,
    /// The entry of that store's feed up to which versions are sealed.
    pub sealed_through: u64,
    /// The time up to which every observed version is in the files.
    pub sealed_until: Timestamp,
    /// The positions in the followed cluster at that time, by namespace.
    pub positions: Vec<(String, Position)>,
    /// The latest gaps.
    #[serde(with = "stored_gaps")]
    pub gaps: Vec<Gap>,
    /// Number of versions that expired or were deleted before they were sealed.
    pub gone: u64,
    /// Number of versions that were purged because their events were deleted in the archive.
    /// Manifests of early versions do not have it.
    #[serde(default)]
    pub forgotten: u64,
    /// The number of the manifest by which all events deleted until then were purged from the
    /// files. Manifests before it still name such events. It is 0 if none were deleted, and in
    /// manifests of early versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub purged: u64,
    /// What was removed to keep a quota; absent in manifests of early versions.
    #[serde(default, skip_serializing_if = "OverQuota::is_nothing")]
    pub over_quota: OverQuota,
    /// Whether the next manifest may purge deleted events from files. A reader that cannot read the
    /// next manifest goes back to this one only if this is `false`. Manifests of early versions do
    /// not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purging: Option<bool>,
    /// All files, in order of the first time in them.
    pub files: Vec<File>,
    /// Files that no longer belong to the archive and are yet to be deleted.
    pub removed: Vec<Removed>,
    /// The checksum of its bytes, once it was read or its commit was noted.
    #[serde(skip)]
    pub(crate) checksum: Checksum,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What an old manifest that named deleted events is overwritten with, so that its number stays
/// taken.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Placeholder {
    /// The form of manifests.
    pub(crate) form: u64,
    /// The manifest's number.
    pub(crate) number: u64,
    /// Always `true`.
    pub(crate) emptied: bool,
}

/// Maximum bytes of a placeholder; a manifest has more.
pub(crate) const PLACEHOLDER_BYTES_MAX: u64 = 100;

/// What was removed from an archive to keep a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverQuota {
    /// Number of versions in the removed files.
    pub versions: u64,
    /// When the last of these versions was observed.
    pub until: Option<Timestamp>,
}

impl OverQuota {
    /// Returns whether nothing was removed.
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What a manifest says of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// The path, from the folder of the cluster.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// XXH3 of the bytes, in 16 hexadecimal digits.
    pub checksum: String,
    /// Number of versions.
    pub rows: u64,
    /// Sum of the versions' hashes, in 16 hexadecimal digits. The sum of a merged file is the sum
    /// of the sums of its sources.
    pub sum: String,
    /// How often the rows of the file were merged.
    pub level: u32,
    /// When the first of its versions was observed.
    pub from: Timestamp,
    /// When the last of its versions was observed.
    pub to: Timestamp,
    /// The first and the last time at which its events were last seen, in milliseconds. Manifests
    /// of early versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Namespace, kind and name of the first object.
    pub first: [String; 3],
    /// Namespace, kind and name of the last object.
    pub last: [String; 3],
    /// The rollup beside the file; files of early versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<Rollup>,
}

/// A file beside a file of versions that counts these by namespace, kind, hour, reason and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollup {
    /// The path, from the folder of the cluster.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// XXH3 of the bytes, in 16 hexadecimal digits.
    pub checksum: String,
}

impl File {
    /// Returns the bytes of the file and its rollup.
    pub(crate) fn all_bytes(&self) -> u64 {
        let rollup = self.rollup.as_ref().map_or(0, |rollup| rollup.bytes);
        self.bytes.saturating_add(rollup)
    }

    /// Returns the paths of the file and its rollup.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let rollup = self.rollup.iter().map(|rollup| rollup.path.as_str());
        std::iter::once(self.path.as_str()).chain(rollup)
    }
}

/// Returns whether a path, from the folder of the cluster, can be a file's or a rollup's.
fn is_of_archive(path: &str) -> bool {
    let file = path.strip_prefix("events/");
    let file = file.or_else(|| path.strip_prefix("rollups/"));
    file.is_some_and(foreign::is_file)
}

/// Shortens a place downwards: the result is not after it, and each part has a bounded length.
pub(crate) fn not_behind(place: [&str; 3]) -> [String; 3] {
    let mut bounded = <[String; 3]>::default();
    for (bounded, part) in bounded.iter_mut().zip(place) {
        let short = beginning(part);
        short.clone_into(bounded);
        // The shortened part sorts before everything that begins with it, so the later parts stay
        // empty.
        if short.len() < part.len() {
            break;
        }
    }
    bounded
}

/// Shortens a place upwards: the result is not before it, and kind and name have a bounded length.
/// Namespaces have a bounded length anyway.
pub(crate) fn not_before(place: [&str; 3]) -> [String; 3] {
    let [namespace, kind, name] = place;
    // The least text that sorts after `text`.
    let behind = |text: &str| format!("{text}\0");
    if kind.len() > PLACE_BYTES_MAX {
        return [behind(namespace), String::new(), String::new()];
    }
    if name.len() > PLACE_BYTES_MAX {
        return [namespace.to_owned(), behind(kind), String::new()];
    }
    place.map(str::to_owned)
}

fn beginning(part: &str) -> &str {
    let mut end = part.len().min(PLACE_BYTES_MAX);
    while !part.is_char_boundary(end) {
        end -= 1;
    }
    part.get(..end).unwrap_or_default()
}

/// A file that is yet to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// The path, from the folder of the cluster.
    pub path: String,
    /// Since when it does not belong to the archive.
    pub at: Timestamp,
}

impl Manifest {
    /// Makes the manifest of an archive that has nothing yet; its number 0 is never written.
    pub(crate) fn empty(cluster: &str, writer: &str, archive: String) -> Self {
        Self {
            form: FORM,
            cluster: cluster.to_owned(),
            number: 0,
            id: String::new(),
            archive: Some(archive),
            written_at: Timestamp::UNIX_EPOCH,
            writer: writer.to_owned(),
            sealed_through: 0,
            sealed_until: Timestamp::UNIX_EPOCH,
            positions: Vec::new(),
            gaps: Vec::new(),
            gone: 0,
            forgotten: 0,
            purged: 0,
            over_quota: OverQuota::default(),
            purging: Some(false),
            files: Vec::new(),
            removed: Vec::new(),
            checksum: Checksum::default(),
        }
    }

    /// Returns the bytes that are written.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Texts, numbers and times can always be written.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Notes the bytes that this manifest was read from.
    pub(crate) fn read_from(self, bytes: &[u8]) -> Self {
        Self {
            checksum: Checksum(OnceLock::from(checksum(bytes))),
            ..self
        }
    }

    /// Returns the manifest that follows, with the same files.
    pub(crate) fn next(&self, id: String, now: Timestamp) -> Self {
        Self {
            number: self.number.saturating_add(1),
            id,
            archive: self.archive.clone().or_else(|| Some(self.id.clone())),
            written_at: now,
            purging: self.purging.or(Some(false)),
            checksum: Checksum::default(),
            ..self.clone()
        }
    }

    /// Returns what the writing store notes of this manifest, which does not change from then on.
    pub(crate) fn commit(&self) -> Commit {
        let checksum = self.checksum.0.get_or_init(|| checksum(&self.encode()));
        Commit {
            number: self.number,
            id: self.id.clone(),
            sealed_through: self.sealed_through,
            checksum: checksum.clone(),
        }
    }

    /// Returns what is wrong if no writer writes such a manifest. It would cost a reader too much
    /// memory, or make a writer delete objects that do not belong to the archive.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.files.len() > FILES_MAX {
            return Some(format!("it has more than {FILES_MAX} files"));
        }
        let too_long = self.files.iter().find(|file| {
            let rollup = file.rollup.as_ref().map_or(0, |rollup| rollup.bytes);
            file.bytes.max(rollup) > FILE_BYTES_MAX || file.rows > ROWS_MAX
        });
        if let Some(file) = too_long {
            return Some(format!("{:?} is longer than it can be", file.path));
        }
        let mut positions = self.positions.iter();
        if positions.any(|(_, position)| position.epoch > EPOCH_MAX) {
            return Some("it says that a source went back more often than one can".to_owned());
        }
        let mut paths = self.files.iter().flat_map(File::paths);
        let removed = self.removed.iter().map(|removed| removed.path.as_str());
        let of_another = paths.find(|path| !is_of_archive(path));
        let of_another = of_another.or_else(|| removed.into_iter().find(|it| !is_of_archive(it)));
        of_another.map(|path| format!("{path:?} is no file of an archive"))
    }

    /// Adds files, and keeps their order.
    pub(crate) fn add(&mut self, files: Vec<File>) {
        self.files.extend(files);
        self.files
            .sort_by(|one, other| (one.from, &one.path).cmp(&(other.from, &other.path)));
    }

    /// Takes files and their rollups out; they are listed as yet to be deleted.
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

    /// Returns the number of versions in all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Returns the bytes of all files and their rollups.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(File::all_bytes).sum()
    }

    /// Returns the files to be removed so that the others, with their rollups, have at most
    /// `bytes_max`. These are the files whose last version was observed longest ago. The file with
    /// the latest version always stays, however large it is.
    pub(crate) fn beyond(&self, bytes_max: u64) -> BTreeSet<String> {
        let mut files: Vec<&File> = self.files.iter().collect();
        files.sort_by(|one, other| {
            let order = (one.to, one.from).cmp(&(other.to, other.from));
            order.then_with(|| one.path.cmp(&other.path))
        });
        files.pop();
        let mut bytes = self.bytes();
        let is_over = |file: &&File| {
            let is_over = bytes > bytes_max;
            bytes = bytes.saturating_sub(file.all_bytes());
            is_over
        };
        let over = files.into_iter().take_while(is_over);
        over.map(|file| file.path.clone()).collect()
    }

    /// Takes files out to keep a quota, and counts their versions.
    pub(crate) fn remove_over_quota(&mut self, paths: &BTreeSet<String>, now: Timestamp) {
        for file in self.files.iter().filter(|it| paths.contains(&it.path)) {
            let over = &mut self.over_quota;
            over.versions = over.versions.saturating_add(file.rows);
            over.until = over.until.max(Some(file.to));
        }
        self.remove(paths, now);
    }
}

/// XXH3 of the bytes of a manifest, in 16 hexadecimal digits.
fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl File {
        /// A file with one version at time 0, for tests that look at some of its fields.
        pub(crate) fn at(path: &str) -> Self {
            Self {
                path: path.to_owned(),
                bytes: 1,
                checksum: String::new(),
                rows: 1,
                sum: "0".into(),
                level: 0,
                from: Timestamp::UNIX_EPOCH,
                to: Timestamp::UNIX_EPOCH,
                seen: None,
                first: <[String; 3]>::default(),
                last: <[String; 3]>::default(),
                rollup: None,
            }
        }
    }

    #[test]
    fn places_in_a_manifest_have_a_bounded_length() {
        let long = |letter: &str| letter.repeat(300);
        let (a, last) = (long("ä"), long("\u{10ffff}"));
        for place in [
            ["", "", ""],
            ["shop", "Pod", "web-1"],
            ["shop", &a, "web"],
            ["shop", "Pod", &a],
            ["shop", "Pod", &last],
        ] {
            let (first, behind) = (not_behind(place), not_before(place));
            let bounded = [&first, &behind].map(|it| it.each_ref().map(String::as_str));
            assert!(bounded[0] <= place && place <= bounded[1], "{bounded:?}");
            let mut parts = bounded.as_flattened().iter();
            assert!(parts.all(|part| part.len() <= PLACE_BYTES_MAX));
            let is_exact = place.iter().all(|part| part.len() < 300);
            assert_eq!(bounded == [place; 2], is_exact);
        }
    }

    #[test]
    fn a_manifest_that_no_writer_writes_has_a_fault() {
        let file = "events/20261128T154000Z-20261128T160000Z-00112233445566ff.parquet";
        let with = |file: File| {
            let mut manifest = Manifest::empty("prod", "one", "archive".to_owned());
            manifest.add(vec![file]);
            manifest
        };
        assert_eq!(with(File::at(file)).fault(), None);
        let mut faults = Vec::new();
        for path in [
            "events/../x",
            "manifests/00000000000000000001.json",
            "events/a.parquet",
            "",
        ] {
            faults.push(with(File::at(path)));
            let mut manifest = with(File::at(file));
            manifest.remove(&BTreeSet::from([file.to_owned()]), second(1));
            path.clone_into(&mut manifest.removed[0].path);
            faults.push(manifest);
        }
        let (bytes, rows) = (FILE_BYTES_MAX + 1, ROWS_MAX + 1);
        faults.push(with(File {
            bytes,
            ..File::at(file)
        }));
        faults.push(with(File {
            rows,
            ..File::at(file)
        }));
        for manifest in faults {
            assert!(manifest.fault().is_some(), "{manifest:?}");
        }
    }

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(number).unwrap()
    }

    /// Makes a file from its path, the times of its first and last version, and its bytes with its
    /// rollup's.
    fn file((path, from, to, bytes): (&str, i64, i64, u64)) -> File {
        File {
            bytes: bytes - 1,
            rows: 10,
            from: second(from),
            to: second(to),
            rollup: Some(Rollup {
                path: format!("rollup-{path}"),
                bytes: 1,
                checksum: String::new(),
            }),
            ..File::at(path)
        }
    }

    fn manifest(files: &[(&str, i64, i64, u64)]) -> Manifest {
        let mut manifest = Manifest::empty("prod", "one", "archive".to_owned());
        manifest.add(files.iter().copied().map(file).collect());
        manifest
    }

    #[test]
    fn the_files_that_end_first_are_beyond_a_quota() {
        // The one that begins first ends last.
        let files = [
            ("long", 1, 9, 40),
            ("b", 3, 4, 20),
            ("a", 2, 4, 20),
            ("c", 5, 6, 20),
        ];
        for (bytes_max, expected) in [
            (u64::MAX, ""),
            (100, ""),
            (99, "a"),
            (80, "a"),
            (79, "a b"),
            (60, "a b"),
            (59, "a b c"),
            // The latest file stays, although it is longer than the quota.
            (39, "a b c"),
            (0, "a b c"),
        ] {
            let beyond: Vec<_> = manifest(&files).beyond(bytes_max).into_iter().collect();
            assert_eq!(beyond.join(" "), expected, "{bytes_max}");
        }
        assert!(manifest(&[]).beyond(0).is_empty());
    }

    #[test]
    fn what_a_quota_took_is_counted_and_deleted_later() {
        let mut manifest = manifest(&[("a", 1, 2, 20), ("b", 3, 4, 20), ("c", 5, 6, 20)]);
        for (bytes_max, versions, until) in [(60, 0, None), (40, 10, Some(2)), (0, 20, Some(4))] {
            let beyond = manifest.beyond(bytes_max);
            manifest.remove_over_quota(&beyond, second(7));
            let expected = OverQuota {
                versions,
                until: until.map(second),
            };
            assert_eq!(manifest.over_quota, expected);
        }
        assert_eq!(manifest.bytes(), 20);
        let removed: Vec<_> = manifest.removed.iter().map(|it| &*it.path).collect();
        assert_eq!(removed, ["a", "rollup-a", "b", "rollup-b"]);
        assert!(manifest.removed.iter().all(|it| it.at == second(7)));
    }

    #[test]
    fn a_manifest_of_the_first_days_took_nothing_out() {
        let written = manifest(&[("a", 1, 2, 20)]);
        let mut before = serde_json::to_value(&written).unwrap();
        assert!(before.get("overQuota").is_none(), "{before}");
        let fields = before.as_object_mut().unwrap();
        fields.remove("forgotten").unwrap();
        fields.remove("archive").unwrap();
        let mut read: Manifest = serde_json::from_value(before).unwrap();
        assert_eq!(read.archive.take(), None);
        read.archive.clone_from(&written.archive);
        assert_eq!(read, written);
    }
}
