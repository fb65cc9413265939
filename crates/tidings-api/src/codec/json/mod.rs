//! JSON as Kubernetes reads it. What is written is [`tidings_core::wire`]'s.
//!
//! Reading `null` leaves the zero value, an unknown or repeated field is noted rather than refused
//! (the last one wins), and what is of another kind than it has to be is told in Go's words.

mod read;
mod reading;

pub use crate::go::{Notes, complaint, replace_what_is_no_text};
pub use read::TypeMeta;
pub(super) use read::read_document;
pub use reading::Reading;
