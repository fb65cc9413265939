//! Variables in a file of kubernetes-event-exporter, which Go's `os.ExpandEnv` replaces first.

use std::fmt::Write;

use super::findings::Notes;
use super::tree::Node;

/// Returns a text without what `os.ExpandEnv` removes in any environment, such as `$1`. Variables
/// stay as they are written, with a note.
pub(super) fn expanded(node: &Node, what: &str, notes: &mut Notes) -> String {
    let (text, variables) = parts(node.text());
    if text != node.text() {
        let why = "a '$' before a digit or a special character removes both, and this is converted";
        notes.add(node.line, what, why);
    }
    for variable in variables {
        let why = format!("write the value of the variable {variable} here: nothing replaces it");
        notes.add(node.line, what, &why);
    }
    text
}

/// Whether a text has variables.
pub(super) fn has_variable(text: &str) -> bool {
    !parts(text).1.is_empty()
}

/// Returns the text without removed characters, and the names of its variables.
fn parts(text: &str) -> (String, Vec<String>) {
    let (mut kept, mut variables) = (String::new(), Vec::new());
    let mut rest = text;
    // What has no end once has none behind.
    let mut has_end = true;
    while let Some((before, after)) = rest.split_once('$') {
        kept.push_str(before);
        let is_special = |c: char| c.is_ascii_digit() || "*#$@!?-".contains(c);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if let Some(braced) = after.strip_prefix('{') {
            let ended = has_end.then(|| braced.split_once('}')).flatten();
            has_end = ended.is_some();
            match ended {
                Some((name, behind)) => {
                    rest = behind;
                    let is_removed = name.len() < 2 && name.chars().all(is_special);
                    if !is_removed {
                        // Writing to a text cannot fail.
                        let _ = write!(kept, "${{{name}}}");
                        variables.push(name.to_owned());
                    }
                }
                None => rest = braced,
            }
        } else if let Some(special) = after.chars().next().filter(|c| is_special(*c)) {
            rest = &after[special.len_utf8()..];
        } else {
            let len = after.find(|c| !is_name(c)).unwrap_or(after.len());
            let (name, behind) = after.split_at(len);
            kept.push('$');
            kept.push_str(name);
            if !name.is_empty() {
                variables.push(name.to_owned());
            }
            rest = behind;
        }
    }
    kept.push_str(rest);
    (kept, variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules are those of `os.Expand`.
    #[test]
    fn variables_are_found_and_special_ones_are_removed() {
        for (text, kept, variables) in [
            ("a", "a", vec![]),
            ("${API_KEY}", "${API_KEY}", vec!["API_KEY"]),
            ("pa$word1", "pa$word1", vec!["word1"]),
            ("^kube-system$", "^kube-system$", vec![]),
            ("a$|b$", "a$|b$", vec![]),
            ("cost: $15 $$ ${}x", "cost: 5  x", vec![]),
            ("${a", "a", vec![]),
            ("${1}b", "b", vec![]),
        ] {
            let variables: Vec<String> = variables.into_iter().map(str::to_owned).collect();
            assert_eq!(parts(text), (kept.to_owned(), variables), "{text}");
        }
    }
}
