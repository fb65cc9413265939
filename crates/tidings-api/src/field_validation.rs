//! What becomes of fields that are unknown or given twice (`fieldValidation` of a write).

/// What a write does about fields that are unknown or given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped, and the answer warns of them.
    Warn,
    /// The write is refused.
    Strict,
}

impl FieldValidation {
    /// The warnings that `notes` about fields become.
    ///
    /// # Errors
    /// The complaint, in Go's words, if they are not accepted.
    pub fn heed(self, notes: Vec<String>) -> Result<Vec<String>, String> {
        self.heed_as("strict decoding error: ", notes)
    }

    /// The same with the beginning of the complaint.
    ///
    /// # Errors
    /// That and the notes, if they are not accepted.
    pub fn heed_as(self, complaint: &str, notes: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Strict if !notes.is_empty() => Err(format!("{complaint}{}", notes.join(", "))),
            Self::Warn | Self::Strict => Ok(notes),
        }
    }
}
