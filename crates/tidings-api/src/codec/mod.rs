//! Conversion of events between wire, store and memory.
//!
//! In memory there is one type: the core/v1 protobuf message, in canonical form (empty fields are
//! unset).
//!
//! The stored form is that message in Kubernetes' envelope, without resourceVersion and selfLink.
//! It is what kube-apiserver stores in etcd, except that kube-apiserver also writes empty fields.
//!
//! On the wire an event is JSON, YAML or protobuf of either API version.

pub mod json;
pub(crate) mod objects;
pub mod protobuf;
pub mod stored;
pub mod time;
pub(crate) mod view;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta};
use prost::Message;
use serde::Deserializer;
use tidings_core::fields::{Type, core_v1, events_v1};
use tidings_core::reading::{EventTimes, is_set};
use tidings_core::wire::{Members, write_fields, write_members, write_object};

use json::{Reading, TypeMeta};
use objects::{ObjectSource, Skipped};
use time::Moment;

pub use crate::go::{not_registered, unknown_kind};

/// The API group of an archive. Whoever publishes a build may choose another one, here and nowhere
/// else in the code. Domains below `.internal` belong to nobody.
macro_rules! past_group {
    () => {
        "archive.tidings.internal"
    };
}
/// The API group in which an archive serves events through a cluster's own API server.
pub const PAST_GROUP: &str = past_group!();
/// [`PAST_GROUP`] with its version.
pub const PAST_VERSION: &str = concat!(past_group!(), "/v1");
/// The name of the `APIService` of [`PAST_GROUP`].
pub const PAST_API_SERVICE: &str = concat!("v1.", past_group!());
/// The label of a RoleBinding or ClusterRoleBinding that is about users of an archive's home
/// cluster in another followed cluster. Its value is that cluster's name.
pub const CLUSTER_LABEL: &str = concat!(past_group!(), "/cluster");

/// The API versions that serve events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `v1`.
    Core,
    /// `events.k8s.io/v1`.
    Events,
    /// [`PAST_VERSION`]: the events of an archive, with the fields of `v1` and a kind of their own,
    /// `PastEvent`. They can only be read.
    Past,
}

impl Api {
    /// The version of events in an API group; any unknown group means events.k8s.io.
    pub fn of_group(group: &str) -> Self {
        match group {
            "" => Self::Core,
            PAST_GROUP => Self::Past,
            _ => Self::Events,
        }
    }

    /// The API group; empty for core.
    pub fn group(self) -> &'static str {
        match self {
            Self::Core => "",
            Self::Events => "events.k8s.io",
            Self::Past => PAST_GROUP,
        }
    }

    /// The `apiVersion` of objects in this version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Core => "v1",
            Self::Events => "events.k8s.io/v1",
            Self::Past => PAST_VERSION,
        }
    }

    /// The `kind` of an event in this version.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Core | Self::Events => "Event",
            Self::Past => "PastEvent",
        }
    }

    /// The `kind` of a list of events in this version.
    pub fn list_kind(self) -> &'static str {
        match self {
            Self::Core | Self::Events => "EventList",
            Self::Past => "PastEventList",
        }
    }

    /// The type of an event in this version: its table of fields.
    pub fn event(self) -> &'static Type {
        match self {
            Self::Core | Self::Past => &core_v1::EVENT,
            Self::Events => &events_v1::EVENT,
        }
    }

    /// The name of the resource.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Core | Self::Events => "events",
            Self::Past => "pastevents",
        }
    }

    /// The name of the resource in messages: `events`, or with its group, as
    /// `events.events.k8s.io`.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Core => "events",
            Self::Events => "events.events.k8s.io",
            Self::Past => concat!("pastevents.", past_group!()),
        }
    }
}

/// The reason why bytes could not be decoded, as a fragment of a message.
pub type Unreadable = String;

/// Reads an event of either version from JSON bytes, a JSON value or other self-describing data.
pub fn read_event<'de, D: Deserializer<'de>>(
    api: Api,
    value: D,
    reading: &mut Reading,
) -> Result<(TypeMeta, Event), D::Error> {
    let (type_meta, mut event) = json::read_document::<Event, D>(api.event(), value, reading)?;
    canonicalize(&mut event);
    Ok((type_meta, event))
}

/// Reads only the kind and version of a document.
pub fn read_type_meta<'de, D: Deserializer<'de>>(value: D) -> Result<TypeMeta, D::Error> {
    let (type_meta, _) =
        json::read_document::<Skipped, D>(&objects::SKIPPED, value, &mut Reading::default())?;
    Ok(type_meta)
}

