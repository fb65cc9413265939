//! Reads the values of columns for some rows.
//!
//! The page index leads to the pages that have them; these are fetched together and decoded on a
//! thread of their own.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::page_index::offset_index::PageLocation;
use tokio::task::spawn_blocking;

use super::fetch::{Fetch, REQUEST_BYTES_MAX, Remote};
use super::footer::Footer;
use super::leaf::{self, Leaf};
use crate::file::filter;
use crate::file::pages::{ChunkValues, Read};
use crate::file::pieces::Pieces;
use crate::reader::fault::Fault;

/// Up to this number of neighbouring rows, values are copied out of their page, which is far
/// longer.
const FEW: usize = 64;
/// Bytes of columns at which a chunk ends; a chunk is decoded at once.
const CHUNK_BYTES: u64 = 2 << 20;
/// Number of chunks of one read in progress: some are fetched while others are decoded.
const CHUNKS_OF_READ: usize = 4;

/// Ranges of rows of a row group, in order and not adjacent.
pub(in crate::reader) type Rows = Vec<Range<usize>>;

/// The rows wanted of one row group.
#[derive(Clone)]
pub(in crate::reader) struct Want {
    pub(in crate::reader) file: Remote,
    pub(in crate::reader) footer: Arc<Footer>,
    pub(in crate::reader) group: usize,
    pub(in crate::reader) rows: Rows,
}

/// The values of one column for one [`Want`].
pub(in crate::reader) enum Values {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    /// Numbers that not every row has.
    Maybe(Vec<Option<i64>>),
}

impl Values {
    pub(in crate::reader) fn text(&self, row: usize) -> &[u8] {
        match self {
            Self::Texts(texts) => texts.get(row).map_or(&[], ByteArray::data),
            _ => &[],
        }
    }

    pub(in crate::reader) fn texts(&self) -> &[ByteArray] {
        match self {
            Self::Texts(texts) => texts,
            _ => &[],
        }
    }

    pub(in crate::reader) fn number(&self, row: usize) -> i64 {
        match self {
            Self::Numbers(numbers) => numbers.get(row).copied().unwrap_or_default(),
            _ => 0,
        }
    }

    pub(in crate::reader) fn maybe(&self, row: usize) -> Option<i64> {
        match self {
            Self::Maybe(numbers) => numbers.get(row).copied().flatten(),
            _ => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
            Self::Maybe(numbers) => numbers.len(),
        }
    }
}

/// Reads some columns for each of the given rows, in their order. The bytes are cached afterwards,
/// except those of many events: these are read last, and once, and would displace everything that
/// led to them.
pub(in crate::reader) async fn read<const N: usize>(
    fetch: &Fetch,
    wants: Vec<Want>,
    leaves: [Leaf; N],
) -> Result<Vec<[Values; N]>, Fault> {
    as_many(read_each(fetch, wants, &leaves).await?)
}

/// Reads columns without caching their bytes, as what is made of them is cached instead.
pub(in crate::reader) async fn read_once<const N: usize>(
    fetch: &Fetch,
    wants: Vec<Want>,
    leaves: [Leaf; N],
) -> Result<Vec<[Values; N]>, Fault> {
    as_many(read_chunks(fetch, wants, &leaves, false).await?)
}

/// Reads any number of columns; otherwise like [`read`].
pub(in crate::reader) async fn read_each(
    fetch: &Fetch,
    wants: Vec<Want>,
    leaves: &[Leaf],
) -> Result<Vec<Vec<Values>>, Fault> {
    read_chunks(fetch, wants, leaves, true).await
}

fn as_many<const N: usize>(read: Vec<Vec<Values>>) -> Result<Vec<[Values; N]>, Fault> {
    let read = read.into_iter().map(|values| {
        let values = <[Values; N]>::try_from(values);
        values.map_err(|_| Fault::Unknown("other columns were asked for"))
    });
    read.collect()
}

/// Wanted rows, and where the pages are that have them.
type Ranged = (Want, Vec<Range<u64>>);

