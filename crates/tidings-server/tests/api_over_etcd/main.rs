//! The tests of `api`, every one of them, over etcd: each has an etcd of its own, so that revisions
//! are what they are in memory. Without one on the PATH (or in `ETCD`) that is said, and they run
//! in memory once more.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../api/apply.rs"]
mod apply;
#[path = "../api/audit.rs"]
mod audit;
mod backend;
#[path = "../api/collections.rs"]
mod collections;
#[path = "../api/content.rs"]
mod content;
mod failures;
#[path = "../api/fanout.rs"]
mod fanout;
#[path = "../api/lists.rs"]
mod lists;
#[path = "../api/observing.rs"]
mod observing;
#[path = "../api/policies.rs"]
mod policies;
#[path = "../../../tidings-store/tests/support/etcd.rs"]
mod process;
#[path = "../api/queueing.rs"]
mod queueing;
#[path = "../api/slow.rs"]
mod slow;
#[path = "../api/streams.rs"]
mod streams;
#[path = "../api/support.rs"]
mod support;
#[path = "../api/watch_forms.rs"]
mod watch_forms;
#[path = "../api/watches.rs"]
mod watches;
#[path = "../api/writes.rs"]
mod writes;
