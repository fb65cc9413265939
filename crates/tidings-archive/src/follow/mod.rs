//! Following one cluster, or one namespace of it, as a state machine: answers of the source and the
//! store go in, the next step comes out. It has no clock, no network and no disk.

pub(crate) mod backoff;
pub(crate) mod follower;
#[cfg(test)]
mod follower_tests;
