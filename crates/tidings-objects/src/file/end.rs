//! Reads the end of a file: its metadata, which says what the file has and where.
//!
//! Nothing in it is trusted before it is checked.
//!
//! Invariant: in an accepted end, every row group has at most as many rows and bytes as a writer
//! may give it, and every column, bloom filter and page lies within the file. Memory: proportional
//! to the bytes of the end, which are bounded.

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
use super::caught::caught;
use super::columns::{FORM, FORM_KEY, are_promised, schema};
use super::thrift::{Fields, Found, judge};
use super::wire::{FILE, PAGES};
use crate::row::Unreadable;

/// Bytes after the metadata: its length and the magic bytes of Parquet.
const TAIL: usize = 8;
const MARK: &[u8] = b"PAR1";

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is not a whole Parquet file.
    #[error("not a whole Parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// It was written by a later version of this program, or by another program.
    #[error("the form is {found:?}, known is {FORM}")]
    Form {
        /// The form that the file states.
        found: Option<String>,
    },
    /// The bytes of an event are damaged.
    #[error(transparent)]
    Event(#[from] Unreadable),
    /// A column differs from what the event's bytes say.
    #[error("the column {column:?} differs from the events")]
    Column {
        /// The column's name.
        column: &'static str,
    },
    /// An answer with pending versions does not say which feed entries it covers.
    #[error("it does not state which waiting entries it has")]
    Waiting,
    /// The rows are not in order, or one occurs twice.
    #[error("the rows are not in their order")]
    Order,
    /// It has more bytes than a file may have.
    #[error("it has more bytes than are allowed")]
    Long,
    /// Its number of rows differs from what it states.
    #[error("rows are missing")]
    Rows,
    /// A rollup does not have the promised columns.
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

/// A kind of file: versions or a rollup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Maximum rows of a row group.
    pub(super) rows_max: usize,
    /// Makes the schema with the promised columns.
    pub(super) schema: fn() -> Result<TypePtr>,
    /// Makes the error for a file with other columns.
    pub(super) other_columns: fn() -> FileError,
}

/// The kind of files that hold versions.
pub(crate) const EVENTS: Kind = Kind {
    rows_max: GROUP_ROWS_MAX,
    schema,
    other_columns: || general("its columns are not those of this form").into(),
};

/// Reads a file's metadata from its last bytes and its length.
///
/// # Errors
///
/// [`ParquetError::NeedMoreData`] says how many of the last bytes are needed; every other error
/// says what is wrong.
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
    if judge(bytes, FILE, is_known)? != bytes.len() {
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

/// Reads the metadata and, for the given columns, where their pages are.
///
/// # Errors
///
/// Errors of [`read`].
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
        judge(index, PAGES, |_, found| match found {
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

/// Returns where the pages of a column are, and which row each begins with.
pub(crate) fn pages(meta: &ParquetMetaData, group: usize, leaf: usize) -> &[PageLocation] {
    let index = meta.page_index();
    let pages = index.and_then(|index| index.offset_index(group, leaf));
    pages.map_or(&[], |pages| pages.page_locations().as_slice())
}

/// Returns where a column's bloom filter is, if it has one.
pub(crate) fn filter(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let from = u64::try_from(column.bloom_filter_offset()?).ok()?;
    let len = u64::try_from(column.bloom_filter_length()?).ok()?;
    Some(from..from.checked_add(len)?)
}

/// Numbers of elements, and of children in the schema. The schema is made by recursion, at most as
/// deep as it has elements.
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

/// Returns where the pages of a column are.
fn chunk(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let data = u64::try_from(column.data_page_offset()).ok()?;
    let from = match column.dictionary_page_offset() {
        Some(dictionary) => u64::try_from(dictionary).ok().filter(|it| *it <= data)?,
        None => data,
    };
    let to = from.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
    Some(from..to)
}

/// Returns whether pages are in order, within the column, and cover all of its rows.
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

/// Turns an offset into an index of bytes in memory.
fn place(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Returns the error that asks for more of the last bytes, or says that there are no more.
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
