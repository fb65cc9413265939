//! The end of a file: what it has, and where. Nothing in it is believed before it is judged.
//!
//! Invariant: of an end that is accepted, every row group has as many rows and bytes as the writer
//! may give it, and every column, filter and page lies within the file. Memory: in proportion to
//! the bytes of the end, which are bounded.

use std::ops::Range;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaData,
    ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::schema::types::TypePtr;

use super::bounds::{
    CHUNK_BYTES_MAX, CHUNKS_BYTES_MAX, END_BYTES_MAX, FILE_BYTES_MAX, FILTER_BYTES_MAX,
    GROUP_ROWS_MAX, GROUPS_MAX, LABELS_MAX, SCHEMA_MAX,
};
use super::caught;
use super::columns::{FORM, FORM_KEY, are_promised, schema};
use super::thrift::{Fields, Found, judge};
use crate::row::Unreadable;

/// Bytes behind the metadata: their length, and the format's mark.
const TAIL: usize = 8;
const MARK: &[u8] = b"PAR1";

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is no whole Parquet file.
    #[error("not a whole Parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// It is of a later version of this program, or of another one.
    #[error("the form is {found:?}, known is {FORM}")]
    Form {
        /// What it says.
        found: Option<String>,
    },
    /// An event's bytes are damaged.
    #[error(transparent)]
    Event(#[from] Unreadable),
    /// A column does not say what the event says.
    #[error("the column {column:?} does not say what the events say")]
    Column {
        /// Which.
        column: &'static str,
    },
    /// It does not say of which entries of a journal it is.
    #[error("it does not say what of what waits it has")]
    Waiting,
    /// The rows are not in their order, or one is there twice.
    #[error("the rows are not in their order")]
    Order,
    /// It has more bytes than it may have.
    #[error("it has more bytes than it may have")]
    Long,
    /// It has other rows than it says.
    #[error("rows are missing")]
    Rows,
    /// The columns of a rollup are not those that were promised.
    #[error("the columns are not those of a rollup")]
    Rollup,
}

impl From<FileError> for ParquetError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Parquet(error) => error,
            error => Self::General(error.to_string()),
        }
    }
}

/// A kind of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Maximum rows of a row group.
    pub(super) rows_max: usize,
    /// The promised columns.
    pub(super) schema: fn() -> Result<TypePtr>,
    /// The error of a file with other columns.
    pub(super) other_columns: fn() -> FileError,
}

/// Files of versions.
pub(crate) const EVENTS: Kind = Kind {
    rows_max: GROUP_ROWS_MAX,
    schema,
    other_columns: || general("its columns are not those of this form").into(),
};

/// What a file has, by its last bytes and its length.
///
/// # Errors
/// [`ParquetError::NeedMoreData`] says how many of the last bytes are needed; others, what is
/// wrong.
pub(crate) fn read(end: &Bytes, len: u64, kind: Kind) -> Result<ParquetMetaData, FileError> {
    let (rest, tail) = end.split_last_chunk::<TAIL>().ok_or_else(too_short)?;
    let (meta_len, mark) = tail.split_at(4);
    if mark != MARK || len > FILE_BYTES_MAX || end.len() as u64 > len {
        return Err(general("it is no such file, or not whole").into());
    }
    let meta_len = meta_len.try_into().map_or(0, u32::from_le_bytes) as usize;
    if meta_len > END_BYTES_MAX {
        return Err(general("its end is longer than it can be").into());
    }
    let Some(from) = rest.len().checked_sub(meta_len) else {
        return Err(needed(end, len, meta_len + TAIL).into());
    };
    let bytes = rest.get(from..).unwrap_or_default();
    if judge(bytes, is_known)? != bytes.len() {
        return Err(general("its metadata has another length").into());
    }
    let meta = caught(|| ParquetMetaDataReader::decode_metadata(bytes))?;
    check_form(meta.file_metadata())?;
    if !are_promised(meta.file_metadata().schema_descr(), (kind.schema)()?) {
        return Err((kind.other_columns)());
    }
    for group in meta.row_groups() {
        check_group(group, len, kind)?;
    }
    Ok(meta)
}

/// The same with where the pages of some columns are.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn read_pages<const N: usize>(
    end: &Bytes,
    len: u64,
    leaves: [usize; N],
) -> Result<ParquetMetaData, FileError> {
    let meta = read(end, len, EVENTS)?;
    let begins = len.saturating_sub(end.len() as u64);
    for column in meta.row_groups().iter().flat_map(|group| {
        let columns = group.columns();
        leaves.iter().filter_map(|leaf| columns.get(*leaf))
    }) {
        let missing = || general("it has no index of its pages");
        let range = column.offset_index_range().ok_or_else(missing)?;
        if range.end > len {
            return Err(missing().into());
        }
        let Some(from) = range.start.checked_sub(begins) else {
            let from_end = place(len - range.start);
            return Err(needed(end, len, from_end).into());
        };
        let index = end.get(place(from)..place(range.end - begins));
        let index = index.ok_or_else(missing)?;
        let rows = GROUP_ROWS_MAX;
        judge(index, |_, found| match found {
            Found::List(len) => *len <= rows,
            Found::Number(_) => true,
        })?;
    }
    let mut reader = ParquetMetaDataReader::new_with_metadata(meta)
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(PageIndexPolicy::Required)
        .with_offset_index_mask(ColumnChunkMask::columns(leaves));
    let meta = caught(|| {
        reader.read_page_indexes_sized(end, len)?;
        reader.finish()
    })?;
    for (number, group) in meta.row_groups().iter().enumerate() {
        for leaf in leaves {
            let column = group.columns().get(leaf);
            if !column.is_some_and(|it| are_pages(pages(&meta, number, leaf), it, group.num_rows()))
            {
                return Err(general("its page index is not that of its rows").into());
            }
        }
    }
    Ok(meta)
}

