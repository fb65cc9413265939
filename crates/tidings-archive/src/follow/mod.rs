//! Following one cluster, or one namespace of it, as a state machine: what came from the source and
//! the store goes in, what to do next comes out. It has no clock, no network and no disk.

pub(crate) mod backoff;
pub(crate) mod follower;
#[cfg(test)]
mod follower_tests;
