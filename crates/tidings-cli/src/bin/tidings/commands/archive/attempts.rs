//! Attempts to open and connect to clusters, each in its own task: none waits for another.
//!
//! Invariants: there is at most one attempt for a cluster. An attempt that is replaced or no longer
//! wanted ends at once, and its credential program is killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidings_cli::clusters::ClusterSetting;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, Id, JoinSet};

use super::clusters::{ClusterError, Defaults};
use super::opened::{OPENED_AT_ONCE, Opened, open, source_of};
use super::renamed;
use super::source::Source;

/// The result of an attempt.
pub(super) enum Came {
    /// The cluster's store was opened and, unless nothing is to be followed, its source was
    /// connected to.
    Opened(Opened),
    /// A cluster that is already followed was connected to with new settings or credentials.
    Connected(Result<Source, ClusterError>),
}

/// A finished attempt.
pub(super) struct Done {
    pub(super) setting: ClusterSetting,
    /// A hash of the cluster's kubeconfigs, taken before the attempt.
    pub(super) said: Option<u64>,
    pub(super) came: Came,
}

struct Running {
    setting: ClusterSetting,
    said: Option<u64>,
    task: AbortHandle,
}

/// All running attempts.
pub(super) struct Attempts {
    data_dir: PathBuf,
    defaults: Arc<Defaults>,
    /// Bounds the stores that are opened at the same time, because opening takes memory.
    places: Arc<Semaphore>,
    running: BTreeMap<String, Running>,
    tasks: JoinSet<Came>,
}

impl Attempts {
    pub(super) fn new(data_dir: &Path, defaults: Arc<Defaults>) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            defaults,
            places: Arc::new(Semaphore::new(OPENED_AT_ONCE)),
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether an attempt with this setting and this hash of kubeconfigs is running.
    pub(super) fn has(&self, setting: &ClusterSetting, said: Option<u64>) -> bool {
        let running = self.running.get(&setting.name);
        running.is_some_and(|running| running.setting == *setting && running.said == said)
    }

    /// Starts to open a cluster, one of those `wanted`, and to follow it: from `source` if that is
    /// connected already.
    pub(super) fn open(
        &mut self,
        setting: ClusterSetting,
        said: Option<u64>,
        source: Option<Source>,
        wanted: &[ClusterSetting],
    ) {
        let wanted: Vec<String> = wanted.iter().map(|setting| setting.name.clone()).collect();
        let (data_dir, defaults) = (self.data_dir.clone(), Arc::clone(&self.defaults));
        let places = Arc::clone(&self.places);
        let opened = setting.clone();
        let work = async move {
            let source = match source {
                None => match source_of(&defaults, &opened).await {
                    Ok(source) => source,
                    Err(error) => return Came::Opened(Err(error.into())),
                },
                connected => connected,
            };
            let _place = places.acquire().await;
            if let Some(source) = &source {
                let checked = renamed::check(&data_dir, &defaults, (&opened, source), &wanted);
                if let Err(error) = checked.await {
                    return Came::Opened(Err(error.into()));
                }
            }
            Came::Opened(open(&data_dir, &defaults, &opened, source, wanted.len()).await)
        };
        self.begin(setting, said, work);
    }

    /// Starts to connect to a cluster that is already followed.
    pub(super) fn connect(&mut self, setting: ClusterSetting, said: Option<u64>) {
        let (defaults, connected) = (Arc::clone(&self.defaults), setting.clone());
        let work = async move { Came::Connected(defaults.connect(&connected).await) };
        self.begin(setting, said, work);
    }

    fn begin(
        &mut self,
        setting: ClusterSetting,
        said: Option<u64>,
        work: impl Future<Output = Came> + Send + 'static,
    ) {
        let task = self.tasks.spawn(work);
        let name = setting.name.clone();
        let running = Running {
            setting,
            said,
            task,
        };
        if let Some(former) = self.running.insert(name, running) {
            former.task.abort();
        }
    }

    /// Cancels the attempts for all clusters that are not wanted.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.running.retain(|name, running| {
            let is_wanted = is_wanted(name);
            if !is_wanted {
                running.task.abort();
            }
            is_wanted
        });
    }

    /// Waits for the next finished attempt. Cancelling the wait loses nothing.
    pub(super) async fn next(&mut self) -> Done {
        loop {
            let (id, came) = match self.tasks.join_next_with_id().await {
                Some(Ok((id, came))) => (id, came),
                // The attempt was cancelled, or it panicked, and the log says how.
                Some(Err(error)) => {
                    let why = "following it panicked; the log says how";
                    (error.id(), Came::Opened(Err(why.into())))
                }
                None => std::future::pending().await,
            };
            // A cancelled attempt is ignored, even if it had finished already.
            if let Some(running) = self.take(id) {
                return Done {
                    setting: running.setting,
                    said: running.said,
                    came,
                };
            }
        }
    }

    fn take(&mut self, id: Id) -> Option<Running> {
        let mut running = self.running.iter();
        let (name, _) = running.find(|(_, running)| running.task.id() == id)?;
        let name = name.clone();
        self.running.remove(&name)
    }
}
