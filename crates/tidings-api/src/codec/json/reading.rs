//! The state of decoding JSON: the current path, and notes on unknown and duplicate fields.

use serde::de::Error;

use crate::go::{Notes, cannot_unmarshal, unstructured_mismatch};

/// The findings of a decoder besides the decoded value. They are unknown and duplicate fields, and
/// values of the wrong type, all in Go's words.
#[derive(Default, Debug)]
pub struct Reading {
    pub(super) path: Vec<Step>,
    /// Notes on unknown and duplicate fields.
    pub notes: Notes,
    /// The first value of a wrong type. Go continues after it, and reports it at the end.
    mismatch: Option<String>,
    /// The error that ended the decoding at once.
    fatal: Option<String>,
    /// The reason why the document's kind cannot be read.
    uninterpretable: Option<String>,
    /// Whether the source is a map in memory, for which Go words errors differently.
    unstructured: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The Go struct and the name of its field.
    Field(&'static str, &'static str),
    Index(usize),
}

/// The Go type that every document is first decoded to.
const TYPE_META: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
    \"json:\\\"kind,omitempty\\\"\" }";

impl Reading {
    /// State for reading the result of a strategic merge patch. It is a map in memory
    /// (`runtime.DefaultUnstructuredConverter`).
    pub(crate) fn of_unstructured() -> Self {
        Self {
            unstructured: true,
            ..Self::default()
        }
    }

    fn path_to(&self, last: &str) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(_, name) => path.extend([".", *name]),
                Step::Index(index) => path.extend(["[", index.to_string().as_str(), "]"]),
            }
        }
        path.extend([".", last]);
        // The first name has no dot before it.
        path.strip_prefix('.').unwrap_or(&path).to_owned()
    }

    /// Notes a field under its path, which has a few short steps.
    pub(super) fn note(&mut self, what: &str, name: &str) {
        let path = self.path_to(name);
        self.notes.note(what, &path);
    }

    /// Ends the decoding, like an error of a Go type's own decoder.
    pub(crate) fn fail<E: Error>(&mut self, message: String) -> E {
        let error = E::custom(&message);
        self.fatal.get_or_insert(message);
        error
    }

    /// Ends the decoding because a time is not a string.
    pub(crate) fn fail_time<E: Error>(&mut self, found: &str) -> E {
        let place = match self.within() {
            Some(place) if !self.unstructured => format!("struct field {place}"),
            _ => "value".to_owned(),
        };
        self.fail(cannot_unmarshal(found, &format!("{place} of type string")))
    }

    /// The current place in Go's words: the innermost struct, and the names that lead to it.
    fn within(&self) -> Option<String> {
        let names = self.path.iter().filter_map(|step| match step {
            Step::Field(of, name) => Some((*of, *name)),
            Step::Index(_) => None,
        });
        let (structs, names): (Vec<_>, Vec<_>) = names.unzip();
        Some(format!("{}.{}", structs.last()?, names.join(".")))
    }

    /// Records that a value is not of the expected Go type.
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

    /// The integer of a float without a fraction, which Go accepts from a map in memory.
    pub(crate) fn whole(&self, number: &str) -> Option<i64> {
        if !self.unstructured {
            return None;
        }
        number.strip_suffix(".0")?.parse().ok()
    }

    /// The reason why the kind of the document could not be read, if it could not.
    pub fn uninterpretable(&self) -> Option<&str> {
        self.uninterpretable.as_deref()
    }

    /// The reason why the document is refused, if it is.
    pub fn complaint(&self) -> Option<&str> {
        self.fatal.as_deref().or(self.mismatch.as_deref())
    }
}
