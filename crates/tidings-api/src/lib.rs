//! The forms of a Kubernetes Event, as pure functions: JSON, YAML, protobuf, stored bytes and
//! `Table`; patches, server-side apply with its managed fields, and selectors; and Go's wording of
//! values and errors, where clients compare it.
//!
//! Nothing here knows HTTP, a store, a clock or async: bytes and values come in, bytes, values and
//! errors go out. [`tidings-server`](https://docs.rs/tidings-server) is this behind a socket.

pub mod bounded;
pub mod codec;
pub mod field_validation;
pub mod indent;
pub mod managed;
pub mod patch;
pub mod quote;
pub mod selector;
pub mod table;
pub mod yaml;
