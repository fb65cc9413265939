//! Stored events, served directly from their bytes: listed, watched and selected without decoding.
//!
//! Decoding an event takes about thirty allocations, and encoding visits all of them again; a long
//! list does little else. Here JSON is written from the bytes, and protobuf is the bytes themselves
//! with the resourceVersion inserted.
//!
//! Every method returns `None` for bytes that are not in the usual form, the form that every API
//! server writes. The caller then uses [`decode_stored`](super::decode_stored), which also reports
//! damage. A property test checks that both ways give the same answer.

mod brief;
mod in_place;
mod numbers;
mod owned;
mod repair;
mod wire;

use std::collections::BTreeMap;

pub use brief::Brief;
use in_place::Versioned;
pub(crate) use numbers::{field, meta, reference, source};
pub use owned::OwnedBrief;
pub(crate) use repair::repaired;
use tidings_core::fields::{core_v1, events_v1};
pub use tidings_core::wire::{put_varint, varint_len};
use tidings_core::wire::{write_fields, write_members, write_object};
#[cfg(test)]
pub(crate) use wire::bytes_field;
pub use wire::put_bytes;
use wire::{Message, put_field};

use super::protobuf::MAGIC;
use super::time::Moment;
use super::{Api, write_type};

/// The envelope's first field, `TypeMeta{apiVersion: "v1", kind: "Event"}`.
const TYPE_OF_STORED: &[u8] = b"\x0a\x02v1\x12\x05Event";

/// An event in its stored bytes. All methods return `None` for bytes that are not in the usual
/// form.
#[derive(Clone, Copy, Debug)]
pub struct StoredEvent<'a> {
    pub(super) event: Message<'a>,
    pub(super) metadata: Message<'a>,
    revision: u64,
}

impl<'a> StoredEvent<'a> {
    /// Opens a record's value that was written at a revision.
    pub fn open(value: &'a [u8], revision: u64) -> Option<Self> {
        let envelope = Message::read(value.strip_prefix(MAGIC)?)?;
        let plain = envelope.get(1)??.bytes()? == TYPE_OF_STORED && envelope.text(3)?.is_empty();
        // The content type is ignored, but it has to be text.
        envelope.text(4)?;
        let event = Message::read(envelope.get(2)??.bytes()?).filter(|_| plain)?;
        let metadata = event.message(field::METADATA)?.unwrap_or(Message::EMPTY);
        // This field is replaced when the event is written, but it has to be valid.
        metadata.text(meta::RESOURCE_VERSION)?;
        (!metadata.has(meta::MANAGED_FIELDS)).then_some(Self {
            event,
            metadata,
            revision,
        })
    }

    /// Appends the event's JSON, as [`write_event`](super::write_event) does.
    pub fn write_json(&self, api: Api, alone: bool, out: &mut Vec<u8>) -> Option<()> {
        let mut written = Some(());
        write_members(out, |members| {
            if alone {
                write_type(members, api.kind(), api.api_version());
            }
            members.rest(|out| {
                written = self.versioned(|event| write_fields(api.event(), event, out));
            });
        });
        written
    }

    /// Appends the event's `PartialObjectMetadata`, as [`write_partial`](super::write_partial)
    /// does.
    pub fn write_partial_json(
        &self,
        api_version: &str,
        alone: bool,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut written = Some(());
        write_members(out, |members| {
            if alone {
                write_type(members, "PartialObjectMetadata", api_version);
            }
            members.raw("metadata", |out| {
                written = self
                    .versioned(|event| write_object(&core_v1::OBJECT_META, &event.metadata(), out));
            });
        });
        written
    }

    /// Calls `write` with the event and its revision as resourceVersion.
    fn versioned<T>(&self, write: impl FnOnce(&Versioned<'_, 'a>) -> T) -> T {
        let mut version = itoa::Buffer::new();
        write(&Versioned {
            event: &self.event,
            metadata: &self.metadata,
            version: version.format(self.revision),
        })
    }

    /// Appends the event's protobuf message, without an envelope.
    pub fn write_protobuf(&self, api: Api, out: &mut Vec<u8>) -> Option<()> {
        self.write_partial_protobuf(out)?;
        match api {
            Api::Core | Api::Past => {
                for field in self.event.fields() {
                    let (number, value) = field?;
                    if number != field::METADATA {
                        put_field(number, value, out);
                    }
                }
            }
            Api::Events => {
                for row in events_v1::EVENT.by_number {
                    let stored = row.stored as usize;
                    if stored != field::METADATA
                        && let Some(value) = self.event.get(stored)?
                    {
                        put_field(row.number as usize, value, out);
                    }
                }
            }
        }
        Some(())
    }

