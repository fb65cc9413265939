//! What is noted on the way through JSON: where the reader is, which fields were unknown or given
//! twice.

use serde::de::Error;

use crate::go::{Notes, cannot_unmarshal, unstructured_mismatch};

/// What a decoder notes in addition to the value: where it is, which fields were unknown or given
/// twice, and what was of another kind than it has to be, all in Go's words.
#[derive(Default, Debug)]
pub struct Reading {
    pub(super) path: Vec<Step>,
    /// Which fields were unknown or given twice.
    pub notes: Notes,
    /// The first value of a wrong kind. Go reads on, and tells of it at the end.
    mismatch: Option<String>,
    /// A value that ended the reading at once.
    fatal: Option<String>,
    /// Why it cannot be told what it is that is read.
    uninterpretable: Option<String>,
    /// Whether what is read comes from a map in memory, of which Go speaks otherwise.
    unstructured: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// A field of a Go struct of that name.
    Field(&'static str, &'static str),
    Index(usize),
}

/// What Go first reads of every document.
const TYPE_META: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
    \"json:\\\"kind,omitempty\\\"\" }";

impl Reading {
    /// For what a strategic merge patch made (`runtime.DefaultUnstructuredConverter`).
    pub(crate) fn of_unstructured() -> Self {
        Self {
            unstructured: true,
            ..Self::default()
        }
    }

    fn path(&self, last: Option<&str>) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(_, name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Index(index) => {
                    text.push('[');
                    text.push_str(&index.to_string());
                    text.push(']');
                }
            }
        }
        if let Some(last) = last {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(last);
        }
        text
    }

    /// Paths are as long as a name and the few steps to it.
    pub(super) fn note(&mut self, what: &str, name: &str) {
        let path = self.path(Some(name));
        self.notes.note(what, &path);
    }

    /// Ends the reading, as an error of a Go type's own decoder does.
    pub(crate) fn fail<E: Error>(&mut self, message: String) -> E {
        let error = E::custom(&message);
        self.fatal.get_or_insert(message);
        error
    }

    /// Ends the reading because a time is no text.
    pub(crate) fn fail_time<E: Error>(&mut self, found: &str) -> E {
        let place = match self.within() {
            Some(place) if !self.unstructured => format!("struct field {place}"),
            _ => "value".to_owned(),
        };
        self.fail(cannot_unmarshal(found, &format!("{place} of type string")))
    }

    /// Where the reading is: the innermost struct, and the names down to it.
    fn within(&self) -> Option<String> {
        let names = self.path.iter().filter_map(|step| match step {
            Step::Field(of, name) => Some((*of, *name)),
            Step::Index(_) => None,
        });
        let (structs, names): (Vec<_>, Vec<_>) = names.unzip();
        Some(format!("{}.{}", structs.last()?, names.join(".")))
    }

    /// Notes that something else stands where a value of a Go type has to.
    pub(crate) fn mismatch(&mut self, found: &str, expected: &str) {
        if self.mismatch.is_some() {
            return;
        }
        if self.unstructured {
            self.mismatch = Some(unstructured_mismatch(found, expected));
            return;
        }
        let last = match self.path.last() {
            Some(Step::Field(_, name)) => *name,
            _ => "",
        };
        let place = match self.within() {
            Some(_) if self.path.len() == 1 && matches!(last, "kind" | "apiVersion") => {
                format!("struct field .{last} of type string")
            }
            None => format!("value of type {TYPE_META}"),
            Some(place) => {
                let expected = match (expected, last) {
                    ("string", "uid") => "types.UID",
                    ("string", "operation") => "v1.ManagedFieldsOperationType",
                    ("string", "propagationPolicy") => "v1.DeletionPropagation",
                    _ => expected,
                };
                let place = format!("struct field {place} of type {expected}");
                self.mismatch = Some(cannot_unmarshal(found, &place));
                return;
            }
        };
        let why = cannot_unmarshal(found, &place);
        let why = format!("couldn't get version/kind; json parse error: {why}");
        self.uninterpretable.get_or_insert(why);
    }

    /// The integer that a number with a point is to Go, where it comes from a map in memory.
    pub(crate) fn whole(&self, number: &str) -> Option<i64> {
        if !self.unstructured {
            return None;
        }
        number.strip_suffix(".0")?.parse().ok()
    }

    /// Why it cannot be told what was read, if it cannot.
    pub fn uninterpretable(&self) -> Option<&str> {
        self.uninterpretable.as_deref()
    }

    /// Why what was read does not count, if it does not.
    pub fn complaint(&self) -> Option<&str> {
        self.fatal.as_deref().or(self.mismatch.as_deref())
    }
}
