//! Records a burst of events to a cluster through the default broadcaster, as fast as possible, and
//! prints how many were recorded, delivered and lost, and why.
//!
//! `benches/peers/client-go/record-load` does the same with client-go.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tidings::EventType::Warning;
use tidings::advanced::SeriesOptions;
use tidings::{Broadcaster, EventSource, KubeSink, Reference, ReferenceFields, SinkOptions};
use tidings_bench::{Figure, ended, peak_resident_bytes, processor_seconds, time};

/// Records a burst of events to a cluster, and prints their outcome.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of the cluster
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Number of events to record
    #[arg(long, default_value_t = 20_000)]
    events: usize,
    /// Number of objects that they are about
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Record events.k8s.io/v1, where repeats become a series
    #[arg(long)]
    series: bool,
    /// Send protobuf instead of JSON
    #[arg(long)]
    protobuf: bool,
    /// Maximum seconds of delivery after the last event was recorded
    #[arg(long, default_value_t = 120)]
    deadline: u64,
}

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Kubeconfig {
        path: PathBuf,
        source: Box<kube::config::KubeconfigError>,
    },
    #[error("cannot reach the cluster: {0}")]
    Cluster(#[from] Box<kube::Error>),
    #[error(transparent)]
    Sink(#[from] tidings::StartSinkError),
}

#[tokio::main]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

#[expect(clippy::print_stdout, reason = "the figures are the output")]
async fn run(arguments: Arguments) -> Result<(), LoadError> {
    let config = config(&arguments.kubeconfig).await?;
    let client = Client::try_from(config.clone()).map_err(Box::new)?;
    let sink = KubeSink::from_config(config).map_err(Box::new)?;
    let sink = sink.protobuf(arguments.protobuf);
    // The reason differs between runs, so that a run does not count the events of another on the
    // same cluster.
    let reason = format!("Load{}", milliseconds());
    let found_before = count(&client, &reason).await?;

    let references: Vec<Reference> = (0..arguments.objects.clamp(1, arguments.events.max(1)))
        .map(|index| {
            Reference::new(ReferenceFields {
                api_version: "v1",
                kind: "Pod",
                namespace: "default",
                name: &format!("load-{index:06}"),
                uid: &format!("3c1f0a52-8d0e-4b1e-9f5e-{index:012}"),
                ..ReferenceFields::default()
            })
        })
        .collect();

    let broadcaster = Broadcaster::new();
    let mut options = SinkOptions::default();
    if arguments.series {
        options = options.events_v1(SeriesOptions::default());
    }
    broadcaster.start_recording_to_sink_with(sink, options)?;
    let recorder = broadcaster.recorder(EventSource::component("record-load"));

    let started = milliseconds();
    let worked_before = processor_seconds();
    let offering = time(|| {
        for reference in references.iter().cycle().take(arguments.events) {
            recorder.event(
                reference,
                Warning,
                &reason,
                "Back-off restarting failed container",
            );
        }
    });
    let report = broadcaster
        .shutdown(Duration::from_secs(arguments.deadline))
        .await;
    let worked = processor_seconds();
    let elapsed = Duration::from_millis(milliseconds().saturating_sub(started).max(1));
    let found = count(&client, &reason).await?.saturating_sub(found_before);
    let rate = (report.delivered + report.aggregated) as f64 / elapsed.as_secs_f64();

    println!(
        "offered      {} in {:.1} ms",
        report.offered,
        offering.as_secs_f64() * 1e3
    );
    println!("delivered    {}", report.delivered);
    println!("aggregated   {}", report.aggregated);
    println!("dropped      {}", report.dropped.total());
    for (cause, count) in report.dropped.iter().filter(|(_, count)| *count > 0) {
        println!("  {cause}  {count}");
    }
    println!("pending      {}", report.pending);
    println!("found        {found} in the cluster");
    println!("elapsed      {:.2} s", elapsed.as_secs_f64());
    println!("events/s     {rate:.0}");
    let mut figure = Figure::new("record_load")
        .with("offered", report.offered as f64)
        .with("delivered", report.delivered as f64)
        .with("aggregated", report.aggregated as f64)
        .with("lost", (report.dropped.total() + report.pending) as f64)
        .with("found", found as f64)
        .with("events_per_second", rate);
    if let Some(bytes) = peak_resident_bytes() {
        println!("peak RSS     {:.1} MiB", bytes as f64 / f64::from(1 << 20));
        figure = figure.with("peak_rss_bytes", bytes as f64);
    }
    if let (Some(worked), Some(before)) = (worked, worked_before) {
        let each = (worked - before) * 1e6 / report.delivered.max(1) as f64;
        println!("CPU          {each:.0} µs for an event");
        figure = figure.with("cpu_us_per_event", each);
    }
    if arguments.protobuf {
        figure = figure.by("protobuf");
    }
    // The figure again, as JSON for programs.
    figure.print();
    Ok(())
}

/// The number of events in the cluster with this `reason`.
async fn count(client: &Client, reason: &str) -> Result<usize, LoadError> {
    let events: Api<Event> = Api::all(client.clone());
    let mut parameters = ListParams::default()
        .fields(&format!("reason={reason}"))
        .limit(5_000);
    let mut found = 0;
    loop {
        let page = events.list_metadata(&parameters).await.map_err(Box::new)?;
        found += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(found),
        }
    }
}

async fn config(path: &PathBuf) -> Result<Config, LoadError> {
    let unreadable = |source| LoadError::Kubeconfig {
        path: path.clone(),
        source: Box::new(source),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(unreadable)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(unreadable)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn milliseconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