/// Reads the options of a delete request, which are the same in every version.
pub fn read_delete_options<'de, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
) -> Result<DeleteOptions, D::Error> {
    let (_, options) =
        json::read_document::<DeleteOptions, D>(&objects::DELETE_OPTIONS, value, reading)?;
    Ok(options)
}

/// Reads an event from an opened protobuf envelope. Its texts have U+FFFD where they are not UTF-8.
pub fn read_protobuf_event(api: Api, raw: Bytes) -> Result<Event, Unreadable> {
    let mut event = decode_message(api, raw)?;
    objects::check_times(Api::Core.event(), &mut event, "")?;
    canonicalize(&mut event);
    Ok(event)
}

/// Decodes the message of an event. If its texts are not UTF-8, they get U+FFFD there.
fn decode_message(api: Api, raw: Bytes) -> Result<Event, Unreadable> {
    let decode = |raw: Bytes| match api {
        Api::Core | Api::Past => Event::decode(raw),
        Api::Events => k8s_pb::api::events::v1::Event::decode(raw).map(protobuf::from_events),
    };
    let sent = raw.clone();
    let decoded = decode(raw).or_else(|error| match stored::repaired(api.event(), &sent) {
        Some(repaired) => decode(repaired),
        None => Err(error),
    });
    decoded.map_err(|error| error.to_string())
}

fn canonicalize(event: &mut Event) {
    objects::canonicalize(Api::Core.event(), event);
}

/// Appends the event's JSON to `out`. If it stands `alone`, it has `kind` and `apiVersion`; items
/// of a list do not.
pub fn write_event(api: Api, event: &Event, alone: bool, out: &mut Vec<u8>) {
    write_members(out, |members| {
        if alone {
            write_type(members, api.kind(), api.api_version());
        }
        // A decoded event can always be written, so the result needs no check.
        members.rest(|out| {
            let _ = write_fields(api.event(), &ObjectSource(event), out);
        });
    });
}

/// Appends the first members of every document: `kind` and `apiVersion`.
pub(crate) fn write_type(members: &mut Members<'_>, kind: &str, api_version: &str) {
    members.text("kind", kind);
    members.text("apiVersion", api_version);
}

/// Appends the metadata of a list.
pub fn write_list_meta(meta: &ListMeta, out: &mut Vec<u8>) {
    let _ = write_object(&objects::LIST_META, &ObjectSource(meta), out);
}

/// Appends a `PartialObjectMetadata`; if it stands `alone`, with `kind` and `apiVersion`.
pub fn write_partial(metadata: &ObjectMeta, api_version: &str, alone: bool, out: &mut Vec<u8>) {
    write_members(out, |members| {
        if alone {
            write_type(members, "PartialObjectMetadata", api_version);
        }
        members.raw("metadata", |out| {
            let _ = write_object(&core_v1::OBJECT_META, &ObjectSource(metadata), out);
        });
    });
}

/// Encodes the event as a protobuf message in an envelope.
pub fn protobuf_event(api: Api, event: Event) -> Vec<u8> {
    let (version, kind) = (api.api_version(), api.kind());
    match api {
        Api::Core | Api::Past => protobuf::envelop(version, kind, &event),
        Api::Events => protobuf::envelop(version, kind, &protobuf::to_events(event)),
    }
}

/// Encodes an event for the store. Afterwards the event is in canonical form, without
/// resourceVersion and selfLink, which are not stored.
pub fn encode_stored(event: &mut Event) -> Bytes {
    canonicalize(event);
    if let Some(metadata) = &mut event.metadata {
        metadata.resource_version = None;
        metadata.self_link = None;
    }
    protobuf::envelop("v1", "Event", event).into()
}

/// Reads an event from its stored bytes, and sets its resourceVersion to the revision. Texts that
/// are not UTF-8 get U+FFFD, because kube-apiserver stores any bytes as text.
///
/// # Errors
///
/// The reason why the bytes are not an event: they are damaged, or another program's.
pub fn decode_stored(value: &Bytes, revision: u64) -> Result<Event, Unreadable> {
    let enveloped = protobuf::open(value)?;
    if enveloped.kind != "Event" || enveloped.api_version != "v1" {
        return Err(format!(
            "the record holds a {} of {:?}",
            enveloped.kind, enveloped.api_version
        ));
    }
    let mut event = decode_message(Api::Core, enveloped.raw)?;
    // kube-apiserver's records also have empty fields, which patches must not see.
    canonicalize(&mut event);
    set_revision(&mut event, revision);
    Ok(event)
}

