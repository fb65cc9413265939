//! Regular expressions of RE2, as patterns of conditions.
//!
//! A pattern that RE2 does not accept never matches in kubernetes-event-exporter, and it says
//! nothing. So both are told apart here. Only some of the accepted patterns have a form: texts,
//! alternatives, `.*` and anchors.

use super::expression::{Node, parse};

/// Maximum alternatives of a pattern.
const ALTERNATIVES_MAX: usize = 32;

/// A pattern as patterns of a condition, in which `*` stands for any characters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Values {
    /// The alternatives.
    pub(super) alternatives: Vec<String>,
    /// Whether upper and lower case are the same.
    pub(super) is_any_case: bool,
}

/// Why a pattern has no values.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatternError {
    /// RE2 does not accept it; in Go's words.
    Invalid(String),
    /// A condition has nothing like this part.
    Inexpressible(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    Char(char),
    Star,
    Start,
    End,
}

/// Returns the values of a pattern, which matches anywhere in a field unless it is anchored.
pub(super) fn values(pattern: &str) -> Result<Values, PatternError> {
    let (node, is_any_case) = parse(pattern).map_err(PatternError::Invalid)?;
    let mut alternatives = Vec::new();
    for pieces in expand(&node)? {
        let start = usize::from(pieces.first() == Some(&Piece::Start));
        let end = pieces.len() - usize::from(pieces.last() == Some(&Piece::End));
        let inner = pieces.get(start..end.max(start)).unwrap_or_default();
        if inner
            .iter()
            .any(|piece| matches!(piece, Piece::Start | Piece::End))
        {
            let why = "an anchor in the middle".to_owned();
            return Err(PatternError::Inexpressible(why));
        }
        alternatives.push(value(start > 0, inner, end < pieces.len())?);
    }
    alternatives.dedup();
    Ok(Values {
        alternatives,
        is_any_case,
    })
}

/// Writes a pattern of a condition.
fn value(starts: bool, pieces: &[Piece], ends: bool) -> Result<String, PatternError> {
    let refuse = |what: &str| Err(PatternError::Inexpressible(what.to_owned()));
    let mut text = String::new();
    if !starts {
        text.push('*');
    }
    for piece in pieces {
        match piece {
            Piece::Char('*') => return refuse("a star"),
            Piece::Char(character) => text.push(*character),
            _ => text.push('*'),
        }
    }
    if !ends {
        text.push('*');
    }
    while text.contains("**") {
        text = text.replace("**", "*");
    }
    if text.is_empty() {
        return refuse("an empty text");
    }
    Ok(text)
}

/// Returns the alternatives of a node.
fn expand(node: &Node) -> Result<Vec<Vec<Piece>>, PatternError> {
    let other = |what: &str| Err(PatternError::Inexpressible(what.to_owned()));
    let all = match node {
        Node::Char(character) => vec![vec![Piece::Char(*character)]],
        Node::Start => vec![vec![Piece::Start]],
        Node::End => vec![vec![Piece::End]],
        Node::Any => return other("'.', which is any character"),
        Node::Other(what) => return other(what),
        Node::Class(characters) => {
            let characters = characters.iter();
            characters.map(|c| vec![Piece::Char(*c)]).collect()
        }
        Node::Alternatives(nodes) => {
            let mut all = Vec::new();
            for node in nodes {
                all.extend(expand(node)?);
            }
            all
        }
        Node::Sequence(nodes) => {
            let mut all = vec![Vec::new()];
            for node in nodes {
                let next = expand(node)?;
                if all.len() * next.len() > ALTERNATIVES_MAX {
                    return other("its many alternatives");
                }
                all = all
                    .iter()
                    .flat_map(|before| {
                        let next = next.iter();
                        next.map(|after| [before.as_slice(), after].concat())
                    })
                    .collect();
            }
            all
        }
        Node::Repeat(inner, 0, None) if **inner == Node::Any => vec![vec![Piece::Star]],
        Node::Repeat(inner, 0, Some(1)) => {
            let mut all = vec![Vec::new()];
            all.extend(expand(inner)?);
            all
        }
        Node::Repeat(..) => return other("a repetition other than .* and ?"),
    };
    if all.len() > ALTERNATIVES_MAX {
        return other("its many alternatives");
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidings_core::filter::Pattern;

    use super::*;

    #[test]
    fn patterns_become_values() {
        for (pattern, expected) in [
            ("Pod|Deployment", vec!["*Pod*", "*Deployment*"]),
            ("^Pod$", vec!["Pod"]),
            ("^kube-.*", vec!["kube-*"]),
            ("^(dev|test)-a$", vec!["dev-a", "test-a"]),
            ("[Ff]ailed", vec!["*Failed*", "*failed*"]),
            ("^Backoffs?$", vec!["Backoff", "Backoffs"]),
            (r"^a\.b$", vec!["a.b"]),
            ("", vec!["*"]),
            (".*", vec!["*"]),
            ("Back-off \"x\"", vec!["*Back-off \"x\"*"]),
            ("a{b", vec!["*a{b*"]),
            ("(?i)normal", vec!["*normal*"]),
            ("(?:a)(?P<n>b)", vec!["*ab*"]),
        ] {
            let found = values(pattern).unwrap();
            assert_eq!(found.alternatives, expected, "{pattern}");
        }
        assert!(values("(?i)normal").unwrap().is_any_case);
    }

    /// Each text is what Go 1.26's regexp says of the pattern, as far as it is stated.
    #[test]
    fn patterns_that_go_refuses_are_invalid() {
        for (pattern, words) in [
            ("*test*", "missing argument to repetition operator: `*`"),
            ("+", "missing argument to repetition operator: `+`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            (
                "(?!kube-system)",
                "invalid or unsupported Perl syntax: `(?!`",
            ),
            ("(?<!a)", "invalid or unsupported Perl syntax: `(?<!`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("(a", "missing closing )"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("a\\", "trailing backslash at end of expression"),
            ("\\y", "invalid escape sequence: `\\y`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("{2}", "missing argument to repetition operator: `{2}`"),
        ] {
            let expected = Err(PatternError::Invalid(words.to_owned()));
            assert_eq!(values(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn other_patterns_are_named() {
        for pattern in [
            "a.b",
            "^$",
            r"a\*",
            "a+",
            "[^a]",
            "\\d",
            "(ab)*",
            "a^b",
            "[a-z]",
            "[[:alpha:]]x",
        ] {
            let found = values(pattern);
            assert!(
                matches!(found, Err(PatternError::Inexpressible(_))),
                "{pattern}: {found:?}"
            );
        }
    }

    proptest! {
        /// A text whose special characters are escaped selects what contains it.
        #[test]
        fn an_escaped_text_is_itself(text in "[a-z0-9 \":.-]{1,20}", before in "[a-z*]{0,3}") {
            let escaped: String = text
                .chars()
                .flat_map(|c| (!c.is_alphanumeric() && c != ' ').then_some('\\').into_iter().chain([c]))
                .collect();
            let found = values(&format!("^{escaped}$")).unwrap();
            prop_assert_eq!(found.alternatives, [text.as_str()]);
            let found = values(&format!("{escaped}$")).unwrap();
            let pattern = Pattern::glob(&found.alternatives[0]);
            let (it, other) = (format!("{before}{text}"), format!("{text}!"));
            prop_assert!(pattern.matches(&it) && !pattern.matches(&other));
        }
    }
}
