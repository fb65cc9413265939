//! `KubeSink` and the whole recording path against a real Event API server, over TLS with a token.

use std::time::Duration;

use crate::support::{occurrences, states};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tidings::advanced::{Backoff, CorrelatorOptions, DeliveryOptions, RetryPolicy, SeriesOptions};
use tidings::{
    Broadcaster, BroadcasterOptions, Clock, DropCause, EventApi, EventSource, EventType, KubeSink,
    Occurrence, Reference, ReferenceFields, Sink, SinkOptions, SpillOptions, WriteError,
    WriteErrorKind,
};
use tidings_server::{AuditOptions, EventRateLimitOptions, Running, StartOptions, start};
use tidings_testing::serving::config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

struct Cluster {
    server: Running,
    config: Config,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        Self::start_with(EventRateLimitOptions::default()).await
    }

    async fn start_with(limits: EventRateLimitOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = StartOptions::new(folder.path());
        options.secure_port = 0;
        options.audit = Some(AuditOptions::new(folder.path().join("audit.log")));
        options.api.event_rate_limit = limits;
        let server = start(options).await.unwrap();
        Self {
            config: config(server.kubeconfig()).await,
            server,
            folder,
        }
    }

    fn sink(&self) -> KubeSink {
        KubeSink::from_config(self.config.clone()).unwrap()
    }

    /// Ends the server, and returns the status codes of its answers to requests of this verb, in
    /// order.
    async fn codes(self, verb: &str) -> Vec<u64> {
        self.server.shutdown().await;
        let log = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &serde_json::Value| line["verb"] == verb)
            .map(|line| line["responseStatus"]["code"].as_u64().unwrap())
            .collect()
    }

    fn events(&self) -> Api<v1::Event> {
        let client = Client::try_from(self.config.clone()).unwrap();
        Api::namespaced(client, "default")
    }
}

fn code(result: Result<(), WriteError>) -> u16 {
    match result.unwrap_err().kind {
        WriteErrorKind::Status(failure) => failure.code,
        other => panic!("{other:?} is no answer"),
    }
}

/// The event without the fields that the server sets.
fn as_sent(mut event: v1::Event) -> v1::Event {
    event.metadata.uid = None;
    event.metadata.resource_version = None;
    event.metadata.creation_timestamp = None;
    event.metadata.managed_fields = None;
    event
}

#[tokio::test]
async fn a_server_stores_what_an_occurrence_says() {
    let cluster = Cluster::start().await;
    for protobuf in [false, true] {
        let sink = cluster.sink().protobuf(protobuf);
        stores_what_an_occurrence_says(&sink, &cluster.events()).await;
    }
    cluster.server.shutdown().await;
}

async fn stores_what_an_occurrence_says(sink: &KubeSink, events: &Api<v1::Event>) {
    let (first, second) = occurrences("default", "web-0");
    let name = first.name();

    assert_eq!(code(sink.patch(&second).await), 404);
    sink.create(&first).await.unwrap();
    let stored = events.get(&name).await.unwrap();
    assert_eq!(as_sent(stored), first.to_wire());
    assert_eq!(code(sink.create(&first).await), 409);

    sink.patch(&second).await.unwrap();
    let stored = events.get(&name).await.unwrap();
    assert_eq!(as_sent(stored), second.to_wire());

    events
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(code(sink.patch(&second).await), 404);
    sink.create(&second.as_create()).await.unwrap();
    let stored = events.get(&name).await.unwrap();
    assert_eq!(as_sent(stored), second.to_wire());
    sink.update(&first).await.unwrap();
    let stored = events.get(&name).await.unwrap();
    assert_eq!(as_sent(stored), first.to_wire());
    events
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
}

