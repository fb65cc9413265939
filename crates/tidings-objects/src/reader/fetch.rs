//! Ranges of the bytes of files, by requests that are bounded in number and time, and kept in a
//! cache of bounded size.
//!
//! Invariant: the bytes are those of a file as long as the manifest says; a file of any other
//! length is damaged.

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

use super::fault::Fault;
use super::footer::Footer;
use super::rolled::Rolled;
use super::runs::Runs;

/// How long a request may take, with what the client tries again within it.
const REQUEST_MAX: Duration = Duration::from_secs(20);
/// Maximum requests at once.
const REQUESTS_AT_ONCE: usize = 32;
/// Maximum reads at once, each of which may need many requests.
const READS_AT_ONCE: usize = 8;
/// Maximum threads that decode columns.
const DECODES_AT_ONCE: usize = 4;
/// Maximum chunks of columns that are asked for and decoded at once, by all reads together.
const CHUNKS_AT_ONCE: usize = 12;
/// Of the cache, the part that events may take which one read asks for: one in this number.
const EVENTS_SHARE: u64 = 4;
/// Ranges with less between them are read together: that costs less time than another request.
const GAP_MAX: u64 = 128 << 10;
/// Ranges are not read together beyond this.
pub(super) const REQUEST_BYTES_MAX: u64 = 4 << 20;
/// A file of at most this length is read as a whole, and compared with its checksum.
const WHOLE_MAX: u64 = 256 << 10;
/// Bytes that an entry of the cache takes beside what it holds.
const ENTRY_BYTES: u64 = 100;

/// What is known of a file.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) path: Path,
    pub(super) len: u64,
    /// Of its bytes, as the manifest has it.
    pub(super) checksum: String,
    /// Of its path: stands for it in the cache.
    pub(super) id: u128,
    /// Its bytes, if it is no file of the storage.
    pub(super) held: Option<Bytes>,
}

/// What the cache holds, by files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A range of bytes, by its beginning.
    Bytes(u128, u64),
    Footer(u128),
    /// Of a row group.
    Runs(u128, usize),
    Rolled(u128),
}

#[derive(Clone)]
pub(super) enum Held {
    Bytes(Bytes),
    Footer(Arc<Footer>),
    Runs(Arc<Runs>),
    /// `None` if there is none that can be read.
    Rolled(Option<Arc<Rolled>>),
}

#[derive(Clone, Debug)]
pub(super) struct Weigh;

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

/// What was asked of the storage since the start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// What all clusters of an archive share: the cache and the places for requests.
pub(super) struct Shared {
    store: Arc<dyn ObjectStore>,
    pub(super) cache: Cache<Key, Held, Weigh>,
    /// Row groups after which a page of the newest events ends.
    pub(super) page_row_groups: usize,
    places: Semaphore,
    /// Of reads, each of which has a bounded number of rows in memory.
    pub(super) reads: Semaphore,
    /// Of threads that decode columns.
    pub(super) decodes: Arc<Semaphore>,
    /// Of chunks of columns, whose bytes are in memory.
    pub(super) chunks: Arc<Semaphore>,
    /// Maximum bytes of events that one read asks for, beyond which the cache does not hold them.
    pub(super) events_held_max: u64,
}

impl Shared {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        cache_bytes: u64,
        page_row_groups: usize,
    ) -> Self {
        // About as many entries as there are pages of a usual size.
        let entries = usize::try_from(cache_bytes / (16 << 10)).unwrap_or(usize::MAX);
        Self {
            store,
            cache: cache(entries.max(16), cache_bytes),
            page_row_groups,
            places: Semaphore::new(REQUESTS_AT_ONCE),
            reads: Semaphore::new(READS_AT_ONCE),
            decodes: Arc::new(Semaphore::new(DECODES_AT_ONCE)),
            chunks: Arc::new(Semaphore::new(CHUNKS_AT_ONCE)),
            events_held_max: cache_bytes / EVENTS_SHARE,
        }
    }
}

/// A cache of about this number of entries. Half of it is for what was read once: one question may
/// look at what it read again.
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

/// See the module documentation.
#[derive(Clone)]
pub(super) struct Fetch {
    pub(super) shared: Arc<Shared>,
    /// Of the cluster.
    pub(super) counters: Arc<Counters>,
}

impl Fetch {
    /// Ranges of a file, in their order, which are held afterwards.
    pub(super) async fn ranges(
        &self,
        file: &Remote,
        wanted: &[Range<u64>],
    ) -> Result<Vec<Bytes>, Fault> {
        self.ranges_held(file, wanted, true).await
    }

    /// The same; if they are not to be held, only what is held already is not asked for.
    pub(super) async fn ranges_held(
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
                    // A copy, so that what is held is not all that was read.
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

    /// A small file.
    async fn whole(&self, file: &Remote) -> Result<Bytes, Fault> {
        let key = Key::Bytes(file.id, 0);
        if let Some(Held::Bytes(bytes)) = self.held(key) {
            return Ok(bytes);
        }
        let bytes = self.compared(file).await?;
        self.hold(key, Held::Bytes(bytes.clone()));
        Ok(bytes)
    }

    /// A file as a whole, compared with its checksum, which is not held afterwards.
    pub(super) async fn compared(&self, file: &Remote) -> Result<Bytes, Fault> {
        let bytes = self.request(file, 0..file.len).await?;
        if format!("{:016x}", xxh3_64(&bytes)) != file.checksum {
            let why = "its bytes are not those that were written";
            return Err(Fault::damaged(&file.path, why));
        }
        Ok(bytes)
    }

    /// One range, which is not held afterwards.
    async fn request(&self, file: &Remote, range: Range<u64>) -> Result<Bytes, Fault> {
        if range.start >= range.end || range.end > file.len {
            return Err(Fault::damaged(
                &file.path,
                "it names bytes that it does not have",
            ));
        }
        // It is not closed.
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

    pub(super) fn held(&self, key: Key) -> Option<Held> {
        self.shared.cache.get(&key)
    }

    pub(super) fn hold(&self, key: Key, held: Held) {
        self.shared.cache.insert(key, held);
    }
}

/// A range of what begins somewhere.
fn part(whole: &Bytes, range: &Range<u64>, begins: u64) -> Option<Bytes> {
    let at = |place: u64| usize::try_from(place.checked_sub(begins)?).ok();
    let range = at(range.start)?..at(range.end)?;
    let is_there = range.start <= range.end && range.end <= whole.len();
    is_there.then(|| whole.slice(range))
}

/// Ranges that are read by one request each, so that every wanted one is in one of them.
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
