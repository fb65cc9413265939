//! What the store's handle, its watchers and its committer share, and the reads that any of them does.

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
    At, Change, Fault, ListRequest, Page, ReadError, Revision, Stats, WatchError, WriteError,
};

/// See the module documentation.
pub(crate) struct Shared {
    pub(crate) options: EmbeddedOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) path: PathBuf,
    pub(crate) codec: Arc<Codec>,
    pub(crate) queue: Queue<Request>,
    pub(crate) changes: Arc<Changes>,
    /// `None` once it is closed. Readers hold the lock while they read; the committer takes it for
    /// itself to close the engine.
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

    /// Whether creates and updates may be done. An unreadable answer is no reason to refuse them.
    pub(crate) fn has_space(&self) -> bool {
        rustix::fs::statvfs(&self.path).map_or(true, |disk| {
            disk.f_bavail.saturating_mul(disk.f_frsize) >= self.options.free_space_min
        })
    }

    pub(crate) fn list(&self, request: &ListRequest) -> Result<Page, ReadError> {
        let now = self.clock.now();
        let read = self.read(|view| view.list(request, now));
        match (request.at, read) {
            // It may have been forgotten while being read.
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

    pub(crate) fn stats(&self) -> Result<Stats, ReadError> {
        let now = self.clock.now();
        let (state, disk_bytes, lag) = self.read(|view| {
            let disk_bytes = view.engine.disk_bytes();
            Ok::<_, ReadError>((view.state.clone(), disk_bytes, view.expiry_lag(now)?))
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
        // It may have been forgotten while being read.
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
