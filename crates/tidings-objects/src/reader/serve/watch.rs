//! A watch of a sealed cluster, which delivers new pending versions.
//!
//! Invariant: a watch begins at an exactly known state and delivers what every later one adds, or
//! says that it cannot: then the client has to list again. Numbers that are no states of this
//! archive, such as the resourceVersions of events at the source, are refused.
//!
//! Memory: the changes of one delivery, which all watchers share while they are delivered together.

use std::sync::Arc;

use bytes::Bytes;
use tidings_store::{BoxFuture, Change, Revision, Watch, WatchError};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::reader::pending::changes::{self, New, Told};
use crate::reader::pending::tail;
use crate::reader::state::Sealed;

/// Number of manifests that another reader may be ahead of this one; one seal may write several.
const AHEAD_MAX: u64 = 16;

/// A watch; see the module documentation.
pub(in crate::reader) struct SealedWatch {
    sealed: Arc<Sealed>,
    /// What the keys of the watched namespace begin with; empty for all namespaces.
    prefix: Bytes,
    revisions: watch::Receiver<Revision>,
    after: Revision,
    /// The changes since the beginning, if the watch began at a state that another reader showed.
    begun: Option<(Revision, New)>,
}

impl SealedWatch {
    /// Begins a watch of one namespace, or of all, after a revision.
    pub(in crate::reader) async fn begin(
        sealed: &Arc<Sealed>,
        namespace: Option<&str>,
        after: Revision,
    ) -> Result<Self, WatchError> {
        let revisions = sealed.revisions();
        let begun = if sealed.news(after).is_some() {
            None
        } else {
            let resumed = sealed.resumed(after).await;
            let oldest = sealed.newest().revision();
            Some(resumed.ok_or(WatchError::Compacted { after, oldest })?)
        };
        let prefix = namespace.map(|namespace| format!("{namespace}/"));
        Ok(Self {
            sealed: Arc::clone(sealed),
            prefix: prefix.unwrap_or_default().into(),
            revisions,
            after,
            begun,
        })
    }

    /// Waits for what comes after a revision; returns up to which revision, and what is new.
    async fn new_after(&mut self, after: Revision) -> Result<(Revision, New), WatchError> {
        if let Some(begun) = &self.begun {
            return Ok(begun.clone());
        }
        let newer = self.revisions.wait_for(|revision| *revision != after).await;
        let closed = |_| WatchError::Fault(tidings_store::Fault::Closed);
        let oldest = *newer.map_err(closed)?;
        let unknown = || WatchError::Compacted { after, oldest };
        self.sealed.news(after).ok_or_else(unknown)
    }
}

impl Watch for SealedWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>> {
        Box::pin(async {
            loop {
                let after = self.after;
                // This future may be dropped at each await, so the watch changes only after the
                // last one.
                let (to, new) = self.new_after(after).await?;
                let changes = self.sealed.changes((after, to), new).await;
                let oldest = to;
                let changes = changes.ok_or(WatchError::Compacted { after, oldest })?;
                self.begun = None;
                self.after = to;
                let changes = changes.iter();
                let of_prefix = changes.filter(|change| change.key().starts_with(&self.prefix));
                let changes: Vec<_> = of_prefix.cloned().collect();
                if !changes.is_empty() {
                    return Ok(changes);
                }
            }
        })
    }

    fn revision(&self) -> Revision {
        self.after
    }
}

impl Sealed {
    /// Returns what came after a state that another reader showed and this one did not. If both
    /// show the same manifest, it asks for what follows that state's entries. `None` if it cannot
    /// be known.
    async fn resumed(&self, after: Revision) -> Option<(Revision, New)> {
        let (number, entries) = tail::parts_of(after);
        let ahead = number.checked_sub(self.newest().manifest().number);
        if ahead.is_none_or(|ahead| ahead > AHEAD_MAX) {
            return None;
        }
        // The semaphore is never closed. If a look or a request fails, the revision stays unknown
        // below.
        let _place = self.resuming.acquire().await.ok();
        if number > self.newest().manifest().number {
            // Another reader has seen a newer manifest.
            drop(self.look().await);
        }
        if entries > self.newest().tail().entries() {
            drop(self.hear().await);
        }
        if let Some(known) = self.news(after) {
            return Some(known);
        }
        // A reader without pending versions ends here: the newer manifest was all that it could
        // learn.
        let listening = self.listening.as_ref()?;
        let view = self.newest();
        let manifest = view.manifest();
        let shown = view.tail().entries();
        if manifest.number != number || entries >= shown {
            return None;
        }
        let of = |entries: u64| manifest.sealed_through.saturating_add(entries);
        let heard = listening.between(manifest, of(entries), of(shown)).await;
        let revision = view.revision();
        let part = heard.ok()??.part;
        Some((
            revision,
            part.map(|part| (revision, part)).into_iter().collect(),
        ))
    }

    /// Returns the changes between two revisions; `None` if they cannot be read.
    async fn changes(
        &self,
        (after, to): (Revision, Revision),
        new: New,
    ) -> Option<Arc<[Arc<Change>]>> {
        // The lock makes all watchers wait for the first one, which reads the changes for all.
        let mut told = self.told.lock().await;
        if let Some(known) = told.as_ref().and_then(|told| told.of(after, to)) {
            return Some(known);
        }
        let cluster = Arc::clone(&self.name);
        let read = spawn_blocking(move || changes::read(&cluster, new)).await;
        let changes: Arc<[_]> = read.ok()?.ok()?.into();
        *told = Told::new((after, to), &changes);
        Some(changes)
    }
}
