//! Prints what an API server answers to a request for a `Table`, as kubectl does: column names in
//! upper case, three spaces between columns, and only the columns of priority 0.

use std::fmt::Write;

use serde::Deserialize;

/// The part of `meta.k8s.io/v1` Table that is printed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Column {
    name: String,
    priority: i32,
}

/// One object.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    cells: Vec<serde_json::Value>,
    /// The object itself, where it was asked for.
    #[serde(default)]
    object: serde_json::Value,
}

impl Table {
    /// Sorts the rows as `kubectl --sort-by .lastTimestamp` does; the whole objects must have been
    /// asked for.
    pub(crate) fn sort_by_last_timestamp(&mut self) {
        // Timestamps of one form in one time zone are in order as texts.
        self.rows.sort_by(|one, other| {
            let of = |row: &Row| {
                row.object
                    .get("lastTimestamp")
                    .and_then(serde_json::Value::as_str)
                    .map(str::to_owned)
            };
            of(one).cmp(&of(other))
        });
    }

    /// Adds a first column of namespaces, as `kubectl -A` does; the whole objects must have been
    /// asked for.
    pub(crate) fn add_namespaces(&mut self) {
        let column = Column {
            name: "Namespace".to_owned(),
            priority: 0,
        };
        self.column_definitions.insert(0, column);
        for row in &mut self.rows {
            let namespace = row.object.pointer("/metadata/namespace").cloned();
            row.cells.insert(0, namespace.unwrap_or_default());
        }
    }

    /// Drops all rows but the last `count`.
    pub(crate) fn keep_last(&mut self, count: usize) {
        self.rows.drain(..self.rows.len().saturating_sub(count));
    }

    /// The text kubectl would print, each line ending in a line break. `width` cuts the lines of a
    /// terminal; `None` leaves them whole.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let shown: Vec<usize> = (0..self.column_definitions.len())
            .filter(|index| {
                self.column_definitions
                    .get(*index)
                    .is_some_and(|column| column.priority == 0)
            })
            .collect();
        let header = shown
            .iter()
            .filter_map(|index| self.column_definitions.get(*index))
            .map(|column| column.name.to_uppercase());
        let mut lines: Vec<Vec<String>> = vec![header.collect()];
        for row in &self.rows {
            lines.push(
                shown
                    .iter()
                    .map(|index| row.cells.get(*index).map(cell).unwrap_or_default())
                    .collect(),
            );
        }
        let widths: Vec<usize> = (0..shown.len())
            .map(|column| {
                lines
                    .iter()
                    .filter_map(|line| line.get(column))
                    .map(|text| text.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();

        let mut text = String::new();
        for line in &lines {
            let mut printed = String::new();
            for (index, (field, width)) in line.iter().zip(&widths).enumerate() {
                if index + 1 == line.len() {
                    printed.push_str(field);
                } else {
                    // Writing to a String does not fail.
                    let _ = write!(printed, "{field:width$}   ");
                }
            }
            match width {
                Some(width) if printed.chars().count() > width => {
                    text.extend(printed.chars().take(width.saturating_sub(1)));
                    text.push('…');
                }
                _ => text.push_str(printed.trim_end()),
            }
            text.push('\n');
        }
        text
    }
}

/// A cell as kubectl prints it: strings as they are up to the first line break, everything else as
/// JSON.
fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => match text.split_once('\n') {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        serde_json::Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let table: Table = serde_json::from_value(serde_json::json!({
            "columnDefinitions": [
                {"name": "Last Seen", "priority": 0},
                {"name": "Source", "priority": 1},
                {"name": "Message", "priority": 0},
            ],
            "rows": [
                {"cells": ["5m", "kubelet", "Back-off\nrestarting"]},
                {"cells": ["12m30s", "kubelet", "started"]},
                {"cells": ["<unknown>!", 3, null]},
            ],
        }))
        .unwrap();
        assert_eq!(
            table.render(None),
            "LAST SEEN    MESSAGE\n5m           Back-off...\n12m30s       started\n<unknown>!   <none>\n"
        );
        assert_eq!(
            table.render(Some(16)).lines().nth(1),
            Some("5m           Ba…")
        );
    }
}
