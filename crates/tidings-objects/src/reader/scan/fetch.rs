//! Fetches ranges of files' bytes from object storage, through a cache of bounded size.
//!
//! Requests are bounded in number and time.
//!
//! Invariant: the returned bytes belong to a file of the length that the manifest states; a file of
//! any other length is damaged.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::try_join_all;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_64;

use super::footer::Footer;
use super::rollup::Rolled;
use super::runs::Runs;
use crate::reader::fault::Fault;

/// Maximum time of a request, with the client's retries.
const REQUEST_MAX: Duration = Duration::from_secs(20);
/// Maximum requests at once.
const REQUESTS_AT_ONCE: usize = 32;
/// Maximum reads at once; each may need many requests.
const READS_AT_ONCE: usize = 8;
/// Maximum threads that decode columns.
const DECODES_AT_ONCE: usize = 4;
/// Maximum chunks of columns in progress, fetched or decoded, of all reads together.
const CHUNKS_AT_ONCE: usize = 12;
/// Maximum long ends of files in memory, of all reads together. Writers' ends are short, but
/// whoever may write to the storage can make longer ones, up to the maximum of an end.
const LONG_ENDS_AT_ONCE: usize = 2;
/// The part of the cache that events of one read may take: one in this number. If a read asks for
/// more, its events are not cached.
const EVENTS_SHARE: u64 = 4;
/// Ranges with at most this gap are fetched together: that takes less time than another request.
const GAP_MAX: u64 = 128 << 10;
/// Maximum bytes of one request for several ranges.
pub(in crate::reader) const REQUEST_BYTES_MAX: u64 = 4 << 20;
/// A file of at most this length is fetched whole, and compared with its checksum.
const WHOLE_MAX: u64 = 256 << 10;
/// Bytes that an entry of the cache takes beside its content.
const ENTRY_BYTES: u64 = 100;

/// What a reader knows of a file on object storage.
#[derive(Clone, Debug)]
pub(in crate::reader) struct Remote {
    pub(in crate::reader) path: Path,
    pub(in crate::reader) len: u64,
    /// The checksum of its bytes, as the manifest states it.
    pub(in crate::reader) checksum: String,
    /// The hash of its path, which stands for the file in the cache.
    pub(in crate::reader) id: u128,
    /// The bytes of a file that is in memory and not on object storage.
    pub(in crate::reader) held: Option<Bytes>,
}

/// The keys of the cache; each begins with a file's `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::reader) enum Key {
    /// A range of bytes, by its beginning.
    Bytes(u128, u64),
    Footer(u128),
    /// The objects of a row group, by its number.
    Runs(u128, usize),
    Rolled(u128),
}

#[derive(Clone)]
pub(in crate::reader) enum Held {
    Bytes(Bytes),
    Footer(Arc<Footer>),
    Runs(Arc<Runs>),
    /// The counts of a rollup; `None` if the file has none that can be read.
    Rolled(Option<Arc<Rolled>>),
}

#[derive(Clone, Debug)]
pub(in crate::reader) struct Weigh;

impl Weighter<Key, Held> for Weigh {
    fn weight(&self, _: &Key, held: &Held) -> u64 {
        let len = match held {
            Held::Bytes(bytes) => bytes.len(),
            Held::Footer(footer) => footer.memory(),
            Held::Runs(runs) => runs.memory(),
            Held::Rolled(rolled) => rolled.as_ref().map_or(0, |rolled| rolled.memory()),
        };
        len as u64 + ENTRY_BYTES
    }
}

/// Counts of requests to object storage since the start.
#[derive(Debug, Default)]
pub(in crate::reader) struct Counters {
    pub(in crate::reader) requests: AtomicU64,
    pub(in crate::reader) failed: AtomicU64,
    pub(in crate::reader) bytes: AtomicU64,
}

/// What all clusters of a reader share: the cache, and the permits for requests.
pub(in crate::reader) struct Shared {
    store: Arc<dyn ObjectStore>,
    pub(in crate::reader) cache: Cache<Key, Held, Weigh>,
    /// Number of row groups after which a page of the newest events ends.
    pub(in crate::reader) page_row_groups: usize,
    places: Semaphore,
    /// Permits for reads, each of which has a bounded number of rows in memory.
    pub(in crate::reader) reads: Semaphore,
    /// Permits for threads that decode columns.
    pub(in crate::reader) decodes: Arc<Semaphore>,
    /// Permits for chunks of columns, whose bytes are in memory.
    pub(in crate::reader) chunks: Arc<Semaphore>,
    /// Permits for ends of files that are longer than those of a writer.
    pub(in crate::reader) ends: Semaphore,
    /// Maximum bytes of events of one read; if it asks for more, the cache does not hold them.
    pub(in crate::reader) events_held_max: u64,
}

