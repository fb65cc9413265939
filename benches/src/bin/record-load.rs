//! Records events to a cluster through the default broadcaster, and prints their outcome: a burst
//! as fast as possible, or a steady stream, while the cluster may be down for a while.
//! `cargo xtask outage` has the stream recorded, and kills this program in scenarios in which the
//! recording process dies.
//!
//! `benches/peers/client-go/record-load` records the same burst with client-go. Half of the stream
//! are repeats about 50 objects. Each event of the other half is about an object of its own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tidings::EventType::Warning;
use tidings::advanced::{DeliveryOptions, SeriesOptions};
use tidings::{
    Broadcaster, EventSource, FlushReport, KubeSink, Recorder, Reference, ReferenceFields,
    SinkOptions, SpillOptions,
};
use tidings_bench::{Failure, Figure, ended, now};
use tidings_testing::process::{peak_resident_bytes, processor_seconds};
use tokio::time::{MissedTickBehavior, interval};

/// Number of objects that the repeats of the stream are about.
const REPEATING: u64 = 50;

/// Maximum time of delivery after the last event: longer than any pause between two attempts.
const DEADLINE: Duration = Duration::from_secs(120);

const MESSAGE: &str = "Back-off restarting failed container";

/// Records events to a cluster, and prints their outcome.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of the cluster
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Number of events of a burst
    #[arg(long, default_value_t = 20_000)]
    events: u64,
    /// Number of objects that they are about
    #[arg(long, default_value_t = 20_000)]
    objects: u64,
    /// Record events.k8s.io/v1, where repeats become a series, as the stream does
    #[arg(long)]
    series: bool,
    /// Send protobuf instead of JSON
    #[arg(long)]
    protobuf: bool,
    /// Record a stream for this number of seconds instead; with 0, only deliver what an earlier
    /// process left in the spill
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of events of the stream per second
    #[arg(long, default_value_t = 200)]
    per_second: u64,
    /// Keep events in this folder until they are delivered, and few of them in memory
    #[arg(long)]
    spill: Option<PathBuf>,
    /// A file with a bearer token to use instead of the kubeconfig's
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Only print the number of recorded events in the cluster, the sum of all counts
    #[arg(long)]
    count: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let kubeconfig = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    if let Some(file) = &arguments.token_file {
        config.auth_info.token = None;
        config.auth_info.token_file = Some(file.to_string_lossy().into_owned());
    }
    let client = Client::try_from(config.clone())?;
    if arguments.count {
        let (_, counted) = count(&client).await?;
        Figure::new("outage")
            .with("counted", counted as f64)
            .print();
        return Ok(());
    }
    let mut options = SinkOptions::default();
    if arguments.series || arguments.seconds.is_some() {
        options = options.events_v1(SeriesOptions::default());
    }
    if let Some(folder) = arguments.spill {
        options = options
            .spill(SpillOptions::new(folder))
            .delivery(DeliveryOptions::default().pending_events_max(256));
    }
    let broadcaster = Broadcaster::new();
    let sink = KubeSink::from_config(config)?.protobuf(arguments.protobuf);
    broadcaster.start_recording_to_sink_with(sink, options)?;
    let recorder = broadcaster.recorder(EventSource::component("example.com/record-load"));
    if let Some(seconds) = arguments.seconds {
        stream(&recorder, seconds, arguments.per_second.max(1)).await?;
        let report = broadcaster.shutdown(DEADLINE).await;
        outcome("outage", &report).print();
        return Ok(());
    }
    let (found_before, _) = count(&client).await?;
    let objects = arguments.objects.clamp(1, arguments.events.max(1));
    let pods: Vec<_> = (0..objects)
        .map(|index| pod(&format!("load-{index:06}"), index))
        .collect();
    let process = std::process::id();
    let (started, worked_before) = (now(), processor_seconds(process));
    for pod in pods.iter().cycle().take(arguments.events as usize) {
        recorder.event(pod, Warning, "BackOff", MESSAGE);
    }
    let report = broadcaster.shutdown(DEADLINE).await;
    let (elapsed, worked) = (started.elapsed(), processor_seconds(process));
    let peak = peak_resident_bytes(process);
    let (found, _) = count(&client).await?;
    let rate = (report.delivered + report.aggregated) as f64 / elapsed.as_secs_f64();
    let mut figure = outcome("record_load", &report)
        .with("lost", (report.dropped.total() + report.pending) as f64)
        .with("found", found.saturating_sub(found_before) as f64)
        .with("events_per_second", rate)
        .with_bytes("peak_rss_bytes", peak);
    if let (Some(worked), Some(before)) = (worked, worked_before) {
        let each = (worked - before) * 1e6 / report.delivered.max(1) as f64;
        figure = figure.with("cpu_us_per_event", each);
    }
    let figure = if arguments.protobuf {
        figure.by("protobuf")
    } else {
        figure
    };
    figure.print();
    Ok(())
}

fn outcome(name: &str, report: &FlushReport) -> Figure {
    Figure::new(name)
        .with("offered", report.offered as f64)
        .with("delivered", report.delivered as f64)
        .with("aggregated", report.aggregated as f64)
        .with("dropped", report.dropped.total() as f64)
        .with("pending", report.pending as f64)
}

/// Records a stream of events, and prints ten times a second how many these are.
async fn stream(recorder: &Recorder, seconds: u64, per_second: u64) -> Result<(), Failure> {
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(per_second)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0..seconds * per_second {
        ticks.tick().await;
        let repeated = number / 2 % REPEATING;
        let pod = if number.is_multiple_of(2) {
            pod(&format!("repeating-{repeated}"), repeated)
        } else {
            pod(&format!("single-{number}"), number)
        };
        recorder.event(&pod, Warning, "BackOff", MESSAGE);
        if (number + 1).is_multiple_of(per_second.div_ceil(10)) {
            Figure::new("outage")
                .with("recorded", (number + 1) as f64)
                .print();
        }
    }
    Ok(())
}

fn pod(name: &str, number: u64) -> Reference {
    Reference::new(ReferenceFields {
        api_version: "v1",
        kind: "Pod",
        namespace: "default",
        name,
        uid: &format!("3c1f0a52-8d0e-4b1e-9f5e-{number:012}"),
        ..ReferenceFields::default()
    })
}

/// The number of the cluster's events, and the sum of their counts.
async fn count(client: &Client) -> Result<(u64, u64), kube::Error> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let mut parameters = ListParams::default().limit(1_000);
    let (mut found, mut counted) = (0, 0);
    loop {
        let page = events.list(&parameters).await?;
        found += page.items.len() as u64;
        for event in &page.items {
            let count = event.series.as_ref().map_or(1, |series| series.count);
            counted += u64::try_from(count).unwrap_or_default();
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok((found, counted)),
        }
    }
}
