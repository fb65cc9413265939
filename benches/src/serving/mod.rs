//! Loads Event API servers. Ours, kube-apiserver, and one that only echoes get the same requests.
//!
//! Every connection speaks HTTP/1.1 over TLS and has one request at a time, so the number of
//! connections is that of concurrent requests. A load ends after a number of requests, or after a
//! time from which on no more are begun.

mod client;
mod events;
mod latency;
mod lists;
mod load;
mod reads;
mod soak;
mod watchers;

pub use client::{Connection, LoadError, Target};
pub use events::{event, patch};
pub use latency::Latencies;
pub use lists::{Lists, lists};
pub use load::{Load, creates, fill, make_namespaces, patches};
pub use reads::{Reads, reads};
pub use soak::{Account, Plan, Stretch, soak};
pub use watchers::{FanOut, fan_out};

use std::time::Instant;

/// The time. The loads read the clock only here.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
