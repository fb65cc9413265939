//! The columns of a file of versions, in their order, and their encodings.
//!
//! `docs/archive-format.md` promises them: a new column comes at the end and with a new form, and
//! no column is changed.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{
    BloomFilterPosition, EnabledStatistics, WriterProperties, WriterPropertiesBuilder,
    WriterPropertiesPtr,
};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type as Schema, TypePtr};

use super::bounds::GROUP_ROWS_MAX;
use crate::row::Row;

/// The form (format version) of the files.
pub(crate) const FORM: u64 = 1;
/// The key under which a file states its form.
pub(crate) const FORM_KEY: &str = "tidings.form";
/// Maximum rows of a page.
const PAGE_ROWS_MAX: usize = 4096;
/// Bytes at which a page ends. At a quarter of it, events would take 4 % more.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// The part of false positives of a bloom filter: values that it does not exclude although they are
/// absent.
const BLOOM_FALSE: f64 = 0.05;
/// The compression level of zstd for most columns.
const ZSTD_LEVEL: i32 = 6;
/// The compression level for events in a file that is not merged again. They then take 9 % less,
/// for 50 µs more per version and 20 MiB of memory meanwhile.
const ZSTD_LEVEL_LAST: i32 = 16;
/// The compression level for random digits, such as uids. With more effort zstd finds only
/// repetitions that cost more than they save.
const ZSTD_LEVEL_RANDOM: i32 = 1;

/// How a column's value is taken from a row.
pub(crate) enum Value<R> {
    /// A text, empty where the event has none.
    Text(fn(&R) -> &str),
    /// Bytes, stored as they are.
    Bytes(fn(&R) -> &Bytes),
    /// An unsigned number.
    Number(fn(&R) -> u64),
    /// A number that not every event has.
    Count(fn(&R) -> Option<i32>),
    /// Microseconds since 1970, in UTC.
    Time(fn(&R) -> i64),
    /// A time that not every event has.
    MaybeTime(fn(&R) -> Option<i64>),
    /// Pairs of names and values.
    Map(fn(&R) -> &[(String, String)]),
}

/// One column: its name, its value and its encoding.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    pub(crate) value: Value<R>,
    /// Whether it has few distinct values, so that a dictionary pays.
    few: bool,
    /// Whether readers look for single values of it, so that it gets a bloom filter.
    is_looked_for: bool,
    /// The encoding of values that are made of random digits, if they are.
    random: Option<Encoding>,
}

const fn column(name: &'static str, value: Value<Row>) -> Column<Row> {
    Column::new(name, value)
}

impl<R> Column<R> {
    pub(super) const fn new(name: &'static str, value: Value<R>) -> Self {
        Self {
            name,
            value,
            few: false,
            is_looked_for: false,
            random: None,
        }
    }

    pub(super) const fn few(mut self) -> Self {
        self.few = true;
        self
    }

    const fn looked_for(mut self) -> Self {
        self.is_looked_for = true;
        self
    }

    const fn random(mut self, encoding: Encoding) -> Self {
        self.random = Some(encoding);
        self
    }
}

/// All columns, in the order of the file.
pub(crate) const COLUMNS: [Column<Row>; 22] = [
    column("cluster", Value::Text(|row| &row.cluster)).few(),
    column("namespace", Value::Text(|row| &row.namespace)).few(),
    column("kind", Value::Text(|row| &row.kind)).few(),
    column("name", Value::Text(|row| &row.name))
        .few()
        .looked_for(),
    column("observed", Value::Time(|row| row.observed)),
    column("uid", Value::Text(|row| &row.uid))
        .looked_for()
        .random(Encoding::DELTA_LENGTH_BYTE_ARRAY),
    // The name of an event begins with the name of its object, so that neighbours share a prefix.
    column("event", Value::Text(|row| &row.event))
        .looked_for()
        .random(Encoding::DELTA_BYTE_ARRAY),
    column("epoch", Value::Number(|row| row.epoch)).few(),
    column("version", Value::Number(|row| row.version)),
    column("object_uid", Value::Text(|row| &row.object_uid)).few(),
    column("reason", Value::Text(|row| &row.reason)).few(),
    column("type", Value::Text(|row| &row.kind_of_event)).few(),
    column("source", Value::Text(|row| &row.source)).few(),
    column("host", Value::Text(|row| &row.host)).few(),
    column(
        "reporting_controller",
        Value::Text(|row| &row.reporting_controller),
    )
    .few(),
    column("action", Value::Text(|row| &row.action)).few(),
    column("message", Value::Text(|row| &row.message)).few(),
    column("count", Value::Count(|row| row.count)).few(),
    column("first_seen", Value::MaybeTime(|row| row.first_seen)),
    column("last_seen", Value::MaybeTime(|row| row.last_seen)),
    column("labels", Value::Map(|row| &row.labels)),
    column("object", Value::Bytes(|row| &row.object)),
];

/// The places of the columns from which a version is read.
pub(crate) const OBSERVED: usize = 4;
pub(crate) const EPOCH: usize = 7;
pub(crate) const VERSION: usize = 8;
/// The place of `object` among the leaves of the schema, where `labels` are two.
pub(crate) const OBJECT: usize = 22;

/// Returns the schema of a file of versions.
pub(crate) fn schema() -> Result<TypePtr> {
    schema_of("event", &COLUMNS)
}

