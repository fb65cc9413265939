//! Measurements that the parts for the embedded store, etcd and the log have in common.

use std::sync::Arc;

use super::events::Events;
use super::failure::Failure;
use super::load::{self, Writes};
use super::process;
use crate::Figure;

/// Lifetime of events in milliseconds: an hour, the default of kube-apiserver's `--event-ttl`.
pub(super) const TTL: i64 = 3_600_000;

/// Number of writes of the single writer.
pub(super) const LONE_WRITES: u64 = 2_000;

/// Begins a figure of the embedded store, of etcd or of the log.
pub(super) fn figure(of: &str, name: &str) -> Figure {
    Figure::of(of, name)
}

/// Creates `count` events, then updates the first `updates` of them, and adds the measurements.
/// Also returns the number of bytes that were passed to the store.
pub(super) async fn with_writes<T: load::Target>(
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

/// Adds the rate and the times of a burst.
pub(super) fn with_burst(figure: Figure, mut burst: load::Burst, prefix: &str) -> Figure {
    let figure = figure.with(&format!("{prefix}per_second"), burst.rate);
    std::mem::take(&mut burst.times).into_figure(figure, prefix)
}

/// Adds the maximum resident memory of this process.
pub(super) fn with_peak(figure: Figure) -> Figure {
    match process::peak_resident_bytes(std::process::id()) {
        Some(bytes) => figure.with("peak_bytes", bytes as f64),
        None => figure,
    }
}

/// Adds the bytes written to the device for each byte that was passed to the store.
pub(super) fn with_amplification(
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