impl Shared {
    pub(in crate::reader) fn new(
        store: Arc<dyn ObjectStore>,
        cache_bytes: u64,
        page_row_groups: usize,
    ) -> Self {
        // About the number of pages of a usual size.
        let entries = usize::try_from(cache_bytes / (16 << 10)).unwrap_or(usize::MAX);
        Self {
            store,
            cache: cache(entries.max(16), cache_bytes),
            page_row_groups,
            places: Semaphore::new(REQUESTS_AT_ONCE),
            reads: Semaphore::new(READS_AT_ONCE),
            decodes: Arc::new(Semaphore::new(DECODES_AT_ONCE)),
            chunks: Arc::new(Semaphore::new(CHUNKS_AT_ONCE)),
            ends: Semaphore::new(LONG_ENDS_AT_ONCE),
            events_held_max: cache_bytes / EVENTS_SHARE,
        }
    }
}

/// Makes a cache for about `entries` entries. Half of it is for entries that were used once, as one
/// request may look again at what it fetched.
fn cache(entries: usize, bytes: u64) -> Cache<Key, Held, Weigh> {
    let options = OptionsBuilder::new()
        .shards(1)
        .hot_allocation(0.5)
        .estimated_items_capacity(entries)
        .weight_capacity(bytes)
        .build();
    match options {
        Ok(options) => Cache::with_options(
            options,
            Weigh,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ),
        Err(_) => Cache::with_weighter(entries, bytes, Weigh),
    }
}

/// Fetches ranges for one cluster; see the module documentation.
#[derive(Clone)]
pub(in crate::reader) struct Fetch {
    pub(in crate::reader) shared: Arc<Shared>,
    /// The counts of the cluster.
    pub(in crate::reader) counters: Arc<Counters>,
}

impl Fetch {
    /// Fetches ranges of a file, in the given order, and caches them.
    pub(in crate::reader) async fn ranges(
        &self,
        file: &Remote,
        wanted: &[Range<u64>],
    ) -> Result<Vec<Bytes>, Fault> {
        self.ranges_held(file, wanted, true).await
    }

    /// Fetches ranges of a file; `is_held` says whether to cache them. Ranges that are cached
    /// already are not fetched in either case.
    pub(in crate::reader) async fn ranges_held(
        &self,
        file: &Remote,
        wanted: &[Range<u64>],
        is_held: bool,
    ) -> Result<Vec<Bytes>, Fault> {
        let whole = match &file.held {
            Some(held) => Some(held.clone()),
            None if file.len <= WHOLE_MAX => Some(self.whole(file).await?),
            None => None,
        };
        if let Some(whole) = whole {
            let parts = wanted.iter().map(|range| part(&whole, range, 0));
            let parts: Option<Vec<_>> = parts.collect();
            return parts.ok_or_else(|| Fault::damaged(&file.path, "it ends too early"));
        }
        let held = |range: &Range<u64>| match self.held(Key::Bytes(file.id, range.start)) {
            Some(Held::Bytes(bytes)) if bytes.len() as u64 == range.end - range.start => {
                Some(bytes)
            }
            _ => None,
        };
        let mut found: Vec<Option<Bytes>> = wanted.iter().map(held).collect();
        let missing = wanted.iter().zip(&found);
        let missing = missing.filter(|(_, found)| found.is_none());
        let missing: Vec<_> = missing.map(|(range, _)| range.clone()).collect();
        let together = together(missing);
        let read = together
            .iter()
            .map(|range| self.request(file, range.clone()));
        let read = try_join_all(read).await?;
        for (range, found) in wanted.iter().zip(&mut found) {
            if found.is_some() {
                continue;
            }
            let behind = together.partition_point(|whole| whole.start <= range.start);
            let whole = behind.checked_sub(1);
            let whole = whole.and_then(|at| together.get(at).zip(read.get(at)));
            let Some((whole, bytes)) = whole else {
                continue;
            };
            if let Some(mut part) = part(bytes, range, whole.start) {
                if is_held {
                    // A copy, as a slice would keep everything in memory that was fetched with it.
                    part = Bytes::copy_from_slice(&part);
                    let key = Key::Bytes(file.id, range.start);
                    self.hold(key, Held::Bytes(part.clone()));
                }
                *found = Some(part);
            }
        }
        let found: Option<Vec<_>> = found.into_iter().collect();
        found.ok_or_else(|| Fault::damaged(&file.path, "it ends too early"))
    }

