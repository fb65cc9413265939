//! Where events are kept: small records with one revision, expiry, two indexes and watches.
//!
//! A [`Store`] holds records under byte keys. It knows bytes, revisions and times, and nothing of HTTP or of Kubernetes
//! types: the API server gives it an encoded event, the [`Index`] values to find it by, and the moment it expires.
//!
//! # The rules every backend keeps
//!
//! - **Revisions.** Every change of the store (create, update, delete, expiry) gets a revision greater than all before
//!   it. A store that was never written to is at [`REVISION_OF_NEW`]. Revisions survive restarts and are never given out twice. Several changes may
//!   share a revision (etcd does that when a lease ends); they are then never delivered in two parts.
//! - **Durability.** A write that was answered with success is on disk and visible to every later read. A write that
//!   was answered with an error changed nothing, with the one exception of [`Fault::Unknown`].
//! - **Order.** Keys are opaque and ordered by their bytes. The API server uses `namespace/name`.
//! - **Expiry.** Each record carries an absolute time, set anew by each write. From that time on no read returns it and
//!   no precondition sees it; a `create` over it succeeds. Some time later its end is written down as a delete with a
//!   revision of its own and the last value ([`Change::Delete`] with `expired: true`). Restarts do not lengthen a life.
//!   See [below](#expiry-and-the-clock) for a clock that is set.
//! - **History.** The store remembers changes for a bounded time and size. What it has forgotten it reports as
//!   `Compacted`; it never leaves a gap in silence.
//! - **Time** comes from the [`Clock`](clock::Clock) the backend was given, so a test moves the clock and need not wait.
//!
//! # Expiry and the clock
//!
//! Whether a record is over is told by the clock as it is set, in all reads and preconditions alike.
//! What cannot be taken back needs a clock that has been right for a while: an end is written down
//! when the clock's time *and* the steady time since it was last believed say so. While the clock is
//! not set, both say the same, and nothing is late by this. Otherwise:
//!
//! - **Set ahead**, be it by days: what is over by that alone is hidden. If the clock is put right,
//!   it is there again, as it was, and watchers have seen nothing. If the clock stays, it is believed
//!   after 30 to 60 s, and the ends are written down. Time in which the machine was suspended counts
//!   as set ahead.
//! - **Set back:** believed at once. What is already written down stays so.
//! - **After a restart** the steady time in between is not known. An embedded store continues from
//!   the time it had believed last, and believes the clock 30 s after it was opened, or after at
//!   most 60 s that several short processes were up together; what ended meanwhile is hidden until
//!   then. A store on etcd deletes nothing before it was open for 30 s.
//! - A `create` under the name of a hidden record succeeds, and that record's end is written down
//!   then, whatever the clock says later: the client has decided it.
//!
//! # Example
//!
//! ```
//! use tidings_store::{Index, ListRequest, NewRecord, Store, memory::MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::default();
//! let revision = store.create("default/web.1".into(), NewRecord::new("first")).await?;
//! store.update("default/web.1".into(), NewRecord::new("second"), revision).await?;
//!
//! let page = store.list(ListRequest::prefix("default/")).await?;
//! assert_eq!(page.records[0].value, "second");
//!
//! let mut watch = store.watch("".into(), revision).await?;
//! assert_eq!(watch.next().await?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! Several keys in one transaction, values above [`VALUE_LEN_MAX`], queries beyond key order, object and time.

mod changes;
pub mod clock;
mod confirmed;
pub mod embedded;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod memory;
mod record;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

pub use error::{Fault, ReadError, WatchError, WriteError};
pub use record::{
    At, Change, Deleted, Index, ListRequest, NewRecord, NewestRequest, ObjectSelector, Page,
    Record, Stats, UnixMillis,
};

/// The number of a change; greater is later. Zero stands before the first change.
pub type Revision = u64;

/// The revision of a store that was never written to: 1, as etcd's is. Clients take a list at 0 for one of no revision.
pub const REVISION_OF_NEW: Revision = 1;

/// What an asynchronous method of these object-safe traits returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Longest accepted key, in bytes. A namespace (63), a slash and a name (253) need 317.
pub const KEY_LEN_MAX: usize = 1024;

