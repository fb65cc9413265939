//! Decodes lists and watches of events from Kubernetes' protobuf, which every API server supports.
//!
//! A source may send anything. The decoded form takes memory in proportion to its bytes, which are
//! bounded, and to the elements of lists and maps, for which two bytes each suffice: elements are
//! counted before anything is decoded.
//!
//! An event that cannot be decoded affects only itself. What is known of it is returned, and
//! everything with it and after it is read.

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use jiff::Timestamp;
use prost::Message;
use tidings_api::codec::{self, Api, protobuf};
use tidings_core::validate::bounded_text;

use crate::follow::follower::{Failure, Page};
use crate::keep::keys::{is_step, is_uid};
use crate::keep::versions::{Observation, Unreadable};
use crate::version::delta::take_field;

/// Longest frame of a watch that is accepted: an event is below etcd's limit of 1.5 MiB.
const FRAME_MAX: usize = 4 << 20;
/// Maximum events of a page of a list, however many were requested.
const ITEMS_MAX: usize = 10_000;
/// Maximum elements in the metadata of a page or frame; an event has some ten.
const ELEMENTS_MAX: usize = 200_000;
/// Maximum bytes of a continue token. kube-apiserver's have some hundred.
const TOKEN_MAX: usize = 16 << 10;
/// Maximum bytes of a source's message in logs and health checks.
const WHY_BYTES_MAX: usize = 1 << 10;

#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    token: String,
}

#[derive(Clone, PartialEq, Message)]
struct EventList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

/// Metadata of any object.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ObjectMeta {
    #[prost(string, tag = "5")]
    pub(super) uid: String,
    #[prost(string, tag = "6")]
    pub(super) resource_version: String,
}

/// Any object, of which only the metadata is used.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyObject {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<ObjectMeta>,
}

/// The details of a Status.
#[derive(Clone, PartialEq, Message)]
struct StatusDetails {
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}

#[derive(Clone, PartialEq, Message)]
struct StatusCause {
    #[prost(string, tag = "1")]
    reason: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "3")]
    message: String,
    #[prost(message, optional, tag = "5")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

/// A message of a watch.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Event(Box<Observation>),
    /// An event that cannot be read, and its version if that can be read.
    Unreadable(Box<Unreadable>, Option<u64>),
    /// A bookmark: there are no further changes up to this version.
    Bookmark(u64),
    Error(Failure),
}

/// The events of an answer, each kind in the order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) read: Vec<Observation>,
    pub(crate) unreadable: Vec<Unreadable>,
}

fn unreadable(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Other {
        why: bounded_text(
            format_args!("the source sent {what} that cannot be read: {why}"),
            WHY_BYTES_MAX,
        ),
        retry_after: None,
    }
}

fn version(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("its resourceVersion {text:?} is no number"))
}

/// Decodes a page of a list.
pub(crate) fn read_list(api: Api, body: &Bytes) -> Result<(Page, Events), Failure> {
    let list = protobuf::open(body).map_err(|why| unreadable("a list", why))?;
    let items = count(&list.raw, ITEMS).map_err(|why| unreadable("a list", why))?;
    if items > ITEMS_MAX {
        return Err(Failure::TooLarge);
    }
    let list = EventList::decode(list.raw).map_err(|why| unreadable("a list", why))?;
    let metadata = list.metadata.unwrap_or_default();
    if metadata.token.len() > TOKEN_MAX {
        return Err(unreadable("a list", "its continue token is too long"));
    }
    let mut events = Events::default();
    let mut items = Vec::with_capacity(list.items.len());
    let mut elements = 0;
    for item in list.items {
        match elements_of(&item) {
            Ok(found) => {
                elements += found;
                items.push(item);
            }
            Err(why) => events.unreadable.push(known_of(&item, why).0),
        }
    }
    if elements > ELEMENTS_MAX {
        return Err(Failure::TooLarge);
    }
    for item in items {
        match observation(api, &item, false) {
            Ok(observed) => events.read.push(observed),
            Err(why) => events.unreadable.push(known_of(&item, why).0),
        }
    }
    let seen = events.read.iter();
    let seen = seen.map(|found| codec::last_seen(&found.event));
    let version = version(&metadata.resource_version);
    let page = Page {
        version: version.map_err(|why| unreadable("a list", why))?,
        token: Some(metadata.token).filter(|token| !token.is_empty()),
        oldest: seen.flatten().map(Timestamp::as_millisecond).min(),
        has_unnamed: events.unreadable.iter().any(|it| it.name.is_empty()),
    };
    Ok((page, events))
}

