//! The figures of the stores as Markdown tables.

use std::fmt::Write;

use super::figure::Figure;
use super::table::{or_empty, ratio};

/// The endings of figures of lists: with two fifths of the events, and with twice as many.
pub(super) const LISTS: [&str; 2] = ["_short", "_long"];

/// Numbers of concurrent writers.
pub(super) const WRITERS: [u64; 2] = [64, 256];

/// The format of a number, and whether a higher one is better.
#[derive(Clone, Copy)]
enum Unit {
    PerSecond,
    Microseconds,
    Milliseconds,
    Seconds,
    Bytes,
    Megabytes,
    Times,
}

impl Unit {
    fn show(self, number: f64) -> String {
        match self {
            Self::PerSecond => format!("{number:.0}"),
            Self::Microseconds => format!("{number:.1} µs"),
            Self::Milliseconds => format!("{number:.2} ms"),
            Self::Seconds => format!("{number:.2} s"),
            Self::Bytes => format!("{number:.0} B"),
            Self::Megabytes => format!("{:.0} MB", number / 1e6),
            Self::Times => format!("{number:.1}"),
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::PerSecond)
    }
}

/// Rows of the table of three stores: title, figure, field and unit.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &str, Unit)] = &[
    ("one object's events, p50", "reads", "object_p50_ms", Unit::Milliseconds),
    ("one object's events, p99", "reads", "object_p99_ms", Unit::Milliseconds),
    ("one object's events, first after opening", "reads", "object_first_p50_ms", Unit::Milliseconds),
    ("newest 50, p50", "reads", "newest_p50_ms", Unit::Milliseconds),
    ("newest 50, p99", "reads", "newest_p99_ms", Unit::Milliseconds),
    ("newest 50 of one object, p99", "reads", "object_newest_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, p99", "reads", "before_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, of a namespace, p99", "reads", "before_namespace_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, of a reason, p99", "reads", "before_reason_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, of a type, p99", "reads", "before_type_p99_ms", Unit::Milliseconds),
    ("counts by hour and reason, p99", "reads", "counts_p99_ms", Unit::Milliseconds),
    ("list of everything, events/s", "listed", "list_per_second", Unit::PerSecond),
    ("time to reopen", "reads", "reopen_seconds", Unit::Seconds),
    ("peak memory opening and reading", "reads", "peak_bytes", Unit::Megabytes),
    ("expiry of half of them", "expiry", "seconds", Unit::Seconds),
    ("other writers during expiry, p99", "expiry", "during_p99_ms", Unit::Milliseconds),
    ("other writers before expiry, p99", "expiry", "idle_p99_ms", Unit::Milliseconds),
    ("disk before expiry", "expiry", "disk_bytes_before", Unit::Megabytes),
    ("disk after expiry", "expiry", "disk_bytes_after", Unit::Megabytes),
    ("mixed lives: end told after its time, p99", "mixture", "late_p99_ms", Unit::Milliseconds),
    ("mixed lives: the latest end", "mixture", "late_most_ms", Unit::Milliseconds),
    ("patches under 14 days: values that live", "patches", "value_bytes", Unit::Megabytes),
    ("patches under 14 days: disk at most", "patches", "disk_bytes_most", Unit::Megabytes),
    ("patches under 14 days: disk afterwards", "patches", "disk_bytes_after", Unit::Megabytes),
    ("patches, p99 while space is given back", "patches", "during_p99_ms", Unit::Milliseconds),
    ("patches, p99 before", "patches", "idle_p99_ms", Unit::Milliseconds),
    ("one object's events while space is given back, p99", "patches", "during_read_p99_ms", Unit::Milliseconds),
    ("one object's events before, p99", "patches", "idle_read_p99_ms", Unit::Milliseconds),
    ("real events: disk per event", "real", "disk_bytes_per_event", Unit::Bytes),
    ("real events: disk per event, nothing learned from them", "real", "disk_bytes_per_event_built_in", Unit::Bytes),
    ("real events: key and value", "real", "payload_bytes_per_event", Unit::Bytes),
];

