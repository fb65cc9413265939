//! A small store in one file.
//!
//! The file is a zstd frame of the folder's files, each a path and its bytes with their lengths
//! before them. (Journals are mostly zeros, and these compress to nothing.)

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Index, NewRecord, Store, UnixMillis};
use tidings_testing::pack_folder;

/// The time at which the store was created.
pub(crate) const MADE_AT: i64 = 1_750_000_000_000;

const HOUR: i64 = 3_600_000;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Opens a store on a clock that shows `now`.
pub(crate) fn open(folder: &Path, now: i64) -> Result<EmbeddedStore> {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(ManualClock::at(UnixMillis(now)));
    options.expire_by_itself = false;
    options.history_retention = Duration::from_secs(36_000);
    Ok(EmbeddedStore::open(folder, options)?)
}

/// The record with this number: values of many lengths, about ten pods, some without expiry, the
/// others with TTLs of one to three hours.
pub(crate) fn record(number: i64) -> NewRecord {
    let pod = number % 10;
    let words = [
        "Pulling image",
        "Back-off restarting failed container",
        "Started",
    ];
    let mut text = format!("event {number} about pod-{pod}: ");
    for turn in 0..number % 17 {
        let word = words.get((number + turn) as usize % words.len());
        text.push_str(word.copied().unwrap_or_default());
    }
    let index = Index {
        object_uid: format!("uid-of-pod-{pod}"),
        object_kind: "Pod".into(),
        object_namespace: "default".into(),
        object_name: format!("pod-{pod}"),
        reason: ["Pulling", "BackOff", "Started"][(number % 3) as usize].into(),
        event_type: ["Warning", "Normal"][(number % 2) as usize].into(),
        last_seen: UnixMillis(MADE_AT + number * 1000),
    };
    let record = NewRecord::new(text).index(index);
    if number % 5 == 0 {
        record
    } else {
        record.expires_at(UnixMillis(MADE_AT + (1 + number % 3) * HOUR))
    }
}

/// Creates 300 records, writes every seventh of them again and deletes every eleventh. The last
/// journal stays unflushed, as after a kill.
pub(crate) async fn fill(store: &EmbeddedStore) -> Result {
    for number in 0..300 {
        let key = format!("default/{number:04}");
        let created = store.create(key.clone().into(), record(number)).await?;
        if number % 7 == 0 {
            store
                .update(key.clone().into(), record(number + 1000), created)
                .await?;
        }
        if number % 11 == 0 {
            store.delete(key.into(), None).await?;
        }
    }
    Ok(())
}

/// A folder as the bytes of such a file.
pub(crate) fn pack(folder: &Path) -> Result<Vec<u8>> {
    Ok(zstd::bulk::compress(&pack_folder(folder), 19)?)
}
