//! Clusters that are being connected to and opened, each in a task of its own: none waits for
//! another.
//!
//! Invariants: there is one attempt of a cluster at most. One that is replaced or not wanted any
//! more ends at once, and the program that it waits for is killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidings_cli::clusters::ClusterSetting;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, Id, JoinSet};

use super::clusters::{ClusterError, Defaults};
use super::opened::{OPENED_AT_ONCE, Opened, open, source_of};
use super::source::Source;

/// What came of an attempt.
pub(super) enum Came {
    /// What is kept of a cluster was opened, and it is followed, if it is to be.
    Opened(Opened),
    /// A cluster that is followed already was connected to anew.
    Connected(Result<Source, ClusterError>),
}

/// An attempt that is done.
pub(super) struct Done {
    pub(super) setting: ClusterSetting,
    /// What its kubeconfigs said before: a hash.
    pub(super) said: Option<u64>,
    pub(super) came: Came,
}

struct Running {
    setting: ClusterSetting,
    said: Option<u64>,
    task: AbortHandle,
}

/// See the module documentation.
pub(super) struct Attempts {
    data_dir: PathBuf,
    defaults: Arc<Defaults>,
    /// Opening a store takes memory.
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

    /// Whether a cluster is tried with this setting, and what is said of it now.
    pub(super) fn has(&self, setting: &ClusterSetting, said: Option<u64>) -> bool {
        let running = self.running.get(&setting.name);
        running.is_some_and(|running| running.setting == *setting && running.said == said)
    }

    /// Opens a cluster, one of this number, and follows it; from a source that is connected to
    /// already, if there is one.
    pub(super) fn open(
        &mut self,
        setting: ClusterSetting,
        said: Option<u64>,
        source: Option<Source>,
        clusters: usize,
    ) {
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
            Came::Opened(open(&data_dir, &defaults, &opened, source, clusters).await)
        };
        self.begin(setting, said, work);
    }

    /// Connects to a cluster that is followed already.
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

    /// Gives up the attempts of other clusters than these.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.running.retain(|name, running| {
            let is_wanted = is_wanted(name);
            if !is_wanted {
                running.task.abort();
            }
            is_wanted
        });
    }

    /// The next attempt that is done, once there is one. Nothing is lost if this is not waited for.
    pub(super) async fn next(&mut self) -> Done {
        loop {
            let (id, came) = match self.tasks.join_next_with_id().await {
                Some(Ok((id, came))) => (id, came),
                // It was given up, or it panicked, and the log says how.
                Some(Err(error)) => {
                    let why = "following it panicked; the log says how";
                    (error.id(), Came::Opened(Err(why.into())))
                }
                None => std::future::pending().await,
            };
            // What was given up does not count, also if it was done already.
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
