//! Whole servers over HTTPS, with a client of the ecosystem (kube-rs): start and end,
//! authentication, authorization, and bounds of connections.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(
    clippy::too_many_lines,
    reason = "some tests are a long table or story"
)]

mod aggregated;
mod certificates;
mod cluster;
mod clusters;
mod connections;
mod feeds;
mod kept;
mod matrix;
mod mcp;
mod passing;
mod queueing;
mod refused;
mod start;
mod support;
mod timeline;
