//! One cluster in the archive: its store, and the tasks that follow it.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use tidings_history::Following;
use tidings_store::clock::Clock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use tidings_store::{NewRecord, ReadError, Store, WriteError};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

use crate::clocks::Clocks;
use crate::follow::follower::Rules;
use crate::history::ClusterHistory;
use crate::keep::consumers::BACKLOG_BYTES_MAX;
use crate::keep::consumers::ClusterFeed;
use crate::keep::consumers::Unsealed;
use crate::keep::consumers::{Continued, Continues, continue_archive, new_identity, seal_anew};
use crate::keep::coverage::RetentionPolicy;
use crate::keep::feed::Journal;
use crate::keep::feed::SealedBefore;
use crate::keep::keys;
use crate::keep::retention::hold;
use crate::keep::retention::{CHECK_INTERVAL, Expiry, believed_time};
use crate::keep::retention::{LOOK, Retaining, Share, SharedQuota, segment_bytes_max, taken};
use crate::keep::served::Numbers;
use crate::keep::served::ServedStore;
use crate::keep::transfer::{ImportError, Imported, import_lines};
use crate::keep::versions::detect_ends;
use crate::keep::versions::{KeepError, Keeper};
use crate::source::api_server::{ApiServer, Selection};
use crate::source::shell::{Progress, Shell};

/// Entries of the feed for a cursor that is behind take at most this part of the quota.
const CURSOR_SHARE: u64 = 8;

/// How a cluster is followed.
#[derive(Clone)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct ClusterOptions {
    /// The cluster's name in the archive.
    pub name: String,
    /// The followed events, by default all. Each selection has a watch of its own.
    pub selections: Vec<Selection>,
    /// How long events are kept. Default: 90 days after they were last observed.
    pub retention: RetentionPolicy,
    /// Maximum bytes of the cluster on disk. Beyond it, the namespaces that take most lose their
    /// events in the order in which these were observed. Default: no limit.
    ///
    /// With a quota, segments of the store have at most a 32nd of it, or 4 MiB if that is more,
    /// whatever [`store`](Self::store) says. The store releases space by whole segments.
    pub quota: Option<u64>,
    /// Whether the cluster is to be followed. Then it can lose events for a shared quota and for
    /// changed rules. Default: yes.
    pub is_followed: bool,
    /// A quota that the cluster shares with others, from when it is opened. The smaller quota
    /// counts, and an equal part bounds the segments of the store. Default: none.
    pub shared_quota: Option<Arc<SharedQuota>>,
    /// Whether an event that ends at the source is deleted here too. Default: no.
    pub mirror_deletions: bool,
    /// Whether versions wait to be sealed: see [`Cluster::unsealed`]. Once this was set, versions
    /// always wait. Default: no.
    pub seal: bool,
    /// For a cluster that was not followed before: whether only what is written from now on is
    /// kept, without a list of the events that exist. Default: no.
    pub from_now: bool,
    /// Texts that identify the authorities of the cluster's certificate. A cluster may be another
    /// one if its identity, the uid of `kube-system`, cannot be read, and it has none of the
    /// earlier authorities: then it is listed again, with a gap. Default: not known.
    pub authorities: Vec<String>,
    /// Events per page of a list. Default: 250.
    pub page: u32,
    /// The first and the longest delay before a failed request is repeated. Default: 250 ms and 30
    /// s.
    pub retry: (Duration, Duration),
    /// The times of the clusters that the process follows. Default: that of this cluster alone.
    pub clocks: Arc<Clocks>,
    /// The store's options.
    pub store: EmbeddedOptions,
}

impl ClusterOptions {
    /// Returns the defaults for a cluster of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            selections: vec![Selection::default()],
            retention: RetentionPolicy::new(Arc::new(|_| Duration::from_secs(90 * 24 * 3600))),
            quota: None,
            is_followed: true,
            shared_quota: None,
            mirror_deletions: false,
            seal: false,
            from_now: false,
            authorities: Vec::new(),
            page: 250,
            retry: (Duration::from_millis(250), Duration::from_secs(30)),
            clocks: Arc::default(),
            store: EmbeddedOptions::default(),
        }
    }
}

/// Why a cluster's folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Opening panicked; the log says how.
    #[error("opening the store panicked")]
    Panicked,
}