/// Returns the schema of the given columns.
pub(super) fn schema_of<R>(name: &str, columns: &[Column<R>]) -> Result<TypePtr> {
    let fields = columns.iter().map(|column| field(column).map(Arc::new));
    let fields: Vec<_> = fields.collect::<Result<_>>()?;
    let schema = Schema::group_type_builder(name).with_fields(fields);
    Ok(Arc::new(schema.build()?))
}

/// Returns whether a file has the promised columns; others may follow them.
pub(crate) fn are_promised(found: &SchemaDescriptor, promised: TypePtr) -> bool {
    let known = SchemaDescriptor::new(promised);
    let mut both = found.columns().iter().zip(known.columns());
    found.num_columns() >= known.num_columns()
        && both.all(|(found, known)| {
            found.path() == known.path()
                && found.physical_type() == known.physical_type()
                && found.max_def_level() == known.max_def_level()
                && found.max_rep_level() == known.max_rep_level()
        })
}

fn field<R>(column: &Column<R>) -> Result<Schema> {
    let (repetition, physical, logical) = match column.value {
        Value::Text(_) => (
            Repetition::REQUIRED,
            Type::BYTE_ARRAY,
            Some(LogicalType::String),
        ),
        Value::Bytes(_) => (Repetition::REQUIRED, Type::BYTE_ARRAY, None),
        Value::Number(_) => (Repetition::REQUIRED, Type::INT64, Some(unsigned())),
        Value::Count(_) => (Repetition::OPTIONAL, Type::INT32, None),
        Value::Time(_) => (Repetition::REQUIRED, Type::INT64, Some(microseconds())),
        Value::MaybeTime(_) => (Repetition::OPTIONAL, Type::INT64, Some(microseconds())),
        Value::Map(_) => return map(column.name),
    };
    Schema::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

fn unsigned() -> LogicalType {
    LogicalType::integer(64, false)
}

fn microseconds() -> LogicalType {
    LogicalType::timestamp(true, TimeUnit::MICROS)
}

/// Returns the type of a map from texts to texts, as Parquet defines it.
fn map(name: &str) -> Result<Schema> {
    let text = |name| {
        Schema::primitive_type_builder(name, Type::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()
    };
    let pair = Schema::group_type_builder("key_value")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(text("key")?), Arc::new(text("value")?)])
        .build()?;
    Schema::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::Map))
        .with_fields(vec![Arc::new(pair)])
        .build()
}

/// Returns how a file is written; with more effort if it is not merged again (`is_last`).
pub(crate) fn properties(is_last: bool) -> Result<WriterPropertiesPtr> {
    let sorted = |column_idx, descending| SortingColumn {
        column_idx,
        descending,
        nulls_first: false,
    };
    let builder = builder()?
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_row_count_limit(PAGE_ROWS_MAX)
        .set_data_page_size_limit(PAGE_BYTES_MAX)
        .set_bloom_filter_max_ndv(GROUP_ROWS_MAX as u64)
        .set_bloom_filter_enabled(false)
        // All bloom filters lie together, so that a reader who asks for many events reads them by
        // one request.
        .set_bloom_filter_position(BloomFilterPosition::End)
        .set_sorting_columns(Some(vec![
            sorted(1, false),
            sorted(2, false),
            sorted(3, false),
            sorted(4, true),
        ]));
    let mut builder = encoded(builder, &COLUMNS)?;
    if is_last {
        let object = ColumnPath::from(COLUMNS[OBJECT - 1].name);
        builder = builder.set_column_compression(object, zstd(ZSTD_LEVEL_LAST)?);
    }
    Ok(Arc::new(builder.build()))
}

fn zstd(level: i32) -> Result<Compression> {
    ZstdLevel::try_new(level).map(Compression::ZSTD)
}

/// Returns the writer's properties that all files have.
pub(super) fn builder() -> Result<WriterPropertiesBuilder> {
    let form = KeyValue::new(FORM_KEY.into(), FORM.to_string());
    Ok(WriterProperties::builder()
        .set_created_by(concat!("tidings ", env!("CARGO_PKG_VERSION")).into())
        .set_key_value_metadata(Some(vec![form]))
        .set_compression(zstd(ZSTD_LEVEL)?))
}

/// Sets how the given columns are encoded.
pub(super) fn encoded<R>(
    mut builder: WriterPropertiesBuilder,
    columns: &[Column<R>],
) -> Result<WriterPropertiesBuilder> {
    for column in columns {
        let path = ColumnPath::from(column.name);
        builder = builder.set_column_dictionary_enabled(path.clone(), column.few);
        if column.is_looked_for {
            builder = builder
                .set_column_bloom_filter_enabled(path.clone(), true)
                .set_column_bloom_filter_fpp(path.clone(), BLOOM_FALSE);
        }
        if let Some(encoding) = column.random {
            builder = builder
                .set_column_encoding(path.clone(), encoding)
                .set_column_compression(path.clone(), zstd(ZSTD_LEVEL_RANDOM)?);
        }
        builder = match column.value {
            Value::Time(_) | Value::MaybeTime(_) | Value::Number(_) if !column.few => {
                builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            // Their least and greatest values help no reader.
            Value::Bytes(_) => builder.set_column_statistics_enabled(path, EnabledStatistics::None),
            _ => builder,
        };
    }
    Ok(builder)
}
