//! The rows of the report about hostile input.

use std::time::Duration;

pub(super) fn columns(kind: &str, columns: [String; 8]) -> String {
    let columns = columns.map(|column| format!("{column:>11}")).concat();
    format!("{kind:<58}{columns}")
}

pub(super) fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{} KiB", count >> 10),
        _ => format!("{} MiB", count >> 20),
    }
}
