//! Who gets in and who may do what, over HTTPS and by a client of the ecosystem (kube-rs); and what
//! a connection may cost.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod certificates;
mod cluster;
mod connections;
mod matrix;
mod queueing;
mod support;