/// A server that limits the rate of events about an object refuses some, and accepts events about
/// others, which are not delayed or lost. Refused events are dropped with their own cause after a
/// few attempts, and removed from disk.
#[tokio::test]
async fn a_limit_on_the_rate_costs_the_events_it_is_for() {
    let limits = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n\
        limits: [{type: SourceAndObject, qps: 1, burst: 5, cacheSize: 100}]";
    let cluster = Cluster::start_with(EventRateLimitOptions::parse(limits).unwrap()).await;
    let folder = tempfile::tempdir().unwrap();
    let retry = RetryPolicy::default().backoff(Backoff::Constant(Duration::ZERO));
    let delivery = DeliveryOptions::default().retry(retry);
    let options = SinkOptions::default()
        .correlator(
            CorrelatorOptions::default()
                .without_spam_filter()
                .without_aggregation(),
        )
        .delivery(delivery)
        .spill(SpillOptions::new(folder.path()));
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(cluster.sink(), options.clone())
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("c"));
    let record = |name: &str, number: u64| {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name,
            ..ReferenceFields::default()
        });
        recorder.event(&pod, EventType::Normal, "Started", number);
    };
    for number in 0..100 {
        record("noisy", number);
        record(&format!("quiet-{number}"), number);
    }
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    let limited = report.dropped.get(DropCause::RateLimited);
    assert_eq!(
        (report.dropped.total(), report.pending),
        (limited, 0),
        "{report}"
    );
    assert!((50..=95).contains(&limited), "{report}");
    let stored = cluster.events().list(&ListParams::default()).await.unwrap();
    let quiet = |event: &&v1::Event| event.involved_object.name.as_deref() != Some("noisy");
    assert_eq!(stored.iter().filter(quiet).count(), 100);
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(cluster.sink(), options)
        .unwrap();
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_eq!(report.offered, 0, "nothing is left on disk: {report}");
    cluster.server.shutdown().await;
}

/// A limit that all events share paces a backlog: all events on disk arrive, however often the
/// server refuses some.
#[tokio::test]
async fn a_limit_on_the_rate_of_a_server_costs_no_event_that_lies_on_disk() {
    let limits = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n\
        limits: [{type: Server, qps: 20, burst: 10}]";
    let cluster = Cluster::start_with(EventRateLimitOptions::parse(limits).unwrap()).await;
    let folder = tempfile::tempdir().unwrap();
    let retry = RetryPolicy::default().backoff(Backoff::Exponential {
        first: Duration::from_millis(20),
        max: Duration::from_millis(100),
    });
    let delivery = DeliveryOptions::default()
        .pending_events_max(40)
        .retry(retry);
    let options = SinkOptions::default()
        .delivery(delivery)
        .spill(SpillOptions::new(folder.path()));
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(cluster.sink(), options)
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("c"));
    for number in 0..80 {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: &format!("web-{number}"),
            ..ReferenceFields::default()
        });
        recorder.event(&pod, EventType::Normal, "Started", "m");
    }
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_eq!((report.delivered, report.offered), (80, 80), "{report}");
    let stored = cluster.events().list(&ListParams::default()).await.unwrap();
    assert_eq!(stored.items.len(), 80);
    cluster.server.shutdown().await;
}

/// A limit that all events of the program share: a backlog in memory arrives at the server's rate,
/// with few refusals, and no event is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_on_the_rate_of_a_user_costs_no_event() {
    let limits = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n\
        limits: [{type: User, qps: 25, burst: 20, cacheSize: 100}]";
    let cluster = Cluster::start_with(EventRateLimitOptions::parse(limits).unwrap()).await;
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(cluster.sink());
    let recorder = broadcaster.recorder(EventSource::component("c"));
    for number in 0..200 {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: &format!("web-{}", number % 60),
            ..ReferenceFields::default()
        });
        recorder.warning(&pod, &format!("Failed{number}"), "m");
    }
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_eq!((report.delivered, report.offered), (200, 200), "{report}");
    let codes = cluster.codes("create").await;
    let refused = codes.iter().filter(|code| **code == 429).count();
    assert!(refused < 200, "{refused} refusals for 200 events");
}

/// A proxy between a client and a server. While it holds, bytes of existing connections are
/// forwarded only after it continues, even if the clients are gone by then. New connections are not
/// held.
struct Late {
    address: std::net::SocketAddr,
    holds: watch::Sender<bool>,
    /// Whether the held requests were answered: false if the server ended before.
    answered: mpsc::UnboundedReceiver<bool>,
}

