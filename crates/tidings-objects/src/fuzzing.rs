//! Entry points for the fuzz targets, which read any bytes as objects of a bucket.
//!
//! Built only with `--cfg fuzzing`.

use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

pub use crate::file::caught::ignore_caught_panics;
use crate::file::end;
use crate::file::read::Reader as Rows;
use crate::file::rollup;
use crate::file::uids::{Uids, may_have};
use crate::folder::{Folder, Newest};
use crate::place::Place;
use crate::reader;

/// Reads any bytes as the newest manifest. What could be read has to be the same after it was
/// written and read again.
pub async fn manifest(bytes: &[u8]) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let place = Place::of(Arc::clone(&store), "memory:");
    let folder = Folder::new(&place, "prod");
    let path = folder.path("manifests/00000000000000000001.json");
    let bytes = Bytes::copy_from_slice(bytes);
    store.put(&path, bytes.into()).await.expect("memory");
    let Ok(Some(Newest::Readable(found))) = folder.newest_readable().await else {
        return;
    };
    let manifest = found.manifest;
    manifest.rows();
    manifest.bytes();
    manifest.beyond(1 << 20);
    let next = manifest.next("next".into(), jiff::Timestamp::UNIX_EPOCH);
    if folder.commit(&next).await.is_ok() {
        assert_eq!(folder.newest().await.ok().flatten(), Some(next));
    }
}

/// Reads any bytes as a file of versions and as a rollup, in every way in which one is read.
pub async fn file(bytes: &[u8]) {
    let (bytes, len) = (Bytes::copy_from_slice(bytes), bytes.len() as u64);
    if let Ok(rows) = Rows::new(&"prod".into(), bytes.clone()) {
        for group in 0..rows.groups() {
            let _ = rows.checked_group(group);
        }
    }
    if let Ok(rollup) = rollup::Reader::new(bytes.clone()) {
        rollup.count_of_rows();
        for group in 0..rollup.groups() {
            let _ = rollup.hours(group);
        }
        let _ = rollup::is_same(&bytes, &bytes);
    }
    if let Ok(uids) = Uids::of(&bytes, len) {
        for group in uids.groups(|_, _| true) {
            let part =
                |range: std::ops::Range<u64>| bytes.slice(range.start as usize..range.end as usize);
            if let Some(filter) = uids.filter(group) {
                let _ = may_have(&part(filter), ["a"].into_iter());
            }
            if let Ok(column) = uids.column(group) {
                let _ = uids.any(group, part(column), |_| false);
            }
        }
    }
    if let Ok(meta) = end::read(&bytes, len, end::EVENTS) {
        let rows = meta.row_groups().iter().map(|group| group.num_rows());
        reader::fuzzing::file(bytes, rows.sum::<i64>().unsigned_abs()).await;
    }
}

/// Reads any bytes as an answer with pending versions.
pub fn waiting(bytes: &[u8]) {
    reader::fuzzing::waiting(Bytes::copy_from_slice(bytes));
}
