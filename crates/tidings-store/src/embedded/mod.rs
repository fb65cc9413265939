//! A store in a local folder.
//!
//! ```text
//!   writes ──▶ queue ──▶ committer ──▶ log: a frame per commit, synced        segments, by bucket
//!                            └───────▶ index: names, objects, last seen       lsm-tree, flushed by the flusher
//!   reads ───▶ View: a snapshot of the index, versions from the history in memory or the log
//! ```
//!
//! Writes go through a bounded queue to the committer, which owns the revision. Only the log is
//! synced before a write is acknowledged; the index follows from it. Records are in time buckets,
//! which are dropped whole. Reads take a snapshot and do not wait for writers. The snapshot of a
//! list is held for its next pages. `docs/storage-format.md` describes the bytes on disk.
//!
//! Its rooms, each of which uses those below it:
//!
//! | room | contents |
//! |---|---|
//! | `commit` | the committer: queue, decisions, expiry, answers |
//! | `maintenance`, `read` | flushing, merging, rewriting, training; and views of one commit |
//! | `engine` | the open store: buckets, published state, snapshots, checkpoint, replay |
//! | `index`, `log` | trees and memtables; and segments of frames. Neither knows the other |
//! | `codec` | bytes that both have: versions, state, compression |
//! | `files` | the folder, its small files, every change of a file |
//!
//! One process at a time may have the folder open. Point reads, and lists of one object's few
//! records if the system has these in memory, run in the calling task, because they take
//! microseconds. Other lists run on tokio's blocking threads, so a tokio runtime is needed.

mod codec;
mod commit;
mod engine;
mod error;
mod files;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod log;
mod maintenance;
mod options;
mod read;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::changes::{Bounds, Changes};
use crate::clock::Reading;
use crate::confirmed::Confirmed;
use crate::limits::check_size;
use crate::{
    BoxFuture, Counts, CountsRequest, Deleted, Expected, Fault, ListRequest, NewRecord,
    NewestRequest, Page, ReadError, Record, Revision, Stats, Store, UnixMillis, WRITES_MAX, Watch,
    WatchError, Write, WriteError,
};
use codec::{Codec, dictionaries};
use commit::{Committer, Queue, Request, Shared};
use engine::{Engine, Held, Limits, Published};
use files::{Folder, confirmed_time};
use index::Sizes;
use maintenance::{Flusher, Trainer};

pub use error::OpenError;
pub use options::EmbeddedOptions;

/// Maximum writes of one commit that are prepared in the calling task. Compressing a record,
/// looking up its key and reading the replaced record take some dozen microseconds.
const READY_AT_ONCE_MAX: usize = 8;

/// See the [module documentation](self).
///
/// ```
/// use tidings_store::{NewRecord, Store, embedded::EmbeddedStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let store = EmbeddedStore::open(folder, Default::default())?;
/// let revision = store.create("default/web.1".into(), NewRecord::new("first")).await?;
/// store.close().await;
///
/// let store = EmbeddedStore::open(folder, Default::default())?;
/// assert_eq!(store.get("default/web.1".into()).await?.map(|record| record.revision), Some(revision));
/// # Ok(())
/// # }
/// ```
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