impl Late {
    async fn start(server: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (holds, told) = watch::channel(false);
        let (answers, answered) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(server).await.unwrap();
                let told = (!*told.borrow()).then(|| told.clone());
                tokio::spawn(carry(client, server, told, answers.clone()));
            }
        });
        Self {
            address,
            holds,
            answered,
        }
    }
}

async fn carry(
    client: TcpStream,
    server: TcpStream,
    told: Option<watch::Receiver<bool>>,
    answers: mpsc::UnboundedSender<bool>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (came, mut comes) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut part = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = from_server.read(&mut part).await {
            let _ = to_client.write_all(&part[..bytes]).await;
            let _ = came.send(());
        }
    });
    let (mut held, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(bytes @ 1..) = from_client.read(&mut part).await {
        if told.as_ref().is_some_and(|told| *told.borrow()) {
            held.extend_from_slice(&part[..bytes]);
        } else {
            to_server.write_all(&part[..bytes]).await.unwrap();
        }
    }
    if let Some(mut told) = told
        && !held.is_empty()
    {
        told.wait_for(|holds| !holds).await.unwrap();
        while comes.try_recv().is_ok() {}
        // Without the client's closing alert: a record of its two bytes and TLS 1.3's overhead.
        let mut records = &held[..];
        while let Some((head, rest)) = records.split_first_chunk::<5>() {
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            let (body, rest) = rest.split_at(length);
            if length > 19 {
                to_server.write_all(head).await.unwrap();
                to_server.write_all(body).await.unwrap();
            }
            records = rest;
        }
        let _ = answers.send(comes.recv().await.is_some());
    }
}

/// A patch is delayed on its way, times out, and arrives after its successor: the count does not go
/// back.
#[tokio::test]
async fn a_patch_that_arrives_late_undoes_none_that_came_after_it() {
    let cluster = Cluster::start().await;
    let mut late = Late::start(cluster.server.address()).await;
    let mut config = cluster.config.clone();
    config.cluster_url = format!("https://localhost:{}", late.address.port())
        .parse()
        .unwrap();
    let sink = KubeSink::from_config(config).unwrap();
    let hasty = sink.clone().request_timeout(Duration::from_millis(200));
    let [first, second, third] = states(CorrelatorOptions::default(), "default", "web-0");
    sink.create(&first).await.unwrap();
    late.holds.send_replace(true);
    let error = hasty.patch(&second).await.unwrap_err();
    assert_eq!(error.kind, WriteErrorKind::Timeout);
    sink.patch(&third).await.unwrap();
    late.holds.send_replace(false);
    assert_eq!(late.answered.recv().await, Some(true));
    let stored = cluster.events().get(&first.name()).await.unwrap();
    assert_eq!(stored.count, Some(3));
    assert_eq!(cluster.codes("patch").await, [200, 409]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_is_found_in_the_cluster() {
    const PODS: usize = 200;
    const TIMES: i32 = 5;
    let cluster = Cluster::start().await;
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(cluster.sink());
    let recorder = broadcaster.recorder(EventSource::component("example-controller"));
    for _ in 0..TIMES {
        for pod in 0..PODS {
            let pod = Reference::new(ReferenceFields {
                api_version: "v1",
                kind: "Pod",
                namespace: "default",
                name: &format!("web-{pod}"),
                ..ReferenceFields::default()
            });
            recorder.event(
                &pod,
                EventType::Warning,
                "BackOff",
                "restarting failed container",
            );
        }
    }
    let report = broadcaster.shutdown(Duration::from_secs(30)).await;
    let offered = PODS as u64 * TIMES as u64;
    assert_eq!(report.dropped.total(), 0, "{report}");
    assert_eq!(report.delivered + report.aggregated, offered, "{report}");

    let stored = cluster.events().list(&ListParams::default()).await.unwrap();
    assert_eq!(stored.items.len(), PODS);
    for event in stored.items {
        assert_eq!(event.count, Some(TIMES), "{:?}", event.involved_object.name);
    }
    cluster.server.shutdown().await;
}

/// client-go's TestEventSeriesWithEventSinkImplRace, against a server that checks events.k8s.io/v1
/// events as kube-apiserver does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_as_events_v1_is_accepted_and_counted() {
    const PODS: usize = 50;
    const TIMES: i32 = 40;
    let cluster = Cluster::start().await;
    let sink = SinkOptions::default().events_v1(SeriesOptions::default());
    let broadcaster = Broadcaster::with_options(BroadcasterOptions::default().sink(sink)).unwrap();
    broadcaster.start_recording_to_sink(cluster.sink().protobuf(true));
    let recorder = broadcaster.recorder(EventSource::component("Example controller (7)"));
    let message = "x".repeat(3000);
    for _ in 0..TIMES {
        for pod in 0..PODS {
            let pod = Reference::new(ReferenceFields {
                api_version: "v1",
                kind: "Pod",
                namespace: "default",
                name: &format!("web-{pod}"),
                ..ReferenceFields::default()
            });
            recorder.warning(&pod, "BackOff", &message);
        }
    }
    let report = broadcaster.shutdown(Duration::from_secs(30)).await;
    assert_eq!(report.dropped.total(), 0, "{report}");
    assert_eq!(
        report.delivered + report.aggregated,
        PODS as u64 * TIMES as u64,
        "{report}"
    );
    assert!(
        report.delivered <= 3 * PODS as u64,
        "a create, a patch and the end: {report}"
    );

    let client = Client::try_from(cluster.config.clone()).unwrap();
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client, "default");
    let stored = events.list(&ListParams::default()).await.unwrap();
    assert_eq!(stored.items.len(), PODS);
    for event in stored.items {
        assert_eq!(event.series.map(|series| series.count), Some(TIMES));
        assert_eq!(event.action.as_deref(), Some("BackOff"));
        assert!(event.note.is_some_and(|note| note.ends_with("(truncated)")));
    }
    cluster.server.shutdown().await;
}

