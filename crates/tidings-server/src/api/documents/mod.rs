//! Documents about the server: discovery, OpenAPI, and the answer to unknown paths.
//!
//! From outside: the handlers, and [`not_found()`].

pub(super) mod discovery;
mod not_found;
pub(super) mod openapi;

pub use discovery::VERSION;
pub(crate) use discovery::version;
pub(crate) use not_found::not_found;
