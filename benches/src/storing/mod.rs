//! What storing costs: the embedded store, beside raw etcd and beside a bare log.
//!
//! Each part runs in a process of its own, so that peaks of memory do not mix, and prints figures
//! as lines of JSON. All of them are given the same events by the same writers and return when the
//! write is on disk:
//!
//! - **embedded**: the store, through its contract, with its default options.
//! - **etcd**: create-if-absent transactions over gRPC to an etcd on the same disk, a lease for
//!   every 1,000 events, nothing else: what kube-apiserver does per event without its own work. It
//!   has no index to find an object's events by, so it is not asked.
//! - **log**: a checksummed append-only file with group commit and `fdatasync`, and nothing to read
//!   it by: the floor.

mod archive;
mod embedded;
pub(crate) mod encode;
mod etcd;
pub(crate) mod events;
mod failure;
mod figures;
mod load;
mod log;
mod messages;
mod mixed;
pub(crate) mod process;
pub(crate) mod real;

pub use archive::{archive, fill};
pub use embedded::{expiry, lists, reads, real_events, writes};
pub use etcd::etcd;
pub use failure::Failure;
pub use log::log;
pub use mixed::{mixture, patches};
