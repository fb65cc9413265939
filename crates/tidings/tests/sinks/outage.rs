//! Outages, over real connections: an API server that goes away and comes back, and one with every
//! kind of wrong answer. Every event arrives: offered = delivered + aggregated, and nothing is
//! dropped.
//!
//! `TIDINGS_OUTAGE_SECONDS` makes the outage longer than the default of one second; the
//! documentation's figures are of 60 seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::events::v1;
use kube::api::{Api, ListParams};
use kube::config::Config;
use tidings::advanced::{Backoff, CorrelatorOptions, DeliveryOptions, RetryPolicy, SeriesOptions};
use tidings::{
    Broadcaster, EventSource, FlushReport, KubeSink, Recorder, Reference, ReferenceFields,
    SinkOptions,
};
use tidings_testing::serving::{config, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// 200 events a second: one each 5 ms.
const PAUSE: Duration = Duration::from_millis(5);

fn pod(number: usize) -> Reference {
    Reference::new(ReferenceFields {
        api_version: "v1",
        kind: "Pod",
        namespace: "default",
        name: &format!("web-{number}"),
        ..ReferenceFields::default()
    })
}

/// Records for some time, about 50 pods in turn. Returns the number of events.
async fn record(recorder: &Recorder, seconds: u64) -> usize {
    let events = usize::try_from(seconds).unwrap() * 200;
    for number in 0..events {
        recorder.warning(&pod(number % 50), "BackOff", "restarting failed container");
        tokio::time::sleep(PAUSE).await;
    }
    events
}

#[track_caller]
fn assert_all_there(report: &FlushReport, events: usize) {
    assert_eq!(report.offered, events as u64, "{report}");
    assert_eq!(
        report.delivered + report.aggregated,
        report.offered,
        "{report}"
    );
    assert_eq!(report.dropped.total() + report.pending, 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_and_comes_back_gets_every_event() {
    let seconds = std::env::var("TIDINGS_OUTAGE_SECONDS");
    let seconds = seconds.map_or(1, |seconds| seconds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 0).await;
    let config = config(server.kubeconfig()).await;
    let port = config.cluster_url.port_u16().unwrap();
    let broadcaster = Broadcaster::new();
    let options = SinkOptions::default().events_v1(SeriesOptions::default());
    broadcaster
        .start_recording_to_sink_with(KubeSink::from_config(config.clone()).unwrap(), options)
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("example.com/controller"));

    let mut events = record(&recorder, 1).await;
    server.shutdown().await;
    events += record(&recorder, seconds).await;
    let server = start(folder.path(), port).await;
    events += record(&recorder, 1).await;
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_all_there(&report, events);

    let client = kube::Client::try_from(config).unwrap();
    let stored: Api<v1::Event> = Api::namespaced(client, "default");
    let stored = stored.list(&ListParams::default()).await.unwrap();
    let counts = stored.items.iter().map(|event| {
        let series = event.series.as_ref();
        usize::try_from(series.map_or(1, |series| series.count)).unwrap()
    });
    assert_eq!((stored.items.len(), counts.sum::<usize>()), (50, events));
    server.shutdown().await;
}

/// The faulty answers to requests.
const FAULTS: [&str; 8] = [
    "429 Too Many Requests\r\ncontent-length: 0",
    "429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0",
    "500 Internal Server Error\r\ncontent-length: 0",
    "503 Service Unavailable\r\ncontent-length: 0",
    // A token is being rotated.
    "401 Unauthorized\r\ncontent-length: 0",
    // The connection is reset, in three places.
    "",
    "200 OK\r\ncontent-le",
    // The answer is slow.
    "201 Created\r\ncontent-length: 2\r\n\r\n{}",
];

/// Answers every other request with success, and the others with the faults in turn.
async fn faulty(mut stream: TcpStream, requests: Arc<AtomicUsize>) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await?;
        let request = requests.fetch_add(1, Ordering::Relaxed);
        let fault = FAULTS[request / 2 % FAULTS.len()];
        let answer = if request % 2 == 1 {
            "201 Created\r\ncontent-length: 2\r\n\r\n{}"
        } else {
            fault
        };
        if answer.is_empty() {
            return Ok(());
        }
        if request.is_multiple_of(2) && answer.starts_with("201") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let end = if answer.contains("\r\n\r\n") {
            ""
        } else {
            "\r\n\r\n"
        };
        if answer.ends_with("content-le") {
            stream
                .write_all(format!("HTTP/1.1 {answer}").as_bytes())
                .await?;
            return Ok(());
        }
        stream
            .write_all(format!("HTTP/1.1 {answer}{end}").as_bytes())
            .await?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_that_passes_costs_an_event() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(faulty(stream, Arc::clone(&counted)));
        }
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let broadcaster = Broadcaster::new();
    let (first, max) = (Duration::from_millis(1), Duration::from_millis(20));
    let retry = RetryPolicy::default()
        .backoff(Backoff::Exponential { first, max })
        // The faulty server asks for waits of a second this often.
        .retry_after_max(max);
    let options = SinkOptions::default()
        .correlator(CorrelatorOptions::default().without_spam_filter())
        .delivery(DeliveryOptions::default().retry(retry));
    broadcaster
        .start_recording_to_sink_with(KubeSink::from_config(config).unwrap(), options)
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("controller"));
    let events = record(&recorder, 2).await;
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_all_there(&report, events);
    let requests = requests.load(Ordering::Relaxed);
    assert!(requests > 2 * FAULTS.len(), "{requests} requests");
}
