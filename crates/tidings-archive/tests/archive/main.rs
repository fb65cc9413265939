//! Follows an Event API server in this process over real HTTP into a real store.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod follow;
mod numbers;
mod support;
