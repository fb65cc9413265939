//! Makes forged files that state more than they have, for tests and benchmarks.
//!
//! A reader that trusts them takes gigabytes of memory for a few kilobytes. Built only with the
//! feature `filling`.

use bytes::Bytes;
use jiff::Timestamp;
use parquet::basic::{Repetition, Type};
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type as Schema};

use crate::described::Described;
use crate::file::columns::{FORM, FORM_KEY, schema};
use crate::file::read::FileError;
use crate::folder::Folder;
use crate::manifest::Manifest;
use crate::place::Place;
use crate::seal_error::SealError;

/// What is wrong with a forged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forged {
    /// Nothing is wrong: it has two rows of the same texts and numbers.
    Nothing,
    /// A row group of two thousand million rows, all of them equal.
    Rows,
    /// Pages that have a gibibyte once they are decompressed.
    Page,
    /// Dictionaries of two thousand million values.
    Dictionary,
    /// Two thousand million lengths of texts.
    Lengths,
    /// Texts of a mebibyte each, all of which each shares with the one before.
    Shared,
    /// A text in the header of a page that is longer than memory.
    Header,
    /// A schema whose first element has two thousand million children.
    Children,
    /// A schema of deeply nested elements.
    Nested,
    /// An index of two thousand million pages.
    Index,
    /// A list of elements within each other, which the schema states to be a text.
    Kind,
    /// The length of a page twice. The second one is a gibibyte, and states another kind of number.
    Twice,
}

impl Forged {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Nothing,
        Self::Rows,
        Self::Page,
        Self::Dictionary,
        Self::Lengths,
        Self::Shared,
        Self::Header,
        Self::Children,
        Self::Nested,
        Self::Index,
        Self::Kind,
        Self::Twice,
    ];

    /// Returns the number of rows that the file states.
    pub fn rows(self) -> u64 {
        match self {
            Self::Rows => MANY,
            Self::Shared => 8000,
            _ => 2,
        }
    }

    /// Writes an archive with `files` such files.
    ///
    /// # Errors
    ///
    /// The object storage failed, or there is an archive already.
    pub async fn put(self, place: &Place, cluster: &str, files: usize) -> Result<(), SealError> {
        let bytes = Bytes::from(
            self.file()
                .map_err(ParquetError::from)
                .map_err(FileError::from)?,
        );
        let folder = Folder::new(place, cluster);
        let mut manifest = Manifest::empty(cluster, "forged", "of another".to_owned())
            .next("a".into(), Timestamp::UNIX_EPOCH);
        for _ in 0..files {
            let mut file = Described::default().file(0, &bytes);
            file.rows = self.rows().min(8_000_000);
            file.last = ["~", "~", "~"].map(str::to_owned);
            folder
                .create(&folder.path(&file.path), bytes.clone())
                .await?;
            manifest.add(vec![file]);
        }
        folder.commit(&manifest).await?;
        Ok(())
    }

    /// Makes the file's bytes.
    ///
    /// # Errors
    ///
    /// The compression failed.
    pub fn file(self) -> std::io::Result<Vec<u8>> {
        file(self)
    }
}

/// A number that just fits into the format's 32 bits.
const MANY: u64 = i32::MAX as u64 - 7;
const GIBIBYTE: u64 = 1 << 30;

/// The index of the column `uid`.
const UID: usize = 5;

/// Encodings, by their numbers in Parquet.
const PLAIN: u64 = 0;
const DELTA_LENGTH: u64 = 6;
const DELTA_BYTES: u64 = 7;
const RLE_DICTIONARY: u64 = 8;

/// A structure of Parquet's metadata that is being written.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    last: u8,
}

impl Fields {
    fn head(&mut self, field: u8, kind: u8) -> &mut Vec<u8> {
        self.bytes.push((field - self.last) << 4 | kind);
        self.last = field;
        &mut self.bytes
    }

