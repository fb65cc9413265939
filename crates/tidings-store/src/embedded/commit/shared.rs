//! State shared by the store's handle, watchers and committer, and the reads that all of them use.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::queue::{PERMIT_BYTES, Queue};
use super::reply::{self, Reply};
use super::request::{One, Put, Request};
use crate::changes::{Bounds, Changes, Older};
use crate::clock::Clock;
use crate::confirmed::Confirmed;
use crate::embedded::codec::{Codec, version};
use crate::embedded::engine::Engine;
use crate::embedded::files::{Folder, identity};
use crate::embedded::index::io_fault;
use crate::embedded::index::keys::Fields;
use crate::embedded::options::EmbeddedOptions;
use crate::embedded::read::View;
use crate::limits::{check_commit, check_size};
use crate::{
    At, Change, Expected, Fault, ListRequest, NewRecord, NewestRequest, Page, ReadError, Revision,
    Stats, UnixMillis, WatchError, Write, WriteError,
};

/// The shared state of an embedded store; see the module documentation.
pub(in crate::embedded) struct Shared {
    pub(in crate::embedded) options: EmbeddedOptions,
    pub(in crate::embedded) clock: Arc<dyn Clock>,
    pub(in crate::embedded) path: PathBuf,
    pub(in crate::embedded) codec: Arc<Codec>,
    pub(in crate::embedded) queue: Queue<Request>,
    pub(in crate::embedded) changes: Arc<Changes>,
    /// The open store; `None` once it is closed. Readers share the lock while they read. The
    /// committer locks it exclusively to close the engine.
    pub(in crate::embedded) engine: RwLock<Option<Arc<Engine>>>,
    pub(in crate::embedded) expired: AtomicU64,
    /// The confirmed time, by which expiries are written.
    pub(in crate::embedded) confirmed: Mutex<Confirmed>,
    pub(in crate::embedded) ended: watch::Sender<bool>,
    /// The lock on the folder, held until the engine is closed.
    pub(in crate::embedded) folder: Mutex<Option<Folder>>,
}

