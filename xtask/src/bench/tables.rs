//! The descriptions of the tables in docs/benchmarks.md.

use super::figure::Figure;
use super::table::Cell::{Better, Field, Of, Text};
use super::table::{self, Cell, Unit, by_name, compared, described, each, table};
use super::table::{
    BYTES, BYTES_FINE, COUNT, GROUPED, HUNDREDTHS, KIBIBYTES, MEBIBYTES, MEBIBYTES_FINE, MEGABYTES,
    MICROSECONDS, MICROSECONDS_FINE, MILLISECONDS, MILLISECONDS_FINE, NANOSECONDS, PER_SECOND,
    SECONDS, SECONDS_FINE, SHARE, TENTHS, TIME, TIMES, TIMES_FINE,
};

/// Columns of a table.
type Columns = &'static [(&'static str, Cell)];

/// Rows of figures: title, name, field and unit.
type Rows = &'static [(&'static str, &'static str, &'static str, Unit)];

const OURS: &str = "tidings";
const PEER: &str = "client-go";

const CALLS: Columns = &[
    ("tidings", Of(OURS)),
    ("client-go", Of(PEER)),
    ("ratio", Better(OURS, PEER, TIMES)),
    ("allocations", Field(OURS, "allocs_per_op", TENTHS)),
    ("client-go's", Field(PEER, "allocs_per_op", COUNT)),
    ("physical floor", Field(OURS, "floor_ns", NANOSECONDS)),
];

#[rustfmt::skip]
const OF_RECORDING: Rows = &[
    ("a call while the sink does not answer, p50", "record_stuck_sink", "p50_ns", NANOSECONDS),
    ("a call while the sink does not answer, p99", "record_stuck_sink", "p99_ns", NANOSECONDS),
    ("memory of an open series (of 100,000)", "series_memory", "bytes_per_series", BYTES),
    ("writes for 1,000 repeats, one a second", "record_series_repeat", "writes_per_1000", HUNDREDTHS),
    ("memory of a remembered core/v1 event", "cached_key", "bytes_per_key", BYTES),
    ("a create as JSON", "create_body_json", "bytes", BYTES),
    ("a create as protobuf", "create_body_protobuf", "bytes", BYTES),
];

/// The tables of single calls, and of what is no call: series, a sink that does not answer, bodies.
pub(super) fn recording(figures: &[Figure]) -> String {
    let calls = table("", CALLS, by_name(figures, &[("ns_per_op", NANOSECONDS)]));
    let both = [("tidings", Of(OURS)), ("client-go", Of(PEER))];
    format!(
        "{calls}\n{}",
        table("", &both, described(figures, OF_RECORDING))
    )
}

const BURST: Columns = &[
    ("offered", Field("", "offered", COUNT)),
    ("delivered", Field("", "delivered", COUNT)),
    ("merged", Field("", "aggregated", COUNT)),
    ("lost", Field("", "lost", COUNT)),
    ("stored", Field("", "found", COUNT)),
    ("events/s", Field("", "events_per_second", COUNT)),
    ("to client-go", Field("", "ratio", TIMES)),
    ("peak memory", Field("", "peak_rss_bytes", MEBIBYTES)),
    (
        "CPU for an event",
        Field("", "cpu_us_per_event", MICROSECONDS),
    ),
    (
        "the server's",
        Field("", "server_cpu_us_per_event", MICROSECONDS),
    ),
];

/// The table of bursts: a row for each program.
pub(super) fn burst(title: &str, figures: &[Figure]) -> String {
    let figures = compared(figures, "events_per_second", PEER);
    let rows = each(&figures)
        .into_iter()
        .zip(&figures)
        .map(|(mut row, figure)| {
            row.title = format!("{} {}", figure.peer(), figure.text("version"));
            row.title.truncate(row.title.trim_end().len());
            row
        });
    table(title, BURST, rows)
}

