//! `tidings serve`: runs an Event API server over the embedded store or etcd, until a signal ends
//! it.

pub(super) mod audit;
pub(super) mod cluster;
pub(super) mod config;
pub(super) mod files;
pub(super) mod limits;
pub(super) mod policies;
#[cfg(feature = "objects")]
mod sealed;
pub(super) mod security;
#[cfg(feature = "etcd")]
mod storage;
pub(super) mod timeline;
#[cfg(feature = "objects")]
mod waiting;

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tidings_cli::times;
use tidings_server::{ManagedFields, StartError, StartOptions};
use tidings_store::embedded::OpenError;
use tracing_subscriber::EnvFilter;

use self::security::FileError;
use super::cluster::tell;
use super::connection::program;
use super::data_dir::{self, DataDirError};
use super::terminal;

/// The log filter without `RUST_LOG`. Messages of the index's files do not concern operators, and
/// failures of a cluster's clients are reported elsewhere.
const DEFAULT_FILTER: &str = "info,lsm_tree=warn,kube_client=off";

/// Exit code: a signal ended the server.
const ENDED: u8 = 0;
/// Exit code: the server could not start.
const FAILED: u8 = 1;

/// Serve Kubernetes Events from a folder or from etcd, to kubectl and every other Kubernetes
/// client.
///
/// Serves core/v1 and events.k8s.io/v1 Events over HTTPS with its own certificate and, unless a
/// token file is given, its own token. When it is ready it prints the path of a kubeconfig, and
/// nothing else, on standard output. Logs go to standard error (RUST_LOG=debug for more). The first
/// SIGTERM or Ctrl-C ends it gracefully, a second one at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    ended by a signal, all requests finished
  1    could not start, or was stopped at once by a second signal
  2    wrong arguments, or a wrong --config file

Examples:
  tidings serve --data-dir ./events &
  kubectl --kubeconfig ./events/kubeconfig get events -A -w

  # The clusters of an archive on object storage, read where they are:
  tidings serve --data-dir ./reader --archive s3://events/archive

  # The same with what the archive that writes it has not sealed yet:
  tidings serve --data-dir ./reader --archive s3://events/archive --archive-waiting-from ./archive/kubeconfig

  # With the settings of a file, in which event-ttl: 2h means --event-ttl=2h:
  tidings serve --config tidings.yaml")]
pub(crate) struct Args {
    /// YAML file with a setting for each flag, named like the flag without dashes; flags on the
    /// command line take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for events, certificates, tokens and the kubeconfig; created if missing
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    bind_address: IpAddr,
    /// Port to listen on; 0 means any free port
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    secure_port: u16,
    /// Retention time of an event after its last write, such as 90m or 14d
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = times::duration_of_seconds)]
    event_ttl: Duration,
    /// Format of log lines
    #[arg(
        long,
        visible_alias = "logging-format",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,
    #[command(flatten)]
    security: security::SecurityFlags,
    /// When to start keeping managedFields: with the first server-side apply of an event, or
    /// always, which makes every event a third larger
    #[arg(
        long,
        value_enum,
        default_value = "apply",
        value_name = "WHEN",
        hide_possible_values = true
    )]
    managed_fields: ManagedFieldsArg,
    #[command(flatten)]
    policies: policies::PolicyFlags,
    #[command(flatten)]
    audit: audit::AuditFlags,
    #[command(flatten)]
    timeline: timeline::TimelineFlags,
    #[command(flatten)]
    limits: limits::LimitFlags,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    storage: storage::StorageFlags,
    #[cfg(feature = "objects")]
    #[command(flatten)]
    sealed: sealed::SealedFlags,
    /// Serve the clusters of an archive on object storage: this program is built without it
    #[cfg(not(feature = "objects"))]
    #[arg(long, value_name = "URL", hide = true)]
    archive: Option<String>,
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

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Plain text
    Text,
    /// One JSON object per line
    Json,
}

