//! The objects of a row group, each with the run of rows about it.
//!
//! Invariant: places (namespace, kind and name) rise from run to run, as rows are sorted by them.

use std::ops::Range;

use parquet::data_type::ByteArray;

use crate::reader::keys::Place;

/// The runs of one row group; see the module documentation.
#[derive(Debug)]
pub(in crate::reader) struct Runs {
    text: String,
    /// Where in `text` each part of each place ends, and the first row of its run.
    all: Vec<([u32; 3], u32)>,
    rows: u32,
}

impl Runs {
    /// Makes runs from the three columns; `None` if they are not sorted or not texts.
    pub(in crate::reader) fn new(columns: [&[ByteArray]; 3]) -> Option<Self> {
        let rows = columns[0].len();
        if columns.iter().any(|column| column.len() != rows) {
            return None;
        }
        let mut made = Self {
            text: String::new(),
            all: Vec::new(),
            rows: u32::try_from(rows).ok()?,
        };
        for row in 0..made.rows {
            let at = row as usize;
            let place = columns.map(|column| column.get(at).map(ByteArray::data));
            let mut texts: Place<&str> = Default::default();
            for (text, bytes) in texts.iter_mut().zip(place) {
                *text = std::str::from_utf8(bytes?).ok()?;
            }
            let before = made.all.len().checked_sub(1).map(|last| made.place(last));
            match before.map(|before| before.cmp(&texts)) {
                Some(std::cmp::Ordering::Equal) => continue,
                Some(std::cmp::Ordering::Greater) => return None,
                Some(std::cmp::Ordering::Less) | None => {}
            }
            let mut ends = [0; 3];
            for (end, text) in ends.iter_mut().zip(texts) {
                made.text.push_str(text);
                *end = u32::try_from(made.text.len()).ok()?;
            }
            made.all.push((ends, row));
        }
        made.text.shrink_to_fit();
        made.all.shrink_to_fit();
        Some(made)
    }

    pub(in crate::reader) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the object of a run.
    pub(in crate::reader) fn place(&self, run: usize) -> Place<&str> {
        let before = run.checked_sub(1).and_then(|before| self.all.get(before));
        let mut from = before.map_or(0, |(ends, _)| ends[2]);
        let ends = self.all.get(run).map_or([from; 3], |(ends, _)| *ends);
        ends.map(|end| {
            let text = self.text.get(from as usize..end as usize);
            from = end;
            text.unwrap_or_default()
        })
    }

    /// Returns the rows of a run.
    pub(in crate::reader) fn rows(&self, run: usize) -> Range<usize> {
        let first = |run: usize| self.all.get(run).map_or(self.rows, |(_, row)| *row) as usize;
        first(run)..first(run + 1)
    }

    /// Finds the first run that is not before a place.
    pub(in crate::reader) fn seek(&self, place: Place<&str>) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if self.place(middle) < place {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Returns the run that a row belongs to.
    pub(in crate::reader) fn of_row(&self, row: usize) -> usize {
        let behind = self
            .all
            .partition_point(|(_, first)| *first as usize <= row);
        behind.saturating_sub(1)
    }

    /// Returns the bytes of memory that this takes.
    pub(in crate::reader) fn memory(&self) -> usize {
        self.text.len() + self.all.len() * size_of::<([u32; 3], u32)>() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(places: &[Place<&str>]) -> Option<Runs> {
        let column =
            |at: usize| -> Vec<ByteArray> { places.iter().map(|place| place[at].into()).collect() };
        let columns = [column(0), column(1), column(2)];
        Runs::new([&columns[0], &columns[1], &columns[2]])
    }

    #[test]
    fn rows_about_one_object_are_a_run() {
        let places = [
            ["a", "Node", "n"],
            ["a", "Pod", ""],
            ["a", "Pod", ""],
            ["a", "Pod", "x"],
            ["a-b", "", ""],
        ];
        let runs = runs(&places).unwrap();
        assert_eq!(runs.len(), 4);
        assert_eq!(runs.place(1), ["a", "Pod", ""]);
        assert_eq!(runs.rows(1), 1..3);
        assert_eq!(runs.rows(3), 4..5);
        for (row, place) in places.iter().enumerate() {
            assert_eq!(runs.place(runs.of_row(row)), *place);
            assert_eq!(runs.seek(*place), runs.of_row(row));
        }
        assert_eq!(runs.seek(["", "", ""]), 0);
        assert_eq!(runs.seek(["a", "Pod", "y"]), 3);
        assert_eq!(runs.seek(["b", "", ""]), 4);
    }

    #[test]
    fn rows_that_are_not_sorted_are_refused() {
        assert!(runs(&[["b", "", ""], ["a", "", ""]]).is_none());
    }
}
