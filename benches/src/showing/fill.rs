//! Fills the data folder of a server with the events of a cluster, as if it had stored them while
//! they happened.

use std::path::Path;
use std::sync::Arc;

use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Expected, Store, UnixMillis, Write};

use super::cluster::{Cluster, DAY, Said};
use crate::{Failure, Figure};

/// Number of creates in one commit.
const FILL: usize = 1000;
/// Time for which events are kept after they were last seen, in milliseconds.
const KEPT: i64 = 90 * DAY;

/// Fills the folder of a server that has no events yet with those of a cluster, up to now.
pub(super) async fn fill(folder: &Path, events: u64, days: i64, now: i64) -> Result<(), Failure> {
    let clock = ManualClock::at(UnixMillis(now - days * DAY));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    let store = EmbeddedStore::open(folder.join("store"), options)?;
    if store.stats().await?.records > 0 {
        return Err(format!("{} has events already", folder.display()).into());
    }
    let mut cluster = Cluster::new(0, events, days, now);
    let mut bytes = 0;
    loop {
        let said: Vec<Said> = cluster.by_ref().take(FILL).collect();
        let Some(last) = said.last() else { break };
        clock.advance((last.last - clock.now().0).max(0));
        let mut writes = Vec::new();
        for said in &said {
            let event = said.stored()?;
            bytes += event.bytes();
            let (key, record) = event.record(UnixMillis(said.last + KEPT));
            writes.push(Write::put(key, record).expecting(Expected::Absent));
        }
        store.write_all(writes).await?;
    }
    let there = store.stats().await?.records;
    store.close().await;
    Figure::new("filled")
        .with("events", there as f64)
        .with("bytes", bytes as f64)
        .print();
    Ok(())
}
