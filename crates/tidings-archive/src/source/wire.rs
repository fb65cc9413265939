//! Decodes lists and watches of events from Kubernetes' protobuf, which every API server supports.
//!
//! A source may send anything. The decoded form takes memory in proportion to its bytes, which are
//! bounded, and to the elements of lists and maps, for which two bytes each suffice: elements are
//! counted before anything is decoded.

use bytes::{Buf, Bytes, BytesMut};
use jiff::Timestamp;
use prost::Message;
use tidings_api::codec::{self, Api, protobuf};
use tidings_core::validate::bounded_text;

use crate::follow::follower::{Failure, Page};
use crate::keep::keeper::Observation;
use crate::version::delta::take_field;

/// Longest frame of a watch that is accepted: an event is below etcd's limit of 1.5 MiB.
const FRAME_MAX: usize = 4 << 20;
/// Maximum events of a page of a list, however many were requested.
const ITEMS_MAX: usize = 10_000;
/// Maximum elements in the metadata of a page or frame; an event has some ten.
const ELEMENTS_MAX: usize = 200_000;
/// Longest continue token; kube-apiserver's have some hundred bytes.
const TOKEN_MAX: usize = 16 << 10;
/// Maximum bytes of a source's message that are repeated in logs and health checks.
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
    /// A bookmark: there are no other changes up to this version.
    Bookmark(u64),
    Error(Failure),
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

fn version(text: &str) -> Result<u64, Failure> {
    text.parse()
        .map_err(|_| unreadable("a resourceVersion", format!("{text:?} is no number")))
}

/// A page of a list.
pub(crate) fn read_list(api: Api, body: &Bytes) -> Result<(Page, Vec<Observation>), Failure> {
    let list = protobuf::open(body).map_err(|why| unreadable("a list", why))?;
    if count(&list.raw, ITEMS)? > ITEMS_MAX {
        return Err(Failure::TooLarge);
    }
    let list = EventList::decode(list.raw).map_err(|why| unreadable("a list", why))?;
    let metadata = list.metadata.unwrap_or_default();
    if metadata.token.len() > TOKEN_MAX {
        return Err(unreadable("a list", "its continue token is too long"));
    }
    let mut elements = 0;
    for item in &list.items {
        elements += elements_of(item)?;
    }
    if elements > ELEMENTS_MAX {
        return Err(Failure::TooLarge);
    }
    let events = list
        .items
        .into_iter()
        .map(|item| observation(api, item, false));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let seen = events.iter().map(|found| codec::last_seen(&found.event));
    let page = Page {
        version: version(&metadata.resource_version)?,
        token: Some(metadata.token).filter(|token| !token.is_empty()),
        oldest: seen.flatten().map(Timestamp::as_millisecond).min(),
    };
    Ok((page, events))
}

/// The tags of a list's items, and of an object's metadata, in every version.
const ITEMS: u64 = 2 << 3 | 2;
const METADATA: u64 = 1 << 3 | 2;

/// The values of the fields with this tag.
fn values(mut message: &[u8], wanted: u64) -> impl Iterator<Item = Result<&[u8], Failure>> {
    std::iter::from_fn(move || {
        while !message.is_empty() {
            match take_field(&mut message) {
                None => {
                    message = &[];
                    return Some(Err(unreadable("a message", "a field is not whole")));
                }
                Some((tag, value)) if tag == wanted => return Some(Ok(value)),
                Some(_) => {}
            }
        }
        None
    })
}

fn count(message: &[u8], wanted: u64) -> Result<usize, Failure> {
    values(message, wanted).try_fold(0, |count, value| value.map(|_| count + 1))
}

/// The number of fields in an event's metadata, at least that of the elements in its lists and
/// maps.
fn elements_of(event: &[u8]) -> Result<usize, Failure> {
    let mut elements = 0;
    for metadata in values(event, METADATA) {
        let mut metadata = metadata?;
        while !metadata.is_empty() {
            let field = take_field(&mut metadata);
            field.ok_or_else(|| unreadable("an event", "a field is not whole"))?;
            elements += 1;
        }
    }
    Ok(elements)
}