impl EmbeddedStore {
    /// Opens the store in a folder; creates the folder unless it exists.
    ///
    /// If a crash tore the log's last commit, the log is truncated to the last complete one. The
    /// torn commit was never acknowledged. Its bytes are kept in the folder `torn`, which is
    /// logged. A missing or damaged index is rebuilt from the log.
    ///
    /// The store's threads log within the [span](tracing::Span::current) in which it is opened.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(folder: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let folder = Folder::open(folder.as_ref())?;
        let codec = Codec::new(dictionaries::load(folder.path())?);
        let codec = Arc::new(codec.sampling(options.sample_bytes));
        if !options.learn_to_compress {
            codec.sample.close();
        }
        let sizes = Sizes {
            files: options.log_files_max,
            cache: options.cache_bytes,
            memtable: options.index_memory_bytes,
            // Offsets in a segment have 32 bits.
            segment: options.segment_bytes.min(1 << 30),
        };
        let mut engine = Engine::open(folder.path(), sizes, &codec)?;
        engine.held = Held::new(Limits::of(&options));
        let engine = Arc::new(engine);
        let Published { state, number, .. } = engine.published();
        let now = Reading::of(&*options.clock);
        let belief = confirmed_time::read(folder.path());
        let confirmed = match number {
            0 => Confirmed::begin(now),
            _ => Confirmed::resume(belief, now),
        };
        let bounds = Bounds {
            changes: usize::MAX,
            bytes: options.history_memory_bytes,
        };
        let shared = Arc::new(Shared {
            clock: Arc::clone(&options.clock),
            path: folder.path().to_owned(),
            options,
            codec,
            queue: Queue::new(),
            changes: Arc::new(Changes::new(state.revision, bounds)),
            engine: RwLock::new(Some(engine)),
            expired: AtomicU64::new(0),
            confirmed: Mutex::new(confirmed),
            ended: watch::Sender::new(false),
            folder: Mutex::new(Some(folder)),
        });
        let no_thread = |error| OpenError::Thread(Arc::new(error));
        let flusher = Flusher::start().map_err(no_thread)?;
        let trainer = Trainer::start(&shared.codec, &shared.path).map_err(no_thread)?;
        let mut committer =
            Committer::new(Arc::clone(&shared), (state, number), (flusher, trainer));
        committer.have_newest(belief.is_some());
        let span = tracing::Span::current();
        std::thread::Builder::new()
            .name("tidings-store".into())
            .spawn(move || span.in_scope(|| committer.run()))
            .map_err(no_thread)?;
        Ok(Self { shared })
    }

    /// Does several writes in one commit: all or none, even across a crash. Returns the revision of
    /// each write. All preconditions refer to the state before the commit.
    ///
    /// # Errors
    ///
    /// The error of the first write that cannot be done, as of [`Store::create`], [`Store::update`]
    /// and [`Store::delete`]; [`WriteError::RepeatedKey`] if two have the same key;
    /// [`WriteError::TooMany`] if there are more than [`WRITES_MAX`]; [`WriteError::TooLarge`] also
    /// if their records take more than [`COMMIT_LEN_MAX`](crate::COMMIT_LEN_MAX) bytes together.
    ///
    /// ```
    /// use tidings_store::{Expected, NewRecord, Store, Write, embedded::EmbeddedStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let store = EmbeddedStore::open(folder.path(), Default::default())?;
    /// let position = || Write::put("position", NewRecord::new("17"));
    /// let event = |name: &'static str| Write::put(name, NewRecord::new("…"));
    /// store.write_all(vec![event("a"), event("b"), position()]).await?;
    ///
    /// // The second exists already, so none is done.
    /// let again = vec![event("c"), event("b").expecting(Expected::Absent), position()];
    /// assert!(store.write_all(again).await.is_err());
    /// assert_eq!(store.get("c".into()).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Revision>, WriteError> {
        if writes.len() > WRITES_MAX {
            return Err(WriteError::TooMany {
                len: writes.len(),
                max: WRITES_MAX,
            });
        }
        let shared = Arc::clone(&self.shared);
        let (bytes, ready) = if writes.len() <= READY_AT_ONCE_MAX {
            shared.ready_all(writes)?
        } else {
            let ready = tokio::task::spawn_blocking(move || shared.ready_all(writes));
            let ready = ready.await;
            ready.map_err(|error| Fault::Storage(Arc::new(error)))??
        };
        self.shared
            .submit(bytes, |reply| Request::Many(ready, reply))
            .await
    }

    /// The confirmed time: the time up to which the store believes its clock.
    ///
    /// The store writes expiries by it, and callers may use it for other steps that cannot be
    /// undone. It equals the clock's time while nobody sets the clock, and is never ahead of it. It
    /// is behind until a clock that was set ahead has stayed ahead for long enough (see [the rules
    /// of expiry](crate#expiry-and-the-clock)). Before any clock was believed it is the earliest
    /// time that exists.
    pub fn confirmed(&self) -> UnixMillis {
        let now = Reading::of(&*self.shared.clock);
        self.shared.confirmed().at(now)
    }

    /// Reads a page like [`Store::list`], together with the records that are hidden only because
    /// the clock is ahead of the [confirmed time](Self::confirmed): those whose expiry may never be
    /// written.
    ///
    /// # Errors
    ///
    /// Those of [`Store::list`].
    pub async fn list_confirmed(&self, request: ListRequest) -> Result<Page, ReadError> {
        let now = self.confirmed();
        blocking(&self.shared, move |shared| shared.list_as_of(&request, now)).await
    }

    /// Sets an upper bound of the confirmed time, from knowledge of other clocks. The bound
    /// advances with monotonic time. No expiry after it is written, so no record is lost to a clock
    /// that is ahead. `None` removes the bound. A new process begins without one.
    pub fn believe_until(&self, time: Option<UnixMillis>) {
        let now = Reading::of(&*self.shared.clock);
        self.shared.confirmed().bound(time, now);
    }

    /// Free bytes on the disk, and the free bytes below which writes are refused. The first is
    /// `None` if it cannot be read. The second is
    /// [`free_space_min`](EmbeddedOptions::free_space_min): below it, creates and updates fail with
    /// [`Fault::NoSpace`].
    pub fn free_space(&self) -> (Option<u64>, u64) {
        let min = self.shared.options.free_space_min;
        (self.shared.free_space(), min)
    }

    async fn put(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Expected,
    ) -> Result<Revision, WriteError> {
        let put = self.shared.ready(key, record, expected)?;
        self.shared
            .submit(put.bytes(), |reply| Request::Put(put, reply))
            .await
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

/// Runs a read that may take long on a blocking thread.
async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    read: impl FnOnce(&Shared) -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let shared = Arc::clone(shared);
    let task = tokio::task::spawn_blocking(move || read(&shared));
    task.await
        .map_err(|error| Fault::Storage(Arc::new(error)))?
}

