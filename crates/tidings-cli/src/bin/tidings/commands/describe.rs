//! `tidings describe`: the events of one object, as at the end of `kubectl describe`.

use std::io::{self, Write};
use std::process::ExitCode;

use tidings_cli::event;
use tidings_cli::kinds::Named;
use tidings_cli::printer::describe;

use super::capture::CaptureFlags;
use super::cluster::{ClusterFlags, CommandError, DONE, EXIT_CODES, NamespaceFlags, finish};
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use crate::clock;

/// Show the events of an object as kubectl describe does, even if the object was deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings describe pod/web-0
  tidings describe deploy/web --tree
  tidings describe node/worker-1
  tidings describe pod/web-0 --file support-bundle.tar.gz

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Object, such as pod/web-0 or deployments.apps/web
    #[arg(value_name = "KIND/NAME")]
    object: Named,
    /// Include the objects it owns
    #[arg(long)]
    tree: bool,
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    capture: CaptureFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Shows an object's events.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(mut args: Args) -> Result<u8, CommandError> {
    let loaded = args.capture.load(&mut args.cluster, &mut args.namespaces);
    loaded.await?;
    let selection = SelectionFlags::of(args.object, args.tree);
    let reader = selection.reader(&args.cluster, &args.namespaces).await?;
    let mut events = reader.list(None).await?.events;
    event::sort(&mut events);
    let mut out = io::BufWriter::new(io::stdout());
    describe(&events, clock::now(), args.color.screen(), &mut out)?;
    out.flush()?;
    Ok(DONE)
}
