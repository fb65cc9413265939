//! Watches: a stream of changes, in order.
//!
//! Invariant: a watch delivers every change from its revision on, or ends.
//!
//! From outside: [`watch`] answers a request for one.

mod frame;
mod stream;

pub(super) use stream::watch;
