//! A backlog behind the EventRateLimit of a real kube-apiserver, if available (`KUBE_APISERVER`,
//! `ETCD`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tidings::{Broadcaster, KubeSink, Occurrence, Reference, ReferenceFields, Sink, WriteError};

use super::hour::namespace;
use super::kube_apiserver::KubeApiserver;

const EVENTS: usize = 300;
const OBJECTS: usize = 100;

/// Counts the events that the server admits, and those it refuses for their rate.
struct Counted {
    sink: KubeSink,
    admitted: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Counted {
    fn count(&self, result: &Result<(), WriteError>) {
        let counter = match result {
            Ok(()) => &self.admitted,
            Err(error) => {
                assert!(error.is_rate_limited(), "{error}");
                &self.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sink for Counted {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let result = self.sink.create(occurrence).await;
        self.count(&result);
        result
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let result = self.sink.patch(occurrence).await;
        self.count(&result);
        result
    }
}

/// The backlog takes a minute at the server's pace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_behind_kube_apiserver_s_own_limit_arrives_with_few_refusals() {
    let limits = json!([{"type": "User", "qps": 5, "burst": 20, "cacheSize": 100}]);
    let Some(server) = KubeApiserver::start_with(Some(&limits)) else {
        return;
    };
    let kubeconfig: Kubeconfig = serde_json::from_value(server.kubeconfig()).unwrap();
    namespace(kubeconfig.clone()).await;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.unwrap();
    let (admitted, refused) = (Arc::default(), Arc::default());
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(Counted {
        sink: KubeSink::from_config(config.clone()).unwrap(),
        admitted: Arc::clone(&admitted),
        refused: Arc::clone(&refused),
    });
    let recorder = broadcaster.recorder("backlog");
    for number in 0..EVENTS {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            api_version: "v1",
            namespace: "default",
            name: &format!("web-{}", number % OBJECTS),
            ..ReferenceFields::default()
        });
        recorder.warning(&pod, &format!("Failed{number}"), "m");
    }
    let report = broadcaster.shutdown(Duration::from_secs(300)).await;
    assert_eq!(
        (report.delivered, report.offered),
        (EVENTS as u64, EVENTS as u64),
        "{report}"
    );
    let events: Api<Event> = Api::namespaced(kube::Client::try_from(config).unwrap(), "default");
    let stored = events.list(&ListParams::default()).await.unwrap();
    let component = |event: &Event| event.source.as_ref()?.component.clone();
    let ours = stored
        .iter()
        .filter(|event| component(event).as_deref() == Some("backlog"));
    assert_eq!(ours.count(), EVENTS);
    let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let (admitted, refused) = (of(&admitted), of(&refused));
    assert!(
        refused * 2 <= admitted * 3,
        "{refused} refusals for {admitted} admitted events"
    );
}
