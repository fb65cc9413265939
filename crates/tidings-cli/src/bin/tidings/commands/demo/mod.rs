//! `tidings demo`: runs a server in a temporary folder with some eventful minutes of a small
//! cluster, and shows the events.

mod story;

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use http::header::{ACCEPT, CONTENT_TYPE};
use kube::Client;
use serde_json::Value;

use super::cluster::{self, ClusterFlags, CommandError};
use super::serve::Signals;
use super::terminal::{ColorFlag, output};
use crate::clock;
use crate::table::Table;

/// Exit code: the demo ran, or was interrupted and cleaned up.
const DONE: u8 = 0;
/// Exit code: the demo failed.
const FAILED: u8 = 1;

/// Run a server with the events of a failed rollout, and show them.
///
/// Starts an Event API server on a free local port, in a temporary folder that is removed at the
/// end, and writes ten minutes of a small cluster into it: a rollout that fails its probes and is
/// taken back, an image that does not exist, a node that goes away, and a backup that waits for a
/// secret.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    the demo ran to its end, or was interrupted
  1    the server could not run

Examples:
  tidings demo
  tidings demo --keep        # then, in another terminal: tidings top -A, the timeline, kubectl")]
pub(crate) struct Args {
    /// Leave the server running until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Rows of the table at the end; 0 means all
    #[arg(long, default_value_t = 30, value_name = "N")]
    rows: usize,
}

/// Why a demo ends early.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot prepare: {0}")]
    Folder(#[from] std::io::Error),
    #[error("cannot start the server: {0}")]
    Server(#[from] tidings_server::StartError),
    #[error("failed to {0}")]
    Connect(#[from] Box<CommandError>),
    #[error("cannot talk to the server: {0}")]
    Client(#[from] Box<kube::Error>),
}

/// Runs the demo.
pub(crate) async fn run(args: Args) -> ExitCode {
    match demo(&args).await {
        Ok(()) => ExitCode::from(DONE),
        Err(error) => {
            cluster::tell(&format!("tidings demo: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

async fn demo(args: &Args) -> Result<(), DemoError> {
    // Signals are handled before there is anything to clean up.
    let mut signals = Signals::new()?;
    let folder = tempfile::Builder::new().prefix("tidings-demo-").tempdir()?;
    let mut options = tidings_server::StartOptions::new(folder.path());
    options.secure_port = 0;
    let server = tidings_server::start(options).await?;
    let kubeconfig = server.kubeconfig().to_owned();
    say(format_args!("server      https://{}", server.address()));
    say(format_args!("kubeconfig  {}\n", kubeconfig.display()));

    let outcome = tokio::select! {
        outcome = tell(args, &kubeconfig) => Some(outcome),
        () = signals.wait() => None,
    };
    match &outcome {
        None => say(format_args!("interrupted")),
        Some(Ok(())) if args.keep => {
            let timeline = server.start_timeline().await?;
            let link = timeline.link();
            say(format_args!(
                "\nTo see the events, open this link, which can be used once:\n  {link}"
            ));
            say(format_args!("\nThe server runs until Ctrl-C."));
            signals.wait().await;
            timeline.shutdown().await;
        }
        Some(_) => {}
    }
    server.shutdown().await;
    outcome.unwrap_or(Ok(()))
}

/// Writes the story's events, and prints them as kubectl would.
async fn tell(args: &Args, kubeconfig: &Path) -> Result<(), DemoError> {
    let flags = ClusterFlags::of_context(Some(kubeconfig.to_owned()), None);
    let client = flags.server().await.map_err(Box::new)?.client;
    let events = story::events(clock::now());
    for event in &events {
        create(&client, event).await?;
    }
    let minutes = story::LENGTH / 60;
    let occurrences: u64 = events
        .iter()
        .filter_map(|event| event["count"].as_u64().or(Some(1)))
        .sum();
    say(format_args!(
        "The last {minutes} minutes of a small cluster, {occurrences} occurrences in {} events: a rollout fails its \
         probes\nand is taken back, an image does not exist, a node goes away, and a backup waits for a secret.\n",
        events.len()
    ));

    let mut table = table(&client).await?;
    say(format_args!(
        "$ kubectl get events -A --sort-by .lastTimestamp"
    ));
    let total = table.rows.len();
    if args.rows > 0 {
        table.keep_last(args.rows);
    }
    let (screen, mut out) = ColorFlag::default().output();
    // If the terminal is gone, there is nothing to do.
    drop(table.print(screen, &mut out).and_then(|()| out.flush()));
    if table.rows.len() < total {
        say(format_args!("… the last {} of {total}", table.rows.len()));
    }
    advise(args.keep, kubeconfig);
    Ok(())
}

async fn create(client: &Client, event: &Value) -> Result<(), DemoError> {
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default();
    let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/events"))
        .header(CONTENT_TYPE, "application/json")
        .body(event.to_string().into_bytes());
    let request = request.map_err(|error| Box::new(kube::Error::HttpError(error)))?;
    client.request::<Value>(request).await.map_err(Box::new)?;
    Ok(())
}

fn advise(keep: bool, kubeconfig: &Path) {
    if keep {
        let kubeconfig = kubeconfig.display();
        say(format_args!(
            "\nTo read the events, in another terminal:\n\
             \x20 export KUBECONFIG={kubeconfig}\n\
             \x20 tidings top -A\n\
             \x20 tidings events -n shop --for deploy/web --tree\n\
             \x20 tidings describe -n shop pod/web-7c9d5b6f4-k8x2p\n\
             \x20 kubectl get events -A --field-selector type=Warning",
        ));
    } else {
        say(format_args!(
            "\nTo read the events with kubectl and in the browser, keep the server:\n\
             \x20 tidings demo --keep            (from a checkout: cargo run -- demo --keep)\n\
             To run a server, and to import events into it:\n\
             \x20 tidings serve --help\n\
             \x20 tidings import --help",
        ));
    }
}

/// Requests the table that kubectl would print.
async fn table(client: &Client) -> Result<Table, DemoError> {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let request = http::Request::get("/api/v1/events?includeObject=Object")
        .header(ACCEPT, TABLE)
        .body(Vec::new());
    let request = request.map_err(|error| Box::new(kube::Error::HttpError(error)))?;
    let mut table: Table = client.request(request).await.map_err(Box::new)?;
    table.sort_by_last_timestamp();
    table.add_namespaces();
    Ok(table)
}

/// Prints a line on standard output. If the terminal is gone, there is nothing to do.
fn say(line: fmt::Arguments<'_>) {
    drop(writeln!(output(), "{line}"));
}
