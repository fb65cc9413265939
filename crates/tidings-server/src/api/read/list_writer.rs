//! Writes a list in the requested form piece by piece: its beginning, each item, its end.
//!
//! Items are written from their stored bytes if these are in the usual form. A protobuf list begins
//! with its length; [`ListWriter::item_len`] and [`ListWriter::write_end`] explain how that stays
//! correct when events expire while the list is being sent.

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use prost::Message;
use serde_json::Value;
use tidings_store::Record;

use crate::http::negotiate::{Form, Media, Shape};
use crate::http::status::Status;
use crate::http::stored::Stored;
use tidings_api::codec::protobuf::MAGIC;
use tidings_api::codec::stored::{StoredEvent, put_bytes, put_varint, varint_len};
use tidings_api::codec::{self, Api};
use tidings_api::indent::Indenter;
use tidings_api::table::Rows;

/// The field of `items` in every list message.
const ITEMS: usize = 2;
/// A field number that no list message has, used as a filler.
const FILLER: usize = 15;
/// Maximum bytes of one filler field.
const FILLER_LEN_MAX: usize = 16 * 1024;

/// An item of a list.
#[derive(Clone, Copy)]
pub(crate) enum Item<'a> {
    /// An event as the store has it.
    Record(&'a Record),
    /// A decoded event.
    Event(&'a Event),
}

impl<'a> Item<'a> {
    /// The stored bytes, if they are in the usual form.
    fn stored(self) -> Option<StoredEvent<'a>> {
        match self {
            Item::Record(record) => StoredEvent::open(&record.value, record.revision),
            Item::Event(_) => None,
        }
    }

    fn event(self) -> Result<Event, Status> {
        match self {
            Item::Record(record) => Ok(Stored::decode(record.clone())?.event),
            Item::Event(event) => Ok(event.clone()),
        }
    }
}

impl<'a> From<&'a Record> for Item<'a> {
    fn from(record: &'a Record) -> Self {
        Item::Record(record)
    }
}

impl<'a> From<&'a Event> for Item<'a> {
    fn from(event: &'a Event) -> Self {
        Item::Event(event)
    }
}

/// Writes one list.
pub(crate) struct ListWriter {
    api: Api,
    form: Form,
    rows: Rows,
    first: bool,
    indenter: Indenter,
    /// Bytes of items that a protobuf list has announced and not yet written.
    announced: usize,
    /// A buffer for one item.
    scratch: Vec<u8>,
}

impl ListWriter {
    pub(crate) fn new(api: Api, form: Form, rows: Rows) -> Self {
        Self {
            api,
            form,
            rows,
            first: true,
            indenter: Indenter::default(),
            announced: 0,
            scratch: Vec::new(),
        }
    }

    fn type_meta(&self) -> (&'static str, &'static str) {
        match self.form.shape {
            Shape::Table(api_version) => ("Table", api_version),
            Shape::Whole | Shape::Mismatch(_) => (self.api.list_kind(), self.api.api_version()),
            Shape::Partial(api_version) => ("PartialObjectMetadataList", api_version),
        }
    }

    /// Appends the beginning, up to the items. `items_len` is the sum of their
    /// [`item_len`](Self::item_len), which only protobuf needs.
    pub(crate) fn write_start(
        &mut self,
        meta: &ListMeta,
        items_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        match self.form.media {
            Media::Protobuf => {
                self.announced = items_len;
                self.write_protobuf_start(meta, out);
            }
            Media::Yaml => {
                let mut head = document(&self.json_start(meta))?;
                if !self.is_table() {
                    // Members are sorted, so these two follow the items.
                    head.remove("kind");
                    head.remove("metadata");
                }
                let items = if self.is_table() { "rows" } else { "items" };
                head.remove(items);
                out.extend(yaml(&Value::Object(head))?);
                out.extend_from_slice(items.as_bytes());
                out.push(b':');
            }
            Media::Json => {
                let start = self.json_start(meta);
                self.push_json(&start, out);
            }
        }
        Ok(())
    }