/// Reads the identity of a store, which is created if there is none.
async fn identity(store: &EmbeddedStore) -> Result<String, ClusterError> {
    let key = Bytes::from_static(keys::IDENTITY);
    let found = store.get(key.clone()).await?;
    if let Some(found) = found {
        return Ok(String::from_utf8_lossy(&found.value).into_owned());
    }
    let identity = new_identity();
    let record = NewRecord::new(identity.clone());
    store.create(key, record).await?;
    Ok(identity)
}

/// Imports the lines of an export into a cluster's folder, which is created if it does not exist.
/// `told` is called from time to time with the counts so far. Reading the lines blocks the caller.
/// If an import ended early, for any reason, it can be repeated from the beginning.
///
/// # Errors
/// Errors of the store; [`ImportError`] says what in the export cannot be read, or why it does not
/// belong in this folder.
pub async fn import(
    folder: &Path,
    options: ClusterOptions,
    lines: &mut (dyn BufRead + Send),
    told: &mut (dyn FnMut(&Imported) + Send),
) -> Result<Imported, ImportError> {
    let clock: Arc<dyn Clock> = Arc::clone(&options.store.clock);
    let store = open_store(folder, &options.name, options.store).await?;
    identity(&store).await?;
    let mut keeper = Keeper::new(Arc::clone(&store), clock, options.retention.keep_for, false);
    keeper.journal = Journal::open(&keeper, false).await?;
    let imported = import_lines(&keeper, lines, told).await;
    store.close().await;
    imported
}

impl From<ClusterError> for ImportError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Open(error) => error.into(),
            ClusterError::Read(error) => error.into(),
            ClusterError::Write(error) => error.into(),
            ClusterError::Panicked => Self::Panicked,
        }
    }
}

impl From<KeepError> for ClusterError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Read(error) => error.into(),
            KeepError::Write(error) => error.into(),
        }
    }
}

async fn open_store(
    folder: &Path,
    cluster: &str,
    options: EmbeddedOptions,
) -> Result<Arc<EmbeddedStore>, ClusterError> {
    let folder = folder.to_owned();
    // The store does not know its cluster, so the span adds the name to its log lines.
    let span = tracing::error_span!("store", cluster);
    let opened = spawn_blocking(move || span.in_scope(|| EmbeddedStore::open(folder, options)));
    let store = opened.await.map_err(|_| ClusterError::Panicked)??;
    Ok(Arc::new(store))
}

