//! Measures storing: the embedded store, beside raw etcd and beside a bare log.
//!
//! Each part runs in a process of its own, so that it has its own maximum of memory, and prints
//! figures as lines of JSON. The same writers pass the same events to all three. A write returns
//! when it is on disk:
//!
//! - **embedded**: the store, through its contract, with its default options.
//! - **etcd**: create-if-absent transactions over gRPC to an etcd on the same disk, with a lease
//!   for every 1,000 events: the requests of kube-apiserver for each event, without its own work.
//!   etcd has no index by object, so reads of an object's events are not measured.
//! - **log**: a checksummed append-only file with group commit and `fdatasync`, which cannot be
//!   read: the floor.

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