const KUBE: &str = "kube-apiserver";
const SERVING: Columns = &[
    ("tidings", Of(OURS)),
    ("kube-apiserver with etcd", Of(KUBE)),
    ("ratio", Better(OURS, KUBE, TIMES)),
    ("p99", Field(OURS, "p99_ms", TIME)),
    ("kube-apiserver's", Field(KUBE, "p99_ms", TIME)),
    ("echo", Of("echo")),
];

/// The table of the server.
pub(super) fn serving(figures: &[Figure]) -> String {
    let fields = [
        ("per_second", PER_SECOND),
        ("p50_ms", TIME),
        ("bytes", MEBIBYTES_FINE),
    ];
    table("", SERVING, by_name(figures, &fields))
}

/// The table of imports.
pub(super) fn import(figures: &[Figure]) -> String {
    let columns = [
        ("events", Field("", "events", COUNT)),
        ("time", Field("", "seconds", SECONDS)),
        ("events/s", Field("", "per_second", COUNT)),
        ("to kubectl", Field("", "ratio", TIMES)),
    ];
    let figures = compared(figures, "per_second", "kubectl");
    table("", &columns, each(&figures))
}

const ANSWERS: Columns = &[
    ("p50", Field("", "p50_ms", MILLISECONDS)),
    ("p95", Field("", "p95_ms", MILLISECONDS)),
    ("longest", Field("", "max_ms", MILLISECONDS)),
    ("on the wire", Field("", "bytes", KIBIBYTES)),
    ("events read", Field("", "read", COUNT)),
    ("complete", Field("", "complete", SHARE)),
];

const PAGE: Columns = &[
    ("of", Text("of")),
    ("p50", Field("", "p50_ms", MILLISECONDS)),
    ("p95", Field("", "p95_ms", MILLISECONDS)),
    ("longest", Field("", "max_ms", MILLISECONDS)),
    ("a frame, p95", Field("", "frame_p95_ms", MILLISECONDS)),
    ("longest", Field("", "frame_max_ms", MILLISECONDS)),
];

const LIVE: Columns = &[
    ("new events", Field("", "events", COUNT)),
    ("pictures", Field("", "pictures", COUNT)),
    (
        "objects at most, first half",
        Field("", "heap_first_half_bytes", MEBIBYTES_FINE),
    ),
    (
        "second half",
        Field("", "heap_second_half_bytes", MEBIBYTES_FINE),
    ),
    (
        "nodes at most, first half",
        Field("", "nodes_first_half", COUNT),
    ),
    ("second half", Field("", "nodes_second_half", COUNT)),
];

/// Tables of the timeline's answers, of its page, and of a tab's memory.
pub(super) fn timeline(answers: &[Figure], page: &[Figure], live: &[Figure]) -> String {
    let of = |figure: &Figure| match (figure.peer(), figure.text("version")) {
        (OURS, version) => figure.clone().with("of", version),
        (peer, version) => figure.clone().with("of", format!("{peer} {version}")),
    };
    let page: Vec<_> = page.iter().map(of).collect();
    let mut tables = format!(
        "{}\n{}",
        table("answer", ANSWERS, each(answers)),
        table("page", PAGE, each(&page))
    );
    let mut rows = each(live);
    for (row, figure) in rows.iter_mut().zip(live) {
        let minutes = figure.number("minutes").unwrap_or_default();
        row.title = format!("{minutes} minutes");
    }
    if !rows.is_empty() {
        tables.extend(["\n", &table("a tab that follows", LIVE, rows)]);
    }
    tables
}

const TOOLS: Columns = &[
    ("p50", Field("", "p50_ms", MILLISECONDS)),
    ("p95", Field("", "p95_ms", MILLISECONDS)),
    ("longest", Field("", "max_ms", MILLISECONDS)),
    (
        "the answer it reads, p50",
        Field("", "plain_p50_ms", MILLISECONDS),
    ),
    ("p95", Field("", "plain_p95_ms", MILLISECONDS)),
    ("bytes", Field("", "bytes", COUNT)),
];

