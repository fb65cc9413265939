//! `tidings archive`: follows clusters, keeps their events, and serves them, until a signal ends
//! it.

mod aggregated;
pub(super) mod clusters;
pub(super) mod connector;
mod feeding;
mod import;
mod kubeconfigs;
#[cfg(feature = "objects")]
mod sealing;
mod source;

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use tidings_archive::{Host, ImportError, Refusal, Setting, SharedQuota, Supervisor};
use tidings_server::{ClusterError as ServedError, FollowedCluster, RunningClusters, StartOptions};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use tidings_store::{Fault, Store, WriteError};
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
use aggregated::{AggregatedFlags, Keeper};
use clusters::{Defaults, Reread};
use connector::{Kubeconfigs, Opened};
use feeding::Feeding;
#[cfg(feature = "objects")]
use sealing::{SealFlags, Sealing};
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
        (Some(name), _) => forget(&args.data_dir, &name).await.map(|()| ENDED),
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
async fn forget(data_dir: &Path, name: &str) -> Result<(), Box<dyn Error>> {
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
    // Meanwhile no archive starts on the folder.
    let _taken = data_dir::take_for_archive(data_dir)?;
    // A closed store writes nothing more. A dropped one would still flush its index, and complain
    // that the folder is gone.
    store.close().await;
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
    supervisor: Supervisor<Kubeconfigs>,
    serving: Serving,
    feeding: Option<Feeding>,
}

/// The clusters opened at the start. They are served later, all at once, because a single one would
/// also be served at the root.
#[derive(Default)]
struct Begun {
    served: Vec<FollowedCluster>,
    /// Whether the clusters are those of a file. One that fails does not prevent others from being
    /// followed.
    is_of_file: bool,
    first_refusal: Option<Refusal>,
}

impl Host<Kubeconfigs> for Begun {
    async fn add(&mut self, _: &ClusterSetting, opened: &mut Opened) -> Result<(), Refusal> {
        self.served.push(opened.begin_serving().await);
        Ok(())
    }

    /// Until the files are read again, no cluster is removed.
    async fn remove(&mut self, _: &ClusterSetting, _: Option<&ClusterSetting>) {}

    fn refused(&mut self, setting: &ClusterSetting, why: Refusal, is_new: bool) {
        if self.is_of_file && is_new {
            complain(setting, &*why);
        }
        self.first_refusal.get_or_insert(why);
    }
}

impl Begun {
    /// Waits until the attempts have ended. With a file of clusters it does not wait for ever: late
    /// clusters are served later.
    async fn wait(
        &mut self,
        supervisor: &mut Supervisor<Kubeconfigs>,
    ) -> Result<(), Box<dyn Error>> {
        let mut late = pin!(tokio::time::sleep(START));
        let mut is_late = false;
        while supervisor.is_trying() && !(self.is_of_file && is_late && !self.served.is_empty()) {
            tokio::select! {
                ended = supervisor.next() => supervisor.handle(ended, self).await,
                () = &mut late, if !is_late => is_late = true,
            }
            if !self.is_of_file
                && let Some(why) = self.first_refusal.take()
            {
                return Err(why);
            }
        }
        match self.first_refusal.take() {
            Some(why) if self.served.is_empty() => Err(why),
            _ => Ok(()),
        }
    }

    /// Takes the clusters to serve, in the order of `wanted`.
    fn take_served(&mut self, wanted: &[ClusterSetting]) -> Vec<FollowedCluster> {
        let mut served = std::mem::take(&mut self.served);
        let place = |name: &str| wanted.iter().position(|setting| setting.name == name);
        served.sort_by_key(|served| place(&served.name));
        served
    }
}

