//! A cluster's store as the API server serves it.
//!
//! Invariant: a served resourceVersion is in the range of this store.
//!
//! From outside: [`ServedStore`], and the [`Numbers`] of a store, its resourceVersion range.

mod ranges;
mod store;
#[cfg(test)]
mod store_tests;

pub(crate) use ranges::Numbers;
pub use ranges::REVISION_BITS;
pub(crate) use store::ServedStore;
