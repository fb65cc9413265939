//! All feeds of an archive: their tasks for each cluster, their states, and what is done to them by
//! name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tidings_history::{CursorStatus, Feed, FeedError, History, Offset};
use tidings_store::clock::Clock;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::dead::{DeadLetter, DeadLetters};
use crate::options::{FEEDS_MAX, FeedOptions, cursor_name};
use crate::receiver::{Receiver, ReceiverOptions};
use crate::record::Source;
use crate::status::{FeedStatus, Shared, State};
use crate::worker::{Post, Worker};

/// Why something could not be done with a feed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedsError {
    /// No feed has this name.
    #[error("there is no feed {0:?}")]
    NotFound(String),
    /// The feed is in the configuration.
    #[error("the feed {0:?} is in the configuration")]
    Configured(String),
    /// Dead letters of the feed are already being sent again.
    #[error("dead letters of the feed {0:?} are being sent again")]
    Retrying(String),
    /// A cursor could not be used.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The files of dead letters could not be used.
    #[error("dead letters: {0}")]
    DeadLetters(#[from] std::io::Error),
}

/// The feeds of an archive.
///
/// Dropping it ends all tasks. What was not committed is delivered again after the next start.
pub struct Feeds {
    /// Folder with a folder for each feed's dead letters.
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    feeds: BTreeMap<String, Configured>,
    clusters: BTreeMap<String, Open>,
}

/// A feed of the configuration.
struct Configured {
    options: FeedOptions,
    receiver: Arc<Receiver>,
    dead: Arc<DeadLetters>,
    /// Sends dead letters again.
    retry: Option<Task>,
}

/// A cluster whose feeds are delivered.
struct Open {
    feed: Arc<dyn Feed>,
    history: Arc<dyn History>,
    tasks: BTreeMap<String, (Arc<Shared>, Task)>,
}

/// A task that ends when it is dropped.
struct Task(JoinHandle<()>);