    fn is_table(&self) -> bool {
        matches!(self.form.shape, Shape::Table(_))
    }

    fn json_start(&self, meta: &ListMeta) -> Vec<u8> {
        let mut json = Vec::with_capacity(512);
        if self.is_table() {
            self.rows.write_start(meta, true, &mut json);
            return json;
        }
        let (kind, api_version) = self.type_meta();
        json.extend_from_slice(
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":")
                .as_bytes(),
        );
        codec::write_list_meta(meta, &mut json);
        json.extend_from_slice(b",\"items\":[");
        json
    }

    fn write_protobuf_start(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        let (kind, api_version) = self.type_meta();
        let mut type_meta = Vec::new();
        put_bytes(1, api_version.as_bytes(), &mut type_meta);
        put_bytes(2, kind.as_bytes(), &mut type_meta);
        let mut list_meta = Vec::new();
        put_bytes(1, &meta.encode_to_vec(), &mut list_meta);
        out.extend_from_slice(MAGIC);
        put_bytes(1, &type_meta, out);
        // The field `raw`: its tag and length; its bytes follow.
        out.push(2 << 3 | 2);
        put_varint((list_meta.len() + self.announced) as u64, out);
        out.extend_from_slice(&list_meta);
    }

    fn push_json(&mut self, json: &[u8], out: &mut Vec<u8>) {
        if self.form.pretty {
            self.indenter.push(json, out);
        } else {
            out.extend_from_slice(json);
        }
    }

    /// Bytes of an item in a protobuf list; 0 for other encodings, which do not need it.
    pub(crate) fn item_len<'a>(&mut self, item: impl Into<Item<'a>>) -> Result<usize, Status> {
        if self.form.media != Media::Protobuf {
            return Ok(0);
        }
        self.encode_protobuf(item.into())?;
        let len = self.scratch.len();
        Ok(1 + varint_len(len as u64) + len)
    }

    fn encode_protobuf(&mut self, item: Item<'_>) -> Result<(), Status> {
        self.scratch.clear();
        let partial = matches!(self.form.shape, Shape::Partial(_));
        let written = item.stored().and_then(|stored| {
            if partial {
                stored.write_partial_protobuf(&mut self.scratch)
            } else {
                stored.write_protobuf(self.api, &mut self.scratch)
            }
        });
        if written.is_none() {
            let event = item.event()?;
            self.scratch = match (partial, self.api) {
                (true, _) => {
                    let metadata = event.metadata.unwrap_or_default();
                    let mut bytes = Vec::new();
                    put_bytes(1, &metadata.encode_to_vec(), &mut bytes);
                    bytes
                }
                (false, Api::Core | Api::Past) => event.encode_to_vec(),
                (false, Api::Events) => codec::protobuf::to_events(event).encode_to_vec(),
            };
        }
        Ok(())
    }

    /// Appends an item.
    pub(crate) fn write_item<'a>(
        &mut self,
        item: impl Into<Item<'a>>,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let item = item.into();
        let first = std::mem::take(&mut self.first);
        match self.form.media {
            Media::Protobuf => {
                self.encode_protobuf(item)?;
                let before = out.len();
                put_bytes(ITEMS, &self.scratch, out);
                self.announced = self
                    .announced
                    .checked_sub(out.len() - before)
                    .ok_or_else(|| Status::internal("a list became longer while it was sent"))?;
            }
            Media::Json if self.form.pretty => {
                let mut json = std::mem::take(&mut self.scratch);
                json.clear();
                if !first {
                    json.push(b',');
                }
                let written = self.write_json_item(item, &mut json);
                self.indenter.push(&json, out);
                self.scratch = json;
                written?;
            }
            Media::Json => {
                if !first {
                    out.push(b',');
                }
                self.write_json_item(item, out)?;
            }
            Media::Yaml => {
                if first {
                    out.push(b'\n');
                }
                let mut json = Vec::with_capacity(1024);
                self.write_json_item(item, &mut json)?;
                let item = serde_json::from_slice(&json).map_err(Status::internal)?;
                out.extend(yaml(&Value::Array(vec![item]))?);
            }
        }
        Ok(())
    }

    fn write_json_item(&self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        let start = out.len();
        let written = item.stored().and_then(|stored| match self.form.shape {
            Shape::Table(_) => self.rows.write_stored_row(&stored, out),
            Shape::Whole | Shape::Mismatch(_) => stored.write_json(self.api, false, out),
            Shape::Partial(api_version) => stored.write_partial_json(api_version, true, out),
        });
        if written.is_some() {
            return Ok(());
        }
        out.truncate(start);
        let event = item.event()?;
        match self.form.shape {
            Shape::Table(_) => self.rows.write_row(&event, out),
            Shape::Whole | Shape::Mismatch(_) => codec::write_event(self.api, &event, false, out),
            Shape::Partial(api_version) => {
                let metadata = event.metadata.unwrap_or_default();
                codec::write_partial(&metadata, api_version, true, out);
            }
        }
        Ok(())
    }

    /// Appends the end, after the items.
    pub(crate) fn write_end(&mut self, meta: &ListMeta, out: &mut Vec<u8>) -> Result<(), Status> {
        match self.form.media {
            Media::Protobuf => {
                // Events that have expired since their length was announced are replaced by a field
                // that decoders do not know and skip.
                fill(self.announced, out)?;
                // contentEncoding and contentType, empty but present.
                out.extend_from_slice(&[0x1a, 0, 0x22, 0]);
            }
            Media::Yaml => {
                if self.first {
                    out.extend_from_slice(b" []\n");
                }
                if !self.is_table() {
                    let mut tail = document(&self.json_start(meta))?;
                    tail.remove("apiVersion");
                    tail.remove("items");
                    out.extend(yaml(&Value::Object(tail))?);
                }
            }
            Media::Json => {
                self.push_json(b"]}", out);
                if !self.form.pretty {
                    out.push(b'\n');
                }
            }
        }
        Ok(())
    }
}