/// The table of the tools for agents.
pub(super) fn tools(figures: &[Figure]) -> String {
    table("tool", TOOLS, each(figures))
}

const QUESTIONS: Columns = &[
    ("calls", Field("", "calls", GROUPED)),
    ("bytes", Field("", "bytes", GROUPED)),
    ("tokens", Field("", "tokens", GROUPED)),
    ("fact", Text("fact")),
    ("peer: calls", Field("", "peer_calls", GROUPED)),
    ("bytes", Field("", "peer_bytes", GROUPED)),
    ("tokens", Field("", "peer_tokens", GROUPED)),
    ("fact", Text("peer_fact")),
];

/// The table of questions to the tools for agents.
pub(super) fn questions(figures: &[Figure]) -> String {
    table("question", QUESTIONS, each(figures))
}

const OBJECTS: Columns = &[
    ("first, p50", Field("", "cold_p50_ms", MILLISECONDS)),
    ("p99", Field("", "cold_p99_ms", MILLISECONDS)),
    ("again, p50", Field("", "warm_p50_ms", MILLISECONDS)),
    ("p99", Field("", "warm_p99_ms", MILLISECONDS)),
    ("requests", Field("", "requests", COUNT)),
    ("at most", Field("", "requests_max", COUNT)),
    ("again", Field("", "requests_again", COUNT)),
    ("complete", Field("", "complete", SHARE)),
];

#[rustfmt::skip]
const OF_OBJECTS: Rows = &[
    ("files", "filled", "files", COUNT),
    ("bytes per event, with rollups", "filled", "bytes_per_event", BYTES_FINE),
    ("bytes of rollups per event", "filled", "rollup_bytes_per_event", BYTES_FINE),
    ("memory of a reader, when it has started", "memory", "started_bytes", MEBIBYTES),
    ("after all questions about each cluster", "memory", "bytes", MEBIBYTES),
    ("at most", "memory", "peak_bytes", MEBIBYTES),
    ("bytes per real event, with rollups", "real", "bytes_per_event", BYTES_FINE),
    ("bytes of a real event in protobuf", "real", "stored_bytes_per_event", BYTES_FINE),
];

/// Tables of the questions to an archive, and of the sizes of the archive and a reader.
pub(super) fn objects(figures: &[Figure]) -> String {
    let questions = table(
        "question",
        OBJECTS,
        by_name(figures, &[("cold_p50_ms", TIME)]),
    );
    format!("{questions}\n{}", single(figures, OURS, OF_OBJECTS))
}

/// A table of a single program.
fn single(figures: &[Figure], peer: &'static str, rows: Rows) -> String {
    table("", &[("", Of(peer))], described(figures, rows))
}

/// The endings of figures of lists: with two fifths of the events, and with twice as many.
pub(super) const LISTS: [&str; 2] = ["_short", "_long"];

/// Numbers of concurrent writers.
pub(super) const WRITERS: [u64; 2] = [64, 256];

const EMBEDDED: &str = "embedded";
const STORE: Columns = &[
    ("embedded", Of(EMBEDDED)),
    ("raw etcd", Of("etcd")),
    ("bare log", Of("log")),
    ("to etcd", Better(EMBEDDED, "etcd", TIMES_FINE)),
    ("to the log", Better(EMBEDDED, "log", TIMES_FINE)),
];

#[rustfmt::skip]
const OF_WRITES: Rows = &[
    ("creates/s", "writes", "creates_per_second", COUNT),
    ("creates, p50", "writes", "creates_p50_ms", MILLISECONDS_FINE),
    ("creates, p99", "writes", "creates_p99_ms", MILLISECONDS_FINE),
    ("updates/s", "writes", "updates_per_second", COUNT),
    ("updates, p50", "writes", "updates_p50_ms", MILLISECONDS_FINE),
    ("updates, p99", "writes", "updates_p99_ms", MILLISECONDS_FINE),
    ("device bytes per byte of input", "writes", "device_bytes_per_byte", TENTHS),
    ("peak memory", "writes", "peak_bytes", MEGABYTES),
    ("disk per event", "writes", "disk_bytes_per_event", BYTES),
];

