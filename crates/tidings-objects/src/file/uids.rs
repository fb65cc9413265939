//! Finds the row groups of a file that may have events of some uids, and reads those uids.
//!
//! It reads the end of the file first, then parts of it. Memory: the end of the file, and one part.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::ByteArrayType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use super::end::{self, EVENTS};
use super::filter::Filter;
use super::pages::ChunkValues;
use super::pieces::Pieces;

/// Places of the columns.
const NAMESPACE: usize = 1;
const UID: usize = 5;

/// The metadata of a file, by which uids are found; see the module documentation.
pub(crate) struct Uids {
    meta: ParquetMetaData,
    len: u64,
}

impl Uids {
    /// Reads the metadata from the end of a file of length `len`.
    ///
    /// # Errors
    ///
    /// [`ParquetError::NeedMoreData`] says how many of the last bytes are needed; every other error
    /// says what is wrong.
    pub(crate) fn of(end: &Bytes, len: u64) -> Result<Self, ParquetError> {
        let meta = end::read(end, len, EVENTS).map_err(ParquetError::from)?;
        Ok(Self { meta, len })
    }

    /// Returns the row groups whose namespaces `is_asked` accepts. It is called with the first and
    /// the last namespace that may be in a row group. Without a last one, any from the first on may
    /// be.
    pub(crate) fn groups(&self, is_asked: impl Fn(&str, Option<&str>) -> bool) -> Vec<usize> {
        let groups = self.meta.row_groups().iter().enumerate();
        let groups = groups.filter(|(_, group)| {
            let (first, last) = namespaces(group);
            is_asked(&first, last.as_deref())
        });
        groups.map(|(number, _)| number).collect()
    }

    /// Returns where the bloom filter of a row group's uids is, if it has one.
    pub(crate) fn filter(&self, group: usize) -> Option<Range<u64>> {
        end::filter(self.chunk(group).ok()?.1)
    }

    /// Returns where the uids of a row group are.
    pub(crate) fn column(&self, group: usize) -> Result<Range<u64>, ParquetError> {
        let (from, len) = self.chunk(group)?.1.byte_range();
        Ok(from..from + len)
    }

    /// Returns whether `is_asked` accepts one of a row group's uids. `bytes` are those at
    /// [`column`](Self::column).
    pub(crate) fn any(
        &self,
        group: usize,
        bytes: Bytes,
        is_asked: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, ParquetError> {
        let range = self.column(group)?;
        let (of_group, _) = self.chunk(group)?;
        let rows = usize::try_from(of_group.num_rows())?;
        let pieces = Arc::new(Pieces::new(vec![(range.start, bytes)], self.len));
        let (uids, _) =
            ChunkValues::<ByteArrayType>::new(&pieces, of_group, UID, None)?.all(rows)?;
        Ok(uids.iter().any(|uid| is_asked(uid.data())))
    }

    fn chunk(
        &self,
        group: usize,
    ) -> Result<(&RowGroupMetaData, &ColumnChunkMetaData), ParquetError> {
        let group = self.meta.row_groups().get(group);
        let column = group.and_then(|group| Some((group, group.columns().get(UID)?)));
        column.ok_or_else(|| general("it has no such row group"))
    }
}

/// Returns whether a bloom filter may know one of the uids.
pub(crate) fn may_have<'a>(
    filter: &[u8],
    mut uids: impl Iterator<Item = &'a str>,
) -> Result<bool, ParquetError> {
    let filter = Filter::of(filter)?;
    Ok(uids.any(|uid| filter.may_have(uid)))
}

/// Returns the first and the last namespace that may be in a row group, by its statistics.
fn namespaces(group: &RowGroupMetaData) -> (String, Option<String>) {
    let column = group.columns().get(NAMESPACE);
    let found = column.and_then(ColumnChunkMetaData::statistics);
    let Some(Statistics::ByteArray(found)) = found else {
        return (String::new(), None);
    };
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes?.to_vec()).ok();
    let first = text(found.min_bytes_opt()).unwrap_or_default();
    (first, text(found.max_bytes_opt()))
}

fn general(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use tidings_api::codec;
    use tidings_store::UnixMillis;

    use super::*;
    use crate::file::bounds::GROUP_ROWS_MAX;
    use crate::file::write::Writer;
    use crate::row::Row;

    fn row(namespace: &str, number: usize) -> Row {
        let mut event = Event {
            metadata: Some(ObjectMeta {
                namespace: Some(namespace.into()),
                uid: Some(format!("{namespace}-{number}")),
                ..ObjectMeta::default()
            }),
            ..Event::default()
        };
        Row::new(
            &"prod".into(),
            0,
            number as u64,
            UnixMillis(1),
            codec::encode_stored(&mut event),
        )
        .unwrap()
    }

    /// Makes three row groups: two of one namespace, and one of that and another.
    #[test]
    fn the_uids_of_a_file_are_found_without_its_events() {
        let mut writer = Writer::new(false).unwrap();
        let many = GROUP_ROWS_MAX * 2 + 1;
        for number in (0..many).rev() {
            writer.push(row("a", number)).unwrap();
        }
        writer.push(row("b", 7)).unwrap();
        let bytes = Bytes::from(writer.finish().unwrap());
        let len = bytes.len() as u64;
        let part = |range: Range<u64>| bytes.slice(range.start as usize..range.end as usize);
        let needed = match Uids::of(&part(len - 100..len), len) {
            Err(ParquetError::NeedMoreData(needed)) => needed as u64,
            other => panic!("{:?}", other.map(drop)),
        };
        let uids = Uids::of(&part(len - needed..len), len).unwrap();
        let of = |namespace: &str| {
            uids.groups(|first, last| {
                first <= namespace && last.is_none_or(|last| namespace <= last)
            })
        };
        assert_eq!((of("a"), of("b")), (vec![0, 1, 2], vec![2]));
        assert_eq!((of(""), of("c")), (vec![], vec![]));
        let groups_with = |uid: &str| {
            let has = |group: &usize| {
                let column = part(uids.column(*group).unwrap());
                let found = uids.any(*group, column, |it| it == uid.as_bytes());
                let found = found.unwrap();
                let filter = part(uids.filter(*group).unwrap());
                let may = may_have(&filter, ["none", uid].into_iter());
                assert!(may.unwrap() || !found);
                found
            };
            (0..3).filter(has).collect::<Vec<usize>>()
        };
        assert_eq!(groups_with(&format!("a-{}", many - 1)), [0]);
        assert_eq!(groups_with(&format!("a-{GROUP_ROWS_MAX}")), [1]);
        assert_eq!(groups_with("a-0"), [2]);
        assert_eq!(groups_with("b-7"), [2]);
        assert_eq!(groups_with("b-8"), Vec::<usize>::new());
        assert!(uids.column(3).is_err());
        let cut = part(uids.column(0).unwrap()).slice(..4);
        assert!(uids.any(0, cut, |_| false).is_err());
    }
}
