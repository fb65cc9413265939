//! Copies of folders, and folders as bytes.

use std::fs;
use std::path::Path;

/// Copies a folder with its content into another, which is created if it does not exist.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Packs all files of a folder into bytes, in the order of their paths: for each file its path and
/// its content, each with its length in front.
pub fn pack_folder(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack_into(folder, folder, &mut bytes);
    bytes
}

fn pack_into(root: &Path, folder: &Path, bytes: &mut Vec<u8>) {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            pack_into(root, &path, bytes);
            continue;
        }
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        for part in [name.as_bytes(), &fs::read(&path).unwrap()] {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part);
        }
    }
}

/// Writes the files of a packed folder into a folder.
pub fn unpack_folder(mut packed: &[u8], folder: &Path) {
    let mut part = || {
        let (len, behind) = packed.split_first_chunk()?;
        let (part, behind) = behind.split_at(usize::try_from(u64::from_be_bytes(*len)).unwrap());
        packed = behind;
        Some(part)
    };
    while let Some(name) = part() {
        let path = folder.join(str::from_utf8(name).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, part().unwrap()).unwrap();
    }
}
