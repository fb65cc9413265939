//! A request as handlers get it, and its body.
//!
//! Invariant: a body is read only within the memory that was reserved for it.
//!
//! From outside: a [`Call`] is the request; [`encoded`] makes an answer in the requested form.

mod body;
mod body_threads;
mod call;
pub(super) mod decoding;
mod store_request;

pub(crate) use body::encoded;
pub(super) use body::{Sent, encode_watched, event_response, named, read_event, table_rows};
pub(super) use body_threads::{BODY_BYTES_MAX, apart};
pub(super) use call::{Call, Preauthorized};
pub(super) use store_request::{
    indexed, key_prefix, not_newer_than_store, of_this_store, request_to,
};
