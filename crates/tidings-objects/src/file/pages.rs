//! Reads the values of a column of a row group from its pages.
//!
//! The pages are checked before the Parquet crate decodes them, as the crate trusts their lengths
//! and their numbers of values.
//!
//! Pages are decompressed here, with one context for each thread: the Parquet crate makes one to
//! compress and one to decompress for each column it opens, and each asks the processor what it can
//! do, which takes microseconds in a virtual machine.
//!
//! Memory: a page, and the values asked for; all values have at most [`CHUNK_BYTES_MAX`] bytes.

use std::cell::RefCell;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{AsBytes, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use zstd::bulk::Decompressor;
use zstd::zstd_safe::get_frame_content_size;

use super::bounds::{CHUNK_BYTES_MAX, LABELS_MAX};
use super::caught::caught;
use super::delta;
use super::pieces::Pieces;
use super::thrift::{Found, judge, varint};
use super::wire::PAGE;

/// The accepted kinds of pages: data, and a dictionary.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;

/// The values of a column of one row group, read in order.
pub(crate) struct ChunkValues<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// Number of bytes that further values may have.
    bytes_left: usize,
}

/// The values read, and for each row of an optional column whether it has one.
pub(crate) type Read<T> = (Vec<<T as DataType>::T>, Vec<i16>);

impl<T: DataType> ChunkValues<T> {
    /// Opens a column of a row group whose metadata was checked. If `pages` says where the pages
    /// are, only those that are read have to be in `pieces`.
    pub(crate) fn new(
        pieces: &Arc<Pieces>,
        group: &RowGroupMetaData,
        leaf: usize,
        pages: Option<&[PageLocation]>,
    ) -> Result<Self> {
        let column = group.columns().get(leaf);
        let column = column.ok_or_else(|| general("it has no such column"))?;
        let rows = usize::try_from(group.num_rows())?;
        Self::of(pieces, column, rows, pages)
    }

    /// Opens a column that has the given number of rows.
    pub(crate) fn of(
        pieces: &Arc<Pieces>,
        column: &ColumnChunkMetaData,
        rows: usize,
        pages: Option<&[PageLocation]>,
    ) -> Result<Self> {
        let descr = column.column_descr();
        if descr.physical_type() != T::get_physical_type() {
            return Err(general("a column is of another type"));
        }
        let levels = if descr.max_rep_level() > 0 {
            LABELS_MAX
        } else {
            rows
        };
        check_headers(pieces, column, levels, pages)?;
        let pages = pages.map(<[PageLocation]>::to_vec);
        let stored = column.clone().into_builder();
        let stored = stored.set_compression(Compression::UNCOMPRESSED).build()?;
        let judged = Judged {
            inner: SerializedPageReader::new(Arc::clone(pieces), &stored, rows, pages)?,
            bytes_left: CHUNK_BYTES_MAX,
            is_text: descr.physical_type() == Type::BYTE_ARRAY,
            levels: [descr.max_rep_level(), descr.max_def_level()],
            levels_left: levels,
            entries_max: levels,
        };
        let reader = get_column_reader(column.column_descr_ptr(), Box::new(judged));
        Ok(Self {
            reader: get_typed_column_reader(reader),
            bytes_left: CHUNK_BYTES_MAX,
        })
    }

    /// Skips `rows` rows.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<()> {
        caught(|| self.reader.skip_records(rows)).map(drop)
    }

    /// Appends the values of the next rows; returns how many rows these were, fewer at the end.
    pub(crate) fn read(&mut self, rows: usize, (values, defined): &mut Read<T>) -> Result<usize> {
        let (before, mut repeated) = (values.len(), Vec::new());
        let mut left = rows;
        while left > 0 {
            let read = caught(|| {
                let (defined, repeated) = (Some(&mut *defined), Some(&mut repeated));
                self.reader.read_records(left, defined, repeated, values)
            })?;
            if read.0 == 0 {
                break;
            }
            left -= read.0;
        }
        let bytes: usize = values
            .iter()
            .skip(before)
            .map(|it| it.as_bytes().len())
            .sum();
        let bytes_left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = bytes_left.ok_or_else(|| general("a column has too many bytes"))?;
        Ok(rows - left)
    }

    /// Reads the values of all rows, of which there have to be `rows`.
    pub(crate) fn all(mut self, rows: usize) -> Result<Read<T>> {
        let mut all = Read::<T>::default();
        if self.read(rows, &mut all)? != rows {
            return Err(general("rows are missing"));
        }
        Ok(all)
    }
}

