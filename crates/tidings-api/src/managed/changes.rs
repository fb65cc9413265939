//! The fields that a write changed, from a comparison of two typed events without JSON.
//!
//! [`crate::codec`] walks the table of fields and calls this for each field.

use super::set::{FieldSet, PathElement};

/// The differences between two objects (`typed.Comparison` upstream).
#[derive(Debug, Default)]
pub(crate) struct Changes {
    path: Vec<PathElement>,
    /// The fields that were added or modified.
    pub(crate) written: FieldSet,
    /// The fields that were removed.
    pub(crate) removed: FieldSet,
}

impl Changes {
    /// Compares a field that is owned as a whole; `None` means that it is not set.
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

    /// Compares a field whose parts are owned separately; `parts` walks the parts.
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

    /// Records that the current field differs.
    pub(crate) fn note(&mut self, was: bool, is: bool) {
        if is {
            self.written.insert(&self.path);
        } else if was {
            self.removed.insert(&self.path);
        }
    }
}