fn observation(api: Api, raw: Bytes, is_gone: bool) -> Result<Observation, Failure> {
    let event = codec::read_protobuf_event(api, raw).map_err(|why| unreadable("an event", why))?;
    let metadata = event.metadata.clone().unwrap_or_default();
    if ![metadata.namespace(), metadata.name()]
        .into_iter()
        .all(is_step)
    {
        return Err(unreadable("an event", "its name cannot be part of a path"));
    }
    if metadata.uid().contains(['/', '\0']) {
        return Err(unreadable("an event", "its uid is none"));
    }
    Ok(Observation {
        version: version(metadata.resource_version())?,
        event,
        is_gone,
    })
}

/// Whether a text can be a namespace or a name, which are segments of paths and parts of keys
/// (`IsValidPathSegmentName`).
fn is_step(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%', '\0'])
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
    let object = protobuf::open(&object).map_err(|why| unreadable("a watch event", why))?;
    let observation = |is_gone| {
        if elements_of(&object.raw)? > ELEMENTS_MAX {
            return Err(unreadable("an event", "it has too many elements"));
        }
        let observed = observation(api, object.raw.clone(), is_gone)?;
        Ok(Frame::Event(Box::new(observed)))
    };
    let frame = match event.kind.as_str() {
        "ADDED" | "MODIFIED" => observation(false)?,
        "DELETED" => observation(true)?,
        "BOOKMARK" => {
            let object =
                AnyObject::decode(object.raw).map_err(|why| unreadable("a bookmark", why))?;
            Frame::Bookmark(version(
                &object.metadata.unwrap_or_default().resource_version,
            )?)
        }
        "ERROR" => Frame::Error(failure(
            Status::decode(object.raw).map_err(|why| unreadable("a Status", why))?,
        )),
        other => {
            return Err(unreadable(
                "a watch event",
                format!("its type is {other:?}"),
            ));
        }
    };
    Ok(Some(frame))
}

/// The message of an error answer, whose body may be anything.
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

fn failure(status: Status) -> Failure {
    let details = status.details.unwrap_or_default();
    let too_large = |cause: &StatusCause| cause.reason == "ResourceVersionTooLarge";
    let message = bounded_text(status.message.trim(), WHY_BYTES_MAX);
    let why = format!("{message} ({})", status.code);
    match status.code {
        410 => Failure::Expired,
        401 | 403 => Failure::Forbidden(why),
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
        assert!(take_frame(Api::Core, &mut frames).is_err());

        let half = || with_elements(ELEMENTS_MAX / 2 - 4);
        assert!(read_list(Api::Core, &list([half(), half()], "")).is_ok());
        let three = list([half(), half(), half()], "");
        assert_eq!(read_list(Api::Core, &three).unwrap_err(), Failure::TooLarge);

        let many = |count| list(std::iter::repeat_n(event("web.1"), count), "");
        assert_eq!(
            read_list(Api::Core, &many(ITEMS_MAX)).unwrap().1.len(),
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
            let read = read_list(Api::Core, &list([event(name)], ""));
            assert_eq!(read.is_ok(), expected, "{name:?}");
            let mut frames = frame("MODIFIED", &event(name));
            assert_eq!(
                take_frame(Api::Core, &mut frames).is_ok(),
                expected,
                "{name:?}"
            );
        }
        let mut other = event("web.1");
        other.metadata.as_mut().unwrap().namespace = Some("\0position".into());
        assert!(read_list(Api::Core, &list([other], "")).is_err());
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
        let gone = read_failure(404, None, &Bytes::from_static(b"{\"message\": \"none\"}"));
        assert!(matches!(gone, Failure::Other { why, .. } if why.ends_with("(404)")));
    }
}
