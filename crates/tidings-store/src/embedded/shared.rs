//! State shared by the store's handle, watchers and committer, and the reads that all of them use.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;

use super::codec::Codec;
use super::engine::Engine;
use super::folder::Folder;
use super::options::EmbeddedOptions;
use super::queue::Queue;
use super::read::View;
use super::reply::{self, Reply};
use super::request::Request;
use crate::changes::{Bounds, Changes, Older};
use crate::clock::Clock;
use crate::{
    At, Change, Fault, ListRequest, NewestRequest, Page, ReadError, Revision, Stats, WatchError,
    WriteError,
};

/// See the module documentation.
pub(crate) struct Shared {
    pub(crate) options: EmbeddedOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) path: PathBuf,
    pub(crate) codec: Arc<Codec>,
    pub(crate) queue: Queue<Request>,
    pub(crate) changes: Arc<Changes>,
    /// `None` once it is closed. Readers share the lock while they read; the committer locks it
    /// exclusively to close the engine.
    pub(crate) engine: RwLock<Option<Arc<Engine>>>,
    pub(crate) expired: AtomicU64,
    pub(crate) ended: watch::Sender<bool>,
    /// Held until the engine is closed.
    pub(crate) folder: Mutex<Option<Folder>>,
}

impl Shared {
    pub(crate) fn engine(&self) -> RwLockReadGuard<'_, Option<Arc<Engine>>> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read<T, E: From<Fault>>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match &*self.engine() {
            Some(engine) => read(&View::new(engine, &self.codec).with_recent(&self.changes)),
            None => Err(Fault::Closed.into()),
        }
    }

    pub(crate) async fn submit<T>(
        &self,
        bytes: usize,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, WriteError> {
        let (reply, answer) = Reply::new();
        self.queue.push(request(reply), bytes).await?;
        answer.await.unwrap_or_else(|_| Err(reply::unknown()))
    }

    /// Whether creates and updates are allowed. If the free space cannot be read, they are.
    pub(crate) fn has_space(&self) -> bool {
        rustix::fs::statvfs(&self.path).map_or(true, |disk| {
            disk.f_bavail.saturating_mul(disk.f_frsize) >= self.options.free_space_min
        })
    }

    /// Reads a page from the snapshot held for its revision, or from a new one, which is held if
    /// there are more pages.
    fn read_page<E: From<Fault>>(
        &self,
        at: At,
        read: impl FnOnce(&View<'_>) -> Result<Option<Page>, E>,
    ) -> Result<Option<Page>, E> {
        let engine = self.engine();
        let engine = engine.as_ref().ok_or(Fault::Closed)?;
        let steady = self.clock.steady();
        let held = match at {
            At::Exact(revision) if revision >= engine.published().state.compacted => {
                engine.held.get(revision, steady)
            }
            _ => None,
        };
        let moment = held.unwrap_or_else(|| engine.moment());
        let view = View::at(engine, &self.codec, moment.clone()).with_recent(&self.changes);
        let page = read(&view)?;
        let more = |page: &Page| page.more && page.revision == moment.state.revision;
        if page.as_ref().is_some_and(more) {
            engine.held.keep(&moment, steady);
        }
        Ok(page)
    }

    /// See [`View::list_at_once`].
    pub(crate) fn list_at_once(&self, request: &ListRequest) -> Result<Option<Page>, Fault> {
        let now = self.clock.now();
        self.read_page(request.at, |view| view.list_at_once(request, now))
    }

    pub(crate) fn list(&self, request: &ListRequest) -> Result<Page, ReadError> {
        let now = self.clock.now();
        let read = self.read_page(request.at, |view| view.list(request, now).map(Some));
        let read = read.map(Option::unwrap_or_default);
        match (request.at, read) {
            // It may have been forgotten during the read.
            (At::Exact(requested), Err(ReadError::Fault(fault))) => {
                let oldest = self.oldest()?;
                let forgotten = requested < oldest;
                Err(if forgotten {
                    ReadError::Compacted { requested, oldest }
                } else {
                    fault.into()
                })
            }
            (_, read) => read,
        }
    }

    pub(crate) fn newest(&self, request: &NewestRequest) -> Result<Page, ReadError> {
        let now = self.clock.now();
        let engine = self.engine();
        let engine = engine.as_ref().ok_or(Fault::Closed)?;
        let moment = engine.moment();
        let view = View::at(engine, &self.codec, moment.clone()).with_recent(&self.changes);
        let page = view.newest(request, now)?;
        if !page.behind.is_empty() {
            // They are read as of the same revision.
            engine.held.keep(&moment, self.clock.steady());
        }
        Ok(page)
    }

    pub(crate) fn stats(&self) -> Result<Stats, ReadError> {
        let now = self.clock.now();
        let (state, disk_bytes, lag, held) = self.read(|view| {
            let engine = view.engine;
            let held = (engine.held.len() as u64, engine.held.undone());
            Ok::<_, ReadError>((
                view.state.clone(),
                engine.disk_bytes(),
                view.expiry_lag(now)?,
                held,
            ))
        })?;
        Ok(Stats {
            records: state.records,
            value_bytes: state.value_bytes,
            disk_bytes,
            revision: state.revision,
            oldest_revision: state.compacted,
            expiry_lag_ms: lag,
            expired: self.expired.load(Ordering::Relaxed),
            watches: self.changes.watches(),
            list_snapshots: held.0,
            changes_undone: held.1,
        })
    }
}

impl Older for Shared {
    fn read(
        &self,
        after: Revision,
        limit: Bounds,
    ) -> Result<(Vec<Arc<Change>>, Revision), WatchError> {
        let compacted = |oldest: Revision| WatchError::Compacted { after, oldest };
        let read = self.read(|view| {
            if after < view.state.compacted {
                return Err(compacted(view.state.compacted));
            }
            Ok(view.changes(after, limit)?)
        });
        // It may have been forgotten during the read.
        let oldest = self.oldest()?;
        if after < oldest {
            Err(compacted(oldest))
        } else {
            read
        }
    }

    fn oldest(&self) -> Result<Revision, Fault> {
        self.read(|view| Ok(view.state.compacted))
    }
}
