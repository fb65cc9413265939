//! Checksums of the index's files, as of a checkpoint.
//!
//! They find damage before lsm-tree reads the files: it allocates memory for as many entries as a
//! file claims, without checking the claim.
//!
//! Only the end of each file is summed, because everything else in it depends on that. Blocks of
//! tables have checksums of their own, which are compared as they are read. Contents are not
//! interpreted.
//!
//! Invariants: a named file is complete and does not change, so sums are made only while no thread
//! writes to a tree. A pointer changes only after a file was added beside it. Files without a sum
//! (tables merged since) are left to lsm-tree, as are all files if there are no sums, which are not
//! synced. Sums are removed when the trees are opened, because a process may reuse a name of an
//! earlier one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::embedded::files::{disk, parallel};

/// The file that leads to everything else in a tree's folder, and changes with it. If it is
/// missing, lsm-tree silently makes a new tree.
pub(super) const POINTER: &str = "current";

const FILE: &str = "SUMS";

/// Bytes at the end of a file that are summed.
const END: u64 = 32 << 10;

/// The length of a file, and the checksum of its end.
type Sum = (u64, u64);

/// The sums of files, by their names in the index's folder.
#[derive(Default)]
pub(super) struct Sums(Mutex<BTreeMap<String, Sum>>);

impl Sums {
    /// Writes the sums of all existing files. None of them may be written to meanwhile.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut known = self.0.lock();
        let mut now = BTreeMap::new();
        for name in files(folder, "")? {
            // A file that is gone by now was merged with others.
            let sum = known.get(&name).filter(|_| !is_pointer(&name)).copied();
            if let Some(sum) =
                sum.map_or_else(|| sum_of(&folder.join(&name)), |sum| Ok(Some(sum)))?
            {
                now.insert(name, sum);
            }
        }
        *known = now;
        let mut text = String::new();
        for (name, (len, sum)) in &*known {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {len} {sum:016x}");
        }
        let checksum = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "{checksum:016x}");
        disk::write(&folder.join(FILE), text.as_bytes())
    }
}

/// Whether the files are as they were when their sums were written. If so, removes the sums.
pub(in crate::embedded) fn take(folder: &Path) -> io::Result<bool> {
    let path = folder.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let sums = str::from_utf8(&text)
        .ok()
        .and_then(decode)
        .unwrap_or_default();
    let summed: BTreeSet<&str> = sums.iter().map(|(name, _)| name.as_str()).collect();
    let same = parallel::each(&sums, |(name, expected)| {
        let found = sum_of(&folder.join(name))?;
        let is_same = found.is_none_or(|found| found == *expected);
        Ok::<_, io::Error>(is_same || (is_pointer(name) && is_added_to(folder, name, &summed)?))
    });
    let same = same.into_iter().collect::<io::Result<Vec<_>>>()?;
    if let Some(at) = same.iter().position(|same| !same) {
        let name = sums.get(at).map(|(name, _)| name);
        tracing::error!(folder = %folder.display(), file = name, "a file of the index is damaged");
        return Ok(false);
    }
    disk::remove(&path)?;
    Ok(true)
}

fn is_pointer(name: &str) -> bool {
    Path::new(name).ends_with(POINTER)
}

/// Whether a file was added beside a pointer since the sums were made. Then the pointer may have
/// changed.
fn is_added_to(folder: &Path, pointer: &str, summed: &BTreeSet<&str>) -> io::Result<bool> {
    let tree = Path::new(pointer).parent().unwrap_or(Path::new(""));
    for entry in fs::read_dir(folder.join(tree))? {
        let entry = entry?;
        let name = tree.join(entry.file_name()).display().to_string();
        if entry.file_type()?.is_file() && !summed.contains(name.as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn decode(text: &str) -> Option<Vec<(String, Sum)>> {
    let text = text.strip_suffix('\n')?;
    let begin = text.rfind('\n').map_or(0, |at| at + 1);
    let (lines, checksum) = text.split_at_checked(begin)?;
    if u64::from_str_radix(checksum, 16).ok()? != xxh3_64(lines.as_bytes()) {
        return None;
    }
    let line = |line: &str| {
        let mut words = line.rsplitn(3, ' ');
        let sum = u64::from_str_radix(words.next()?, 16).ok()?;
        let len = words.next()?.parse().ok()?;
        Some((words.next()?.to_owned(), (len, sum)))
    };
    lines.lines().map(line).collect()
}

/// The sum of a file; `None` if the file does not exist.
fn sum_of(path: &Path) -> io::Result<Option<Sum>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = file.metadata()?.len();
    let mut end = vec![0; usize::try_from(len.min(END)).unwrap_or(0)];
    file.read_exact_at(&mut end, len.saturating_sub(END))?;
    Ok(Some((len, xxh3_64(&end))))
}

/// The names of the files in the folders of an index, which never change once complete.
fn files(folder: &Path, below: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match fs::read_dir(folder.join(below)) {
        // The bucket of this tree was dropped meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = Path::new(below).join(&name).display().to_string();
        if entry.file_type()?.is_dir() {
            names.extend(files(folder, &path)?);
        } else if !below.is_empty() {
            names.push(path);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let file = |name: &str| folder.join("names").join(name);
        fs::create_dir_all(file("tables")).unwrap();
        let long: Vec<u8> = (0..2 * END).map(|at| (at % 251) as u8).collect();
        let files = [("v1", &b"one"[..]), ("tables/1", &long), ("tables/2", b"")];
        for (name, content) in files {
            fs::write(file(name), content).unwrap();
        }
        fs::write(file(POINTER), "1").unwrap();
        let sums = Sums::default();
        let write = || sums.write(folder).unwrap();
        write();
        assert!(take(folder).unwrap());
        assert!(!folder.join(FILE).exists());
        write();
        for (name, content) in files {
            for at in 0..content.len().min(9) {
                let mut changed = content.to_vec();
                changed[content.len() - 1 - at * 3 % content.len()] ^= 0x80;
                fs::write(file(name), changed).unwrap();
                assert!(!take(folder).unwrap(), "{name} {at}");
            }
            fs::write(file(name), [content, b"and more"].concat()).unwrap();
            assert!(!take(folder).unwrap(), "{name}");
            fs::write(file(name), content).unwrap();
        }
        let sums_there = fs::read(folder.join(FILE)).unwrap();
        fs::write(file(POINTER), "0").unwrap();
        assert!(!take(folder).unwrap(), "nothing was added that it leads to");

        // Merges make these changes between two checkpoints.
        fs::remove_file(file("v1")).unwrap();
        fs::write(file("v2"), "two").unwrap();
        fs::write(file(POINTER), "2").unwrap();
        assert!(take(folder).unwrap());
        write();
        fs::write(file("v2"), "tow").unwrap();
        assert!(!take(folder).unwrap(), "it is summed by then");

        fs::write(folder.join(FILE), &sums_there[1..]).unwrap();
        assert!(take(folder).unwrap(), "sums that are damaged tell nothing");
    }
}
