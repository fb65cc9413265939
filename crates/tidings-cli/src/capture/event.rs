//! Turns a JSON object into a core/v1 event that can be created: with times as the server accepts
//! them, and without metadata that belongs to another cluster.

use serde_json::{Map, Value};
use tidings_core::convert;
use xxhash_rust::xxh3::xxh3_64;

use super::internal;
use super::note::Note;
use super::times;
use super::unreadable::Unreadable;

/// The fields of `metadata` that a server sets itself. They are not sent. A server ignores them,
/// refuses them (resourceVersion), or attributes them to the creator (managedFields).
pub const SERVER_OWNED_METADATA: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "generation",
    "generateName",
];

/// The fields of `metadata` that refer to another cluster's objects and controllers. The garbage
/// collector would delete the event for its missing owners, and its deletion would wait for its
/// finalizers.
pub const OTHER_CLUSTERS_METADATA: [&str; 4] = [
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The fields of an object reference.
const REFERENCE: [&str; 7] = [
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
];

/// A core/v1 event that is ready to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The namespace to create it in: the event's own, else the involved object's, else `default`.
    pub namespace: String,
    /// The event's `metadata.name`.
    pub name: String,
    /// The complete event.
    pub body: Map<String, Value>,
    /// The `uid` and `creationTimestamp` that the event has in the capture, if they are valid. A
    /// server that shows captures keeps them.
    pub identity: Map<String, Value>,
    /// The resourceVersion that the event has in the capture, if it is a number.
    pub resource_version: Option<u64>,
}

impl Event {
    /// The kind, namespace and name of the involved object. Events of one object are created in
    /// order.
    pub fn object(&self) -> (&str, &str, &str) {
        let about = self.body.get("involvedObject").and_then(Value::as_object);
        let field = |name| {
            about
                .and_then(|about| text(about, name))
                .unwrap_or_default()
        };
        (field("kind"), field("namespace"), field("name"))
    }
}

/// The judgement about an object that has the keys of an event.
pub(super) enum Judged {
    Event(Event, Vec<Note>),
    Bad(Unreadable),
    /// Not an event: a bookmark of a watch, or an object that only shares field names with events.
    Other,
}

/// Makes an event of an object, if it is one.
pub(super) fn judge(mut object: Map<String, Value>) -> Judged {
    if object.contains_key("InvolvedObject") {
        object = internal::external(object);
    }
    if is_other(&object) {
        return Judged::Other;
    }
    match event(object) {
        Ok((event, notes)) => Judged::Event(event, notes),
        Err(why) => Judged::Bad(why),
    }
}

fn is_other(object: &Map<String, Value>) -> bool {
    let about = ["involvedObject", "regarding"];
    let about = about.into_iter().find_map(|name| object.get(name));
    let has = |name: &str| {
        object
            .get(name)
            .is_some_and(|it| !it.is_null() && *it != "")
    };
    let is_nothing = about.is_none_or(|it| it.as_object().is_none_or(Map::is_empty));
    if text(object, "kind") == Some("Event") {
        // A bookmark has only a resourceVersion.
        let metadata = object.get("metadata").and_then(Value::as_object);
        let version = metadata.and_then(|it| text(it, "resourceVersion"));
        let name = metadata.and_then(|it| text(it, "name")).unwrap_or_default();
        return is_nothing
            && version.is_some()
            && name.is_empty()
            && !["reason", "message", "note"].into_iter().any(has);
    }
    // A JSON schema of events has the same field names, and its values are schemas.
    let is_reference = about.and_then(Value::as_object).is_some_and(|about| {
        about.is_empty()
            || about
                .iter()
                .any(|(name, it)| REFERENCE.contains(&&**name) && it.is_string())
    });
    let is_text = |name: &str| {
        object
            .get(name)
            .is_none_or(|it| it.is_string() || it.is_null())
    };
    !(is_reference
        && ["reason", "message", "note", "type"]
            .into_iter()
            .all(is_text))
}