/// A table of the three stores. Its ratios say how many times better the embedded store is.
pub(super) fn table(figures: &[Figure], events: u64, given: &str) -> String {
    let mut table = format!(
        "{events} events; {given}.\n\n\
         | | embedded | raw etcd | bare log | to etcd | to the log |\n|---|--:|--:|--:|--:|--:|\n"
    );
    let mut row = |title: &str, name: &str, etcd_name: &str, field: &str, unit: Unit| {
        let of = |peer: &str, name: &str| {
            let mut of_peer = figures
                .iter()
                .filter(|figure| figure.text("peer") == peer && figure.text("name") == name);
            of_peer.find_map(|figure| figure.number(field))
        };
        let (ours, etcd, log) = (of("embedded", name), of("etcd", etcd_name), of("log", name));
        if ours.is_none() && etcd.is_none() && log.is_none() {
            return;
        }
        let better = |theirs: Option<f64>| {
            let ratio = if unit.more_is_better() {
                ratio(ours, theirs)
            } else {
                ratio(theirs, ours)
            };
            or_empty(ratio, |ratio| format!("{ratio:.2} ×"))
        };
        let show = |number: Option<f64>| or_empty(number, |number| unit.show(number));
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {title} | {} | {} | {} | {} | {} |",
            show(ours),
            show(etcd),
            show(log),
            better(etcd),
            better(log)
        );
    };
    for writers in WRITERS {
        let name = format!("writes_{writers}");
        for (title, prefix) in [("creates", "creates_"), ("updates", "updates_")] {
            let mut of_burst = |what: &str, field: &str, unit| {
                let title = format!("{title}{what}, {writers} writers");
                row(&title, &name, &name, &format!("{prefix}{field}"), unit);
            };
            of_burst("/s", "per_second", Unit::PerSecond);
            of_burst(", p50", "p50_ms", Unit::Milliseconds);
            of_burst(", p99", "p99_ms", Unit::Milliseconds);
        }
        let mut of_writes = |title: &str, field: &str, unit| {
            row(
                &format!("{title}, {writers} writers"),
                &name,
                &name,
                field,
                unit,
            );
        };
        of_writes(
            "device bytes per byte of input",
            "device_bytes_per_byte",
            Unit::Times,
        );
        of_writes("peak memory", "peak_bytes", Unit::Megabytes);
        of_writes("disk per event", "disk_bytes_per_event", Unit::Bytes);
    }
    for writers in WRITERS {
        let (name, run) = (
            format!("lone_{writers}"),
            if writers == WRITERS[0] {
                "first"
            } else {
                "second"
            },
        );
        for (title, field) in [("p50", "p50_ms"), ("p99", "p99_ms")] {
            let title = format!("a single durable write, {title}, {run} run");
            row(&title, &name, &name, field, Unit::Milliseconds);
        }
    }
    for (name, events) in LISTS.iter().zip([events / 5 * 2, events * 2]) {
        let name = format!("lists{name}");
        let title = format!("list of {events} in pages of 500");
        row(&title, &name, &name, "idle_seconds", Unit::Seconds);
        let title = format!("{title}, beside 5,000 creates/s");
        row(&title, &name, &name, "beside_seconds", Unit::Seconds);
        let title = "times as long beside them";
        row(title, &name, &name, "ratio", Unit::Times);
    }
    let etcd_reads = format!("reads_{}", WRITERS[1]);
    for (title, name, field, unit) in ROWS.iter().copied() {
        let etcd_name = match name {
            "reads" | "listed" => &etcd_reads,
            name => name,
        };
        row(title, name, etcd_name, field, unit);
    }
    table
}

