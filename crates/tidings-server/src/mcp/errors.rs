//! What is wrong with a call, what is accepted, and what to call instead.

use super::source::Refused;
use super::text::clean;

/// Maximum bytes of a reason.
const WHY_MAX: usize = 600;

/// Why a tool, prompt or resource has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such tool, prompt or resource.
    #[error("there is no {what} {name:?}")]
    Unknown {
        /// What there is not.
        what: &'static str,
        /// Its name.
        name: String,
        /// The names that there are.
        accepted: String,
    },
    /// An argument has a wrong name or value.
    #[error("{name}: {why}")]
    Argument {
        /// Its name.
        name: String,
        /// What is wrong, and what is accepted.
        why: String,
    },
    /// The source refuses the request.
    #[error("{0}")]
    Refused(Refused),
    /// The source's answer cannot be read.
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
}

impl CallError {
    pub(super) fn argument(name: &str, why: impl Into<String>) -> Self {
        Self::Argument {
            name: name.to_owned(),
            why: why.into(),
        }
    }

    /// The error, the words of the server behind `| `, and what to call instead, each in a line for
    /// an agent.
    pub fn advice(&self) -> String {
        let instead = match self {
            Self::Unknown { accepted, .. } => format!("accepted: {accepted}"),
            Self::Argument { .. } => {
                "correct the argument and call again; the tool's schema has all arguments"
                    .to_owned()
            }
            Self::Unreadable(_) => {
                "the server may be of another version: ask its operator".to_owned()
            }
            Self::Refused(refused) => instead_of(refused.code).to_owned(),
        };
        // What a server says is not ours, and another program may be what answers.
        let (error, words) = match self {
            Self::Refused(refused) => (
                format!("the server refuses this with {}", refused.code),
                Some(&refused.message),
            ),
            Self::Unreadable(why) => ("the server's answer cannot be read".to_owned(), Some(why)),
            Self::Unknown { .. } | Self::Argument { .. } => (self.to_string(), None),
        };
        let words = words.map(|words| format!("\n| {}", clean(words, WHY_MAX)));
        format!(
            "error: {}{}\ninstead: {instead}",
            clean(&error, WHY_MAX),
            words.unwrap_or_default()
        )
    }
}

/// What to do about a refusal.
fn instead_of(code: u16) -> &'static str {
    match code {
        400 => "call again with what is accepted; `clusters` lists the names of clusters",
        401 => "nothing can be read with these credentials: ask the user to log in again",
        403 => {
            "you may not list these events: call `clusters` for the namespaces that you may read, \
             or ask for the permission to list events"
        }
        404 => {
            "the event or cluster is not there, or you may not see it: call `search` for events \
             that are there, or `clusters`; an event that has expired is only in an archive"
        }
        429 | 503 | 504 => {
            "the server is busy or did not answer in time: call again in a few seconds, with a \
             later `since` or a namespace"
        }
        _ => "call `clusters` to see whether the server answers, and tell the user the error",
    }
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}
