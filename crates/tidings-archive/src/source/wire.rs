//! Lists and watches of events as Kubernetes' protobuf, which every API server speaks.

use bytes::{Buf, Bytes, BytesMut};
use jiff::Timestamp;
use prost::Message;
use tidings_api::codec::{self, Api, protobuf};

use crate::follow::follower::{Failure, Page};
use crate::keep::keeper::Observation;

/// Longest frame of a watch that is accepted: an event is far below etcd's limit of 1.5 MiB.
const FRAME_MAX: usize = 16 << 20;

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

/// Any object, of which only the metadata is of interest.
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

/// What a watch sent.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Event(Box<Observation>),
    /// Nothing else up to this version.
    Bookmark(u64),
    Error(Failure),
}

fn unreadable(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Other {
        why: format!("the source sent {what} that cannot be read: {why}"),
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
    let list = EventList::decode(list.raw).map_err(|why| unreadable("a list", why))?;
    let metadata = list.metadata.unwrap_or_default();
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

fn observation(api: Api, raw: Bytes, is_gone: bool) -> Result<Observation, Failure> {
    let event = codec::read_protobuf_event(api, raw).map_err(|why| unreadable("an event", why))?;
    let metadata = event.metadata.as_ref();
    let number = metadata.map_or("", |metadata| metadata.resource_version());
    Ok(Observation {
        version: version(number)?,
        event,
        is_gone,
    })
}

/// Takes a whole frame from the front of what a watch sent so far.
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
    let frame = match event.kind.as_str() {
        "ADDED" | "MODIFIED" => Frame::Event(Box::new(observation(api, object.raw, false)?)),
        "DELETED" => Frame::Event(Box::new(observation(api, object.raw, true)?)),
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

/// What an answer that is no success says. Its body may be anything.
pub(crate) fn read_failure(code: u16, retry_after: Option<i64>, body: &Bytes) -> Failure {
    let status = protobuf::open(body)
        .ok()
        .filter(|object| object.kind == "Status")
        .and_then(|object| Status::decode(object.raw).ok());
    let status = status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
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
    let why = format!("{} ({})", status.message.trim(), status.code);
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