/// Records one event three times, each time until it is written.
async fn record_thrice(broadcaster: &Broadcaster) {
    let recorder = broadcaster.recorder(EventSource::component("example.com/controller"));
    let pod = Reference::new(ReferenceFields {
        kind: "Pod",
        namespace: "default",
        name: "web-0",
        ..ReferenceFields::default()
    });
    for _ in 0..3 {
        let written = recorder.record_and_wait(&pod, EventType::Warning, "BackOff", "m");
        assert!(written.await.unwrap().is_written());
    }
}

/// The same calls with the API group left to discovery, and permissions checked, on a server that
/// answers like a cluster.
#[tokio::test]
async fn a_cluster_is_asked_what_it_serves_and_allows() {
    let cluster = Cluster::start().await;
    let sink = cluster.sink();
    for api in [EventApi::Core, EventApi::Events] {
        assert_eq!(sink.serves(api).await, Ok(true));
        sink.check_access(api, "default").await.unwrap();
    }
    let options = SinkOptions::default().events_v1_if_served(SeriesOptions::default());
    let broadcaster =
        Broadcaster::with_options(BroadcasterOptions::default().sink(options)).unwrap();
    broadcaster.start_recording_to_sink(sink);
    record_thrice(&broadcaster).await;
    let stored = cluster.events().list(&ListParams::default()).await.unwrap();
    let series = stored.items[0].series.as_ref();
    assert_eq!(series.and_then(|series| series.count), Some(3));
    cluster.server.shutdown().await;
}

/// A Role without events.k8s.io: the group is served, but may not be written.
#[tokio::test]
async fn what_may_only_be_written_as_core_v1_is_written_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let roles = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: recorder}
rules:
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: recorder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: recorder}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ctl}]
";
    let mut options = StartOptions::new(folder.path().join("data"));
    options.secure_port = 0;
    options.token_auth_file = Some(write("tokens.csv", "t,ctl,1\n"));
    options.security.authorization_rbac_file = Some(write("roles.yaml", roles));
    let server = start(options).await.unwrap();
    let mut kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let token = serde_json::from_value(json!({"token": "t"})).unwrap();
    kubeconfig.auth_infos[0].auth_info = Some(token);
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    let sink = KubeSink::from_config(config.clone()).unwrap();
    assert_eq!(sink.serves(EventApi::Events).await, Ok(true));
    let sink = sink.check_access_at_start(["default"]);
    let options = SinkOptions::default().events_v1_if_served(SeriesOptions::default());
    let broadcaster =
        Broadcaster::with_options(BroadcasterOptions::default().sink(options)).unwrap();
    broadcaster.start_recording_to_sink(sink);
    record_thrice(&broadcaster).await;
    let client = Client::try_from(config).unwrap();
    let events: Api<v1::Event> = Api::namespaced(client, "default");
    let stored = events.list(&ListParams::default()).await.unwrap();
    assert_eq!((stored.items.len(), stored.items[0].count), (1, Some(3)));
    server.shutdown().await;
}

