//! Normalizes the answers to one case: values that may differ between two correct servers, such as
//! identities, times, revisions and generated names, are replaced. An identity or revision becomes
//! the step in which it appeared first, so that a wrong one is noticed.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;

/// Replaces a value that only has to exist in the right form.
const GIVEN: &str = "<given>";
/// The letters of generated names.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";
const GENERATED_LENGTH: usize = 5;
/// How much of a `generateName` the server keeps.
const BASE_LENGTH: usize = 58;
const IDENTITY_LENGTH: usize = 36;

/// Normalizes the answers to one case. `bases` are the `generateName`s in its requests.
pub(crate) fn normalise(answers: &mut [Tree], bases: &[String], keep_managed_fields: bool) {
    let mut state = State {
        revisions: BTreeMap::new(),
        identities: Vec::new(),
        bases,
        keep_managed_fields,
        step: 0,
    };
    for (step, answer) in answers.iter().enumerate() {
        let mut new = BTreeSet::new();
        collect_revisions(answer, &mut new);
        state.name_revisions(step + 1, new);
    }
    for answer in answers {
        state.step += 1;
        state.rewrite(answer);
    }
}

struct State<'a> {
    /// Revisions of objects, each with the step in which it appeared first.
    revisions: BTreeMap<u64, String>,
    /// Identities in the order of appearance, each with the step in which it appeared first.
    identities: Vec<(String, String)>,
    bases: &'a [String],
    keep_managed_fields: bool,
    step: usize,
}

/// Collects the revisions of objects. A list's own revision may be that of any object, so it does
/// not count.
fn collect_revisions(tree: &Tree, revisions: &mut BTreeSet<u64>) {
    match tree {
        Tree::List(items) => items
            .iter()
            .for_each(|item| collect_revisions(item, revisions)),
        Tree::Map(entries) => {
            if let Some(metadata) = tree.get("metadata")
                && metadata.get("name").is_some()
                && let Some(revision) = metadata.get("resourceVersion").and_then(revision)
            {
                revisions.insert(revision);
            }
            for (_, value) in entries {
                collect_revisions(value, revisions);
            }
        }
        _ => {}
    }
}

fn revision(tree: &Tree) -> Option<u64> {
    tree.text()?.parse().ok()
}

