//! Reads the rows of a file, some or a row group at a time, from the columns that a version is made
//! of; or all columns, to see whether they say the same.
//!
//! Memory: these rows and a page of each column, or one row group, beside the bytes of the file; of
//! one that is merged, only the bytes of these columns, and of row groups that were not read yet.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::{SerializedFileReader, SerializedPageReader};

use super::columns::{COLUMNS, EPOCH, FORM, FORM_KEY, OBJECT, OBSERVED, VERSION, Value};
use super::pieces::Pieces;
use crate::row::{Row, Unreadable, Version};

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
    /// The columns of a rollup are not those that were promised.
    #[error("the columns are not those of a rollup")]
    Rollup,
}

/// A file whose end was read.
pub(crate) struct Reader {
    file: SerializedFileReader<Bytes>,
    bytes: Bytes,
    cluster: Arc<str>,
}

impl Reader {
    pub(crate) fn new(cluster: &Arc<str>, bytes: Bytes) -> Result<Self, FileError> {
        let file = SerializedFileReader::new(bytes.clone())?;
        check_form(file.metadata().file_metadata())?;
        let cluster = Arc::clone(cluster);
        Ok(Self {
            file,
            bytes,
            cluster,
        })
    }

    /// What it says under a key.
    pub(crate) fn said(&self, key: &str) -> Option<&str> {
        let said = self.file.metadata().file_metadata().key_value_metadata();
        let said = said?.iter().find(|pair| pair.key == key)?;
        said.value.as_deref()
    }

    pub(crate) fn groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// The rows of a row group.
    pub(crate) fn group(&self, group: usize) -> Result<Vec<Row>, FileError> {
        let group = self.file.get_row_group(group)?;
        self.rows(&*group)
    }

    /// The rows of a row group, all of whose columns were compared with what the events say.
    pub(crate) fn checked_group(&self, group: usize) -> Result<Vec<Row>, FileError> {
        let group = self.file.get_row_group(group)?;
        let rows = self.rows(&*group)?;
        let mut leaf = 0;
        for column in &COLUMNS {
            let same = match column.value {
                Value::Text(of) => {
                    is_same(&*group, leaf, rows.iter().map(|row| Some(of(row).into())))?
                }
                Value::Bytes(of) => is_same(
                    &*group,
                    leaf,
                    rows.iter().map(|row| Some(of(row).clone().into())),
                )?,
                Value::Number(of) => {
                    let said = rows.iter().map(|row| Some(of(row).cast_signed()));
                    is_same_number::<Int64Type>(&*group, leaf, said)?
                }
                Value::Time(of) => is_same_number::<Int64Type>(
                    &*group,
                    leaf,
                    rows.iter().map(|row| Some(of(row))),
                )?,
                Value::MaybeTime(of) => {
                    is_same_number::<Int64Type>(&*group, leaf, rows.iter().map(of))?
                }
                Value::Count(of) => {
                    is_same_number::<Int32Type>(&*group, leaf, rows.iter().map(of))?
                }
                Value::Map(of) => {
                    let pairs = || rows.iter().flat_map(of);
                    let keys = pairs().map(|(key, _)| Some(key.as_str().into()));
                    let values = pairs().map(|(_, value)| Some(value.as_str().into()));
                    leaf += 1;
                    is_same(&*group, leaf - 1, keys)? && is_same(&*group, leaf, values)?
                }
            };
            if !same {
                let column = column.name;
                return Err(FileError::Column { column });
            }
            leaf += 1;
        }
        Ok(rows)
    }

    /// What versions are made of, to be read some rows at a time. The file's own bytes are let go.
    pub(crate) fn rest(self) -> Result<Rest, FileError> {
        let groups = self.file.metadata().row_groups().iter();
        let groups = groups.map(|group| Group::of(group, &self.bytes));
        let groups: Vec<_> = groups.collect::<Result<_, ParquetError>>()?;
        Ok(Rest {
            cluster: self.cluster,
            groups: groups.into_iter(),
        })
    }

    fn rows(&self, group: &dyn RowGroupReader) -> Result<Vec<Row>, FileError> {
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        GroupRows::new(&self.cluster, group)?.some(rows)
    }
}

/// The row groups of a file that were not read yet, by the bytes of the columns that a version is
/// made of.
pub(crate) struct Rest {
    cluster: Arc<str>,
    groups: std::vec::IntoIter<Group>,
}

impl Rest {
    /// The next row group, if there is one.
    pub(crate) fn group(&mut self) -> Result<Option<GroupRows>, FileError> {
        let group = self.groups.next();
        let rows = group.map(|group| GroupRows::of(&self.cluster, &group));
        Ok(rows.transpose()?)
    }
}

/// See [`Rest`].
struct Group {
    rows: usize,
    columns: [ColumnChunkMetaData; 4],
    pieces: Arc<Pieces>,
}