/// Closes the clusters for which the server has no room, which it reported. They are refused like
/// clusters that are added later.
async fn give_up_unserved(
    supervisor: &mut Supervisor<Kubeconfigs>,
    server: &RunningClusters,
    max_clusters: usize,
) {
    let why = ServedError::TooMany { max: max_clusters }.to_string();
    let served = server.clusters();
    let names = supervisor.clusters().map(|(setting, _)| &setting.name);
    let unserved = names.filter(|name| !served.contains(name));
    for name in unserved.cloned().collect::<Vec<_>>() {
        supervisor.give_up(&name, &why).await;
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
        kubeconfig: args.kubeconfig.clone(),
        own_kubeconfig: Some(args.data_dir.join("kubeconfig")),
        namespaces: args.namespaces.clone(),
        event_ttl: args.event_ttl,
        retention: clusters::Retention::read(args.retention_file.as_deref())?.into(),
        quota: args.quota,
        quota_total: None,
        pass_through: args.pass_through,
        cluster_access: args.cluster_access,
        memory: args.memory,
        home: None,
        #[cfg(feature = "objects")]
        seal: args.seal.are_given(),
        #[cfg(not(feature = "objects"))]
        seal: false,
        clocks: Arc::default(),
        feeds: None,
        #[cfg(feature = "objects")]
        continues: sealing.to_continue(),
    };
    let settings = settings(&args, &mut defaults)?;
    let home = settings.first().cloned();
    let aggregated = &args.aggregated;
    let aggregated = aggregated.options(home.as_ref().map(|home| home.name.as_str()))?;
    defaults.home = aggregated.as_ref().map(|it| it.home.clone());
    let _taken = data_dir::take_for_archive(&args.data_dir)?;
    let feeding = match args.feeds.clone() {
        Some(file) => Some(Feeding::open(file, &args.data_dir).await?),
        None => None,
    };
    defaults.feeds = feeding.as_ref().map(|it| it.feeds.clone());
    let mut options = options(&args).await?;
    options.aggregated = aggregated;
    options.feeds = feeding.as_ref().map(Feeding::served);
    let files_of_flags = args.security.files();
    let is_shown = options.api.timeline.enabled;
    let defaults = Arc::new(defaults);
    let connector = Kubeconfigs {
        data_dir: args.data_dir,
        defaults: Arc::clone(&defaults),
    };
    let quota = defaults.quota_total.clone();
    let mut supervisor = Supervisor::new(Arc::new(connector), quota, settings);
    let mut begun = Begun {
        is_of_file: args.clusters.is_some(),
        ..Begun::default()
    };
    tokio::select! {
        waited = begun.wait(&mut supervisor) => waited?,
        () = signals.wait() => {
            tracing::info!("ended before anything was served");
            serve::end(supervisor.close(), signals).await;
            return Ok(());
        }
    }
    let served = begun.take_served(supervisor.wanted());
    let max_clusters = options.api.max_clusters;
    let server = tidings_server::start_clusters(options, served).await;
    let server = server.map_err(|error| files_of_flags.explain(error))?;
    give_up_unserved(&mut supervisor, &server, max_clusters).await;
    #[cfg(feature = "objects")]
    for (_, opened) in supervisor.clusters() {
        sealing.start(&opened.cluster);
    }
    // It ends with this function.
    let keepers = begin_keeping(&args.aggregated, home, &defaults, &server);
    let mut archive = Archive {
        supervisor,
        serving: Serving {
            defaults,
            server,
            #[cfg(feature = "objects")]
            sealing,
        },
        feeding,
    };
    archive.tell_begun(is_shown).await;
    tokio::select! {
        () = signals.wait() => {}
        () = archive.follow_files(args.clusters.as_deref(), args.retention_file.as_deref()),
            if !args.no_follow => {}
    }
    drop(keepers);
    serve::end(archive.close(), signals).await;
    Ok(())
}

/// Begins to keep what the API server of the first cluster has of the archive's API group, if that
/// is served.
fn begin_keeping(
    flags: &AggregatedFlags,
    home: Option<ClusterSetting>,
    defaults: &Arc<Defaults>,
    server: &RunningClusters,
) -> JoinSet<()> {
    let keeper =
        home.and_then(|home| flags.keeper(home, Arc::clone(defaults), server.aggregation()));
    keeper.into_iter().map(Keeper::run).collect()
}