    fn small(mut self, field: u8, number: u64) -> Self {
        varint(number << 1, self.head(field, 5));
        self
    }

    fn number(mut self, field: u8, number: u64) -> Self {
        varint(number << 1, self.head(field, 6));
        self
    }

    fn text(mut self, field: u8, text: &str) -> Self {
        put_text(text, self.head(field, 8));
        self
    }

    fn fields(mut self, field: u8, fields: Self) -> Self {
        self.head(field, 12).extend(fields.end());
        self
    }

    /// Adds a list that states `len` elements, however many it has.
    fn list(mut self, field: u8, kind: u8, len: u64, elements: &[Vec<u8>]) -> Self {
        let bytes = self.head(field, 9);
        bytes.push(0xf0 | kind);
        varint(len, bytes);
        bytes.extend(elements.concat());
        self
    }

    /// Adds a field that states a kind, with any bytes as its value.
    fn any(mut self, field: u8, kind: u8, value: &[u8]) -> Self {
        self.head(field, kind).extend(value);
        self
    }

    fn all(self, field: u8, elements: &[Vec<u8>]) -> Self {
        self.list(field, 12, elements.len() as u64, elements)
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    varint(text.len() as u64, bytes);
    bytes.extend_from_slice(text.as_bytes());
}

/// The uncompressed bytes of a page, and what its header states.
struct Page {
    bytes: Vec<u8>,
    values: u64,
    /// `None` for a dictionary.
    encoding: Option<u64>,
}

impl Page {
    fn written(&self, of: Forged, leaf: usize) -> std::io::Result<Vec<u8>> {
        let is_of_uid = leaf == UID;
        let (compressed, bytes) = if of == Forged::Page && is_of_uid {
            (zeros(GIBIBYTE)?, GIBIBYTE)
        } else if of == Forged::Twice && is_of_uid {
            (zeros(GIBIBYTE)?, 32)
        } else {
            (
                zstd::bulk::compress(&self.bytes, 1)?,
                self.bytes.len() as u64,
            )
        };
        let kind = if self.encoding.is_some() { 0 } else { 2 };
        let header = Fields::default()
            .small(1, kind)
            .small(2, bytes)
            .small(3, compressed.len() as u64);
        let mut header = match self.encoding {
            None => header.fields(7, Fields::default().small(1, self.values).small(2, PLAIN)),
            Some(encoding) => {
                let about = Fields::default()
                    .small(1, self.values)
                    .small(2, encoding)
                    .small(3, 3)
                    .small(4, 3);
                header.fields(5, about)
            }
        };
        if of == Forged::Header {
            // An unknown field, which a reader has to skip.
            varint(u64::MAX >> 2, header.head(13, 8));
        }
        if of == Forged::Twice && is_of_uid {
            // Field 2 as a number of eight bytes. Read as a number of 32 bits, it takes five of
            // them. The others are then read as a byte and a truth value.
            header.bytes.extend([0x07, 4]);
            varint(GIBIBYTE << 1, &mut header.bytes);
            header.bytes.extend([0xd3, 0, 0x11]);
        }
        let mut page = header.end();
        page.extend(compressed);
        Ok(page)
    }
}

/// Compresses `len` zeros piece by piece.
fn zeros(len: u64) -> std::io::Result<Vec<u8>> {
    let piece = vec![0; 1 << 20];
    let mut frame = zstd::Encoder::new(Vec::new(), 1)?;
    for _ in 0..len / (1 << 20) {
        std::io::Write::write_all(&mut frame, &piece)?;
    }
    frame.finish()
}

/// Encodes a run: how often a value is repeated, and its bytes.
fn run(times: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(times << 1, &mut bytes);
    bytes.extend_from_slice(value);
    bytes
}

/// Encodes `len` numbers of which all but the first are equal (`DELTA_BINARY_PACKED`).
fn numbers(first: u64, others: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [128, 4, len, first << 1] {
        varint(number, &mut bytes);
    }
    let zigzag = |number: i64| ((number << 1) ^ (number >> 63)).cast_unsigned();
    let mut step = others.cast_signed() - first.cast_signed();
    for _ in 0..len.saturating_sub(1).min(8000).div_ceil(128) {
        // Only the first number of the first block has the step to the second value.
        let widths = [if step == 0 { 0 } else { 32 }, 0, 0, 0];
        varint(zigzag(step.min(0)), &mut bytes);
        bytes.extend(widths);
        if step != 0 {
            let back = u32::try_from(step.max(0)).unwrap_or(0);
            bytes.extend(back.to_le_bytes());
            bytes.extend([0; 31 * 4]);
        }
        step = 0;
    }
    bytes
}

/// Makes the pages of a column.
fn pages(of: Forged, leaf: usize, column: &Schema, levels: (i16, i16)) -> Vec<Page> {
    let rows = of.rows();
    let is_text = column.get_physical_type() == Type::BYTE_ARRAY;
    let value: &[u8] = match column.get_physical_type() {
        Type::BYTE_ARRAY => &[1, 0, 0, 0, b'a'],
        Type::INT32 => &[1, 0, 0, 0],
        _ => &[1, 0, 0, 0, 0, 0, 0, 0],
    };
    // `uid` is the column whose texts are delta-encoded.
    if leaf == UID && matches!(of, Forged::Lengths | Forged::Shared) && is_text {
        let mut bytes = Vec::new();
        let encoding = if of == Forged::Lengths {
            bytes.extend(numbers(1, 1, MANY));
            DELTA_LENGTH
        } else {
            let mebibyte = 1 << 20;
            bytes.extend(numbers(0, mebibyte, rows));
            bytes.extend(numbers(mebibyte, 0, rows));
            bytes.resize(bytes.len() + (1 << 20), b'a');
            DELTA_BYTES
        };
        return vec![Page {
            bytes,
            values: rows,
            encoding: Some(encoding),
        }];
    }
    let mut data = Vec::new();
    let (repeated, defined) = levels;
    for level in [repeated, defined] {
        if level > 0 {
            // Labels are absent; all other values are present.
            let is_there = u8::from(repeated == 0);
            let levels = run(rows, &[is_there]);
            data.extend((levels.len() as u32).to_le_bytes());
            data.extend(levels);
        }
    }
    // Indexes of zero bits, all of which mean the first value of the dictionary.
    data.push(1);
    data.extend(run(rows, &[0]));
    vec![
        Page {
            bytes: value.to_vec(),
            values: if of == Forged::Dictionary { MANY } else { 1 },
            encoding: None,
        },
        Page {
            bytes: data,
            values: rows,
            encoding: Some(RLE_DICTIONARY),
        },
    ]
}

fn element(schema: &Schema, elements: &mut Vec<Vec<u8>>) {
    let mut fields = Fields::default();
    if schema.is_primitive() {
        fields = fields.small(1, schema.get_physical_type() as u64);
    }
    let about = schema.get_basic_info();
    if about.has_repetition() {
        let repetition = match about.repetition() {
            Repetition::REQUIRED => 0,
            Repetition::OPTIONAL => 1,
            Repetition::REPEATED => 2,
        };
        fields = fields.small(3, repetition);
    }
    fields = fields.text(4, schema.name());
    if schema.is_group() {
        fields = fields.small(5, schema.get_fields().len() as u64);
    }
    elements.push(fields.end());
    if schema.is_group() {
        for field in schema.get_fields() {
            element(field, elements);
        }
    }
}

/// A list of the schema's elements within each other. Read without looking at the kind, the same
/// bytes are a text.
fn nested() -> Vec<u8> {
    const ELEMENTS: u64 = 60_000;
    // As a list: structures, and their number. As a text: the lowest seven bits of the length.
    const LIST: u8 = 0xfc;
    const ELEMENT_BYTES: usize = 128;
    let mut bytes = vec![LIST];
    varint(ELEMENTS, &mut bytes);
    for number in 0..ELEMENTS {
        let element = |name: usize| {
            let fields = Fields::default().small(3, 0).text(4, &"a".repeat(name));
            fields.small(5, 1).end()
        };
        let without = element(0).len();
        // A name of that many bytes states its length in two bytes.
        let rest = usize::from(LIST & 0x7f) - 1;
        let is_last = number + 1 == ELEMENTS;
        let more = if is_last { rest } else { 0 };
        bytes.extend(element(ELEMENT_BYTES - without + more));
    }
    bytes
}

fn file(of: Forged) -> std::io::Result<Vec<u8>> {
    let schema = schema().map_err(std::io::Error::other)?;
    let columns = SchemaDescriptor::new(schema.clone());
    let mut file = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    let mut indexes = Vec::new();
    for (leaf, column) in columns.columns().iter().enumerate() {
        let levels = (column.max_rep_level(), column.max_def_level());
        let pages = pages(of, leaf, column.self_type(), levels);
        let from = file.len() as u64;
        let (mut index, mut dictionary, mut data, mut bytes) = (Vec::new(), None, from, 0);
        for page in &pages {
            let at = file.len() as u64;
            let written = page.written(of, leaf)?;
            bytes += page.bytes.len() as u64;
            file.extend(&written);
            if page.encoding.is_none() {
                dictionary = Some(at);
                continue;
            }
            data = at;
            let location = Fields::default()
                .number(1, at)
                .small(2, written.len() as u64)
                .number(3, 0);
            index.push(location.end());
        }
        let len = if of == Forged::Index { MANY } else { 1 };
        indexes.push(Fields::default().list(1, 12, len, &index).end());
        let path = column.path().parts().iter().map(|part| {
            let mut bytes = Vec::new();
            put_text(part, &mut bytes);
            bytes
        });
        let path: Vec<_> = path.collect();
        let about = Fields::default()
            .small(1, column.physical_type() as u64)
            .list(2, 5, 1, &[vec![16]])
            .list(3, 8, path.len() as u64, &path)
            .small(4, 6)
            .number(5, of.rows())
            .number(6, bytes)
            .number(7, file.len() as u64 - from)
            .number(9, data);
        let about = match dictionary {
            Some(at) => about.number(11, at),
            None => about,
        };
        chunks.push(about);
    }
    let chunks = chunks.into_iter().zip(indexes).map(|(about, index)| {
        let at = file.len() as u64;
        file.extend(&index);
        let chunk = Fields::default().number(2, 0).fields(3, about);
        chunk.number(4, at).small(5, index.len() as u64).end()
    });
    let chunks: Vec<_> = chunks.collect();
    let group = Fields::default()
        .all(1, &chunks)
        .number(2, 0)
        .number(3, of.rows());
    let mut elements = Vec::new();
    element(&schema, &mut elements);
    let within = |children: u64| {
        Fields::default()
            .small(3, 0)
            .text(4, "a")
            .small(5, children)
    };
    match of {
        Forged::Children => {
            let first = Fields::default().text(4, "event").small(5, MANY).end();
            elements.splice(..1, [first]);
        }
        Forged::Nested => elements = vec![within(1).end(); 500_000],
        _ => {}
    }
    let form = Fields::default()
        .text(1, FORM_KEY)
        .text(2, &FORM.to_string());
    let meta = Fields::default().small(1, 1);
    let meta = match of {
        Forged::Kind => meta.any(2, 8, &nested()),
        _ => meta.all(2, &elements),
    };
    let meta = meta
        .number(3, of.rows())
        .all(4, &[group.end()])
        .all(5, &[form.end()]);
    let meta = meta.end();
    file.extend(&meta);
    file.extend((meta.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    Ok(file)
}
