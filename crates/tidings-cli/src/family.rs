//! The family of an object: what it owns, and what those own. Deployment, replica sets, pods.
//!
//! Members that are still there are known by their `ownerReferences`. Those long deleted are known
//! only to events, and there by their names: controllers name what they make after themselves, with
//! a suffix of a known form. A member found so may in truth belong to another object with such a
//! name; that is the price of finding what is gone.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::event::Event;

/// The objects that belong to one.
#[derive(Clone, Debug, Default)]
pub struct Family {
    root: (String, String),
    uids: HashSet<String>,
    members: BTreeSet<(String, String)>,
}

/// An object that may be a member.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its kind.
    pub kind: String,
    /// Its `metadata`.
    pub metadata: Value,
}

impl Family {
    /// The family of a root, made of those `candidates` whose chain of owners leads to it. The root
    /// is known by its uid, or where it is gone itself by kind and name: what it owned still names
    /// it.
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

    /// Kind and name of those known by their owners.
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

/// Whether an object of this kind and name is called as one would be that `owner_kind/owner` made,
/// directly or through others.
pub fn is_named_after(owner_kind: &str, owner: &str, kind: &str, name: &str) -> bool {
    let Some(suffix) = name
        .strip_prefix(owner)
        .and_then(|rest| rest.strip_prefix('-'))
    else {
        // A claim is called after its template first: data-web-0.
        return owner_kind == "StatefulSet"
            && kind == "PersistentVolumeClaim"
            && name.rsplit_once('-').is_some_and(|(rest, ordinal)| {
                is_ordinal(ordinal) && rest.ends_with(&format!("-{owner}"))
            });
    };
    let parts: Vec<&str> = suffix.split('-').collect();
    match (owner_kind, kind, parts.as_slice()) {
        ("Deployment", "ReplicaSet", [hash]) => is_hash(hash),
        ("Deployment", "Pod", [hash, random]) => is_hash(hash) && is_random(random),
        ("ReplicaSet" | "ReplicationController" | "DaemonSet" | "Job", "Pod", [random]) => {
            is_random(random)
        }
        // Of an indexed job: job-0-x7k2p.
        ("Job", "Pod", [index, random]) => is_ordinal(index) && is_random(random),
        ("StatefulSet", "Pod", [ordinal]) => is_ordinal(ordinal),
        ("CronJob", "Job", [minutes]) => is_ordinal(minutes),
        ("CronJob", "Pod", [minutes, random]) => is_ordinal(minutes) && is_random(random),
        _ => false,
    }
}

/// The letters and digits of `k8s.io/apimachinery/pkg/util/rand`: no vowels, nothing that is read
/// as another.
fn is_safe(text: &str) -> bool {
    text.bytes()
        .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

/// The five characters at the end of a generated name.
fn is_random(text: &str) -> bool {
    text.len() == 5 && is_safe(text)
}

/// A pod template's hash, a 32-bit number written with safe characters.
fn is_hash(text: &str) -> bool {
    (1..=10).contains(&text.len()) && is_safe(text)
}

fn is_ordinal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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
            // Two that own each other end nothing.
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
            // Known by its uid, whatever it is called.
            assert!(family.has(&about("", "", "u-rs")));
            assert!(!family.has(&about("Pod", "other", "u-other")));
            assert!(!family.has(&about("Pod", "alone", "")));
        }
    }

    #[test]
    fn those_that_are_gone_are_known_by_their_names() {
        for (owner, member, expected) in [
            ("Deployment/web", "ReplicaSet/web-5d4f8c7b9", true),
            ("Deployment/web", "Pod/web-5d4f8c7b9-x7k2p", true),
            ("Deployment/web", "Pod/web-api-5d4f8c7b9-x7k2p", false),
            ("Deployment/web", "ReplicaSet/web-api", false),
            ("Deployment/web", "Pod/web-0", false),
            ("Deployment/web", "Pod/website-5d4f8c7b9-x7k2p", false),
            ("StatefulSet/db", "Pod/db-12", true),
            ("StatefulSet/db", "Pod/db-x7k2p", false),
            ("StatefulSet/db", "PersistentVolumeClaim/data-db-0", true),
            ("StatefulSet/db", "PersistentVolumeClaim/data-mydb-0", false),
            ("DaemonSet/agent", "Pod/agent-x7k2p", true),
            ("Job/once", "Pod/once-x7k2p", true),
            ("Job/once", "Pod/once-3-x7k2p", true),
            ("CronJob/nightly", "Job/nightly-29388960", true),
            ("CronJob/nightly", "Pod/nightly-29388960-x7k2p", true),
            ("Service/web", "Pod/web-0", false),
        ] {
            let parts = |text: &'static str| text.split_once('/').unwrap();
            let ((owner_kind, owner_name), (kind, name)) = (parts(owner), parts(member));
            assert_eq!(
                is_named_after(owner_kind, owner_name, kind, name),
                expected,
                "{owner} {member}"
            );
            let family = Family::new(owner_kind, owner_name, None, &[]);
            assert_eq!(family.has(&about(kind, name, "")), expected);
        }
    }
}
