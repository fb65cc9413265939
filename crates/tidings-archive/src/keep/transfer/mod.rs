//! Exports and imports of a cluster: its lines, read page by page and written again.
//!
//! Invariant: a repeated import changes nothing.
//!
//! From outside: [`export_head`] and [`export_page`] return lines, [`import_lines`] writes them,
//! and [`walk`] passes all that is kept.

mod exchange;
mod export;
mod import;
#[cfg(test)]
mod tests;

pub(super) use export::{Place, walk};
pub(crate) use export::{export_head, export_page};
pub(crate) use import::import_lines;
pub use import::{ImportError, Imported};
