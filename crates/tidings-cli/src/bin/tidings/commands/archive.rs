//! `tidings archive`: follows clusters, keeps their events, and serves them, until a signal ends
//! it.

mod aggregated;
mod attempts;
pub(super) mod clusters;
mod connected;
mod feeding;
mod import;
mod kubeconfigs;
pub(super) mod opened;
mod renamed;
#[cfg(feature = "objects")]
mod sealing;
mod source;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use tidings_archive::{Cluster, ImportError, SharedQuota};
use tidings_server::{ClusterError as ServedError, FollowedCluster, RunningClusters, StartOptions};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use tidings_store::{Fault, WriteError};
use tokio::task::JoinSet;

use super::cluster::tell;
use super::connection::program;
use super::data_dir::{self, DataDirError};
use super::serve::audit::AuditFlags;
use super::serve::limits::LimitFlags;
use super::serve::security::SecurityFlags;
use super::serve::timeline::TimelineFlags;
use super::serve::{self, LogFormat, Signals, files};
use super::terminal::output;
use aggregated::AggregatedFlags;
use attempts::{Attempts, Came, Done};
use clusters::{Defaults, Reread};
use connected::{Connected, Refused, tell_of_quota, tell_of_shared_quota};
use feeding::Feeding;
use opened::{Opened, OpenedError, to_serve};
#[cfg(feature = "objects")]
use sealing::{SealFlags, Sealing};
use source::Source;
use tidings_cli::clusters::{ClusterSetting, parse_quota};
use tidings_cli::{times, values};

/// Exit code: the archive was ended by a signal, or a cluster was forgotten or imported.
const ENDED: u8 = 0;
/// Exit code: the archive could not start.
const FAILED: u8 = 1;

/// Interval at which the file of clusters and the kubeconfigs are read.
const LOOK: Duration = Duration::from_secs(5);

/// How long the start waits for the other clusters of a file once one is followed.
const START: Duration = Duration::from_secs(10);

/// Follow clusters, keep their events for months, and serve them to kubectl and every other
/// Kubernetes client.
///
/// Nothing is changed in the clusters: their events are listed and watched, and every observed
/// version is kept. When it is ready it prints the path of a kubeconfig with a context for each
/// cluster, and nothing else, on standard output. Two archives may follow the same cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    ended by a signal, or a cluster was forgotten or imported
  1    could not start, was stopped at once by a second signal, or an import is not complete
  2    wrong arguments

Examples:
  # Follow the cluster of the current context, and read what was kept
  tidings archive --data-dir ./archive &
  kubectl --kubeconfig ./archive/kubeconfig get events -A

  # Two clusters for their own users: kubectl describe shows today's pod and last week's events
  tidings archive --data-dir ./archive --context prod --context staging --cluster-access --pass-through &
  export KUBECONFIG=~/.kube/config:./archive/kubeconfig
  kubectl --context archive-prod describe pod/web-0

  # Put what tidings export --versions wrote into an archive, and look at it
  tidings archive --data-dir ./archive --name prod --import prod.jsonl.gz
  tidings archive --data-dir ./archive --no-follow

  # Remove a cluster and all that was kept of it, while the archive does not run
  tidings archive --data-dir ./archive --forget staging")]