impl Group {
    fn of(group: &RowGroupMetaData, bytes: &Bytes) -> Result<Self, ParquetError> {
        let missing = || ParquetError::General("a column is nowhere".into());
        let column = |leaf: usize| group.columns().get(leaf).cloned().ok_or_else(missing);
        let columns = [
            column(OBSERVED)?,
            column(EPOCH)?,
            column(VERSION)?,
            column(OBJECT)?,
        ];
        let pieces = columns.iter().map(|column| {
            let (from, len) = column.byte_range();
            let at = |place: u64| usize::try_from(place).ok();
            let range = at(from).zip(from.checked_add(len).and_then(at));
            let piece = range.and_then(|(from, to)| bytes.get(from..to));
            // A copy: a piece of the file would hold all of it.
            let piece = piece.map(Bytes::copy_from_slice);
            Ok::<_, ParquetError>((from, piece.ok_or_else(missing)?))
        });
        let pieces: Vec<_> = pieces.collect::<Result<_, _>>()?;
        Ok(Self {
            rows: usize::try_from(group.num_rows())?,
            columns,
            pieces: Arc::new(Pieces::new(pieces, bytes.len() as u64)),
        })
    }

    fn values<T: DataType>(
        &self,
        column: &ColumnChunkMetaData,
    ) -> Result<ColumnReaderImpl<T>, ParquetError> {
        let pages = SerializedPageReader::new(Arc::clone(&self.pieces), column, self.rows, None)?;
        let reader = get_column_reader(column.column_descr_ptr(), Box::new(pages));
        Ok(get_typed_column_reader(reader))
    }
}

/// The rows of a row group that were not read yet.
pub(crate) struct GroupRows {
    cluster: Arc<str>,
    observed: ColumnReaderImpl<Int64Type>,
    epochs: ColumnReaderImpl<Int64Type>,
    versions: ColumnReaderImpl<Int64Type>,
    objects: ColumnReaderImpl<ByteArrayType>,
}

impl GroupRows {
    fn new(cluster: &Arc<str>, group: &dyn RowGroupReader) -> Result<Self, FileError> {
        Ok(Self {
            cluster: Arc::clone(cluster),
            observed: get_typed_column_reader(group.get_column_reader(OBSERVED)?),
            epochs: get_typed_column_reader(group.get_column_reader(EPOCH)?),
            versions: get_typed_column_reader(group.get_column_reader(VERSION)?),
            objects: get_typed_column_reader(group.get_column_reader(OBJECT)?),
        })
    }

    fn of(cluster: &Arc<str>, group: &Group) -> Result<Self, ParquetError> {
        let [observed, epochs, versions, objects] = &group.columns;
        Ok(Self {
            cluster: Arc::clone(cluster),
            observed: group.values(observed)?,
            epochs: group.values(epochs)?,
            versions: group.values(versions)?,
            objects: group.values(objects)?,
        })
    }

    /// The next ones, as many or fewer; none behind the last.
    pub(crate) fn some(&mut self, max: usize) -> Result<Vec<Row>, FileError> {
        let observed = next_values(&mut self.observed, max)?.0;
        let epochs = next_values(&mut self.epochs, max)?.0;
        let versions = next_values(&mut self.versions, max)?.0;
        let objects = next_values(&mut self.objects, max)?.0;
        let numbers = observed.into_iter().zip(epochs.into_iter().zip(versions));
        numbers
            .zip(objects)
            .map(|((observed, (epoch, version)), object)| {
                let version = Version {
                    epoch: epoch.cast_unsigned(),
                    number: version.cast_unsigned(),
                    observed_at: observed / 1000,
                    // A piece of its page, which lives as long as the row does.
                    object: Bytes::copy_from_slice(object.data()),
                };
                Ok(Row::new(&self.cluster, version)?)
            })
            .collect()
    }
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

/// The values of a column that there are.
pub(super) fn values<T: DataType>(
    group: &dyn RowGroupReader,
    leaf: usize,
) -> Result<Vec<T::T>, ParquetError> {
    Ok(maybe_values::<T>(group, leaf)?.0)
}

/// The same, and for each row whether there is one, if not every row has.
pub(super) fn maybe_values<T: DataType>(
    group: &dyn RowGroupReader,
    leaf: usize,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(leaf)?);
    next_values(&mut reader, rows)
}

/// The values of the next rows that there are, and for each row whether there is one, if not every
/// row has.
pub(super) fn next_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = rows;
    while left > 0 {
        let read =
            reader.read_records(left, Some(&mut defined), Some(&mut repeated), &mut values)?;
        if read.0 == 0 {
            break;
        }
        left -= read.0;
    }
    Ok((values, defined))
}

fn is_same(
    group: &dyn RowGroupReader,
    leaf: usize,
    said: impl Iterator<Item = Option<ByteArray>>,
) -> Result<bool, ParquetError> {
    is_same_number::<ByteArrayType>(group, leaf, said)
}

fn is_same_number<T: DataType>(
    group: &dyn RowGroupReader,
    leaf: usize,
    said: impl Iterator<Item = Option<T::T>>,
) -> Result<bool, ParquetError> {
    let values = values::<T>(group, leaf)?;
    Ok(said.flatten().eq(values))
}
