//! A kube-rs `Controller` that records events: the recorder is part of its context.
//!
//! It counts the keys of every config map and warns about empty ones; it changes nothing.
//!
//! ```console
//! cargo run -p tidings --example kube_rs_controller      # with a kubeconfig; ends with Ctrl-C
//! ```
//!
//! It needs the permission to list and watch config maps, and to create and patch events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use tidings::{Broadcaster, KubeSink, Recorder};

/// What every reconciliation uses.
struct Context {
    recorder: Recorder,
}

#[derive(Debug, thiserror::Error)]
#[error("the config map has no keys")]
struct Empty;

async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Empty> {
    let keys = map.data.as_ref().map_or(0, std::collections::BTreeMap::len);
    if keys == 0 {
        return Err(Empty);
    }
    // This returns at once; correlation, retries and rate limits happen in the background.
    context
        .recorder
        .normal(&map, "Counted", format_args!("{keys} keys"));
    Ok(Action::await_change())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that kube wants")]
fn on_error(map: Arc<ConfigMap>, error: &Empty, context: Arc<Context>) -> Action {
    // However often this repeats, the cluster sees one event with a count.
    context
        .recorder
        .build(&map, tidings::EventType::Warning, "CountFailed")
        .message(error)
        .action("Counting")
        .send();
    Action::requeue(Duration::from_secs(60))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let config = Config::infer().await?;

    let broadcaster = Broadcaster::new();
    broadcaster.start_structured_logging();
    // A separate client: kube's default one also retries by itself, below the delivery's retries.
    broadcaster.start_recording_to_sink(KubeSink::from_config(config.clone())?);
    let recorder = broadcaster.recorder("config-map-counter");

    let client = Client::try_from(config)?;
    Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(Context { recorder }))
        .for_each(|_| std::future::ready(()))
        .await;

    // Events recorded before the signal still arrive, unless the deadline passes first.
    println!("{}", broadcaster.shutdown(Duration::from_secs(5)).await);
    Ok(())
}
