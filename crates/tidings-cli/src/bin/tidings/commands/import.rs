//! `tidings import`: creates the events of files in a cluster.
//!
//! A thread reads the input, and sixteen events are created at a time. A short queue between the
//! two keeps memory bounded. Every record is in exactly one count of the summary.

mod create;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use kube::Client;
use tidings_cli::import::report::{Outcome, Report, line};
use tidings_cli::import::{self, Record};
use tokio::sync::mpsc;

use self::create::{Creator, Stop};
use super::cluster::{ClusterFlags, CommandError, complain, permissions_hint, tell, with_sources};

/// Everything was created or exists already.
const ALL_IN: u8 = 0;
/// Something was refused or unreadable.
const SOME_REFUSED: u8 = 1;
/// The command line names a file that does not exist.
const USAGE: u8 = 2;
/// The server cannot be reached or refuses the credentials.
const UNREACHABLE: u8 = 3;
/// Interrupted, with a shell's exit code.
const INTERRUPTED: u8 = 130;

/// Events created at a time.
const CONCURRENCY: usize = 16;
/// Events read ahead of those being created.
const READ_AHEAD: usize = 16;

/// Create events in a cluster from files.
///
/// Reads the output of `kubectl get events -o json` or `-o yaml`, an EventList, single events,
/// several documents, and JSON Lines, of core/v1 and events.k8s.io/v1; the form is detected from
/// the content, and gzip is decompressed. Events keep their namespaces and all fields except the
/// metadata that a server sets itself (uid, resourceVersion, creationTimestamp, managedFields,
/// selfLink). After 429, 5xx or no answer an event is retried for about half a minute. An
/// interrupted import can be repeated: events that exist already are left unchanged and counted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl get events -A -o json | tidings import --kubeconfig ./events/kubeconfig -
  tidings import --context archive events.jsonl.gz

Exit codes:
  0    every event was created or existed already
  1    an event was refused or unreadable
  2    a wrong command line, kubeconfig or file name; nothing was sent
  3    the server cannot be reached or rejects the credentials
  130  interrupted")]
pub(crate) struct Args {
    /// Input files, in order; - means standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Name every refused or unreadable event, not only the first ten of each cause
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// An input: its name and its reader.
struct Input {
    name: Arc<str>,
    reader: Box<dyn Read + Send>,
    /// Its length in bytes, if known.
    length: Option<u64>,
}

/// A result of the reading thread.
enum Found {
    Record(Record),
    Failed(io::Error),
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
    let inputs = open(&args.files)?;
    let creator = Creator::connect(client(&args).await?).await?;
    let progress = progress(&inputs);
    let found = read(inputs, &progress).map_err(StartError::Thread)?;

    let report = tokio::select! {
        report = create_all(&creator, found, &progress, args.verbose) => report,
        never = interrupt(&creator) => match never {},
    };
    progress.finish_and_clear();

    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    // If the output is closed, there is still the exit code.
    for text in report.lines().filter(|_| !args.verbose) {
        let _ = writeln!(stderr, "{text}");
    }
    let stopped = creator.stopped();
    if let Some(reason) = &stopped {
        complain(reason, reason.hint());
    }
    if report.forbidden > 0 {
        tell(&format!("hint: {}", permissions_hint("import")));
    }
    let _ = writeln!(stdout, "{report}");
    Ok(match stopped {
        Some(Stop::Interrupted) => INTERRUPTED,
        Some(Stop::NoAnswer(_) | Stop::Unauthorized(_)) => UNREACHABLE,
        None if report.refused + report.unreadable > 0 => SOME_REFUSED,
        None => ALL_IN,
    })
}

/// Ctrl-C stops sending, and the report is still printed.
async fn interrupt(creator: &Creator) -> Infallible {
    // Without a handler, the process would end at once.
    if tokio::signal::ctrl_c().await.is_ok() {
        creator.stop(Stop::Interrupted);
    }
    std::future::pending().await
}

/// Opens every input before anything is sent, so that a misspelt name does not cause a partial
/// import.
fn open(files: &[PathBuf]) -> Result<Vec<Input>, StartError> {
    let mut inputs: Vec<Input> = Vec::new();
    for path in files {
        let failed = |error| StartError::File {
            path: path.clone(),
            error,
        };
        if path.as_os_str() == "-" {
            if inputs.iter().any(|input| &*input.name == "-") {
                return Err(StartError::StandardInputTwice);
            }
            inputs.push(Input {
                name: "-".into(),
                reader: Box::new(io::stdin()),
                length: None,
            });
            continue;
        }
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        inputs.push(Input {
            name: path.to_string_lossy().into(),
            reader: Box::new(file),
            length: metadata.is_file().then_some(metadata.len()),
        });
    }
    Ok(inputs)
}

async fn client(args: &Args) -> Result<Client, StartError> {
    let config = args.cluster.config().await?;
    create::client(config, args.cluster.request_timeout())
        .map_err(|error| CommandError::Config(with_sources(&error)).into())
}

/// The decompressed content of an input: gzip is detected by its first bytes.
fn decompressed(input: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let mut input = BufReader::new(input);
    // A read may return a single byte; this waits for a second one without consuming either.
    let mut beginning = [0; 2];
    let mut length = 0;
    while let Some(rest) = beginning.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is_gzip = beginning == GZIP;
    let whole = io::Cursor::new(beginning).take(length as u64).chain(input);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    })
}

