//! The tables of the timeline's figures.

use std::fmt::Write as _;

use super::figure::Figure;
use super::table::or_empty;

/// Tables of the answers, of the page, and of a tab's memory.
pub(super) fn tables(answers: &[Figure], page: &[Figure], live: &[Figure]) -> String {
    let times = |figure: &Figure, prefix: &str| {
        let time = |of: &str| or_empty(figure.number(&format!("{prefix}{of}_ms")), milliseconds);
        ["p50", "p95", "max"].map(time).join(" | ")
    };
    let mut tables = String::from(
        "| answer | p50 | p95 | longest | on the wire | events read | complete |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for figure in answers {
        let is_view = figure.text("name").starts_with("view");
        let of_view = |name: &str| figure.number(name).filter(|_| is_view);
        let _ = writeln!(
            tables,
            "| {} | {} | {} | {} | {} |",
            figure.text("name"),
            times(figure, ""),
            or_empty(figure.number("bytes"), |bytes| format!(
                "{:.0} KiB",
                bytes / 1024.
            )),
            or_empty(of_view("read"), |read| format!("{read:.0}")),
            or_empty(of_view("complete"), |share| format!(
                "{:.0} %",
                share * 100.
            )),
        );
    }
    tables += "\n| page | of | p50 | p95 | longest | a frame, p95 | longest |\n\
               |---|---|--:|--:|--:|--:|--:|\n";
    for figure in page {
        let frame = |of: &str| or_empty(figure.number(&format!("frame_{of}_ms")), milliseconds);
        let _ = writeln!(
            tables,
            "| {} | {} | {} | {} | {} |",
            figure.text("name"),
            match figure.text("peer") {
                "tidings" => figure.text("version").to_owned(),
                peer => format!("{peer} {}", figure.text("version")),
            },
            times(figure, ""),
            frame("p95"),
            frame("max"),
        );
    }
    if live.is_empty() {
        return tables;
    }
    tables += "\n| a tab that follows | new events | pictures | objects at most, first half | \
               second half | nodes at most, first half | second half |\n\
               |---|--:|--:|--:|--:|--:|--:|\n";
    for figure in live {
        let number = |name: &str| figure.number(name).unwrap_or_default();
        let mib = |name: &str| number(name) / f64::from(1 << 20);
        let _ = writeln!(
            tables,
            "| {} minutes | {} | {} | {:.1} MiB | {:.1} MiB | {} | {} |",
            number("minutes"),
            number("events"),
            number("pictures"),
            mib("heap_first_half_bytes"),
            mib("heap_second_half_bytes"),
            number("nodes_first_half"),
            number("nodes_second_half"),
        );
    }
    tables
}

pub(super) fn milliseconds(value: f64) -> String {
    if value < 10. {
        format!("{value:.1} ms")
    } else {
        format!("{value:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_figure_has_a_row() {
        let view = json!({"name": "view_1h", "p50_ms": 4.25, "p95_ms": 12.6, "max_ms": 30,
            "bytes": 20480, "read": 1500, "complete": 1});
        let event = json!({"name": "event", "p50_ms": 1, "p95_ms": 2, "max_ms": 3, "bytes": 1024,
            "read": 0, "complete": 0});
        let moved = json!({"peer": "tidings", "name": "gesture_1h", "version": "0.1.0, Chrome/1", "p50_ms": 5,
            "p95_ms": 6, "max_ms": 7, "frame_p50_ms": 16, "frame_p95_ms": 17, "frame_max_ms": 40});
        let live = json!({"name": "live", "minutes": 10, "events": 6000, "pictures": 90,
            "heap_first_half_bytes": 1_048_576, "heap_second_half_bytes": 1_048_576,
            "nodes_first_half": 5000, "nodes_second_half": 5001});
        let tables = tables(
            &[Figure(view), Figure(event)],
            &[Figure(moved)],
            &[Figure(live)],
        );
        for row in [
            "| view_1h | 4.2 ms | 13 ms | 30 ms | 20 KiB | 1500 | 100 % |",
            "| event | 1.0 ms | 2.0 ms | 3.0 ms | 1 KiB |  |  |",
            "| gesture_1h | 0.1.0, Chrome/1 | 5.0 ms | 6.0 ms | 7.0 ms | 17 ms | 40 ms |",
            "| 10 minutes | 6000 | 90 | 1.0 MiB | 1.0 MiB | 5000 | 5001 |",
        ] {
            assert!(
                tables.lines().any(|line| line == row),
                "{row}\nnot in\n{tables}"
            );
        }
    }
}
