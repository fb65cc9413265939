//! What every backend does: the traits of the contract. Their rules are in the [crate
//! documentation](crate).

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

/// What an asynchronous method of these object-safe traits returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of expiring records. The rules common to all methods are in the [crate
/// documentation](crate).
///
/// Share it as `Arc<dyn Store>`. Every method may be called from any number of tasks at once.
/// Dropping a returned future before it is ready leaves a write either done or not done, never half
/// done.
pub trait Store: Send + Sync + 'static {
    /// Stores a record under a key that holds none, and returns the revision of the change.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`] if a live record is there; [`WriteError::EmptyKey`];
    /// [`WriteError::TooLarge`]; [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Replaces the record whose revision is exactly `expected`: value, index and expiry; returns
    /// the new revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] if no live record is there, [`WriteError::Conflict`] if its
    /// revision is another; [`WriteError::EmptyKey`]; [`WriteError::TooLarge`];
    /// [`WriteError::AlreadyExpired`]; [`WriteError::Fault`].
    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Removes a record, if `expected` is given only at exactly that revision; returns what was
    /// removed.
    ///
    /// # Errors
    /// [`WriteError::NotFound`] if no live record is there, [`WriteError::Conflict`] if its
    /// revision is another; [`WriteError::Fault`].
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

    /// Live records in key order: of one prefix, optionally of one involved object, all from one
    /// revision.
    ///
    /// [`At::Exact`] gives the store as it was right after that revision, expiry included: a record
    /// is in it if its end was not yet written down by then *and* its time has not come by now.
    /// Pages taken with the same revision, each `after` the last key before it, together are one
    /// consistent list in which no record appears twice.
    ///
    /// A page costs the same however much was written since the first one, as long as the store
    /// holds what that was read from; how many lists it does that for is bounded
    /// ([`EmbeddedOptions`](crate::embedded::EmbeddedOptions)). Pages of other lists are as exact,
    /// and may cost time in proportion to what was written since their revision.
    ///
    /// Once polled it continues by itself until it is dropped, so that the next page may be read
    /// while one is sent.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] if the revision is no longer remembered, [`ReadError::Future`] if
    /// it is not yet reached; [`ReadError::Fault`].
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Live records, last seen first ([`Index::last_seen`]; equal times by revision, later first),
    /// at the latest revision.
    ///
    /// However many are asked for, it returns values of [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX),
    /// and where the others are ([`Page::behind`]).
    ///
    /// Pages continue behind a [`Place`](crate::Place), each at the latest revision: a record that
    /// is seen again between two of them is not in any later one. Where many records had to be
    /// passed over, a page may have fewer records than its limit, or no records, though there are
    /// [more](Page::more).
    ///
    /// The embedded store reads index entries of what it returns, by the first of these that is
    /// given: the object, the reason, a type other than `Normal`, the namespace (a prefix up to the
    /// first slash), the time. By anything else that is given it passes over records, a bounded
    /// number for each page. Other stores may read all records of the prefix.
    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// How many records were last seen in each hour for each [`Index::reason`], at the latest
    /// revision; where there are none there is no count.
    ///
    /// Never too few; those whose time is over may count until the store has let go of their space.
    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>>;

    /// Follows the changes with a revision greater than `after` to keys with a prefix.
    ///
    /// To see everything: list, then watch after the page's revision.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if changes after that revision are already forgotten,
    /// [`WatchError::Future`] if the revision is not yet reached; [`WatchError::Fault`].
    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>>;

    /// Forgets the history up to and including a revision: lists at revisions before it and watches
    /// after revisions before it are `Compacted` from now on; a list at exactly it and a watch
    /// after it still work. Records are untouched. A revision at or before the oldest remembered
    /// one changes nothing.
    ///
    /// # Errors
    /// [`WriteError::FutureRevision`] if the revision is not yet reached; [`WriteError::Fault`].
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Writes down the end of every record that has expired by now, as far as the clock is
    /// [believed](crate#expiry-and-the-clock), and returns how many.
    ///
    /// Backends do this by themselves; calling it is for tests and for those who want it done at
    /// once.
    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>>;

    /// What this store is told from any other by: `new`, if it has no identity yet. It stays with
    /// the data, over restarts, moves and restores. `None` from a store that keeps none, which is
    /// the default.
    ///
    /// # Errors
    /// The identity could not be read, or not be written.
    fn identity(&self, new: String) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        drop(new);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Counts and sizes at this moment.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>>;

    /// Ends the store: refuses new writes, finishes accepted ones, ends watches with
    /// [`Fault::Closed`], releases files.
    ///
    /// Safe to call again. Dropping the store does the same without waiting.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A running watch; see [`Store::watch`].
pub trait Watch: Send {
    /// Waits for changes and returns one or more, in revision order, never splitting a revision.
    ///
    /// Each change is returned once. There is no buffer of its own that could run over: a watcher
    /// that is behind reads from the store's history. Cancel-safe: dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if the watcher fell behind the history: list again.
    /// [`WatchError::Fault`], above all with [`Fault::Closed`] when the store is closed. After an
    /// error the watch is over and repeats it.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>>;

    /// Everything up to this revision has been returned (or does not match the prefix).
    ///
    /// It advances while a call to [`next`](Watch::next) waits, also through changes of other keys,
    /// so it is right for a bookmark.
    fn revision(&self) -> Revision;
}
