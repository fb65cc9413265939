//! Formats errors and untrusted texts on one line.

use std::error::Error;
use std::io::Write;

use super::terminal::errors;

/// The text of an error with its causes, which the client's errors need. Of a refusal it is only
/// the server's message.
pub(crate) fn with_sources(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return one_line(&status.message);
    }
    let text = error.to_string();
    // The client's prefix for every failure without an answer.
    let mut text = text
        .strip_prefix("ServiceError: ")
        .unwrap_or(&text)
        .to_owned();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        let more = more.strip_prefix("ServiceError: ").unwrap_or(&more);
        if !text.contains(more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    one_line(&text)
}

/// Prints a note on standard error.
pub(crate) fn tell(text: &str) {
    // A closed pipe is no reason to stop; the exit code has the same information.
    let _ = writeln!(errors(), "{}", one_line(text));
}

/// Makes untrusted text one line that is safe on a terminal.
pub(crate) use tidings_cli::text::message as one_line;
