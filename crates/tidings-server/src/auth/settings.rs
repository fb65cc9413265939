//! Reads settings files in YAML (and so JSON). Errors have the line.

use serde::de::DeserializeOwned;
use serde_saphyr::Spanned;

/// An error in a settings file, with its line. The caller adds the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SettingsError {
    /// The line, counted from 1; that of the first mistake if there are several.
    pub line: u64,
    /// The mistake, and what is accepted.
    pub message: String,
}

impl SettingsError {
    pub(crate) fn at<T>(value: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            line: value.referenced.line(),
            message: message.into(),
        }
    }
}

/// Reads the text of a settings file.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, SettingsError> {
    serde_saphyr::from_str(text).map_err(|error| SettingsError {
        line: error.location().map_or(1, |location| location.line()),
        message: bare(&error),
    })
}

/// An error's text without its position, which is reported separately.
fn bare(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

/// Refuses a file of another kind or version.
pub(crate) fn check_kind(
    api_version: Option<&Spanned<String>>,
    kind: Option<&Spanned<String>>,
    expected: (&[&str], &str),
) -> Result<(), SettingsError> {
    let (versions, expected_kind) = expected;
    match (api_version, kind) {
        (Some(version), _) if !versions.contains(&version.value.as_str()) => {
            let message = format!(
                "apiVersion is {:?}, expected {}",
                version.value,
                versions.join(" or ")
            );
            Err(SettingsError::at(version, message))
        }
        (_, Some(kind)) if kind.value != expected_kind => {
            let message = format!("kind is {:?}, expected {expected_kind}", kind.value);
            Err(SettingsError::at(kind, message))
        }
        (Some(_), Some(_)) => Ok(()),
        _ => Err(SettingsError {
            line: 1,
            message: format!(
                "apiVersion and kind are needed: {} and {expected_kind}",
                versions.join(" or ")
            ),
        }),
    }
}
