//! Sets of fields, and their JSON form `FieldsV1`.
//!
//! They correspond to `sigs.k8s.io/structured-merge-diff/v6/fieldpath`: `Set`, `PathElement`,
//! `serialize.go`. A set is a tree. An inner node need not be a member: owning
//! `metadata.labels.app` is not owning `metadata.labels`. Every node is a member or has members
//! below it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use tidings_core::wire::write_string;

/// One step of a path. The order is that of upstream's `PathElement.Compare`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathElement {
    /// `f:`, a member of an object.
    Field(Cow<'static, str>),
    /// `k:`, an item of a list, identified by its key fields.
    Key(Vec<(String, Atom)>),
    /// `v:`, an item of a set, identified by its value.
    Value(Atom),
    /// `i:`, an item of a list, identified by its index.
    Index(i64),
}

/// A value that identifies an item of a list, in the order of upstream's `value.Compare`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Atom {
    /// A whole number.
    Integer(i64),
    /// A string.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// JSON of any other type, which no list of an event has.
    Other(String),
}

impl Atom {
    /// Converts a JSON value.
    pub(crate) fn from_json(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            Value::Bool(bool) => Self::Bool(*bool),
            other => match other.as_i64() {
                Some(number) => Self::Integer(number),
                None => Self::Other(other.to_string()),
            },
        }
    }
}

impl fmt::Display for Atom {
    /// Writes the value as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", Value::from(text.as_str())),
            Self::Bool(bool) => write!(f, "{bool}"),
            Self::Other(json) => f.write_str(json),
        }
    }
}

impl PathElement {
    /// A member whose name is known at compile time.
    pub(crate) const fn known(name: &'static str) -> Self {
        Self::Field(Cow::Borrowed(name))
    }

    /// A member of this name.
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self::Field(Cow::Owned(name.into()))
    }

    /// An item of a list whose key field has this value.
    pub(crate) fn keyed(field: &str, value: Atom) -> Self {
        Self::Key(vec![(field.to_owned(), value)])
    }

    /// Reads a key of `FieldsV1`; `None` for an unknown prefix, which is skipped.
    fn parse(text: &str) -> Result<Option<Self>, String> {
        let unreadable = |error: &dyn fmt::Display| format!("{text:?}: {error}");
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err(format!("{text:?}: a kind and a colon are missing"));
        };
        Ok(Some(match kind {
            "f:" => Self::named(rest),
            "v:" => {
                let value = serde_json::from_str(rest).map_err(|error| unreadable(&error))?;
                Self::Value(Atom::from_json(&value))
            }
            "k:" => {
                let fields: BTreeMap<String, Value> =
                    serde_json::from_str(rest).map_err(|error| unreadable(&error))?;
                let fields = fields.into_iter();
                let fields = fields.map(|(name, value)| (name, Atom::from_json(&value)));
                Self::Key(fields.collect())
            }
            "i:" => Self::Index(rest.parse().map_err(|error| unreadable(&error))?),
            _ if kind.ends_with(':') => return Ok(None),
            _ => return Err(format!("{text:?}: a colon is missing")),
        }))
    }

    fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
        }
    }
}

impl fmt::Display for PathElement {
    /// Writes the element as messages show it, as in `.metadata.ownerReferences[uid="1"]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
        }
    }
}

/// A path as messages show it.
pub(crate) struct Shown<'a>(pub &'a [PathElement]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

/// A set of fields; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<PathElement, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

impl Node {
    fn is_needed(&self) -> bool {
        self.member || !self.below.is_empty()
    }
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one field, without its parents. The empty path adds nothing.
    pub(crate) fn insert(&mut self, path: &[PathElement]) {
        let Some((last, way)) = path.split_last() else {
            return;
        };
        let mut set = self;
        for element in way {
            set = &mut set.0.entry(element.clone()).or_default().below;
        }
        set.0.entry(last.clone()).or_default().member = true;
    }

    /// Whether this element itself is a member.
    pub(crate) fn has(&self, element: &PathElement) -> bool {
        self.0.get(element).is_some_and(|node| node.member)
    }

