//! The metadata of a file: where its row groups, columns and pages are, and what they may have.

use std::ops::Range;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::statistics::Statistics;
use tidings_store::HOUR_MILLIS;

use super::leaf::{self, Leaf};
use crate::file::end;
use crate::reader::keys::Place;

/// The metadata of one file; see the module documentation.
#[derive(Debug)]
pub(in crate::reader) struct Footer {
    pub(in crate::reader) meta: ParquetMetaData,
    pub(in crate::reader) groups: Vec<Group>,
}

/// What a row group may have, by its statistics.
#[derive(Debug)]
pub(in crate::reader) struct Group {
    pub(in crate::reader) rows: usize,
    /// No object of the row group sorts before this place.
    pub(in crate::reader) lower: Place,
    /// No object of the row group sorts after this place; `None` is after everything.
    pub(in crate::reader) upper: Place<Option<String>>,
    /// When its events were last seen at the earliest and at the latest, in milliseconds since
    /// 1970.
    pub(in crate::reader) seen: (i64, i64),
    /// Nothing of it was observed after this, in microseconds since 1970.
    observed: i64,
}

impl Group {
    /// The times among which its versions are when the latest are asked for.
    pub(in crate::reader) fn ranked(&self) -> (i64, i64) {
        let (from, to) = self.seen;
        (
            leaf::ranked(from, self.observed),
            leaf::ranked(to, self.observed),
        )
    }

    /// Returns whether the whole row group sorts before a place.
    pub(in crate::reader) fn is_before(&self, place: Place<&str>) -> bool {
        for (upper, part) in self.upper.iter().zip(place) {
            match upper.as_deref().map(|upper| upper.cmp(part)) {
                Some(std::cmp::Ordering::Less) => return true,
                Some(std::cmp::Ordering::Equal) => {}
                Some(std::cmp::Ordering::Greater) | None => return false,
            }
        }
        false
    }

    /// Returns whether the whole row group sorts after a place.
    pub(in crate::reader) fn is_behind(&self, place: Place<&str>) -> bool {
        self.lower.each_ref().map(String::as_str) > place
    }
}

impl Footer {
    /// Reads the metadata from the end of a file of `len` bytes and `rows` rows.
    ///
    /// # Errors
    ///
    /// [`ParquetError::NeedMoreData`] says how many of the last bytes are needed; every other error
    /// says what is wrong.
    pub(in crate::reader) fn of(end: &Bytes, len: u64, rows: u64) -> Result<Self, ParquetError> {
        let meta = end::read_pages(end, len, leaf::ALL.map(|leaf| leaf.0))?;
        let groups = meta.row_groups().iter().map(group);
        let groups = groups.collect::<Result<_, ParquetError>>()?;
        let footer = Self { meta, groups };
        // The sum cannot overflow: row groups, and the rows of each, are bounded.
        if footer.groups.iter().map(|it| it.rows as u64).sum::<u64>() != rows {
            return Err(general("it has other rows than its manifest says"));
        }
        Ok(footer)
    }

    /// Returns where the pages of a column are, and which row each begins with.
    pub(in crate::reader) fn pages(&self, group: usize, leaf: Leaf) -> &[PageLocation] {
        end::pages(&self.meta, group, leaf.0)
    }

    /// Returns where a column's bloom filter is, if it has one.
    pub(in crate::reader) fn filter(&self, group: usize, leaf: Leaf) -> Option<Range<u64>> {
        let column = self.meta.row_groups().get(group)?.columns().get(leaf.0)?;
        end::filter(column)
    }

    /// Returns about how many bytes a row has in a column, before compression.
    pub(in crate::reader) fn bytes_of_row(&self, group: usize, leaf: Leaf) -> usize {
        let column = self.meta.row_groups().get(group);
        let column = column.and_then(|group| group.columns().get(leaf.0));
        let bytes = column.map_or(0, ColumnChunkMetaData::uncompressed_size);
        let rows = self.groups.get(group).map_or(1, |group| group.rows.max(1));
        usize::try_from(bytes).unwrap_or(0) / rows
    }

