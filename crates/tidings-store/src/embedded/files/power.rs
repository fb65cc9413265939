//! Simulated power cuts, for tests.
//!
//! They produce the state of a store's folder after the machine lost power at some change of its
//! files.
//!
//! A [`Disk`] follows every [`Change`] in a folder and knows what is durable: a file's bytes as of
//! its last sync, a folder's names as of its last sync. At the requested change the power fails:
//! this and all later changes fail. [`Disk::leave`] then makes a folder as the machine may find it:
//!
//! - In an unsynced file, each page is as of the last sync, or as written, or torn between the two.
//!   The length is anything between; missing bytes are zeros.
//! - In an unsynced folder, none, the first ones or any of the changed names are changed. A rename
//!   is done or not done.
//! - Bytes that were synced and not written again are never damaged.
//!
//! The index's trees are lsm-tree's. It syncs each table, then the folder, then the version that
//! has the table, then the folder, and replaces the pointer to that version last, as a whole. So
//! the files of a pointer are durable. The index's files are therefore taken as they are when the
//! power fails, including incomplete ones; or, for each tree separately, as they were before the
//! last checkpoint, as if nothing later had been synced. Sometimes files created since are damaged,
//! synced or not: such an index must be detected and rebuilt.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::Change;
use super::faults::Random;
use super::folder::INDEX;

const PAGE: usize = 4096;

/// The folders that are followed.
static DISKS: Mutex<BTreeMap<PathBuf, Arc<Mutex<Disk>>>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Debug)]
enum Node {
    File(usize),
    Folder,
}

#[derive(Debug)]
enum NameChange {
    Put(OsString, Node),
    Remove(OsString),
    Rename(OsString, OsString),
}

#[derive(Clone, Debug, Default)]
struct Content {
    synced: Vec<u8>,
    written: Vec<u8>,
}

#[derive(Debug, Default)]
struct Names {
    synced: BTreeMap<OsString, Node>,
    now: BTreeMap<OsString, Node>,
    changes: Vec<NameChange>,
}

/// The contents of the index's files, by path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A simulated disk; see the module documentation.
#[derive(Debug)]
pub(in crate::embedded) struct Disk {
    root: PathBuf,
    files: Vec<Content>,
    folders: BTreeMap<PathBuf, Names>,
    random: Random,
    /// Number of changes until the power fails.
    left: usize,
    is_off: bool,
    index_at_checkpoint: Files,
    index_at_cut: Files,
}

impl Disk {
    /// Starts to follow a folder, whose content counts as durable.
    pub(in crate::embedded) fn follow(root: &Path, random: Random) -> Arc<Mutex<Self>> {
        let mut disk = Self {
            root: root.to_owned(),
            files: Vec::new(),
            folders: BTreeMap::new(),
            random,
            left: usize::MAX,
            is_off: false,
            index_at_checkpoint: index_files(root),
            index_at_cut: Files::new(),
        };
        disk.take_in(Path::new(""));
        let disk = Arc::new(Mutex::new(disk));
        DISKS.lock().insert(root.to_owned(), Arc::clone(&disk));
        disk
    }

    fn take_in(&mut self, folder: &Path) {
        let mut names = Names::default();
        for entry in fs::read_dir(self.root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let node = if path == Path::new(INDEX) {
                continue;
            } else if entry.file_type().unwrap().is_dir() {
                self.take_in(&path);
                Node::Folder
            } else {
                let synced = fs::read(entry.path()).unwrap();
                let written = synced.clone();
                self.files.push(Content { synced, written });
                Node::File(self.files.len() - 1)
            };
            names.synced.insert(entry.file_name(), node);
        }
        names.now = names.synced.clone();
        self.folders.insert(folder.to_owned(), names);
    }

    /// Makes the power fail at the `changes`-th change from now, and turns it on until then.
    pub(in crate::embedded) fn cut_after(&mut self, changes: usize) {
        (self.left, self.is_off) = (changes, false);
    }

    pub(in crate::embedded) fn is_off(&self) -> bool {
        self.is_off
    }

    fn names(&mut self, path: &Path) -> Option<(&mut Names, OsString)> {
        let path = path.strip_prefix(&self.root).ok()?;
        let names = self.folders.get_mut(path.parent()?)?;
        Some((names, path.file_name()?.to_owned()))
    }

