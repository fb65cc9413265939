//! `tidings export`: writes the events of a cluster to a file that `tidings import` reads. It works
//! page by page, so memory does not grow with the number of events.
//!
//! Until it is complete, the file has another name. A list is in the order of keys
//! (namespace/name), so an interrupted export continues after the last written key. A note beside
//! the file has the export's parameters, so that a different export is not appended. A sealed
//! archive's list is in another order, so its export starts anew.

mod file;
mod versions;

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use tidings_cli::event::Event;

use self::file::{Form, Target, What};
use super::all_clusters;
use super::cluster::{ClusterFlags, CommandError, DONE, EXIT_CODES, NamespaceFlags, finish, tell};
use super::past::PastFlags;
use super::reader::Reader;
use super::selection::SelectionFlags;
use super::terminal;
use crate::clock;

/// Write events to a file, to keep them or to import them elsewhere.
///
/// Events are written as the server has them, in order of namespace and name; those of a sealed
/// archive (tidings serve --archive) in order of objects. FILE.part is renamed to FILE when it is
/// complete. A pipe or a device is written to as it is.
///
/// An interrupted export of JSON Lines leaves FILE.part, and its parameters in FILE.part.of. With
/// --resume and the same cluster, namespace and conditions, the next export continues after the
/// last event in the file. Earlier events that were created or changed since are not read again,
/// and --since=2h refers to the same two hours. An export of a sealed archive cannot be continued.
///
/// With --versions, an archive's cluster is written as a whole: every version of every event, when
/// each was observed, ends, gaps and coverage. `tidings archive --import` puts such a file into an
/// archive. A user who may list the events of a namespace may export its versions with --namespace.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings export -A events.jsonl.gz
  tidings export -A --resume events.jsonl.gz     # continues an interrupted export
  tidings export -n shop --types=Warning -o yaml - | tidings import --context elsewhere -
  tidings export --versions --kubeconfig ./archive/kubeconfig --context prod prod.jsonl.gz
  tidings export --versions -n shop --since 2d --cluster prod incident.jsonl.gz

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Output file, compressed if its name ends in .gz; - means standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// json, yaml or jsonl (one object per line) [default: by the file's name, otherwise jsonl]
    #[arg(long, short, value_name = "FORM")]
    output: Option<Form>,
    /// Continue FILE.part of an interrupted export of the same events; JSON Lines only
    #[arg(long)]
    resume: bool,
    /// Every version of every event, from an archive; JSON Lines only. With --namespace, --since
    /// and --until only the versions of a namespace that were observed in this time
    #[arg(long, conflicts_with_all = ["output", "objects", "tree", "types", "filter", "selector", "field_selector"])]
    versions: bool,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    past: PastFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Exports events.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(export(args).await)
}

async fn export(args: Args) -> Result<u8, CommandError> {
    let form = match args.output {
        _ if args.versions => Form::JsonLines,
        Some(form) => form,
        None => Form::of(&args.file),
    };
    if args.resume && (form != Form::JsonLines || args.file.as_os_str() == "-") {
        return Err(CommandError::Usage(
            "resume an export that is not of JSON Lines into a file: export again without --resume"
                .to_owned(),
        ));
    }
    if args.versions {
        return export_versions(&args).await;
    }
    let mut reader = args
        .selection
        .reader(&args.cluster, &args.namespaces)
        .await?;
    reader.rbac = args.selection.rbac("export");
    let is_asked = args.selection.is_of_times();
    let archive = args.past.instead(&args.cluster, &reader, is_asked).await?;
    if let Some(archive) = archive {
        reader = archive;
    }
    let words = format!(
        "{} {}",
        args.cluster.config()?.cluster_url,
        args.selection.words(&reader.namespace)
    );
    let what = What {
        words,
        as_of: clock::now(),
    };
    let (mut target, found) = Target::open(&args.file, form, args.resume, &what)?;
    // Relative times refer to the beginning of the export, even after an interruption.
    args.selection.as_of(found.as_of, &mut reader)?;
    let progress = progress(&args);
    progress.set_message(format!("{} events", found.count));
    let last_key = found.last.map(|last| Event::new(last).key());
    let mut written = Written {
        count: 0,
        is_by_key: true,
    };
    let ended = write(&reader, &mut target, last_key, &mut written, &progress).await;
    progress.finish_and_clear();
    if let Err(error) = ended {
        return Err(interrupted(target, written.is_by_key, error));
    }
    finish_file(&args, target, "events", (found.count, written.count))
}

