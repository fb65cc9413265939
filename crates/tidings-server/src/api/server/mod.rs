//! The state that all handlers share, and what it is made of: options, limits, caches, the followed
//! cluster.
//!
//! Invariant: memory that requests and answers take is reserved in [`Limits`](limits) first.
//!
//! From outside: an [`ApiServer`], its [`ApiOptions`], and the [`FollowedCluster`] of an archive.

mod encoded;
mod followed;
pub(super) mod limits;
mod options;
mod remaining;
mod route;
pub(super) mod shares;
mod state;
mod statistics;

pub(super) use encoded::{EncodingKey, RowKey};
pub(super) use followed::Followed;
pub use followed::FollowedCluster;
pub use options::{ApiOptions, ManagedFields, TimelineOptions};
pub(super) use route::at;
pub(crate) use shares::{of_answered_tool, of_tool};
pub use state::ApiServer;