pub(super) fn start_logging(format: LogFormat) {
    let filter = filter(DEFAULT_FILTER);
    let logging = tracing_subscriber::fmt()
        .with_writer(terminal::log)
        .with_ansi(terminal::errors_are_shown())
        .with_env_filter(filter);
    match format {
        LogFormat::Text => logging.init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
}

/// Starts plain log lines, for a verb that a person watches.
pub(super) fn start_logging_of(default: &str) {
    tracing_subscriber::fmt()
        .with_writer(terminal::log)
        .with_ansi(terminal::errors_are_shown())
        .with_env_filter(filter(default))
        .init();
}

fn filter(default: &str) -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default))
}

/// Runs the server; returns the exit code.
pub(crate) async fn run(args: Args) -> ExitCode {
    program::run_in_server();
    start_logging(args.log_format);
    match serve(args).await {
        Ok(()) => ExitCode::from(ENDED),
        Err(error) => {
            fail(&*error);
            ExitCode::from(FAILED)
        }
    }
}

async fn serve(args: Args) -> Result<(), Box<dyn Error>> {
    // Signals are handled from here on, so that an early one is not lost.
    let mut signals = Signals::new()?;
    if let Some(file) = &args.config {
        tracing::info!(file = %file.display(), "settings read");
    }
    data_dir::check_for_server(&args.data_dir)?;
    let mut options = StartOptions::new(args.data_dir);
    options.bind_address = args.bind_address;
    options.secure_port = args.secure_port;
    options.api.event_ttl = args.event_ttl;
    options.api.max_connections = files::connections();
    options
        .token_auth_file
        .clone_from(&args.security.token_auth_file);
    options.admin_token = !args.security.no_admin_token;
    let files = args.security.files();
    options.security = args.security.options().await?;
    options.api.managed_fields = args.managed_fields.into();
    args.policies.apply(&mut options.api)?;
    args.limits.apply(&mut options.api);
    args.timeline.apply(&mut options.api);
    let is_shown = options.api.timeline.enabled;
    options.audit = args.audit.options();
    #[cfg(feature = "etcd")]
    {
        options.storage = args.storage.storage()?;
    }
    #[cfg(feature = "objects")]
    if let Some(mut sealed) = args
        .sealed
        .open()
        .await
        .map_err(|error| format!("--archive: {error}"))?
    {
        let server = tidings_server::start_clusters(options, sealed.followed()).await;
        let server = server.map_err(|error| files.explain(error))?;
        // Clusters are ordered by name, also those found later.
        server.set_order(Vec::new()).await?;
        tell_that_it_serves(is_shown, server.address(), server.kubeconfig());
        tokio::select! {
            () = signals.wait() => {}
            () = sealed.follow(&server) => {}
        }
        end(server.shutdown(), signals).await;
        return Ok(());
    }
    #[cfg(not(feature = "objects"))]
    if args.archive.is_some() {
        return Err("--archive: this program is built without the feature objects".into());
    }
    let server = tidings_server::start(options).await;
    let server = server.map_err(|error| files.explain(error))?;
    tell_that_it_serves(is_shown, server.address(), server.kubeconfig());
    signals.wait().await;
    end(server.shutdown(), signals).await;
    Ok(())
}

/// Reports that the server is ready.
fn tell_that_it_serves(is_shown: bool, address: SocketAddr, kubeconfig: &Path) {
    tell_of_timeline(is_shown, address);
    tracing::info!(%address, "serving");
    // A closed standard output is no reason not to serve.
    let _ = writeln!(terminal::output(), "{}", kubeconfig.display());
}

/// Shuts the server down; a second signal ends the process at once.
pub(super) async fn end(shutdown: impl Future<Output = ()>, mut signals: Signals) {
    tracing::info!("shutting down; a second signal stops at once");
    tokio::select! {
        () = shutdown => {}
        () = signals.wait() => {
            // All acknowledged data is on disk; nothing else is waited for.
            tell("error: a second signal stopped the server at once");
            std::process::exit(FAILED.into())
        }
    }
}

