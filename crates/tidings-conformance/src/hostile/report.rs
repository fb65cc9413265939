//! The rows of the report about hostile input.

use std::fmt::Display;
use std::time::Duration;

pub(super) fn columns(kind: &str, columns: impl IntoIterator<Item: Display>) -> String {
    let columns = columns.into_iter().map(|column| format!("{column:>11}"));
    format!("{kind:<58}{}", columns.collect::<String>())
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