    /// Fetches a small file whole, through the cache.
    async fn whole(&self, file: &Remote) -> Result<Bytes, Fault> {
        let key = Key::Bytes(file.id, 0);
        if let Some(Held::Bytes(bytes)) = self.held(key) {
            return Ok(bytes);
        }
        let bytes = self.compared(file).await?;
        self.hold(key, Held::Bytes(bytes.clone()));
        Ok(bytes)
    }

    /// Fetches a whole file and compares its checksum, without caching it.
    pub(in crate::reader) async fn compared(&self, file: &Remote) -> Result<Bytes, Fault> {
        let bytes = self.request(file, 0..file.len).await?;
        if format!("{:016x}", xxh3_64(&bytes)) != file.checksum {
            let why = "its bytes are not those that were written";
            return Err(Fault::damaged(&file.path, why));
        }
        Ok(bytes)
    }

    /// Fetches one range, without caching it.
    async fn request(&self, file: &Remote, range: Range<u64>) -> Result<Bytes, Fault> {
        if range.start >= range.end || range.end > file.len {
            return Err(Fault::damaged(
                &file.path,
                "it names bytes that it does not have",
            ));
        }
        // The semaphore is never closed.
        let _place = self.shared.places.acquire().await.ok();
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let answer = tokio::time::timeout(REQUEST_MAX, self.read(file, &range)).await;
        let answer = answer.unwrap_or_else(|_| Err(Fault::slow(&file.path, REQUEST_MAX)));
        match &answer {
            Ok(bytes) => {
                let len = bytes.len() as u64;
                self.counters.bytes.fetch_add(len, Ordering::Relaxed);
            }
            Err(_) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        answer
    }

    async fn read(&self, file: &Remote, range: &Range<u64>) -> Result<Bytes, Fault> {
        let failed = |error: Error| Fault::store(&file.path, error);
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let got = self.shared.store.get_opts(&file.path, options).await;
        let got = got.map_err(failed)?;
        if got.meta.size != file.len {
            let why = format!(
                "it has {} bytes, its manifest says {}",
                got.meta.size, file.len
            );
            return Err(Fault::damaged(&file.path, why));
        }
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(len);
        let mut parts = got.into_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(failed)?;
            if bytes.len() + part.len() > len {
                return Err(Fault::damaged(&file.path, "the answer is too long"));
            }
            bytes.extend_from_slice(&part);
        }
        if bytes.len() < len {
            return Err(Fault::damaged(&file.path, "it ends too early"));
        }
        Ok(bytes.into())
    }

    pub(in crate::reader) fn held(&self, key: Key) -> Option<Held> {
        self.shared.cache.get(&key)
    }

    pub(in crate::reader) fn hold(&self, key: Key, held: Held) {
        self.shared.cache.insert(key, held);
    }
}

/// Returns a range of a file's bytes from a piece that begins at `begins`.
fn part(whole: &Bytes, range: &Range<u64>, begins: u64) -> Option<Bytes> {
    let at = |place: u64| usize::try_from(place.checked_sub(begins)?).ok();
    let range = at(range.start)?..at(range.end)?;
    let is_there = range.start <= range.end && range.end <= whole.len();
    is_there.then(|| whole.slice(range))
}

/// Joins ranges to those of single requests, so that each wanted range lies in one of them.
fn together(mut wanted: Vec<Range<u64>>) -> Vec<Range<u64>> {
    wanted.sort_by_key(|range| (range.start, range.end));
    let mut together: Vec<Range<u64>> = Vec::new();
    for range in wanted {
        match together.last_mut() {
            Some(last)
                if range.start <= last.end.saturating_add(GAP_MAX)
                    && (range.end <= last.end || range.end - last.start <= REQUEST_BYTES_MAX) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => together.push(range),
        }
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "one range is what is expected"
    )]
    fn ranges_that_lie_close_are_read_together() {
        let far = GAP_MAX + 1;
        for (wanted, expected) in [
            (vec![], vec![]),
            (vec![5..9, 0..4], vec![0..9]),
            (vec![0..10, 2..3], vec![0..10]),
            (vec![0..1, 1 + GAP_MAX..2 + GAP_MAX], vec![0..2 + GAP_MAX]),
            (vec![0..1, 1 + far..2 + far], vec![0..1, 1 + far..2 + far]),
            (
                vec![
                    0..REQUEST_BYTES_MAX,
                    REQUEST_BYTES_MAX..REQUEST_BYTES_MAX + 1,
                ],
                vec![
                    0..REQUEST_BYTES_MAX,
                    REQUEST_BYTES_MAX..REQUEST_BYTES_MAX + 1,
                ],
            ),
        ] {
            assert_eq!(together(wanted), expected);
        }
    }
}
