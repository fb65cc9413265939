//! `tidings import`: creates the events of captures in a cluster.
//!
//! A thread reads the captures, and sixteen lanes create events. The events of one object take the
//! same lane, so they are created in the order in which they were read. Memory is bounded by a
//! limit on events that wait for a lane. Every event is in exactly one count of the summary.

mod create;
mod lanes;
mod sorted;
mod versions;

use std::convert::Infallible;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use kube::Client;
use tidings_cli::capture::report::{Outcome, Report, line};
use tidings_cli::capture::{self, Found};
use tokio::sync::mpsc;

use self::create::{Creator, Stop};
use self::lanes::{Finds, LANES};
use self::sorted::Sorted;
use super::cluster::{ClusterFlags, CommandError, complain, permissions_hint, tell};
use super::connection::program;
use super::terminal::output;

/// Exit code: everything was created or updated, or exists already.
const ALL_IN: u8 = 0;
/// Exit code: some events were refused or unreadable.
const SOME_REFUSED: u8 = 1;
/// Exit code: the command line names a file that does not exist.
const USAGE: u8 = 2;
/// Exit code: the server cannot be reached or rejects the credentials.
const UNREACHABLE: u8 = 3;
/// Exit code: interrupted, as a shell reports it.
const INTERRUPTED: u8 = 130;

/// Events and other results read ahead of the lanes.
const READ_AHEAD: usize = 16;

/// Create the events of captures in a cluster.
///
/// A capture is a file, a folder or an archive (tar, zip, gzip, zstd, xz, bzip2), such as a
/// must-gather or a support bundle as it was sent. Events are found wherever they lie in it: in the
/// output of kubectl get events -o json or -o yaml, of kubectl -v=9 and of kubectl cluster-info
/// dump, in JSON Lines, in watch events, in the lines of an event router or a logger, in the log of
/// a container, also in lines that its runtime split, in attributes of OpenTelemetry's JSON, with
/// other text around them, in UTF-8 or UTF-16. What a file is follows from its content, never from
/// its name, and links are not followed.
///
/// Events keep their namespaces, their order within an object and all fields, except the metadata
/// that a server sets itself (uid, resourceVersion, creationTimestamp, managedFields, selfLink,
/// generation) and what is about another cluster's objects (ownerReferences, finalizers, deletion).
/// An event whose only time is that of its creation gets it as firstTimestamp and lastTimestamp.
/// Damaged characters become U+FFFD. What was changed is said and counted. After 429, 5xx or no
/// answer an event is retried for about half a minute. An interrupted import can be repeated, and a
/// later capture of a cluster imported after an earlier one: an event that exists already is
/// updated if the capture has a newer version of it (last seen later, or more often), and is
/// otherwise left unchanged and counted as already there. Events without a name always get the
/// same one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl get events -A -o json | tidings import --kubeconfig ./events/kubeconfig -
  tidings import --context archive events.jsonl.gz must-gather.tar.gz ./support-bundle

Limits:
  an event has 8 MiB at most, a YAML document 64 MiB; brackets are 256 deep at most
  an archive may be in an archive, and nothing deeper; all have 1,000,000 files at most
  what is compressed expands to 256 MiB, or 200 times its size
  a zip that is not a file by itself has 1 GiB at most

Exit codes:
  0    every event was created or updated, or existed already
  1    an event was refused or unreadable, or a capture is not whole or is something else than events
  2    a wrong command line, kubeconfig or file name; nothing was sent
  3    the server cannot be reached or rejects the credentials
  130  interrupted")]
pub(crate) struct Args {
    /// Captures, in order: files, folders and archives; - means standard input
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Name every refused or unreadable event, not only the first ten of each cause
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("read {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("read standard input twice: name - once")]
    StandardInputTwice,
    #[error(transparent)]
    Cluster(#[from] CommandError),
    #[error(transparent)]
    Server(#[from] Stop),
    #[error("start the reading thread: {0}")]
    Thread(io::Error),
}

impl StartError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Server(_) | Self::Thread(_) => UNREACHABLE,
            Self::File { .. } | Self::StandardInputTwice | Self::Cluster(_) => USAGE,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Cluster(error) => error.hint(),
            Self::Server(stop) => stop.hint().map(str::to_owned),
            Self::File { .. } | Self::StandardInputTwice | Self::Thread(_) => None,
        }
    }
}

pub(crate) async fn run(args: Args) -> ExitCode {
    let code = match import_all(args).await {
        Ok(code) => code,
        Err(error) => {
            complain(&error, error.hint().as_deref());
            error.exit_code()
        }
    };
    ExitCode::from(code)
}

async fn import_all(args: Args) -> Result<u8, StartError> {
    let length = check(&args.files)?;
    let creator = Creator::connect(client(&args).await?).await?;
    let progress = progress(length);
    let found = read(args.files, &progress, false).map_err(StartError::Thread)?;

    let shown: (bool, fn(&Report) -> String) = (args.verbose, Report::to_string);
    let report = tokio::select! {
        report = create_all(&creator, found, LANES, &progress, shown) => report,
        never = interrupt(&creator) => match never {},
    };
    progress.finish_and_clear();

    tell_report(&report, args.verbose);
    let stopped = creator.stopped();
    if let Some(reason) = &stopped {
        complain(reason, reason.hint());
    }
    if report.forbidden > 0 {
        tell(&format!("hint: {}", permissions_hint("import")));
    }
    // If standard output is closed, the exit code still shows the result.
    let _ = writeln!(output(), "{report}");
    Ok(match stopped {
        Some(Stop::Interrupted) => INTERRUPTED,
        Some(Stop::NoAnswer(_) | Stop::Stranger(_) | Stop::Unauthorized(_)) => UNREACHABLE,
        None if report.is_complete() => ALL_IN,
        None => SOME_REFUSED,
    })
}

