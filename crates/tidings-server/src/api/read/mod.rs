//! Single events, lists of events, and namespaces.
//!
//! Invariant: a list is of one revision and takes bounded memory, whatever its length.
//!
//! From outside: the handlers, and what streams a list.

pub(super) mod list;
mod list_writer;
pub(super) mod namespaces;
pub(super) mod newest;
mod newest_order;
mod pages;
pub(super) mod streamed;

pub(super) use list_writer::ListWriter;
pub(crate) use namespaces::stored_namespaces;
pub(super) use pages::Pages;
