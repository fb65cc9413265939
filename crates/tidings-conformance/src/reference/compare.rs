//! Finds the differences of two documents, and tells which of them are intended.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::tree::Tree;

/// A difference between the answers.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    /// Where the difference is: keys and positions, such as `body.items.0.message`.
    pub(crate) at: String,
    /// The reference's value, if any.
    pub(crate) theirs: Option<Tree>,
    /// Our value, if any.
    pub(crate) ours: Option<Tree>,
}

/// Every difference between two documents, in the order of the reference's.
pub(crate) fn differences(theirs: &Tree, ours: &Tree) -> Vec<Difference> {
    let mut found = Vec::new();
    collect("", theirs, ours, &mut found);
    found
}

fn collect(at: &str, theirs: &Tree, ours: &Tree, found: &mut Vec<Difference>) {
    let below = |key: &str| {
        if at.is_empty() {
            key.to_owned()
        } else {
            format!("{at}.{key}")
        }
    };
    let differs = |at: String, theirs: Option<&Tree>, ours: Option<&Tree>| Difference {
        at,
        theirs: theirs.cloned(),
        ours: ours.cloned(),
    };
    match (theirs, ours) {
        (Tree::Map(their_entries), Tree::Map(our_entries)) => {
            let before = found.len();
            for (key, value) in their_entries {
                match ours.get(key) {
                    Some(other) => collect(&below(key), value, other, found),
                    None => found.push(differs(below(key), Some(value), None)),
                }
            }
            for (key, value) in our_entries {
                if theirs.get(key).is_none() {
                    found.push(differs(below(key), None, Some(value)));
                }
            }
            let keys = |entries: &[(String, Tree)]| {
                Tree::List(entries.iter().map(|(key, _)| key.as_str().into()).collect())
            };
            let (theirs, ours) = (keys(their_entries), keys(our_entries));
            if found.len() == before && theirs != ours {
                found.push(differs(below("(order)"), Some(&theirs), Some(&ours)));
            }
        }
        (Tree::List(their_items), Tree::List(our_items)) => {
            for index in 0..their_items.len().max(our_items.len()) {
                let at = below(&index.to_string());
                match (their_items.get(index), our_items.get(index)) {
                    (Some(theirs), Some(ours)) => collect(&at, theirs, ours, found),
                    (theirs, ours) => found.push(differs(at, theirs, ours)),
                }
            }
        }
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => found.push(differs(at.to_owned(), Some(theirs), Some(ours))),
    }
}

/// An explanation of intended differences. In its patterns `*` means any text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    case: String,
    #[serde(default = "anything")]
    step: String,
    at: Vec<String>,
    reason: String,
}

fn anything() -> String {
    "*".to_owned()
}

/// The list of intended differences, and which of them occurred.
#[derive(Debug)]
pub(crate) struct Explained {
    entries: Vec<Entry>,
    /// The patterns that occurred, each by the positions of its entry and of itself.
    used: BTreeSet<(usize, usize)>,
}

impl Explained {
    pub(crate) fn parse(yaml: &str) -> Result<Self, String> {
        let entries: Vec<Entry> =
            serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
        if let Some(entry) = entries.iter().find(|entry| entry.reason.trim().is_empty()) {
            return Err(format!("{:?} has no reason", entry.case));
        }
        Ok(Self {
            entries,
            used: BTreeSet::new(),
        })
    }

    /// The reason why a difference is intended, or `None`. Marks the explanation as used.
    pub(crate) fn reason(&mut self, case: &str, step: &str, at: &str) -> Option<&str> {
        for (position, entry) in self.entries.iter().enumerate() {
            if !matches(&entry.case, case) || !matches(&entry.step, step) {
                continue;
            }
            if let Some(pattern) = entry.at.iter().position(|pattern| matches(pattern, at)) {
                self.used.insert((position, pattern));
                return Some(&entry.reason);
            }
        }
        None
    }

    /// Explanations of differences that did not occur. Each is an error, so that the list stays
    /// true.
    pub(crate) fn unused(&self) -> Vec<String> {
        let mut unused = Vec::new();
        for (position, entry) in self.entries.iter().enumerate() {
            for (number, pattern) in entry.at.iter().enumerate() {
                if !self.used.contains(&(position, number)) {
                    unused.push(format!("{} / {}: {pattern}", entry.case, entry.step));
                }
            }
        }
        unused
    }
}

/// Whether a text matches a pattern, with `*` for any characters.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Tree {
        serde_json::from_str(json).expect("valid JSON")
    }

    #[test]
    fn every_difference_has_its_place() {
        let cases = [
            (r#"{"a":1}"#, r#"{"a":1}"#, vec![]),
            (r#"{"a":1}"#, r#"{"a":2}"#, vec!["a"]),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, vec!["a"]),
            (r#"{"a":null}"#, "{}", vec!["a"]),
            (
                r#"{"a":[{"b":1},2]}"#,
                r#"{"a":[{"b":2}]}"#,
                vec!["a.0.b", "a.1"],
            ),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, vec!["(order)"]),
            ("[]", "{}", vec![""]),
        ];
        for (theirs, ours, expected) in cases {
            let found = differences(&tree(theirs), &tree(ours));
            let places: Vec<&str> = found.iter().map(|found| found.at.as_str()).collect();
            assert_eq!(places, expected, "{theirs} and {ours}");
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("*b*", "abc", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} and {text}");
        }
    }

    #[test]
    fn explanations_that_are_not_needed_are_told() {
        let mut explained = Explained::parse(
            "- {case: lists, at: [body.message, header.*], reason: words of its own}",
        )
        .expect("valid");
        assert_eq!(explained.reason("lists", "any", "status"), None);
        assert_eq!(explained.reason("watches", "any", "body.message"), None);
        assert_eq!(
            explained.reason("lists", "any", "body.message"),
            Some("words of its own")
        );
        assert_eq!(explained.unused(), ["lists / *: header.*"]);
        assert!(Explained::parse("- {case: lists, at: [a], reason: ''}").is_err());
    }
}
