//! An HTTP client that reaches and verifies servers as Go programs do.
//!
//! [`proxy`] chooses the proxy for a server, [`ServerVerifier`] verifies the server's certificate,
//! and [`Client`] sends requests. The command, the server and the clients of storages use this
//! crate, so they reach the same servers; the client of etcd does not. It has no credentials but
//! those of proxies, and knows nothing of Kubernetes.

mod cause;
mod client;
mod connector;
pub mod proxy;
mod trust;

pub use cause::{is_not_http, rejected_certificate};
pub use client::{Client, ClientOptions, RequestError};
pub use trust::{ServerVerifier, TrustError, UnusedAuthority, tls};