    fn file(&mut self, path: &Path) -> Option<&mut Content> {
        let (names, name) = self.names(path)?;
        match names.now.get(&name) {
            Some(Node::File(number)) => {
                let number = *number;
                self.files.get_mut(number)
            }
            _ => None,
        }
    }

    fn follow_change(&mut self, change: &Change<'_>) {
        match *change {
            Change::MakeFolder(path) => {
                let relative = path.strip_prefix(&self.root).unwrap().to_owned();
                if relative == Path::new(INDEX) || self.folders.contains_key(&relative) {
                    return;
                }
                self.folders.insert(relative, Names::default());
                if let Some((names, name)) = self.names(path) {
                    names.now.insert(name.clone(), Node::Folder);
                    names.changes.push(NameChange::Put(name, Node::Folder));
                }
            }
            Change::Create(path) => {
                if let Some(file) = self.file(path) {
                    file.written.clear();
                    return;
                }
                let node = Node::File(self.files.len());
                if let Some((names, name)) = self.names(path) {
                    names.now.insert(name.clone(), node);
                    names.changes.push(NameChange::Put(name, node));
                    self.files.push(Content::default());
                }
            }
            Change::Write {
                path, bytes, at, ..
            } => {
                if let Some(Content { written, .. }) = self.file(path) {
                    let (at, end) = (at as usize, at as usize + bytes.len());
                    written.resize(written.len().max(end), 0);
                    written[at..end].copy_from_slice(bytes);
                }
            }
            Change::SetLen(path, len) => {
                if let Some(file) = self.file(path) {
                    file.written.resize(len as usize, 0);
                }
            }
            Change::Sync(path) => {
                if let Some(file) = self.file(path) {
                    file.synced.clone_from(&file.written);
                }
            }
            Change::SyncFolder(path) => {
                if let Some((names, _)) = self.names(&path.join("any")) {
                    names.synced.clone_from(&names.now);
                    names.changes.clear();
                }
            }
            Change::Rename(from, to) => {
                if to.ends_with("CHECKPOINT") {
                    self.index_at_checkpoint = index_files(&self.root);
                }
                if let Some((names, from)) = self.names(from) {
                    let to = to.file_name().unwrap().to_owned();
                    let node = names.now.remove(&from).unwrap();
                    names.now.insert(to.clone(), node);
                    names.changes.push(NameChange::Rename(from, to));
                }
            }
            Change::Remove(path) => {
                if let Some((names, name)) = self.names(path)
                    && names.now.remove(&name).is_some()
                {
                    names.changes.push(NameChange::Remove(name));
                }
            }
        }
    }

    /// Makes a folder in the state that the machine finds when the power is back.
    pub(in crate::embedded) fn leave(&mut self, into: &Path) {
        assert!(self.is_off);
        let mut random = self.random.clone();
        for (folder, names) in &self.folders {
            // A folder whose own name is lost is lost with its content. Parents come before
            // children in the order of paths.
            if !into.join(folder).is_dir() {
                continue;
            }
            for (name, node) in left_of_names(names, &mut random) {
                let path = into.join(folder).join(name);
                match node {
                    Node::Folder => fs::create_dir(path).unwrap(),
                    Node::File(number) => {
                        fs::write(path, left_of(&self.files[number], &mut random)).unwrap();
                    }
                }
            }
        }
        for (path, bytes) in self.left_of_index(&mut random) {
            let path = into.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        self.random = random;
    }

    fn left_of_index(&self, random: &mut Random) -> Files {
        let tree_of = |path: &Path| {
            path.components()
                .nth(1)
                .map(|tree| tree.as_os_str().to_owned())
        };
        let (before, now) = (&self.index_at_checkpoint, &self.index_at_cut);
        let trees: BTreeSet<_> = before
            .keys()
            .chain(now.keys())
            .map(|path| tree_of(path))
            .collect();
        let mut left = Files::new();
        for tree in trees {
            // The mark of an untrusted index is synced before it is needed.
            let is_note = tree.as_deref().is_some_and(|tree| tree == "distrusted");
            let is_noted = is_note && now.keys().any(|path| tree_of(path) == tree);
            let files = [before, now][if is_noted { 1 } else { random.below(2) }];
            let files = files.iter().filter(|(path, _)| tree_of(path) == tree);
            left.extend(files.map(|(path, bytes)| (path.clone(), bytes.clone())));
        }
        if random.below(4) == 0 {
            for (path, bytes) in &mut left {
                let is_new = before.get(path) != Some(bytes);
                if is_new
                    && path
                        .parent()
                        .is_some_and(|folder| folder.ends_with("tables"))
                {
                    match random.below(3) {
                        0 => bytes.fill(0),
                        1 => bytes.truncate(random.below(bytes.len() + 1)),
                        _ => {}
                    }
                }
            }
        }
        left
    }
}

/// Reads the files of the index, those of each tree as of one moment, although lsm-tree may be
/// writing.
fn index_files(root: &Path) -> Files {
    let mut files = Files::new();
    let Ok(trees) = fs::read_dir(root.join(INDEX)) else {
        return files;
    };
    for tree in trees {
        let tree = tree.unwrap();
        if tree.file_type().unwrap().is_file() {
            let path = Path::new(INDEX).join(tree.file_name());
            files.insert(path, fs::read(tree.path()).unwrap());
            continue;
        }
        // The files of a pointer exist as long as the pointer does not change.
        loop {
            let pointer = fs::read(tree.path().join("current")).ok();
            let mut of_tree = Files::new();
            read_files(root, &tree.path(), &mut of_tree);
            if fs::read(tree.path().join("current")).ok() == pointer {
                files.extend(of_tree);
                break;
            }
        }
    }
    files
}

fn read_files(root: &Path, folder: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_files(root, &path, files);
        } else if let Ok(bytes) = fs::read(&path) {
            files.insert(path.strip_prefix(root).unwrap().to_owned(), bytes);
        }
    }
}

