//! Records a steady stream of events to a cluster that may be down for a while, and prints their
//! outcome; or counts the events of the cluster. `cargo xtask outage` runs this program, and kills
//! it in scenarios in which the recording process dies.
//!
//! Half of the events are repeats about 50 objects. Each event of the other half is about an object
//! of its own.

use std::path::{Path, PathBuf};
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
    Broadcaster, EventSource, KubeSink, Reference, ReferenceFields, SinkOptions, SpillOptions,
};
use tidings_bench::{Figure, ended};
use tokio::time::{MissedTickBehavior, interval};

/// Number of objects that the repeats are about.
const REPEATING: u64 = 50;

/// Maximum time of delivery after the last event: longer than any pause between two attempts.
const DEADLINE: Duration = Duration::from_secs(120);

/// Records events to a cluster, and prints their outcome.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of the cluster
    #[arg(long)]
    kubeconfig: PathBuf,
    /// A file with a bearer token to use instead of the kubeconfig's
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Seconds to record; with 0, only deliver what an earlier process left in the spill
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Number of events per second
    #[arg(long, default_value_t = 200)]
    per_second: u64,
    /// Keep events in this folder until they are delivered, and few of them in memory
    #[arg(long)]
    spill: Option<PathBuf>,
    /// Only print the number of recorded events in the cluster, the sum of all counts
    #[arg(long)]
    count: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = config(&arguments.kubeconfig).await?;
    if let Some(file) = &arguments.token_file {
        config.auth_info.token = None;
        config.auth_info.token_file = Some(file.to_string_lossy().into_owned());
    }
    if arguments.count {
        let counted = count(Client::try_from(config)?).await?;
        Figure::new("outage")
            .with("counted", counted as f64)
            .print();
        return Ok(());
    }
    let mut options = SinkOptions::default().events_v1(SeriesOptions::default());
    if let Some(folder) = arguments.spill {
        options = options
            .spill(SpillOptions::new(folder))
            .delivery(DeliveryOptions::default().pending_events_max(256));
    }
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink_with(KubeSink::from_config(config)?, options)?;
    let recorder = broadcaster.recorder(EventSource::component("example.com/record-outage"));
    let per_second = arguments.per_second.max(1);
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(per_second)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0..arguments.seconds * per_second {
        ticks.tick().await;
        let name = if number.is_multiple_of(2) {
            format!("repeating-{}", number / 2 % REPEATING)
        } else {
            format!("single-{number}")
        };
        let pod = Reference::new(ReferenceFields {
            api_version: "v1",
            kind: "Pod",
            namespace: "default",
            name: &name,
            ..ReferenceFields::default()
        });
        recorder.event(
            &pod,
            Warning,
            "BackOff",
            "Back-off restarting failed container",
        );
        if (number + 1).is_multiple_of(per_second.div_ceil(10)) {
            Figure::new("outage")
                .with("recorded", (number + 1) as f64)
                .print();
        }
    }
    let report = broadcaster.shutdown(DEADLINE).await;
    Figure::new("outage")
        .with("offered", report.offered as f64)
        .with("delivered", report.delivered as f64)
        .with("aggregated", report.aggregated as f64)
        .with("dropped", report.dropped.total() as f64)
        .with("pending", report.pending as f64)
        .print();
    Ok(())
}

/// The sum of the counts of the cluster's events.
async fn count(client: Client) -> Result<u64, kube::Error> {
    let events: Api<Event> = Api::namespaced(client, "default");
    let mut parameters = ListParams::default().limit(1_000);
    let mut counted = 0;
    loop {
        let page = events.list(&parameters).await?;
        for event in &page.items {
            let count = event.series.as_ref().map_or(1, |series| series.count);
            counted += u64::try_from(count).unwrap_or_default();
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(counted),
        }
    }
}

async fn config(path: &Path) -> Result<Config, kube::config::KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}