fn event(mut object: Map<String, Value>) -> Result<(Event, Vec<Note>), Unreadable> {
    let mut notes = Vec::new();
    let is_core_shape = object.contains_key("involvedObject");
    let is_events_shape = object.contains_key("regarding");
    let api_version = text(&object, "apiVersion").unwrap_or_default();
    if api_version.starts_with("events.k8s.io/")
        || (is_events_shape && !is_core_shape && api_version != "v1")
    {
        convert::to_core_v1(&mut object)?;
    } else {
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), "Event".into());
    }

    let mut metadata = match object.remove("metadata") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return Err(Unreadable::Metadata),
    };
    let created = metadata.get("creationTimestamp").cloned();
    let uid = metadata.get("uid").cloned();
    let resource_version = text(&metadata, "resourceVersion").and_then(|it| it.parse().ok());
    for field in SERVER_OWNED_METADATA {
        metadata.remove(field);
    }
    let is_set = |value: Value| match value {
        Value::Null => false,
        Value::Array(values) => !values.is_empty(),
        _ => true,
    };
    let of_others = OTHER_CLUSTERS_METADATA.map(|field| metadata.remove(field).is_some_and(is_set));
    if of_others.contains(&true) {
        notes.push(Note::Owners);
    }
    let mut identity = Map::new();
    if let Some(uid @ Value::String(_)) = &uid {
        identity.insert("uid".to_owned(), uid.clone());
    }
    if let Some(created) = created.as_ref().and_then(times::creation) {
        identity.insert("creationTimestamp".to_owned(), created);
    }
    times::normalize(&mut object, created.as_ref(), &mut notes);

    let namespace = text(&metadata, "namespace").filter(|namespace| !namespace.is_empty());
    let namespace = namespace.or_else(|| {
        let about = object.get("involvedObject")?.as_object()?;
        text(about, "namespace").filter(|namespace| !namespace.is_empty())
    });
    let namespace = namespace.unwrap_or("default").to_owned();
    // The namespace becomes a segment of the request's path, so it may only have the characters of
    // namespaces.
    if !namespace
        .bytes()
        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        || namespace.len() > 63
    {
        return Err(Unreadable::Namespace(namespace));
    }
    let name = text(&metadata, "name").filter(|name| !name.is_empty());
    let name = if let Some(name) = name {
        name.to_owned()
    } else {
        notes.push(Note::Unnamed);
        let name = made_name(&object, &namespace, uid.as_ref());
        metadata.insert("name".to_owned(), name.as_str().into());
        name
    };
    object.insert("metadata".to_owned(), metadata.into());
    let body = object;
    Ok((
        Event {
            namespace,
            name,
            body,
            identity,
            resource_version,
        },
        notes,
    ))
}

/// Makes a name for an event without one. It depends only on the event, so a repeated import does
/// not create the event twice. Its last part is no clock, as it is in client-go's names, because
/// clocks decide about the order of events.
fn made_name(object: &Map<String, Value>, namespace: &str, uid: Option<&Value>) -> String {
    /// Maximum bytes of the object's name in a made name, so that the whole is valid.
    const OBJECT_BYTES_MAX: usize = 200;
    let content = (object, namespace, uid);
    // A value that was read from JSON can always be written as JSON.
    let content = serde_json::to_vec(&content).unwrap_or_default();
    let hash = xxh3_64(&content);
    let about = object.get("involvedObject").and_then(Value::as_object);
    let about = about
        .and_then(|about| text(about, "name"))
        .unwrap_or_default();
    let is_good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = about.bytes().all(is_good)
        && about.len() <= OBJECT_BYTES_MAX
        && !about.contains("..")
        && [about.bytes().next(), about.bytes().last()]
            .into_iter()
            .all(|byte| byte.is_some_and(is_end));
    let about = if is_name { about } else { "event" };
    format!("{about}.x{hash:016x}")
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}