/// Sets an event's resourceVersion to the revision at which it is stored.
pub fn set_revision(event: &mut Event, revision: u64) {
    let metadata = event.metadata.get_or_insert_default();
    metadata.resource_version = Some(revision.to_string());
}

/// All times of an event.
pub fn times(event: &Event) -> EventTimes<Timestamp> {
    let metadata = event.metadata.as_ref();
    let series = event.series.as_ref();
    let set = |moment: Option<Moment>| moment.map(Moment::timestamp).filter(|at| is_set(*at));
    EventTimes {
        last_observed_time: set(series.and_then(|series| micro_time(series.last_observed_time))),
        last_timestamp: set(time(event.last_timestamp)),
        event_time: set(micro_time(event.event_time)),
        first_timestamp: set(time(event.first_timestamp)),
        creation_timestamp: set(metadata.and_then(|metadata| time(metadata.creation_timestamp))),
    }
}

/// The time at which an event last happened: [`EventTimes::last_seen`].
pub fn last_seen(event: &Event) -> Option<Timestamp> {
    times(event).last_seen()
}

/// The moment of a `Time`, if it is set.
pub fn time(time: Option<k8s_pb::apimachinery::pkg::apis::meta::v1::Time>) -> Option<Moment> {
    time::moment(time.map(|time| (time.seconds, time.nanos)))
}

/// The moment of a `MicroTime`, if it is set.
pub fn micro_time(
    time: Option<k8s_pb::apimachinery::pkg::apis::meta::v1::MicroTime>,
) -> Option<Moment> {
    time::moment(time.map(|time| (time.seconds, time.nanos)))
}

