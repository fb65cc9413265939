//! What storing costs: the embedded store, beside raw etcd and beside a bare log.
//!
//! Each part runs in a process of its own, so that peaks of memory do not mix, and prints figures as lines of JSON. All of them are
//! given the same events by the same writers and return when the write is on disk:
//!
//! - **embedded**: the store, through its contract, with its default options.
//! - **etcd**: create-if-absent transactions over gRPC to an etcd on the same disk, a lease for every 1,000 events, nothing else:
//!   what kube-apiserver does per event without its own work. It has no index to find an object's events by, so it is not asked.
//! - **log**: a checksummed append-only file with group commit and `fdatasync`, and nothing to read it by: the floor.

mod embedded;
mod encode;
mod etcd;
mod events;
mod load;
mod log;
mod messages;
#[path = "../../../crates/tidings-store/tests/support/port.rs"]
mod port;
mod process;
mod real;

use std::sync::Arc;
use std::time::Duration;

pub use embedded::{expiry, reads, real_events, writes};
pub use etcd::etcd;
pub use log::log;

use self::events::Events;
use self::load::Writes;
use crate::Figure;

/// What a part failed with, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long events live, in milliseconds: kube-apiserver's `--event-ttl` of an hour.
const TTL: i64 = 3_600_000;

/// Writes of the one writer that is alone.
const LONE_WRITES: u64 = 2_000;

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A figure of one of the three.
fn figure(of: &str, name: &str) -> Figure {
    Figure::of(of, name)
}

/// Creates `count` events and then updates the first `updates` of them, and adds what that took; returns the bytes handed over, too.
async fn with_writes<T: load::Target>(
    figure: Figure,
    target: &Arc<T>,
    events: &Arc<Events>,
    (count, updates): (u64, u64),
    writers: u64,
) -> Result<(Figure, u64), Failure> {
    let revisions = load::revisions(updates);
    let write = |numbers, writes| load::burst(target, events, numbers, writers, writes, &revisions);
    let created = write(0..count, Writes::Creates).await?;
    let updated = write(0..updates, Writes::Updates).await?;
    let payload = created.bytes + updated.bytes;
    let figure = with_burst(figure, created, "creates_");
    Ok((with_burst(figure, updated, "updates_"), payload))
}

/// Adds a burst's rate and times.
fn with_burst(figure: Figure, mut burst: load::Burst, prefix: &str) -> Figure {
    let figure = figure.with(&format!("{prefix}per_second"), burst.rate);
    std::mem::take(&mut burst.times).into_figure(figure, prefix)
}

/// Adds the most memory this process had resident.
fn with_peak(figure: Figure) -> Figure {
    match process::peak_resident_bytes(std::process::id()) {
        Some(bytes) => figure.with("peak_bytes", bytes as f64),
        None => figure,
    }
}

/// Adds what was written to the device for each byte handed over.
fn with_amplification(
    figure: Figure,
    before: Option<u64>,
    after: Option<u64>,
    payload: u64,
) -> Figure {
    match before.zip(after) {
        Some((before, after)) => figure.with(
            "device_bytes_per_byte",
            after.saturating_sub(before) as f64 / payload as f64,
        ),
        None => figure,
    }
}