#[rustfmt::skip]
const OF_STORES: Rows = &[
    ("one object's events, p50", "reads", "object_p50_ms", MILLISECONDS_FINE),
    ("one object's events, p99", "reads", "object_p99_ms", MILLISECONDS_FINE),
    ("one object's events, first after opening", "reads", "object_first_p50_ms", MILLISECONDS_FINE),
    ("newest 50, p50", "reads", "newest_p50_ms", MILLISECONDS_FINE),
    ("newest 50, p99", "reads", "newest_p99_ms", MILLISECONDS_FINE),
    ("newest 50 of one object, p99", "reads", "object_newest_p99_ms", MILLISECONDS_FINE),
    ("newest 50 before a moment, p99", "reads", "before_p99_ms", MILLISECONDS_FINE),
    ("newest 50 before a moment, of a namespace, p99", "reads", "before_namespace_p99_ms", MILLISECONDS_FINE),
    ("newest 50 before a moment, of a reason, p99", "reads", "before_reason_p99_ms", MILLISECONDS_FINE),
    ("newest 50 before a moment, of a type, p99", "reads", "before_type_p99_ms", MILLISECONDS_FINE),
    ("counts by hour and reason, p99", "reads", "counts_p99_ms", MILLISECONDS_FINE),
    ("list of everything, events/s", "listed", "list_per_second", COUNT),
    ("time to reopen", "reads", "reopen_seconds", SECONDS_FINE),
    ("peak memory opening and reading", "reads", "peak_bytes", MEGABYTES),
    ("expiry of half of them", "expiry", "seconds", SECONDS_FINE),
    ("other writers during expiry, p99", "expiry", "during_p99_ms", MILLISECONDS_FINE),
    ("other writers before expiry, p99", "expiry", "idle_p99_ms", MILLISECONDS_FINE),
    ("disk before expiry", "expiry", "disk_bytes_before", MEGABYTES),
    ("disk after expiry", "expiry", "disk_bytes_after", MEGABYTES),
    ("mixed lives: end told after its time, p99", "mixture", "late_p99_ms", MILLISECONDS_FINE),
    ("mixed lives: the latest end", "mixture", "late_most_ms", MILLISECONDS_FINE),
    ("patches under 14 days: values that live", "patches", "value_bytes", MEGABYTES),
    ("patches under 14 days: disk at most", "patches", "disk_bytes_most", MEGABYTES),
    ("patches under 14 days: disk afterwards", "patches", "disk_bytes_after", MEGABYTES),
    ("patches, p99 while space is given back", "patches", "during_p99_ms", MILLISECONDS_FINE),
    ("patches, p99 before", "patches", "idle_p99_ms", MILLISECONDS_FINE),
    ("one object's events while space is given back, p99", "patches", "during_read_p99_ms", MILLISECONDS_FINE),
    ("one object's events before, p99", "patches", "idle_read_p99_ms", MILLISECONDS_FINE),
    ("real events: disk per event", "real", "disk_bytes_per_event", BYTES),
    ("real events: disk per event, nothing learned from them", "real", "disk_bytes_per_event_built_in", BYTES),
    ("real events: key and value", "real", "payload_bytes_per_event", BYTES),
];

