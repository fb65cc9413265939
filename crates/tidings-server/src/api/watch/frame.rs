//! The bytes of one watch event: a line of JSON, or a length and a protobuf message.

use bytes::Bytes;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_store::{Record, Revision};

use crate::api::request::encode_watched;
use crate::http::negotiate::{Form, Media, Shape};
use crate::http::status::Status;
use crate::http::stored::Stored;
use tidings_api::codec::stored::StoredEvent;
use tidings_api::codec::{self, Api};
use tidings_api::table::Rows;

/// Encodes the event in a record with a revision, which for a deleted event is that of its
/// deletion.
pub(crate) fn event_frame(
    api: Api,
    form: Form,
    kind: &str,
    record: &Record,
    revision: Revision,
    rows: Option<(Rows, bool)>,
) -> Result<Bytes, Status> {
    let stored = StoredEvent::open(&record.value, revision);
    if let Some(object) = stored.and_then(|stored| object(api, form, &stored, revision, rows)) {
        return Ok(frame(form.media, kind, &object));
    }
    let Stored { mut event, .. } = Stored::decode(record.clone())?;
    codec::set_revision(&mut event, revision);
    let object = encode_watched(api, form, &event, rows)?;
    Ok(frame(form.media, kind, &object))
}

/// The object from its stored bytes; `None` if they are not in the usual form.
fn object(
    api: Api,
    form: Form,
    stored: &StoredEvent<'_>,
    revision: Revision,
    rows: Option<(Rows, bool)>,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    match (form.shape, form.media) {
        (Shape::Table(_), _) => {
            let (rows, columns) = rows?;
            let meta = ListMeta {
                resource_version: Some(revision.to_string()),
                ..ListMeta::default()
            };
            rows.write_start(&meta, columns, &mut out);
            rows.write_stored_row(stored, &mut out)?;
            Rows::write_end(&mut out);
        }
        (Shape::Whole | Shape::Mismatch(_), Media::Protobuf) => {
            stored.write_protobuf(api, &mut out)?;
            return Some(codec::protobuf::envelop_bytes(
                api.api_version(),
                api.kind(),
                &out,
            ));
        }
        (Shape::Partial(api_version), Media::Protobuf) => {
            stored.write_partial_protobuf(&mut out)?;
            let kind = "PartialObjectMetadata";
            return Some(codec::protobuf::envelop_bytes(api_version, kind, &out));
        }
        (Shape::Whole | Shape::Mismatch(_), _) => stored.write_json(api, true, &mut out)?,
        (Shape::Partial(api_version), _) => {
            stored.write_partial_json(api_version, true, &mut out)?;
        }
    }
    Some(out)
}

/// A watch event around an encoded object.
pub(crate) fn frame(media: Media, kind: &str, object: &[u8]) -> Bytes {
    if media == Media::Protobuf {
        return codec::protobuf::watch_frame(kind, object).into();
    }
    let parts: [&[u8]; 5] = [
        b"{\"type\":\"",
        kind.as_bytes(),
        b"\",\"object\":",
        object,
        b"}\n",
    ];
    parts.concat().into()
}

/// The bytes to send at once: one frame, shared with other watchers, or a copy of several.
pub(crate) fn together(mut frames: Vec<Bytes>) -> Bytes {
    match frames.len() {
        0 | 1 => frames.pop().unwrap_or_default(),
        _ => frames.concat().into(),
    }
}
