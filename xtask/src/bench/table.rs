//! Figures as Markdown tables.

use crate::command::Result;
use std::fmt::Write;
use std::path::Path;

use super::figure::Figure;

const OURS: &str = "tidings";
const PEER: &str = "client-go";

/// The table of calls: a row for each name, ours beside client-go's. Missing figures leave their
/// cell empty.
pub(super) fn calls(figures: &[Figure]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for figure in figures {
        let name = figure.text("name");
        if figure.number("ns_per_op").is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = String::from(
        "| | tidings | client-go | ratio | allocations | client-go's | physical floor |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for name in names {
        // A peer may measure time and allocations in separate runs.
        let of = |peer: &str, field: &str| {
            figures
                .iter()
                .filter(|figure| figure.text("name") == name && is_of(figure, peer))
                .find_map(|figure| figure.number(field))
        };
        let (ours, theirs) = (of(OURS, "ns_per_op"), of(PEER, "ns_per_op"));
        let cells = [
            name.to_owned(),
            or_empty(ours, nanoseconds),
            or_empty(theirs, nanoseconds),
            or_empty(ratio(theirs, ours), |ratio| format!("{ratio:.1} ×")),
            or_empty(of(OURS, "allocs_per_op"), |count| format!("{count:.1}")),
            or_empty(of(PEER, "allocs_per_op"), |count| format!("{count:.0}")),
            or_empty(of(OURS, "floor_ns"), nanoseconds),
        ];
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    table
}

/// The table of bursts: a row for each program.
pub(super) fn burst(what: &str, figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let rate = |figure: &Figure| figure.number("events_per_second");
    let theirs = figures
        .iter()
        .find(|figure| is_of(figure, PEER))
        .and_then(rate);
    let mut table = format!(
        "| {what} | offered | delivered | merged | lost | stored | events/s | to client-go | peak memory | CPU for an event | the server's |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for figure in figures {
        let count = |field: &str| or_empty(figure.number(field), |count| format!("{count:.0}"));
        let peer = if figure.text("peer").is_empty() {
            OURS
        } else {
            figure.text("peer")
        };
        let cells = [
            format!("{peer} {}", figure.text("version"))
                .trim_end()
                .to_owned(),
            count("offered"),
            count("delivered"),
            count("aggregated"),
            count("lost"),
            count("found"),
            count("events_per_second"),
            or_empty(ratio(rate(figure), theirs), |ratio| format!("{ratio:.1} ×")),
            or_empty(figure.number("peak_rss_bytes"), |bytes| {
                format!("{:.0} MiB", bytes / f64::from(1 << 20))
            }),
            or_empty(figure.number("cpu_us_per_event"), microseconds),
            or_empty(figure.number("server_cpu_us_per_event"), microseconds),
        ];
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    table
}

/// The tables of other figures: series, a sink that does not answer, bodies.
pub(super) fn series(figures: &[Figure]) -> String {
    type Shown = fn(f64) -> String;
    let count = |count: f64| format!("{count:.2}");
    let bytes = |bytes: f64| format!("{bytes:.0} B");
    #[rustfmt::skip]
    let rows: [(&str, &str, &str, Shown); 7] = [
        ("a call while the sink does not answer, p50", "record_stuck_sink", "p50_ns", nanoseconds),
        ("a call while the sink does not answer, p99", "record_stuck_sink", "p99_ns", nanoseconds),
        ("memory of an open series (of 100,000)", "series_memory", "bytes_per_series", bytes),
        ("writes for 1,000 repeats, one a second", "record_series_repeat", "writes_per_1000", count),
        ("memory of a remembered core/v1 event", "cached_key", "bytes_per_key", bytes),
        ("a create as JSON", "create_body_json", "bytes", bytes),
        ("a create as protobuf", "create_body_protobuf", "bytes", bytes),
    ];
    let mut table = String::from("| | tidings | client-go |\n|---|--:|--:|\n");
    for (title, name, field, shown) in rows {
        let of = |peer: &str| {
            let mut of_peer = figures
                .iter()
                .filter(|figure| figure.text("name") == name && is_of(figure, peer));
            or_empty(of_peer.find_map(|figure| figure.number(field)), shown)
        };
        let _ = writeln!(table, "| {title} | {} | {} |", of(OURS), of(PEER));
    }
    table
}

/// The table of the server: a row for each name, ours beside kube-apiserver's and the floor's.
/// Rates are divided by theirs, and theirs are divided by our times and sizes, so that more than 1
/// is always better for us.
pub(super) fn serving(figures: &[Figure]) -> String {
    const SERVER: &str = "kube-apiserver";
    const FLOOR: &str = "echo";
    let mut names: Vec<&str> = Vec::new();
    for figure in figures {
        let name = figure.text("name");
        if name != "ready" && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = String::from(
        "| | tidings | kube-apiserver with etcd | ratio | p99 | kube-apiserver's | echo |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for name in names {
        let of = |peer: &str, field: &str| {
            figures
                .iter()
                .find(|figure| figure.text("name") == name && is_of(figure, peer))
                .and_then(|figure| figure.number(field))
        };
        let field = ["per_second", "p50_ms", "bytes"]
            .into_iter()
            .find(|field| of(OURS, field).or(of(SERVER, field)).is_some())
            .unwrap_or("per_second");
        let shown = |value: f64| match field {
            "per_second" => format!("{value:.0}/s"),
            "bytes" => format!("{:.1} MiB", value / f64::from(1 << 20)),
            _ => milliseconds(value),
        };
        let (ours, theirs) = (of(OURS, field), of(SERVER, field));
        let better = if field == "per_second" {
            ratio(ours, theirs)
        } else {
            ratio(theirs, ours)
        };
        let cells = [
            name.to_owned(),
            or_empty(ours, shown),
            or_empty(theirs, shown),
            or_empty(better, |ratio| format!("{ratio:.1} ×")),
            or_empty(of(OURS, "p99_ms"), milliseconds),
            or_empty(of(SERVER, "p99_ms"), milliseconds),
            or_empty(of(FLOOR, field), shown),
        ];
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    table
}

/// Replaces the text between two marker lines of a document by `tables`.
pub(super) fn write(document: &Path, name: &str, tables: &str) -> Result {
    let text = with_tables(document, name, tables)?;
    let place = document.display();
    std::fs::write(document, text).map_err(|error| format!("write {place}: {error}"))
}

/// The text of the document with these tables; an error if it has no place for them.
pub(super) fn with_tables(document: &Path, name: &str, tables: &str) -> Result<String> {
    let place = document.display();
    let text =
        std::fs::read_to_string(document).map_err(|error| format!("read {place}: {error}"))?;
    replace(&text, name, tables).ok_or_else(|| {
        format!("{place} has no place for them: a line `<!-- {name}: begin -->` and, below, `<!-- {name}: end -->`")
    })
}

fn replace(text: &str, name: &str, tables: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- {name}: begin -->"),
        format!("<!-- {name}: end -->"),
    );
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!(
        "{before}{begin}\n\n{}\n\n{end}{after}",
        tables.trim()
    ))
}

/// Whether a figure is of this peer. Our own programs need not print their name.
fn is_of(figure: &Figure, peer: &str) -> bool {
    let said = figure.text("peer");
    said == peer || said.is_empty() && peer == OURS
}

pub(super) fn ratio(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    let (above, below) = above.zip(below)?;
    (below > 0.0).then(|| above / below)
}

pub(super) fn or_empty(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map(format).unwrap_or_default()
}

fn milliseconds(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2} ms")
    } else if value < 1_000.0 {
        format!("{value:.0} ms")
    } else {
        format!("{:.1} s", value / 1_000.0)
    }
}

fn microseconds(value: f64) -> String {
    format!("{value:.0} µs")
}

fn nanoseconds(value: f64) -> String {
    if value < 1_000.0 {
        format!("{value:.0} ns")
    } else {
        format!("{:.2} µs", value / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_stand_beside_each_other_by_name() {
        let figures = [
            Figure(
                json!({"name": "record", "ns_per_op": 200.0, "allocs_per_op": 1.0, "floor_ns": 40.0}),
            ),
            Figure(
                json!({"peer": "client-go", "name": "record", "ns_per_op": 1600.4, "allocs_per_op": 4}),
            ),
            Figure(json!({"peer": "client-go", "name": "other", "ns_per_op": 7})),
            Figure(json!({"name": "cache_bytes_per_key", "bytes": 500})),
        ];
        let table = calls(&figures);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| record | 200 ns | 1.60 µs | 8.0 × | 1.0 | 4 | 40 ns |",
                "| other |  | 7 ns |  |  |  |  |"
            ]
        );
    }

    #[test]
    fn a_burst_is_compared_to_client_go() {
        let figures = [
            Figure(
                json!({"offered": 20000, "delivered": 20000, "lost": 0, "found": 20000, "events_per_second": 4000.0, "peak_rss_bytes": 1_048_576, "cpu_us_per_event": 90.4}),
            ),
            Figure(
                json!({"peer": "client-go", "version": "v0.36.0", "offered": 20000, "events_per_second": 250.0}),
            ),
        ];
        let table = burst("burst", &figures);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| tidings | 20000 | 20000 |  | 0 | 20000 | 4000 | 16.0 × | 1 MiB | 90 µs |  |",
                "| client-go v0.36.0 | 20000 |  |  |  |  | 250 | 1.0 × |  |  |  |",
            ]
        );
    }

    #[test]
    fn what_is_no_call_has_a_table_of_its_own() {
        let figures = [
            Figure(
                json!({"peer": "tidings", "name": "record_stuck_sink", "p50_ns": 400, "p99_ns": 1500}),
            ),
            Figure(json!({"peer": "client-go", "name": "record_stuck_sink", "p99_ns": 9000})),
            Figure(json!({"peer": "tidings", "name": "record_series_repeat", "ns_per_op": 7})),
            Figure(
                json!({"peer": "tidings", "name": "record_series_repeat", "writes_per_1000": 0.557}),
            ),
        ];
        let table = series(&figures);
        let rows: Vec<&str> = table.lines().skip(2).take(4).collect();
        let expected = [
            "| a call while the sink does not answer, p50 | 400 ns |  |",
            "| a call while the sink does not answer, p99 | 1.50 µs | 9.00 µs |",
            "| memory of an open series (of 100,000) |  |  |",
            "| writes for 1,000 repeats, one a second | 0.56 |  |",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_server_is_compared_so_that_more_is_better() {
        let figures = [
            Figure(json!({"peer": "echo", "name": "creates_32", "per_second": 40000.0})),
            Figure(
                json!({"peer": "tidings", "name": "creates_32", "per_second": 20000.0, "p99_ms": 4.25}),
            ),
            Figure(
                json!({"peer": "kube-apiserver", "name": "creates_32", "per_second": 1000.0, "p99_ms": 90.4}),
            ),
            Figure(json!({"peer": "tidings", "name": "one_object", "p50_ms": 0.5})),
            Figure(json!({"peer": "kube-apiserver", "name": "one_object", "p50_ms": 1000.0})),
            Figure(json!({"peer": "tidings", "name": "memory", "bytes": 1_048_576})),
        ];
        let table = serving(&figures);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| creates_32 | 20000/s | 1000/s | 20.0 × | 4.25 ms | 90 ms | 40000/s |",
                "| one_object | 0.50 ms | 1.0 s | 2000.0 × |  |  |  |",
                "| memory | 1.0 MiB |  |  |  |  |  |",
            ]
        );
    }

    #[test]
    fn only_the_place_of_the_tables_is_written() {
        let text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let written = "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb\n";
        assert_eq!(replace(text, "x", "new\n").as_deref(), Some(written));
        assert_eq!(replace(written, "x", "new").as_deref(), Some(written));
        assert_eq!(replace(text, "y", "new"), None);
    }
}
