//! Kubernetes' protobuf: the envelope around a message, and conversion between both versions.
//!
//! The envelope is that of `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`: four magic bytes,
//! then `runtime.Unknown`.

use bytes::Bytes;
use k8s_pb::api::core::v1::{Event as CoreEvent, EventSeries as CoreSeries};
use k8s_pb::api::events::v1::{Event as EventsEvent, EventSeries as EventsSeries};
use k8s_pb::apimachinery::pkg::runtime::TypeMeta;
use prost::Message;
pub use tidings_core::wire::MAGIC;
use tidings_core::wire::put_varint;

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

/// An opened envelope. Its `raw` shares the bytes that it was opened from.
#[derive(Debug)]
pub struct Enveloped {
    /// The `apiVersion` of the object.
    pub api_version: String,
    /// The `kind` of the object.
    pub kind: String,
    /// The object's own bytes.
    pub raw: Bytes,
}

/// Opens an envelope.
///
/// # Errors
///
/// The reason why the bytes are not an envelope, as a fragment of a message.
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
    let type_meta = unknown.type_meta.unwrap_or_default();
    Ok(Enveloped {
        api_version: type_meta.api_version.unwrap_or_default(),
        kind: type_meta.kind.unwrap_or_default(),
        raw: unknown.raw,
    })
}

/// Puts a message into an envelope, with the same bytes as kube-apiserver.
pub fn envelop(api_version: &str, kind: &str, message: &impl Message) -> Vec<u8> {
    envelop_with(api_version, kind, message.encoded_len(), |out| {
        message.encode_raw(out);
    })
}

/// Puts a message that is encoded already into an envelope.
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
        api_version: Some(api_version.into()),
        kind: Some(kind.into()),
    };
    let mut out = Vec::with_capacity(len + api_version.len() + kind.len() + 32);
    out.extend_from_slice(MAGIC);
    out.push(0x0a);
    put_varint(type_meta.encoded_len() as u64, &mut out);
    type_meta.encode_raw(&mut out);
    out.push(0x12);
    put_varint(len as u64, &mut out);
    put_message(&mut out);
    // Fields contentEncoding and contentType: empty, but present.
    out.extend_from_slice(&[0x1a, 0, 0x22, 0]);
    out
}

/// A frame of a protobuf watch. It is a length in four bytes, then a bare `WatchEvent` around an
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
    // A frame holds one event, so it is far below 4 GiB.
    frame.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    event.encode_raw(&mut frame);
    frame
}

/// Converts a field's value between the messages of both versions.
trait Across<T> {
    fn across(self) -> T;
}

impl<T> Across<T> for T {
    fn across(self) -> T {
        self
    }
}

/// Converts the two types that differ between the versions, field by field of the table.
macro_rules! across {
    ($($table:ident $type:ident $($atomic:ident)? $about:literal { $($rows:tt)+ })+) => {
        $(across!(@$table $($rows)+);)+
    };
    (@EVENT $($rows:tt)+) => {
        /// Converts a stored event to an `events.k8s.io/v1` message.
        pub fn to_events(event: CoreEvent) -> EventsEvent {
            across!(event => EventsEvent, other { $($rows)+ })
        }

        /// Converts an `events.k8s.io/v1` message to the event to store.
        pub(crate) fn from_events(event: EventsEvent) -> CoreEvent {
            across!(event => CoreEvent, own { $($rows)+ })
        }
    };
    (@EVENT_SERIES $($rows:tt)+) => {
        impl Across<Option<EventsSeries>> for Option<CoreSeries> {
            fn across(self) -> Option<EventsSeries> {
                self.map(|series| across!(series => EventsSeries, other { $($rows)+ }))
            }
        }

        impl Across<Option<CoreSeries>> for Option<EventsSeries> {
            fn across(self) -> Option<CoreSeries> {
                self.map(|series| across!(series => CoreSeries, own { $($rows)+ }))
            }
        }
    };
    ($from:ident => $to:ident, $side:ident {
        $($field:ident: $kind:ident $(($($of:tt)+))? = $number:literal $name:literal $rule:ident
            $what:literal | $other:ident $events_number:literal $events_name:literal
            $events_rule:ident $events_what:literal;)+
    }) => {
        across!(@$side $from $to, $($field $other)+)
    };
    (@other $from:ident $to:ident, $($field:ident $other:ident)+) => {
        $to { $($other: $from.$field.across(),)+ }
    };
    (@own $from:ident $to:ident, $($field:ident $other:ident)+) => {
        $to { $($field: $from.$other.across(),)+ }
    };
    (@$table:ident $($rows:tt)+) => {};
}
tidings_core::event_types!(across);
