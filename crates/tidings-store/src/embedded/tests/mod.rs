//! Tests of the whole store from inside the crate.

mod bounds;
mod damage;
mod power_cuts;
mod rewrite;
mod sweep;
mod threads;
mod together;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::clock::ManualClock;

const NOW: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;
const SIZES: Sizes = Sizes {
    files: 2,
    cache: 1 << 20,
    memtable: 1 << 20,
    segment: 64 << 10,
};

fn open(folder: &Path, clock: &ManualClock) -> Result<EmbeddedStore, OpenError> {
    let options = EmbeddedOptions {
        clock: Arc::new(clock.clone()),
        expire_by_itself: false,
        free_space_min: 0,
        ..EmbeddedOptions::default()
    };
    EmbeddedStore::open(folder, options)
}

fn living(value: &str, minutes: i64) -> NewRecord {
    NewRecord::new(value.to_owned()).expires_at(UnixMillis(NOW + minutes * MINUTE))
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("log")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    files
}
