//! `tidings demo`: the whole path, once through. A server in a temporary folder, a controller whose
//! work often fails, and a look at the events it leaves behind.

mod screen;
mod shop;

// The controller is the library's example, by a symbolic link; a published package has the file
// itself.
mod controller;
mod queue;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use http::header::ACCEPT;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tidings::{Broadcaster, EventSource, FlushReport, KubeSink};
use tidings_cli::values::positive;

use self::controller::Controller;
use self::queue::{RateLimit, WorkQueue};
use self::screen::Screen;
use self::shop::Shop;
use super::serve::Signals;
use crate::table::Table;

/// The demo ran, or was interrupted and cleaned up.
const DONE: u8 = 0;
/// Something failed.
const FAILED: u8 = 1;

/// Where the objects of the demo live.
const NAMESPACE: &str = "shop";
/// Time to deliver the remaining events at the end.
const FLUSH: Duration = Duration::from_secs(10);

/// Run a server and a failing controller, and show the events.
///
/// Starts an Event API server on a free local port, in a temporary folder that is removed at the
/// end, and runs a controller with a rate-limited work queue against it. Most of its jobs succeed;
/// some fail a few times, some with a different message each time, and some always. They show
/// repeats, combined events and the spam filter.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    the demo ran to its end, or was interrupted
  1    the server or the controller could not run

Examples:
  tidings demo
  tidings demo --keep        # then, in another terminal: kubectl --kubeconfig … get events -A -w
  tidings demo --jobs 1000 --quiet")]
pub(crate) struct Args {
    /// Leave the server running until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Number of jobs for the controller
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = positive)]
    jobs: usize,
    /// Maximum running time in seconds
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    seconds: u64,
    /// Rows of the table at the end; 0 means all
    #[arg(long, default_value_t = 30, value_name = "N")]
    rows: usize,
    /// Do not log every event
    #[arg(long, short)]
    quiet: bool,
}

