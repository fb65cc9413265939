//! JSON as Kubernetes reads it. Writing is in [`tidings_core::wire`].
//!
//! `null` is the zero value; unknown and duplicate fields are noted rather than refused (the last
//! value is used); and a value of the wrong type is an error in Go's words.

mod read;
mod reading;

pub use crate::go::{Notes, complaint, replace_what_is_no_text};
pub use read::TypeMeta;
pub(super) use read::read_document;
pub use reading::Reading;
