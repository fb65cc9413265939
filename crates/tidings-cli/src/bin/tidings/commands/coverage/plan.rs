//! `tidings coverage --plan`: what a cluster's events will take if they are kept for a given time,
//! by what they took so far.
//!
//! Invariant: the figures are extrapolated in a straight line, and nothing is extrapolated from
//! less than an hour.

use std::io::{self, Write};
use std::time::Duration;

use tidings_cli::table::{Cell, Screen};
use tidings_history::{Counted, Coverage};
use tidings_store::UnixMillis;

use super::cells::{UNKNOWN, bytes, life, number, table, text};

/// Shortest time from which a rate is taken.
const SEEN_MIN: Duration = Duration::from_secs(60 * 60);
/// Memory of an archive without events: its own, and the pages of the program.
const MEMORY_BASE: u64 = 60_000_000;
/// The log has an index point of 8 bytes for each 4,096 bytes (docs/storage-format.md).
const MEMORY_SHARE: u64 = 4_096 / 8;
/// The log may take twice the space of its live records, and two files of 128 MiB more.
const LOG_FACTOR: u64 = 2;
const LOG_FILES: u64 = 2 * 128 * 1024 * 1024;
/// Bytes of a version in sealed files: the larger of the measured ones (docs/benchmarks.md).
const SEALED_VERSION: u64 = 134;
const DAY: f64 = 86_400.0;

const HEADINGS: [&str; 7] = [
    "CLUSTER",
    "SEEN",
    "EVENTS/DAY",
    "VERSIONS/DAY",
    "VOLUME",
    "MEMORY",
    "BUCKET",
];

/// What a cluster will take.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The time from which the rates were taken.
    seen: Duration,
    events_a_day: u64,
    versions_a_day: u64,
    /// The size of the volume to have, in bytes.
    volume: u64,
    /// Memory while it follows, in bytes; a list of everything takes more for a moment.
    memory: u64,
    /// Bytes of sealed files, if the cluster is sealed with `--objects`.
    bucket: u64,
}

impl Plan {
    /// The plan for events that are kept for this time. `None` if too little was seen, or if the
    /// archive is a sealed one.
    fn of(coverage: &Coverage, kept_for: Duration) -> Option<Self> {
        // A sealed archive counts versions, and its bytes are those of a bucket.
        let totals = coverage
            .totals
            .filter(|_| coverage.counted() == Counted::Events)?;
        let since = coverage.followed.iter().map(|one| one.since).min()?;
        let until = coverage
            .followed
            .iter()
            .map(|one| one.complete_until)
            .max()?;
        let counted = coverage.followed.iter().filter_map(|one| one.progress);
        let versions: u64 = counted.map(|progress| progress.versions).sum();
        let seen = between(since, until);
        // Events from before that have expired, or were deleted.
        let kept = between(totals.kept_since.unwrap_or(since).max(since), until);
        if seen < SEEN_MIN || kept < SEEN_MIN {
            return None;
        }
        let days = kept_for.as_secs_f64() / DAY;
        let rate = |count: u64, time: Duration| count as f64 * DAY / time.as_secs_f64();
        let live = (rate(totals.disk_bytes, kept) * days) as u64;
        Some(Self {
            seen,
            events_a_day: rate(totals.events, kept).round() as u64,
            versions_a_day: rate(versions, seen).round() as u64,
            volume: live.saturating_mul(LOG_FACTOR).saturating_add(LOG_FILES),
            memory: MEMORY_BASE + live / MEMORY_SHARE,
            bucket: ((rate(versions, seen) * days) as u64).saturating_mul(SEALED_VERSION),
        })
    }
}

fn between(from: UnixMillis, to: UnixMillis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// Prints the plans of these clusters, and what they leave out.
pub(super) fn print(
    found: &[Coverage],
    kept_for: Duration,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows: Vec<Vec<Cell>> = found.iter().map(|one| row(one, kept_for)).collect();
    table(&HEADINGS, &rows, screen, out)?;
    writeln!(
        out,
        "\nIf all goes on as in the time seen. VOLUME is twice what the events take, as the log is rewritten now and then; \
         the first list of a cluster and lists of everything take more MEMORY for a moment. BUCKET is of --objects, which \
         also makes about 220 writes a day for each cluster with the default --seal-after."
    )
}

fn row(coverage: &Coverage, kept_for: Duration) -> Vec<Cell> {
    let name = text(&coverage.cluster);
    let Some(plan) = Plan::of(coverage, kept_for) else {
        let unknown = (2..HEADINGS.len()).map(|_| text(UNKNOWN));
        let is_sealed = coverage.counted() == Counted::Versions;
        let why = if is_sealed {
            "it is sealed"
        } else {
            "less than an hour"
        };
        return [name, text(why)].into_iter().chain(unknown).collect();
    };
    vec![
        name,
        text(&life(plan.seen.as_secs() / 3600 * 3600)),
        number(Some(plan.events_a_day)),
        number(Some(plan.versions_a_day)),
        bytes(plan.volume),
        bytes(plan.memory),
        bytes(plan.bucket),
    ]
}

#[cfg(test)]
mod tests {
    use tidings_history::{Followed, Progress, Totals};

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn coverage(since: i64, kept_since: i64, until: i64) -> Coverage {
        let [since, kept_since, until] = [since, kept_since, until].map(UnixMillis);
        Coverage {
            cluster: "prod".to_owned(),
            followed: vec![Followed {
                since,
                complete_until: until,
                progress: Some(Progress {
                    versions: 30_000,
                    ..Progress::default()
                }),
                ..Followed::default()
            }],
            totals: Some(Totals {
                events: 10_000,
                kept_since: Some(kept_since),
                disk_bytes: 3_000_000,
                ..Totals::default()
            }),
            ..Coverage::default()
        }
    }

    #[test]
    fn what_was_seen_is_extrapolated() {
        let kept_for = Duration::from_secs(90 * 86_400);
        // Ten days were seen, of which the events of the last five are kept.
        let plan = Plan::of(&coverage(0, 120 * HOUR, 240 * HOUR), kept_for);
        let expected = Plan {
            seen: Duration::from_secs(240 * 3600),
            events_a_day: 2_000,
            versions_a_day: 3_000,
            volume: 2 * 54_000_000 + LOG_FILES,
            memory: MEMORY_BASE + 54_000_000 / 512,
            bucket: 270_000 * SEALED_VERSION,
        };
        assert_eq!(plan, Some(expected));
        // An event with a time of long ago does not make the rate smaller.
        let odd = Plan::of(&coverage(120 * HOUR, 0, 240 * HOUR), kept_for).unwrap();
        assert_eq!(odd.events_a_day, 2_000);
        assert_eq!(Plan::of(&coverage(0, 0, HOUR / 2), kept_for), None);
    }
}