/// Rows of the table of a single store.
#[rustfmt::skip]
const ARCHIVE_ROWS: &[(&str, &str, &str, Unit)] = &[
    ("creates/s by 256 writers, empty store", "archive", "empty_per_second", Unit::PerSecond),
    ("creates/s by 256 writers, full store", "archive", "full_per_second", Unit::PerSecond),
    ("processor time of a create, empty store", "archive", "empty_cpu_us", Unit::Microseconds),
    ("processor time of a create, full store", "archive", "full_cpu_us", Unit::Microseconds),
    ("creates, p99, empty store", "archive", "empty_p99_ms", Unit::Milliseconds),
    ("creates, p99, full store", "archive", "full_p99_ms", Unit::Milliseconds),
    ("disk per event", "archive", "disk_bytes_per_event", Unit::Bytes),
    ("peak memory writing", "archive", "peak_bytes", Unit::Megabytes),
    ("time to reopen", "reads", "reopen_seconds", Unit::Seconds),
    ("memory after that", "reads", "resident_opened_bytes", Unit::Megabytes),
    ("one object's events, p50", "reads", "object_p50_ms", Unit::Milliseconds),
    ("one object's events, p99", "reads", "object_p99_ms", Unit::Milliseconds),
    ("newest 50, p50", "reads", "newest_p50_ms", Unit::Milliseconds),
    ("newest 50, p99", "reads", "newest_p99_ms", Unit::Milliseconds),
    ("newest 50 of one object, p99", "reads", "object_newest_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, p99", "reads", "before_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, of a namespace, p99", "reads", "before_namespace_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, of a reason, p99", "reads", "before_reason_p99_ms", Unit::Milliseconds),
    ("newest 50 before a moment, of a type, p99", "reads", "before_type_p99_ms", Unit::Milliseconds),
    ("counts by hour and reason, p99", "reads", "counts_p99_ms", Unit::Milliseconds),
    ("memory after 3,100 of these", "reads", "resident_read_bytes", Unit::Megabytes),
    ("list of everything, events/s", "listed", "list_per_second", Unit::PerSecond),
    ("peak memory opening and reading", "reads", "peak_bytes", Unit::Megabytes),
];

/// The table of a single store with many events.
pub(super) fn archive(figures: &[Figure], events: u64) -> String {
    let mut table =
        format!("{events} events of mixed lives in the embedded store.\n\n| | |\n|---|--:|\n");
    for (title, name, field, unit) in ARCHIVE_ROWS.iter().copied() {
        let mut found = figures.iter().filter(|figure| figure.text("name") == name);
        let number = found.find_map(|figure| figure.number(field));
        let _ = writeln!(
            table,
            "| {title} | {} |",
            or_empty(number, |number| unit.show(number))
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_say_how_many_times_better_the_embedded_store_is() {
        let figures = [
            Figure(
                json!({"peer": "embedded", "name": "writes_64", "creates_per_second": 70000.0, "creates_p99_ms": 2.0}),
            ),
            Figure(
                json!({"peer": "etcd", "name": "writes_64", "creates_per_second": 7000.0, "creates_p99_ms": 40.0}),
            ),
            Figure(
                json!({"peer": "log", "name": "writes_64", "creates_per_second": 100_000.0, "creates_p99_ms": 1.0}),
            ),
            Figure(json!({"peer": "embedded", "name": "reads", "reopen_seconds": 0.5})),
            Figure(json!({"peer": "embedded", "name": "listed", "list_per_second": 900.0})),
            Figure(json!({"peer": "etcd", "name": "reads_256", "list_per_second": 300.0})),
        ];
        let table = table(&figures, 100, "etcd was given 10");
        let rows: Vec<&str> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| creates/s, 64 writers | 70000 | 7000 | 100000 | 10.00 × | 0.70 × |",
                "| creates, p99, 64 writers | 2.00 ms | 40.00 ms | 1.00 ms | 20.00 × | 0.50 × |",
                "| list of everything, events/s | 900 | 300 |  | 3.00 × |  |",
                "| time to reopen | 0.50 s |  |  |  |  |",
            ]
        );
    }
}
