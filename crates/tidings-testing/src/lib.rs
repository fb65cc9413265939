//! Code that the tests of several crates share. Only tests, benchmarks and tasks use it; it is
//! never published.
//!
//! Code for the tests of one crate stays in that crate's `tests` folder. Types of the crate under
//! test are here only behind a feature: otherwise the unit tests of a crate see two versions of its
//! types, their own and the one that this crate was built with.
//!
//! The functions panic instead of returning errors, since any error fails the test.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

pub mod allocations;
#[cfg(feature = "browser")]
pub mod browser;
pub mod emulators;
pub mod etcd;
mod folder;
pub mod hours;
mod port;
pub mod process;
pub mod programs;
#[cfg(feature = "router")]
pub mod requests;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "serving")]
pub mod serving;

pub use folder::{copy_folder, pack_folder, unpack_folder};
pub use port::free_port;