fn left_of_names(names: &Names, random: &mut Random) -> BTreeMap<OsString, Node> {
    let mut left = names.synced.clone();
    let count = names.changes.len();
    let (first, share) = match random.below(3) {
        0 => (0, 0),
        1 => (random.below(count + 1), 0),
        _ => (0, 2),
    };
    for (at, change) in names.changes.iter().enumerate() {
        if at >= first && (share == 0 || random.below(share) == 0) {
            continue;
        }
        match change {
            NameChange::Put(name, node) => drop(left.insert(name.clone(), *node)),
            NameChange::Remove(name) => drop(left.remove(name)),
            NameChange::Rename(from, to) => {
                if let Some(node) = left.remove(from) {
                    left.insert(to.clone(), node);
                }
            }
        }
    }
    left
}

fn left_of(content: &Content, random: &mut Random) -> Vec<u8> {
    let Content { synced, written } = content;
    if synced == written || random.below(4) == 0 {
        return written.clone();
    }
    let (short, long) = (
        synced.len().min(written.len()),
        synced.len().max(written.len()),
    );
    let len = [
        synced.len(),
        written.len(),
        short + random.below(long - short + 1),
    ][random.below(3)];
    let mut left = synced.clone();
    left.resize(len, 0);
    for start in (0..len).step_by(PAGE) {
        let end = len.min(start + PAGE);
        // The whole page survives, or nothing, or its beginning, or its end.
        let (from, to) = match random.below(4) {
            0 => (start, start),
            1 => (start, start + random.below(end - start + 1)),
            2 => (start + random.below(end - start + 1), end),
            _ => (start, end),
        };
        let (from, to) = (from.min(written.len()), to.min(written.len()));
        left[from..to].copy_from_slice(&written[from..to]);
    }
    left
}

/// Makes a change, if there is power.
pub(in crate::embedded) fn apply<T>(
    change: &Change<'_>,
    make: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let (Change::MakeFolder(path)
    | Change::Create(path)
    | Change::Write { path, .. }
    | Change::SetLen(path, _)
    | Change::Sync(path)
    | Change::SyncFolder(path)
    | Change::Rename(_, path)
    | Change::Remove(path)) = change;
    let disk = {
        let disks = DISKS.lock();
        path.ancestors().find_map(|root| disks.get(root).cloned())
    };
    let Some(disk) = disk else {
        return make();
    };
    let mut disk = disk.lock();
    let off = || io::Error::other("the power is off");
    if disk.is_off {
        return Err(off());
    }
    disk.left = disk.left.saturating_sub(1);
    if disk.left == 0 {
        disk.is_off = true;
        disk.index_at_cut = index_files(&disk.root);
        // The change may be done although the caller gets an error.
        if disk.random.below(2) == 0 {
            return Err(off());
        }
    }
    let made = make()?;
    disk.follow_change(change);
    if disk.is_off { Err(off()) } else { Ok(made) }
}
