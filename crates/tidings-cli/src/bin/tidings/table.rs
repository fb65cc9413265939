//! Prints a server's answer to a request for a `Table`, as kubectl does: column names in upper
//! case, three spaces between columns, and only the columns of priority 0.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Deserialize;
use tidings_cli::table::{self, Cell, Look, Screen};

/// The printed parts of a `meta.k8s.io/v1` Table.
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

/// One row: the cells of an object.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    cells: Vec<serde_json::Value>,
    /// The object itself, if it was requested.
    #[serde(default)]
    object: serde_json::Value,
}

impl Table {
    /// Sorts the rows as `kubectl --sort-by .lastTimestamp` does; the whole objects must have been
    /// requested.
    pub(crate) fn sort_by_last_timestamp(&mut self) {
        // Timestamps of one form in one time zone sort as texts.
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
    /// requested.
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

    /// Removes all rows but the last `count`.
    pub(crate) fn keep_last(&mut self, count: usize) {
        self.rows.drain(..self.rows.len().saturating_sub(count));
    }

    /// Prints the table as kubectl would, fitted to a terminal.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn print(&self, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
        let definitions = self.column_definitions.iter().enumerate();
        let shown = definitions.filter(|(_, column)| column.priority == 0);
        let shown: Vec<_> = shown.collect();
        let columns = shown.iter().map(|(_, column)| {
            let heading = column.name.to_uppercase();
            let column = match heading.as_str() {
                "MESSAGE" => table::Column::of_texts(&heading),
                "NAMESPACE" | "REASON" | "OBJECT" => table::Column::of_names(&heading),
                _ => table::Column::new(&heading),
            };
            column.look(Look::Plain)
        });
        let rows = self.rows.iter().map(|row| {
            let cells = shown.iter().map(|(index, _)| row.cells.get(*index));
            let cells = cells.map(|value| Cell::new(&value.map(text).unwrap_or_default()));
            cells.collect()
        });
        table::Table::new(columns.collect(), screen).print(rows, out)
    }
}

/// A cell as kubectl prints it: a string unchanged, everything else as JSON.
fn text(value: &serde_json::Value) -> Cow<'_, str> {
    match value {
        serde_json::Value::String(text) => Cow::Borrowed(text),
        serde_json::Value::Null => Cow::Borrowed("<none>"),
        other => Cow::Owned(other.to_string()),
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
        let mut out = Vec::new();
        table.print(Screen::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "LAST SEEN    MESSAGE\n5m           Back-off...\n12m30s       started\n<unknown>!   <none>\n"
        );
    }
}
