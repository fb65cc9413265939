//! An archive that follows an Event API server in the same process, over real HTTP into a real
//! store.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod follow;
mod numbers;
mod sink;
mod support;
