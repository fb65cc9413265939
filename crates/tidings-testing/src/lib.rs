//! What the tests of several crates share. Only tests, benchmarks and tasks use it; it is never
//! published.
//!
//! What belongs to the tests of one crate stays in that crate's `tests` folder. Types of the crate
//! under test stay out of here unless a feature asks for them: the unit tests of a crate see two
//! versions of its types otherwise, their own and the one this crate was built with.
//!
//! What goes wrong here fails the test, so functions panic where others would return an error.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

pub mod allocations;
pub mod etcd;
mod folder;
pub mod hours;
mod port;
pub mod process;
pub mod programs;
#[cfg(feature = "router")]
pub mod requests;
#[cfg(feature = "serving")]
pub mod serving;

pub use folder::copy_folder;
pub use port::free_port;
