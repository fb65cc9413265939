//! `tidings serve`: an Event API server over the embedded store, until a signal ends it.

mod cluster;
mod files;
mod security;

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tidings_server::{ManagedFields, StartError, StartOptions};
use tracing_subscriber::EnvFilter;

/// The server ran and was ended by a signal.
const ENDED: u8 = 0;
/// The server could not start.
const FAILED: u8 = 1;

/// Serve Kubernetes Events from a folder, to kubectl and every other Kubernetes client.
///
/// Serves core/v1 and events.k8s.io/v1 Events over HTTPS, with a certificate of its own and, unless a token file is given,
/// a token of its own. When it is ready it prints the path of a kubeconfig, and nothing else, on standard output; logs go
/// to standard error (RUST_LOG=debug for more). SIGTERM and Ctrl-C end it in good order, a second one at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    ended by a signal, everything finished
  1    could not start, or a second signal cut the ending short
  2    wrong arguments

Example:
  tidings serve --data-dir ./events &
  kubectl --kubeconfig ./events/kubeconfig get events -A -w")]
pub(crate) struct Args {
    /// Where events, certificates, tokens and the kubeconfig are kept; made if it is not there
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    bind_address: IpAddr,
    /// The port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    secure_port: u16,
    /// How long an event is kept after the last write to it, such as 1h or 90m
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = event_ttl)]
    event_ttl: Duration,
    /// So many connections are open at once; more wait to be accepted
    #[arg(long, default_value = "10000", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    #[command(flatten)]
    security: security::SecurityFlags,
    /// From when on it is kept who manages which field of an event: apply (the first server-side apply) or always, which makes
    /// every event larger by a third
    #[arg(
        long,
        value_enum,
        default_value = "apply",
        value_name = "WHEN",
        hide_possible_values = true
    )]
    managed_fields: ManagedFieldsArg,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ManagedFieldsArg {
    Apply,
    Always,
}

impl From<ManagedFieldsArg> for ManagedFields {
    fn from(when: ManagedFieldsArg) -> Self {
        match when {
            ManagedFieldsArg::Apply => Self::Apply,
            ManagedFieldsArg::Always => Self::Always,
        }
    }
}

fn event_ttl(text: &str) -> Result<Duration, String> {
    tidings_server::parse_go_duration(text)
        .filter(|ttl| *ttl >= Duration::from_secs(1))
        .ok_or_else(|| {
            "expected a duration of at least 1s in hours, minutes and seconds, such as 1h30m".into()
        })
}

/// Runs the server.
pub(crate) async fn run(args: Args) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .init();
    match serve(args).await {
        Ok(()) => ExitCode::from(ENDED),
        Err(error) => {
            fail(&*error);
            ExitCode::from(FAILED)
        }
    }
}

async fn serve(args: Args) -> Result<(), Box<dyn Error>> {
    // Signals are caught from here on, so that one that comes early is not lost.
    let mut signals = Signals::new()?;
    let mut options = StartOptions::new(args.data_dir);
    options.bind_address = args.bind_address;
    options.secure_port = args.secure_port;
    options.api.event_ttl = args.event_ttl;
    options.api.max_connections = files::connections(args.max_connections);
    options
        .token_auth_file
        .clone_from(&args.security.token_auth_file);
    options.security = args.security.options().await?;
    options.api.managed_fields = args.managed_fields.into();
    let server = tidings_server::start(options).await?;
    tracing::info!(address = %server.address(), "serving");
    // Nobody reading the path is no reason not to serve.
    let _ = writeln!(std::io::stdout(), "{}", server.kubeconfig().display());
    signals.wait().await;
    tracing::info!("ending; a second signal ends at once");
    tokio::select! {
        () = server.shutdown() => Ok(()),
        () = signals.wait() => {
            // What was acknowledged is on disk; the rest is not waited for.
            let _ = writeln!(std::io::stderr(), "error: a second signal cut the ending short");
            std::process::exit(FAILED.into())
        }
    }
}

fn fail(error: &(dyn Error + 'static)) {
    let hint = match error.downcast_ref::<StartError>() {
        Some(StartError::Listen { source, .. })
            if source.kind() == std::io::ErrorKind::AddrInUse =>
        {
            "another server listens there; choose another with --secure-port (0 takes a free one)"
        }
        Some(StartError::Listen { .. }) => {
            "choose another address with --bind-address or --secure-port"
        }
        Some(StartError::TokenFile { .. }) => {
            "each line is token,user,uid and, if wanted, \"group1,group2\""
        }
        Some(StartError::SecurityFile { .. }) => {
            "certificates and keys are in PEM form, permissions as kubectl get -o yaml prints them"
        }
        Some(StartError::Store(_)) => {
            "is another server running on this folder? each needs its own --data-dir"
        }
        _ => "see tidings serve --help",
    };
    // Nowhere is left to say it if standard error is gone.
    let _ = writeln!(
        std::io::stderr(),
        "error: cannot serve: {error}\nhint: {hint}"
    );
}

/// What ends the server.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    pub(super) async fn wait(&mut self) {
        // Without signals there is nothing to wait for, and the server would end at once.
        let _ = tokio::signal::ctrl_c().await;
    }
}