    /// Whether the field at a path is a member.
    pub(crate) fn has_path(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.has_path(rest)),
        }
    }

    /// The members below an element, if there are any.
    pub(crate) fn below(&self, element: &PathElement) -> Option<&Self> {
        let below = &self.0.get(element)?.below;
        (!below.is_empty()).then_some(below)
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        for (element, theirs) in &other.0 {
            let node = self.0.entry(element.clone()).or_default();
            node.member |= theirs.member;
            node.below.unite(&theirs.below);
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let both = self.0.iter().filter_map(|(element, node)| {
            let theirs = other.0.get(element)?;
            let node = Node {
                member: node.member && theirs.member,
                below: node.below.intersection(&theirs.below),
            };
            node.is_needed().then(|| (element.clone(), node))
        });
        Self(both.collect())
    }

    /// Removes the other set's members. Members below these stay.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.0.retain(|element, node| {
            if let Some(theirs) = other.0.get(element) {
                node.member &= !theirs.member;
                node.below.subtract(&theirs.below);
            }
            node.is_needed()
        });
    }

    /// Removes an element and some of its direct members, for fields that are never managed.
    pub(crate) fn strip(&mut self, element: &PathElement, names: &[&'static str]) {
        let Some(node) = self.0.get_mut(element) else {
            return;
        };
        node.member = false;
        for name in names {
            let name = PathElement::known(name);
            if let Some(inner) = node.below.0.get_mut(&name) {
                inner.member = false;
                if !inner.is_needed() {
                    node.below.0.remove(&name);
                }
            }
        }
        if !node.is_needed() {
            self.0.remove(element);
        }
    }

    /// Makes members of all inner nodes for which `named` returns a context. That context is used
    /// below the node. Below other nodes the context is `unnamed`.
    pub(crate) fn with_members<C: Copy>(
        &self,
        context: C,
        unnamed: C,
        named: &impl Fn(C, &PathElement) -> Option<C>,
    ) -> Self {
        let nodes = self.0.iter().map(|(element, node)| {
            let inner = named(context, element);
            let below = node
                .below
                .with_members(inner.unwrap_or(unnamed), unnamed, named);
            let member = node.member || (inner.is_some() && !below.is_empty());
            (element.clone(), Node { member, below })
        });
        Self(nodes.collect())
    }

    /// The paths of all members. Those of one level come before those below it.
    pub(crate) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for (element, node) in &self.0 {
            if node.member {
                paths.push(prefix.iter().chain([element]).cloned().collect());
            }
        }
        for (element, node) in &self.0 {
            prefix.push(element.clone());
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// The set as `FieldsV1`.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write(false, &mut out);
        out
    }

    fn write(&self, with_self: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        if with_self && !self.is_empty() {
            out.extend_from_slice(b"\".\":{}");
        }
        for (element, node) in &self.0 {
            if out.last() != Some(&b'{') {
                out.push(b',');
            }
            write_string(&element.text(), out);
            out.push(b':');
            node.below.write(node.member, out);
        }
        out.push(b'}');
    }

    /// Reads `FieldsV1`.
    ///
    /// # Errors
    ///
    /// The reason why the JSON is not a set.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<Node>(json).map(|node| node.below)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut node = Node::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "." {
                map.next_value::<IgnoredAny>()?;
                node.member = true;
                continue;
            }
            match PathElement::parse(&key).map_err(de::Error::custom)? {
                Some(element) => {
                    let inner = map.next_value()?;
                    node.below.0.insert(element, inner);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        node.member |= node.below.is_empty();
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(json: &str) -> FieldSet {
        FieldSet::from_json(json.as_bytes()).unwrap()
    }

    fn text(set: &FieldSet) -> String {
        String::from_utf8(set.to_json()).unwrap()
    }

    /// kube-apiserver 1.36 stored these for the objects that it was sent.
    #[test]
    fn fields_v1_is_read_and_written_as_upstream() {
        for (sent, kept) in [
            ("{}", "{}"),
            (
                r#"{"f:foo":{"f:bar":{".":{}}},"z:":{},"f:count":{},"i:3":{}}"#,
                r#"{"f:count":{},"f:foo":{"f:bar":{}},"i:3":{}}"#,
            ),
            (
                r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"a.com/y\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}}}"#,
                r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"a.com/y\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}}}"#,
            ),
        ] {
            assert_eq!(text(&set(sent)), kept);
        }
        for refused in ["3", "[]", r#"{"f:a":3}"#, r#"{"f":{}}"#, r#"{"v:x":{}}"#] {
            assert!(
                FieldSet::from_json(refused.as_bytes()).is_err(),
                "{refused}"
            );
        }
    }

    #[test]
    fn paths_in_messages() {
        let set = set(
            r#"{"f:type":{},"f:count":{},"f:metadata":{"f:labels":{".":{},"f:x":{}},"f:finalizers":{"v:\"a\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}"#,
        );
        let paths: Vec<String> = set
            .paths()
            .iter()
            .map(|path| Shown(path).to_string())
            .collect();
        assert_eq!(
            paths,
            [
                ".count",
                ".type",
                ".metadata.labels",
                ".metadata.finalizers[=\"a\"]",
                ".metadata.labels.x",
                ".metadata.ownerReferences[uid=\"u\"]",
            ]
        );
        assert!(set.paths().iter().all(|path| set.has_path(path)));
    }

    fn path() -> impl Strategy<Value = Vec<PathElement>> {
        let element = prop_oneof![
            "[a-c]".prop_map(PathElement::named),
            "[a-b]".prop_map(|text| PathElement::Value(Atom::Text(text))),
            "[a-b]".prop_map(|text| PathElement::keyed("uid", Atom::Text(text))),
        ];
        proptest::collection::vec(element, 1..4)
    }

    fn paths() -> impl Strategy<Value = std::collections::BTreeSet<Vec<PathElement>>> {
        proptest::collection::btree_set(path(), 0..12)
    }

    fn tree(paths: impl IntoIterator<Item = Vec<PathElement>>) -> FieldSet {
        let mut set = FieldSet::default();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }

    proptest! {
        /// The tree behaves like a plain set of paths.
        #[test]
        fn trees_are_sets(a in paths(), b in paths()) {
            let (left, right) = (tree(a.clone()), tree(b.clone()));
            prop_assert_eq!(left.intersection(&right), tree(a.intersection(&b).cloned()));
            let mut united = left.clone();
            united.unite(&right);
            prop_assert_eq!(&united, &tree(a.union(&b).cloned()));
            let mut rest = left.clone();
            rest.subtract(&right);
            prop_assert_eq!(rest, tree(a.difference(&b).cloned()));
            prop_assert_eq!(FieldSet::from_json(&united.to_json()).unwrap(), united);
        }
    }
}
