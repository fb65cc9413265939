//! Events for the tests of rules.

use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_api::codec::stored::StoredEvent;

use super::seen::Seen;

/// One event, as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) cluster: usize,
    event: Event,
    stored: bytes::Bytes,
}

fn time(second: i64) -> Time {
    Time {
        seconds: Some(second),
        nanos: Some(0),
    }
}

impl Case {
    /// An event of the namespace shop that happened once, at a second; those about nodes are in
    /// the namespace default, as kubelets write them.
    pub(super) fn new(kind: &str, name: &str, reason: &str, second: i64) -> Self {
        let namespace = if kind == "Node" { "default" } else { "shop" };
        let of_object = if kind == "Node" { "" } else { "shop" };
        let event = Event {
            metadata: Some(ObjectMeta {
                name: Some(format!("{name}.{reason}.{second}")),
                namespace: Some(namespace.into()),
                ..ObjectMeta::default()
            }),
            involved_object: Some(ObjectReference {
                kind: Some(kind.into()),
                name: Some(name.into()),
                namespace: Some(of_object.into()),
                ..ObjectReference::default()
            }),
            reason: Some(reason.into()),
            r#type: Some("Normal".into()),
            first_timestamp: Some(time(second)),
            last_timestamp: Some(time(second)),
            count: Some(1),
            ..Event::default()
        };
        Self {
            cluster: 0,
            event,
            stored: bytes::Bytes::new(),
        }
        .stored()
    }

    fn stored(mut self) -> Self {
        self.stored = tidings_api::codec::encode_stored(&mut self.event.clone());
        self
    }

    pub(super) fn message(mut self, message: &str) -> Self {
        self.event.message = Some(message.into());
        self.stored()
    }

    pub(super) fn warning(mut self) -> Self {
        self.event.r#type = Some("Warning".into());
        self.stored()
    }

    /// It happened again and again, since a second.
    pub(super) fn times(mut self, count: i32, since: i64) -> Self {
        self.event.count = Some(count);
        self.event.first_timestamp = Some(time(since));
        self.stored()
    }

    pub(super) fn host(mut self, host: &str) -> Self {
        self.event.source = Some(EventSource {
            component: Some("kubelet".into()),
            host: Some(host.into()),
        });
        self.stored()
    }

    pub(super) fn container(mut self, name: &str) -> Self {
        let object = self.event.involved_object.get_or_insert_default();
        object.field_path = Some(format!("spec.containers{{{name}}}"));
        self.stored()
    }
}

/// The events as rules look at them.
pub(super) fn seen(cases: &[Case]) -> Vec<Seen<'_>> {
    let seen = cases.iter().map(|case| Seen {
        cluster: case.cluster,
        brief: StoredEvent::open(&case.stored, 1)
            .and_then(|event| event.brief())
            .expect("a plain event"),
    });
    seen.collect()
}
