//! Go's wording of values and errors that clients see.
//!
//! It is the wording of Go's standard library and of Kubernetes' own packages.
//! `docs/adr/0010-error-texts-of-go.md` says which texts are the same word for word, and for which
//! only status code and reason are. Quoting is in [`tidings_core::validate`], which needs it, too.

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