/// How the archive is served, as the flags say.
async fn options(args: &Args) -> Result<StartOptions, Box<dyn Error>> {
    let mut options = StartOptions::new(&args.data_dir);
    options.bind_address = args.bind_address;
    options.secure_port = args.secure_port;
    options.api.max_connections = files::connections();
    options
        .token_auth_file
        .clone_from(&args.security.token_auth_file);
    options.admin_token = !args.security.no_admin_token;
    options.security = args.security.clone().options().await?;
    options.security.tls_names.extend(args.aggregated.names());
    args.limits.clone().apply(&mut options.api);
    args.timeline.clone().apply(&mut options.api);
    options.audit = args.audit.clone().options();
    Ok(options)
}

/// The settings of the clusters to follow or to serve. The quota of all clusters, which their file
/// may have, is added to `defaults`.
fn settings(args: &Args, defaults: &mut Defaults) -> Result<Vec<ClusterSetting>, Box<dyn Error>> {
    if let Some(file) = &args.clusters {
        let read = clusters::read(file)?;
        let clusters = read.clusters.len();
        let quota = read.quota;
        let quota = quota.map(|bytes| SharedQuota::new(bytes as u64, clusters));
        defaults.quota_total = quota.map(Arc::new);
        return Ok(read.clusters);
    }
    if args.no_follow {
        data_dir::check_for_kept(&args.data_dir)?;
        return Ok(clusters::kept(&args.data_dir)?);
    }
    Ok(defaults.of_contexts(&args.context, args.name.as_deref())?)
}

/// Logs why a cluster is not followed as configured.
fn complain(setting: &ClusterSetting, why: &dyn Error) {
    tracing::error!(
        cluster = setting.name,
        error = why.to_string(),
        "the cluster cannot be followed as configured; it is tried again"
    );
}

fn not_written(cluster: &str, error: &ServedError) {
    tracing::error!(cluster, %error, "the kubeconfig was not written");
}

/// Logs that the file says another quota of all clusters than the one in force. A quota decides how
/// stores lay out what they keep, and a mistyped one would delete events at once: it is in force
/// from a start on.
fn tell_of_shared_quota(in_force: Option<&SharedQuota>, said: Option<usize>) {
    let in_force = in_force.map(SharedQuota::bytes);
    let said = said.map(|bytes| bytes as u64);
    if said != in_force {
        tracing::warn!(
            said,
            in_force,
            "the quota of all clusters has changed in the file: it is in force after a restart"
        );
    }
}

/// The server of the archive's clusters, and their sealing.
struct Serving {
    defaults: Arc<Defaults>,
    server: RunningClusters,
    #[cfg(feature = "objects")]
    sealing: Sealing,
}

impl Host<Kubeconfigs> for Serving {
    async fn add(&mut self, setting: &ClusterSetting, opened: &mut Opened) -> Result<(), Refusal> {
        match self.server.add(opened.begin_serving().await).await {
            Ok(()) => {}
            // The cluster is served nevertheless.
            Err(error @ ServedError::Kubeconfig { .. }) => not_written(&setting.name, &error),
            Err(error) => return Err(error.into()),
        }
        #[cfg(feature = "objects")]
        self.sealing.start(&opened.cluster);
        // The rules may have changed while it was opened.
        opened.cluster.retain(self.defaults.policy(setting));
        Ok(())
    }

    async fn remove(&mut self, former: &ClusterSetting, next: Option<&ClusterSetting>) {
        let cluster = former.name.as_str();
        match next {
            None => tracing::info!(cluster, "followed no longer"),
            Some(next) if !next.is_followed() => {
                tracing::info!(cluster, "followed no longer, and still served");
            }
            Some(next) => {
                tracing::info!(cluster, "followed anew");
                self.tell_of_quota(former, next);
            }
        }
        if let Err(error) = self.server.remove(cluster).await {
            not_written(cluster, &error);
        }
        #[cfg(feature = "objects")]
        self.sealing.stop(cluster);
    }

    fn refused(&mut self, setting: &ClusterSetting, why: Refusal, is_new: bool) {
        if is_new {
            complain(setting, &*why);
        }
    }
}

impl Serving {
    /// Logs that a cluster's quota differs from the former one.
    fn tell_of_quota(&self, former: &ClusterSetting, next: &ClusterSetting) {
        let [former, quota] = [former, next].map(|it| it.quota.or(self.defaults.quota));
        if former != quota {
            tracing::warn!(
                cluster = next.name,
                former,
                quota,
                "the quota of a cluster has changed: events above it are deleted once it is open \
                 again"
            );
        }
    }
}