/// kube-rs's `event_recorder_attaches_events`, which needs a cluster, in its own calls.
#[tokio::test]
async fn kube_rs_calls_are_recorded_as_kube_rs_records_them() {
    use tidings::kube_rs::{Event, EventType, Recorder};

    let cluster = Cluster::start().await;
    let client = Client::try_from(cluster.config.clone()).unwrap();
    let recorder = Recorder::from_config(cluster.config.clone(), "kube".into()).unwrap();
    let service = k8s_openapi::api::core::v1::ObjectReference {
        kind: Some("Service".into()),
        name: Some("kubernetes".into()),
        namespace: Some("default".into()),
        ..Default::default()
    };
    let event = |note: &str| Event {
        type_: EventType::Normal,
        reason: "VeryCoolService".into(),
        note: Some(note.into()),
        action: "Test event - plz ignore".into(),
        secondary: Some(service.clone()),
    };
    let publish = async |note| recorder.publish_and_wait(&event(note), &service).await;
    publish("Sending kubernetes to detention").await.unwrap();
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client, "default");
    let stored = async || {
        let list = events.list(&ListParams::default()).await.unwrap();
        let mut found = list.into_iter();
        let found = found.find(|event| event.reason.as_deref() == Some("VeryCoolService"));
        found.unwrap()
    };
    let first = stored().await;
    assert_eq!(
        first.note.as_deref(),
        Some("Sending kubernetes to detention")
    );
    assert_eq!(first.reporting_controller.as_deref(), Some("kube"));
    let theirs = kube::runtime::events::Reporter::from("kube");
    assert_eq!(first.reporting_instance, theirs.instance, "the host");
    assert_eq!(first.regarding, Some(service.clone()));
    assert_eq!(first.related, Some(service.clone()));
    assert!(first.series.is_none());

    publish("Sending kubernetes to detention twice")
        .await
        .unwrap();
    assert_eq!(stored().await.series.unwrap().count, 2);
    for _ in 0..3 {
        recorder.publish(&event("again"), &service).await.unwrap();
    }
    let report = recorder.shutdown(Duration::from_secs(30)).await;
    assert_eq!(report.dropped.total() + report.pending, 0, "{report}");
    assert_eq!(stored().await.series.unwrap().count, 5);
    let late = recorder.publish(&event("late"), &service).await;
    assert!(late.is_err());
    cluster.server.shutdown().await;
}

/// A sink that records the result of each create.
#[cfg(unix)]
struct Watched {
    sink: KubeSink,
    results: tokio::sync::mpsc::UnboundedSender<Result<(), WriteError>>,
}

#[cfg(unix)]
impl Sink for Watched {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let result = self.sink.create(occurrence).await;
        self.results.send(result.clone()).unwrap();
        result
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.sink.patch(occurrence).await
    }
}

