//! One cluster of a sealed archive, as its newest manifest describes it.
//!
//! If pending versions are asked for, they belong to it as well. Former views are remembered for
//! lists that continue.
//!
//! Invariants: a read sees one whole view: a manifest, and the pending versions after it up to one
//! entry. A known manifest is replaced only by one with a greater number. Pending versions that
//! were shown are sealed by then or are shown further, unless another data folder has taken over.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use object_store::Error;
use parking_lot::{Mutex, RwLock};
use tidings_history::ObjectRequests;
use tidings_store::{At, ReadError, Revision};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64;

use crate::folder::{Folder, FolderError, Listed, Newest, Readable};
use crate::manifest::Manifest;
use crate::place::Place;
use crate::reader::fault::Fault;
use crate::reader::pending::changes::{New, News, Steps, Told};
use crate::reader::pending::tail::{self, Tail};
use crate::reader::pending::{Listening, More, WaitingSource};
use crate::reader::plan::{Named, View};
use crate::reader::scan::{Counters, Fetch, Shared};

/// Number of views remembered for lists that continue; others are read again, as far as possible.
const FORMER_MAX: usize = 64;
/// Number of watches at once that continue from what another reader showed, which takes requests.
const RESUMING_MAX: usize = 4;
/// Maximum time of a look for a newer manifest.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// The object storage failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The object storage did not answer in time.
    #[error("no answer within {} s", LOOK_MAX.as_secs())]
    Slow,
    /// The newest manifest cannot be read, and the one before it may not stand in for it.
    #[error("the newest manifest cannot be read: {0}")]
    Unreadable(Arc<FolderError>),
    /// The archive has no manifest any more.
    #[error("there is no archive of {cluster:?}")]
    None {
        /// The cluster's name.
        cluster: String,
    },
}

/// One cluster of a sealed archive; see the module documentation.
pub(in crate::reader) struct Sealed {
    pub(in crate::reader) name: Arc<str>,
    /// A hash of place and name. It is the same for every reader, and stays the same after a
    /// writer's data folder was lost.
    pub(in crate::reader) identity: String,
    folder: Arc<Folder>,
    fetch: Fetch,
    newest: RwLock<Arc<View>>,
    /// Former views, the latest first.
    former: Mutex<VecDeque<Arc<View>>>,
    /// Maximum bytes of the former views: of their manifests and pending versions.
    former_bytes_max: u64,
    /// The newest manifest as it was listed before it was read and shown. While it is listed like
    /// that, it is not read again.
    seen: Mutex<Option<Listed>>,
    /// Why the last look for a manifest failed, if it did.
    failure: Mutex<Option<String>>,
    /// Why nothing may be read: an unreadable manifest may have deleted events that are still
    /// shown.
    withheld: Mutex<Option<Arc<FolderError>>>,
    /// The source of pending versions, if they are asked for.
    pub(in crate::reader) listening: Option<Listening>,
    /// The revision of the newest view.
    revision: watch::Sender<Revision>,
    /// What was new in the latest views.
    steps: Mutex<Steps>,
    /// The changes last delivered to watchers.
    pub(in crate::reader) told: tokio::sync::Mutex<Option<Told>>,
    /// Permits for watches that continue from what another reader showed.
    pub(in crate::reader) resuming: Semaphore,
}

async fn newest(folder: &Folder, counters: &Counters, cluster: &str) -> Result<Newest, LookError> {
    // One request lists the manifests, the other reads the newest.
    counters.requests.fetch_add(2, Ordering::Relaxed);
    let found = timeout(LOOK_MAX, folder.newest_readable()).await;
    let found = found.map_err(|_| LookError::Slow).and_then(|it| Ok(it?));
    if !matches!(found, Ok(None | Some(Newest::Readable(_)))) {
        counters.failed.fetch_add(1, Ordering::Relaxed);
    }
    found?.ok_or_else(|| LookError::None {
        cluster: cluster.to_owned(),
    })
}

