//! What a write did to an object's fields, found by walking two typed events side by side: no JSON
//! is made.
//!
//! The table says which fields there are in which version; [`crate::codec`] walks it and calls
//! here for each.

use super::set::{FieldSet, PathElement};

/// The differences of two objects (`typed.Comparison` upstream).
#[derive(Debug, Default)]
pub(crate) struct Changes {
    path: Vec<PathElement>,
    /// What was added or got another value.
    pub(crate) written: FieldSet,
    /// What is not there any more.
    pub(crate) removed: FieldSet,
}

impl Changes {
    /// A field that is written as a whole. `None` is a side that does not have it.
    pub(crate) fn leaf<T: PartialEq + ?Sized>(
        &mut self,
        element: PathElement,
        old: Option<&T>,
        new: Option<&T>,
    ) {
        if old == new {
            return;
        }
        self.path.push(element);
        self.note(old.is_some(), new.is_some());
        self.path.pop();
    }

    /// A field whose parts are written one by one; `parts` walks them.
    pub(crate) fn inside(
        &mut self,
        element: PathElement,
        was: bool,
        is: bool,
        parts: impl FnOnce(&mut Self),
    ) {
        if !was && !is {
            return;
        }
        self.path.push(element);
        if was != is {
            self.note(was, is);
        }
        parts(self);
        self.path.pop();
    }

    /// The field the walk stands at was or is there, and differs.
    pub(crate) fn note(&mut self, was: bool, is: bool) {
        if is {
            self.written.insert(&self.path);
        } else if was {
            self.removed.insert(&self.path);
        }
    }
}