/// A table of the three stores. Its ratios say how many times better the embedded store is.
pub(super) fn store(figures: &[Figure], events: u64, given: &str) -> String {
    let mut rows = Vec::new();
    for writers in WRITERS {
        rows.extend(OF_WRITES.iter().map(|(title, name, field, unit)| {
            let title = format!("{title}, {writers} writers");
            (title, format!("{name}_{writers}"), *field, *unit)
        }));
    }
    for (writers, run) in WRITERS.iter().zip(["first", "second"]) {
        for (part, field) in [("p50", "p50_ms"), ("p99", "p99_ms")] {
            let title = format!("a single durable write, {part}, {run} run");
            rows.push((title, format!("lone_{writers}"), field, MILLISECONDS_FINE));
        }
    }
    for (name, events) in LISTS.iter().zip([events / 5 * 2, events * 2]) {
        let list = format!("list of {events} in pages of 500");
        let beside = format!("{list}, beside 5,000 creates/s");
        for (title, field, unit) in [
            (list, "idle_seconds", SECONDS_FINE),
            (beside, "beside_seconds", SECONDS_FINE),
            ("times as long beside them".to_owned(), "ratio", TENTHS),
        ] {
            rows.push((title, format!("lists{name}"), field, unit));
        }
    }
    rows.extend(OF_STORES.iter().map(|(title, name, field, unit)| {
        ((*title).to_owned(), (*name).to_owned(), *field, *unit)
    }));
    let table = table("", STORE, described(figures, &rows));
    format!("{events} events; {given}.\n\n{table}")
}

#[rustfmt::skip]
const OF_ARCHIVE: Rows = &[
    ("creates/s by 256 writers, empty store", "archive", "empty_per_second", COUNT),
    ("creates/s by 256 writers, full store", "archive", "full_per_second", COUNT),
    ("processor time of a create, empty store", "archive", "empty_cpu_us", MICROSECONDS_FINE),
    ("processor time of a create, full store", "archive", "full_cpu_us", MICROSECONDS_FINE),
    ("creates, p99, empty store", "archive", "empty_p99_ms", MILLISECONDS_FINE),
    ("creates, p99, full store", "archive", "full_p99_ms", MILLISECONDS_FINE),
    ("disk per event", "archive", "disk_bytes_per_event", BYTES),
    ("peak memory writing", "archive", "peak_bytes", MEGABYTES),
    ("memory after opening", "reads", "resident_opened_bytes", MEGABYTES),
    ("memory after 3,100 reads", "reads", "resident_read_bytes", MEGABYTES),
];

/// The tables of a single store with many events: of its writes, and of reads as in the other.
pub(super) fn archive(figures: &[Figure], events: u64) -> String {
    let rows = described(figures, OF_ARCHIVE).chain(described(figures, OF_STORES));
    let table = table("", &[("", Of(EMBEDDED))], rows);
    format!("{events} events of mixed lives in the embedded store.\n\n{table}")
}

