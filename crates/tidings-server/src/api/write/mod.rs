//! Create, update, patch, apply and delete.
//!
//! Invariant: a write is answered after the store has it.
//!
//! From outside: the handlers.

mod apply;
mod commit;
pub(super) mod delete;
mod handlers;
pub(super) mod rules;

pub(super) use handlers::{create, patch, replace};
pub(crate) use rules::index;
