//! All feeds of an archive: their tasks for each cluster, their states, and what is done to them by
//! name.
//!
//! Invariants: changes are made one after another, and none waits for a receiver longer than
//! [`SETTLE_MAX`] or for a skip: else a cluster could not be followed meanwhile. Nobody waits for a
//! change, for the disk or for a receiver who only reads states.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tidings_history::{CursorName, CursorStatus, Feed, FeedError, History, Offset};
use tidings_store::clock::Clock;
use tokio::task::JoinHandle;

use crate::dead::{DeadLetterSummary, DeadLetters};
use crate::options::{FEEDS_MAX, FeedOptions, cursor_name};
use crate::receiver::{Receiver, ReceiverOptions};
use crate::record::Source;
use crate::status::{FeedStatus, Shared, State};
use crate::worker::{Post, Worker};

/// Maximum wait for the writes to the files of feeds that have ended.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Why something could not be done with a feed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedsError {
    /// No feed has this name.
    #[error("there is no feed {0:?}")]
    NotFound(String),
    /// The feed cannot be removed, because the configuration still has it.
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

/// The feeds of an archive. Cheap to clone.
///
/// Dropping all clones ends all tasks. What was not committed is delivered again after the next
/// start.
#[derive(Clone)]
pub struct Feeds(Arc<Inner>);

struct Inner {
    /// Folder with a folder for each feed's dead letters.
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    /// Held while something is changed.
    changes: tokio::sync::Mutex<()>,
    /// Never held while something is awaited.
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    feeds: BTreeMap<String, Configured>,
    clusters: BTreeMap<String, Open>,
    /// The feeds of the configuration, also those that cannot begin yet.
    wanted: BTreeMap<String, FeedOptions>,
    /// Former feeds that may still write a file.
    unsettled: Vec<Configured>,
    /// Clusters and feeds that are being skipped.
    skipping: BTreeSet<(String, String)>,
}

