//! Events for the tests of rules.

use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_api::codec::Api;
use tidings_api::codec::json::Reading;
use tidings_api::codec::stored::StoredEvent;

use super::seen::Seen;

/// One event, with its stored bytes.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) cluster: usize,
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
    /// An event in the namespace shop that happened once, at a second. Events about nodes are in
    /// the namespace default, as kubelets write them.
    pub(crate) fn new(kind: &str, name: &str, reason: &str, second: i64) -> Self {
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
        Self::of(0, event)
    }

    fn of(cluster: usize, mut event: Event) -> Self {
        let stored = tidings_api::codec::encode_stored(&mut event);
        Self {
            cluster,
            event,
            stored,
        }
    }

    /// An event as the core API serves it.
    pub(crate) fn json(text: &str) -> Self {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let read = tidings_api::codec::read_event(Api::Core, value, &mut Reading::default());
        let mut event = read.expect("an event").1;
        event
            .metadata
            .get_or_insert_default()
            .managed_fields
            .clear();
        Self::of(0, event)
    }

    fn with(mut self, change: impl FnOnce(&mut Event)) -> Self {
        change(&mut self.event);
        Self::of(self.cluster, self.event)
    }

    pub(crate) fn message(self, message: &str) -> Self {
        self.with(|event| event.message = Some(message.into()))
    }

    pub(crate) fn warning(self) -> Self {
        self.with(|event| event.r#type = Some("Warning".into()))
    }

    /// Sets that the event happened `count` times, since a second.
    pub(crate) fn times(self, count: i32, since: i64) -> Self {
        self.with(|event| {
            event.count = Some(count);
            event.first_timestamp = Some(time(since));
        })
    }

    /// Sets the namespace of the event and its object.
    pub(crate) fn namespace(self, namespace: &str) -> Self {
        self.with(|event| {
            event.metadata.get_or_insert_default().namespace = Some(namespace.into());
            event.involved_object.get_or_insert_default().namespace = Some(namespace.into());
        })
    }

    pub(crate) fn uid(self, uid: &str) -> Self {
        self.with(|event| {
            let object = event.involved_object.get_or_insert_default();
            object.uid = Some(uid.into());
        })
    }

    pub(crate) fn host(self, host: &str) -> Self {
        let source = EventSource {
            component: Some("kubelet".into()),
            host: Some(host.into()),
        };
        self.with(|event| event.source = Some(source))
    }

    pub(crate) fn container(self, name: &str) -> Self {
        self.with(|event| {
            let object = event.involved_object.get_or_insert_default();
            object.field_path = Some(format!("spec.containers{{{name}}}"));
        })
    }
}

/// The events in the form that the rules read.
pub(crate) fn seen(cases: &[Case]) -> Vec<Seen<'_>> {
    let seen = cases.iter().map(|case| {
        let brief = StoredEvent::open(&case.stored, 1).and_then(|event| event.brief());
        Seen::one(case.cluster, brief.expect("a plain event"))
    });
    seen.collect()
}
