//! A controller with a rate-limited work queue that records an event for each thing it did:
//! client-go's classic example, in Rust.
//!
//! ```console
//! cargo run -p tidings --example work_queue_controller            # to the terminal
//! cargo run -p tidings --example work_queue_controller -- kube    # to the cluster of your kubeconfig
//! ```

mod controller;
mod queue;

use std::convert::Infallible;
use std::time::Duration;

use tidings::{Broadcaster, EventSource, KubeSink};

use controller::{Controller, Work};
use queue::{RateLimit, WorkQueue};

/// Work that always succeeds.
#[derive(Clone)]
struct Process;

impl Work for Process {
    type Error = Infallible;

    async fn work(&self, name: &str, _failures: u32) -> Result<String, Infallible> {
        Ok(format!("Created pod: {name}-x7k2p"))
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broadcaster = Broadcaster::new();
    broadcaster.start_logging(|line| println!("{line}"));
    if std::env::args().any(|argument| argument == "kube") {
        broadcaster.start_recording_to_sink(KubeSink::from_config(kube::Config::infer().await?)?);
    }
    let recorder = broadcaster.recorder(EventSource::component("example-controller"));

    let queue = WorkQueue::new(RateLimit::default());
    let controller = Controller::new("default", queue.clone(), recorder, Process);
    for number in 0..5 {
        queue.add(format!("task-{number}"));
    }
    // A real controller adds keys from its watches, and works until it is stopped.
    let (ended, ()) = tokio::join!(controller.run(2), async {
        while !queue.is_idle() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        queue.close();
    });
    let () = ended;

    // Delivers pending events and reports all outcomes.
    println!("{}", broadcaster.shutdown(Duration::from_secs(5)).await);
    Ok(())
}