/// The result of an export.
struct Written {
    count: u64,
    /// Whether another export can continue after this one.
    is_by_key: bool,
}

/// Exports all versions that an archive has of a cluster.
async fn export_versions(args: &Args) -> Result<u8, CommandError> {
    let config = args.cluster.config()?;
    let namespace = args.namespaces.name().unwrap_or_default();
    let words = args.selection.words(namespace);
    let what = What {
        words: format!("{} with all versions {words}", config.cluster_url),
        as_of: clock::now(),
    };
    // A misspelt time is reported before anything is written.
    args.selection.times(what.as_of)?;
    let whole = all_clusters::whole(&args.cluster, args.namespaces.name());
    let server = whole.await?.server().await?;
    let (mut target, found) = Target::open(&args.file, Form::JsonLines, args.resume, &what)?;
    let (since, until) = args.selection.times(found.as_of)?;
    let namespace = Some(namespace.to_owned()).filter(|name| !name.is_empty());
    let part = [
        ("namespace", namespace),
        ("since", since.map(|since| since.to_string())),
        ("until", until.map(|until| until.to_string())),
    ];
    let part = part.into_iter();
    let part: Vec<_> = part
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let progress = progress(args);
    let lines = found.first.as_ref().zip(found.last.as_ref());
    let is_begun = Cell::new(lines.is_some());
    let copied = versions::copy((&server, &part), lines, &mut target, |count| {
        is_begun.set(true);
        progress.set_message(format!("{count} versions and ends"));
    });
    let copied = copied.await;
    progress.finish_and_clear();
    match copied {
        Ok(count) => finish_file(args, target, "versions and ends", (found.count, count)),
        // The server is not an archive, for example, so there is nothing to continue.
        Err(error) if !is_begun.get() && !error.may_pass() => {
            target.discard();
            Err(error)
        }
        Err(error) => Err(interrupted(target, true, error)),
    }
}

/// Says how a failed export can be continued, if it can.
fn interrupted(target: Target, is_by_key: bool, error: CommandError) -> CommandError {
    let Some(kept) = target.keep() else {
        return error;
    };
    let kept = kept.display();
    // A wrong command line cannot be continued.
    if is_by_key && !matches!(error, CommandError::Usage(_)) {
        tell(&format!(
            "the events read so far are in {kept}; --resume continues from there"
        ));
    } else {
        tell(&format!("the events read so far are in {kept}"));
    }
    error
}

/// Renames the complete file, and prints the numbers of added and existing events.
fn finish_file(
    args: &Args,
    target: Target,
    what: &str,
    (before, count): (u64, u64),
) -> Result<u8, CommandError> {
    target.finish()?;
    if !args.quiet {
        tell(&match before {
            0 => format!("{count} {what} exported"),
            before => format!("{count} {what} exported after {before} existing ones"),
        });
    }
    Ok(DONE)
}

async fn write(
    reader: &Reader,
    target: &mut Target,
    last_key: Option<String>,
    written: &mut Written,
    progress: &ProgressBar,
) -> Result<(), CommandError> {
    let scan = reader.scan(last_key, |page| {
        written.is_by_key = page.is_by_key;
        if let Some(total) = page.total {
            progress.set_length(total);
        }
        for event in &page.events {
            target.write(event.value())?;
        }
        target.flush()?;
        written.count += page.events.len() as u64;
        progress.inc(page.read as u64);
        progress.set_message(format!("{} events", written.count));
        Ok(())
    });
    scan.await
}

/// The progress bar, which is drawn only on a terminal.
fn progress(args: &Args) -> ProgressBar {
    if args.quiet || !terminal::errors_are_shown() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    // The template is a constant, so this cannot fail; the default would be good enough.
    bar.with_style(
        ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}
