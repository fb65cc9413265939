//! The index entries by which the store finds events.

use jiff::Timestamp;
use k8s_pb::api::core::v1::{Event, ObjectReference};
use tidings_api::codec;
use tidings_core::floor_char_boundary;
use tidings_store::{Index, UnixMillis};

use crate::keep::keys;

/// Longest text in an index, in bytes.
const INDEX_TEXT_MAX: usize = 512;

/// The index entries of an event.
pub(crate) fn index(event: &Event) -> Index {
    let object = event.involved_object.as_ref();
    let clip = |text: &str| text[..floor_char_boundary(text, INDEX_TEXT_MAX)].to_owned();
    let text = |of: fn(&ObjectReference) -> &str| clip(object.map(of).unwrap_or_default());
    let last_seen = codec::last_seen(event).map_or(0, Timestamp::as_millisecond);
    Index {
        object_uid: text(ObjectReference::uid),
        object_kind: text(ObjectReference::kind),
        object_namespace: text(ObjectReference::namespace),
        object_name: text(ObjectReference::name),
        reason: clip(event.reason()),
        event_type: clip(event.r#type()),
        // Only the archive's own records have earlier times, so that searches by time do not find
        // them.
        last_seen: UnixMillis(last_seen.max(keys::EARLIEST.0)),
    }
}
