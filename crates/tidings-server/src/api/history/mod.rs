//! The resources of an archive: versions, coverage, counts, export, pending versions; and its API
//! group, as the home cluster's API server shows it.
//!
//! From outside: the handlers.

mod group;
mod handlers;

pub(crate) use group::{documents, resources, version};
pub(super) use handlers::{counts, coverage, export, versions, waiting};