/// The fields of a page's header that are needed here.
#[derive(Default)]
struct Header {
    kind: Option<i64>,
    /// Bytes after decompression; `compressed` has the bytes as stored.
    bytes: Option<i64>,
    compressed: Option<i64>,
}

/// Reads the header at the beginning of a page; also returns the header's length.
fn header(page: &[u8], levels: usize) -> Result<(Header, usize)> {
    let mut header = Header::default();
    let is_at_most = |number: i64, max: usize| usize::try_from(number).is_ok_and(|it| it <= max);
    let len = judge(page, PAGE, |fields, found| match (fields, found) {
        (_, Found::List(_)) => false,
        ([1], Found::Number(kind)) => {
            header.kind = Some(*kind);
            matches!(*kind, DATA | DICTIONARY)
        }
        ([2], Found::Number(bytes)) => {
            header.bytes = Some(*bytes);
            is_at_most(*bytes, CHUNK_BYTES_MAX)
        }
        ([3], Found::Number(bytes)) => {
            header.compressed = Some(*bytes);
            is_at_most(*bytes, CHUNK_BYTES_MAX)
        }
        // The number of values of a data page or of a dictionary.
        ([5 | 7, 1], Found::Number(values)) => is_at_most(*values, levels),
        _ => true,
    })?;
    Ok((header, len))
}

/// Refuses pages that exceed the bounds, alone or together.
fn check_headers(
    pieces: &Pieces,
    column: &ColumnChunkMetaData,
    levels: usize,
    pages: Option<&[PageLocation]>,
) -> Result<()> {
    let mut left = CHUNK_BYTES_MAX;
    let mut check = |page: &[u8]| -> Result<(usize, Header)> {
        let (header, len) = header(page, levels)?;
        let number = |number: Option<i64>| number.and_then(|it| usize::try_from(it).ok());
        let (bytes, compressed) = (number(header.bytes), number(header.compressed));
        let is_there = compressed.is_some_and(|it| it <= page.len() - len);
        left = bytes
            .and_then(|bytes| left.checked_sub(bytes))
            .filter(|_| is_there && header.kind.is_some())
            .ok_or_else(|| general("a page is longer than it can be"))?;
        Ok((len + compressed.unwrap_or(0), header))
    };
    let (from, len) = column.byte_range();
    let Some(pages) = pages else {
        let mut rest = &*pieces.get_bytes(from, usize::try_from(len)?)?;
        while !rest.is_empty() {
            let (page, _) = check(rest)?;
            rest = rest.get(page..).unwrap_or_default();
        }
        return Ok(());
    };
    let first = pages
        .first()
        .map_or(from, |page| page.offset.cast_unsigned());
    let dictionary = (first > from).then(|| (from, first - from));
    let pages = pages.iter().map(|page| {
        let len = page.compressed_page_size;
        (page.offset.cast_unsigned(), u64::from(len.cast_unsigned()))
    });
    for (from, len) in dictionary.into_iter().chain(pages) {
        // A page that was not fetched will not be read either.
        if let Ok(page) = pieces.get_bytes(from, usize::try_from(len)?) {
            check(&page)?;
        }
    }
    Ok(())
}

/// A page reader that decompresses each page and checks its values.
struct Judged {
    /// Reads the pages as they are stored, each compressed by zstd.
    inner: SerializedPageReader<Pieces>,
    /// Number of bytes that further pages may have after decompression.
    bytes_left: usize,
    is_text: bool,
    /// The greatest repetition and definition levels; both are 0 if each row has one value.
    levels: [i16; 2],
    /// Number of values that further pages may have.
    levels_left: usize,
    /// Maximum number of values of a dictionary.
    entries_max: usize,
}

