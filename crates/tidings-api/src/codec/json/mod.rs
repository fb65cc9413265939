//! Reads JSON as Kubernetes does. Writing is in [`tidings_core::wire`].
//!
//! `null` is read as the zero value. Unknown and duplicate fields are noted and not refused; the
//! last duplicate counts. A value of the wrong type is an error in Go's words.

mod read;
mod reading;

pub use crate::go::{Notes, complaint, replace_what_is_no_text};
pub use read::TypeMeta;
pub(super) use read::read_document;
pub use reading::Reading;
