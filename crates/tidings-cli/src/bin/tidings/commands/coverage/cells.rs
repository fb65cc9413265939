//! The cells and tables of `tidings coverage`.

use std::io::{self, Write};

use tidings_cli::table::{Cell, Column, Screen, Table};

pub(super) const UNKNOWN: &str = "<unknown>";

/// A duration in the form of the flags.
pub(super) fn life(seconds: u64) -> String {
    if seconds == 0 {
        return "0s".to_owned();
    }
    let mut left = seconds;
    let parts = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')].map(|(unit, letter)| {
        let number = left / unit;
        left %= unit;
        (number > 0).then(|| format!("{number}{letter}"))
    });
    parts.into_iter().flatten().collect()
}

pub(super) fn table(
    headings: &[&str],
    rows: &[Vec<Cell>],
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let columns = headings.iter().map(|name| match *name {
        "CLUSTER" | "NAMESPACE" | "CAUSE" | "RULE" => Column::of_names(name),
        name => Column::new(name),
    });
    Table::new(columns.collect(), screen).print(rows.iter().cloned(), out)
}

pub(super) fn text(text: &str) -> Cell {
    Cell::new(if text.is_empty() { UNKNOWN } else { text })
}

pub(super) fn number(number: Option<u64>) -> Cell {
    number.map_or_else(|| text(UNKNOWN), |number| text(&number.to_string()))
}

/// A cell with a number of bytes.
pub(super) fn bytes(bytes: u64) -> Cell {
    Cell::new(&said_bytes(bytes))
}

/// A number of bytes in readable units.
pub(super) fn said_bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        10_000_000..=9_999_999_999 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}
