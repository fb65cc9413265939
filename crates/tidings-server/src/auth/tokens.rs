//! Static tokens: their file, and the table in which they are looked up.
//!
//! The file has kube-apiserver's form: lines of `token,user,uid` and optionally `"group1,group2"`.

use std::collections::HashMap;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use ring::digest::{SHA256, digest};

use super::User;

/// A bearer token and its user. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The secret token.
    pub token: String,
    /// The user of the token.
    pub user: User,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The `Authorization` header for a token.
///
/// # Errors
///
/// The token has characters that no header can have.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// The digest of a secret, by which it is looked up. So the time of a look-up tells nothing about
/// the secret itself.
pub(crate) type Digest = [u8; 32];

pub(crate) fn digest_of(text: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}

/// Users by the digests of their tokens. As in kube-apiserver, a token that occurs twice is the
/// later user's.
#[derive(Default)]
pub(super) struct TokenTable(HashMap<Digest, User>);

impl TokenTable {
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        let entries = tokens
            .into_iter()
            .map(|token| (digest_of(&token.token), token.user));
        Self(entries.collect())
    }

    pub(super) fn find(&self, digest: &Digest) -> Option<&User> {
        self.0.get(digest)
    }
}

/// An error in a token file. Messages never contain a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// A line has fewer than three columns.
    #[error(
        "line {line}: expected at least 3 columns (token, user name, user uid), found {columns}"
    )]
    TooFewColumns {
        /// The line's number, from 1.
        line: u64,
        /// Number of columns in the line.
        columns: usize,
    },
    /// A line's token or user is empty.
    #[error("line {line}: the {column} is empty")]
    Empty {
        /// The line's number, from 1.
        line: u64,
        /// `token` or `user name`.
        column: &'static str,
    },
    /// The file is no CSV.
    #[error("line {line}: not valid CSV in UTF-8")]
    Csv {
        /// The line's number, from 1.
        line: u64,
    },
}

/// Reads a token file. One without a line is a file without tokens, as in kube-apiserver: emptied,
/// it revokes all it held.
///
/// # Errors
/// [`TokenFileError`] says which line is wrong and how.
///
/// ```
/// let tokens = tidings_server::parse_token_file(b"s3cret,ann,7,\"dev,ops\"\n")?;
/// assert_eq!(tokens[0].user.name, "ann");
/// assert_eq!(tokens[0].user.groups, ["dev", "ops", "system:authenticated"]);
/// # Ok::<_, tidings_server::TokenFileError>(())
/// ```
pub fn parse_token_file(bytes: &[u8]) -> Result<Vec<Token>, TokenFileError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let mut tokens = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| TokenFileError::Csv {
            line: error.position().map_or(0, csv::Position::line),
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let (Some(token), Some(name), Some(uid)) = (record.get(0), record.get(1), record.get(2))
        else {
            return Err(TokenFileError::TooFewColumns {
                line,
                columns: record.len(),
            });
        };
        for (column, value) in [("token", token), ("user name", name)] {
            if value.is_empty() {
                return Err(TokenFileError::Empty { line, column });
            }
        }
        let groups = record
            .get(3)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|group| !group.is_empty());
        tokens.push(Token {
            token: token.into(),
            user: User::new(name, uid, groups.map(str::to_owned)),
        });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_refused() {
        for (file, error) in [
            (
                "s3cret,ann\n",
                "line 1: expected at least 3 columns (token, user name, user uid), found 2",
            ),
            ("a,b,c\n,ann,1\n", "line 2: the token is empty"),
            ("s3cret,,1\n", "line 1: the user name is empty"),
        ] {
            assert_eq!(
                parse_token_file(file.as_bytes()).unwrap_err().to_string(),
                error
            );
        }
        for empty in ["", "\n", "# only a comment\n"] {
            assert_eq!(parse_token_file(empty.as_bytes()).unwrap(), []);
        }
        assert!(matches!(
            parse_token_file(b"\xff,a,b"),
            Err(TokenFileError::Csv { .. })
        ));
    }
}
