//! The API from the outside: requests and answers over the real router and a store, first in
//! memory, and those of what is stored (`over_etcd`) on etcd.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(
    clippy::too_many_lines,
    reason = "some tests are a long table or story"
)]

mod apply;
mod audit;
mod backend;
mod behind;
mod collections;
mod content;
#[cfg(feature = "etcd")]
mod failures;
mod fanout;
mod lists;
mod mcp;
mod months;
mod newest;
mod observing;
#[cfg(feature = "etcd")]
mod over_etcd;
mod policies;
mod queueing;
mod remote;
mod slow;
mod streams;
mod support;
mod timeline;
mod watch_forms;
mod watches;
mod writes;
