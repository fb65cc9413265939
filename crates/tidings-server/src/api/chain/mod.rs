//! The steps before and after each handler, among them the proxy to a followed cluster.
//!
//! Invariant: every request takes every step, in kube-apiserver's order.
//!
//! From outside: [`around`] wraps routes; [`refuse`] ends a request before its authentication.

mod proxy;
mod request_metrics;
mod steps;

pub(crate) use steps::{
    Entered, HEADERS_MAX, around, refuse, refuse_head, refuse_user, room_for_head,
};