/// Moves cursors of the feed that are too far behind, which would keep entries for ever.
async fn bound_cursors(cluster: String, keeper: Arc<Keeper>, quota: Option<u64>) {
    let bytes_max = quota.map(|quota| quota / CURSOR_SHARE);
    let bytes_max = bytes_max.map_or(BACKLOG_BYTES_MAX, |max| max.min(BACKLOG_BYTES_MAX));
    loop {
        if let Err(error) = keeper.journal.bound(&keeper, bytes_max).await {
            tracing::warn!(cluster, %error, "the bounds of cursors are not kept yet");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks the store's expiry by the clock, until it is told to stop.
async fn keep_expiring(
    stopped: watch::Receiver<bool>,
    cluster: String,
    clocks: Arc<Clocks>,
    keeper: Arc<Keeper>,
) {
    let mut begun = None;
    let watching = async {
        let expiry = loop {
            match Expiry::new(&keeper, cluster.clone(), Arc::clone(&clocks)).await {
                Ok(expiry) => break begun.insert(expiry),
                Err(error) => {
                    tracing::warn!(cluster, %error, "expiry by the clock is not watched yet");
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        loop {
            expiry.look(&keeper).await;
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    until(stopped, watching).await;
    if let Some(expiry) = &mut begun {
        expiry.note(&keeper).await;
    }
}

/// Finds the events that ended during a gap, whenever one has ended.
async fn keep_sweeping(cluster: String, keeper: Arc<Keeper>) {
    loop {
        match detect_ends(&keeper).await {
            Ok(ends) => {
                if ends > 0 {
                    tracing::info!(cluster, ends, "events ended while they were not followed");
                }
                keeper.unswept.notified().await;
            }
            Err(error) => {
                tracing::warn!(cluster, %error, "ends of events during gaps are not searched yet");
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

/// Runs a task until it is told to stop.
async fn until(mut stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    let stopped = async move {
        // An error means that the cluster was dropped.
        drop(stopped.wait_for(|stopped| *stopped).await);
    };
    tokio::select! {
        () = stopped => {}
        () = work => {}
    }
}

/// A followed cluster; dropping it stops following.
pub struct Cluster {
    name: String,
    identity: String,
    keeper: Arc<Keeper>,
    progress: Vec<Arc<Progress>>,
    /// The cluster's part in a shared quota, until the task has it that keeps the quota.
    share: Option<Share>,
    policy: watch::Sender<Arc<RetentionPolicy>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Cluster {
    /// Opens the cluster's folder, which is created if it does not exist, and follows the cluster
    /// from the stored position. Needs a tokio runtime.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn open(
        folder: &Path,
        client: &Client,
        options: ClusterOptions,
    ) -> Result<Self, ClusterError> {
        let mut cluster = Self::open_kept(folder, options.clone()).await?;
        cluster.follow(client, options);
        Ok(cluster)
    }

    /// Opens the cluster's folder without following the cluster. Events expire at their stored
    /// time; the rules and the quota have no effect.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn open_kept(folder: &Path, options: ClusterOptions) -> Result<Self, ClusterError> {
        let clock: Arc<dyn Clock> = Arc::clone(&options.store.clock);
        let mut stored = options.store;
        let shared = options
            .shared_quota
            .as_ref()
            .map(|quota| quota.equal_part());
        if let Some(quota) = options.quota.into_iter().chain(shared).min() {
            let segment_bytes = segment_bytes_max(quota);
            stored.segment_bytes = stored.segment_bytes.min(segment_bytes);
        }
        let store = open_store(folder, &options.name, stored).await?;
        let identity = identity(&store).await?;
        let mirrors = options.mirror_deletions;
        let policy = Arc::new(options.retention);
        let mut keeper = Keeper::new(store, clock, Arc::clone(&policy.keep_for), mirrors);
        keeper.set_policy(Arc::clone(&policy));
        if options.is_followed {
            hold(&keeper).await?;
        }
        let share = match &options.shared_quota {
            Some(quota) => Some(quota.join(taken(&keeper).await?, options.is_followed)),
            None => None,
        };
        keeper.journal = Journal::open(&keeper, options.seal).await?;
        if let Err(error) = keeper.delete_all_left().await {
            // The disk may be full, for example. The next start deletes them.
            tracing::warn!(%error, "older versions of deleted events are not deleted yet");
        }
        if let Some(believed) = believed_time(&keeper).await? {
            keeper.believe(believed);
        }
        if let Some(sealed) = SealedBefore::read(&*keeper.store).await? {
            keeper.set_sealed_before(sealed);
        }
        Ok(Self {
            name: options.name,
            identity,
            keeper: Arc::new(keeper),
            progress: Vec::new(),
            share,
            policy: watch::channel(policy).0,
            stop: watch::channel(false).0,
            tasks: JoinSet::new(),
        })
    }

    /// Lets the cluster continue an archive on object storage where it ends. What is sealed there
    /// is not sealed again, and the folder's own versions are sealed after it. A folder that was
    /// not followed yet begins at that position. A folder that sealed elsewhere is not changed.
    /// Until the archive names this store, this may be repeated. Following begins later, and no
    /// cursor of the feed may be open.
    ///
    /// # Errors
    /// Errors of the store. Nothing was changed.
    pub async fn continue_from(
        &mut self,
        continued: &Continued,
    ) -> Result<Continues, ClusterError> {
        let begun = continue_archive(&self.keeper, &self.identity, continued).await?;
        if let Continues::As(identity) = &begun {
            self.identity.clone_from(identity);
        }
        Ok(begun)
    }

    /// Lets everything that the folder still has be sealed again, into an archive that begins: what
    /// it sealed before is gone. Following begins later, and no cursor of the feed may be open.
    ///
    /// # Errors
    /// Errors of the store. It may be repeated.
    pub async fn seal_anew(&mut self) -> Result<(), ClusterError> {
        Ok(seal_anew(&self.keeper).await?)
    }

    /// Follows the cluster from the stored position, with the options it was opened with. Needs a
    /// tokio runtime.
    pub fn follow(&mut self, client: &Client, options: ClusterOptions) {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let clock = Arc::clone(&self.keeper.clock);
        self.keeper
            .clocks
            .get_or_init(|| Arc::clone(&options.clocks));
        let witness = Arc::new(options.clocks.witness(clock));
        for selection in options.selections {
            let namespace = selection.namespace.clone().unwrap_or_default();
            let now = self.keeper.clock.steady();
            let shown = Arc::new(Progress::new(namespace.clone(), now));
            self.progress.push(Arc::clone(&shown));
            let shell = Shell {
                name: options.name.clone(),
                namespace,
                rules: Rules {
                    page: options.page.max(1),
                    retry: (millis(options.retry.0), millis(options.retry.1)),
                    refused: 60_000,
                    slack: 2_000,
                    from_now: options.from_now,
                    selection: selection.words(),
                    authorities: options.authorities.clone(),
                },
                source: ApiServer::new(client.clone(), selection).heard_by(Arc::clone(&witness)),
                keeper: Arc::clone(&self.keeper),
                progress: shown,
                random: fastrand::Rng::new(),
            };
            self.tasks.spawn(until(self.stop.subscribe(), shell.run()));
        }
        let shared = options
            .shared_quota
            .as_ref()
            .map(|quota| quota.equal_part());
        let quota = options.quota.into_iter().chain(shared).min();
        let bounding = bound_cursors(options.name.clone(), Arc::clone(&self.keeper), quota);
        self.tasks.spawn(until(self.stop.subscribe(), bounding));
        let retaining = Retaining {
            name: options.name.clone(),
            keeper: Arc::clone(&self.keeper),
            policy: self.policy.subscribe(),
            quota: options.quota,
            share: self.share.take(),
            pause: options.store.history_retention.saturating_mul(2),
        };
        self.tasks
            .spawn(until(self.stop.subscribe(), retaining.run()));
        let expiring = keep_expiring(
            self.stop.subscribe(),
            options.name.clone(),
            options.clocks,
            Arc::clone(&self.keeper),
        );
        self.tasks.spawn(expiring);
        let sweeping = keep_sweeping(options.name, Arc::clone(&self.keeper));
        self.tasks.spawn(until(self.stop.subscribe(), sweeping));
    }

    /// Changes how long events are kept. If the cluster is followed, the policy is applied to
    /// everything that is kept: at once, or ten minutes later if it would end a tenth or more of
    /// all events, or of those of a rule or a namespace. Until then, the former policy is in force.
    pub fn retain(&self, policy: RetentionPolicy) {
        self.policy.send_if_modified(|former| {
            let is_changed = former.text != policy.text;
            *former = Arc::new(policy);
            is_changed
        });
    }

    /// Returns the cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identity of the store in which resourceVersions are valid. It is random, and
    /// created with the store.
    pub fn store_identity(&self) -> &str {
        &self.identity
    }

    /// Returns the events as an API server serves them: the newest version of each, under its name.
    /// The only possible write is a delete, which removes all versions of an event.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(ServedStore {
            keeper: Arc::clone(&self.keeper),
            numbers: Numbers::of(&self.identity),
        })
    }

    /// Returns the history: all versions, coverage and exports. Numbers that have to be counted are
    /// 0 in [`following`](tidings_history::History::following).
    pub fn history(&self) -> ClusterHistory {
        ClusterHistory {
            name: self.name.clone(),
            identity: self.identity.clone(),
            keeper: Arc::clone(&self.keeper),
            progress: self.progress.clone(),
            counted: watch::channel(Following::default()).1,
        }
    }

    /// Returns the history with numbers that are counted before this returns, and every half minute
    /// while it is held. Needs a tokio runtime.
    pub async fn counted_history(&self) -> ClusterHistory {
        self.history().counting().await
    }

    /// Returns the feed: new versions in their order, for consumers with named cursors.
    pub fn feed(&self) -> ClusterFeed {
        ClusterFeed {
            keeper: Arc::clone(&self.keeper),
        }
    }

    /// Returns the versions that wait to be sealed, if the options say that they do.
    pub fn unsealed(&self) -> Unsealed {
        Unsealed {
            keeper: Arc::clone(&self.keeper),
        }
    }

    /// Stops following, and closes the store. Consumers of the feed get errors from then on.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
        self.keeper.store.close().await;
        self.keeper.journal.wake();
    }
}
