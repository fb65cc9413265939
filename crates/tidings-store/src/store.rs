//! The contract of every backend, as traits. The [crate documentation](crate) has the rules.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

#[cfg(doc)]
use crate::{At, Index};
use crate::{
    Change, Counts, CountsRequest, Deleted, Fault, ListRequest, NewRecord, NewestRequest, Page,
    ReadError, Record, Revision, Stats, WatchError, WriteError,
};

/// The return type of asynchronous methods of these object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of expiring records. The rules common to all methods are in the [crate
/// documentation](crate).
///
/// Share it as `Arc<dyn Store>`. Every method may be called from any number of tasks at once.
/// Dropping a returned future before it is ready leaves a write either done or not done, never half
/// done.
pub trait Store: Send + Sync + 'static {
    /// Stores a record under a key without one, and returns the revision of the change.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`] if there is a live record; [`WriteError::EmptyKey`];
    /// [`WriteError::TooLarge`]; [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Replaces value, index and expiry of the record whose revision is exactly `expected`. Returns
    /// the new revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] if there is no live record, [`WriteError::Conflict`] if it has
    /// another revision; [`WriteError::EmptyKey`]; [`WriteError::TooLarge`];
    /// [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Removes a record; if `expected` is given, only at exactly that revision. Returns the removed
    /// record.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] if there is no live record, [`WriteError::Conflict`] if it has
    /// another revision; [`WriteError::Fault`].
    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>>;

    /// The live record under a key, as of the latest acknowledged write or a later one.
    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>>;

    /// The revision of the latest change. A read that starts afterwards sees at least this
    /// revision.
    fn revision(&self) -> Revision;

    /// Whether a number can be a revision of this store, reached or not. If it cannot, another
    /// store has told it, and here it is [`ReadError::Compacted`] and [`WatchError::Compacted`].
    /// The default is that every number can.
    fn is_own(&self, _revision: Revision) -> bool {
        true
    }

    /// Live records in key order: of one prefix, optionally of one involved object, all from one
    /// revision.
    ///
    /// [`At::Exact`] returns the state right after that revision, with regard to expiry: a record
    /// is in it if its expiry was not written by then *and* it has not expired now. Pages of the
    /// same revision, each `after` the last key of the previous one, are together one consistent
    /// list in which no record appears twice.
    ///
    /// The cost of a page does not depend on the writes since the first one, as long as the store
    /// holds a snapshot for the list; the number of snapshots is bounded
    /// ([`EmbeddedOptions`](crate::embedded::EmbeddedOptions)). Pages of other lists are equally
    /// exact, but may cost time in proportion to the writes since their revision.
    ///
    /// Once polled it continues by itself until it is dropped, so the next page can be read while
    /// one is sent.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] if the revision is no longer remembered, [`ReadError::Future`] if
    /// it is not reached yet; [`ReadError::Fault`].
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Whether a key comes behind another one in lists: by their bytes, which is the default.
    fn is_behind(&self, key: &[u8], other: &[u8]) -> bool {
        key > other
    }

    /// Live records, last seen first ([`Index::last_seen`]; equal times by revision, later first),
    /// at the latest revision.
    ///
    /// Whatever the limit, it returns values up to [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX), and
    /// only the keys of the others ([`Page::behind`]), or none of them
    /// ([`NewestRequest::values_only`]).
    ///
    /// Pages continue after a [`Place`](crate::Place), each at the latest revision: a record that
    /// is seen again between two pages is not in any later one. If many records had to be skipped,
    /// a page may have fewer records than its limit, or none, although there are
    /// [more](Page::more).
    ///
    /// The embedded store reads only the index entries of the result, by the first given condition
    /// of these: object, reason, a type other than `Normal`, namespace (a prefix up to the first
    /// slash), time. By the other conditions it skips records, and also those that have expired, a
    /// bounded number for each page. It does not look at [`NewestRequest::texts`]. Other stores may
    /// read all records of the prefix.
    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// The number of records last seen in each hour for each [`Index::reason`], at the latest
    /// revision. There are no counts of zero.
    ///
    /// Never too few; expired records may count until the store has released their space.
    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>>;

    /// Follows the changes with a revision greater than `after` to keys with a prefix.
    ///
    /// To see everything: list, then watch after the page's revision.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if changes after that revision are forgotten,
    /// [`WatchError::Future`] if the revision is not reached yet; [`WatchError::Fault`].
    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>>;

    /// Forgets the history up to and including a revision: lists at revisions before it and watches
    /// after revisions before it are `Compacted` from now on; a list at exactly this revision and a
    /// watch after it still work. Records do not change. A revision at or before the oldest
    /// remembered one has no effect.
    ///
    /// # Errors
    /// [`WriteError::FutureRevision`] if the revision is not yet reached; [`WriteError::Fault`].
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Writes the expiry of every record that has expired, as far as the clock is
    /// [believed](crate#expiry-and-the-clock). Returns their number.
    ///
    /// Backends do this by themselves; a call is needed only to have it done at once, as in tests.
    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>>;

    /// The identity of this store, which becomes `new` if it has none yet. It stays with the data
    /// across restarts, moves and restores. `None` if the store keeps no identity, which is the
    /// default.
    ///
    /// # Errors
    /// The identity could not be read or written.
    fn identity(&self, new: String) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        drop(new);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Counts and sizes at this moment.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>>;

    /// Closes the store: refuses new writes, finishes accepted ones, ends watches with
    /// [`Fault::Closed`], releases files.
    ///
    /// Safe to call again. Dropping the store does the same without waiting.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A running watch; see [`Store::watch`].
pub trait Watch: Send {
    /// Waits for changes and returns one or more, in revision order, never splitting a revision.
    ///
    /// Each change is returned once. A watcher has no buffer that could overflow: one that is
    /// behind reads from the store's history. Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if the watcher fell behind the history, or the history that it
    /// still needed was compacted after [`Store::watch`] had accepted the revision: list again.
    /// [`WatchError::Fault`], mainly [`Fault::Closed`] when the store is closed. After an error the
    /// watch has ended and repeats it.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>>;

    /// All changes up to this revision have been returned or do not match the prefix.
    ///
    /// It advances while a call to [`next`](Watch::next) waits, also with changes of other keys, so
    /// it is suitable for a bookmark.
    fn revision(&self) -> Revision;
}