/// Returns the message that a newer manifest cannot be read, and which one is shown instead.
fn stands_in(manifest: &Manifest, newer: &FolderError) -> String {
    format!(
        "manifest {} is shown, as a newer one cannot be read: {newer}",
        manifest.number
    )
}

/// Returns whether nothing was deleted between two manifests of the same store. A watcher who was
/// shown an event that was deleted, sealed or pending, has to list again.
fn has_all_of(newer: &Manifest, manifest: &Manifest) -> bool {
    let of = |manifest: &Manifest| (manifest.forgotten, manifest.gone);
    newer.writer == manifest.writer && of(newer) == of(manifest)
}

impl Sealed {
    /// Opens a cluster as its newest manifest describes it.
    pub(in crate::reader) async fn open(
        place: &Place,
        name: &str,
        shared: Arc<Shared>,
        (source, waiting_bytes): (Option<Arc<dyn WaitingSource>>, u64),
    ) -> Result<Self, LookError> {
        let (name, folder): (Arc<str>, _) = (name.into(), Arc::new(Folder::new(place, name)));
        let fetch = Fetch {
            shared,
            counters: Arc::new(Counters::default()),
        };
        let found = newest(&folder, &fetch.counters, &name).await?;
        let Readable { manifest, newer } = match found {
            Newest::Readable(found) => *found,
            Newest::Unreadable(found) => return Err(LookError::Unreadable(Arc::new(found.error))),
        };
        let failure = newer.map(|newer| stands_in(&manifest, &newer));
        if let Some(why) = &failure {
            tracing::error!(cluster = &*name, why, "the newest manifest cannot be read");
        }
        let tail = Tail::behind(&manifest);
        let named = Arc::new(Named::new(&folder, manifest));
        let view = View::new(named, tail, fetch.clone());
        let listening = source.map(|source| Listening::to(source, (&folder, &name), waiting_bytes));
        Ok(Self {
            identity: format!(
                "{:016x}",
                xxh3_64(format!("{}/{name}", place.url()).as_bytes())
            ),
            name,
            folder,
            fetch,
            revision: watch::Sender::new(view.revision()),
            newest: RwLock::new(Arc::new(view)),
            former: Mutex::default(),
            former_bytes_max: waiting_bytes,
            seen: Mutex::default(),
            failure: Mutex::new(failure),
            withheld: Mutex::default(),
            steps: Mutex::default(),
            told: tokio::sync::Mutex::default(),
            resuming: Semaphore::new(RESUMING_MAX),
            listening,
        })
    }

    /// Returns the counts of requests to object storage.
    pub(in crate::reader) fn requests(&self) -> ObjectRequests {
        let counters = &self.fetch.counters;
        ObjectRequests {
            requests: counters.requests.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
        }
    }

    pub(in crate::reader) fn newest(&self) -> Arc<View> {
        Arc::clone(&self.newest.read())
    }

    /// Replaces the view `of` by one made from it; returns `false` if `of` is no longer the newest.
    pub(in crate::reader) fn replace(&self, of: &Arc<View>, view: View, news: News) -> bool {
        let mut newest = self.newest.write();
        if !Arc::ptr_eq(of, &newest) {
            return false;
        }
        let revision = view.revision();
        self.steps.lock().add(of.revision(), revision, news);
        *newest = Arc::new(view);
        // Sent under the lock, before another view is set: otherwise an older revision might be
        // sent last.
        self.revision.send_if_modified(|before| {
            let is_other = *before != revision;
            *before = revision;
            is_other
        });
        true
    }

    /// Looks for a newer manifest, and shows it if it can. It is not shown yet if it seals only
    /// some of the pending versions that are shown, and the archive that has the others does not
    /// answer.
    pub(in crate::reader) async fn look(&self) -> Result<(), LookError> {
        self.look_for(false).await
    }

