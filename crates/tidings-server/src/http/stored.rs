//! An event as the store has it.

use k8s_pb::api::core::v1::Event;
use tidings_store::Record;

use crate::http::request::RequestInfo;
use crate::http::status::Status;
use tidings_api::codec;
use tidings_api::selector::Selector;

/// An event and the record it was read from.
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

/// Whether a record holds an event that matches.
///
/// # Errors
/// 500 for a record that holds no event.
pub(crate) fn selects(selector: &Selector, record: &Record) -> Result<bool, Status> {
    selector
        .selects(&record.value, record.revision)
        .map_err(|why| Status::damaged(&record.key, &why))
}

/// Where an event is stored: `namespace/name`.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    /// Where the event is that a request names.
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