/// A number of the questions, grouped.
pub(super) fn grouped(number: f64) -> String {
    table::show(number, GROUPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the rows of a table of these figures, which are lines of JSON.
    #[track_caller]
    fn assert_rows(figures: &str, table: impl Fn(&[Figure]) -> String, expected: &[&str]) {
        let figures: Vec<_> = figures.lines().filter_map(Figure::read).collect();
        let table = table(&figures);
        let lines: Vec<_> = table.lines().chain([""]).collect();
        let pairs = lines.windows(2).filter(|pair| pair[0].starts_with("| "));
        let rows: Vec<_> = pairs
            .filter(|pair| !pair[1].starts_with("|---"))
            .map(|it| it[0])
            .collect();
        assert_eq!(rows, expected, "{table}");
    }

    #[test]
    fn figures_stand_beside_each_other_by_name() {
        let figures = r#"{"name": "record", "ns_per_op": 200.0, "allocs_per_op": 1.0, "floor_ns": 40.0}
            {"peer": "client-go", "name": "record", "ns_per_op": 1600.4, "allocs_per_op": 4}
            {"peer": "client-go", "name": "other", "ns_per_op": 7}
            {"name": "cached_key", "bytes_per_key": 500}
            {"peer": "tidings", "name": "record_stuck_sink", "p50_ns": 400, "p99_ns": 1500}
            {"peer": "client-go", "name": "record_stuck_sink", "p99_ns": 9000}
            {"name": "record_series_repeat", "ns_per_op": 7}
            {"name": "record_series_repeat", "writes_per_1000": 0.557}"#;
        let expected = [
            "| record | 200 ns | 1.60 µs | 8.0 × | 1.0 | 4 | 40 ns |",
            "| other |  | 7 ns |  |  |  |  |",
            "| record_series_repeat | 7 ns |  |  |  |  |  |",
            "| a call while the sink does not answer, p50 | 400 ns |  |",
            "| a call while the sink does not answer, p99 | 1.50 µs | 9.00 µs |",
            "| writes for 1,000 repeats, one a second | 0.56 |  |",
            "| memory of a remembered core/v1 event | 500 B |  |",
        ];
        assert_rows(figures, recording, &expected);
    }

    #[test]
    fn a_burst_is_compared_to_client_go() {
        let figures = r#"{"offered": 20000, "delivered": 20000, "lost": 0, "found": 20000, "events_per_second": 4000.0, "peak_rss_bytes": 1048576, "cpu_us_per_event": 90}
            {"peer": "client-go", "version": "v0.36.0", "offered": 20000, "events_per_second": 250.0}"#;
        let expected = [
            "| tidings | 20000 | 20000 |  | 0 | 20000 | 4000 | 16.0 × | 1 MiB | 90 µs |  |",
            "| client-go v0.36.0 | 20000 |  |  |  |  | 250 | 1.0 × |  |  |  |",
        ];
        assert_rows(figures, |figures| burst("burst", figures), &expected);
    }

    #[test]
    fn a_server_is_compared_so_that_more_is_better() {
        let figures = r#"{"peer": "echo", "name": "creates_32", "per_second": 40000.0}
            {"peer": "tidings", "name": "creates_32", "per_second": 20000.0, "p99_ms": 4.25}
            {"peer": "kube-apiserver", "name": "creates_32", "per_second": 1000.0, "p99_ms": 90.4}
            {"peer": "tidings", "name": "one_object", "p50_ms": 0.5}
            {"peer": "kube-apiserver", "name": "one_object", "p50_ms": 1000.0}
            {"peer": "tidings", "name": "ready"}
            {"peer": "tidings", "name": "memory", "bytes": 1048576}"#;
        let expected = [
            "| creates_32 | 20000/s | 1000/s | 20.0 × | 4.25 ms | 90 ms | 40000/s |",
            "| one_object | 0.50 ms | 1.0 s | 2000.0 × |  |  |  |",
            "| memory | 1.0 MiB |  |  |  |  |  |",
        ];
        assert_rows(figures, serving, &expected);
    }

    #[test]
    fn an_import_is_compared_to_kubectl() {
        let figures = r#"{"name": "lines", "events": 1000, "seconds": 2.04, "per_second": 490.2}
            {"peer": "kubectl", "name": "list", "events": 20, "seconds": 0.2, "per_second": 100}"#;
        let expected = [
            "| lines | 1000 | 2.0 s | 490 | 4.9 × |",
            "| list | 20 | 0.2 s | 100 | 1.0 × |",
        ];
        assert_rows(figures, import, &expected);
    }

    #[test]
    fn a_timeline_has_a_row_for_every_figure() {
        let figures = r#"{"name": "view_1h", "p50_ms": 4.25, "p95_ms": 12.6, "max_ms": 30, "bytes": 20480, "read": 1500, "complete": 1}
            {"name": "event", "p50_ms": 1, "p95_ms": 2, "max_ms": 3, "bytes": 1024}
            {"peer": "tidings", "name": "gesture_1h", "version": "0.1.0, Chrome/1", "p50_ms": 5, "p95_ms": 6, "max_ms": 7, "frame_p50_ms": 16, "frame_p95_ms": 17, "frame_max_ms": 40}
            {"name": "live", "minutes": 10, "events": 6000, "pictures": 90, "heap_first_half_bytes": 1048576, "heap_second_half_bytes": 1048576, "nodes_first_half": 5000, "nodes_second_half": 5001}"#;
        let tables = |all: &[Figure]| timeline(&all[..2], &all[2..3], &all[3..]);
        let expected = [
            "| view_1h | 4.2 ms | 13 ms | 30 ms | 20 KiB | 1500 | 100 % |",
            "| event | 1.0 ms | 2.0 ms | 3.0 ms | 1 KiB |  |  |",
            "| gesture_1h | 0.1.0, Chrome/1 | 5.0 ms | 6.0 ms | 7.0 ms | 17 ms | 40 ms |",
            "| 10 minutes | 6000 | 90 | 1.0 MiB | 1.0 MiB | 5000 | 5001 |",
        ];
        assert_rows(figures, tables, &expected);
    }

    #[test]
    fn every_tool_has_a_row() {
        let figure = r#"{"name": "search", "p50_ms": 4.25, "p95_ms": 12.6, "max_ms": 30, "plain_p50_ms": 1, "plain_p95_ms": 2, "bytes": 2048.4}"#;
        let row = "| search | 4.2 ms | 13 ms | 30 ms | 1.0 ms | 2.0 ms | 2048 |";
        assert_rows(figure, tools, &[row]);
    }

    #[test]
    fn an_archive_has_a_row_for_every_figure() {
        let figures = r#"{"name": "filled", "files": 600, "bytes_per_event": 98.25, "rollup_bytes_per_event": 2.5}
            {"name": "newest_50", "cold_p50_ms": 120.4, "cold_p99_ms": 200, "warm_p50_ms": 3.21, "warm_p99_ms": 9, "requests": 13, "requests_max": 15, "requests_again": 0, "complete": 1}
            {"name": "memory", "started_bytes": 33554432, "bytes": 67108864, "peak_bytes": 69206016}
            {"name": "real", "bytes_per_event": 107.25, "stored_bytes_per_event": 600}"#;
        let expected = [
            "| newest_50 | 120 ms | 200 ms | 3.2 ms | 9.0 ms | 13 | 15 | 0 | 100 % |",
            "| files | 600 |",
            "| bytes per event, with rollups | 98.2 B |",
            "| bytes of rollups per event | 2.5 B |",
            "| memory of a reader, when it has started | 32 MiB |",
            "| after all questions about each cluster | 64 MiB |",
            "| at most | 66 MiB |",
            "| bytes per real event, with rollups | 107.2 B |",
            "| bytes of a real event in protobuf | 600.0 B |",
        ];
        assert_rows(figures, objects, &expected);
    }

    #[test]
    fn ratios_say_how_many_times_better_the_embedded_store_is() {
        let figures = r#"{"peer": "embedded", "name": "writes_64", "creates_per_second": 70000.0, "creates_p99_ms": 2.0}
            {"peer": "etcd", "name": "writes_64", "creates_per_second": 7000.0, "creates_p99_ms": 40.0}
            {"peer": "log", "name": "writes_64", "creates_per_second": 100000.0, "creates_p99_ms": 1.0}
            {"peer": "embedded", "name": "reads", "reopen_seconds": 0.5}
            {"peer": "embedded", "name": "listed", "list_per_second": 900.0}
            {"peer": "etcd", "name": "listed", "list_per_second": 300.0}"#;
        let expected = [
            "| creates/s, 64 writers | 70000 | 7000 | 100000 | 10.00 × | 0.70 × |",
            "| creates, p99, 64 writers | 2.00 ms | 40.00 ms | 1.00 ms | 20.00 × | 0.50 × |",
            "| list of everything, events/s | 900 | 300 |  | 3.00 × |  |",
            "| time to reopen | 0.50 s |  |  |  |  |",
        ];
        let stores = |figures: &[Figure]| store(figures, 100, "etcd was given 10");
        assert_rows(figures, stores, &expected);
        assert!(archive(&[], 7).ends_with("| | |\n|---|--:|\n"));
    }
}