    /// Returns the bytes of memory that this takes.
    pub(in crate::reader) fn memory(&self) -> usize {
        let groups = self.groups.iter().map(|group| {
            let upper = group.upper.iter().flatten();
            size_of::<Group>()
                + group
                    .lower
                    .iter()
                    .chain(upper)
                    .map(String::len)
                    .sum::<usize>()
        });
        self.meta.memory_size() + groups.sum::<usize>()
    }
}

fn general(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

fn group(group: &RowGroupMetaData) -> Result<Group, ParquetError> {
    let mut lower = Place::default();
    let mut upper = Place::default();
    for (at, leaf) in [leaf::NAMESPACE, leaf::KIND, leaf::NAME]
        .into_iter()
        .enumerate()
    {
        let Some(Statistics::ByteArray(found)) = group.column(leaf.0).statistics() else {
            break;
        };
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes?.to_vec()).ok();
        let min = text(found.min_bytes_opt());
        upper[at] = text(found.max_bytes_opt());
        let is_one = min.is_some() && min == upper[at];
        lower[at] = min.unwrap_or_default();
        // If the first part has several values, the second starts from its beginning with each, so
        // its bounds say nothing.
        if !is_one {
            break;
        }
    }
    Ok(Group {
        rows: usize::try_from(group.num_rows())?,
        lower,
        upper,
        seen: seen(group),
        observed: observed(group),
    })
}

/// Returns when the last row was observed, from the statistics.
fn observed(group: &RowGroupMetaData) -> i64 {
    match group.column(leaf::OBSERVED.0).statistics() {
        Some(Statistics::Int64(found)) => found.max_opt().copied().unwrap_or(i64::MAX),
        _ => i64::MAX,
    }
}

/// Returns the times from the statistics, which leave out rows without a time. Such rows count as
/// last seen at [`HOUR_MILLIS`].
fn seen(group: &RowGroupMetaData) -> (i64, i64) {
    let found = group.column(leaf::LAST_SEEN.0).statistics();
    let Some(Statistics::Int64(found)) = found else {
        return (HOUR_MILLIS, i64::MAX);
    };
    let (Some(min), Some(max)) = (found.min_opt(), found.max_opt()) else {
        return (HOUR_MILLIS, i64::MAX);
    };
    let min = match found.null_count_opt() {
        Some(0) => leaf::seen(Some(*min)),
        _ => HOUR_MILLIS,
    };
    (min, leaf::seen(Some(*max)))
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use tidings_store::UnixMillis;

    use super::*;
    use crate::file::write::Writer;
    use crate::row::Row;

    /// The Parquet crate accepts negative numbers, and panics where they are used.
    #[test]
    fn columns_of_a_damaged_end_are_somewhere() {
        let mut writer = Writer::new(false).unwrap();
        for number in 0..3 {
            let row = Row::new(
                &"prod".into(),
                0,
                number,
                UnixMillis(1),
                tidings_api::codec::encode_stored(&mut Event::default()),
            )
            .unwrap();
            writer.push(row).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let len = bytes.len() as u64;
        let whole = Bytes::from(bytes.clone());
        assert!(Footer::of(&whole, len, 3).is_ok());
        let mut refused = 0;
        let (rest, _) = bytes.split_last_chunk::<4>().unwrap();
        let (rest, end) = rest.split_last_chunk::<4>().unwrap();
        let end = u32::from_le_bytes(*end) as usize;
        for at in rest.len() - end..rest.len() {
            let mut damaged = bytes.clone();
            // The sign bit of a number.
            damaged[at] ^= 1;
            let damaged = Bytes::from(damaged);
            match Footer::of(&damaged, len, 3) {
                Ok(footer) => {
                    let groups = footer.meta.row_groups().iter();
                    for column in groups.flat_map(RowGroupMetaData::columns) {
                        let (from, len) = column.byte_range();
                        assert!(from.checked_add(len).is_some());
                    }
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 100, "{refused}");
    }
}
