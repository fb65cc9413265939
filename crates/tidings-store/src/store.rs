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

/// A store of expiring records. The [crate documentation](crate) has the common rules. Share it as
/// `Arc<dyn Store>`. Any number of tasks may call any method at once. If a returned future is
/// dropped before it is ready, the write is either done or not done, never half done.
pub trait Store: Send + Sync + 'static {
    /// Stores a record under a key that has none, and returns the new revision.
    ///
    /// # Errors
    ///
    /// [`WriteError::AlreadyExists`] if there is a live record; [`WriteError::EmptyKey`];
    /// [`WriteError::TooLarge`]; [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Replaces a record whose revision is exactly `expected`, and returns the new revision. It
    /// replaces value, index and expiry.
    ///
    /// # Errors
    ///
    /// [`WriteError::NotFound`] if there is no live record, [`WriteError::Conflict`] if it has
    /// another revision; [`WriteError::EmptyKey`]; [`WriteError::TooLarge`];
    /// [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Deletes a record and returns it. If `expected` is given, the record must have exactly that
    /// revision.
    ///
    /// # Errors
    ///
    /// [`WriteError::NotFound`] if there is no live record, [`WriteError::Conflict`] if it has
    /// another revision; [`WriteError::Fault`].
    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>>;

    /// Reads the live record under a key, as of the latest acknowledged write or a later one.
    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>>;

    /// The revision of the latest change. A read that starts afterwards sees at least this
    /// revision.
    fn revision(&self) -> Revision;

    /// Whether a number can be a revision of this store, reached or not. If it cannot, it is a
    /// revision of another store. Here it gives [`ReadError::Compacted`] and
    /// [`WatchError::Compacted`]. By default every number can be one.
    fn is_own(&self, _revision: Revision) -> bool {
        true
    }

    /// Lists the live records under a prefix in key order, all at one revision. A request may
    /// restrict the list to one involved object.
    ///
    /// [`At::Exact`] returns the state right after that revision. A record is in it if its expiry
    /// was not written by then *and* it has not expired now. Pages of the same revision, each
    /// `after` the last key of the previous one, are together one consistent list. No record
    /// appears twice in it.
    ///
    /// The cost of a page does not depend on the writes since the first page, as long as the store
    /// holds a snapshot for the list. The number of snapshots is bounded
    /// ([`EmbeddedOptions`](crate::embedded::EmbeddedOptions)). Pages of other lists are equally
    /// exact, but may cost time in proportion to the writes since their revision.
    ///
    /// Once polled, the future continues by itself until it is dropped. So the next page can be
    /// read while the caller sends the previous one.
    ///
    /// # Errors
    ///
    /// [`ReadError::Compacted`] if the revision is no longer remembered, [`ReadError::Future`] if
    /// it is not reached yet; [`ReadError::Fault`].
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Whether a key comes after another key in lists. By default the bytes decide.
    fn is_behind(&self, key: &[u8], other: &[u8]) -> bool {
        key > other
    }

    /// Returns live records, last seen first ([`Index::last_seen`]), at the latest revision. Of
    /// equal times, the later revision comes first.
    ///
    /// The page has values up to [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX), whatever the limit. Of
    /// the remaining records it has only the keys ([`Page::behind`]), or nothing
    /// ([`NewestRequest::values_only`]).
    ///
    /// Pages continue after a [`Place`](crate::Place), each at the latest revision. A record that
    /// is seen again between two pages is therefore not in any later page. If many records had to
    /// be skipped, a page may have fewer records than its limit, or none, although there are
    /// [more](Page::more).
    ///
    /// The embedded store reads only index entries of the first given condition in this order:
    /// object, reason, a type other than `Normal`, namespace (a prefix up to the first slash),
    /// time. It skips records that do not match the other conditions or have expired, a bounded
    /// number for each page. It ignores [`NewestRequest::texts`]. Other stores may read all records
    /// of the prefix.
    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Counts the records by the hour they were last seen and by [`Index::reason`]. The counts are
    /// at the latest revision; zero counts are left out. A count is never too low. It may include
    /// expired records until the store has released their space.
    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>>;

    /// Watches keys under a prefix, from the first change after a revision. To see everything,
    /// list, and then watch after the page's revision.
    ///
    /// # Errors
    ///
    /// [`WatchError::Compacted`] if changes after that revision are forgotten,
    /// [`WatchError::Future`] if the revision is not reached yet; [`WatchError::Fault`].
    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>>;

    /// Forgets the history up to and including a revision.
    ///
    /// From then on, lists at earlier revisions and watches after earlier revisions are
    /// `Compacted`. A list at exactly this revision and a watch after it still work. Records do not
    /// change. A revision at or before the oldest remembered one has no effect.
    ///
    /// # Errors
    ///
    /// [`WriteError::FutureRevision`] if the revision is not yet reached; [`WriteError::Fault`].
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Writes the expiry of all expired records, and returns their number. A record counts as
    /// expired as far as the clock is [believed](crate#expiry-and-the-clock). Backends do this by
    /// themselves. A call is needed only to have it done at once, as in tests.
    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>>;

    /// The identity of this store; stores `new` as the identity if it has none yet. The identity
    /// stays with the data across restarts, moves and restores. `None` if the store keeps no
    /// identity, which is the default.
    ///
    /// # Errors
    ///
    /// The identity could not be read or written.
    fn identity(&self, new: String) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        drop(new);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Reads the store's counts and sizes.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>>;

    /// Closes the store: refuses new writes, finishes accepted ones, and releases files. Watches
    /// end with [`Fault::Closed`]. A second call is harmless. Dropping the store does the same
    /// without waiting.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A running watch; see [`Store::watch`].
pub trait Watch: Send {
    /// Waits for changes and returns one or more, in revision order. A revision is never split.
    /// Each change is returned once. A watcher has no buffer that could overflow: one that is
    /// behind reads from the store's history. Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`WatchError::Compacted`] if the history that the watcher still needs was dropped, because
    /// the watcher fell behind or because it was compacted. List again. [`WatchError::Fault`],
    /// mainly [`Fault::Closed`] when the store is closed. After an error the watch has ended and
    /// repeats the error.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>>;

    /// The revision up to which all matching changes have been returned. It advances while a call
    /// to [`next`](Watch::next) waits, also by changes of other keys. So it is suitable for a
    /// bookmark.
    fn revision(&self) -> Revision;
}