async fn read_chunks(
    fetch: &Fetch,
    wants: Vec<Want>,
    leaves: &[Leaf],
    is_held: bool,
) -> Result<Vec<Vec<Values>>, Fault> {
    let ranged = wants.into_iter().map(|want| {
        let ranges = leaves.iter().flat_map(|leaf| ranges_of(&want, *leaf));
        let ranges: Vec<_> = ranges.collect();
        (want, ranges)
    });
    let ranged: Vec<Ranged> = ranged.collect();
    let bytes: u64 = ranged.iter().map(bytes_of).sum();
    let is_many = bytes > fetch.shared.events_held_max && leaves.contains(&leaf::OBJECT);
    let is_held = is_held && !is_many;
    let read = chunks(ranged).into_iter();
    let read = read.map(|chunk| read_chunk(fetch, chunk, leaves, is_held).boxed());
    let read: Vec<_> = read.collect();
    let read = stream::iter(read).buffered(CHUNKS_OF_READ);
    let read: Vec<_> = read.try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

fn bytes_of((_, ranges): &Ranged) -> u64 {
    ranges.iter().map(|it| it.end - it.start).sum()
}

/// Splits the work into chunks; each ends with the item that reaches [`CHUNK_BYTES`].
fn chunks(ranged: Vec<Ranged>) -> Vec<Vec<Ranged>> {
    let mut chunks = Vec::new();
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for want in ranged {
        bytes += bytes_of(&want);
        chunk.push(want);
        if bytes >= CHUNK_BYTES {
            chunks.push(std::mem::take(&mut chunk));
            bytes = 0;
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

async fn read_chunk(
    fetch: &Fetch,
    chunk: Vec<Ranged>,
    leaves: &[Leaf],
    is_held: bool,
) -> Result<Vec<Vec<Values>>, Fault> {
    let shared = &fetch.shared;
    // The semaphore is never closed.
    let of_chunk = Arc::clone(&shared.chunks).acquire_owned().await.ok();
    let read = chunk.into_iter().map(|(want, ranges)| async move {
        let bytes = fetch.ranges_held(&want.file, &ranges, is_held).await?;
        let pieces = ranges.into_iter().map(|range| range.start).zip(bytes);
        let pieces = Pieces::new(pieces.collect(), want.file.len);
        Ok::<_, Fault>((want, Arc::new(pieces)))
    });
    let read = try_join_all(read).await?;
    let path = read.first().map(|(want, _)| want.file.path.clone());
    let path = path.unwrap_or_default();
    // The semaphore is never closed.
    let of_decode = Arc::clone(&shared.decodes).acquire_owned().await.ok();
    let leaves = leaves.to_vec();
    let decoded = spawn_blocking(move || {
        let decoded = read.iter().map(|(want, pieces)| {
            let path = &want.file.path;
            let values = leaves.iter().map(|leaf| {
                let decoded = decode(want, pieces, *leaf);
                decoded.map_err(|error| Fault::parquet(path, &error))
            });
            values.collect::<Result<Vec<_>, Fault>>()
        });
        let decoded = decoded.collect::<Result<Vec<_>, Fault>>();
        // The permits are held until here, even if the read was given up meanwhile.
        drop((of_chunk, of_decode));
        decoded
    });
    decoded.await.unwrap_or_else(|_| {
        Err(Fault::damaged(
            &path,
            "it, or another file, cannot be decoded",
        ))
    })
}

/// Fetches the bytes of a column ahead, so that they are cached when its values are read. It does
/// nothing if they exceed the maximum of one request.
pub(in crate::reader) async fn ask_ahead(
    fetch: &Fetch,
    wants: &[Want],
    leaf: Leaf,
) -> Result<(), Fault> {
    let ranges: Vec<_> = wants.iter().map(|want| ranges_of(want, leaf)).collect();
    let bytes = ranges.iter().flatten().map(|range| range.end - range.start);
    if bytes.sum::<u64>() > REQUEST_BYTES_MAX {
        return Ok(());
    }
    let asked = wants.iter().zip(&ranges);
    let asked = asked.map(|(want, ranges)| fetch.ranges(&want.file, ranges));
    try_join_all(asked).await.map(drop)
}

/// Returns whether a column may have one of these values, by its bloom filter if it has one.
pub(in crate::reader) fn may_have(
    path: &Path,
    filter: Option<&Bytes>,
    values: &[&str],
) -> Result<bool, Fault> {
    let filter = Filter::new(path, filter)?;
    Ok(values.iter().any(|value| filter.may_have(value)))
}

/// A column's bloom filter; without one, any value may be there.
pub(in crate::reader) struct Filter(Option<filter::Filter>);

impl Filter {
    pub(in crate::reader) fn new(path: &Path, bytes: Option<&Bytes>) -> Result<Self, Fault> {
        let filter = bytes.map(|bytes| filter::Filter::of(bytes));
        let filter = filter.transpose();
        filter
            .map(Self)
            .map_err(|error| Fault::parquet(path, &error))
    }

    pub(in crate::reader) fn may_have(&self, value: &str) -> bool {
        self.0.as_ref().is_none_or(|filter| filter.may_have(value))
    }
}

/// Returns where the dictionary is, and the pages with the wanted rows.
fn ranges_of(want: &Want, leaf: Leaf) -> Vec<Range<u64>> {
    let pages = want.footer.pages(want.group, leaf);
    let column = want.footer.meta.row_group(want.group).column(leaf.0);
    let (from, _) = column.byte_range();
    let first = pages.first().map_or(0, |page| page.offset.cast_unsigned());
    let mut ranges = Vec::new();
    if first > from {
        ranges.push(from..first);
    }
    let ends = pages.iter().skip(1).map(first_row);
    let ends = ends.chain([want.footer.groups[want.group].rows]);
    let mut rows = want.rows.iter().peekable();
    for (page, end) in pages.iter().zip(ends) {
        while rows.next_if(|rows| rows.end <= first_row(page)).is_some() {}
        if rows.peek().is_some_and(|rows| rows.start < end) {
            let from = page.offset.cast_unsigned();
            ranges.push(from..from + u64::from(page.compressed_page_size.cast_unsigned()));
        }
    }
    ranges
}

fn first_row(page: &PageLocation) -> usize {
    usize::try_from(page.first_row_index).unwrap_or(usize::MAX)
}

fn decode(want: &Want, pieces: &Arc<Pieces>, leaf: Leaf) -> Result<Values, ParquetError> {
    let values = match leaf {
        leaf::OBSERVED | leaf::EPOCH | leaf::VERSION => {
            Values::Numbers(values::<Int64Type>(want, pieces, leaf, |_| {})?.0)
        }
        leaf::LAST_SEEN => {
            let (values, defined) = values::<Int64Type>(want, pieces, leaf, |_| {})?;
            let mut values = values.into_iter();
            let all = defined.into_iter().map(|defined| match defined {
                0 => None,
                _ => values.next(),
            });
            Values::Maybe(all.collect())
        }
        _ => Values::Texts(values::<ByteArrayType>(want, pieces, leaf, owned)?.0),
    };
    if values.len() != want.rows.iter().map(ExactSizeIterator::len).sum::<usize>() {
        return Err(ParquetError::General("rows are missing".into()));
    }
    Ok(values)
}

/// Copies a text, so that it does not keep its page in memory.
fn owned(text: &mut ByteArray) {
    *text = Bytes::copy_from_slice(text.data()).into();
}

/// Returns the values that are present, and for each row of an optional column whether it has one.
fn values<T: DataType>(
    want: &Want,
    pieces: &Arc<Pieces>,
    leaf: Leaf,
    own: fn(&mut T::T),
) -> Result<Read<T>, ParquetError> {
    let group = want.footer.meta.row_groups().get(want.group);
    let missing = || ParquetError::General("it has fewer rows than it says".into());
    let group = group.ok_or_else(missing)?;
    let pages = want.footer.pages(want.group, leaf);
    let mut column = ChunkValues::<T>::new(pieces, group, leaf.0, Some(pages))?;
    let mut read = Read::<T>::default();
    let mut at = 0;
    for rows in &want.rows {
        column.skip(rows.start - at)?;
        let before = read.0.len();
        if column.read(rows.len(), &mut read)? != rows.len() {
            return Err(missing());
        }
        if rows.len() <= FEW {
            read.0.iter_mut().skip(before).for_each(own);
        }
        at = rows.end;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use k8s_pb::api::core::v1::Event;
    use object_store::memory::InMemory;
    use tidings_store::UnixMillis;
    use tokio::runtime::Builder;

    use super::super::fetch::Shared;
    use super::*;
    use crate::file::write::Writer;
    use crate::row::Row;

    /// Wants the only version in a file that is in memory.
    fn want() -> Want {
        let row = Row::new(
            &"prod".into(),
            0,
            7,
            UnixMillis(1),
            tidings_api::codec::encode_stored(&mut Event::default()),
        )
        .unwrap();
        let mut writer = Writer::new(false).unwrap();
        writer.push(row).unwrap();
        let bytes = Bytes::from(writer.finish().unwrap());
        let len = bytes.len() as u64;
        Want {
            footer: Arc::new(Footer::of(&bytes, len, 1).unwrap()),
            file: Remote {
                path: Path::from("file"),
                len,
                checksum: String::new(),
                id: 1,
                held: Some(bytes),
            },
            group: 0,
            rows: std::iter::once(0..1).collect(),
        }
    }

    /// Until the thread has decoded the read, its bytes stay in memory.
    #[test]
    fn a_read_that_is_given_up_keeps_its_places_until_it_is_decoded() {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let fetch = Fetch {
                shared: Arc::new(Shared::new(Arc::new(InMemory::new()), 1 << 20, 1)),
                counters: Arc::default(),
            };
            let free = || {
                let both = [&fetch.shared.chunks, &fetch.shared.decodes];
                both.map(|places| places.available_permits())
            };
            let [chunks, decodes] = free();
            // The only decoding thread is kept busy.
            let (release, released) = mpsc::channel::<()>();
            let busy = spawn_blocking(move || released.recv());
            let given_up = read_each(&fetch, vec![want()], &[leaf::VERSION]).now_or_never();
            assert!(given_up.is_none(), "it waits for the thread");
            assert_eq!(free(), [chunks - 1, decodes - 1]);
            drop(release);
            assert!(busy.await.unwrap().is_err());
            // Runs after the thread's earlier work.
            spawn_blocking(|| {}).await.unwrap();
            assert_eq!(free(), [chunks, decodes]);
            let read = read_each(&fetch, vec![want()], &[leaf::VERSION]).await;
            assert_eq!(read.unwrap()[0][0].number(0), 7);
        });
    }
}
