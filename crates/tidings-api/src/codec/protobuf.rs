//! Kubernetes' protobuf: the envelope around a message, and the `events.k8s.io/v1` message made
//! from the stored one.
//!
//! The envelope is `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`'s: four magic bytes, then
//! `runtime.Unknown`.

use bytes::Bytes;
use k8s_pb::api::{core::v1 as core, events::v1 as events};
use prost::Message;

/// What every enveloped message starts with.
pub const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
    #[prost(string, tag = "3")]
    content_encoding: String,
    #[prost(string, tag = "4")]
    content_type: String,
}

/// An opened envelope; `raw` shares the bytes it was opened from.
#[derive(Debug)]
pub struct Enveloped {
    /// `apiVersion` of the object.
    pub api_version: String,
    /// `kind` of the object.
    pub kind: String,
    /// The object's own bytes.
    pub raw: Bytes,
}

/// Opens an envelope.
///
/// # Errors
/// A fragment saying what is wrong: the magic bytes are missing, nothing follows them, or not the
/// envelope's message.
pub fn open(bytes: &Bytes) -> Result<Enveloped, String> {
    if bytes.is_empty() {
        return Err("empty data".into());
    }
    if !bytes.starts_with(MAGIC) {
        return Err("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".into());
    }
    let body = bytes.slice(MAGIC.len()..);
    if body.is_empty() {
        return Err("empty body".into());
    }
    let unknown = Unknown::decode(body).map_err(|error| error.to_string())?;
    if !unknown.content_encoding.is_empty() {
        return Err(format!(
            "the content encoding {:?} inside the envelope is not supported",
            unknown.content_encoding
        ));
    }
    let TypeMeta { api_version, kind } = unknown.type_meta.unwrap_or_default();
    Ok(Enveloped {
        api_version,
        kind,
        raw: unknown.raw,
    })
}

/// Puts a message into an envelope, byte for byte as the API server does.
pub fn envelop(api_version: &str, kind: &str, message: &impl Message) -> Vec<u8> {
    envelop_with(api_version, kind, message.encoded_len(), |out| {
        put(message, out);
    })
}

/// The same around a message that is encoded already.
pub fn envelop_bytes(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    envelop_with(api_version, kind, message.len(), |out| {
        out.extend_from_slice(message);
    })
}

fn envelop_with(
    api_version: &str,
    kind: &str,
    len: usize,
    put_message: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let type_meta = TypeMeta {
        api_version: api_version.into(),
        kind: kind.into(),
    };
    let mut out = Vec::with_capacity(len + api_version.len() + kind.len() + 32);
    out.extend_from_slice(MAGIC);
    out.push(0x0a);
    put_len(type_meta.encoded_len(), &mut out);
    put(&type_meta, &mut out);
    out.push(0x12);
    put_len(len, &mut out);
    put_message(&mut out);
    // contentEncoding and contentType, empty but present.
    out.extend_from_slice(&[0x1a, 0, 0x22, 0]);
    out
}

/// A frame of a protobuf watch: its length in four bytes, then a bare `WatchEvent` around an
/// enveloped object.
pub fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    use k8s_pb::apimachinery::pkg::{apis::meta::v1::WatchEvent, runtime::RawExtension};
    let event = WatchEvent {
        r#type: Some(kind.to_owned()),
        object: Some(RawExtension {
            raw: Some(object.to_vec()),
        }),
    };
    let len = event.encoded_len();
    let mut frame = Vec::with_capacity(len + 4);
    // A frame holds one event, which is far below 4 GiB.
    frame.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    put(&event, &mut frame);
    frame
}

/// Appends a message; a `Vec` grows, so this cannot fail.
fn put(message: &impl Message, out: &mut Vec<u8>) {
    message.encode_raw(out);
}

fn put_len(len: usize, out: &mut Vec<u8>) {
    // Fails only for want of room, which a Vec makes.
    let _ = prost::encode_length_delimiter(len, out);
}

/// The stored event as an `events.k8s.io/v1` message.
pub fn to_events(event: core::Event) -> events::Event {
    events::Event {
        metadata: event.metadata,
        event_time: event.event_time,
        series: event.series.map(|series| events::EventSeries {
            count: series.count,
            last_observed_time: series.last_observed_time,
        }),
        reporting_controller: event.reporting_component,
        reporting_instance: event.reporting_instance,
        action: event.action,
        reason: event.reason,
        regarding: event.involved_object,
        related: event.related,
        note: event.message,
        r#type: event.r#type,
        deprecated_source: event.source,
        deprecated_first_timestamp: event.first_timestamp,
        deprecated_last_timestamp: event.last_timestamp,
        deprecated_count: event.count,
    }
}

/// An `events.k8s.io/v1` message as the event to store.
pub fn from_events(event: events::Event) -> core::Event {
    core::Event {
        metadata: event.metadata,
        involved_object: event.regarding,
        reason: event.reason,
        message: event.note,
        source: event.deprecated_source,
        first_timestamp: event.deprecated_first_timestamp,
        last_timestamp: event.deprecated_last_timestamp,
        count: event.deprecated_count,
        r#type: event.r#type,
        event_time: event.event_time,
        series: event.series.map(|series| core::EventSeries {
            count: series.count,
            last_observed_time: series.last_observed_time,
        }),
        action: event.action,
        related: event.related,
        reporting_component: event.reporting_controller,
        reporting_instance: event.reporting_instance,
    }
}
