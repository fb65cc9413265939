//! Errors of a disk at random places, for tests: one operation in four fails in the logs that are asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The folders whose segments fail, with the state of their random numbers.
static FAILING: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

fn failing() -> MutexGuard<'static, BTreeMap<PathBuf, u64>> {
    FAILING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on operations on the segments in a folder fail; the seed says which.
pub(crate) fn begin(folder: &Path, seed: u64) {
    failing().insert(folder.to_owned(), seed);
}

/// They work again.
pub(crate) fn end(folder: &Path) {
    failing().remove(folder);
}

/// A random number, if the next operation on a segment is to fail.
fn next(segment: &Path) -> Option<u64> {
    let mut failing = failing();
    let state = failing.get_mut(segment.parent()?)?;
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed.is_multiple_of(4).then_some(mixed >> 2)
}

/// An operation that does nothing or fails.
pub(crate) fn strike(segment: &Path) -> io::Result<()> {
    match next(segment) {
        Some(_) => Err(io::Error::other("injected")),
        None => Ok(()),
    }
}

/// A write that does nothing, or fails with a part of the bytes written.
pub(crate) fn strike_write(segment: &Path, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let Some(number) = next(segment) else {
        return Ok(());
    };
    let len = number as usize % (bytes.len() + 1);
    file.write_all_at(&bytes[..len], at)?;
    Err(io::Error::other("injected"))
}
