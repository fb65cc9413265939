//! The token file, in kube-apiserver's form: lines of `token,user,uid` and, if any, `"group1,group2"`.

use super::{Token, User};

/// What is wrong with a token file. No token is ever part of a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The line has fewer than three columns.
    #[error(
        "line {line}: expected at least 3 columns (token, user name, user uid), found {columns}"
    )]
    TooFewColumns {
        /// The line's number, from one.
        line: u64,
        /// How many columns it has.
        columns: usize,
    },
    /// The line's token or user is empty.
    #[error("line {line}: the {column} is empty")]
    Empty {
        /// The line's number, from one.
        line: u64,
        /// `token` or `user name`.
        column: &'static str,
    },
    /// It is no CSV.
    #[error("line {line}: not valid CSV in UTF-8")]
    Csv {
        /// The line's number, from one.
        line: u64,
    },
    /// Nobody could come in.
    #[error("the file holds no token")]
    NoTokens,
}

/// Reads a token file.
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
    if tokens.is_empty() {
        Err(TokenFileError::NoTokens)
    } else {
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_refused() {
        for (file, error) in [
            ("", "the file holds no token"),
            ("# only a comment\n", "the file holds no token"),
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
        assert!(matches!(
            parse_token_file(b"\xff,a,b"),
            Err(TokenFileError::Csv { .. })
        ));
    }
}
