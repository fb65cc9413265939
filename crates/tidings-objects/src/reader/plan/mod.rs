//! Which parts of which files a request has to read.
//!
//! Invariant: every part that may have a wanted row is planned; statistics only leave out others.
//!
//! From outside: a [`View`] is a manifest with its tail, [`Objects`] iterates over the objects in
//! it, and a [`Selection`] is what a request looks for.

mod objects;
mod selection;
mod view;

pub(super) use objects::{Object, Objects, Part};
pub(super) use selection::Selection;
pub(super) use view::{At, GROUPS_TOGETHER, Named, Pick, SOURCES_AT_ONCE, Source, View};