impl Shared {
    pub(in crate::embedded) fn engine(&self) -> RwLockReadGuard<'_, Option<Arc<Engine>>> {
        self.engine.read()
    }

    /// Locks the confirmed time. Do not hold the lock while waiting for something.
    pub(in crate::embedded) fn confirmed(&self) -> MutexGuard<'_, Confirmed> {
        self.confirmed.lock()
    }

    pub(in crate::embedded) fn read<T, E: From<Fault>>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match &*self.engine() {
            Some(engine) => {
                read(&View::new(engine, &self.codec).with_recent(&self.changes, &*self.clock))
            }
            None => Err(Fault::Closed.into()),
        }
    }

    pub(in crate::embedded) async fn submit<T>(
        &self,
        bytes: usize,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, WriteError> {
        let (reply, answer) = Reply::new();
        self.queue.push(request(reply), bytes).await?;
        answer.await.unwrap_or_else(|_| Err(reply::unknown()))
    }

    /// Prepares a write, so that the one committer need not do this work. It compresses the record,
    /// looks up the key and reads the replaced record.
    pub(in crate::embedded) fn ready(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Expected,
    ) -> Result<Box<Put>, WriteError> {
        check_size(&key, Some(&record))?;
        let NewRecord {
            value,
            index,
            expires_at,
        } = record;
        let body = self.codec.pack(version::encode_body(&key, &index, &value));
        let (looked_up, found) = self.read(|view| {
            let looked_up = view.look_up(&key)?;
            let replaced = looked_up.pointer.filter(|_| expected != Expected::Absent);
            let found = replaced.map(|pointer| view.version(pointer.revision, pointer.bucket));
            Ok::<_, WriteError>((looked_up, found.transpose()?.flatten()))
        })?;
        Ok(Box::new(Put {
            fields: Fields::of(&index, &key),
            reason: index.reason,
            key,
            value,
            expires_at,
            body,
            expected,
            looked_up,
            found,
        }))
    }

    /// Prepares several writes. Also returns the bytes that they take in the queue.
    pub(in crate::embedded) fn ready_all(
        &self,
        writes: Vec<Write>,
    ) -> Result<(usize, Vec<One>), WriteError> {
        // Each write counts for something even if it stores nothing.
        let (mut bytes, mut stored) = (0, 0);
        let ready = writes.into_iter().map(|write| {
            let Write {
                key,
                record,
                expected,
            } = write;
            let Some(record) = record else {
                check_size(&key, None)?;
                bytes += PERMIT_BYTES;
                return Ok(One::Delete(key, expected));
            };
            let put = self.ready(key, record, expected)?;
            stored += put.body.stored_len();
            check_commit(stored)?;
            bytes += put.bytes().max(PERMIT_BYTES);
            Ok(One::Put(put))
        });
        let ready = ready.collect::<Result<Vec<_>, WriteError>>()?;
        Ok((bytes, ready))
    }

    /// The identity of the store; stores `new` as the identity if there is none yet. Concurrent
    /// callers get the same identity. Once the store is closed, another process may have the
    /// folder, so it is not touched.
    pub(in crate::embedded) fn identity(&self, new: &str) -> Result<String, Fault> {
        let folder = self.folder.lock();
        match &*folder {
            Some(folder) => identity::of(folder.path(), new).map_err(io_fault),
            None => Err(Fault::Closed),
        }
    }

    /// Whether creates and updates are allowed. They are if the free space cannot be read.
    pub(super) fn has_space(&self) -> bool {
        let free = self.free_space();
        free.is_none_or(|free| free >= self.options.free_space_min)
    }

    /// Free bytes on the disk; `None` if they cannot be read.
    pub(in crate::embedded) fn free_space(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.path).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Reads a page from the snapshot held for its revision, or from a new one. The snapshot is
    /// held if there are more pages.
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
        let view =
            View::at(engine, &self.codec, moment.clone()).with_recent(&self.changes, &*self.clock);
        let page = read(&view)?;
        let more = |page: &Page| page.more && page.revision == moment.state.revision;
        if page.as_ref().is_some_and(more) {
            engine.held.keep(&moment, steady);
        }
        Ok(page)
    }

    /// Lists in the calling task, if that is fast; see [`View::list_at_once`].
    pub(in crate::embedded) fn list_at_once(
        &self,
        request: &ListRequest,
    ) -> Result<Option<Page>, Fault> {
        let now = self.clock.now();
        self.read_page(request.at, |view| view.list_at_once(request, now))
    }

    pub(in crate::embedded) fn list(&self, request: &ListRequest) -> Result<Page, ReadError> {
        self.list_as_of(request, self.clock.now())
    }

    /// Lists with the records that expire after `now`.
    pub(in crate::embedded) fn list_as_of(
        &self,
        request: &ListRequest,
        now: UnixMillis,
    ) -> Result<Page, ReadError> {
        let read = self.read_page(request.at, |view| view.list(request, now).map(Some));
        let read = read.map(Option::unwrap_or_default);
        match (request.at, read) {
            // The revision may have been forgotten during the read.
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

    pub(in crate::embedded) fn newest(&self, request: &NewestRequest) -> Result<Page, ReadError> {
        let now = self.clock.now();
        let engine = self.engine();
        let engine = engine.as_ref().ok_or(Fault::Closed)?;
        let moment = engine.moment();
        let view =
            View::at(engine, &self.codec, moment.clone()).with_recent(&self.changes, &*self.clock);
        let page = view.newest(request, now)?;
        if !page.behind.is_empty() {
            // Records behind the page are read as of the same revision.
            engine.held.keep(&moment, self.clock.steady());
        }
        Ok(page)
    }

    pub(in crate::embedded) fn stats(&self) -> Result<Stats, ReadError> {
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
        // The revision may have been forgotten during the read.
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
