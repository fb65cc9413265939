//! Go's wording of values and errors, for the answers that clients get to see: what the standard
//! library and Kubernetes' own packages print. Nothing else of this crate states such words twice.
//!
//! Which of them are promised to the word, and which only by status code and reason, is decided in
//! `docs/adr/0010-words-of-go.md`. Quoting itself is in [`tidings_core::validate`], as the rules of
//! recording need it, too.

mod notes;
mod scheme;
mod syntax;
pub(crate) mod time;
mod unmarshal;
mod value;

pub use notes::Notes;
pub use scheme::{not_registered, unknown_kind};
pub use syntax::{complaint, replace_what_is_no_text};
pub(crate) use unmarshal::{cannot_unmarshal, kind, unstructured_mismatch};
pub(crate) use value::{GoList, GoMap, GoSyntax, GoValue, go_type};