impl Archive {
    /// Logs that the archive is served, and prints its kubeconfig unless a feed prints records.
    async fn tell_begun(&self, has_timeline: bool) {
        self.tell_missing();
        self.tell_order().await;
        self.tell_if_empty();
        let clusters = self.supervisor.clusters().count();
        let server = &self.serving.server;
        let address = server.address();
        serve::tell_of_timeline(has_timeline, address);
        tracing::info!(%address, clusters, "serving");
        if !self.feeding.as_ref().is_some_and(|it| it.prints) {
            // A closed standard output is no reason not to serve.
            let _ = writeln!(output(), "{}", server.kubeconfig().display());
        }
    }

    /// Re-reads the files of clusters and of retention, and all kubeconfigs, at intervals, and
    /// applies changes. Credentials in kubeconfigs are replaced now and then.
    async fn follow_files(&mut self, clusters: Option<&Path>, retention: Option<&Path>) {
        let (mut reread, mut reread_rules) = (Reread::default(), Reread::default());
        loop {
            self.handle_until_look().await;
            if let Some(feeding) = &mut self.feeding {
                feeding.look().await;
            }
            if let Some(file) = clusters {
                let read = reread.clusters(file);
                let effect = "the clusters of the former file are still followed";
                if let Some(read) = reread.tell(read, effect) {
                    let quota_total = self.serving.defaults.quota_total.as_deref();
                    tell_of_shared_quota(quota_total, read.quota);
                    let was_empty = self.supervisor.wanted().is_empty();
                    self.supervisor.want(read.clusters);
                    self.tell_order().await;
                    if !was_empty {
                        self.tell_if_empty();
                    }
                }
            }
            if let Some(file) = retention {
                let used = self.serving.defaults.retention().clone();
                let read = reread_rules.retention(file, &used);
                let effect = "the rules of retention of the former file are still in force";
                if let Some(rules) = reread_rules.tell(read, effect) {
                    self.retain(rules);
                }
            }
            self.supervisor.look(&mut self.serving).await;
            self.tell_missing();
        }
    }

    /// Keeps the events of all clusters by these rules.
    fn retain(&self, rules: clusters::Retention) {
        tracing::info!("the file of retention rules has changed");
        let defaults = &self.serving.defaults;
        defaults.set_retention(rules);
        for (setting, opened) in self.supervisor.clusters() {
            opened.cluster.retain(defaults.policy(setting));
        }
    }

    /// Handles the attempts that end until the files are to be read again.
    async fn handle_until_look(&mut self) {
        let mut look = pin!(tokio::time::sleep(LOOK));
        loop {
            tokio::select! {
                ended = self.supervisor.next() => {
                    self.supervisor.handle(ended, &mut self.serving).await;
                    self.tell_missing();
                }
                () = &mut look => return,
            }
        }
    }

    /// Reports the wanted clusters that are not followed to the server.
    fn tell_missing(&self) {
        let missing = self.supervisor.missing().map(|(name, refused)| {
            let why = refused.unwrap_or("it is being connected to");
            (name.to_owned(), why.to_owned())
        });
        self.serving.server.set_missing(missing.collect());
    }

    /// Warns if there is no cluster to follow, which is hardly intended.
    fn tell_if_empty(&self) {
        if self.supervisor.wanted().is_empty() {
            tracing::warn!("no cluster is followed: the file of --clusters names no cluster");
        }
    }

    /// Reports the configured order of the clusters to the server; they may be connected in any
    /// order.
    async fn tell_order(&self) {
        let names = self.supervisor.wanted().iter();
        let names = names.map(|setting| setting.name.clone()).collect();
        if let Err(error) = self.serving.server.set_order(names).await {
            tracing::error!(%error, "the kubeconfig was not written");
        }
    }

    async fn close(mut self) {
        // Kills the credential programs that are running.
        self.supervisor.cancel();
        // Stored events are served until the end, but the clusters are no longer followed.
        self.serving.server.shutdown().await;
        self.supervisor.close().await;
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
