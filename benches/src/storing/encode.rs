//! Encodes events as the API server stores them: as protobuf in Kubernetes' envelope, without
//! resourceVersion and managedFields. Empty strings and zeros are written, as Go's generated code
//! does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as json;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as json_meta;
use k8s_pb::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_pb::apimachinery::pkg::runtime::{TypeMeta, Unknown};
use prost::Message;

/// The bytes of an event with its envelope.
pub(crate) fn encode(event: &json::Event) -> Vec<u8> {
    let envelope = Unknown {
        type_meta: Some(TypeMeta {
            api_version: Some("v1".to_owned()),
            kind: Some("Event".to_owned()),
        }),
        raw: Some(message(event).encode_to_vec()),
        content_encoding: Some(String::new()),
        content_type: Some(String::new()),
    };
    let mut bytes = b"k8s\0".to_vec();
    bytes.extend(envelope.encode_to_vec());
    bytes
}

fn message(event: &json::Event) -> Event {
    Event {
        metadata: Some(metadata(&event.metadata)),
        involved_object: Some(reference(&event.involved_object)),
        reason: text(event.reason.as_ref()),
        message: text(event.message.as_ref()),
        source: Some(EventSource {
            component: text(event.source.as_ref().and_then(|it| it.component.as_ref())),
            host: text(event.source.as_ref().and_then(|it| it.host.as_ref())),
        }),
        first_timestamp: event.first_timestamp.as_ref().map(time),
        last_timestamp: event.last_timestamp.as_ref().map(time),
        count: Some(event.count.unwrap_or_default()),
        r#type: text(event.type_.as_ref()),
        event_time: event.event_time.as_ref().map(micro_time),
        series: event.series.as_ref().map(|series| EventSeries {
            count: Some(series.count.unwrap_or_default()),
            last_observed_time: series.last_observed_time.as_ref().map(micro_time),
        }),
        action: text(event.action.as_ref()),
        related: event.related.as_ref().map(reference),
        reporting_component: text(event.reporting_component.as_ref()),
        reporting_instance: text(event.reporting_instance.as_ref()),
    }
}

fn metadata(metadata: &json_meta::ObjectMeta) -> ObjectMeta {
    let pairs = |pairs: &Option<BTreeMap<String, String>>| {
        pairs.clone().unwrap_or_default().into_iter().collect()
    };
    ObjectMeta {
        name: text(metadata.name.as_ref()),
        generate_name: Some(String::new()),
        namespace: text(metadata.namespace.as_ref()),
        self_link: Some(String::new()),
        uid: text(metadata.uid.as_ref()),
        resource_version: Some(String::new()),
        generation: Some(0),
        creation_timestamp: metadata.creation_timestamp.as_ref().map(time),
        labels: pairs(&metadata.labels),
        annotations: pairs(&metadata.annotations),
        ..ObjectMeta::default()
    }
}

fn reference(reference: &json::ObjectReference) -> ObjectReference {
    ObjectReference {
        kind: text(reference.kind.as_ref()),
        namespace: text(reference.namespace.as_ref()),
        name: text(reference.name.as_ref()),
        uid: text(reference.uid.as_ref()),
        api_version: text(reference.api_version.as_ref()),
        resource_version: text(reference.resource_version.as_ref()),
        field_path: text(reference.field_path.as_ref()),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a message's fields are optional; an empty one is written all the same"
)]
fn text(text: Option<&String>) -> Option<String> {
    Some(text.cloned().unwrap_or_default())
}

fn time(time: &json_meta::Time) -> Time {
    Time {
        seconds: Some(time.0.as_second()),
        nanos: Some(0),
    }
}

fn micro_time(time: &json_meta::MicroTime) -> MicroTime {
    MicroTime {
        seconds: Some(time.0.as_second()),
        nanos: Some(time.0.subsec_nanosecond()),
    }
}