/// Appends `len` bytes of filler fields.
fn fill(mut len: usize, out: &mut Vec<u8>) -> Result<(), Status> {
    while len > 0 {
        // Tag, length, and zeros; the rest must be another such field, or empty.
        let piece = len.min(FILLER_LEN_MAX);
        let zeros = (piece.saturating_sub(4)..piece)
            .find(|zeros| 1 + varint_len(*zeros as u64) + zeros == piece);
        let (zeros, piece) = match zeros {
            Some(zeros) if len - piece != 1 => (zeros, piece),
            _ if len >= 2 => (0, 2),
            // Items are longer than one byte, so an expired one cannot leave this gap.
            _ => return Err(Status::internal("a list became shorter by one byte")),
        };
        put_bytes(FILLER, &vec![0; zeros], out);
        len -= piece;
    }
    Ok(())
}

/// The document with this beginning and no items.
fn document(start: &[u8]) -> Result<serde_json::Map<String, Value>, Status> {
    serde_json::from_slice(&[start, b"]}"].concat()).map_err(Status::internal)
}

fn yaml(value: &Value) -> Result<Vec<u8>, Status> {
    serde_saphyr::to_string(value)
        .map(String::into_bytes)
        .map_err(Status::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_gap_of_an_items_length_is_filled() {
        for len in (0..300).chain(16_000..17_000).chain([100_000]) {
            let mut out = Vec::new();
            assert_eq!(fill(len, &mut out).is_ok(), len != 1, "{len}");
            if len != 1 {
                assert_eq!(out.len(), len);
                let list = k8s_pb::api::core::v1::EventList::decode(&out[..]).unwrap();
                assert!(list.items.is_empty());
            }
        }
    }
}