    /// Appends the protobuf message of the event's metadata alone. It is both a
    /// `PartialObjectMetadata` and the first field of an event.
    pub fn write_partial_protobuf(&self, out: &mut Vec<u8>) -> Option<()> {
        let mut metadata = Vec::with_capacity(256);
        let version = self.revision.to_string();
        let mut put_version = Some(version.as_bytes());
        for field in self.metadata.fields() {
            let (number, value) = field?;
            if number >= meta::RESOURCE_VERSION
                && let Some(version) = put_version.take()
            {
                put_bytes(meta::RESOURCE_VERSION, version, &mut metadata);
            }
            if number != meta::RESOURCE_VERSION {
                put_field(number, value, &mut metadata);
            }
        }
        if let Some(version) = put_version {
            put_bytes(meta::RESOURCE_VERSION, version, &mut metadata);
        }
        put_bytes(field::METADATA, &metadata, out);
        Some(())
    }

    /// The event's `metadata.labels`.
    pub fn labels(&self) -> Option<BTreeMap<String, String>> {
        self.metadata
            .each(meta::LABELS)
            .map(|entry| {
                let entry = Message::read(entry?)?;
                Some((entry.text(1)?.to_owned(), entry.text(2)?.to_owned()))
            })
            .collect()
    }

    /// Count and last time of the event's series, if it has one.
    pub fn series(&self) -> Option<Option<(i32, Option<Moment>)>> {
        match self.event.message(field::SERIES)? {
            Some(series) => Some(Some((series.number(1)? as i32, series.time(2)?))),
            None => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::{Event, EventSeries};
    use k8s_pb::apimachinery::pkg::apis::meta::v1::{
        ObjectMeta, OwnerReference, PartialObjectMetadata,
    };
    use proptest::prelude::*;

    use super::super::{
        canonicalize, decode_stored, encode_stored, protobuf, write_event, write_partial,
    };
    use super::*;

    fn decoded<T: prost::Message + Default>(bytes: &[u8]) -> Result<T, TestCaseError> {
        T::decode(bytes).map_err(|error| TestCaseError::fail(error.to_string()))
    }

    fn check(value: &bytes::Bytes) -> Result<(), TestCaseError> {
        let event = decode_stored(value, 7).map_err(TestCaseError::fail)?;
        let stored =
            StoredEvent::open(value, 7).ok_or_else(|| TestCaseError::fail("not opened"))?;
        let metadata = event.metadata.clone().unwrap_or_default();
        let core = [true, false].map(|alone| (Api::Core, alone));
        let events = [true, false].map(|alone| (Api::Events, alone));
        for (api, alone) in core.into_iter().chain(events) {
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            write_event(api, &event, alone, &mut expected);
            prop_assert_eq!(stored.write_json(api, alone, &mut found), Some(()));
            let [shown, wanted] = [&found, &expected].map(|json| String::from_utf8_lossy(json));
            prop_assert_eq!(shown, wanted);

            expected.clear();
            found.clear();
            let version = "meta.k8s.io/v1";
            write_partial(&metadata, version, alone, &mut expected);
            let written = stored.write_partial_json(version, alone, &mut found);
            prop_assert_eq!(written, Some(()));
            prop_assert_eq!(&found, &expected);
        }
        let mut bytes = Vec::new();
        prop_assert_eq!(stored.write_protobuf(Api::Core, &mut bytes), Some(()));
        // A field that was stored empty is sent empty, which means the same to every reader.
        let mut read: Event = decoded(&bytes)?;
        canonicalize(&mut read);
        prop_assert_eq!(&read, &event);
        bytes.clear();
        prop_assert_eq!(stored.write_protobuf(Api::Events, &mut bytes), Some(()));
        let mut read = protobuf::from_events(decoded(&bytes)?);
        canonicalize(&mut read);
        prop_assert_eq!(read, event);
        bytes.clear();
        prop_assert_eq!(stored.write_partial_protobuf(&mut bytes), Some(()));
        let mut read = Event {
            metadata: decoded::<PartialObjectMetadata>(&bytes)?.metadata,
            ..Event::default()
        };
        canonicalize(&mut read);
        prop_assert_eq!(read.metadata, Some(metadata));
        Ok(())
    }

    /// A stored value around the bytes of an event.
    fn enveloped(event: &[u8]) -> Vec<u8> {
        let mut value = MAGIC.to_vec();
        put_bytes(1, TYPE_OF_STORED, &mut value);
        put_bytes(2, event, &mut value);
        value
    }

    fn metadata() -> impl Strategy<Value = ObjectMeta> {
        let map = proptest::collection::btree_map(any::<String>(), any::<String>(), 0..3);
        let owner = (any::<String>(), proptest::option::of(any::<bool>())).prop_map(
            |(name, controller)| OwnerReference {
                name: Some(name),
                controller,
                ..OwnerReference::default()
            },
        );
        (
            map.clone(),
            map,
            proptest::collection::vec(owner, 0..3),
            proptest::collection::vec(any::<String>(), 0..3),
            proptest::option::of(any::<i64>()),
        )
            .prop_map(
                |(labels, annotations, owner_references, finalizers, number)| ObjectMeta {
                    labels,
                    annotations,
                    owner_references,
                    finalizers,
                    generation: number,
                    deletion_grace_period_seconds: number.map(|number| number / 2),
                    uid: Some("u".into()),
                    ..ObjectMeta::default()
                },
            )
    }

    proptest! {
        /// Documents written from the bytes equal those written from the decoded event.
        #[test]
        fn both_ways_give_the_same(event in super::super::tests::event(), metadata in metadata()) {
            check(&encode_stored(&mut event.clone()))?;
            let name = event.metadata.as_ref().and_then(|metadata| metadata.name.clone());
            let event = Event { metadata: Some(ObjectMeta { name, ..metadata }), ..event };
            check(&encode_stored(&mut event.clone()))?;
            // This event is not in canonical form, because Go's encoder writes empty fields.
            let event = Event { action: Some(String::new()), count: Some(0), series: Some(EventSeries::default()), ..event };
            check(&protobuf::envelop("v1", "Event", &event).into())?;
        }

        /// Bytes of any kind are read in place or left to the decoder, without a panic.
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let around = enveloped(&bytes);
            for bytes in [bytes, around] {
                if let Some(stored) = StoredEvent::open(&bytes, 1) {
                    let mut out = Vec::new();
                    for api in [Api::Core, Api::Events, Api::Past] {
                        stored.write_json(api, true, &mut out);
                        stored.write_protobuf(api, &mut out);
                    }
                    stored.write_partial_json("v1", true, &mut out);
                    stored.labels();
                    stored.series();
                }
            }
        }

        #[test]
        fn numbers_are_as_long_as_said(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(value, &mut bytes);
            prop_assert_eq!(bytes.len(), varint_len(value));
        }
    }

    /// Forms that prost and Go would merge or sort are left to them.
    #[test]
    fn the_unusual_is_left_to_the_decoder() {
        let twice = bytes_field(field::INVOLVED_OBJECT, b"").repeat(2);
        let unsorted = [b"b", b"a"].map(|key| bytes_field(meta::LABELS, &bytes_field(1, key)));
        let labels = bytes_field(field::METADATA, &unsorted.concat());
        for raw in [twice, labels, b"\x1a\x01\xff".to_vec()] {
            let value = enveloped(&raw);
            let mut out = Vec::new();
            let stored = StoredEvent::open(&value, 1).unwrap();
            assert_eq!(stored.write_json(Api::Core, true, &mut out), None);
        }
        let mut json = Vec::new();
        tidings_core::wire::write_string("x", &mut json);
        // A field with a number that no decoder accepts.
        let mut beyond = Vec::new();
        put_varint(1 << 35 | 8, &mut beyond);
        beyond.push(1);
        let numbered = enveloped(&beyond);
        // An invalid resourceVersion, which another text replaces.
        let version = bytes_field(meta::RESOURCE_VERSION, b"\xff");
        let versioned = enveloped(&bytes_field(field::METADATA, &version));
        let mut typed = enveloped(b"");
        typed.extend_from_slice(&[4 << 3, 1]);
        for value in [json, numbered, versioned, typed] {
            assert!(StoredEvent::open(&value, 1).is_none());
            assert!(decode_stored(&value.into(), 1).is_err());
        }
    }
}