/// A feed of the configuration.
struct Configured {
    options: FeedOptions,
    receiver: Arc<Receiver>,
    dead: Arc<DeadLetters>,
    /// Sends dead letters again.
    retry: Option<(Arc<Shared>, Task)>,
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
    fn runs(&self) -> bool {
        !self.0.is_finished()
    }

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
        Self(Arc::new(Inner {
            folder,
            clock,
            changes: tokio::sync::Mutex::default(),
            all: Mutex::default(),
        }))
    }

    /// Makes these the feeds. Changed feeds continue where they were; the cursors of feeds that are
    /// not among them stay until [`remove`](Self::remove). A feed whose cursor fails is tried
    /// again, and one whose file is still being written begins with a later
    /// [`resume`](Self::resume).
    pub async fn configure(&self, feeds: Vec<FeedOptions>) {
        let _changes = self.0.changes.lock().await;
        let feeds = feeds.into_iter().take(FEEDS_MAX);
        let feeds: BTreeMap<_, _> = feeds.map(|feed| (feed.name.clone(), feed)).collect();
        let is_former = |(name, feed): (&String, &Configured)| {
            let is_same = feeds.get(name) == Some(&feed.options);
            (!is_same).then(|| name.clone())
        };
        let former: Vec<_> = self
            .0
            .all
            .lock()
            .feeds
            .iter()
            .filter_map(is_former)
            .collect();
        // All end before one begins: feeds can have exchanged their files.
        self.end_feeds(former).await;
        self.0.all.lock().wanted = feeds;
        self.add_wanted().await;
        self.begin_all().await;
    }

    /// Begins what could not begin before, and again what has ended by a fault of the program. Does
    /// nothing while something is changed.
    pub async fn resume(&self) {
        let Ok(_changes) = self.0.changes.try_lock() else {
            return;
        };
        self.add_wanted().await;
        self.begin_all().await;
    }

    /// Begins to deliver a cluster's events. When this returns, each feed has its cursor, so it
    /// gets everything that is observed from then on. Only a feed whose cursor cannot be stored has
    /// none yet: it tries again, and its status says why. A cluster with this name is replaced.
    pub async fn start(&self, cluster: &str, feed: Arc<dyn Feed>, history: Arc<dyn History>) {
        let _changes = self.0.changes.lock().await;
        self.stop_cluster(cluster).await;
        let open = Open {
            feed,
            history,
            tasks: BTreeMap::new(),
        };
        self.0.all.lock().clusters.insert(cluster.to_owned(), open);
        self.begin_all().await;
    }

    /// Ends the delivery of a cluster's events, before its store is closed.
    pub async fn stop(&self, cluster: &str) {
        let _changes = self.0.changes.lock().await;
        self.stop_cluster(cluster).await;
    }

    /// Ends all deliveries.
    pub async fn stop_all(&self) {
        let _changes = self.0.changes.lock().await;
        for cluster in self.clusters() {
            self.stop_cluster(&cluster).await;
        }
        let feeds: Vec<_> = {
            let mut all = self.0.all.lock();
            all.wanted.clear();
            all.feeds.keys().cloned().collect()
        };
        self.end_feeds(feeds).await;
    }

    /// Returns the state of each feed in each cluster, also of feeds that are not configured any
    /// more and whose cursors exist.
    pub async fn status(&self) -> Vec<FeedStatus> {
        self.read().await.into_iter().map(|it| it.0).collect()
    }

    /// Returns states, each with what its task measured.
    pub(crate) async fn read(&self) -> Vec<(FeedStatus, Arc<Shared>)> {
        let now = self.0.clock.now();
        let mut found = Vec::new();
        for cluster in self.clusters() {
            let Some(feed) = self.0.all.lock().feed_of(&cluster) else {
                continue;
            };
            let (cursors, error) = match feed.cursors().await {
                Ok(cursors) => (cursors, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            let cursors = cursors.into_iter().map(|it| (it.name.to_string(), it));
            let cursors: BTreeMap<_, _> = cursors.collect();
            let all = self.0.all.lock();
            let Some(open) = all.clusters.get(&cluster) else {
                continue;
            };
            let names = cursors.keys().filter_map(|name| name.strip_prefix("feed-"));
            let mut names: BTreeSet<&str> = names.collect();
            names.extend(all.wanted.keys().map(String::as_str));
            for name in names {
                let is_wanted = all.wanted.contains_key(name);
                let (mut status, shared) = open.status(name, is_wanted, all.feeds.get(name));
                status.cluster.clone_from(&cluster);
                if let Some(cursor) = cursors.get(&cursor_name(name)) {
                    show(cursor, now.0, &mut status);
                }
                if let Some(error) = &error {
                    status.state = State::Retrying;
                    status.words = format!("read the backlog: {error}");
                }
                found.push((status, shared));
            }
        }
        found
    }

    /// Returns the metrics of events in Prometheus' text format, if a feed counts them.
    pub fn event_metrics(&self) -> Option<String> {
        let all = self.0.all.lock();
        let receivers: Vec<_> = all
            .feeds
            .values()
            .map(|it| Arc::clone(&it.receiver))
            .collect();
        drop(all);
        receivers
            .iter()
            .find_map(|receiver| receiver.event_metrics())
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
        let mut checks = Vec::new();
        {
            let all = self.0.all.lock();
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
            for name in names {
                if let Some(feed) = all.feeds.get(&name) {
                    let post = feed.post(&self.0.clock, Arc::default());
                    let source = source.clone();
                    let check = tokio::spawn(async move { post.check(&source).await });
                    checks.push((name, check));
                }
            }
        }
        let mut checked = Vec::new();
        for (name, check) in checks {
            let said = check.await.unwrap_or_else(|error| Err(error.to_string()));
            checked.push((name, said));
        }
        Ok(checked)
    }

    /// Returns the dead letters of a feed, the oldest first. Those that are being sent again are
    /// among them.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], and errors of the file.
    pub async fn dead_letters(&self, name: &str) -> Result<Vec<DeadLetterSummary>, FeedsError> {
        Ok(self.dead(name)?.read().await?)
    }

    /// Begins to send the dead letters of a feed again. Returns how many.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], [`FeedsError::Retrying`], and errors of the file.
    pub async fn retry(&self, name: &str) -> Result<u64, FeedsError> {
        let _changes = self.0.changes.lock().await;
        let Some(letters) = self.dead(name)?.begin_retry().await? else {
            return Err(FeedsError::Retrying(name.to_owned()));
        };
        self.begin_retry(name);
        Ok(letters)
    }

    /// Deletes the dead letters of a feed. Returns how many there were. Those that are being sent
    /// again are not sent any more.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], and errors of the file.
    pub async fn delete_dead_letters(&self, name: &str) -> Result<u64, FeedsError> {
        let changes = self.0.changes.lock().await;
        let dead = self.dead(name)?;
        let retry = {
            let mut all = self.0.all.lock();
            all.feeds.get_mut(name).and_then(|feed| feed.retry.take())
        };
        if let Some((_, task)) = retry {
            task.end().await;
        }
        // Its turn comes before that of a retry that begins now, which so finds nothing. The disk
        // delays no change.
        let mut deletion = pin!(dead.delete());
        let begun = poll_fn(|context| Poll::Ready(deletion.as_mut().poll(context))).await;
        drop(changes);
        Ok(match begun {
            Poll::Ready(deleted) => deleted?,
            Poll::Pending => deletion.await?,
        })
    }

    /// Moves the cursors of a feed to the end in all clusters. The receiver gets a record that says
    /// what was skipped. Meanwhile clusters can be started and stopped.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`], and errors of the cursors.
    pub async fn skip(&self, name: &str) -> Result<(), FeedsError> {
        self.dead(name)?;
        let cursor: CursorName = cursor_name(name).parse()?;
        let mut skipped = Ok(());
        for cluster in self.clusters() {
            let changes = self.0.changes.lock().await;
            let Some(feed) = self.0.all.lock().feed_of(&cluster) else {
                continue;
            };
            let Some(skipping) = self.begin_skip(&cluster, name) else {
                skipped = skipped.and(Err(FeedError::InUse(cursor.clone())));
                continue;
            };
            self.end_in(&cluster, name).await;
            drop(changes);
            let moved = feed.skip(cursor.clone()).await;
            drop(skipping);
            // It is delivered further, whatever failed.
            let _changes = self.0.changes.lock().await;
            self.begin(&cluster, name).await;
            skipped = skipped.and(moved.map(drop));
        }
        Ok(skipped?)
    }

    /// Prevents a feed of a cluster from beginning until the result is dropped. `None` if something
    /// else does.
    fn begin_skip(&self, cluster: &str, name: &str) -> Option<Skipping> {
        let of = (cluster.to_owned(), name.to_owned());
        let is_new = self.0.all.lock().skipping.insert(of.clone());
        is_new.then(|| Skipping(self.clone(), of))
    }

    /// Returns the text that prepares the receiver of a feed, if its form has one.
    ///
    /// # Errors
    /// [`FeedsError::NotFound`].
    pub fn template(&self, name: &str) -> Result<Option<String>, FeedsError> {
        let all = self.0.all.lock();
        let feed = all.feeds.get(name);
        let feed = feed.ok_or_else(|| FeedsError::NotFound(name.to_owned()))?;
        Ok(match &feed.options.receiver {
            ReceiverOptions::Http(_, form) => form.template(),
            _ => None,
        })
    }

    /// Removes the cursors and the dead letters of a feed that is not configured any more.
    ///
    /// # Errors
    /// [`FeedsError::Configured`], [`FeedsError::NotFound`], and errors of the cursors.
    pub async fn remove(&self, name: &str) -> Result<(), FeedsError> {
        let _changes = self.0.changes.lock().await;
        let cursor: CursorName = cursor_name(name).parse()?;
        if self.0.all.lock().wanted.contains_key(name) {
            return Err(FeedsError::Configured(name.to_owned()));
        }
        let mut is_found = false;
        for cluster in self.clusters() {
            let feed = self.0.all.lock().feed_of(&cluster);
            if let Some(feed) = feed {
                is_found |= feed.remove(cursor.clone()).await?;
            }
        }
        is_found |= DeadLetters::new(self.0.folder.join(name)).remove().await?;
        if is_found {
            Ok(())
        } else {
            Err(FeedsError::NotFound(name.to_owned()))
        }
    }

    fn clusters(&self) -> Vec<String> {
        self.0.all.lock().clusters.keys().cloned().collect()
    }

    fn dead(&self, name: &str) -> Result<Arc<DeadLetters>, FeedsError> {
        let all = self.0.all.lock();
        let feed = all.feeds.get(name);
        let dead = feed.map(|feed| Arc::clone(&feed.dead));
        dead.ok_or_else(|| FeedsError::NotFound(name.to_owned()))
    }

    /// Adds the feeds of the configuration whose files nothing writes any more.
    async fn add_wanted(&self) {
        let missing: Vec<_> = {
            let mut all = self.0.all.lock();
            all.unsettled.retain(|former| !former.is_settled());
            let wanted = all.wanted.values();
            let missing = wanted.filter(|it| !all.feeds.contains_key(&it.name));
            let can_begin = |it: &&FeedOptions| !all.unsettled.iter().any(|of| of.shares(it));
            missing.filter(can_begin).cloned().collect()
        };
        for options in missing {
            let name = options.name.clone();
            let dead = DeadLetters::new(self.0.folder.join(&name));
            if let Err(error) = dead.open().await {
                tracing::error!(feed = name, %error, "dead letters cannot be read");
            }
            let configured = Configured {
                receiver: Arc::new(Receiver::new(options.receiver.clone())),
                dead: Arc::new(dead),
                options,
                retry: None,
            };
            self.0.all.lock().feeds.insert(name, configured);
        }
        let names: Vec<_> = self.0.all.lock().feeds.keys().cloned().collect();
        for name in names {
            self.begin_retry(&name);
        }
    }

    /// Starts the tasks of all feeds in all clusters that do not run.
    async fn begin_all(&self) {
        let feeds: Vec<_> = self.0.all.lock().feeds.keys().cloned().collect();
        for cluster in self.clusters() {
            for feed in &feeds {
                self.begin(&cluster, feed).await;
            }
        }
    }

    /// Starts the task of a feed in a cluster, unless it runs.
    async fn begin(&self, cluster: &str, name: &str) {
        let shared = Arc::<Shared>::default();
        let mut worker = {
            let all = self.0.all.lock();
            let (Some(open), Some(feed)) = (all.clusters.get(cluster), all.feeds.get(name)) else {
                return;
            };
            let is_skipped = all
                .skipping
                .iter()
                .any(|(of, feed)| of == cluster && feed == name);
            if is_skipped || open.tasks.get(name).is_some_and(|(_, task)| task.runs()) {
                return;
            }
            let post = feed.post(&self.0.clock, Arc::clone(&shared));
            let what = (Arc::clone(&open.feed), Arc::clone(&open.history));
            Worker::new(post, cluster, what, feed.options.clone())
        };
        worker.open().await;
        if let Some(open) = self.0.all.lock().clusters.get_mut(cluster) {
            let task = Task(tokio::spawn(worker.run()));
            open.tasks.insert(name.to_owned(), (shared, task));
        }
    }

    /// Starts the task that sends dead letters again, if some are to be sent and it does not run.
    fn begin_retry(&self, name: &str) {
        if let Some(feed) = self.0.all.lock().feeds.get_mut(name)
            && feed.dead.count().is_retrying
            && !feed.retry.as_ref().is_some_and(|(_, task)| task.runs())
        {
            let shared = Arc::<Shared>::default();
            let post = feed.post(&self.0.clock, Arc::clone(&shared));
            feed.retry = Some((shared, Task(tokio::spawn(post.retry()))));
        }
    }

    /// Ends the task of a feed in a cluster.
    async fn end_in(&self, cluster: &str, name: &str) {
        let task = {
            let mut all = self.0.all.lock();
            let open = all.clusters.get_mut(cluster);
            open.and_then(|open| open.tasks.remove(name))
        };
        if let Some((_, task)) = task {
            task.end().await;
        }
    }

    /// Ends feeds in all clusters. When this returns, nothing writes their files, except for those
    /// that are unsettled.
    async fn end_feeds(&self, names: Vec<String>) {
        let mut ended = Vec::new();
        for name in names {
            for cluster in self.clusters() {
                self.end_in(&cluster, &name).await;
            }
            let feed = self.0.all.lock().feeds.remove(&name);
            if let Some(mut feed) = feed {
                if let Some((_, retry)) = feed.retry.take() {
                    retry.end().await;
                }
                ended.push(feed);
            }
        }
        let settled = tokio::time::timeout(SETTLE_MAX, async {
            for feed in &ended {
                feed.receiver.settle().await;
                feed.dead.settle().await;
            }
        });
        if settled.await.is_err() {
            ended.retain(|feed| !feed.is_settled());
            for Configured { options, .. } in &ended {
                let feed = &options.name;
                tracing::error!(feed, "a write to a file of the former feed does not end");
            }
            self.0.all.lock().unsettled.extend(ended);
        }
    }

    async fn stop_cluster(&self, cluster: &str) {
        let open = self.0.all.lock().clusters.remove(cluster);
        if let Some(open) = open {
            for (_, task) in open.tasks.into_values() {
                task.end().await;
            }
        }
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

/// A feed of a cluster that is being skipped, until it is dropped.
struct Skipping(Feeds, (String, String));

impl Drop for Skipping {
    fn drop(&mut self) {
        let Self(feeds, of) = self;
        feeds.0.all.lock().skipping.remove(of);
    }
}

impl Configured {
    /// Whether nothing writes its files any more, once it has ended.
    fn is_settled(&self) -> bool {
        self.receiver.is_settled() && self.dead.is_settled()
    }

    /// Whether another feed has one of its files.
    fn shares(&self, other: &FeedOptions) -> bool {
        let file = |receiver: &ReceiverOptions| match receiver {
            ReceiverOptions::File(file) => Some(file.path.clone()),
            _ => None,
        };
        let own = file(&self.options.receiver);
        self.options.name == other.name || own.is_some() && own == file(&other.receiver)
    }

    fn post(&self, clock: &Arc<dyn Clock>, shared: Arc<Shared>) -> Post {
        Post {
            receiver: Arc::clone(&self.receiver),
            dead: Arc::clone(&self.dead),
            clock: Arc::clone(clock),
            shared,
            feed: self.options.name.clone(),
        }
    }
}

impl Open {
    /// Returns the state of a feed, without what its cursor says.
    fn status(
        &self,
        name: &str,
        is_wanted: bool,
        configured: Option<&Configured>,
    ) -> (FeedStatus, Arc<Shared>) {
        let mut status = FeedStatus {
            feed: name.to_owned(),
            state: State::Off,
            ..FeedStatus::default()
        };
        if let Some(configured) = configured {
            status.dead_letters = configured.dead.count();
            let retry = configured.retry.as_ref().filter(|(_, task)| task.runs());
            status.retry = retry.map(|(shared, _)| shared.retry());
        }
        match self.tasks.get(name) {
            Some((shared, task)) if task.runs() => {
                shared.show(&mut status);
                (status, Arc::clone(shared))
            }
            _ => {
                if is_wanted {
                    status.state = State::Retrying;
                    let words = match configured {
                        Some(_) => "the feed is about to begin again",
                        None => "a write to a file of the former feed does not end",
                    };
                    words.clone_into(&mut status.words);
                }
                (status, Arc::default())
            }
        }
    }
}

impl All {
    fn feed_of(&self, cluster: &str) -> Option<Arc<dyn Feed>> {
        let open = self.clusters.get(cluster)?;
        Some(Arc::clone(&open.feed))
    }
}

#[cfg(test)]
mod tests {
    use tidings_history::Version;
    use tidings_store::UnixMillis;
    use tidings_store::clock::SystemClock;

    use super::*;
    use crate::dead::DeadLetter;
    use crate::delivery::DeadCause;
    use crate::encode::Encoder;
    use crate::encode::loki::{Loki, LokiOptions};
    use crate::encode::webhook::{Template, Webhook};
    use crate::file::FileOptions;
    use crate::http::Connection;
    use crate::receiver::Form;
    use crate::record::Record;
    use crate::testing::event;

    fn options(form: Form) -> Vec<FeedOptions> {
        let url = "http://receiver.example.org/".parse().unwrap();
        let receiver = ReceiverOptions::Http(Box::new(Connection::new(url)), form);
        vec![FeedOptions::new("feed", receiver)]
    }

    fn receiver(feeds: &Feeds) -> Arc<Receiver> {
        Arc::clone(&feeds.0.all.lock().feeds["feed"].receiver)
    }

    /// Returns whether the second configuration makes a new receiver.
    async fn restarts(first: Form, second: Form) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let feeds = Feeds::new(folder.path().to_owned(), Arc::new(SystemClock));
        feeds.configure(options(first)).await;
        let before = receiver(&feeds);
        feeds.configure(options(second)).await;
        !Arc::ptr_eq(&before, &receiver(&feeds))
    }

    #[tokio::test]
    async fn an_edited_body_makes_a_new_receiver_and_the_same_does_not() {
        let body = |text: &str| Form::Webhook(Webhook::Template(Template::parse(text).unwrap()));
        let (one, other) = ("{{ message }}", "[{{ message }}]");
        assert!(!restarts(body(one), body(one)).await);
        assert!(restarts(body(one), body(other)).await);
    }

    /// If a disk hangs, clusters are followed nevertheless, and no other feed writes the file that
    /// the former feed still writes.
    #[tokio::test(start_paused = true)]
    async fn a_write_that_does_not_end_delays_its_feed_only() {
        let folder = tempfile::tempdir().unwrap();
        let line_file = |name: &str| {
            let path = folder.path().join("events.jsonl");
            let (rotate, keep) = (1 << 20, 1);
            let options = FileOptions { path, rotate, keep };
            FeedOptions::new(name, ReceiverOptions::File(options))
        };
        let feeds = Feeds::new(folder.path().to_owned(), Arc::new(SystemClock));
        feeds.configure(vec![line_file("feed")]).await;
        let receiver = receiver(&feeds);
        let Receiver::File(file) = &*receiver else {
            panic!("a file");
        };
        let write = file.hold().await;
        let next = vec![
            line_file("next"),
            FeedOptions::new("out", ReceiverOptions::Stdout),
        ];
        let configured = tokio::time::timeout(2 * SETTLE_MAX, feeds.configure(next));
        configured.await.unwrap();
        let names = || feeds.0.all.lock().feeds.keys().cloned().collect::<Vec<_>>();
        feeds.resume().await;
        assert_eq!(names(), ["out"]);
        drop(write);
        feeds.resume().await;
        assert_eq!(names(), ["next", "out"]);
    }

    /// A receiver that refuses them would otherwise have to be there to get rid of them.
    #[tokio::test(start_paused = true)]
    async fn dead_letters_that_are_being_sent_again_can_be_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = options(Form::Webhook(Webhook::Batch));
        if let ReceiverOptions::Http(connection, _) = &mut all[0].receiver {
            connection.signature = Some(folder.path().join("absent"));
        }
        let feeds = Feeds::new(folder.path().to_owned(), Arc::new(SystemClock));
        feeds.configure(all).await;
        let source = Source {
            cluster: "prod".to_owned(),
            uid: String::new(),
        };
        let record = Record::test(UnixMillis(1), "of a test".to_owned());
        let cause = (DeadCause::Rejected, "400".to_owned());
        let letter = DeadLetter::new(&source, &record, cause, UnixMillis(2));
        let dead = feeds.dead("feed").unwrap();
        dead.append(&[letter]).await.unwrap();
        assert_eq!(feeds.retry("feed").await.unwrap(), 1);
        tokio::time::sleep(Duration::from_secs(200)).await;
        let shown = {
            let all = feeds.0.all.lock();
            let (shared, _) = all.feeds["feed"].retry.as_ref().unwrap();
            shared.retry()
        };
        assert_eq!(shown.state, State::Refused);
        assert!(shown.words.contains("absent"), "{shown:?}");
        assert_eq!(feeds.dead_letters("feed").await.unwrap().len(), 1);
        // A disk that hangs delays no other change.
        let held = dead.hold().await;
        let mut deletion = pin!(feeds.delete_dead_letters("feed"));
        let deleted = tokio::time::timeout(SETTLE_MAX, deletion.as_mut()).await;
        assert!(deleted.is_err());
        let stopped = tokio::time::timeout(SETTLE_MAX, feeds.stop("other")).await;
        assert!(stopped.is_ok());
        feeds.resume().await;
        drop(held);
        assert_eq!(deletion.await.unwrap(), 1);
        assert!(!dead.count().is_retrying);
        feeds.retry("feed").await.unwrap();
    }

    #[tokio::test]
    async fn a_loki_feed_that_was_not_edited_keeps_its_streams() {
        let loki = Loki::new(LokiOptions::default());
        let version = Version {
            uid: "u-1".into(),
            epoch: 0,
            number: 1,
            observed_at: UnixMillis(0),
            event: event("web", 1),
        };
        let record = Record::version(version, 1).unwrap();
        let source = Source {
            cluster: "prod".to_owned(),
            uid: String::new(),
        };
        loki.encode(&source, &[record]);
        let same = Loki::new(LokiOptions::default());
        assert!(!restarts(Form::Loki(loki), Form::Loki(same)).await);
        let tenant = Some(http::HeaderValue::from_static("ops"));
        let tenant = LokiOptions {
            tenant,
            ..LokiOptions::default()
        };
        let same = Loki::new(LokiOptions::default());
        assert!(restarts(Form::Loki(same), Form::Loki(Loki::new(tenant))).await);
    }
}
