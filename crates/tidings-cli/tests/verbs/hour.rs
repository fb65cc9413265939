//! An hour of a controller's life in compressed time, written as events.k8s.io/v1 to API servers
//! over real connections: ours, and kube-apiserver if available. The writes are those that the
//! library's tests expect from a sink in memory, and the stored events are the recorded ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1;
use kube::api::{Api, ListParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tidings::EventType::Warning;
use tidings::advanced::SeriesOptions;
use tidings::{
    Broadcaster, BroadcasterOptions, Clock, EventSource, KubeSink, Occurrence, Reference,
    ReferenceFields, Sink, SinkOptions, WriteError,
};

use super::kube_apiserver::KubeApiserver;
use super::support::Cluster;
use tidings_testing::hours::{AFTERWARDS, HOURS, Hour};

/// The pod of events that are not written; they show that earlier events were processed.
const BARRIER: &str = "barrier";

#[derive(Default)]
struct Requests {
    creates: AtomicUsize,
    patches: AtomicUsize,
    in_flight: AtomicUsize,
}

/// A sink that counts the writes.
struct Counted {
    sink: KubeSink,
    requests: Arc<Requests>,
}

impl Counted {
    async fn count(
        &self,
        occurrence: &Occurrence,
        requests: &AtomicUsize,
        write: impl Future<Output = Result<(), WriteError>>,
    ) -> Result<(), WriteError> {
        if occurrence.event().regarding().name() == BARRIER {
            return Ok(());
        }
        requests.fetch_add(1, Ordering::Relaxed);
        self.requests.in_flight.fetch_add(1, Ordering::Relaxed);
        let result = write.await;
        self.requests.in_flight.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

impl Sink for Counted {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let write = self.sink.create(occurrence);
        self.count(occurrence, &self.requests.creates, write).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let write = self.sink.patch(occurrence);
        self.count(occurrence, &self.requests.patches, write).await
    }
}

fn pod(name: &str, version: usize) -> Reference {
    Reference::new(ReferenceFields {
        api_version: "v1",
        kind: "Pod",
        namespace: "default",
        name,
        resource_version: &version.to_string(),
        ..ReferenceFields::default()
    })
}

/// Plays one hour, about pods whose names begin with `prefix`. Returns the number of creates and
/// patches, and the number of recorded events.
async fn play(config: &Config, hour: &Hour, prefix: &str) -> ((usize, usize), usize) {
    let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let options = BroadcasterOptions::default()
        .sink(
            SinkOptions::default()
                .events_v1(SeriesOptions::default().heartbeat(Duration::from_secs(30 * 60))),
        )
        .clock(clock);
    let broadcaster = Broadcaster::with_options(options).unwrap();
    let requests = Arc::new(Requests::default());
    broadcaster.start_recording_to_sink(Counted {
        sink: KubeSink::from_config(config.clone()).unwrap(),
        requests: Arc::clone(&requests),
    });
    let recorder = broadcaster.recorder(EventSource::component("hour"));
    let answered = async || {
        // The sink's task, on the same thread, gets its turn and begins the due writes.
        tokio::task::yield_now().await;
        while requests.in_flight.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    };
    let mut recorded = 0;
    for second in 0..3600 + AFTERWARDS.as_secs() {
        let second = usize::try_from(second).unwrap();
        if let Some((number, version)) = (hour.seen)(second).filter(|_| second < 3600) {
            recorder
                .build(
                    &pod(&format!("{prefix}{number}"), version),
                    Warning,
                    "BackOff",
                )
                .action("Restarting")
                .message("restarting failed container")
                .send();
            recorded += 1;
            let seen = recorder.record_and_wait(&pod(BARRIER, 1), Warning, "BackOff", "m");
            assert!(seen.await.unwrap().is_written());
        }
        answered().await;
        hand.advance(Duration::from_secs(1));
    }
    answered().await;
    let report = broadcaster.report();
    assert_eq!(
        report.pending + report.dropped.total(),
        0,
        "every count is at the server: {report}"
    );
    let of = |requests: &AtomicUsize| requests.load(Ordering::Relaxed);
    ((of(&requests.creates), of(&requests.patches)), recorded)
}

async fn play_all(server: &str, kubeconfig: Kubeconfig) {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    let client = kube::Client::try_from(config.clone()).unwrap();
    let events: Api<v1::Event> = Api::namespaced(client, "default");
    for (number, hour) in HOURS.iter().enumerate() {
        let (name, prefix) = (hour.name, format!("hour-{number}-"));
        let (written, recorded) = play(&config, hour, &prefix).await;
        assert_eq!(written, hour.ours, "{server}: {name}");
        assert!(
            written.0 + written.1 <= hour.client_go.0 + hour.client_go.1,
            "{name}: {written:?} writes, {:?} by client-go",
            hour.client_go
        );
        let stored = events.list(&ListParams::default()).await.unwrap();
        let counts: Vec<i32> = stored
            .into_iter()
            .filter(|event| {
                let regarding = event.regarding.as_ref();
                let name = regarding.and_then(|regarding| regarding.name.as_deref());
                name.is_some_and(|name| name.starts_with(&prefix))
            })
            .map(|event| event.series.map_or(1, |series| series.count))
            .collect();
        assert_eq!(counts.len(), written.0, "{server}: {name}");
        let counted = usize::try_from(counts.iter().sum::<i32>()).unwrap();
        assert_eq!(counted, recorded, "{server}: {name}");
    }
}

#[tokio::test]
async fn an_hour_costs_a_server_no_more_than_with_client_go_and_every_event_is_counted() {
    let cluster = Cluster::start().await;
    play_all(
        "tidings",
        Kubeconfig::read_from(cluster.kubeconfig()).unwrap(),
    )
    .await;
}

/// Waits until the hours' namespace exists: kube-apiserver creates it after it begins to answer.
pub(crate) async fn namespace(kubeconfig: Kubeconfig) {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    while namespaces.get_opt("default").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_hour_costs_kube_apiserver_the_same() {
    if let Some(server) = KubeApiserver::start() {
        let kubeconfig: Kubeconfig = serde_json::from_value(server.kubeconfig()).unwrap();
        let made = tokio::time::timeout(Duration::from_secs(60), namespace(kubeconfig.clone()));
        made.await.expect("the namespace is made");
        play_all("kube-apiserver", kubeconfig).await;
    }
}