pub(crate) struct Args {
    /// YAML file with a setting for each flag, named like the flag without dashes; flags on the
    /// command line take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for events, certificates, tokens and the kubeconfig; created if missing
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Kubeconfig of the clusters [default: $KUBECONFIG, ~/.kube/config, or the cluster this runs
    /// in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of a cluster to follow; may be repeated [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// Name of the cluster in the archive, if only one is followed [default: the context's]
    #[arg(long, value_name = "NAME", conflicts_with = "clusters")]
    name: Option<String>,
    /// YAML file with the clusters to follow, read again when it changes
    ///
    /// For example `clusters: [{name: prod, kubeconfig: prod.yaml, context: admin, namespaces:
    /// [shop], eventTTL: 30d}]`. Only the name is needed. Settings: name, kubeconfig, context,
    /// namespaces, fieldSelector, labelSelector, eventTTL, quota, passThrough, clusterAccess,
    /// mirrorDeletions, fromNow, follow. A cluster with follow: false is served as it was kept
    #[arg(long, value_name = "FILE", conflicts_with = "context")]
    clusters: Option<PathBuf>,
    /// YAML file with feeds that deliver every version to receivers, read again when it changes
    ///
    /// For example `feeds: [{name: lines, file: {path: events.jsonl}}]`. Receivers: file, stdout,
    /// webhook, loki, otlp, elasticsearch, clickhouse. docs/how-to/deliver-events-onward.md has all
    /// settings, and tidings feeds shows the feeds
    #[arg(long, value_name = "FILE")]
    feeds: Option<PathBuf>,
    /// Namespaces to follow, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    namespaces: Vec<String>,
    /// Retention time of an event after it was last observed, such as 90d or 36h
    #[arg(long, default_value = "90d", value_name = "DURATION", value_parser = times::duration_of_seconds)]
    event_ttl: Duration,
    /// File with retention rules in YAML, as for tidings serve, with the further condition cluster.
    /// The first matching rule decides, otherwise --event-ttl
    ///
    /// The time counts from when an event was last observed. A changed file is read again, and its
    /// rules are applied within minutes to everything that is kept. If they would end a tenth or
    /// more of the events of a cluster, of a namespace or under a rule, the log says so ten minutes
    /// before. tidings coverage --check-retention shows what rules would end.
    #[arg(long, value_name = "FILE")]
    retention_file: Option<PathBuf>,
    /// Maximum bytes that each cluster takes on disk, at least 1Mi, with an optional suffix Ki, Mi,
    /// Gi, Ti, k, M, G or T. Above it, the namespaces that take most lose the events that were
    /// observed first [default: no limit]
    ///
    /// Space is released some minutes after events were deleted.
    #[arg(long, value_name = "BYTES", value_parser = parse_quota)]
    quota: Option<usize>,
    /// Memory for all clusters' indexes and caches together, in bytes, with an optional suffix Ki,
    /// Mi, k or M
    #[arg(long, value_name = "BYTES", default_value = "12Mi", value_parser = values::bytes)]
    memory: usize,
    /// Proxy reads of other kinds than events to the cluster, with the caller's own token
    ///
    /// Only a token that the cluster itself has reviewed is sent on, so give --cluster-access, too.
    /// A client certificate cannot be sent on. If the archive's kubeconfig is read after that of
    /// the cluster, its context archive-NAME has the credentials of the user by whom the cluster is
    /// followed.
    #[arg(long)]
    pass_through: bool,
    /// Let the users of a cluster read its events: unknown tokens, and what their users may do, are
    /// reviewed by the cluster itself (TokenReview, SubjectAccessReview)
    ///
    /// Only that cluster decides about them: roles of --authorization-rbac-file are about the
    /// archive's own users. No token is sent to a cluster whose certificate is not verified.
    #[arg(long)]
    cluster_access: bool,
    /// Follow nothing, and serve every cluster in the data folder
    ///
    /// Events keep their present expiry: neither --event-ttl, --retention-file nor a quota has an
    /// effect.
    #[arg(
        long,
        conflicts_with_all = ["clusters", "context", "name", "forget", "import", "pass_through", "cluster_access", "feeds"]
    )]
    no_follow: bool,
    /// Import a file of tidings export --versions as the cluster --name, and exit;
    /// - means standard input
    ///
    /// The archive must not run. Versions that exist already are left unchanged, so an interrupted
    /// import is continued by repeating it. If the cluster is followed later under the same name,
    /// following starts where the export ends. Events are kept by --event-ttl and --retention-file,
    /// from when they were observed.
    #[arg(
        long,
        value_name = "FILE",
        requires = "name",
        conflicts_with = "forget"
    )]
    import: Option<PathBuf>,
    /// Remove a cluster's folder with all its events, and exit
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    bind_address: IpAddr,
    /// Port to listen on; 0 means any free port
    #[arg(long, default_value_t = 6444, value_name = "PORT")]
    secure_port: u16,
    /// Format of log lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    #[command(flatten)]
    security: SecurityFlags,
    #[command(flatten)]
    aggregated: AggregatedFlags,
    #[command(flatten)]
    audit: AuditFlags,
    #[command(flatten)]
    timeline: TimelineFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[cfg(feature = "objects")]
    #[command(flatten)]
    seal: SealFlags,
}

