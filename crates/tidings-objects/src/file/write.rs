//! Writes sorted rows as one file, and any rows as columns, one row group at a time.
//!
//! Memory: one row group of rows, and the compressed file, whose size the caller bounds.

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};

use super::bounds::{GROUP_BYTES_MAX, GROUP_ROWS_MAX, GROUPS_MAX};
use super::columns::{COLUMNS, Column, Value};
use super::columns::{properties, schema};
use crate::row::Row;

/// A file that is being written.
pub(crate) struct Writer {
    file: SerializedFileWriter<Vec<u8>>,
    groups: usize,
    rows: Vec<Row>,
    bytes: usize,
}

impl Writer {
    /// Begins a file; `is_last` says that its rows are not merged again.
    pub(crate) fn new(is_last: bool) -> Result<Self> {
        Self::with_room(is_last, 0)
    }

    /// Begins a file that will have about `bytes` bytes. A buffer that grows is copied, and is in
    /// memory twice meanwhile.
    pub(crate) fn with_room(is_last: bool, bytes: usize) -> Result<Self> {
        let room = Vec::with_capacity(bytes);
        let file = SerializedFileWriter::new(room, schema()?, properties(is_last)?)?;
        Ok(Self {
            file,
            groups: 0,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds a row; rows have to come in the order of rows.
    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        self.bytes += row.object.len();
        self.rows.push(row);
        if self.rows.len() >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.end_group()?;
        }
        Ok(())
    }

    /// Returns whether the file should end here. It ends with the row group that reaches
    /// `bytes_max`, or with the last one that a file may have.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        self.groups >= GROUPS_MAX || self.file.bytes_written() >= bytes_max
    }

    /// States something about the whole file, under a key.
    pub(crate) fn say(&mut self, key: &str, text: String) {
        let said = KeyValue::new(key.to_owned(), text);
        self.file.append_key_value_metadata(said);
    }

    /// Ends the file; returns its bytes.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.end_group()?;
        self.file.into_inner()
    }

    fn end_group(&mut self) -> Result<()> {
        if !self.rows.is_empty() {
            write_group(&mut self.file, &COLUMNS, &self.rows)?;
            self.groups += 1;
        }
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Appends a row group with the given rows.
pub(super) fn write_group<R>(
    file: &mut SerializedFileWriter<Vec<u8>>,
    columns: &[Column<R>],
    rows: &[R],
) -> Result<()> {
    let mut group = file.next_row_group()?;
    for column in columns {
        if let Value::Map(of) = column.value {
            let (defined, repeated, pairs) = levels(rows, of);
            let keys = pairs.iter().map(|(key, _)| key.as_str());
            let values = pairs.iter().map(|(_, value)| value.as_str());
            texts(next(&mut group)?, keys, Some(&defined), Some(&repeated))?;
            texts(next(&mut group)?, values, Some(&defined), Some(&repeated))?;
        } else {
            write(next(&mut group)?, &column.value, rows)?;
        }
    }
    group.close().map(drop)
}

fn next<'a>(
    group: &'a mut SerializedRowGroupWriter<'_, Vec<u8>>,
) -> Result<SerializedColumnWriter<'a>> {
    let missing = || ParquetError::General("the schema has fewer columns".into());
    group.next_column()?.ok_or_else(missing)
}

fn write<R>(mut column: SerializedColumnWriter<'_>, value: &Value<R>, rows: &[R]) -> Result<()> {
    match value {
        Value::Text(of) => return texts(column, rows.iter().map(of), None, None),
        Value::Bytes(of) => {
            let values: Vec<_> = rows.iter().map(|row| of(row).clone().into()).collect();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, None, None)?;
        }
        Value::Number(of) => {
            let values: Vec<_> = rows.iter().map(|row| of(row).cast_signed()).collect();
            column
                .typed::<Int64Type>()
                .write_batch(&values, None, None)?;
        }
        Value::Time(of) => {
            let values: Vec<_> = rows.iter().map(of).collect();
            column
                .typed::<Int64Type>()
                .write_batch(&values, None, None)?;
        }
        Value::Count(of) => {
            let (values, defined) = maybe(rows, *of);
            let defined = Some(&defined[..]);
            column
                .typed::<Int32Type>()
                .write_batch(&values, defined, None)?;
        }
        Value::MaybeTime(of) => {
            let (values, defined) = maybe(rows, *of);
            let defined = Some(&defined[..]);
            column
                .typed::<Int64Type>()
                .write_batch(&values, defined, None)?;
        }
        Value::Map(_) => {}
    }
    column.close()
}

fn texts<'a>(
    mut column: SerializedColumnWriter<'_>,
    values: impl Iterator<Item = &'a str>,
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<()> {
    let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
    column
        .typed::<ByteArrayType>()
        .write_batch(&values, defined, repeated)?;
    column.close()
}

/// Returns the values that are present, and for each row whether it has one.
fn maybe<R, T>(rows: &[R], of: fn(&R) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let values = rows.iter().filter_map(of).collect();
    let defined = rows.iter().map(|row| i16::from(of(row).is_some()));
    (values, defined.collect())
}

type Pairs<'a> = Vec<&'a (String, String)>;

/// Returns the pairs of all rows' maps, and the levels that say which row each belongs to.
fn levels<R>(rows: &[R], of: fn(&R) -> &[(String, String)]) -> (Vec<i16>, Vec<i16>, Pairs<'_>) {
    let (mut defined, mut repeated, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let map = of(row);
        if map.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (at, pair) in map.iter().enumerate() {
            defined.push(1);
            repeated.push(i16::from(at > 0));
            pairs.push(pair);
        }
    }
    (defined, repeated, pairs)
}