/// The server drops a token before the client has the next one. The client gets it from a program,
/// because a token file is read again only once a minute, by the machine's clock; `cargo xtask
/// outage` tests that.
#[cfg(unix)]
#[tokio::test]
async fn a_rotated_token_costs_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let users = |token| write("tokens.csv", format!("{token},ctl,1,system:masters\n"));
    let credential = |token: &str| {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": token, "expirationTimestamp": "2026-01-01T00:00:00Z"},
        });
        write("credential.json", credential.to_string())
    };
    let mut options = StartOptions::new(folder.path().join("data"));
    options.secure_port = 0;
    options.token_auth_file = Some(users("first"));
    let server = start(options).await.unwrap();
    let mut kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "cat", "args": [credential("first")],
    }});
    kubeconfig.auth_infos[0].auth_info = Some(serde_json::from_value(exec).unwrap());
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;

    // The manual clock decides when the write is tried again.
    let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let broadcaster =
        Broadcaster::with_options(BroadcasterOptions::default().clock(clock)).unwrap();
    let (results, mut created) = tokio::sync::mpsc::unbounded_channel();
    broadcaster.start_recording_to_sink(Watched {
        sink: KubeSink::from_config(config.unwrap()).unwrap(),
        results,
    });
    let recorder = broadcaster.recorder(EventSource::component("c"));
    let record = |name| {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name,
            ..ReferenceFields::default()
        });
        recorder.event(&pod, EventType::Normal, "Started", "m");
    };
    record("web-0");
    created.recv().await.unwrap().unwrap();
    users("second");
    assert!(server.reload().await);
    record("web-1");
    assert_eq!(code(created.recv().await.unwrap()), 401);
    credential("second");
    hand.advance(Duration::from_secs(1));
    created.recv().await.unwrap().unwrap();
    let report = broadcaster.shutdown(Duration::from_secs(30)).await;
    assert_eq!((report.offered, report.delivered), (2, 2), "{report}");
    server.shutdown().await;
}

/// kube's own text of an error answer prints the whole Status as Rust code.
#[tokio::test]
async fn an_error_of_the_access_check_is_one_readable_line() {
    let cluster = Cluster::start().await;
    let mut config = cluster.config.clone();
    config.auth_info.token = Some("wrong".to_owned().into());
    let sink = KubeSink::from_config(config).unwrap();
    let error = sink.check_access(EventApi::Core, "").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not ask the cluster whether events may be written: the server answered 401: Unauthorized"
    );
    // As `main`, `unwrap` and reports of error chains show it.
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(std::error::Error::source(&error).is_none());
    cluster.server.shutdown().await;
}

/// Go's zero time means no time, in both API groups. events.k8s.io/v1 requires a time, so the time
/// of recording is used.
#[tokio::test]
async fn a_time_of_the_year_1_is_accepted_as_none() {
    let cluster = Cluster::start().await;
    let zero = "0001-01-01T00:00:00Z".parse().unwrap();
    let started: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let (clock, _hand) = Clock::manual(started);
    let options = BroadcasterOptions::default().clock(clock);
    let broadcaster = Broadcaster::with_options(options).unwrap();
    for options in [
        SinkOptions::default(),
        SinkOptions::default().events_v1(SeriesOptions::default()),
    ] {
        let watch = broadcaster
            .start_recording_to_sink_with(cluster.sink(), options)
            .unwrap();
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: "web-0",
            ..ReferenceFields::default()
        });
        let recorder = broadcaster.recorder("c");
        recorder.past(&pod, zero, EventType::Normal, "Imported", "m");
        watch.stop();
        watch.ended().await;
    }
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_eq!((report.delivered, report.offered), (2, 2), "{report}");
    let stored = cluster.events().list(&ListParams::default()).await.unwrap();
    let mut times: Vec<_> = stored
        .iter()
        .map(|event| {
            assert_eq!(event.first_timestamp, None);
            event.event_time.as_ref().map(|time| time.0)
        })
        .collect();
    times.sort();
    assert_eq!(times, [None, Some(started)]);
    cluster.server.shutdown().await;
}