/// The tags of a list's items, and of an object's metadata, in every version of the API.
const ITEMS: u64 = 2 << 3 | 2;
const METADATA: u64 = 1 << 3 | 2;

/// Yields the values of the fields with this tag.
fn values(mut message: &[u8], wanted: u64) -> impl Iterator<Item = Result<&[u8], String>> {
    std::iter::from_fn(move || {
        while !message.is_empty() {
            match take_field(&mut message) {
                None => {
                    message = &[];
                    return Some(Err(NOT_WHOLE.to_owned()));
                }
                Some((tag, value)) if tag == wanted => return Some(Ok(value)),
                Some(_) => {}
            }
        }
        None
    })
}

fn count(message: &[u8], wanted: u64) -> Result<usize, String> {
    values(message, wanted).try_fold(0, |count, value| value.map(|_| count + 1))
}

const NOT_WHOLE: &str = "a field is not whole";

/// Counts the fields in an event's metadata, at least as many as its lists and maps have elements.
/// An event that alone has too many is not decoded.
fn elements_of(event: &[u8]) -> Result<usize, String> {
    let mut elements = 0;
    for metadata in values(event, METADATA) {
        let mut metadata = metadata?;
        while !metadata.is_empty() {
            take_field(&mut metadata).ok_or(NOT_WHOLE)?;
            elements += 1;
        }
    }
    if elements > ELEMENTS_MAX {
        return Err("it has too many elements".into());
    }
    Ok(elements)
}

fn observation(api: Api, raw: &Bytes, is_gone: bool) -> Result<Observation, String> {
    let event = codec::read_protobuf_event(api, raw.clone())?;
    let metadata = event.metadata.clone().unwrap_or_default();
    if ![metadata.namespace(), metadata.name()]
        .into_iter()
        .all(is_step)
    {
        return Err("its name cannot be part of a path".into());
    }
    if !is_uid(metadata.uid()) {
        return Err("its uid is none".into());
    }
    Ok(Observation {
        number: version(metadata.resource_version())?,
        event,
        is_gone,
    })
}

/// Returns what is known of an event that cannot be read, and its version. Names that cannot be in
/// paths are left empty, since events with such names are not kept.
fn known_of(event: &[u8], why: String) -> (Unreadable, Option<u64>) {
    let metadata = values(event, METADATA).flatten().last();
    let metadata = metadata.unwrap_or_default();
    let text = |number: u64| {
        let value = values(metadata, number << 3 | 2).flatten().last();
        let text = value.and_then(|value| std::str::from_utf8(value).ok());
        text.unwrap_or_default()
    };
    let mut known = Unreadable {
        why: bounded_text(why, WHY_BYTES_MAX),
        ..Unreadable::default()
    };
    let (name, namespace, uid) = (text(1), text(3), text(5));
    if is_step(name) && is_step(namespace) && is_uid(uid) {
        namespace.clone_into(&mut known.namespace);
        name.clone_into(&mut known.name);
        uid.clone_into(&mut known.uid);
    }
    (known, version(text(6)).ok())
}

/// Takes a complete frame from the beginning of a watch's bytes.
pub(crate) fn take_frame(api: Api, buffer: &mut BytesMut) -> Result<Option<Frame>, Failure> {
    let Some(len) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(*len) as usize;
    if len > FRAME_MAX {
        return Err(unreadable("a watch event", format!("it has {len} bytes")));
    }
    if buffer.len() - 4 < len {
        return Ok(None);
    }
    buffer.advance(4);
    let bytes = buffer.split_to(len).freeze();
    let event = WatchEvent::decode(bytes).map_err(|why| unreadable("a watch event", why))?;
    let object = event.object.unwrap_or_default().raw;
    let object = protobuf::open(&object).map(|object| object.raw);
    let frame = match event.kind.as_str() {
        "ADDED" | "MODIFIED" => event_frame(api, object, false),
        "DELETED" => event_frame(api, object, true),
        "BOOKMARK" => {
            let is_unreadable = |why: String| unreadable("a bookmark", why);
            let object = AnyObject::decode(object.map_err(is_unreadable)?)
                .map_err(|why| is_unreadable(why.to_string()))?;
            let metadata = object.metadata.unwrap_or_default();
            Frame::Bookmark(version(&metadata.resource_version).map_err(is_unreadable)?)
        }
        "ERROR" => {
            let is_unreadable = |why: String| unreadable("a Status", why);
            let status = Status::decode(object.map_err(is_unreadable)?)
                .map_err(|why| is_unreadable(why.to_string()))?;
            Frame::Error(failure(status))
        }
        other => {
            return Err(unreadable(
                "a watch event",
                format!("its type is {other:?}"),
            ));
        }
    };
    Ok(Some(frame))
}

