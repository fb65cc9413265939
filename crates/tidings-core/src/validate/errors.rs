//! Errors about the fields of an object, in bounded memory.

use std::fmt::{self, Display};
use std::ops::Deref;

use super::bounded::bounded_text;
use super::quote::Quoted;

/// Maximum length of an error's value and of its detail, in bytes of JSON. A longer text is cut.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The reason for refusing a field, in the words of
/// `k8s.io/apimachinery/pkg/util/validation/field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `FieldValueRequired`: a value must be given.
    Required,
    /// `FieldValueInvalid`: the value is invalid.
    Invalid,
    /// `FieldValueForbidden`: a value may not be given.
    Forbidden,
    /// `FieldValueTooLong`: the value is too long.
    TooLong,
    /// `FieldValueNotSupported`: the value is not one of those accepted.
    NotSupported,
}

impl Cause {
    /// The reason as in a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::NotSupported => "FieldValueNotSupported",
        }
    }
}

/// A refused field and the reason. Its `Display` is the message of a Status cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `involvedObject.namespace`.
    pub field: String,
    /// The class of the error.
    pub cause: Cause,
    /// The refused value as printed, for [`Cause::Invalid`] and [`Cause::NotSupported`].
    pub value: String,
    /// What is accepted; may be empty.
    pub detail: String,
}

impl FieldError {
    /// The error for an invalid value, which is printed in quotes.
    pub fn invalid(field: impl Into<String>, value: &str, detail: impl Display) -> Self {
        Self::invalid_as(field, Quoted(value), detail)
    }

    /// The error for an invalid value, which is printed as it is given.
    pub fn invalid_as(field: impl Into<String>, value: impl Display, detail: impl Display) -> Self {
        Self::new(field, Cause::Invalid, value, detail)
    }

    /// The error for a value that must be given.
    pub fn required(field: impl Into<String>, detail: impl Display) -> Self {
        Self::new(field, Cause::Required, "", detail)
    }

    /// The error for a value that may not be given.
    pub fn forbidden(field: impl Into<String>, detail: impl Display) -> Self {
        Self::new(field, Cause::Forbidden, "", detail)
    }

    /// An error of any class. Value and detail are cut at 16 KiB of JSON each.
    pub fn new(
        field: impl Into<String>,
        cause: Cause,
        value: impl Display,
        detail: impl Display,
    ) -> Self {
        Self {
            field: field.into(),
            cause,
            value: bounded_text(value, TEXT_BYTES_MAX),
            detail: bounded_text(detail, TEXT_BYTES_MAX),
        }
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Required => f.write_str("Required value")?,
            Cause::Invalid => write!(f, "Invalid value: {}", self.value)?,
            Cause::Forbidden => f.write_str("Forbidden")?,
            Cause::TooLong => f.write_str("Too long")?,
            Cause::NotSupported => write!(f, "Unsupported value: {}", self.value)?,
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.detail)
        }
    }
}

/// The errors in upstream's order, as a slice. It has the first errors, up to
/// [`FieldErrors::BYTES_MAX`] bytes of text. Further errors are not made, but counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    kept: Vec<FieldError>,
    bytes: usize,
    more: usize,
}

impl FieldErrors {
    /// Bytes of text beyond which further errors are only counted: about a hundred errors.
    pub const BYTES_MAX: usize = 32 * 1024;

    /// Adds an error, which is made only if there is room for it.
    pub fn push(&mut self, error: impl FnOnce() -> FieldError) {
        if self.bytes >= Self::BYTES_MAX {
            self.more += 1;
            return;
        }
        let error = error();
        self.bytes += error.field.len() + error.value.len() + error.detail.len();
        self.kept.push(error);
    }

    /// Adds the errors of another list.
    pub fn append(&mut self, others: Self) {
        for error in others.kept {
            self.push(|| error);
        }
        self.more += others.more;
    }

    /// Number of errors beyond those in the slice.
    pub fn more(&self) -> usize {
        self.more
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.kept
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        let mut errors = Self::default();
        errors.push(|| error);
        errors
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        for error in errors {
            self.push(|| error);
        }
    }
}
