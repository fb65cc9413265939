//! The family of an object: the objects it owns, directly or indirectly, such as a deployment's
//! replica sets and pods.
//!
//! Existing members are found by their `ownerReferences`. Members deleted long ago are known only
//! from events, and are found by their names: controllers name the objects they make after
//! themselves, with a suffix of a known form. Such a member may in truth belong to another object
//! with such a name. That is the price of finding deleted objects.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;
use tidings_core::is_named_after;

use crate::event::Event;

/// The objects that one root object owns.
#[derive(Clone, Debug, Default)]
pub struct Family {
    root: (String, String),
    uids: HashSet<String>,
    members: BTreeSet<(String, String)>,
}

/// An object that may be a member of a family.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The object's kind.
    pub kind: String,
    /// The object's `metadata`.
    pub metadata: Value,
}

impl Family {
    /// Makes the family of a root from the `candidates` whose chain of owners leads to it. The root
    /// is identified by its uid or, if it was deleted, by kind and name, which its members'
    /// ownerReferences still have.
    pub fn new(kind: &str, name: &str, uid: Option<&str>, candidates: &[Candidate]) -> Self {
        let mut family = Self {
            root: (kind.to_owned(), name.to_owned()),
            ..Self::default()
        };
        let mut owned: HashMap<&str, Vec<&Candidate>> = HashMap::new();
        let mut open: Vec<&str> = uid.into_iter().collect();
        for candidate in candidates {
            for owner in owners(candidate) {
                let field = |name: &str| owner.get(name).and_then(Value::as_str);
                let Some(owner_uid) = field("uid") else {
                    continue;
                };
                owned.entry(owner_uid).or_default().push(candidate);
                if uid.is_none() && field("kind") == Some(kind) && field("name") == Some(name) {
                    open.push(owner_uid);
                }
            }
        }
        while let Some(uid) = open.pop() {
            if !family.uids.insert(uid.to_owned()) {
                continue;
            }
            for member in owned.get(uid).into_iter().flatten() {
                let field = |name: &str| member.metadata.get(name).and_then(Value::as_str);
                if let Some(name) = field("name") {
                    family
                        .members
                        .insert((member.kind.clone(), name.to_owned()));
                }
                open.extend(field("uid"));
            }
        }
        family
    }

    /// The kinds and names of the members found by their owners.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members
            .iter()
            .map(|(kind, name)| (kind.as_str(), name.as_str()))
    }

    /// Whether the event is about a member.
    pub fn has(&self, event: &Event) -> bool {
        let (kind, name) = (event.object_kind(), event.object_name());
        self.uids.contains(event.object_uid())
            || self.members.contains(&(kind.to_owned(), name.to_owned()))
            || is_named_after(&self.root.0, &self.root.1, kind, name)
    }
}

fn owners(candidate: &Candidate) -> impl Iterator<Item = &Value> {
    candidate
        .metadata
        .get("ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str, uid: &str, owner: (&str, &str, &str)) -> Candidate {
        let (owner_kind, owner_name, owner_uid) = owner;
        Candidate {
            kind: kind.to_owned(),
            metadata: json!({
                "name": name, "uid": uid,
                "ownerReferences": [{"kind": owner_kind, "name": owner_name, "uid": owner_uid}],
            }),
        }
    }

    fn about(kind: &str, name: &str, uid: &str) -> Event {
        Event::new(json!({"involvedObject": {"kind": kind, "name": name, "uid": uid}}))
    }

    #[test]
    fn owners_of_owners() {
        let objects = [
            object("Pod", "a", "u-pod", ("ReplicaSet", "rs", "u-rs")),
            object("Pod", "other", "u-other", ("ReplicaSet", "rs2", "u-rs2")),
            object("ReplicaSet", "rs", "u-rs", ("Deployment", "web", "u-web")),
            // Two objects that own each other cause no endless loop.
            object("Widget", "w", "u-w", ("Pod", "a", "u-pod")),
            object("Pod", "a", "u-pod", ("Widget", "w", "u-w")),
            Candidate {
                kind: "Pod".into(),
                metadata: json!({"name": "alone"}),
            },
        ];
        for uid in [Some("u-web"), None] {
            let family = Family::new("Deployment", "web", uid, &objects);
            let members: Vec<_> = family.members().collect();
            assert_eq!(
                members,
                [("Pod", "a"), ("ReplicaSet", "rs"), ("Widget", "w")]
            );
            assert!(family.has(&about("Pod", "a", "")));
            // A member is recognised by its uid, whatever its name.
            assert!(family.has(&about("", "", "u-rs")));
            assert!(!family.has(&about("Pod", "other", "u-other")));
            assert!(!family.has(&about("Pod", "alone", "")));
        }
    }

    #[test]
    fn those_that_are_gone_are_known_by_their_names() {
        let family = Family::new("Deployment", "web", None, &[]);
        assert!(family.has(&about("Pod", "web-5d4f8c7b9-x7k2p", "")));
        assert!(!family.has(&about("Pod", "web-0", "")));
    }
}