fn event_frame(api: Api, object: Result<Bytes, String>, is_gone: bool) -> Frame {
    let read = object.map_err(|why| (Bytes::new(), why));
    let read = read.and_then(|raw| {
        let observed = elements_of(&raw).and_then(|_| observation(api, &raw, is_gone));
        observed.map_err(|why| (raw, why))
    });
    match read {
        Ok(observed) => Frame::Event(Box::new(observed)),
        Err((raw, why)) => {
            let (known, version) = known_of(&raw, why);
            Frame::Unreadable(Box::new(known), version)
        }
    }
}

/// Reads the message of an error answer, whose body may be anything.
pub(crate) fn read_failure(code: u16, retry_after: Option<i64>, body: &Bytes) -> Failure {
    let status = protobuf::open(body)
        .ok()
        .filter(|object| object.kind == "Status")
        .and_then(|object| Status::decode(object.raw).ok());
    let status = status.unwrap_or_else(|| {
        let text = body.get(..body.len().min(300)).unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let causes = json["details"]["causes"].as_array();
        let causes = causes.into_iter().flatten();
        Status {
            message: json["message"].as_str().map_or(text, str::to_owned),
            details: Some(StatusDetails {
                causes: causes
                    .map(|cause| StatusCause {
                        reason: cause["reason"].as_str().unwrap_or_default().to_owned(),
                    })
                    .collect(),
                retry_after_seconds: 0,
            }),
            code: 0,
        }
    });
    let failure = failure(Status {
        code: code.into(),
        ..status
    });
    match failure {
        Failure::Other {
            why,
            retry_after: by_status,
        } => Failure::Other {
            why,
            retry_after: retry_after.or(by_status),
        },
        failure => failure,
    }
}

/// Describes a status code without a message, such as that of a redirect.
fn in_words(code: i32) -> &'static str {
    let code = u16::try_from(code).ok();
    let code = code.and_then(|code| StatusCode::from_u16(code).ok());
    let words = code.and_then(|code| code.canonical_reason());
    words.unwrap_or("an answer without a text")
}

