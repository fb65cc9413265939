//! Sinks: in memory, over scripted HTTP, with an Event API server, and through outages.
#![cfg_attr(
    feature = "kube",
    expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")
)]

#[cfg(feature = "kube")]
mod kube_sink;
mod memory_sink;
#[cfg(feature = "kube")]
mod outage;
#[cfg(feature = "kube")]
mod server;
mod support;
