//! The API as its clients see it: requests in, answers out, over the real router and a store in
//! memory.
//!
//! `api_over_etcd` runs the same tests over etcd.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apply;
mod audit;
#[path = "memory.rs"]
mod backend;
mod collections;
mod content;
mod fanout;
mod lists;
mod observing;
mod policies;
mod queueing;
mod slow;
mod streams;
mod support;
mod watch_forms;
mod watches;
mod writes;