/// Prints the address of the timeline, if it is served. A server that listens on every address is
/// reached at that of the machine itself.
pub(super) fn tell_of_timeline(is_shown: bool, mut address: SocketAddr) {
    if is_shown {
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        tracing::info!("the timeline is at https://{address}/timeline");
    }
}

/// Returns the error as a start error, if it is one.
pub(super) fn start_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a StartError> {
    match error.downcast_ref::<FileError>() {
        Some(error) => Some(&error.source),
        None => error.downcast_ref(),
    }
}

/// Advice if a server cannot start.
pub(super) fn hint(error: &StartError) -> &'static str {
    match error {
        StartError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
            "another server listens there; choose another with --secure-port (0 takes a free one)"
        }
        StartError::Listen { .. } => "choose another address with --bind-address or --secure-port",
        StartError::TokenFile { .. } => {
            "each line is token,user,uid and, if wanted, \"group1,group2\""
        }
        StartError::SecurityFile { .. } => {
            "certificates and keys are in PEM form, permissions as kubectl get -o yaml prints them"
        }
        StartError::Store(OpenError::InUse { .. }) => {
            "is another server running on this folder? each needs its own --data-dir"
        }
        StartError::Store(OpenError::Io { source, .. }) => refused_hint(source.kind()),
        StartError::File { source, .. } => refused_hint(source.kind()),
        #[cfg(feature = "etcd")]
        StartError::Etcd(_) => {
            "is etcd up, and do --etcd-servers and the --etcd-…file flags fit it?"
        }
        _ => HELP,
    }
}

const HELP: &str = "see tidings serve --help";

pub(super) const NOT_PERMITTED: &str =
    "this user may not read or write there: choose another place, or permit it";

/// Advice about an operation that the system refused.
fn refused_hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => NOT_PERMITTED,
        ErrorKind::StorageFull => "make room on the disk of --data-dir",
        _ => HELP,
    }
}

fn fail(error: &(dyn Error + 'static)) {
    let hint = if let Some(error) = start_error(error) {
        hint(error)
    } else if let Some(error) = error.downcast_ref::<DataDirError>() {
        error.hint()
    } else {
        HELP
    };
    tell(&format!("error: cannot serve: {error}"));
    tell(&format!("hint: {hint}"));
}

/// The signals that end the server.
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
        // Without signal handlers, returning would end the server at once.
        let _ = tokio::signal::ctrl_c().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn advice_is_about_what_the_system_refused() {
        let store = |kind: ErrorKind| {
            StartError::Store(OpenError::Io {
                what: "write to",
                path: "x".into(),
                source: Arc::new(kind.into()),
            })
        };
        let file = |kind: ErrorKind| StartError::File {
            path: "x".into(),
            source: kind.into(),
        };
        let in_use = StartError::Store(OpenError::InUse { path: "x".into() });
        for (error, said) in [
            (store(ErrorKind::PermissionDenied), "this user may not"),
            (file(ErrorKind::PermissionDenied), "this user may not"),
            (store(ErrorKind::StorageFull), "make room"),
            (file(ErrorKind::NotFound), "--help"),
            (in_use, "another server"),
        ] {
            assert!(hint(&error).contains(said), "{error}");
        }
    }

    /// The duration's forms are those of a file of retention rules and of `tidings archive`.
    #[test]
    fn events_may_be_kept_for_days() {
        for (text, hours) in [("2h", 2), ("14d", 14 * 24), ("1d12h", 36)] {
            let words = ["tidings", "--data-dir", "x", "--event-ttl", text];
            let parsed = Program::try_parse_from(words).unwrap();
            assert_eq!(parsed.args.event_ttl, Duration::from_secs(hours * 3600));
        }
        let words = ["tidings", "--data-dir", "x", "--event-ttl", "500ms"];
        let refused = Program::try_parse_from(words).unwrap_err().to_string();
        assert!(refused.contains("at least 1s, such as 90d"), "{refused}");
    }
}