/// Runs the archive; returns the exit code.
pub(crate) async fn run(args: Args) -> ExitCode {
    program::run_in_server();
    serve::start_logging(args.log_format);
    let done = match (args.forget.clone(), args.import.clone()) {
        (Some(name), _) => forget(&args.data_dir, &name).map(|()| ENDED),
        (None, Some(file)) => import_file(args, &file).await,
        (None, None) => Box::pin(archive(args)).await.map(|()| ENDED),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let hint = hint(&*error);
            tell(&format!("error: cannot archive: {error}"));
            tell(&format!("hint: {hint}"));
            ExitCode::from(FAILED)
        }
    }
}

pub(super) fn hint(error: &(dyn Error + 'static)) -> &'static str {
    if let Some(error) = serve::start_error(error) {
        return serve::hint(error);
    }
    if let Some(error) = error.downcast_ref::<DataDirError>() {
        return error.hint();
    }
    match error.downcast_ref::<clusters::ClusterError>() {
        Some(clusters::ClusterError::Config { .. }) => {
            "name a context with --context, or a file with --kubeconfig; kubectl config get-contexts shows them"
        }
        Some(clusters::ClusterError::PassThrough { .. }) => {
            "leave out --pass-through, or name the clusters in a file (--clusters) with passThrough: false for this one"
        }
        Some(clusters::ClusterError::Renamed { .. }) => {
            "give the former name with --name, or as the name in the file of --clusters"
        }
        Some(clusters::ClusterError::Unrecognized { .. }) => {
            "start again when the cluster answers, or remove the former ones with --forget"
        }
        Some(clusters::ClusterError::Store { source, .. }) => match source {
            tidings_archive::ClusterError::Open(error) => open_hint(error),
            tidings_archive::ClusterError::Write(error) if is_no_space(error) => NO_SPACE,
            _ => DAMAGED,
        },
        _ => match error.downcast_ref() {
            Some(ImportError::Open(error)) => open_hint(error),
            Some(ImportError::Write(error)) if is_no_space(error) => NO_SPACE,
            Some(ImportError::Io(_)) => {
                "the export may be cut: take it again, or copy it again, and import it once more; what was imported stays"
            }
            Some(ImportError::Line { line: 1, .. }) => {
                "this reads what tidings export --versions wrote; tidings import creates the events of other files in a cluster"
            }
            _ => "see tidings archive --help",
        },
    }
}

const DAMAGED: &str =
    "put back a copy of the folder, or, if it was sealed, begin a new one (docs/archive.md)";

const NO_SPACE: &str = "make room on the disk of --data-dir, of which 128 MiB are left free; --forget removes a cluster that is not needed any more";

fn is_no_space(error: &WriteError) -> bool {
    matches!(error, WriteError::Fault(Fault::NoSpace))
}

/// Advice about a data folder that cannot be opened.
fn open_hint(error: &OpenError) -> &'static str {
    match error {
        OpenError::InUse { .. } => {
            "is another archive running on this folder? each needs its own --data-dir"
        }
        OpenError::Io { source, .. } => match source.kind() {
            ErrorKind::StorageFull => NO_SPACE,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => serve::NOT_PERMITTED,
            _ => DAMAGED,
        },
        _ => DAMAGED,
    }
}

/// Imports an export into the archive. The exit code says whether the export was complete.
async fn import_file(args: Args, file: &Path) -> Result<u8, Box<dyn Error>> {
    let defaults = Defaults {
        event_ttl: args.event_ttl,
        retention: clusters::Retention::read(args.retention_file.as_deref())?.into(),
        memory: args.memory,
        ..Defaults::default()
    };
    let name = args.name.unwrap_or_default();
    let _taken = data_dir::take_for_archive(&args.data_dir)?;
    let is_whole = import::import(&args.data_dir, name, &defaults, file).await?;
    Ok(if is_whole { ENDED } else { FAILED })
}

/// Removes the folder of a cluster.
fn forget(data_dir: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let folder = clusters::folder(data_dir, name)?;
    let remove = |folder: &Path| {
        let removed = std::fs::remove_dir_all(folder);
        removed.map_err(|error| format!("remove {}: {error}", folder.display()))
    };
    let doomed = folder.with_file_name(format!(".{name}.forgotten"));
    let was_begun = doomed.is_dir();
    if was_begun {
        remove(&doomed)?;
    }
    if was_begun && !folder.is_dir() {
        tell_forgotten(name);
        return Ok(());
    }
    if !folder.is_dir() {
        return Err(format!("there is no cluster {name:?} in {}", data_dir.display()).into());
    }
    // Opening the store fails while an archive has it open.
    let store = EmbeddedStore::open(&folder, EmbeddedOptions::default());
    let store = store.map_err(|error| clusters::ClusterError::Store {
        name: name.to_owned(),
        source: error.into(),
    })?;
    // A closed store writes nothing more. Meanwhile no archive starts on the folder.
    let _taken = data_dir::take_for_archive(data_dir)?;
    drop(store);
    // The folder is renamed first: if the process ends during the removal, it would leave a partial
    // store that cannot be opened.
    std::fs::rename(&folder, &doomed)
        .map_err(|error| format!("rename {}: {error}", folder.display()))?;
    remove(&doomed)?;
    tell_forgotten(name);
    Ok(())
}

fn tell_forgotten(name: &str) {
    tracing::info!(cluster = name, "the cluster and its events are removed");
}

/// A running archive: the clusters it follows and serves.
struct Archive {
    defaults: Arc<Defaults>,
    server: RunningClusters,
    /// The clusters that should be followed.
    wanted: Vec<ClusterSetting>,
    followed: BTreeMap<String, (Connected, Cluster)>,
    /// The wanted clusters that are not followed, or not with their current settings, and why.
    refused: Refused,
    /// The clusters that are being opened or connected to.
    attempts: Attempts,
    #[cfg(feature = "objects")]
    sealing: Sealing,
    feeding: Option<Feeding>,
}

/// The clusters opened at the start.
#[derive(Default)]
struct Begun {
    served: Vec<(String, FollowedCluster)>,
    followed: BTreeMap<String, (Connected, Cluster)>,
    refused: Refused,
    first_refusal: Option<OpenedError>,
}

impl Begun {
    /// Waits until the attempts are done. With a file of clusters it does not wait for ever: late
    /// clusters are served later.
    async fn wait(
        &mut self,
        attempts: &mut Attempts,
        is_of_file: bool,
    ) -> Result<(), Box<dyn Error>> {
        let mut late = pin!(tokio::time::sleep(START));
        let mut is_late = false;
        while !(attempts.is_empty() || is_of_file && is_late && !self.followed.is_empty()) {
            tokio::select! {
                done = attempts.next() => self.take(done, is_of_file).await?,
                () = &mut late, if !is_late => is_late = true,
            }
        }
        Ok(())
    }

    async fn take(&mut self, done: Done, is_of_file: bool) -> Result<(), Box<dyn Error>> {
        let Done {
            setting,
            said,
            came: Came::Opened(opened),
        } = done
        else {
            return Ok(());
        };
        match serve_opened(setting.clone(), opened).await {
            Ok((connected, cluster, served)) => {
                self.served.push((setting.name.clone(), served));
                self.followed.insert(setting.name, (connected, cluster));
                Ok(())
            }
            // A cluster of a file that fails does not prevent others from being followed.
            Err(error) if is_of_file => {
                complain(&mut self.refused, &setting, said, &error.to_string());
                self.first_refusal.get_or_insert(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the clusters to serve, in the order of `wanted`.
    fn take_served(&mut self, wanted: &[ClusterSetting]) -> Vec<FollowedCluster> {
        let mut served = std::mem::take(&mut self.served);
        let place = |name: &str| wanted.iter().position(|setting| setting.name == name);
        served.sort_by_key(|(name, _)| place(name));
        served.into_iter().map(|(_, served)| served).collect()
    }

    /// Closes the clusters for which the server has no room, which it reported. They are refused
    /// like clusters that are added later.
    async fn give_up_unserved(
        &mut self,
        defaults: &Defaults,
        server: &RunningClusters,
        max_clusters: usize,
    ) {
        let why = ServedError::TooMany { max: max_clusters }.to_string();
        let served = server.clusters();
        let unserved = self.followed.keys().filter(|name| !served.contains(name));
        for name in unserved.cloned().collect::<Vec<_>>() {
            if let Some((connected, cluster)) = self.followed.remove(&name) {
                self.refused.note(&connected.setting, connected.said, &why);
                defaults.close(cluster).await;
            }
        }
    }
}

async fn archive(args: Args) -> Result<(), Box<dyn Error>> {
    // Signals are handled from here on, so that an early one is not lost.
    let mut signals = Signals::new()?;
    if let Some(file) = &args.config {
        tracing::info!(file = %file.display(), "settings read");
    }
    #[cfg(feature = "objects")]
    let mut sealing = args
        .seal
        .open()
        .map_err(|error| format!("--objects: {error}"))?;
    let mut defaults = Defaults {
        kubeconfig: args.kubeconfig,
        own_kubeconfig: Some(args.data_dir.join("kubeconfig")),
        namespaces: args.namespaces,
        event_ttl: args.event_ttl,
        retention: clusters::Retention::read(args.retention_file.as_deref())?.into(),
        quota: args.quota,
        quota_total: None,
        pass_through: args.pass_through,
        cluster_access: args.cluster_access,
        memory: args.memory,
        home: None,
        no_follow: args.no_follow,
        #[cfg(feature = "objects")]
        seal: args.seal.are_given(),
        #[cfg(not(feature = "objects"))]
        seal: false,
        clocks: Arc::default(),
        feeds: None,
        #[cfg(feature = "objects")]
        continues: sealing.to_continue(),
    };
    let settings = match &args.clusters {
        Some(file) => {
            let read = clusters::read(file)?;
            let clusters = read.clusters.len();
            let quota = read.quota;
            let quota = quota.map(|bytes| SharedQuota::new(bytes as u64, clusters));
            defaults.quota_total = quota.map(Arc::new);
            read.clusters
        }
        None if args.no_follow => {
            data_dir::check_for_kept(&args.data_dir)?;
            clusters::kept(&args.data_dir)?
        }
        None => defaults.of_contexts(&args.context, args.name.as_deref())?,
    };
    let home = settings.first().cloned();
    let aggregated = &args.aggregated;
    let aggregated = aggregated.options(home.as_ref().map(|home| home.name.as_str()))?;
    defaults.home = aggregated.as_ref().map(|it| it.home.clone());
    let _taken = data_dir::take_for_archive(&args.data_dir)?;
    let feeding = match args.feeds {
        Some(file) => Some(Feeding::open(file, &args.data_dir).await?),
        None => None,
    };
    defaults.feeds = feeding.as_ref().map(|it| it.feeds.clone());
    let mut options = StartOptions::new(&args.data_dir);
    options.aggregated = aggregated;
    options.feeds = feeding.as_ref().map(Feeding::served);
    options.bind_address = args.bind_address;
    options.secure_port = args.secure_port;
    options.api.max_connections = files::connections();
    options
        .token_auth_file
        .clone_from(&args.security.token_auth_file);
    options.admin_token = !args.security.no_admin_token;
    let files_of_flags = args.security.files();
    options.security = args.security.options().await?;
    options.security.tls_names.extend(args.aggregated.names());
    args.limits.apply(&mut options.api);
    args.timeline.apply(&mut options.api);
    let is_shown = options.api.timeline.enabled;
    options.audit = args.audit.options();
    let (wanted, defaults) = (settings, Arc::new(defaults));
    let mut attempts = Attempts::new(&args.data_dir, Arc::clone(&defaults));
    for setting in &wanted {
        let said = defaults.said(setting);
        attempts.open(setting.clone(), said, None, &wanted);
    }
    let mut begun = Begun::default();
    tokio::select! {
        waited = begun.wait(&mut attempts, args.clusters.is_some()) => waited?,
        () = signals.wait() => {
            tracing::info!("ended before anything was served");
            drop(attempts);
            for (_, cluster) in begun.followed.into_values() {
                defaults.close(cluster).await;
            }
            return Ok(());
        }
    }
    if begun.followed.is_empty()
        && let Some(error) = begun.first_refusal.take()
    {
        return Err(error);
    }
    // All clusters are served at once, because a single one would also be served at the root.
    let served = begun.take_served(&wanted);
    let max_clusters = options.api.max_clusters;
    let server = tidings_server::start_clusters(options, served).await;
    let server = server.map_err(|error| files_of_flags.explain(error))?;
    begun
        .give_up_unserved(&defaults, &server, max_clusters)
        .await;
    #[cfg(feature = "objects")]
    for (_, cluster) in begun.followed.values() {
        sealing.start(cluster);
    }
    let keeper = home.and_then(|home| {
        let aggregation = server.aggregation();
        let defaults = Arc::clone(&defaults);
        args.aggregated.keeper(home, defaults, aggregation)
    });
    // It ends with this function.
    let mut keepers = JoinSet::new();
    if let Some(keeper) = keeper {
        keepers.spawn(keeper.run());
    }
    let mut archive = Archive {
        defaults,
        server,
        wanted,
        followed: begun.followed,
        refused: begun.refused,
        attempts,
        #[cfg(feature = "objects")]
        sealing,
        feeding,
    };
    archive.tell_missing();
    archive.tell_order().await;
    archive.tell_if_empty();
    let clusters = archive.followed.len();
    let address = archive.server.address();
    serve::tell_of_timeline(is_shown, address);
    tracing::info!(%address, clusters, "serving");
    if !archive.feeding.as_ref().is_some_and(|it| it.prints) {
        // A closed standard output is no reason not to serve.
        let _ = writeln!(output(), "{}", archive.server.kubeconfig().display());
    }
    tokio::select! {
        () = signals.wait() => {}
        () = archive.follow_files(args.clusters.as_deref(), args.retention_file.as_deref()) => {}
    }
    drop(keepers);
    tracing::info!("shutting down; a second signal stops at once");
    tokio::select! {
        () = archive.close() => Ok(()),
        () = signals.wait() => {
            // All acknowledged data is on disk; nothing else is waited for.
            tell("error: a second signal stopped the archive at once");
            std::process::exit(FAILED.into())
        }
    }
}

/// Turns an opened cluster into its connection, its store and what the server serves.
async fn serve_opened(
    setting: ClusterSetting,
    opened: Opened,
) -> Result<(Connected, Cluster, FollowedCluster), OpenedError> {
    let (source, cluster) = opened?;
    let served = to_serve(&cluster, source.as_ref()).await;
    Ok((connected(setting, source.as_ref()), cluster, served))
}

fn connected(setting: ClusterSetting, source: Option<&Source>) -> Connected {
    Connected {
        setting,
        said: source.and_then(|source| source.said),
    }
}

/// Logs why a cluster is not followed as configured, unless the same reason was logged before.
fn complain(refused: &mut Refused, setting: &ClusterSetting, said: Option<u64>, why: &str) {
    if refused.note(setting, said, why) {
        tracing::error!(
            cluster = setting.name,
            error = why,
            "the cluster cannot be followed as configured; it is tried again"
        );
    }
}

fn not_written(cluster: &str, error: &ServedError) {
    tracing::error!(cluster, %error, "the kubeconfig was not written");
}

impl Archive {
    /// Serves a cluster that was opened, or logs why it cannot be.
    async fn serve(&mut self, setting: ClusterSetting, said: Option<u64>, opened: Opened) {
        let served = async {
            let (connected, cluster, served) = serve_opened(setting.clone(), opened).await?;
            match self.server.add(served).await {
                Ok(()) => {}
                // The cluster is served nevertheless.
                Err(error @ ServedError::Kubeconfig { .. }) => not_written(&setting.name, &error),
                Err(error) => {
                    self.defaults.close(cluster).await;
                    return Err(error.into());
                }
            }
            Ok::<_, OpenedError>((connected, cluster))
        };
        match served.await {
            Ok((connected, cluster)) => {
                #[cfg(feature = "objects")]
                self.sealing.start(&cluster);
                self.refused.forget(&setting.name);
                // The rules may have changed while it was opened.
                cluster.retain(self.defaults.policy(&setting));
                self.followed.insert(setting.name, (connected, cluster));
            }
            Err(error) => complain(&mut self.refused, &setting, said, &error.to_string()),
        }
    }

    async fn remove(&mut self, name: &str) {
        if let Err(error) = self.server.remove(name).await {
            not_written(name, &error);
        }
        #[cfg(feature = "objects")]
        self.sealing.stop(name);
        if let Some((_, cluster)) = self.followed.remove(name) {
            self.defaults.close(cluster).await;
        }
    }

    /// Re-reads the files of clusters and of retention, and all kubeconfigs, at intervals, and
    /// applies changes. Credentials in kubeconfigs are replaced now and then.
    async fn follow_files(&mut self, clusters: Option<&Path>, retention: Option<&Path>) {
        if self.defaults.no_follow {
            return std::future::pending().await;
        }
        let (mut reread, mut reread_rules) = (Reread::default(), Reread::default());
        loop {
            self.take_until_look().await;
            if let Some(feeding) = &mut self.feeding {
                feeding.look().await;
            }
            if let Some(file) = clusters {
                let read = reread.clusters(file);
                let effect = "the clusters of the former file are still followed";
                if let Some(read) = reread.tell(read, effect) {
                    tell_of_shared_quota(self.defaults.quota_total.as_deref(), read.quota);
                    let was_empty = self.wanted.is_empty();
                    self.wanted = read.clusters;
                    self.tell_order().await;
                    if !was_empty {
                        self.tell_if_empty();
                    }
                }
            }
            if let Some(file) = retention {
                let used = self.defaults.retention().clone();
                let read = reread_rules.retention(file, &used);
                let effect = "the rules of retention of the former file are still in force";
                if let Some(rules) = reread_rules.tell(read, effect) {
                    self.retain(rules);
                }
            }
            self.follow_wanted().await;
        }
    }

    /// Keeps the events of all clusters by these rules.
    fn retain(&self, rules: clusters::Retention) {
        tracing::info!("the file of retention rules has changed");
        self.defaults.set_retention(rules);
        for (connected, cluster) in self.followed.values() {
            cluster.retain(self.defaults.policy(&connected.setting));
        }
    }

    /// Starts, stops or reconnects clusters so that they match the wanted settings and the current
    /// kubeconfigs.
    async fn follow_wanted(&mut self) {
        let is_wanted = |name: &str| self.wanted.iter().any(|setting| setting.name == name);
        let unwanted = self.followed.keys().filter(|name| !is_wanted(name));
        for name in unwanted.cloned().collect::<Vec<_>>() {
            tracing::info!(cluster = name, "followed no longer");
            self.remove(&name).await;
            self.refused.forget(&name);
        }
        let wanted = self.wanted.iter().map(|setting| setting.name.clone());
        let wanted: HashSet<String> = wanted.collect();
        self.attempts.keep(|name| wanted.contains(name));
        let mut said_by_files = HashMap::new();
        for setting in self.wanted.clone() {
            let files = self.defaults.kubeconfigs(&setting);
            let said = setting.is_followed().then(|| {
                let said = said_by_files.entry(files);
                *said.or_insert_with_key(|files: &Vec<PathBuf>| kubeconfigs::said(files))
            });
            let said = said.flatten();
            if self.attempts.has(&setting, said) {
                continue;
            }
            match self.followed.get(&setting.name) {
                None if self.refused.is_due(&setting, said) => {
                    self.attempts.open(setting, said, None, &self.wanted);
                }
                Some((former, _)) if !former.is_outdated(&setting, said) => {
                    self.refused.forget(&setting.name);
                }
                Some(_) if !setting.is_followed() => {
                    tracing::info!(
                        cluster = setting.name,
                        "followed no longer, and still served"
                    );
                    self.remove(&setting.name).await;
                    self.attempts.open(setting, said, None, &self.wanted);
                }
                Some(_) if self.refused.is_due(&setting, said) => {
                    self.attempts.connect(setting, said);
                }
                _ => {}
            }
        }
        self.tell_missing();
    }

    /// Handles finished attempts until the files are to be read again.
    async fn take_until_look(&mut self) {
        let mut look = pin!(tokio::time::sleep(LOOK));
        loop {
            tokio::select! {
                done = self.attempts.next() => self.take(done).await,
                () = &mut look => return,
            }
        }
    }

    /// Handles a finished attempt, if its setting is still wanted.
    async fn take(&mut self, done: Done) {
        let Done {
            setting,
            said,
            came,
        } = done;
        let is_wanted = self.wanted.contains(&setting);
        match came {
            Came::Opened(opened) if is_wanted => self.serve(setting, said, opened).await,
            Came::Opened(Ok((_, cluster))) => self.defaults.close(cluster).await,
            Came::Connected(connected) if is_wanted => match connected {
                Ok(source) => self.follow_anew(setting, said, source).await,
                Err(error) => complain(&mut self.refused, &setting, said, &error.to_string()),
            },
            Came::Opened(Err(_)) | Came::Connected(_) => {}
        }
        self.tell_missing();
    }

    /// Follows a cluster with another setting or other credentials, after these were tested: the
    /// files might have been half written.
    async fn follow_anew(&mut self, setting: ClusterSetting, said: Option<u64>, source: Source) {
        tracing::info!(cluster = setting.name, "followed anew");
        if let Some((former, _)) = self.followed.get(&setting.name) {
            let [former, quota] = [&former.setting, &setting]
                .map(|it| it.quota.or(self.defaults.quota).map(|bytes| bytes as u64));
            tell_of_quota(&setting.name, former, quota);
        }
        self.remove(&setting.name).await;
        self.attempts
            .open(setting, said, Some(source), &self.wanted);
    }

    /// Reports the wanted clusters that are not followed to the server.
    fn tell_missing(&self) {
        self.enforce_quota();
        let missing = self.wanted.iter().map(|setting| setting.name.as_str());
        let missing = missing.filter(|name| !self.followed.contains_key(*name));
        let missing = missing.map(|name| {
            let why = self.refused.why(name).unwrap_or("it is being connected to");
            (name.to_owned(), why.to_owned())
        });
        self.server.set_missing(missing.collect());
    }

    /// Puts the quota of all clusters in force once each of them was opened, or could not be.
    fn enforce_quota(&self) {
        let is_tried =
            |name: &str| self.followed.contains_key(name) || self.refused.why(name).is_some();
        if let Some(quota) = &self.defaults.quota_total
            && self.wanted.iter().all(|setting| is_tried(&setting.name))
        {
            quota.enforce();
        }
    }

    /// Warns if there is no cluster to follow, which is hardly intended.
    fn tell_if_empty(&self) {
        if self.wanted.is_empty() {
            tracing::warn!("no cluster is followed: the file of --clusters names no cluster");
        }
    }

    /// Reports the configured order of the clusters to the server; they may be connected in any
    /// order.
    async fn tell_order(&self) {
        let names = self.wanted.iter().map(|setting| setting.name.clone());
        if let Err(error) = self.server.set_order(names.collect()).await {
            tracing::error!(%error, "the kubeconfig was not written");
        }
    }

    async fn close(self) {
        // Kills the credential programs that are running.
        drop(self.attempts);
        // Stored events are served until the end, but the clusters are no longer followed.
        self.server.shutdown().await;
        for (_, (_, cluster)) in self.followed {
            self.defaults.close(cluster).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The advice for a folder that may not be written differs from that for a damaged one.
    #[test]
    fn advice_about_a_folder_is_about_what_the_system_refused() {
        for (kind, said) in [
            (ErrorKind::PermissionDenied, "this user may not"),
            (ErrorKind::ReadOnlyFilesystem, "this user may not"),
            (ErrorKind::StorageFull, "make room"),
            (ErrorKind::InvalidData, "put back a copy"),
        ] {
            let error = OpenError::Io {
                what: "open",
                path: "x".into(),
                source: Arc::new(kind.into()),
            };
            assert!(open_hint(&error).contains(said), "{error}");
        }
    }
}