#[cfg(test)]
mod walk_tests;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of(prop_oneof![
            any::<String>(),
            "[a-z<>&\u{2028}\u{7f}\"\\\\]{0,12}".prop_map(|text| text)
        ])
    }

    /// Generates any event in canonical form.
    pub(crate) fn event() -> impl Strategy<Value = Event> {
        use k8s_pb::api::core::v1::{EventSeries, EventSource, ObjectReference};
        use k8s_pb::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
        let seconds = -62_135_596_799_i64..253_402_300_800;
        let time = seconds.clone().prop_map(|seconds| Time {
            seconds: Some(seconds),
            nanos: Some(0),
        });
        let micro_time = (seconds, 0..1_000_000).prop_map(|(seconds, micros)| MicroTime {
            seconds: Some(seconds),
            nanos: Some(micros * 1000),
        });
        let micro_time = proptest::option::of(micro_time);
        let texts = proptest::array::uniform5(text());
        let labels = proptest::collection::btree_map(any::<String>(), any::<String>(), 0..3);
        let object = proptest::array::uniform3(text());
        let times = (proptest::option::of(time), micro_time.clone());
        let series = proptest::option::of((any::<i32>(), micro_time));
        let parts = (texts, labels, object, times, any::<i32>(), series);
        parts.prop_map(|(texts, labels, object, times, count, series)| {
            let [name, reason, message, action, reporting_component] = texts;
            let [kind, object_name, field_path] = object;
            let object = ObjectReference {
                kind,
                name: object_name,
                field_path,
                ..ObjectReference::default()
            };
            let mut event = Event {
                metadata: Some(ObjectMeta {
                    name,
                    labels,
                    ..ObjectMeta::default()
                }),
                involved_object: Some(object.clone()),
                related: series.is_some().then_some(object),
                source: Some(EventSource {
                    component: action.clone(),
                    host: None,
                }),
                reason,
                message,
                action,
                reporting_component,
                first_timestamp: times.0,
                event_time: times.1,
                count: Some(count),
                series: series.map(|(count, last_observed_time)| EventSeries {
                    count: Some(count),
                    last_observed_time,
                }),
                ..Event::default()
            };
            canonicalize(&mut event);
            event
        })
    }

    proptest! {
        /// An event that goes through JSON, protobuf or the store comes out unchanged, in both
        /// versions.
        #[test]
        fn events_survive_every_form(event in event()) {
            for api in [Api::Core, Api::Events, Api::Past] {
                let mut json = Vec::new();
                write_event(api, &event, true, &mut json);
                let mut reading = Reading::default();
                let mut deserializer = serde_json::Deserializer::from_slice(&json);
                let (type_meta, read) = read_event(api, &mut deserializer, &mut reading)
                    .map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(&read, &event);
                prop_assert_eq!(reading.notes.texts, Vec::<String>::new());
                prop_assert_eq!(type_meta.api_version.as_deref(), Some(api.api_version()));

                let enveloped = protobuf::open(&protobuf_event(api, event.clone()).into()).map_err(TestCaseError::fail)?;
                let read = read_protobuf_event(api, enveloped.raw).map_err(TestCaseError::fail)?;
                prop_assert_eq!(&read, &event);
            }
            let mut stored = decode_stored(&encode_stored(&mut event.clone()), 7).map_err(TestCaseError::fail)?;
            let version = stored.metadata.as_mut().and_then(|metadata| metadata.resource_version.take());
            prop_assert_eq!(version.as_deref(), Some("7"));
            prop_assert_eq!(&stored, &event);
        }

        /// Bytes of any kind are read or refused, without a panic.
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut enveloped = protobuf::MAGIC.to_vec();
            enveloped.extend(&bytes);
            for bytes in [bytes, enveloped] {
                let bytes = Bytes::from(bytes);
                let _ = decode_stored(&bytes, 1);
                for api in [Api::Core, Api::Events, Api::Past] {
                    let _ = read_protobuf_event(api, bytes.clone());
                    let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
                    let _ = read_event(api, &mut deserializer, &mut Reading::default());
                }
            }
        }
    }

    /// Go's encoder writes every field that is no pointer, even an empty one.
    #[test]
    fn what_is_stored_empty_is_unset() {
        let written = Event {
            reason: Some("BackOff".into()),
            message: Some(String::new()),
            count: Some(0),
            source: Some(k8s_pb::api::core::v1::EventSource {
                component: Some(String::new()),
                host: Some(String::new()),
            }),
            event_time: Some(k8s_pb::apimachinery::pkg::apis::meta::v1::MicroTime::default()),
            ..Event::default()
        };
        let mut lean = Event {
            reason: Some("BackOff".into()),
            ..Event::default()
        };
        canonicalize(&mut lean);
        let stored: Bytes = protobuf::envelop("v1", "Event", &written).into();
        assert_ne!(stored, encode_stored(&mut lean.clone()));
        let expected = decode_stored(&encode_stored(&mut lean.clone()), 1).unwrap();
        assert_eq!(decode_stored(&stored, 1).unwrap(), expected);
    }

    /// Go checks the texts of a message neither when it writes nor when it reads one.
    #[test]
    fn texts_that_are_not_utf_8_are_read_as_go_shows_them() {
        const CUT: &[u8] = b"probe failed: \xffx\xc3";
        const SHOWN: &str = "probe failed: \u{fffd}x\u{fffd}";
        let named = Event {
            metadata: Some(ObjectMeta {
                name: Some("web.1".into()),
                ..ObjectMeta::default()
            }),
            count: Some(7),
            ..Event::default()
        };
        let other = protobuf::to_events(named.clone()).encode_to_vec();
        for (api, message, mut raw) in [
            (Api::Core, 4, named.encode_to_vec()),
            (Api::Events, 10, other),
        ] {
            stored::put_bytes(message, CUT, &mut raw);
            let read = read_protobuf_event(api, raw.clone().into()).unwrap();
            assert_eq!((read.message(), read.count()), (SHOWN, 7), "{api:?}");
            assert_eq!(read.metadata.unwrap().name(), "web.1");
            if api == Api::Core {
                let value: Bytes = protobuf::envelop_bytes("v1", "Event", &raw).into();
                assert_eq!(decode_stored(&value, 1).unwrap().message(), SHOWN);
            }
            // A changed name would become another object's, so it is refused; a message that is cut
            // off cannot be read.
            let unnamed = stored::bytes_field(1, &stored::bytes_field(1, b"web\xff"));
            assert!(read_protobuf_event(api, unnamed.into()).is_err());
            raw.truncate(raw.len() - 1);
            assert!(read_protobuf_event(api, raw.into()).is_err());
        }
    }

    #[test]
    fn times_that_cannot_be_printed_are_refused() {
        use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;
        let late = Time {
            seconds: Some(i64::MAX),
            nanos: None,
        };
        let event = Event {
            last_timestamp: Some(late),
            ..Event::default()
        };
        let error = read_protobuf_event(Api::Core, event.encode_to_vec().into()).unwrap_err();
        let expected = "lastTimestamp: 9223372036854775807 s is not in the years 0 to 9999";
        assert_eq!(error, expected);
    }
}
