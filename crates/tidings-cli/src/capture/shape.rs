//! Judges a JSON object by its keys, before its end is read: an event, a list, an object around an
//! event, or another object.

/// Maximum length of a kept kind or apiVersion, in bytes.
pub(super) const WORD_BYTES_MAX: usize = 64;

/// Kinds of the lines of `tidings export --versions`, which have no apiVersion.
const KINDS_OF_AN_ARCHIVE: [&str; 5] = ["Coverage", "Deleted", "Version", "End", "Complete"];

/// The keys whose value matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Kind,
    ApiVersion,
    /// The key under which an event router has the event's former state.
    Before,
    Other,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each stands for keys, and none excludes another"
)]
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) kind: Option<Box<str>>,
    pub(super) api_version: Option<Box<str>>,
    /// Whether it has a reference that only events have.
    is_about: bool,
    has_items: bool,
    has_metadata: bool,
    /// Whether it has a time that only events have.
    has_time: bool,
    /// Whether it is a list of attributes in OpenTelemetry's JSON, which may stand for an event.
    is_attributes: bool,
    /// Whether it has a key that neither events nor objects around them have.
    is_foreign: bool,
}

impl Shape {
    /// Records a key, and returns its meaning.
    pub(super) fn note(&mut self, key: &[u8]) -> Key {
        match key {
            b"kind" => return Key::Kind,
            b"apiVersion" => return Key::ApiVersion,
            b"old_event" | b"oldEvent" | b"oldObject" => return Key::Before,
            b"involvedObject" | b"regarding" | b"InvolvedObject" => self.is_about = true,
            b"items" | b"Items" => self.has_items = true,
            b"metadata" => self.has_metadata = true,
            b"firstTimestamp" | b"lastTimestamp" | b"eventTime" | b"FirstTimestamp" => {
                self.has_time = true;
            }
            b"kvlistValue" => self.is_attributes = true,
            b"type" | b"object" | b"verb" | b"event" | b"events" | b"reason" | b"message"
            | b"note" | b"source" | b"count" | b"series" | b"action" | b"related" | b"name"
            | b"namespace" => {}
            _ => self.is_foreign = true,
        }
        Key::Other
    }

    /// The kind, unless it is missing or damaged.
    fn kind(&self) -> Option<&str> {
        let is_word =
            |kind: &&str| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.kind.as_deref().filter(is_word)
    }

    /// The apiVersion, unless it is missing or damaged.
    fn api_version(&self) -> Option<&str> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"./-".contains(&byte);
        let is_word = |it: &&str| !it.is_empty() && it.bytes().all(is_good);
        self.api_version.as_deref().filter(is_word)
    }

    /// Whether the object is an event, as far as it was read.
    pub(super) fn is_event(&self) -> bool {
        match self.kind() {
            Some("Event") => matches!(
                self.api_version(),
                None | Some("v1" | "events.k8s.io/v1" | "events.k8s.io/v1beta1")
            ),
            Some(_) => false,
            None => self.is_about,
        }
    }

    /// Whether its apiVersion is one that events have; other objects have it, too.
    pub(super) fn has_version(&self) -> bool {
        matches!(self.api_version(), Some("v1" | "events.k8s.io/v1"))
    }

    /// Whether it is an entry of an audit log, which may contain an event.
    pub(super) fn is_audit(&self) -> bool {
        self.api_version()
            .is_some_and(|version| version.starts_with("audit.k8s.io/"))
    }

    /// Whether it is a line of `tidings export --versions`.
    pub(super) fn is_of_an_archive(&self) -> bool {
        let is_one = |kind: &str| KINDS_OF_AN_ARCHIVE.contains(&kind);
        self.api_version.is_none() && !self.has_metadata && self.kind().is_some_and(is_one)
    }

    /// Whether it refers to an object as only events do.
    pub(super) fn is_about(&self) -> bool {
        self.is_about
    }

    /// Whether it is a list of attributes in OpenTelemetry's JSON.
    pub(super) fn is_attributes(&self) -> bool {
        self.is_attributes
    }

    /// Whether nothing within it can be an event that happened.
    pub(super) fn is_closed(&self) -> bool {
        let is_other_event = self.kind() == Some("Event") && !self.is_event();
        self.is_audit() || self.is_of_an_archive() || is_other_event
    }

    /// Whether it is a list of any kind.
    pub(super) fn is_list(&self) -> bool {
        self.has_items || self.kind().is_some_and(|kind| kind.ends_with("List"))
    }

    /// The kind of a Kubernetes object that is neither an event nor a list.
    pub(super) fn other_kind(&self) -> Option<&str> {
        let kind = self.kind()?;
        let is_other = kind != "List" && kind != "EventList" && !self.is_event();
        is_other.then_some(kind)
    }

    /// Whether it has a Kubernetes kind.
    pub(super) fn is_typed(&self) -> bool {
        self.kind().is_some() && self.api_version().is_some()
    }

    /// What is lost if the object is not read to its end.
    pub(super) fn loss(&self) -> Loss {
        if self.other_kind().is_some() || self.is_audit() {
            Loss::Other
        } else if self.is_list() {
            Loss::Unknown
        } else if self.is_event() || self.has_metadata || self.has_time {
            Loss::Event
        } else if self.is_foreign && !self.is_attributes {
            Loss::Unknown
        } else {
            Loss::PerhapsEvent
        }
    }
}

/// What an object was that is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Event,
    /// An event, if other events are in the text.
    PerhapsEvent,
    /// Not an event, but it may contain events.
    Unknown,
    /// Not an event, and it contains none.
    Other,
}
