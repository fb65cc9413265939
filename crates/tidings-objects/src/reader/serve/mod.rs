//! What a server needs of a sealed cluster: a handle, a store, its watches and its history.
//!
//! From outside: all that the crate exports of the reader.

mod cluster;
mod history;
mod store;
mod watch;

pub use cluster::{HeardOf, SealedCluster};
pub use history::SealedHistory;
