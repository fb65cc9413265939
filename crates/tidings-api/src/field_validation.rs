//! `fieldValidation` of a write: how unknown and duplicate fields are treated.

/// How a write treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped, with a warning in the answer.
    Warn,
    /// The write is refused.
    Strict,
}

impl FieldValidation {
    /// Converts notes about fields to warnings.
    ///
    /// # Errors
    /// The error, in Go's words, if they are refused.
    pub fn heed(self, notes: Vec<String>) -> Result<Vec<String>, String> {
        self.heed_as("strict decoding error: ", notes)
    }

    /// The same, with the beginning of the error.
    ///
    /// # Errors
    /// The error, if they are refused.
    pub fn heed_as(self, complaint: &str, notes: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Strict if !notes.is_empty() => Err(format!("{complaint}{}", notes.join(", "))),
            Self::Warn | Self::Strict => Ok(notes),
        }
    }
}