/// Why a demo ends early.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot prepare: {0}")]
    Folder(#[from] std::io::Error),
    #[error("cannot start the server: {0}")]
    Server(#[from] tidings_server::StartError),
    #[error("cannot read the server's kubeconfig: {0}")]
    Kubeconfig(#[from] Box<kube::config::KubeconfigError>),
    #[error("cannot talk to the server: {0}")]
    Client(#[from] Box<kube::Error>),
}

/// Runs the demo.
pub(crate) async fn run(args: Args) -> ExitCode {
    let screen = Screen::new(args.quiet);
    match demo(&args, &screen).await {
        Ok(()) => ExitCode::from(DONE),
        Err(error) => {
            screen.fail(&error);
            ExitCode::from(FAILED)
        }
    }
}

async fn demo(args: &Args, screen: &Screen) -> Result<(), DemoError> {
    // Early, before there is anything to clean up.
    let mut signals = Signals::new()?;
    let folder = tempfile::Builder::new().prefix("tidings-demo-").tempdir()?;
    let mut options = tidings_server::StartOptions::new(folder.path());
    options.secure_port = 0;
    let server = tidings_server::start(options).await?;
    let kubeconfig = server.kubeconfig().to_owned();
    screen.say(format_args!("server      https://{}", server.address()));
    screen.say(format_args!("kubeconfig  {}", kubeconfig.display()));
    screen.say(format_args!(
        "controller  {} jobs in namespace {NAMESPACE}\n",
        args.jobs
    ));

    let outcome = tokio::select! {
        outcome = watch_a_controller(args, &kubeconfig, screen) => Some(outcome),
        () = signals.wait() => None,
    };
    match &outcome {
        None => {
            screen.finish();
            screen.say(format_args!("interrupted"));
        }
        Some(Ok(())) if args.keep => {
            let timeline = server.start_timeline().await?;
            let link = timeline.link();
            screen.say(format_args!(
                "\nTo see the events, open this link, which can be used once:\n  {link}"
            ));
            screen.say(format_args!("\nThe server runs until Ctrl-C."));
            signals.wait().await;
            timeline.shutdown().await;
        }
        Some(_) => {}
    }
    server.shutdown().await;
    outcome.unwrap_or(Ok(()))
}

async fn watch_a_controller(
    args: &Args,
    kubeconfig: &Path,
    screen: &Screen,
) -> Result<(), DemoError> {
    let config = config(kubeconfig).await?;
    let client = Client::try_from(config.clone()).map_err(Box::new)?;
    let sink = KubeSink::from_config(config).map_err(Box::new)?;
    let report = run_controller(args, sink, screen).await;
    screen.finish();

    let mut table = events(&client).await?;
    let width = std::io::stdout()
        .is_terminal()
        .then(|| usize::from(console::Term::stdout().size().1));
    screen.say(format_args!(
        "$ kubectl get events -n {NAMESPACE} --sort-by .lastTimestamp"
    ));
    let total = table.rows.len();
    if args.rows > 0 {
        table.keep_last(args.rows);
    }
    screen.print(&table.render(width));
    if table.rows.len() < total {
        screen.say(format_args!("… the last {} of {total}", table.rows.len()));
    }
    screen.say(format_args!("\n{report}"));
    explain(&report, total, screen);
    advise(args.keep, kubeconfig, screen);
    Ok(())
}

/// Runs the controller until every job is done or the time is up, and delivers the rest.
async fn run_controller(args: &Args, sink: KubeSink, screen: &Screen) -> FlushReport {
    let broadcaster = Broadcaster::new();
    let lines = screen.clone();
    broadcaster.start_event_watcher(move |event| lines.event(event));
    broadcaster.start_recording_to_sink(sink);
    let recorder = broadcaster.recorder(EventSource::component("demo-controller"));

    let queue = WorkQueue::new(RateLimit {
        first: Duration::from_millis(10),
        max: Duration::from_millis(200),
        per_second: 250.,
        burst: 100.,
    });
    let shop = Shop::new(args.jobs);
    let controller = Controller::new(NAMESPACE, queue.clone(), recorder, shop.clone());
    for name in shop.names() {
        queue.add(name);
    }
    let supervise = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            screen.progress(shop.done(), args.jobs);
            if queue.is_idle() {
                break;
            }
        }
    };
    let supervised = async {
        if tokio::time::timeout(Duration::from_secs(args.seconds), supervise)
            .await
            .is_err()
        {
            screen.say(format_args!(
                "stopped after the time given with --seconds: {} of {} jobs are done",
                shop.done(),
                args.jobs
            ));
        }
        queue.close();
    };
    tokio::join!(controller.run(4), supervised);
    broadcaster.shutdown(FLUSH).await
}

/// Explains the flush report.
fn explain(report: &FlushReport, stored: usize, screen: &Screen) {
    let filtered = report.dropped.get(tidings::DropCause::SpamFiltered);
    screen.say(format_args!(
        "\n{} occurrences became {stored} stored events. Repeats are counted, jobs with changing messages have\n\
         \"(combined from similar events)\", and the spam filter dropped {filtered} of the jobs that always fail.",
        report.offered,
    ));
}

fn advise(keep: bool, kubeconfig: &Path, screen: &Screen) {
    if keep {
        let kubeconfig = kubeconfig.display();
        screen.say(format_args!(
            "\nTo read the events, in another terminal:\n\
             \x20 export KUBECONFIG={kubeconfig}\n\
             \x20 tidings top -n {NAMESPACE}\n\
             \x20 tidings events -n {NAMESPACE} --for job/order-007\n\
             \x20 kubectl get events -A\n\
             \x20 kubectl get events -n {NAMESPACE} --field-selector type=Warning -w",
        ));
    } else {
        screen.say(format_args!(
            "\nTo read the events with kubectl, keep the server:\n\
             \x20 tidings demo --keep            (from a checkout: cargo run -- demo --keep)\n\
             To run a server, and to import events into it:\n\
             \x20 tidings serve --help\n\
             \x20 tidings import --help",
        ));
    }
}

async fn config(kubeconfig: &Path) -> Result<kube::Config, DemoError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(Box::new)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Ok(config.map_err(Box::new)?)
}

/// The table that kubectl would print.
async fn events(client: &Client) -> Result<Table, DemoError> {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let uri = format!("/api/v1/namespaces/{NAMESPACE}/events?includeObject=Object");
    let request = http::Request::get(uri)
        .header(ACCEPT, TABLE)
        .body(Vec::new());
    let request = request.map_err(|error| Box::new(kube::Error::HttpError(error)))?;
    let mut table: Table = client.request(request).await.map_err(Box::new)?;
    table.sort_by_last_timestamp();
    Ok(table)
}
