//! `tidings sealed`: shows the files that `tidings archive --objects` has sealed, and checks them.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use tidings_core::is_printable;
use tidings_objects::{Checked, Manifest, Place, PlaceError, check, newest};

use super::cluster::{CommandError, FAILED, finish, one_line};
use super::terminal::output;

/// Exit code: no problem was found.
const WHOLE: u8 = 0;

/// Show what tidings archive --objects has sealed, and check it.
///
/// A line for each cluster: versions, files and bytes, and from when to when they were observed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    shown; with --check, everything is whole
  1    something is missing or damaged, or could not be read
  2    wrong arguments

Examples:
  tidings sealed s3://events/archive
  tidings sealed file:///srv/events --check
  tidings sealed file:///srv/events --cluster prod --files")]
pub(crate) struct Args {
    /// URL of the archive, as for tidings archive --objects
    #[arg(value_name = "URL")]
    url: String,
    /// Only this cluster [default: all]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Read everything, and compare it with the manifest: checksums, counts, sums, order, and each
    /// column with what the event says
    #[arg(long)]
    check: bool,
    /// Print the URLs of the files instead, one a line: paths where the archive is in a folder
    ///
    /// Only these files are part of the archive. There may be other files: those that were merged
    /// into larger ones are deleted later, so that a reader that has begun with them can finish.
    #[arg(long, conflicts_with = "check")]
    files: bool,
}

/// Shows or checks an archive.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(sealed(args).await)
}

/// The error for an archive that could not be read.
fn unread(why: impl Display) -> CommandError {
    CommandError::Failed(format!("read the archive: {why}"))
}

/// Shows or checks the archive; returns the exit code.
async fn sealed(args: Args) -> Result<u8, CommandError> {
    let place = Place::open(&args.url).map_err(|error| match error {
        PlaceError::Url { .. } => CommandError::Usage(format!("read the archive: {error}")),
        error => unread(error),
    })?;
    let clusters = match args.cluster {
        Some(cluster) => vec![cluster],
        None => place.clusters().await.map_err(unread)?,
    };
    if clusters.is_empty() {
        let none = format!("there is no archive at {}", place.url());
        return Err(unread(none));
    }
    let mut out = output();
    let mut is_whole = true;
    for cluster in clusters {
        if args.check {
            let checked = check(&place, &cluster).await.map_err(unread)?;
            is_whole &= checked.problems.is_empty();
            // If standard output is closed, the check continues for its exit code.
            let found = tell_found(&mut out, &line(&checked.manifest), &words(&checked));
            found.or_else(unless_unheard)?;
            continue;
        }
        let manifest = newest(&place, &cluster).await.map_err(unread)?;
        if args.files {
            let root = place.url().strip_prefix("file://").unwrap_or(place.url());
            let files = manifest.files.iter();
            let paths: Result<Vec<_>, _> = files.map(|file| below(&cluster, &file.path)).collect();
            for path in paths? {
                writeln!(out, "{root}/{path}")?;
            }
        } else {
            tell_found(&mut out, &line(&manifest), &[])?;
        }
    }
    Ok(if is_whole { WHOLE } else { FAILED })
}

/// Prints what was found of a cluster, one line each. Manifests and files are the words of whoever
/// may write to the storage.
fn tell_found(out: &mut impl Write, found: &str, more: &[String]) -> io::Result<()> {
    writeln!(out, "{}", one_line(found))?;
    for text in more {
        writeln!(out, "  {}", one_line(text))?;
    }
    Ok(())
}

/// The path of a cluster's file. A script opens it, so the line has nothing else.
fn below(cluster: &str, path: &str) -> Result<String, CommandError> {
    let is_step = |step: &str| !matches!(step, "" | "." | "..") && !step.contains('\\');
    let is_plain = path.chars().all(is_printable) && path.split('/').all(is_step);
    if is_plain {
        Ok(format!("{cluster}/{path}"))
    } else {
        Err(unread(format_args!(
            "the manifest of {cluster} names {path:?}, which is no file of this cluster"
        )))
    }
}

/// Ignores a closed pipe, as of head: the exit code still has the result.
fn unless_unheard(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}

/// One line about a manifest.
fn line(manifest: &Manifest) -> String {
    let from = manifest.files.iter().map(|file| file.from).min();
    let to = manifest.files.iter().map(|file| file.to).max();
    let times = from
        .zip(to)
        .map(|(from, to)| format!(", from {from:.0} to {to:.0}"));
    format!(
        "{}: {} in {}, {}{}",
        manifest.cluster,
        number(manifest.rows(), "version"),
        number(manifest.files.len() as u64, "file"),
        number(manifest.bytes(), "byte"),
        times.unwrap_or_default(),
    )
}

/// A number of things.
fn number(of: u64, what: &str) -> String {
    let s = if of == 1 { "" } else { "s" };
    format!("{of} {what}{s}")
}

/// A number of things and a verb.
fn were(of: u64, what: &str) -> String {
    let verb = if of == 1 { "was" } else { "were" };
    format!("{} {verb}", number(of, what))
}

/// Lines about the result of a check.
fn words(checked: &Checked) -> Vec<String> {
    let mut words = checked.problems.clone();
    if words.is_empty() {
        words.push(match checked.rows {
            1 => "the one version is there, and as it was written".to_owned(),
            rows => format!("all {rows} versions are there, and as they were written"),
        });
    }
    match checked.manifest.gone {
        0 => {}
        1 => words.push("1 version ended or was deleted before it was sealed".to_owned()),
        gone => words.push(format!(
            "{gone} versions ended or were deleted before they were sealed"
        )),
    }
    let forgotten = checked.manifest.forgotten;
    if forgotten > 0 {
        words.push(format!(
            "{} taken out as their events were deleted in the archive",
            were(forgotten, "version")
        ));
    }
    let over = checked.manifest.over_quota;
    if let Some(until) = over.until {
        words.push(format!(
            "{} removed to keep the quota, observed until {until:.0}",
            were(over.versions, "version")
        ));
    }
    match checked.leavings {
        0 => {}
        1 => words.push("1 file is of no manifest, and will be deleted".to_owned()),
        files => words.push(format!(
            "{files} files are of no manifest, and will be deleted"
        )),
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_a_line_each_and_no_command_to_the_terminal() {
        let forged = "prod\u{1b}[2J\u{202e}\nprod: all 9 versions are there";
        let mut out = Vec::new();
        tell_found(&mut out, forged, &[forged.to_owned()]).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert!(
            matches!(lines[..], [one, two] if two == format!("  {one}")),
            "{out:?}"
        );
        let is_shown = |character: char| character == '\n' || is_printable(character);
        assert!(out.chars().all(is_shown), "{out:?}");
    }

    /// A script opens every printed line.
    #[test]
    fn only_the_path_of_a_file_of_the_cluster_is_printed() {
        for (path, is_file) in [
            ("files/0-1.parquet", true),
            ("", false),
            ("/etc/passwd", false),
            ("../other/files/0-1.parquet", false),
            ("files/./0-1.parquet", false),
            ("files/0-1.parquet\n/etc/passwd", false),
            ("files/\u{1b}[2J", false),
            ("files/\u{202e}0-1.parquet", false),
            ("..\\other", false),
        ] {
            assert_eq!(below("prod", path).is_ok(), is_file, "{path:?}");
        }
    }
}