    /// Looks for a newer manifest; if it has to be shown, then without pending versions that cannot
    /// be had.
    async fn look_for(&self, has_to: bool) -> Result<(), LookError> {
        let listed = self.listed().await;
        let is_seen = listed.is_some() && *self.seen.lock() == listed;
        // Another look, which ended before the one that saw it, may have failed.
        if is_seen && self.failure.lock().is_none() && self.withheld.lock().is_none() {
            return Ok(());
        }
        *self.seen.lock() = None;
        let found = newest(&self.folder, &self.fetch.counters, &self.name).await;
        let failure = match &found {
            Ok(Newest::Readable(found)) => {
                *self.withheld.lock() = None;
                let newer = found.newer.as_ref();
                newer.map(|newer| stands_in(&found.manifest, newer))
            }
            Ok(Newest::Unreadable(found)) => Some(found.error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let before = std::mem::replace(&mut *self.failure.lock(), failure.clone());
        let found = match found? {
            Newest::Readable(found) => found,
            Newest::Unreadable(found) => {
                // The manifest that is shown may still have the deleted events.
                let has_all = found.has_all_of(self.newest().manifest());
                let error = Arc::new(found.error);
                *self.withheld.lock() = (!has_all).then(|| Arc::clone(&error));
                return Err(LookError::Unreadable(error));
            }
        };
        if let Some(why) = failure.filter(|why| before.as_ref() != Some(why)) {
            let cluster = &*self.name;
            tracing::error!(cluster, why, "the newest manifest cannot be read");
        }
        let is_newest = found.newer.is_none();
        let named = Arc::new(Named::new(&self.folder, found.manifest));
        let listed = listed.filter(|it| is_newest && it.number == named.manifest().number);
        loop {
            let now = self.newest();
            if named.manifest().number <= now.manifest().number {
                *self.seen.lock() = listed;
                return Ok(());
            }
            if !has_to && self.catch_up(&now, named.manifest()).await {
                continue;
            }
            let (tail, news) = match self.moved(&now, named.manifest()).await {
                Some(moved) => moved,
                None if has_to => (Tail::behind(named.manifest()), News::Unknown),
                None => return Ok(()),
            };
            let view = View::new(Arc::clone(&named), tail, self.fetch.clone());
            if self.replace(&now, view, news) {
                *self.seen.lock() = listed;
                return Ok(());
            }
        }
    }

    /// The newest manifest as the storage lists it; `None` if there is none, or no answer.
    async fn listed(&self) -> Option<Listed> {
        let counters = &self.fetch.counters;
        counters.requests.fetch_add(1, Ordering::Relaxed);
        let listed = timeout(LOOK_MAX, self.folder.newest_listed()).await;
        listed.ok()?.ok()?
    }

    /// Shows the remaining entries of the shown manifest that a newer manifest seals. This has to
    /// happen while the archive still has them: in a sealed file a watcher could not tell them from
    /// what it was shown. Returns whether another view is shown now.
    async fn catch_up(&self, now: &Arc<View>, manifest: &Manifest) -> bool {
        let Some(listening) = &self.listening else {
            return false;
        };
        let through = manifest.sealed_through;
        if now.tail().reached() >= through || !has_all_of(manifest, now.manifest()) {
            return false;
        }
        // The newer manifest does not wait for an archive that does not answer.
        if listening.failure.lock().is_some() {
            return false;
        }
        let tail = now.tail().clone();
        match listening.more(now.manifest(), tail, Some(through)).await {
            Ok(More::Tail(tail, new)) if tail.reached() >= through => {
                // If this fails, another view took the place of this one.
                self.replace(now, now.with(tail), News::Parts(new));
                true
            }
            Ok(_) => false,
            Err(error) => {
                *listening.failure.lock() = Some(error.to_string());
                false
            }
        }
    }

    /// Returns the pending versions after a newer manifest, and what is new with it. `None` if that
    /// cannot be known now.
    async fn moved(&self, now: &View, manifest: &Manifest) -> Option<(Tail, News)> {
        // Entry numbers of another store belong to another feed.
        if now.manifest().writer != manifest.writer {
            return Some((Tail::behind(manifest), News::Unknown));
        }
        let has_all = has_all_of(manifest, now.manifest());
        let news = if has_all && now.tail().reached() >= manifest.sealed_through {
            News::Parts(Vec::new())
        } else {
            News::Unknown
        };
        let moved = now.tail().moved(manifest);
        let tail = moved.tail.clone();
        let Some((to, listening)) = moved.to.zip(self.listening.as_ref()) else {
            return Some((moved.end(tail), news));
        };
        match listening.more(manifest, tail, Some(to)).await {
            Ok(More::Tail(tail, _)) if tail.reached() >= to => Some((moved.end(tail), news)),
            Ok(_) => None,
            Err(error) => {
                *listening.failure.lock() = Some(error.to_string());
                None
            }
        }
    }

    /// Remembers a view for a list that may continue.
    pub(in crate::reader) fn remember(&self, view: Arc<View>) {
        let newest = self.newest();
        let mut former = self.former.lock();
        former.retain(|known| known.revision() != view.revision());
        former.push_front(view);
        former.truncate(FORMER_MAX);
        let mut bytes = 0;
        // One view is kept, however large it is.
        let fit = former.iter().enumerate().take_while(|(number, view)| {
            bytes += view.tail().bytes() + view.bytes_beside(&newest);
            *number == 0 || bytes <= self.former_bytes_max
        });
        let fit = fit.count();
        former.truncate(fit);
    }

    /// Forgets every view with pending versions, since some of their events were deleted. Lists
    /// that continue request theirs again.
    pub(in crate::reader) async fn forget_waiting(&self) {
        *self.told.lock().await = None;
        *self.steps.lock() = Steps::default();
        let mut former = self.former.lock();
        former.retain(|view| view.tail().parts().is_empty());
    }

    /// Runs a read on the view of a revision. If a file is gone, its manifest is too old: the read
    /// is repeated on the newest view or fails as compacted.
    pub(in crate::reader) async fn read<T, R: Future<Output = Result<T, Fault>>>(
        &self,
        at: At,
        read: impl Fn(Arc<View>) -> R,
    ) -> Result<T, ReadError> {
        // The semaphore is never closed.
        let _place = self.fetch.shared.reads.acquire().await.ok();
        if let Some(error) = self.withheld.lock().clone() {
            return Err(tidings_store::Fault::Storage(error).into());
        }
        let view = self.view(at).await?;
        let done = read(Arc::clone(&view)).await;
        let number = view.manifest().number;
        match done {
            Err(fault) if fault.is_gone() => {}
            done => return Ok(done?),
        }
        // If this manifest is not the newest, a newer one names other files.
        drop(self.look_for(true).await);
        let newest = self.newest();
        match at {
            At::Latest if newest.manifest().number > number => Ok(read(newest).await?),
            At::Exact(requested) if newest.manifest().number > number => {
                Err(ReadError::Compacted {
                    requested,
                    oldest: newest.revision(),
                })
            }
            _ => Ok(read(view).await?),
        }
    }

    async fn view(&self, at: At) -> Result<Arc<View>, ReadError> {
        let requested = match at {
            At::Latest => return Ok(self.newest()),
            At::Exact(requested) => requested,
        };
        if let Some(view) = self.known(requested)? {
            return Ok(view);
        }
        let (number, entries) = tail::parts_of(requested);
        if number > self.newest().manifest().number {
            // Another reader may have seen a newer manifest.
            drop(self.look().await);
        }
        if let Some(view) = self.known(requested)? {
            return Ok(view);
        }
        let current = self.newest().revision();
        if number > self.newest().manifest().number {
            return Err(ReadError::Future { requested, current });
        }
        let named = self.named(number, requested).await?;
        if self.is_over(named.manifest()) {
            return Err(self.compacted(requested));
        }
        let tail = self.tail_of(named.manifest(), entries, requested).await?;
        let view = Arc::new(View::new(named, tail, self.fetch.clone()));
        self.remember(Arc::clone(&view));
        Ok(view)
    }

    /// Reads a manifest by its number.
    async fn named(&self, number: u64, requested: Revision) -> Result<Arc<Named>, ReadError> {
        let storage = |error: Arc<dyn std::error::Error + Send + Sync>| {
            ReadError::from(tidings_store::Fault::Storage(error))
        };
        self.fetch.counters.requests.fetch_add(1, Ordering::Relaxed);
        match timeout(LOOK_MAX, self.folder.read(number)).await {
            Ok(Ok(manifest)) => Ok(Arc::new(Named::new(&self.folder, manifest))),
            Ok(Err(FolderError::Store(Error::NotFound { .. }))) => Err(self.compacted(requested)),
            Ok(Err(error)) => Err(storage(Arc::new(error))),
            Err(_) => Err(storage(Arc::new(LookError::Slow))),
        }
    }

    /// Fetches the first entries after a manifest, as long as they are not sealed. Another reader
    /// showed them, or this one did and has forgotten them.
    async fn tail_of(
        &self,
        manifest: &Manifest,
        entries: u64,
        requested: Revision,
    ) -> Result<Tail, ReadError> {
        let tail = Tail::behind(manifest);
        if entries == 0 {
            return Ok(tail);
        }
        let Some(listening) = &self.listening else {
            return Err(self.compacted(requested));
        };
        let to = manifest.sealed_through.saturating_add(entries);
        match listening.more(manifest, tail, Some(to)).await {
            Ok(More::Tail(tail, _)) if tail.reached() == to => Ok(tail),
            Ok(_) => Err(self.compacted(requested)),
            Err(error) => Err(tidings_store::Fault::Storage(Arc::new(error)).into()),
        }
    }

    fn compacted(&self, requested: Revision) -> ReadError {
        ReadError::Compacted {
            requested,
            oldest: self.newest().revision(),
        }
    }

    /// The view of a revision, if it is remembered.
    fn known(&self, revision: Revision) -> Result<Option<Arc<View>>, ReadError> {
        let newest = self.newest();
        if newest.revision() == revision {
            return Ok(Some(newest));
        }
        let found = {
            let former = self.former.lock();
            let mut former = former.iter();
            former.find(|view| view.revision() == revision).cloned()
        };
        if found
            .as_ref()
            .is_some_and(|view| self.is_over(view.manifest()))
        {
            self.former
                .lock()
                .retain(|view| view.revision() != revision);
            return Err(self.compacted(revision));
        }
        Ok(found)
    }

    /// Returns whether an old manifest has deleted events in files that no longer exist. Their
    /// bytes may still be in memory.
    fn is_over(&self, former: &Manifest) -> bool {
        let newest = self.newest();
        let newest = newest.manifest();
        if former.number >= newest.purged {
            return false;
        }
        let removed = newest.removed.iter().map(|removed| removed.path.as_str());
        let files = newest.files.iter().map(|file| file.path.as_str());
        let known: HashSet<&str> = files.chain(removed).collect();
        let mut files = former.files.iter();
        files.any(|file| !known.contains(file.path.as_str()))
    }

    /// Returns a receiver that is notified whenever the newest view's revision changes.
    pub(in crate::reader) fn revisions(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    /// Returns what is new since a revision, and up to which revision; `None` if that is unknown.
    /// If the revision is the newest, nothing is new.
    pub(in crate::reader) fn news(&self, after: Revision) -> Option<(Revision, New)> {
        // While this lock is held, no view is replaced.
        let newest = self.newest.read();
        if newest.revision() == after {
            return Some((after, Vec::new()));
        }
        self.steps.lock().after(after)
    }

    pub(in crate::reader) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}