/// The writes of kube-rs's own recorder, which docs/from-kube-rs.md compares with ours: one for
/// each event.
#[tokio::test]
async fn kube_rs_s_own_recorder_writes_once_for_each_event() {
    use kube::runtime::events::{Event, EventType, Recorder};

    let cluster = Cluster::start().await;
    let client = Client::try_from(cluster.config.clone()).unwrap();
    let recorder = Recorder::new(client, "example.com/test".into());
    let event = Event {
        type_: EventType::Warning,
        reason: "BackOff".into(),
        note: Some("restarting failed container".into()),
        action: "Restarting".into(),
        secondary: None,
    };
    let pod = |number: usize| {
        Reference::new(ReferenceFields {
            kind: "Pod",
            api_version: "v1",
            namespace: "default",
            name: &format!("web-{number}"),
            ..ReferenceFields::default()
        })
        .to_object_reference()
    };
    // One object again and again, and several in a loop.
    for number in (0..30).map(|_| 0).chain((0..3).flat_map(|_| 1..=10)) {
        recorder.publish(&event, &pod(number)).await.unwrap();
    }
    let folder = cluster.folder.path().join("audit.log");
    cluster.server.shutdown().await;
    let log = std::fs::read_to_string(folder).unwrap();
    let of = |verb: &str| {
        let verb = format!(r#""verb":"{verb}""#);
        log.lines().filter(|line| line.contains(&verb)).count()
    };
    assert_eq!((of("create"), of("patch")), (11, 49));
}

/// `publish` does not wait for the server, and neither does a drop, which logs the events that are
/// lost if the program ends then.
#[tokio::test]
async fn a_dropped_recorder_of_kube_rs_waits_for_nothing_and_says_what_is_pending() {
    use tidings::kube_rs::{Event, EventType, Recorder, Reference};

    let lines = Lines::default();
    let written = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || written.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // The operating system accepts connections, and nothing ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let recorder = Recorder::from_config(
        Config::new(address.parse().unwrap()),
        "example.com/test".into(),
    )
    .unwrap();
    let event = Event {
        type_: EventType::Normal,
        reason: "Started".into(),
        note: None,
        action: "Starting".into(),
        secondary: None,
    };
    for number in 0..3 {
        let pod = Reference {
            kind: Some("Pod".into()),
            namespace: Some("default".into()),
            name: Some(format!("web-{number}")),
            ..Reference::default()
        };
        recorder.publish(&event, &pod).await.unwrap();
    }
    let clone = recorder.clone();
    drop(recorder);
    assert_eq!(lines.text(), "", "one is left");
    drop(clone);
    let text = lines.text();
    assert!(text.contains("recorder dropped without shutdown"), "{text}");
    assert!(text.contains("call its shutdown"), "{text}");
    assert!(text.contains("pending=3"), "{text}");
}

/// A log that can be read.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The README's program with a mistake in its configuration: the default log says at once what is
/// wrong, and so does the report at the end.
#[tokio::test]
async fn a_wrong_port_token_or_certificate_is_shown() {
    type Mistake = fn(&mut Config);

    let cluster = Cluster::start().await;
    let mistakes: [(Mistake, &str); 3] = [
        (
            |config| config.cluster_url = "https://127.0.0.1:1/".parse().unwrap(),
            "onnection refused",
        ),
        (
            |config| config.auth_info.token = Some("wrong".to_owned().into()),
            "401",
        ),
        (|config| config.root_cert = None, "certificate"),
    ];
    for (mistake, cause) in mistakes {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_writer({
            let lines = lines.clone();
            move || lines.clone()
        });
        let _guard = tracing::subscriber::set_default(subscriber.with_ansi(false).finish());
        let mut config = cluster.config.clone();
        mistake(&mut config);
        let broadcaster = Broadcaster::new();
        broadcaster.start_structured_logging();
        broadcaster.start_recording_to_sink(KubeSink::from_config(config).unwrap());
        let recorder = broadcaster.recorder("example-controller");
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: "web-0",
            ..ReferenceFields::default()
        });
        for reason in ["Pulling", "Pulled", "Started"] {
            recorder.normal(&pod, reason, "m");
        }
        while broadcaster.report().last_error.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let report = broadcaster.shutdown(Duration::ZERO).await;
        assert_eq!(report.pending, 3, "{report}");
        let text = report.to_string();
        let (_, error) = text.split_once("\n  last error: ").unwrap();
        assert!(error.contains(cause), "{text}");
        let log = lines.text();
        let warning = log
            .lines()
            .find(|line| line.contains("Unable to write event"));
        assert!(warning.is_some_and(|line| line.contains(cause)), "{log}");
    }
    cluster.server.shutdown().await;
}