/// Drawn only on a terminal; of bytes, if their number is known.
fn progress(inputs: &[Input]) -> ProgressBar {
    let total: Option<u64> = inputs.iter().map(|input| input.length).sum();
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{wide_bar} {percent:>3} %  {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    // The templates are constants, so this cannot fail; the default would be good enough.
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

fn read(
    inputs: Vec<Input>,
    progress: &ProgressBar,
) -> io::Result<mpsc::Receiver<(Arc<str>, Found)>> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    let progress = progress.clone();
    // Not the runtime's own blocking thread: the runtime would wait at its end for a read of a
    // terminal or a pipe.
    std::thread::Builder::new()
        .name("import-read".to_owned())
        .spawn(move || {
            for Input { name, reader, .. } in inputs {
                let send = |found| match sender.blocking_send((Arc::clone(&name), found)) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                };
                let result = decompressed(progress.wrap_read(reader)).and_then(|reader| {
                    import::read(reader, &mut |record| send(Found::Record(record)))
                });
                let flow =
                    result.map_or_else(|error| send(Found::Failed(error)), ControlFlow::Continue);
                if flow.is_break() || sender.is_closed() {
                    return;
                }
            }
        })?;
    Ok(receiver)
}

async fn create_all(
    creator: &Creator,
    found: mpsc::Receiver<(Arc<str>, Found)>,
    progress: &ProgressBar,
    verbose: bool,
) -> Report {
    let mut report = Report::default();
    // After sending has stopped, reading stops, too; records that were read already count as not
    // sent.
    let found = futures::stream::unfold(found, |mut found| async move {
        if creator.stopped().is_some() {
            found.close();
        }
        let next = tokio::select! {
            biased;
            next = found.recv() => next,
            // Standard input may be silent for a long time.
            () = creator.told_to_stop() => {
                found.close();
                found.recv().await
            }
        };
        next.map(|next| (next, found))
    });
    let mut outcomes = std::pin::pin!(
        found
            .map(|(input, found)| async move {
                match found {
                    Found::Failed(error) => {
                        (input.to_string(), Outcome::InputFailed(error.to_string()))
                    }
                    Found::Record(Record {
                        position,
                        event: Err(reason),
                    }) => (format!("{input}:{position}"), Outcome::Unreadable(reason)),
                    Found::Record(Record {
                        position,
                        event: Ok(event),
                    }) => {
                        let place =
                            format!("{input}:{position} {}/{}", event.namespace, event.name);
                        (place, creator.create(event).await)
                    }
                }
            })
            .buffer_unordered(CONCURRENCY)
    );
    while let Some((place, outcome)) = outcomes.next().await {
        report.add(&place, &outcome);
        if verbose
            && matches!(
                outcome,
                Outcome::Refused { .. } | Outcome::Unreadable(_) | Outcome::InputFailed(_)
            )
        {
            progress.suspend(|| {
                let _ = writeln!(io::stderr(), "{}", line(&place, &outcome));
            });
        }
        progress.set_message(report.to_string());
    }
    report
}
