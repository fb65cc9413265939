//! Injected faults, for tests.
//!
//! In chosen folders, one file operation in four fails at random. A folder can also be made to look
//! full, and a committer can be made to panic at one point of its next commit.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use super::disk::Change;

/// Random numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub(in crate::embedded) struct Random(pub(in crate::embedded) u64);

impl Random {
    pub(in crate::embedded) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `end`.
    pub(in crate::embedded) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Folders whose files fail, with the state of their random numbers.
static FAILING: Mutex<BTreeMap<PathBuf, Random>> = Mutex::new(BTreeMap::new());

fn failing() -> MutexGuard<'static, BTreeMap<PathBuf, Random>> {
    FAILING.lock()
}

/// Makes operations on a folder and its files fail from now on, as chosen by the seed.
pub(in crate::embedded) fn begin(folder: &Path, seed: u64) {
    failing().insert(folder.to_owned(), Random(seed));
}

/// Makes operations on a folder work again.
pub(in crate::embedded) fn end(folder: &Path) {
    failing().remove(folder);
}

/// A random number if the next operation in a folder should fail, otherwise `None`.
fn next(folder: &Path) -> Option<usize> {
    let mut failing = failing();
    let random = failing.get_mut(folder)?;
    (random.below(4) == 0).then(|| random.next() as usize)
}

/// Fails if a fault is due. A failing write may have written a part of its bytes.
pub(super) fn strike(change: &Change<'_>) -> io::Result<()> {
    let folder = match change {
        Change::MakeFolder(_) => None,
        Change::SyncFolder(folder) => Some(*folder),
        Change::Create(path)
        | Change::Write { path, .. }
        | Change::SetLen(path, _)
        | Change::Sync(path)
        | Change::Rename(_, path)
        | Change::Remove(path) => path.parent(),
    };
    let Some(number) = folder.and_then(next) else {
        return Ok(());
    };
    if let Change::Write {
        file, bytes, at, ..
    } = change
    {
        file.write_all_at(&bytes[..number % (bytes.len() + 1)], *at)?;
    }
    Err(io::Error::other("injected"))
}

/// Folders that seem to have no room for new files.
static FULL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn full() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FULL.lock()
}

/// Makes a folder look full from now on.
pub(in crate::embedded) fn fill(folder: &Path) {
    full().insert(folder.to_owned());
}

/// Gives a folder room again.
pub(in crate::embedded) fn empty(folder: &Path) {
    full().remove(folder);
}

/// Whether a folder should look full.
pub(in crate::embedded) fn is_full(folder: &Path) -> bool {
    full().contains(folder)
}

/// The point of a commit at which it may panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Point {
    /// Everything is decided, and nothing is written.
    Decided,
    /// The commit is on the disk, but not published.
    Synced,
}

/// Stores whose next commit will panic, with the point.
static PANICKING: Mutex<BTreeMap<PathBuf, Point>> = Mutex::new(BTreeMap::new());

/// Makes the next commit of a store panic.
pub(in crate::embedded) fn panic_next(store: &Path, point: Point) {
    let mut panicking = PANICKING.lock();
    panicking.insert(store.to_owned(), point);
}

/// Panics if this is the chosen point of the store.
pub(in crate::embedded) fn panic_at(store: &Path, point: Point) {
    let mut panicking = PANICKING.lock();
    if panicking.get(store) == Some(&point) {
        panicking.remove(store);
        drop(panicking);
        panic!("injected");
    }
}
