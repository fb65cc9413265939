//! The `fieldValidation` of a write: how unknown and duplicate fields are treated.

/// How a write treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Such fields are dropped silently.
    Ignore,
    /// Such fields are dropped, and the answer has a warning.
    Warn,
    /// Such fields refuse the write.
    Strict,
}

impl FieldValidation {
    /// Converts notes about fields to the answer's warnings.
    ///
    /// # Errors
    ///
    /// The error in Go's words, if the fields refuse the write.
    pub fn heed(self, notes: Vec<String>) -> Result<Vec<String>, String> {
        self.heed_as("strict decoding error: ", notes)
    }

    /// Like [`heed`](Self::heed), with `complaint` as the beginning of the error.
    ///
    /// # Errors
    ///
    /// The error, if the fields refuse the write.
    pub fn heed_as(self, complaint: &str, notes: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Strict if !notes.is_empty() => Err(format!("{complaint}{}", notes.join(", "))),
            Self::Warn | Self::Strict => Ok(notes),
        }
    }
}
