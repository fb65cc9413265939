//! `tidings timeline`: follows clusters into a temporary folder, and opens the timeline in the
//! browser.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use tidings_archive::Cluster;
use tidings_history::History;
use tidings_server::{ApiOptions, RunningTimeline};

use super::archive::clusters::Defaults;
use super::archive::hint;
use super::archive::opened::{open_all, to_serve};
use super::capture::Capture;
use super::cluster::{CommandError, tell};
use super::data_dir;
use super::serve::{Signals, start_logging_of};
use super::terminal::{output, output_is_shown};

/// Exit code: a signal ended it.
const ENDED: u8 = 0;
/// Exit code: it could not start.
const FAILED: u8 = 1;

/// Memory for the indexes and caches of all clusters together, in bytes.
const MEMORY: usize = 64 << 20;
/// Retention of events in the folder of --keep.
const EVENT_TTL: Duration = Duration::from_secs(90 * 24 * 3600);
/// Interval at which the connections to the clusters are checked.
const LOOK: Duration = Duration::from_secs(2);
/// Programs that open a link or a file in the user's browser.
#[cfg(target_os = "macos")]
const OPENERS: &[&[&str]] = &[&["open"]];
#[cfg(windows)]
const OPENERS: &[&[&str]] = &[&["cmd", "/c", "start", ""]];
#[cfg(not(any(target_os = "macos", windows)))]
const OPENERS: &[&[&str]] = &[&["xdg-open"]];

/// Show the events of clusters, or of a capture, in the browser.
///
/// The clusters are followed as tidings archive does it, and nothing is changed in them. Events are
/// stored in a temporary folder that is removed at the end, unless --keep names one. The page is
/// served on 127.0.0.1 alone, and can be opened only with the link that is printed. The link can be
/// used once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    ended by Ctrl-C or another signal
  1    could not start
  2    wrong arguments

Examples:
  tidings timeline                                # the cluster of the current context
  tidings timeline --context prod --context staging
  tidings timeline --namespace shop --keep ./kept   # continue there the next time
  tidings timeline --file must-gather.tar.gz        # a bundle as it was sent")]
pub(crate) struct Args {
    /// Kubeconfig of the clusters [default: $KUBECONFIG, ~/.kube/config, or the cluster this runs
    /// in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of a cluster to follow; may be repeated [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// Namespace to follow; may be repeated [default: all]
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    namespace: Vec<String>,
    /// Folder to keep the events in, for 90 days. tidings archive --data-dir continues with the
    /// same folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Show captures instead of a cluster: files, folders and archives, as tidings import takes
    /// them; may be repeated
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context", "namespace", "keep"])]
    file: Vec<PathBuf>,
    /// Port to listen on; 0 means any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Print the link and open no browser
    #[arg(long)]
    no_open: bool,
}

/// Follows and serves until a signal ends it.
pub(crate) async fn run(args: Args) -> ExitCode {
    // Problems of clusters are shown in the page, and as one line here.
    start_logging_of("error,kube_client=off,tidings_archive=off");
    match timeline(args).await {
        Ok(()) => ExitCode::from(ENDED),
        Err(error) => {
            tell(&format!("error: cannot show the timeline: {error}"));
            if !error.is::<CommandError>() {
                tell(&format!("hint: {}", hint(&*error)));
            }
            ExitCode::from(FAILED)
        }
    }
}

async fn timeline(args: Args) -> Result<(), Box<dyn Error>> {
    // Signals are handled from here on, so that temporary files are removed.
    let mut signals = Signals::new()?;
    let temporary = tempfile::Builder::new()
        .prefix("tidings-timeline-")
        .tempdir()?;
    if !args.file.is_empty() {
        let capture = tokio::select! {
            capture = Capture::load(&args.file) => capture?,
            () = signals.wait() => return Ok(()),
        };
        let page = capture.start_timeline(args.port).await?;
        show(&page, args.no_open, temporary.path());
        tell("Ctrl-C ends it.");
        signals.wait().await;
        page.shutdown().await;
        return Ok(());
    }
    let data_dir = args.keep.as_deref().unwrap_or(temporary.path());
    let defaults = Defaults {
        kubeconfig: args.kubeconfig,
        namespaces: args.namespace,
        event_ttl: EVENT_TTL,
        memory: MEMORY,
        ..Defaults::default()
    };
    let settings = defaults.of_contexts(&args.context, None)?;
    let _taken = data_dir::take_for_archive(data_dir)?;
    let many = settings.len();
    let mut followed = Vec::with_capacity(many);
    let mut served = Vec::with_capacity(many);
    for (_, opened) in open_all(data_dir, &defaults, settings, many).await {
        let (source, cluster) = opened.map_err(|error| -> Box<dyn Error> { error })?;
        served.push(to_serve(&cluster, source.as_ref()).await);
        followed.push(cluster);
    }
    let page = tidings_server::start_timeline(args.port, served, ApiOptions::default()).await?;
    show(&page, args.no_open, temporary.path());
    let what = match &args.keep {
        Some(folder) => format!("events are kept in {}", folder.display()),
        None => "the events are removed then".to_owned(),
    };
    tell(&format!("Ctrl-C ends it; {what}."));
    tokio::select! {
        () = signals.wait() => {}
        () = complain(&followed) => {}
    }
    page.shutdown().await;
    for cluster in followed {
        cluster.close().await;
    }
    Ok(())
}

/// Prints the link, and opens the browser if standard output is a terminal.
fn show(page: &RunningTimeline, no_open: bool, folder: &Path) {
    let link = page.link();
    // A closed standard output is no reason not to serve.
    let _ = writeln!(output(), "{link}");
    if !no_open && output_is_shown() {
        open(&link, folder);
    }
}

/// Prints what is wrong with a cluster, whenever that changes.
async fn complain(clusters: &[Cluster]) {
    let mut told: Vec<Option<String>> = vec![None; clusters.len()];
    loop {
        tokio::time::sleep(LOOK).await;
        for (cluster, told) in clusters.iter().zip(&mut told) {
            let why = cluster.history().following().why;
            if why != *told {
                // The server's message is untrusted.
                let words = why.as_deref().unwrap_or("followed again");
                tell(&format!("cluster {}: {words}", cluster.name()));
                *told = why;
            }
        }
    }
}

/// Opens the browser, if there is one. It is pointed to a file that only the user can read and that
/// redirects to the link, because everyone on the machine can read the arguments of a program.
fn open(link: &str, folder: &Path) {
    let path = folder.join("timeline.html");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>tidings timeline</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><a href=\"{link}\">timeline</a>\n"
    );
    if std::fs::write(&path, page).is_err() {
        return;
    }
    for opener in OPENERS {
        let Some((program, arguments)) = opener.split_first() else {
            continue;
        };
        let started = std::process::Command::new(program)
            .args(arguments.iter())
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if started.is_ok() {
            return;
        }
    }
}
