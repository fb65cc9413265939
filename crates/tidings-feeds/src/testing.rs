//! What tests of this crate share.

use bytes::Bytes;
use k8s_pb::api::core::v1::{Event, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_api::codec;

/// The stored bytes of an event about a pod.
pub(crate) fn event(pod: &str, count: u64) -> Bytes {
    let mut event = Event {
        metadata: Some(ObjectMeta {
            namespace: Some("shop".to_owned()),
            name: Some(format!("{pod}.1")),
            ..ObjectMeta::default()
        }),
        involved_object: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some(pod.to_owned()),
            ..ObjectReference::default()
        }),
        count: i32::try_from(count).ok(),
        ..Event::default()
    };
    codec::encode_stored(&mut event)
}