impl Judged {
    fn judge(&mut self, mut page: Option<Page>) -> Result<Option<Page>> {
        if let Some(Page::DictionaryPage { buf, .. } | Page::DataPage { buf, .. }) = &mut page {
            *buf = decompressed(buf, self.bytes_left)?.into();
            self.bytes_left -= buf.len();
        }
        match &page {
            None => {}
            Some(Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                ..
            }) => {
                let values = *num_values as usize;
                let is_plain = matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY);
                let are_there = !self.is_text || are_texts(buf, values);
                if !is_plain || values > self.entries_max || !are_there {
                    return Err(general("a dictionary is not as it is written"));
                }
            }
            Some(Page::DataPage {
                buf,
                num_values,
                encoding,
                ..
            }) => {
                let levels = *num_values as usize;
                let left = self.levels_left.checked_sub(levels);
                self.levels_left = left.ok_or_else(|| general("a column has too many values"))?;
                let mut buf = &**buf;
                let values = defined(&mut buf, self.levels, levels);
                let values = values.ok_or_else(|| general("a page has not all of its levels"))?;
                let is_well = match encoding {
                    Encoding::PLAIN => !self.is_text || are_texts(buf, values),
                    Encoding::PLAIN_DICTIONARY
                    | Encoding::RLE_DICTIONARY
                    | Encoding::DELTA_BINARY_PACKED => true,
                    Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                        self.is_text && delta::are_lengths(buf, values)
                    }
                    Encoding::DELTA_BYTE_ARRAY => {
                        self.is_text && delta::are_shared(buf, values, CHUNK_BYTES_MAX)
                    }
                    _ => false,
                };
                if !is_well {
                    return Err(general("a page is not encoded as it says"));
                }
            }
            Some(Page::DataPageV2 { .. }) => {
                return Err(general("a page is of a kind that is not written"));
            }
        }
        Ok(page)
    }
}

impl Iterator for Judged {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Judged {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.inner.get_next_page()?;
        self.judge(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.inner.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        let page = self.inner.take_deferred_dictionary()?;
        self.judge(page)
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.inner.at_record_boundary()
    }
}

thread_local! {
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decompresses a page, which may have at most `max` bytes then.
fn decompressed(page: &[u8], max: usize) -> Result<Vec<u8>> {
    // A page without any value may have no bytes at all.
    if page.is_empty() {
        return Ok(Vec::new());
    }
    // Pages that were compressed piece by piece do not say how long they are.
    let len = get_frame_content_size(page).ok().flatten();
    let len = len.map_or(Ok(max), usize::try_from)?;
    if len > max {
        return Err(general("a page is longer than it can be"));
    }
    DECOMPRESSOR.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new()?),
        };
        let mut bytes = Vec::with_capacity(len);
        context.decompress_to_buffer(page, &mut bytes)?;
        bytes.shrink_to_fit();
        Ok(bytes)
    })
}

/// Returns how many values the levels at the beginning of a page announce. Moves `buf` behind the
/// levels; returns `None` if these are not whole.
fn defined(buf: &mut &[u8], levels: [i16; 2], count: usize) -> Option<usize> {
    let mut values = count;
    for max in levels {
        if max > 0 {
            let (len, rest) = buf.split_first_chunk::<4>()?;
            let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
            let (levels, rest) = rest.split_at_checked(len)?;
            *buf = rest;
            values = ones(levels, count)?;
        }
    }
    Some(values)
}

/// Counts the ones among `count` levels, stored as runs and as groups of eight. Returns `None` if
/// there are fewer levels.
fn ones(mut levels: &[u8], count: usize) -> Option<usize> {
    let (mut left, mut ones) = (count, 0);
    while left > 0 {
        let head = usize::try_from(varint(&mut levels)?).ok()?;
        let len = head >> 1;
        if head & 1 == 0 {
            let (value, rest) = levels.split_first()?;
            levels = rest;
            let len = len.min(left);
            ones += if *value == 1 { len } else { 0 };
            left -= len;
            // An empty run at the end would loop for ever.
            if len == 0 && levels.is_empty() {
                return None;
            }
            continue;
        }
        let (groups, rest) = levels.split_at_checked(len.min(levels.len()))?;
        levels = rest;
        for group in groups {
            let len = left.min(8);
            let bits = u32::from(*group) & ((1 << len) - 1);
            ones += bits.count_ones() as usize;
            left -= len;
        }
        if len == 0 && levels.is_empty() {
            return None;
        }
    }
    Some(ones)
}

/// Returns whether the bytes have `count` texts, each preceded by its length.
fn are_texts(mut bytes: &[u8], count: usize) -> bool {
    for _ in 0..count {
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else {
            return false;
        };
        let len = u32::from_le_bytes(*len) as usize;
        let Some(rest) = rest.get(len..) else {
            return false;
        };
        bytes = rest;
    }
    true
}

fn general(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}
