//! Loading an Event API server: the same requests to ours, to kube-apiserver, and to a handler that
//! only echoes.
//!
//! Every connection is one HTTP/1.1 connection over TLS with one request on its way at a time, so
//! the number of connections is the number of requests in flight. What a load does is bounded: by a
//! count, or by a time after which no request is begun.

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

/// The one place where the loads read the clock.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
