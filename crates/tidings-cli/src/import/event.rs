//! From a JSON object to an event that can be created: its kind checked, its shape core/v1, its
//! server-owned metadata gone.

use serde_json::{Map, Value};
use tidings_core::convert;

use super::unreadable::Unreadable;

/// The fields of `metadata` a server sets itself. They are not sent: a server ignores them, refuses
/// them (resourceVersion), or takes them for the creator's (managedFields).
pub const SERVER_OWNED_METADATA: [&str; 5] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "selfLink",
];

/// A core/v1 event to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Where to create it: its own namespace, else that of the object it is about, else `default`.
    pub namespace: String,
    /// `metadata.name`, empty when there is none.
    pub name: String,
    /// The event itself, every field as it was read.
    pub body: Map<String, Value>,
}

/// What a list says about the items in it that do not say it themselves.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    api_version: Option<String>,
}

impl Declared {
    /// What the fields of a list that came before its items say, or the error that these are no
    /// events.
    pub(super) fn by_list(fields: &Map<String, Value>) -> Result<Self, Unreadable> {
        let api_version = text(fields, "apiVersion");
        match text(fields, "kind").unwrap_or_default() {
            "EventList" => Ok(Self {
                api_version: api_version.map(str::to_owned),
            }),
            // A `List` is always of v1, whatever is in it.
            "" | "List" => Ok(Self::default()),
            kind => Err(other_kind(kind, api_version)),
        }
    }
}

impl Event {
    /// Makes an event of an object, or says why it is not one.
    pub(super) fn new(
        mut object: Map<String, Value>,
        declared: &Declared,
    ) -> Result<Self, Unreadable> {
        let api_version = text(&object, "apiVersion").filter(|version| !version.is_empty());
        let kind = text(&object, "kind").filter(|kind| !kind.is_empty());
        let is_core_shape = object.contains_key("involvedObject");
        let is_events_shape = object.contains_key("regarding");
        if kind.is_none() && !is_core_shape && !is_events_shape {
            return Err(Unreadable::NoKind);
        }
        if kind.is_some_and(|kind| kind != "Event") {
            return Err(other_kind(kind.unwrap_or_default(), api_version));
        }
        match api_version.or(declared.api_version.as_deref()) {
            Some("events.k8s.io/v1" | "events.k8s.io/v1beta1") => convert::to_core_v1(&mut object)?,
            None if is_events_shape && !is_core_shape => convert::to_core_v1(&mut object)?,
            Some("v1") | None => {
                object.insert("apiVersion".to_owned(), "v1".into());
                object.insert("kind".to_owned(), "Event".into());
            }
            Some(other) => return Err(other_kind("Event", Some(other))),
        }

        let (mut namespace, mut name) = (None, String::new());
        match object.get_mut("metadata") {
            None | Some(Value::Null) => {}
            Some(Value::Object(metadata)) => {
                for field in SERVER_OWNED_METADATA {
                    metadata.remove(field);
                }
                namespace = text(metadata, "namespace").map(str::to_owned);
                text(metadata, "name")
                    .unwrap_or_default()
                    .clone_into(&mut name);
            }
            Some(_) => return Err(Unreadable::Metadata),
        }
        let namespace = namespace
            .filter(|namespace| !namespace.is_empty())
            .or_else(|| {
                let about = object.get("involvedObject")?.as_object()?;
                text(about, "namespace")
                    .filter(|namespace| !namespace.is_empty())
                    .map(str::to_owned)
            })
            .unwrap_or_else(|| "default".to_owned());
        // It becomes a segment of the request's path, so nothing else may be in it than what
        // namespaces are made of.
        if !namespace
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            || namespace.len() > 63
        {
            return Err(Unreadable::Namespace(namespace));
        }
        Ok(Self {
            namespace,
            name,
            body: object,
        })
    }
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

/// The kinds of lines that `tidings export --versions` writes, which have no apiVersion.
const KINDS_OF_AN_ARCHIVE: [&str; 5] = ["Coverage", "Deleted", "Version", "End", "Complete"];

fn other_kind(kind: &str, api_version: Option<&str>) -> Unreadable {
    if api_version.is_none() && KINDS_OF_AN_ARCHIVE.contains(&kind) {
        return Unreadable::OfAnArchive {
            kind: kind.to_owned(),
        };
    }
    Unreadable::OtherKind {
        kind: kind.to_owned(),
        api_version: api_version.unwrap_or("no apiVersion").to_owned(),
    }
}
