//! The recorded events: one message of one source about pods.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings::EventSource;

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
