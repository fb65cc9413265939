//! Records a burst of events through kube-rs's `Recorder` into a cluster, and prints the outcome as
//! one line of JSON.
//!
//! `Recorder::publish` waits for the cluster's answer, so the number of calls at the same time is
//! that of `--tasks`. A caller that does not want to wait must start tasks of its own. Nothing is
//! queued or tried again: an event whose call fails is lost.

#![expect(
    clippy::disallowed_methods,
    reason = "a program that measures reads the clock where it measures"
)]

use std::{
    error::Error,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Instant, SystemTime},
};

use clap::Parser;
use k8s_openapi::api::core::v1::{Event as CoreEvent, ObjectReference};
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::events::{Event, EventType, Recorder, Reporter},
};

const NAMESPACE: &str = "default";
const LIST_LIMIT: u32 = 500;

/// Measure kube-rs's event recorder against a cluster.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Number of events to record
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    events: usize,
    /// Number of objects that they are about, in turn
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    objects: usize,
    /// Number of tasks that publish at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    tasks: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kube-rs-peer: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Publishes the events, waits for every answer, and prints the summary.
async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let events: Api<CoreEvent> = Api::namespaced(client.clone(), NAMESPACE);
    // If the cluster does not answer at all, that is an error, and not the loss of every event.
    events.list(&ListParams::default().limit(1)).await?;

    let begun = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_nanos();
    let prefix = format!("record-load-{begun:x}");
    let load = Arc::new(Load {
        recorder: Recorder::new(
            client,
            Reporter {
                controller: "record-load".to_owned(),
                instance: None,
            },
        ),
        objects: (0..arguments.objects).map(|i| pod(&prefix, i)).collect(),
        events: arguments.events,
        next: AtomicUsize::new(0),
        delivered: AtomicUsize::new(0),
        first_error: OnceLock::new(),
    });

    let started = Instant::now();
    let tasks: Vec<_> = (0..arguments.tasks)
        .map(|_| tokio::spawn(Arc::clone(&load).publish()))
        .collect();
    for task in tasks {
        task.await?;
    }
    let seconds = started.elapsed().as_secs_f64();

    if let Some(error) = load.first_error.get() {
        eprintln!("lost: {error}");
    }
    let delivered = load.delivered.load(Ordering::Relaxed);
    let summary = serde_json::json!({
        "peer": "kube-rs", "version": "5", "name": "record_load",
        "offered": arguments.events, "delivered": delivered, "lost": arguments.events - delivered,
        "events_per_second": delivered as f64 / seconds, "found": found(&events, &prefix).await?,
        "peak_rss_bytes": peak_rss_bytes(),
    });
    println!("{summary}");
    Ok(())
}

/// What the tasks have in common.
struct Load {
    recorder: Recorder,
    objects: Vec<ObjectReference>,
    events: usize,
    next: AtomicUsize,
    delivered: AtomicUsize,
    first_error: OnceLock<String>,
}

impl Load {
    /// Publishes events until all are published.
    async fn publish(self: Arc<Self>) {
        let event = Event {
            type_: EventType::Warning,
            reason: "BackOff".to_owned(),
            note: Some("Back-off restarting failed container web".to_owned()),
            action: "Restarting".to_owned(),
            secondary: None,
        };
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.events {
                return;
            }
            let object = &self.objects[index % self.objects.len()];
            match self.recorder.publish(&event, object).await {
                Ok(()) => _ = self.delivered.fetch_add(1, Ordering::Relaxed),
                Err(error) => _ = self.first_error.get_or_init(|| error.to_string()),
            }
        }
    }
}

fn pod(prefix: &str, index: usize) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        name: Some(format!("{prefix}-{index}")),
        uid: Some(format!("3c1f0a52-8d0e-4b1e-9f5e-{index:012}")),
        ..ObjectReference::default()
    }
}

/// The number of this run's events in the cluster.
async fn found(events: &Api<CoreEvent>, prefix: &str) -> Result<usize, kube::Error> {
    let mut parameters = ListParams::default().limit(LIST_LIMIT);
    let mut total = 0;
    loop {
        let page = events.list(&parameters).await?;
        let ours = |event: &&CoreEvent| {
            event
                .involved_object
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(prefix))
        };
        total += page.items.iter().filter(ours).count();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters.continue_token = Some(next),
            _ => return Ok(total),
        }
    }
}

/// Maximum resident memory of this process, if the system has it.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