impl Store for EmbeddedStore {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(self.put(key, record, Expected::Absent))
    }

    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(self.put(key, record, Expected::At(expected)))
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        Box::pin(async move {
            check_size(&key, None)?;
            self.shared
                .submit(0, |reply| Request::Delete {
                    key,
                    expected,
                    reply,
                })
                .await
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            if key.is_empty() {
                return Ok(None);
            }
            let now = self.shared.clock.now();
            self.shared.read(|view| Ok(view.live(&key, now)?))
        })
    }

    fn revision(&self) -> Revision {
        self.shared.changes.latest()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let shared = &self.shared;
            if let Ok(Some(page)) = shared.list_at_once(&request) {
                return Ok(page);
            }
            // The complete read meets an error again, and has the time for it.
            let read = blocking(shared, move |shared| shared.list(&request));
            read.await
        })
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(blocking(&self.shared, move |shared| {
            shared.newest(&request)
        }))
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        Box::pin(blocking(&self.shared, move |shared| {
            shared.read(|view| Ok(read::counts(view, &request)?))
        }))
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move {
            let published = self.shared.changes.latest();
            if after > published {
                // A list may have seen a commit that is on disk but not published yet.
                let current = self
                    .shared
                    .read(|view| Ok::<_, ReadError>(view.state.revision))
                    .unwrap_or(published);
                if after > current {
                    return Err(WatchError::Future {
                        requested: after,
                        current,
                    });
                }
            }
            let older: Arc<Shared> = Arc::clone(&self.shared);
            self.shared.changes.watch(prefix, after, older)
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(
            self.shared
                .submit(0, move |reply| Request::Compact { revision, reply }),
        )
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        Box::pin(self.shared.submit(0, |reply| Request::Expire { reply }))
    }

    fn identity(&self, new: String) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let task = tokio::task::spawn_blocking(move || shared.identity(&new));
            let identity = task.await;
            identity
                .map_err(|error| Fault::Storage(Arc::new(error)))?
                .map(Some)
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(blocking(&self.shared, Shared::stats))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.queue.close();
            // `self` owns the sender, so the wait ends only when the committer has ended.
            drop(self.shared.ended.subscribe().wait_for(|ended| *ended).await);
        })
    }
}