impl State<'_> {
    /// Names new revisions by their step, and by their place among the step's new ones. So an extra
    /// revision of one server does not change other names. A revision that is older than that of an
    /// earlier step is marked.
    fn name_revisions(&mut self, step: usize, mut new: BTreeSet<u64>) {
        new.retain(|revision| !self.revisions.contains_key(revision));
        let newest = self.revisions.keys().next_back().copied().unwrap_or(0);
        for (place, revision) in new.into_iter().enumerate() {
            let late = if revision < newest { ", late" } else { "" };
            let name = format!("revision {} of step {step}{late}", place + 1);
            self.revisions.insert(revision, name);
        }
    }

    fn rewrite(&mut self, tree: &mut Tree) {
        match tree {
            Tree::Text(text) => {
                self.rewrite_identities(text);
                rewrite_versions(text);
                rewrite_described(text);
                for base in self.bases {
                    rewrite_generated(text, base);
                }
            }
            Tree::List(items) => items.iter_mut().for_each(|item| self.rewrite(item)),
            Tree::Map(entries) => {
                for (key, value) in entries {
                    if key == "metadata" {
                        self.rewrite_metadata(value);
                    } else if key == "retryAfterSeconds" {
                        // It depends on chance whether there are one or two.
                        *value = GIVEN.into();
                    } else {
                        self.rewrite(value);
                    }
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
        }
    }

    fn rewrite_metadata(&mut self, metadata: &mut Tree) {
        let of_object = metadata.get("name").is_some();
        let Tree::Map(entries) = metadata else {
            return;
        };
        if !self.keep_managed_fields {
            entries.retain(|(key, _)| key != "managedFields");
        }
        for (key, value) in entries {
            match (key.as_str(), &mut *value) {
                ("resourceVersion", Tree::Text(text)) => {
                    if let Ok(revision) = text.parse::<u64>() {
                        *text = self.place(revision, of_object);
                    }
                }
                ("creationTimestamp" | "deletionTimestamp" | "continue", Tree::Text(text)) => {
                    GIVEN.clone_into(text);
                }
                ("managedFields", Tree::List(managers)) => {
                    order_without_times(managers);
                    for manager in managers {
                        let Tree::Map(entries) = manager else {
                            continue;
                        };
                        for (_, value) in entries.iter_mut().filter(|(key, _)| key == "time") {
                            *value = GIVEN.into();
                        }
                    }
                }
                (_, value) => self.rewrite(value),
            }
        }
    }

    /// The name of a revision. A list's revision has the name of the latest object's that is not
    /// newer.
    fn place(&self, revision: u64, of_object: bool) -> String {
        let (found, name) = match self.revisions.range(..=revision).next_back() {
            Some((found, name)) => (*found, name.as_str()),
            None => (0, "nothing"),
        };
        if of_object && found == revision {
            format!("<{name}>")
        } else {
            format!("<not before {name}>")
        }
    }

    fn rewrite_identities(&mut self, text: &mut String) {
        let mut start = 0;
        while start + IDENTITY_LENGTH <= text.len() {
            let window = text.get(start..start + IDENTITY_LENGTH);
            let Some(window) = window.filter(|window| is_identity(window)) else {
                start += 1;
                continue;
            };
            let known = self.identities.iter().find(|(known, _)| known == window);
            let known = known.map(|(_, name)| name.clone());
            let name = known.unwrap_or_else(|| {
                let of_step = format!(" of step {}>", self.step);
                let several = self.identities.iter();
                let several = several.filter(|(_, name)| name.ends_with(&of_step)).count();
                let name = format!("<identity {}{of_step}", several + 1);
                self.identities.push((window.to_owned(), name.clone()));
                name
            });
            text.replace_range(start..start + IDENTITY_LENGTH, &name);
            start += name.len();
        }
    }
}

fn is_identity(text: &str) -> bool {
    text.bytes().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Replaces the revisions in a message.
fn rewrite_versions(text: &mut String) {
    for before in [
        "ResourceVersion in object meta: ",
        "ResourceVersion in precondition: ",
        ", current: ",
        "does not match the ResourceVersion in record (",
    ] {
        if let Some((head, tail)) = text.split_once(before) {
            let behind = tail.trim_start_matches(|letter: char| letter.is_ascii_digit());
            if behind.len() < tail.len() {
                *text = format!("{head}{before}<revision>{behind}");
            }
        }
    }
}

/// Replaces lines of metadata in the output of `kubectl describe`.
fn rewrite_described(text: &mut String) {
    for label in ["Resource Version:", "Creation Timestamp:"] {
        if let Some((before, _)) = text.split_once(label)
            && before.trim().is_empty()
        {
            *text = format!("{before}{label} {GIVEN}");
        }
    }
}

/// Replaces the five generated letters after a base by a word, everywhere in a text.
fn rewrite_generated(text: &mut String, base: &str) {
    let kept: String = base.chars().take(BASE_LENGTH).collect();
    let mut rewritten = String::new();
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once(&kept) {
        rewritten.push_str(before);
        rewritten.push_str(&kept);
        rest = behind;
        if let Some((letters, after)) = behind.split_at_checked(GENERATED_LENGTH)
            && letters.chars().all(|letter| GENERATED.contains(letter))
        {
            rewritten.push_str("<generated>");
            rest = after;
        }
    }
    rewritten.push_str(rest);
    *text = rewritten;
}

/// Sorts managers that may be in any order. A server sorts them by their times in whole seconds, so
/// their order depends on whether two writes happen in the same second. Managers in one of the
/// possible orders are sorted as if all had the same second. Others stay, so that a wrong order is
/// noticed.
fn order_without_times(managers: &mut [Tree]) {
    let text = |manager: &Tree, key: &str| {
        let value = manager.get(key).and_then(Tree::text);
        value.unwrap_or_default().to_owned()
    };
    let within_a_second = |manager: &Tree| {
        ["operation", "manager", "apiVersion", "subresource"].map(|key| text(manager, key))
    };
    let in_time = |manager: &Tree| {
        let [operation, rest @ ..] = within_a_second(manager);
        (operation, text(manager, "time"), rest)
    };
    if managers.is_sorted_by_key(in_time) {
        managers.sort_by_key(within_a_second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(json: &str) -> String {
        let mut trees = match serde_json::from_str(json).expect("valid JSON") {
            Tree::List(answers) => answers,
            answer => vec![answer],
        };
        normalise(&mut trees, &["web-".to_owned()], false);
        Tree::List(trees).to_string()
    }

    #[test]
    fn right_answers_of_two_servers_become_the_same() {
        let pairs = [
            (
                r#"{"metadata":{"name":"a","uid":"f43ca0b8-0000-4000-8000-000000000001","resourceVersion":"7","managedFields":[]}}"#,
                r#"{"metadata":{"name":"a","uid":"f43ca0b8-0000-4000-8000-000000000002","resourceVersion":"9"}}"#,
            ),
            (
                r#"[{"metadata":{"resourceVersion":"30"}},{"metadata":{"name":"a","resourceVersion":"20"}}]"#,
                r#"[{"metadata":{"resourceVersion":"2"}},{"metadata":{"name":"a","resourceVersion":"2"}}]"#,
            ),
            (
                r#"{"metadata":{"generateName":"web-","name":"web-bcdfg"}}"#,
                r#"{"metadata":{"generateName":"web-","name":"web-x2456"}}"#,
            ),
            (
                r#"{"message":"Too large resource version: 99, current: 5"}"#,
                r#"{"message":"Too large resource version: 99, current: 17"}"#,
            ),
        ];
        for (theirs, ours) in pairs {
            assert_eq!(normal(theirs), normal(ours));
        }
    }

    #[test]
    fn wrong_answers_stay_wrong() {
        let pairs = [
            // The list's revision is older than that of an object in it.
            (
                r#"[{"metadata":{"resourceVersion":"20"}},{"metadata":{"name":"a","resourceVersion":"20"}}]"#,
                r#"[{"metadata":{"resourceVersion":"19"}},{"metadata":{"name":"a","resourceVersion":"20"}}]"#,
            ),
            // The second object has the older revision.
            (
                r#"[{"metadata":{"name":"a","resourceVersion":"1"}},{"metadata":{"name":"b","resourceVersion":"2"}}]"#,
                r#"[{"metadata":{"name":"a","resourceVersion":"2"}},{"metadata":{"name":"b","resourceVersion":"1"}}]"#,
            ),
            // The name has a letter that is never generated.
            (
                r#"{"metadata":{"generateName":"web-","name":"web-bcdfg"}}"#,
                r#"{"metadata":{"generateName":"web-","name":"web-bcdfa"}}"#,
            ),
            (
                r#"[{"uid":"f43ca0b8-0000-4000-8000-000000000001"},{"uid":"f43ca0b8-0000-4000-8000-000000000001"}]"#,
                r#"[{"uid":"f43ca0b8-0000-4000-8000-000000000001"},{"uid":"f43ca0b8-0000-4000-8000-000000000002"}]"#,
            ),
            (
                r#"{"metadata":{"creationTimestamp":null}}"#,
                r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}"#,
            ),
        ];
        for (theirs, ours) in pairs {
            assert_ne!(normal(theirs), normal(ours));
        }
    }

    #[test]
    fn managers_of_different_seconds_are_as_those_of_one() {
        let order = |times: [&str; 2], names: [&str; 2]| {
            let mut managers = [0, 1].map(|at| {
                let (time, name) = (times[at], names[at]);
                let json = format!(
                    r#"{{"manager":"{name}","operation":"Update","apiVersion":"v1","time":"{time}"}}"#
                );
                serde_json::from_str(&json).expect("valid JSON")
            });
            order_without_times(&mut managers);
            managers[0].get("manager").and_then(Tree::text) == Some("a")
        };
        let (one, two) = ("2026-03-01T10:00:01Z", "2026-03-01T10:00:02Z");
        assert!(order([one, one], ["a", "b"]));
        assert!(order([one, two], ["b", "a"]));
        // No server that sorts managers by time returns them in this order.
        assert!(!order([two, one], ["b", "a"]));
        assert!(!order([one, one], ["b", "a"]));
    }
}
