//! Reads the rows of a file from the four columns that determine a version.
//!
//! It reads some rows or one row group at a time. A check reads all columns and compares them with
//! the rows.
//!
//! Memory: these rows and a page of each column, or one row group, beside the file's bytes. While a
//! file is merged, only the bytes of the four columns are held, and only those of row groups not
//! read yet.

use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use tidings_store::UnixMillis;

use super::columns::{COLUMNS, EPOCH, OBJECT, OBSERVED, VERSION, Value};
pub use super::end::FileError;
use super::end::{self, EVENTS};
use super::pages::{ChunkValues, Read};
use super::pieces::Pieces;
use crate::row::Row;

/// A file whose metadata was read.
pub(crate) struct Reader {
    meta: ParquetMetaData,
    bytes: Bytes,
    pieces: Arc<Pieces>,
    cluster: Arc<str>,
}

impl Reader {
    pub(crate) fn new(cluster: &Arc<str>, bytes: Bytes) -> Result<Self, FileError> {
        let meta = end::read(&bytes, bytes.len() as u64, EVENTS)?;
        Ok(Self {
            meta,
            pieces: Arc::new(Pieces::whole(bytes.clone())),
            bytes,
            cluster: Arc::clone(cluster),
        })
    }

    /// Returns the value that the file states under a key.
    pub(crate) fn said(&self, key: &str) -> Option<&str> {
        let said = self.meta.file_metadata().key_value_metadata();
        let said = said?.iter().find(|pair| pair.key == key)?;
        said.value.as_deref()
    }

    pub(crate) fn groups(&self) -> usize {
        self.meta.num_row_groups()
    }

    fn meta_of(&self, group: usize) -> Result<&RowGroupMetaData, ParquetError> {
        let group = self.meta.row_groups().get(group);
        group.ok_or_else(|| ParquetError::General("it has no such row group".into()))
    }

    /// Reads the rows of a row group.
    pub(crate) fn group(&self, group: usize) -> Result<Vec<Row>, FileError> {
        let meta = self.meta_of(group)?;
        let rows = usize::try_from(meta.num_rows()).map_err(ParquetError::from)?;
        let read = GroupRows::new(&self.cluster, meta, &self.pieces)?.some(rows)?;
        if read.len() != rows {
            return Err(FileError::Rows);
        }
        Ok(read)
    }