/// Longest accepted value, in bytes: etcd's own default limit for a request.
pub const VALUE_LEN_MAX: usize = 1_572_864;

/// Longest accepted sum of an [`Index`]'s strings, in bytes. Kubernetes' own limits on these fields stay far below.
pub const INDEX_LEN_MAX: usize = 4096;

/// Behind the record with which the values of a limited page come to so many bytes, it ends.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// A store of expiring records. The rules common to all methods are in the [crate documentation](crate).
///
/// Share it as `Arc<dyn Store>`. Every method may be called from any number of tasks at once. Dropping a returned
/// future before it is ready leaves a write either done or not done, never half done.
pub trait Store: Send + Sync + 'static {
    /// Stores a record under a key that holds none, and returns the revision of the change.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`] if a live record is there; [`WriteError::EmptyKey`]; [`WriteError::TooLarge`];
    /// [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Replaces the record whose revision is exactly `expected`: value, index and expiry; returns the new revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] if no live record is there, [`WriteError::Conflict`] if its revision is another;
    /// [`WriteError::EmptyKey`]; [`WriteError::TooLarge`];
    /// [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Removes a record, if `expected` is given only at exactly that revision; returns what was removed.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] if no live record is there, [`WriteError::Conflict`] if its revision is another;
    /// [`WriteError::Fault`].
    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>>;

    /// The live record under a key, as of the latest acknowledged write or a later one.
    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>>;

    /// The revision of the latest change. A read that starts afterwards sees at least this revision.
    fn revision(&self) -> Revision;

    /// Live records in key order: of one prefix, optionally of one involved object, all from one revision.
    ///
    /// [`At::Exact`] gives the store as it was right after that revision, expiry included: a record is in it if its end
    /// was not yet written down by then *and* its time has not come by now. Pages taken with the same revision, each
    /// `after` the last key before it, together are one consistent list in which no record appears twice.
    ///
    /// Once polled it goes on by itself until it is dropped, so that the next page may be read while one is sent.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] if the revision is no longer remembered, [`ReadError::Future`] if it is not yet reached;
    /// [`ReadError::Fault`].
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Live records, last seen first ([`Index::last_seen`]; equal times by revision, later first), at the latest revision.
    ///
    /// However many are asked for, it returns values of [`PAGE_BYTES_MAX`], and where the others are ([`Page::behind`]).
    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Follows the changes with a revision greater than `after` to keys with a prefix.
    ///
    /// To see everything: list, then watch after the page's revision.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if changes after that revision are already forgotten, [`WatchError::Future`] if the
    /// revision is not yet reached; [`WatchError::Fault`].
    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>>;

    /// Forgets the history up to and including a revision: lists at revisions before it and watches after revisions
    /// before it are `Compacted` from now on; a list at exactly it and a watch after it still work. Records are untouched.
    /// A revision at or before the oldest remembered one changes nothing.
    ///
    /// # Errors
    /// [`WriteError::FutureRevision`] if the revision is not yet reached; [`WriteError::Fault`].
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Writes down the end of every record that has expired by now, as far as the clock is
    /// [believed](crate#expiry-and-the-clock), and returns how many.
    ///
    /// Backends do this by themselves; calling it is for tests and for those who want it done at once.
    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>>;

    /// Counts and sizes at this moment.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>>;

    /// Ends the store: refuses new writes, finishes accepted ones, ends watches with [`Fault::Closed`], releases files.
    ///
    /// Safe to call again. Dropping the store does the same without waiting.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A running watch; see [`Store::watch`].
pub trait Watch: Send {
    /// Waits for changes and returns one or more, in revision order, never splitting a revision.
    ///
    /// Each change is returned once. There is no buffer of its own that could run over: a watcher that is behind reads
    /// from the store's history. Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if the watcher fell behind the history: list anew. [`WatchError::Fault`], above all with
    /// [`Fault::Closed`] when the store is closed. After an error the watch is over and repeats it.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>>;

    /// Everything up to this revision has been returned (or does not match the prefix).
    ///
    /// It advances while a call to [`next`](Watch::next) waits, also through changes of other keys, so it is right for a
    /// bookmark.
    fn revision(&self) -> Revision;
}