fn failure(status: Status) -> Failure {
    let details = status.details.unwrap_or_default();
    let too_large = |cause: &StatusCause| cause.reason == "ResourceVersionTooLarge";
    let message = match status.message.trim() {
        "" => in_words(status.code),
        message => message,
    };
    let message = bounded_text(message, WHY_BYTES_MAX);
    let why = format!("{message} ({})", status.code);
    match status.code {
        410 => Failure::Expired,
        400 => Failure::BadRequest(why),
        401 => Failure::Unauthorized(why),
        403 => Failure::Forbidden(why),
        404 => Failure::NotFound(why),
        504 if details.causes.iter().any(too_large) => Failure::FromTheFuture,
        _ => Failure::Other {
            why,
            retry_after: Some(i64::from(details.retry_after_seconds) * 1000)
                .filter(|millis| *millis > 0),
        },
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

    use super::*;

    fn event(name: &str) -> Event {
        Event {
            metadata: Some(ObjectMeta {
                namespace: Some("shop".into()),
                name: Some(name.into()),
                uid: Some("uid-1".into()),
                resource_version: Some("7".into()),
                ..ObjectMeta::default()
            }),
            ..Event::default()
        }
    }

    fn list(items: impl IntoIterator<Item = Event>, token: &str) -> Bytes {
        let list = EventList {
            metadata: Some(ListMeta {
                resource_version: "9".into(),
                token: token.into(),
            }),
            items: items
                .into_iter()
                .map(|item| item.encode_to_vec().into())
                .collect(),
        };
        protobuf::envelop("v1", "EventList", &list).into()
    }

    fn frame(kind: &str, event: &Event) -> BytesMut {
        let frame = WatchEvent {
            kind: kind.into(),
            object: Some(RawExtension {
                raw: protobuf::envelop("v1", "Event", event).into(),
            }),
        };
        let bytes = frame.encode_to_vec();
        let len = u32::try_from(bytes.len()).unwrap();
        [&len.to_be_bytes()[..], &bytes].concat().as_slice().into()
    }

    fn with_elements(count: usize) -> Event {
        let mut event = event("web.1");
        event.metadata.as_mut().unwrap().managed_fields =
            vec![ManagedFieldsEntry::default(); count];
        event
    }

    #[test]
    fn elements_are_counted_before_anything_is_made_of_them() {
        let mut frames = frame("ADDED", &with_elements(ELEMENTS_MAX - 4));
        assert!(matches!(
            take_frame(Api::Core, &mut frames),
            Ok(Some(Frame::Event(_)))
        ));
        let mut frames = frame("ADDED", &with_elements(ELEMENTS_MAX - 3));
        assert!(matches!(
            take_frame(Api::Core, &mut frames),
            Ok(Some(Frame::Unreadable(_, Some(7))))
        ));
        let one = list([with_elements(ELEMENTS_MAX - 3), event("web.1")], "");
        let (_, found) = read_list(Api::Core, &one).unwrap();
        assert_eq!((found.read.len(), found.unreadable.len()), (1, 1));

        let half = || with_elements(ELEMENTS_MAX / 2 - 4);
        assert!(read_list(Api::Core, &list([half(), half()], "")).is_ok());
        let three = list([half(), half(), half()], "");
        assert_eq!(read_list(Api::Core, &three).unwrap_err(), Failure::TooLarge);

        let many = |count| list(std::iter::repeat_n(event("web.1"), count), "");
        assert_eq!(
            read_list(Api::Core, &many(ITEMS_MAX)).unwrap().1.read.len(),
            ITEMS_MAX
        );
        assert_eq!(
            read_list(Api::Core, &many(ITEMS_MAX + 1)).unwrap_err(),
            Failure::TooLarge
        );
    }

    #[test]
    fn names_that_would_be_other_keys_or_paths_are_refused() {
        for (name, expected) in [
            ("web.1", true),
            ("Web_1:x", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a%2fb", false),
            ("\0position", false),
        ] {
            let (page, found) = read_list(Api::Core, &list([event(name)], "")).unwrap();
            assert_eq!(found.read.len(), usize::from(expected), "{name:?}");
            assert_eq!(found.unreadable.len(), usize::from(!expected), "{name:?}");
            assert_eq!(page.has_unnamed, !expected, "{name:?}");
            let mut frames = frame("MODIFIED", &event(name));
            let is_read = match take_frame(Api::Core, &mut frames).unwrap().unwrap() {
                Frame::Event(_) => true,
                Frame::Unreadable(known, Some(7)) => {
                    assert_eq!((&*known.namespace, &*known.name), ("", ""));
                    false
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(is_read, expected, "{name:?}");
        }
        let mut other = event("web.1");
        other.metadata.as_mut().unwrap().namespace = Some("\0position".into());
        let (_, found) = read_list(Api::Core, &list([other], "")).unwrap();
        assert_eq!((found.read.len(), found.unreadable.len()), (0, 1));
    }

    /// The event with other bytes for its message, which was `MESSAGE`.
    fn with_message(api: Api, event: &Event, message: &[u8]) -> Bytes {
        let envelope = codec::protobuf_event(api, event.clone()).into();
        let raw = protobuf::open(&envelope).unwrap().raw;
        let at = raw.windows(MESSAGE.len()).position(|it| it == MESSAGE);
        let at = at.unwrap();
        let behind = at + MESSAGE.len();
        [&raw[..at], message, &raw[behind..]].concat().into()
    }

    const MESSAGE: &[u8] = b"probe failed: xxxx";

    fn numbered(name: &str, number: u64) -> Event {
        let mut event = event(name);
        let metadata = event.metadata.as_mut().unwrap();
        metadata.resource_version = Some(number.to_string());
        event.message = Some(String::from_utf8(MESSAGE.to_vec()).unwrap());
        event
    }

    fn list_of(items: Vec<Bytes>) -> Bytes {
        let list = EventList {
            metadata: Some(ListMeta {
                resource_version: "9".into(),
                token: String::new(),
            }),
            items,
        };
        protobuf::envelop("v1", "EventList", &list).into()
    }

    fn watched(items: &[Bytes]) -> BytesMut {
        let mut sent = BytesMut::new();
        for item in items {
            let object = protobuf::envelop_bytes("v1", "Event", item);
            sent.extend_from_slice(&protobuf::watch_frame("ADDED", &object));
        }
        sent
    }

    /// A probe's output is cut at a number of bytes, possibly within a character, and Go does not
    /// check the texts of a protobuf message.
    #[test]
    fn a_message_that_ends_within_a_character_is_kept() {
        for api in [Api::Core, Api::Events] {
            let cut = with_message(api, &numbered("web.2", 2), b"probe failed: \xffx\xc3\xc3");
            let good = |number| with_message(api, &numbered("web.1", number), MESSAGE);
            let items = vec![good(1), cut, good(3)];
            let mut sent = watched(&items);
            let (_, found) = read_list(api, &list_of(items)).unwrap();
            assert_eq!(found.unreadable, []);
            let listed = found.read.iter();
            let listed: Vec<_> = listed.map(|it| (it.number, it.event.message())).collect();
            let expected = [
                (1, "probe failed: xxxx"),
                (2, "probe failed: \u{fffd}x\u{fffd}\u{fffd}"),
                (3, "probe failed: xxxx"),
            ];
            assert_eq!(listed, expected);
            for (version, message) in expected {
                let frame = take_frame(api, &mut sent).unwrap();
                let Some(Frame::Event(observed)) = frame else {
                    panic!("{frame:?}");
                };
                assert_eq!(
                    (observed.number, observed.event.message()),
                    (version, message)
                );
            }
        }
    }

    #[test]
    fn an_event_that_cannot_be_read_costs_only_itself() {
        let late = {
            let mut event = numbered("web.2", 2);
            event.last_timestamp = Some(k8s_pb::apimachinery::pkg::apis::meta::v1::Time {
                seconds: Some(i64::MAX),
                nanos: None,
            });
            with_message(Api::Core, &event, MESSAGE)
        };
        let mut unnumbered = numbered("web.2", 2);
        unnumbered.metadata.as_mut().unwrap().resource_version = Some("two".into());
        let unnumbered = with_message(Api::Core, &unnumbered, MESSAGE);
        // A length beyond the end, after the metadata and in place of them.
        let mut cut = with_message(Api::Core, &numbered("web.2", 2), MESSAGE).to_vec();
        cut.extend_from_slice(b"\x1a\x7f");
        let nothing = Bytes::from_static(b"\x0a\x7f");
        let good = |number| with_message(Api::Core, &numbered("web.1", number), MESSAGE);
        for (bad, name, number) in [
            (late, "web.2", Some(2)),
            (unnumbered, "web.2", None),
            (cut.into(), "web.2", Some(2)),
            (nothing, "", None),
        ] {
            let items = vec![good(1), bad, good(3)];
            let mut sent = watched(&items);
            let (page, found) = read_list(Api::Core, &list_of(items)).unwrap();
            let read: Vec<_> = found.read.iter().map(|it| it.number).collect();
            assert_eq!(read, [1, 3], "{name}");
            let [known] = &found.unreadable[..] else {
                panic!("{found:?}");
            };
            assert_eq!(known.name, name);
            assert!(!known.why.is_empty());
            assert_eq!(page.has_unnamed, name.is_empty());

            let mut frames = Vec::new();
            while let Some(frame) = take_frame(Api::Core, &mut sent).unwrap() {
                frames.push(match frame {
                    Frame::Event(observed) => Ok(observed.number),
                    Frame::Unreadable(known, version) => Err((known.name, version)),
                    other => panic!("{other:?}"),
                });
            }
            assert_eq!(frames, [Ok(1), Err((name.to_owned(), number)), Ok(3)]);
        }
    }

    #[test]
    fn what_a_source_says_is_repeated_in_part() {
        let token = "t".repeat(TOKEN_MAX);
        assert!(read_list(Api::Core, &list([], &token)).is_ok());
        assert!(read_list(Api::Core, &list([], &(token + "t"))).is_err());
        let long = "y".repeat(1 << 20);
        let json = format!("{{\"message\":\"{long}\"}}");
        let kind = take_frame(Api::Core, &mut frame(&long, &event("web.1"))).unwrap_err();
        for failure in [read_failure(500, None, &json.into()), kind] {
            let Failure::Other { why, .. } = failure else {
                panic!("{failure:?}");
            };
            assert!(why.len() < 2 * WHY_BYTES_MAX, "{}", why.len());
        }
        for (code, said) in [
            (302, "Found (302)"),
            (599, "an answer without a text (599)"),
        ] {
            let silent = read_failure(code, None, &Bytes::new());
            assert!(matches!(silent, Failure::Other { why, .. } if why == said));
        }
        let gone = read_failure(404, None, &Bytes::from_static(b"{\"message\": \"none\"}"));
        assert_eq!(gone, Failure::NotFound("none (404)".to_owned()));
    }
}
