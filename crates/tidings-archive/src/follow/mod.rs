//! Following one cluster, or one namespace of it, as a state machine: it takes answers of the
//! source and of the store, and returns the next step. It uses no clock, no network and no disk.

pub(crate) mod backoff;
pub(crate) mod follower;
#[cfg(test)]
mod follower_tests;