impl Task {
    /// Ends the task. When this returns, it holds no cursor.
    async fn end(mut self) {
        self.0.abort();
        // The error says that it was aborted.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Feeds {
    /// Makes feeds without clusters. The folder has the dead letters. Needs a tokio runtime.
    pub fn new(folder: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self {
            folder,
            clock,
            all: Mutex::default(),
        }
    }

    /// Makes these the feeds. Changed feeds continue where they were; the cursors of feeds that are
    /// not among them stay until [`remove`](Self::remove). A feed whose cursor fails is tried
    /// again.
    pub async fn configure(&self, feeds: Vec<FeedOptions>) {
        let mut all = self.all.lock().await;
        let all = &mut *all;
        let names: BTreeSet<_> = feeds.iter().map(|feed| feed.name.clone()).collect();
        let unwanted = all.feeds.keys().filter(|name| !names.contains(*name));
        for name in unwanted.cloned().collect::<Vec<_>>() {
            all.end(&name).await;
        }
        for options in feeds.into_iter().take(FEEDS_MAX) {
            let name = options.name.clone();
            let former = all.feeds.get(&name).map(|it| format!("{:?}", it.options));
            if former != Some(format!("{options:?}")) {
                all.end(&name).await;
                let configured = Configured {
                    receiver: Arc::new(Receiver::new(options.receiver.clone())),
                    dead: Arc::new(DeadLetters::new(self.folder.join(&name))),
                    options,
                    retry: None,
                };
                all.feeds.insert(name.clone(), configured);
            }
            for cluster in all.clusters.keys().cloned().collect::<Vec<_>>() {
                all.begin(&cluster, &name, &self.clock).await;
            }
            if let Some(feed) = all.feeds.get_mut(&name)
                && feed.retry.is_none()
                && feed.dead.count().is_ok_and(|count| count.is_retrying)
            {
                feed.begin_retry(&self.clock);
            }
        }
    }

    /// Begins to deliver a cluster's events. When this returns, all cursors exist, so nothing that
    /// is observed from then on is missed. A feed whose cursor fails is tried again, and its status
    /// says why. A cluster with this name is replaced.
    pub async fn start(&self, cluster: &str, feed: Arc<dyn Feed>, history: Arc<dyn History>) {
        let mut all = self.all.lock().await;
        all.stop(cluster).await;
        let open = Open {
            feed,
            history,
            tasks: BTreeMap::new(),
        };
        all.clusters.insert(cluster.to_owned(), open);
        for name in all.feeds.keys().cloned().collect::<Vec<_>>() {
            all.begin(cluster, &name, &self.clock).await;
        }
    }

    /// Ends the delivery of a cluster's events, before its store is closed.
    pub async fn stop(&self, cluster: &str) {
        self.all.lock().await.stop(cluster).await;
    }

    /// Ends all deliveries.
    pub async fn stop_all(&self) {
        let mut all = self.all.lock().await;
        for cluster in all.clusters.keys().cloned().collect::<Vec<_>>() {
            all.stop(&cluster).await;
        }
        for feed in all.feeds.values_mut() {
            if let Some(retry) = feed.retry.take() {
                retry.end().await;
            }
        }
    }

    /// Returns the state of each feed in each cluster, also of feeds that are not configured any
    /// more and whose cursors exist.
    ///
    /// # Errors
    /// Errors of the stores and of the files of dead letters.
    pub async fn status(&self) -> Result<Vec<FeedStatus>, FeedsError> {
        Ok(self.read().await?.into_iter().map(|it| it.0).collect())
    }

    /// Returns states, each with what its task measured.
    pub(crate) async fn read(&self) -> Result<Vec<(FeedStatus, Arc<Shared>)>, FeedsError> {
        let all = self.all.lock().await;
        let now = self.clock.now().0;
        let mut found = Vec::new();
        for (cluster, open) in &all.clusters {
            let cursors: BTreeMap<_, _> = open
                .feed
                .cursors()
                .await?
                .into_iter()
                .map(|cursor| (cursor.name.to_string(), cursor))
                .collect();
            let names = cursors.keys().filter_map(|name| name.strip_prefix("feed-"));
            let mut names: BTreeSet<&str> = names.collect();
            names.extend(all.feeds.keys().map(String::as_str));
            for name in names {
                let mut status = FeedStatus {
                    cluster: cluster.clone(),
                    feed: name.to_owned(),
                    state: State::Off,
                    ..FeedStatus::default()
                };
                if let Some(cursor) = cursors.get(&cursor_name(name)) {
                    show(cursor, now, &mut status);
                }
                if let Some(configured) = all.feeds.get(name) {
                    status.dead_letters = configured.dead.count()?;
                }
                let shared = match open.tasks.get(name) {
                    Some((shared, _)) => Arc::clone(shared),
                    None => Arc::default(),
                };
                if open.tasks.contains_key(name) {
                    shared.show(&mut status);
                }
                found.push((status, shared));
            }
        }
        Ok(found)
    }

    /// Returns the metrics of events in Prometheus' text format, if a feed counts them.
    pub async fn event_metrics(&self) -> Option<String> {
        let all = self.all.lock().await;
        all.feeds
            .values()
            .find_map(|feed| feed.receiver.event_metrics())
    }

    /// Sends a test record to the receiver of each feed, or of one. Returns the receiver's words if
    /// it did not take it.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`].
    pub async fn check(
        &self,
        name: Option<&str>,
    ) -> Result<Vec<(String, Result<(), String>)>, FeedsError> {
        let all = self.all.lock().await;
        let is_wanted = |feed: &&String| name.is_none_or(|name| name == *feed);
        let names: Vec<_> = all.feeds.keys().filter(is_wanted).cloned().collect();
        if let (Some(name), true) = (name, names.is_empty()) {
            return Err(FeedsError::NotFound(name.to_owned()));
        }
        let cluster = all.clusters.keys().next().cloned();
        let source = Source {
            cluster: cluster.unwrap_or_else(|| "none".to_owned()),
            uid: String::new(),
        };
        let mut posts = Vec::new();
        for name in names {
            if let Some(feed) = all.feeds.get(&name) {
                posts.push((name, feed.post(&self.clock, Arc::default())));
            }
        }
        drop(all);
        let mut checked = Vec::new();
        for (name, post) in posts {
            checked.push((name, post.check(&source).await));
        }
        Ok(checked)
    }

    /// Returns the dead letters of a feed, the oldest first.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], and errors of the file.
    pub async fn dead_letters(&self, name: &str) -> Result<Vec<DeadLetter>, FeedsError> {
        Ok(self.all.lock().await.feed(name)?.dead.read()?)
    }

    /// Begins to send the dead letters of a feed again. Returns how many.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], [`FeedsError::Retrying`], and errors of the file.
    pub async fn retry(&self, name: &str) -> Result<u64, FeedsError> {
        let mut all = self.all.lock().await;
        let feed = all.feed(name)?;
        let Some(letters) = feed.dead.begin_retry()? else {
            return Err(FeedsError::Retrying(name.to_owned()));
        };
        if letters > 0 {
            feed.begin_retry(&self.clock);
        }
        Ok(letters)
    }

    /// Deletes the dead letters of a feed. Returns how many there were.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], and errors of the file.
    pub async fn delete_dead_letters(&self, name: &str) -> Result<u64, FeedsError> {
        Ok(self.all.lock().await.feed(name)?.dead.delete()?)
    }

    /// Moves the cursors of a feed to the end in all clusters. The receiver gets a record that says
    /// what was skipped.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], and errors of the cursors.
    pub async fn skip(&self, name: &str) -> Result<(), FeedsError> {
        let mut all = self.all.lock().await;
        all.feed(name)?;
        let mut skipped = Ok(());
        for cluster in all.clusters.keys().cloned().collect::<Vec<_>>() {
            let Some(open) = all.clusters.get_mut(&cluster) else {
                continue;
            };
            if let Some((_, task)) = open.tasks.remove(name) {
                task.end().await;
            }
            let moved = open.feed.skip(cursor_name(name).parse()?).await;
            // It is delivered further, whatever failed.
            all.begin(&cluster, name, &self.clock).await;
            skipped = skipped.and(moved.map(drop));
        }
        Ok(skipped?)
    }

    /// Returns the text that prepares the receiver of a feed, if its form has one.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`].
    pub async fn template(&self, name: &str) -> Result<Option<String>, FeedsError> {
        let mut all = self.all.lock().await;
        Ok(match &all.feed(name)?.options.receiver {
            ReceiverOptions::Http(_, form) => form.template(),
            _ => None,
        })
    }

    /// Removes the cursors and the dead letters of a feed that is not configured any more.
    ///
    /// # Errors
    /// [`FeedsError::Configured`], [`FeedsError::NotFound`], and errors of the cursors.
    pub async fn remove(&self, name: &str) -> Result<(), FeedsError> {
        let all = self.all.lock().await;
        if all.feeds.contains_key(name) {
            return Err(FeedsError::Configured(name.to_owned()));
        }
        let mut is_found = false;
        for open in all.clusters.values() {
            is_found |= open.feed.remove(cursor_name(name).parse()?).await?;
        }
        if !is_found {
            return Err(FeedsError::NotFound(name.to_owned()));
        }
        Ok(DeadLetters::new(self.folder.join(name)).remove()?)
    }
}

/// Fills in what the cursor says.
fn show(cursor: &CursorStatus, now: i64, status: &mut FeedStatus) {
    status.backlog_versions = cursor.versions;
    status.backlog_bytes = cursor.bytes;
    let oldest = cursor.oldest.filter(|_| cursor.versions > 0);
    let age = oldest.map_or(0, |oldest| now.saturating_sub(oldest.0).max(0));
    status.backlog_seconds = age as f64 / 1000.0;
    status.is_in_history = matches!(cursor.through, Offset::History(_));
}

impl Configured {
    fn post(&self, clock: &Arc<dyn Clock>, shared: Arc<Shared>) -> Post {
        Post {
            receiver: Arc::clone(&self.receiver),
            dead: Arc::clone(&self.dead),
            clock: Arc::clone(clock),
            shared,
            feed: self.options.name.clone(),
        }
    }

