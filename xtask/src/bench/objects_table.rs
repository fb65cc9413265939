//! The tables of figures about an archive on object storage.

use std::fmt::Write as _;

use super::figure::Figure;
use super::table::or_empty;
use super::timeline_table::milliseconds;

/// Tables of the questions, and of the sizes of the archive and a reader.
pub(super) fn tables(figures: &[Figure]) -> String {
    let mut tables = String::from(
        "| question | first, p50 | p99 | again, p50 | p99 | requests | at most | again | complete |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for figure in figures {
        if figure.number("cold_p50_ms").is_none() {
            continue;
        }
        let time = |of: &str| or_empty(figure.number(&format!("{of}_ms")), milliseconds);
        let times = ["cold_p50", "cold_p99", "warm_p50", "warm_p99"].map(time);
        let requests = ["requests", "requests_max", "requests_again"];
        let requests = requests.map(|of| or_empty(figure.number(of), |it| format!("{it:.0}")));
        let complete = figure.number("complete");
        let _ = writeln!(
            tables,
            "| {} | {} | {} | {} |",
            figure.text("name"),
            times.join(" | "),
            requests.join(" | "),
            or_empty(complete, |share| format!("{:.0} %", share * 100.)),
        );
    }
    tables += "\n| | |\n|---|--:|\n";
    for figure in figures {
        let mut row = |title: &str, field: &str, shown: fn(f64) -> String| {
            if let Some(number) = figure.number(field) {
                let _ = writeln!(tables, "| {title} | {} |", shown(number));
            }
        };
        match figure.text("name") {
            "filled" => {
                row("files", "files", |files| format!("{files:.0}"));
                row("bytes per event, with rollups", "bytes_per_event", bytes);
                row(
                    "bytes of rollups per event",
                    "rollup_bytes_per_event",
                    bytes,
                );
            }
            "real" => {
                row(
                    "bytes per real event, with rollups",
                    "bytes_per_event",
                    bytes,
                );
                row(
                    "bytes of a real event in protobuf",
                    "stored_bytes_per_event",
                    bytes,
                );
            }
            "memory" => {
                row(
                    "memory of a reader, when it has started",
                    "started_bytes",
                    mebibytes,
                );
                row("after all questions about each cluster", "bytes", mebibytes);
                row("at most", "peak_bytes", mebibytes);
            }
            _ => {}
        }
    }
    tables
}

fn bytes(value: f64) -> String {
    format!("{value:.1} B")
}

fn mebibytes(value: f64) -> String {
    format!("{:.0} MiB", value / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_figure_has_a_row() {
        let filled = json!({"name": "filled", "files": 600, "bytes_per_event": 98.25,
            "rollup_bytes_per_event": 2.5});
        let question = json!({"name": "newest_50", "cold_p50_ms": 120.4, "cold_p99_ms": 200,
            "warm_p50_ms": 3.21, "warm_p99_ms": 9, "requests": 13, "requests_max": 15,
            "requests_again": 0, "complete": 1});
        let memory = json!({"name": "memory", "started_bytes": 33_554_432, "bytes": 67_108_864,
            "peak_bytes": 69_206_016});
        let real = json!({"name": "real", "bytes_per_event": 107.25,
            "stored_bytes_per_event": 600});
        let tables = tables(&[filled, question, memory, real].map(Figure));
        for row in [
            "| newest_50 | 120 ms | 200 ms | 3.2 ms | 9.0 ms | 13 | 15 | 0 | 100 % |",
            "| files | 600 |",
            "| bytes per event, with rollups | 98.2 B |",
            "| bytes of rollups per event | 2.5 B |",
            "| bytes per real event, with rollups | 107.2 B |",
            "| bytes of a real event in protobuf | 600.0 B |",
            "| memory of a reader, when it has started | 32 MiB |",
            "| after all questions about each cluster | 64 MiB |",
            "| at most | 66 MiB |",
        ] {
            let found = tables.lines().any(|line| line == row);
            assert!(found, "{row}\nnot in\n{tables}");
        }
    }
}
