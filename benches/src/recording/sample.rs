//! The recorded events: one message of one source about pods.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings::EventType::Warning;
use tidings::advanced::{ClusterScopedNamespace, SeriesOptions};
use tidings::{Event, EventSource, Reference, ToReference};
use tidings_core::{NameStamps, NewEvent, Series, TEXT_BYTES_MAX};

/// Number of different events: more than client-go's caches have entries, as in its own benchmark.
pub(super) const DISTINCT: usize = 16_384;

pub(super) const MESSAGE: &str = "Back-off restarting failed container web in pod web-7d4b9c6f5";

pub(super) fn source() -> EventSource {
    EventSource::component("example-controller").host("node-1")
}

pub(super) fn pod(index: usize) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("web-7d4b9c6f5-{index:05}")),
            namespace: Some("default".to_owned()),
            uid: Some(format!("3c1f0a52-8d0e-4b1e-9f5e-{index:012}")),
            resource_version: Some("123456".to_owned()),
            ..ObjectMeta::default()
        },
        ..Pod::default()
    }
}

pub(super) fn reference(index: usize) -> Reference {
    pod(index)
        .to_reference()
        .unwrap_or_else(|error| unreachable!("{error}"))
}

/// What the events of one measurement have in common.
pub(super) struct Script {
    pub(super) names: Arc<NameStamps>,
    source: EventSource,
    pub(super) at: Timestamp,
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            names: Arc::new(NameStamps::new(1)),
            source: source(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// An event about the object with this number.
    pub(super) fn event(&self, object: usize, message: &str) -> Event {
        let new = NewEvent {
            source: &self.source,
            regarding: &reference(object),
            related: None,
            event_type: Warning,
            reason: "BackOff",
            action: "Restarting",
            message: &message,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        Event::new(&new, &self.names, self.at)
    }

    pub(super) fn series(&self) -> Series {
        Series::new(SeriesOptions::default(), &self.names)
            .unwrap_or_else(|_| unreachable!("the default options are always accepted"))
    }
}
