//! Who is let in. Nobody is, unless they show a bearer token this server knows; nobody is anonymous.

mod tokens;

use http::{HeaderMap, header};
use subtle::ConstantTimeEq;

pub use tokens::{TokenFileError, parse_token_file};

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// A name that is never given again; may be empty.
    pub uid: String,
    /// The groups, `system:authenticated` among them.
    pub groups: Vec<String>,
}

impl User {
    /// A user of these groups, and of `system:authenticated`.
    pub fn new(
        name: impl Into<String>,
        uid: impl Into<String>,
        groups: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        let everybody = "system:authenticated";
        if !groups.iter().any(|group| group == everybody) {
            groups.push(everybody.into());
        }
        Self {
            name: name.into(),
            uid: uid.into(),
            groups,
        }
    }
}

/// A bearer token and whose it is. Its `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// Who shows it.
    pub user: User,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Knows users by their tokens.
#[derive(Clone, Debug, Default)]
pub struct Authenticator {
    tokens: Vec<Token>,
}

impl Authenticator {
    /// Lets in those who show one of these tokens.
    pub fn new(tokens: Vec<Token>) -> Self {
        Self { tokens }
    }

    /// Who makes a request, if it shows a known token. Every token is compared, each in constant time.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Option<&User> {
        let shown = bearer_token(headers)?.as_bytes();
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.token.as_bytes().ct_eq(shown)) {
                found = Some(&token.user);
            }
        }
        found
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_known_tokens_are_let_in() {
        let token = |token: &str, name| Token {
            token: token.into(),
            user: User::new(name, "", []),
        };
        let authenticator = Authenticator::new(vec![token("s3cret", "ann"), token("other", "bob")]);
        for (header, name) in [
            ("Bearer s3cret", Some("ann")),
            ("bearer  other ", Some("bob")),
            ("Bearer s3cre", None),
            ("Bearer s3crett", None),
            ("Bearer ", None),
            ("Basic s3cret", None),
            ("s3cret", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(
                header::AUTHORIZATION,
                HeaderValue::from_str(header).unwrap(),
            );
            assert_eq!(
                authenticator
                    .authenticate(&headers)
                    .map(|user| user.name.as_str()),
                name,
                "{header}"
            );
        }
        assert!(authenticator.authenticate(&HeaderMap::new()).is_none());
        assert!(!format!("{authenticator:?}").contains("s3cret"));
    }
}
