//! Manifests: what an archive of one cluster consists of, as JSON.
//!
//! Invariants: a manifest names every file that is in the archive, and everything else in the
//! folder is not; files that it names were whole before it was written; it is never changed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_archive::{Commit, Gap, Position};

use crate::file::bounds::{FILE_BYTES_MAX, GROUP_ROWS_MAX, GROUPS_MAX};
use crate::foreign;

/// The form of manifests.
pub(crate) const FORM: u64 = 1;
/// Maximum bytes of a manifest: about 100,000 files.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// Maximum files in a manifest.
const FILES_MAX: usize = 200_000;
/// Maximum rows of a file.
const ROWS_MAX: u64 = (GROUPS_MAX * GROUP_ROWS_MAX) as u64;
/// Maximum bytes of a part of an object's place in a manifest. Kubernetes' own names are shorter.
const PLACE_BYTES_MAX: usize = 256;

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
    /// Made at random for the archive: the same in all that follow. Manifests of the first days do
    /// not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
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
    /// Versions that were taken out as their events were deleted in the archive. Manifests of the
    /// first days do not have it.
    #[serde(default)]
    pub forgotten: u64,
    /// The number of the manifest by which no file had events any more that were deleted until
    /// then: those before it name such events. 0 if none were deleted, and in manifests of former
    /// programs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub purged: u64,
    /// What was taken out to keep a quota. Manifests from before there was one do not have it.
    #[serde(default, skip_serializing_if = "OverQuota::is_nothing")]
    pub over_quota: OverQuota,
    /// Whether the next manifest may take deleted events out of files: a reader that cannot read
    /// that one does not go back to this one. Manifests from before there was such a sign do not
    /// say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purging: Option<bool>,
    /// All files, in the order of the first time in them.
    pub files: Vec<File>,
    /// Files that are no longer part of the archive, and are yet to be deleted.
    pub removed: Vec<Removed>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What stands in the place of an old manifest that named deleted events: its number stays taken.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Placeholder {
    /// The form of manifests.
    pub(crate) form: u64,
    /// The manifest's number.
    pub(crate) number: u64,
    /// Always so.
    pub(crate) emptied: bool,
}

/// Maximum bytes of what stands in the place of a manifest; a manifest has more.
pub(crate) const PLACEHOLDER_BYTES_MAX: u64 = 100;

/// What was taken out of an archive to keep a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverQuota {
    /// How many versions the files had.
    pub versions: u64,
    /// When the last of them was observed.
    pub until: Option<Timestamp>,
}

impl OverQuota {
    /// Whether nothing was taken out.
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
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
    /// How many bytes it and its rollup have.
    pub(crate) fn all_bytes(&self) -> u64 {
        let rollup = self.rollup.as_ref().map_or(0, |rollup| rollup.bytes);
        self.bytes.saturating_add(rollup)
    }

    /// Where it is, and its rollup.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let rollup = self.rollup.iter().map(|rollup| rollup.path.as_str());
        std::iter::once(self.path.as_str()).chain(rollup)
    }
}

/// Whether a path, from the folder of the cluster, is that of a file or a rollup.
fn is_of_archive(path: &str) -> bool {
    let file = path.strip_prefix("events/");
    let file = file.or_else(|| path.strip_prefix("rollups/"));
    file.is_some_and(foreign::is_file)
}

/// A place that is not behind another one, each of whose parts has a bounded length.
pub(crate) fn not_behind(place: [&str; 3]) -> [String; 3] {
    let mut bounded = <[String; 3]>::default();
    for (bounded, part) in bounded.iter_mut().zip(place) {
        let short = beginning(part);
        short.clone_into(bounded);
        // What is cut off is before everything that begins with it.
        if short.len() < part.len() {
            break;
        }
    }
    bounded
}

/// A place that is not before another one, whose kind and name have a bounded length; namespaces
/// have one anyway.
pub(crate) fn not_before(place: [&str; 3]) -> [String; 3] {
    let [namespace, kind, name] = place;
    // The least text that is behind another one.
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
    /// Where it is.
    pub path: String,
    /// Since when it is not part of the archive.
    pub at: Timestamp,
}

impl Manifest {
    /// Of an archive that has nothing yet and gets this identity; number 0, which is not written.
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
        }
    }

    /// The one that follows.
    pub(crate) fn next(&self, id: String, now: Timestamp) -> Self {
        Self {
            number: self.number.saturating_add(1),
            id,
            archive: self.archive.clone().or_else(|| Some(self.id.clone())),
            written_at: now,
            purging: self.purging.or(Some(false)),
            ..self.clone()
        }
    }

    /// What the store that writes it notes of it.
    pub(crate) fn commit(&self) -> Commit {
        Commit {
            number: self.number,
            id: self.id.clone(),
            sealed_through: self.sealed_through,
        }
    }

    /// What no writer writes: a reader would take memory for it, or a writer delete what is not of
    /// the archive.
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
        let mut paths = self.files.iter().flat_map(File::paths);
        let removed = self.removed.iter().map(|removed| removed.path.as_str());
        let of_another = paths.find(|path| !is_of_archive(path));
        let of_another = of_another.or_else(|| removed.into_iter().find(|it| !is_of_archive(it)));
        of_another.map(|path| format!("{path:?} is no file of an archive"))
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
        self.files.iter().map(File::all_bytes).sum()
    }

    /// The files whose last version was observed longest ago: as many as have to go so that the
    /// others, with their rollups, have no more than these bytes. The one with the latest versions
    /// is not among them, however large it is.
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

    /// Takes files out to keep a quota, and counts what they have.
    pub(crate) fn remove_over_quota(&mut self, paths: &BTreeSet<String>, now: Timestamp) {
        for file in self.files.iter().filter(|it| paths.contains(&it.path)) {
            let over = &mut self.over_quota;
            over.versions = over.versions.saturating_add(file.rows);
            over.until = over.until.max(Some(file.to));
        }
        self.remove(paths, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl File {
        /// One with a version of the first moment, for tests that look at some of its fields.
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

    /// A file by its path, when its first and last versions were observed, and its bytes with those
    /// of its rollup, which has one.
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
        // One that began first ends last.
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
            // The latest stays, although it is longer.
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
