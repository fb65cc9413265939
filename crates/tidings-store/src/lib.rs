//! The storage of events: small records with a global revision, expiry, two indexes and watches.
//!
//! A [`Store`] holds records under byte keys. It knows bytes, revisions and times. The API server
//! knows HTTP and Kubernetes types; it passes an encoded event, its [`Index`] values, and its time
//! of expiry.
//!
//! # Rules for every backend
//!
//! - **Revisions.** Every change of the store (create, update, delete, expiry) gets a revision
//!   greater than all before it. A store without writes is at [`REVISION_OF_NEW`]. Revisions
//!   survive restarts and are never used twice. Several changes may share a revision (as in etcd
//!   when a lease ends); they are then always delivered together.
//! - **Durability.** An acknowledged write is on disk and visible to every later read. A write that
//!   failed changed nothing, with the exception of [`Fault::Unknown`].
//! - **Order.** Keys are opaque and ordered by their bytes. The API server uses `namespace/name`.
//! - **Expiry.** Each record has an absolute time of expiry, set by each write. From then on no
//!   read returns it, no precondition sees it, and a `create` over it succeeds. Some time later its
//!   expiry is written as a delete with its own revision and the last value ([`Change::Delete`]
//!   with `expired: true`). Restarts do not lengthen a lifetime. See [below](#expiry-and-the-clock)
//!   for changes of the clock.
//! - **History.** The store remembers changes for a bounded time and size. Forgotten changes are
//!   reported as `Compacted`, never skipped silently.
//! - **Time** comes from the backend's [`Clock`](clock::Clock), so that a test sets the clock
//!   instead of waiting.
//!
//! # Expiry and the clock
//!
//! All reads and preconditions compare expiry with the clock as it is set. Irreversible steps need
//! a clock that has been right for a while: an expiry is written only when both the clock and the
//! monotonic time since it was last believed have reached it. While the clock is not changed, both
//! agree, and nothing is late. Otherwise:
//!
//! - **Set ahead**, even by days: records are hidden. If the clock is corrected, they are visible
//!   again, unchanged, and watchers have seen nothing. If it stays ahead, it is believed after 30
//!   to 60 s, and the expiries are written. Time in which the machine was suspended counts as set
//!   ahead.
//! - **Set back:** believed at once. Written expiries remain.
//! - **After a restart** the monotonic time in between is unknown. An embedded store continues from
//!   the time it believed last, and believes the clock 30 s after it was opened, or after at most
//!   60 s of combined running time of several short processes; records that expired meanwhile are
//!   hidden until then. A store on etcd deletes nothing in the first 30 s.
//! - A `create` with the name of a hidden record succeeds, and that record's expiry is then
//!   written, whatever the clock says later.
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
//! Transactions over several keys (except [`write_all`](embedded::EmbeddedStore::write_all) of the
//! embedded store), values above [`VALUE_LEN_MAX`], and queries other than by key, object, reason,
//! type and time.

mod changes;
pub mod clock;
mod confirmed;
pub mod embedded;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod limits;
pub mod memory;
mod record;
mod store;

pub use error::{Fault, ReadError, WatchError, WriteError};
pub use limits::{COMMIT_LEN_MAX, INDEX_LEN_MAX, KEY_LEN_MAX, VALUE_LEN_MAX, WRITES_MAX};
pub use record::{
    At, Change, Count, Counts, CountsRequest, Deleted, Expected, HOUR_MILLIS, Index, ListRequest,
    NewRecord, NewestRequest, ObjectSelector, PAGE_BYTES_MAX, Page, Place, REVISION_OF_NEW, Record,
    Revision, Stats, UnixMillis, Write, hour_of,
};
pub use store::{BoxFuture, Store, Watch};