    fn begin_retry(&mut self, clock: &Arc<dyn Clock>) {
        let post = self.post(clock, Arc::default());
        let task = async move {
            if let Err(error) = post.retry().await {
                let feed = post.feed;
                tracing::error!(feed, %error, "dead letters are not sent again");
            }
        };
        self.retry = Some(Task(tokio::spawn(task)));
    }
}

impl All {
    fn feed(&mut self, name: &str) -> Result<&mut Configured, FeedsError> {
        let feed = self.feeds.get_mut(name);
        feed.ok_or_else(|| FeedsError::NotFound(name.to_owned()))
    }

    /// Starts the task of a feed in a cluster, unless it runs.
    async fn begin(&mut self, cluster: &str, name: &str, clock: &Arc<dyn Clock>) {
        let (Some(open), Some(feed)) = (self.clusters.get_mut(cluster), self.feeds.get(name))
        else {
            return;
        };
        let is_running = |task: &(Arc<Shared>, Task)| !task.1.0.is_finished();
        if open.tasks.get(name).is_some_and(is_running) {
            return;
        }
        let shared = Arc::<Shared>::default();
        let post = feed.post(clock, Arc::clone(&shared));
        let what = (Arc::clone(&open.feed), Arc::clone(&open.history));
        let mut worker = Worker::new(post, cluster, what, feed.options.clone());
        worker.open().await;
        let task = Task(tokio::spawn(worker.run()));
        open.tasks.insert(name.to_owned(), (shared, task));
    }

    /// Ends a feed in all clusters.
    async fn end(&mut self, name: &str) {
        for open in self.clusters.values_mut() {
            if let Some((_, task)) = open.tasks.remove(name) {
                task.end().await;
            }
        }
        if let Some(mut feed) = self.feeds.remove(name)
            && let Some(retry) = feed.retry.take()
        {
            retry.end().await;
        }
    }

    async fn stop(&mut self, cluster: &str) {
        if let Some(open) = self.clusters.remove(cluster) {
            for (_, task) in open.tasks.into_values() {
                task.end().await;
            }
        }
    }
}
