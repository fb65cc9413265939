//! Stored events and their keys.

use k8s_pb::api::core::v1::Event;
use tidings_store::Record;

use crate::http::request::RequestInfo;
use crate::http::status::Status;
use tidings_api::codec;
use tidings_api::selector::Selector;

/// An event and the record that it was read from.
pub(crate) struct Stored {
    pub(crate) event: Event,
    pub(crate) record: Record,
}

impl Stored {
    pub(crate) fn decode(record: Record) -> Result<Self, Status> {
        let event = codec::decode_stored(&record.value, record.revision)
            .map_err(|why| Status::damaged(&record.key, &why))?;
        Ok(Self { event, record })
    }
}

/// Whether the event in a record matches the selector.
///
/// # Errors
///
/// 500 for a record that is not an event.
pub(crate) fn selects(selector: &Selector, record: &Record) -> Result<bool, Status> {
    selector
        .selects(&record.value, record.revision)
        .map_err(|why| Status::damaged(&record.key, &why))
}

/// The key of an event in the store: `namespace/name`.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    /// The key of the event that a request names.
    pub(crate) fn of(info: &RequestInfo) -> Self {
        Self {
            namespace: info.namespace.clone(),
            name: info.name.clone(),
        }
    }

    pub(crate) fn bytes(&self) -> bytes::Bytes {
        format!("{}/{}", self.namespace, self.name).into()
    }
}
