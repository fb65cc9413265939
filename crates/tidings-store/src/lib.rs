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
//! Several keys in one transaction, values above [`VALUE_LEN_MAX`], queries beyond key order, and object, reason, type and time.

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
pub use limits::{INDEX_LEN_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
pub use record::{
    At, Change, Count, Counts, CountsRequest, Deleted, HOUR_MILLIS, Index, ListRequest, NewRecord,
    NewestRequest, ObjectSelector, PAGE_BYTES_MAX, Page, Place, REVISION_OF_NEW, Record, Revision,
    Stats, UnixMillis,
};
pub use store::{BoxFuture, Store, Watch};
