//! `tidings timeline`: follows clusters into a temporary folder, and opens the timeline in the
//! browser.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use tidings_server::{ApiOptions, RunningTimeline};

use super::archive::hint;
use super::capture::Capture;
use super::cluster::{CommandError, tell};
use super::followed::FollowFlags;
use super::serve::{Signals, start_logging_of};
use super::terminal::{output, output_is_shown};

/// Exit code: a signal ended it.
const ENDED: u8 = 0;
/// Exit code: it could not start.
const FAILED: u8 = 1;

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
    #[command(flatten)]
    follow: FollowFlags,
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
    if !args.follow.file.is_empty() {
        let capture = tokio::select! {
            capture = Capture::load(&args.follow.file) => capture?,
            () = signals.wait() => return Ok(()),
        };
        let page = capture.start_timeline(args.port).await?;
        show(&page, args.no_open, temporary.path());
        tell("Ctrl-C ends it.");
        signals.wait().await;
        page.shutdown().await;
        return Ok(());
    }
    let (followed, served) = args.follow.follow(temporary.path()).await?;
    let page = tidings_server::start_timeline(args.port, served, ApiOptions::default()).await?;
    show(&page, args.no_open, temporary.path());
    let what = match &args.follow.keep {
        Some(folder) => format!("events are kept in {}", folder.display()),
        None => "the events are removed then".to_owned(),
    };
    tell(&format!("Ctrl-C ends it; {what}."));
    tokio::select! {
        () = signals.wait() => {}
        () = followed.complain() => {}
    }
    page.shutdown().await;
    followed.close().await;
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