/// Prints which events are not in the cluster, and which were changed.
fn tell_report(report: &Report, is_told: bool) {
    for text in report.lines().filter(|_| !is_told).chain(report.notes()) {
        tell(&text);
    }
}

/// Creates the events of captures with a client, and prints which could not be read. Returns
/// whether all of them were. Existing events are not mentioned: a bundle may have an event more
/// than once.
///
/// Events are created one after the other, in the order of their resourceVersions in the capture:
/// so the new resourceVersions tell them apart like the former ones.
///
/// # Errors
/// [`CommandError`] says which capture cannot be opened, or that none has an event.
pub(crate) async fn load(files: &[PathBuf], client: Client) -> Result<bool, CommandError> {
    let failed = |error: StartError| match error {
        StartError::Cluster(error) => error,
        error @ (StartError::File { .. } | StartError::StandardInputTwice) => {
            CommandError::Usage(error.to_string())
        }
        error => CommandError::Failed(error.to_string()),
    };
    let length = check(files).map_err(failed)?;
    let creator = Creator::connect(client).await;
    let creator = creator.map_err(|stop| failed(stop.into()))?;
    let creator = creator.with_identities();
    let progress = progress(length);
    let found = read(files.to_vec(), &progress, true);
    let found = found.map_err(|error| failed(StartError::Thread(error)))?;
    let report = create_all(&creator, found, 1, &progress, (false, Report::shown)).await;
    progress.finish_and_clear();
    tell_report(&report, false);
    let is_complete = report.is_complete();
    if report.created == 0 && !is_complete {
        let why = "show the captures: no event of them can be shown";
        return Err(CommandError::Failed(why.to_owned()));
    }
    if !is_complete {
        tell(&format!("not everything is shown: {}", report.shown()));
    }
    Ok(is_complete)
}

/// On Ctrl-C stops sending; the report is still printed.
async fn interrupt(creator: &Creator) -> Infallible {
    // Without a handler, the process would end at once.
    if tokio::signal::ctrl_c().await.is_ok() {
        creator.stop(Stop::Interrupted);
    }
    std::future::pending().await
}

/// Whether a path means standard input.
fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Checks that every capture can be opened before any event is sent, so that a misspelt name does
/// not cause a partial import. Returns the total length in bytes, if it is known.
fn check(files: &[PathBuf]) -> Result<Option<u64>, StartError> {
    if files.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(StartError::StandardInputTwice);
    }
    let mut length = Some(0);
    for path in files {
        let metadata = if is_stdin(path) {
            program::take_input();
            length = None;
            continue;
        } else {
            std::fs::metadata(path).and_then(|metadata| {
                if metadata.is_dir() {
                    std::fs::read_dir(path)?;
                } else if metadata.is_file() {
                    std::fs::File::open(path)?;
                }
                Ok(metadata)
            })
        };
        let metadata = metadata.map_err(|error| StartError::File {
            path: path.clone(),
            error,
        })?;
        length = length.filter(|_| metadata.is_file());
        length = length.map(|length| length + metadata.len());
    }
    Ok(length)
}

async fn client(args: &Args) -> Result<Client, StartError> {
    let config = args.cluster.config()?;
    let config = create::with_timeouts(config, args.cluster.request_timeout());
    Ok(args.cluster.client(config).await?)
}

/// The progress bar, which is drawn only on a terminal; in bytes, if the length is known.
fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{wide_bar} {percent:>3} %  {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    // The templates are constants, so this cannot fail; the default would be good enough.
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

/// Starts the reading thread. `is_sorted` asks for the order of [`Sorted`] in place of the order in
/// which events were found.
fn read(files: Vec<PathBuf>, progress: &ProgressBar, is_sorted: bool) -> io::Result<Finds> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    let progress = progress.clone();
    // A separate thread and not one of the runtime's: at its end the runtime would wait for a
    // blocked read of a terminal or a pipe.
    std::thread::Builder::new()
        .name("import-read".to_owned())
        .spawn(move || {
            let mut send = |named| match sender.blocking_send(named) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let mut sorted = is_sorted.then(Sorted::default);
            for path in files {
                let name: Arc<str> = path.to_string_lossy().into();
                let mut take = |found| {
                    let named = (Arc::clone(&name), found);
                    match &mut sorted {
                        Some(sorted) => sorted.add(named, &mut send),
                        None => send(named),
                    }
                };
                let count = |bytes| progress.inc(bytes);
                if is_stdin(&path) {
                    capture::read(io::stdin(), &count, &mut take);
                } else if let Err(error) = capture::read_path(&path, &count, &mut take) {
                    let _ = take(Found::failed(&error));
                }
                if sender.is_closed() {
                    return;
                }
            }
            if let Some(mut sorted) = sorted {
                // A closed receiver needs no more.
                let _ = sorted.flush(&mut send);
            }
        })?;
    Ok(receiver)
}

async fn create_all(
    creator: &Creator,
    found: Finds,
    lanes: usize,
    progress: &ProgressBar,
    (verbose, words): (bool, fn(&Report) -> String),
) -> Report {
    let mut report = Report::default();
    lanes::create(creator, found, lanes, |place, outcome, notes| {
        report.note(place, notes);
        report.add(place, outcome);
        let is_told = !matches!(
            outcome,
            Outcome::Created | Outcome::Updated | Outcome::AlreadyThere | Outcome::NotSent
        );
        if verbose && is_told {
            progress.suspend(|| tell(&line(place, outcome)));
        }
        progress.set_message(words(&report));
    })
    .await;
    report
}