/// Where the pages of a column are, and which of its rows each has.
pub(crate) fn pages(meta: &ParquetMetaData, group: usize, leaf: usize) -> &[PageLocation] {
    let index = meta.page_index();
    let pages = index.and_then(|index| index.offset_index(group, leaf));
    pages.map_or(&[], |pages| pages.page_locations().as_slice())
}

/// Where a column's filter is, if it has one.
pub(crate) fn filter(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let from = u64::try_from(column.bloom_filter_offset()?).ok()?;
    let len = u64::try_from(column.bloom_filter_length()?).ok()?;
    Some(from..from.checked_add(len)?)
}

/// Numbers of elements, and of children in the schema, which is made by recursion.
fn is_known(fields: Fields<'_>, found: &Found) -> bool {
    match (fields, found) {
        ([2, ..], Found::List(len)) => *len <= SCHEMA_MAX,
        ([4], Found::List(len)) => *len <= GROUPS_MAX,
        (_, Found::List(len)) => *len <= GROUP_ROWS_MAX,
        ([2, 5], Found::Number(children)) => {
            usize::try_from(*children).is_ok_and(|children| children < SCHEMA_MAX)
        }
        (_, Found::Number(_)) => true,
    }
}

fn check_group(group: &RowGroupMetaData, len: u64, kind: Kind) -> Result<()> {
    let is_well = |number: i64, max: usize| usize::try_from(number).is_ok_and(|it| it <= max);
    if group.num_rows() < 1 || !is_well(group.num_rows(), kind.rows_max) {
        return Err(general("a row group has other rows than it can have"));
    }
    let (mut bytes, mut compressed) = (0, 0);
    for column in group.columns() {
        let is_flat = column.column_descr().max_rep_level() == 0;
        let has_values = if is_flat {
            column.num_values() == group.num_rows()
        } else {
            column.num_values() >= group.num_rows() && is_well(column.num_values(), LABELS_MAX)
        };
        let chunk = chunk(column).filter(|chunk| chunk.start > 0 && chunk.end <= len);
        let filter = match column.bloom_filter_offset() {
            None => Some(0..0),
            Some(_) => filter(column),
        };
        let filter =
            filter.filter(|it| it.end <= len && it.end - it.start <= FILTER_BYTES_MAX as u64);
        let is_compressed = matches!(column.compression(), Compression::ZSTD(_));
        if !has_values
            || chunk.is_none()
            || filter.is_none()
            || !is_compressed
            || !is_well(column.uncompressed_size(), CHUNK_BYTES_MAX)
            || !is_well(column.compressed_size(), CHUNK_BYTES_MAX)
        {
            return Err(general("a column is not as it is written"));
        }
        bytes += column.uncompressed_size();
        compressed += column.compressed_size();
    }
    if !is_well(bytes, CHUNKS_BYTES_MAX) || !is_well(compressed, CHUNKS_BYTES_MAX) {
        return Err(general("a row group is longer than it can be"));
    }
    Ok(())
}

/// Where the pages of a column are.
fn chunk(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let data = u64::try_from(column.data_page_offset()).ok()?;
    let from = match column.dictionary_page_offset() {
        Some(dictionary) => u64::try_from(dictionary).ok().filter(|it| *it <= data)?,
        None => data,
    };
    let to = from.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
    Some(from..to)
}

/// Whether pages are those of a column: in their order and within it, with all of its rows.
fn are_pages(pages: &[PageLocation], column: &ColumnChunkMetaData, rows: i64) -> bool {
    let Some(chunk) = chunk(column) else {
        return false;
    };
    let (mut from, mut row) = (chunk.start, -1);
    let are_within = pages.iter().all(|page| {
        let end = u64::try_from(page.offset).ok().and_then(|at| {
            let len = u64::try_from(page.compressed_page_size).ok()?;
            at.checked_add(len)
                .filter(|end| at >= from && len > 0 && *end <= chunk.end)
        });
        let is_next = page.first_row_index > row && page.first_row_index < rows;
        row = page.first_row_index;
        from = end.unwrap_or(from);
        end.is_some() && is_next
    });
    are_within && pages.first().is_some_and(|page| page.first_row_index == 0)
}

/// A place in what is in memory.
fn place(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// That more of the last bytes are needed, if there are more.
fn needed(end: &Bytes, len: u64, needed: usize) -> ParquetError {
    if needed > END_BYTES_MAX {
        return general("its end is longer than it can be");
    }
    if end.len() as u64 == len || needed as u64 > len {
        return too_short();
    }
    ParquetError::NeedMoreData(needed)
}

fn too_short() -> ParquetError {
    general("it ends too early")
}

fn general(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

/// Refuses a file of another form than the known one.
pub(crate) fn check_form(file: &FileMetaData) -> Result<(), FileError> {
    let pairs = file.key_value_metadata();
    let form = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == FORM_KEY));
    let found = form.and_then(|form| form.value.clone());
    if found.as_deref() != Some(&FORM.to_string()) {
        return Err(FileError::Form { found });
    }
    Ok(())
}