    /// Reads the rows of a row group and compares all columns with what the events say.
    pub(crate) fn checked_group(&self, group: usize) -> Result<Vec<Row>, FileError> {
        let rows = self.group(group)?;
        let group = &Chunks {
            pieces: &self.pieces,
            group: self.meta_of(group)?,
        };
        let mut leaf = 0;
        for column in &COLUMNS {
            let same = match column.value {
                Value::Text(of) => {
                    is_same(group, leaf, rows.iter().map(|row| Some(of(row).into())))?
                }
                Value::Bytes(of) => is_same(
                    group,
                    leaf,
                    rows.iter().map(|row| Some(of(row).clone().into())),
                )?,
                Value::Number(of) => {
                    let said = rows.iter().map(|row| Some(of(row).cast_signed()));
                    is_same_number::<Int64Type>(group, leaf, said)?
                }
                Value::Time(of) => {
                    is_same_number::<Int64Type>(group, leaf, rows.iter().map(|row| Some(of(row))))?
                }
                Value::MaybeTime(of) => {
                    is_same_number::<Int64Type>(group, leaf, rows.iter().map(of))?
                }
                Value::Count(of) => is_same_number::<Int32Type>(group, leaf, rows.iter().map(of))?,
                Value::Map(of) => {
                    let pairs = || rows.iter().flat_map(of);
                    let keys = pairs().map(|(key, _)| Some(key.as_str().into()));
                    let values = pairs().map(|(_, value)| Some(value.as_str().into()));
                    leaf += 1;
                    is_same(group, leaf - 1, keys)? && is_same(group, leaf, values)?
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

    /// Turns this into a reader that reads some rows at a time. The bytes of the other columns are
    /// released.
    pub(crate) fn rest(self) -> Result<Rest, FileError> {
        let groups = self.meta.row_groups().iter();
        let groups = groups.map(|group| Group::of(group, &self.bytes));
        let groups: Vec<_> = groups.collect::<Result<_, ParquetError>>()?;
        Ok(Rest {
            cluster: self.cluster,
            groups: groups.into_iter(),
        })
    }
}

/// The unread row groups of a file, as the bytes of the four columns of a version.
pub(crate) struct Rest {
    cluster: Arc<str>,
    groups: std::vec::IntoIter<Group>,
}

impl Rest {
    /// Returns the next row group, if there is one.
    pub(crate) fn group(&mut self) -> Result<Option<GroupRows>, FileError> {
        let group = self.groups.next();
        let rows = group.map(|group| GroupRows::of(&self.cluster, &group));
        Ok(rows.transpose()?)
    }
}

/// One unread row group; see [`Rest`].
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
            // A copy, as a slice would keep the whole file in memory.
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
    ) -> Result<ChunkValues<T>, ParquetError> {
        ChunkValues::of(&self.pieces, column, self.rows, None)
    }
}

/// The unread rows of a row group.
pub(crate) struct GroupRows {
    cluster: Arc<str>,
    observed: ChunkValues<Int64Type>,
    epochs: ChunkValues<Int64Type>,
    versions: ChunkValues<Int64Type>,
    objects: ChunkValues<ByteArrayType>,
}

impl GroupRows {
    fn new(
        cluster: &Arc<str>,
        group: &RowGroupMetaData,
        pieces: &Arc<Pieces>,
    ) -> Result<Self, ParquetError> {
        Ok(Self {
            cluster: Arc::clone(cluster),
            observed: ChunkValues::new(pieces, group, OBSERVED, None)?,
            epochs: ChunkValues::new(pieces, group, EPOCH, None)?,
            versions: ChunkValues::new(pieces, group, VERSION, None)?,
            objects: ChunkValues::new(pieces, group, OBJECT, None)?,
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

    /// Reads up to `max` of the next rows; none after the last.
    pub(crate) fn some(&mut self, max: usize) -> Result<Vec<Row>, FileError> {
        let observed = next_values(&mut self.observed, max)?;
        let epochs = next_values(&mut self.epochs, max)?;
        let versions = next_values(&mut self.versions, max)?;
        let objects = next_values(&mut self.objects, max)?;
        let lens = [epochs.len(), versions.len(), objects.len()];
        if lens.iter().any(|len| *len != observed.len()) {
            return Err(FileError::Rows);
        }
        let numbers = observed.into_iter().zip(epochs.into_iter().zip(versions));
        numbers
            .zip(objects)
            .map(|((observed, (epoch, version)), object)| {
                // A copy, as a slice would keep its page in memory as long as the row.
                let object = Bytes::copy_from_slice(object.data());
                let (epoch, number) = (epoch.cast_unsigned(), version.cast_unsigned());
                let observed_at = UnixMillis(observed / 1000);
                Ok(Row::new(&self.cluster, epoch, number, observed_at, object)?)
            })
            .collect()
    }
}

/// The columns of a row group.
pub(super) struct Chunks<'a> {
    pub(super) pieces: &'a Arc<Pieces>,
    pub(super) group: &'a RowGroupMetaData,
}

impl Chunks<'_> {
    /// Reads the values of all rows of a column.
    pub(super) fn values<T: DataType>(&self, leaf: usize) -> Result<Read<T>, ParquetError> {
        let rows = usize::try_from(self.group.num_rows())?;
        ChunkValues::<T>::new(self.pieces, self.group, leaf, None)?.all(rows)
    }
}

/// Reads the values of the next rows of a column that every row has.
fn next_values<T: DataType>(
    column: &mut ChunkValues<T>,
    rows: usize,
) -> Result<Vec<T::T>, ParquetError> {
    let mut read = Read::<T>::default();
    column.read(rows, &mut read)?;
    Ok(read.0)
}

fn is_same(
    group: &Chunks<'_>,
    leaf: usize,
    said: impl Iterator<Item = Option<ByteArray>>,
) -> Result<bool, ParquetError> {
    is_same_number::<ByteArrayType>(group, leaf, said)
}

fn is_same_number<T: DataType>(
    group: &Chunks<'_>,
    leaf: usize,
    said: impl Iterator<Item = Option<T::T>>,
) -> Result<bool, ParquetError> {
    Ok(said.flatten().eq(group.values::<T>(leaf)?.0))
}
