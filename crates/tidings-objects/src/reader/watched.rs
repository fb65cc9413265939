//! A watch of a cluster: what is new of what waits to be sealed.
//!
//! Invariant: a watch begins at a state that is known exactly, and says what every later one has
//! more, or that it cannot: then everything is to be read again. Numbers that are no states of this
//! archive, as are the versions of events at the source, are not taken for some.
//!
//! Memory: what came at once, which all who watch share while they are told together.

use std::sync::Arc;

use bytes::Bytes;
use tidings_store::{BoxFuture, Change, Revision, Watch, WatchError};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::cluster::Sealed;
use super::news::{self, New, Told};
use super::tail;

/// Manifests that another reader may have seen and this one has not. One seal may write several.
const AHEAD_MAX: u64 = 16;

/// See the module documentation.
pub(super) struct SealedWatch {
    sealed: Arc<Sealed>,
    /// What the keys of a namespace begin with; nothing, for all.
    prefix: Bytes,
    revisions: watch::Receiver<Revision>,
    after: Revision,
    /// What came since the state where it begins, if that is another reader's.
    begun: Option<(Revision, New)>,
}

impl SealedWatch {
    /// Of a namespace, or of all: what comes after a revision.
    pub(super) async fn begin(
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

    /// Waits for what comes after a revision: up to which one, and what.
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
                // It may be dropped wherever it waits: until the end nothing is taken.
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
    /// What came after a state that this reader did not show, and another one may have: behind the
    /// same manifest, it is asked for what follows its entries. `None` if it cannot be known.
    async fn resumed(&self, after: Revision) -> Option<(Revision, New)> {
        let (number, entries) = tail::parts_of(after);
        let ahead = number.checked_sub(self.newest().manifest().number);
        if ahead.is_none_or(|ahead| ahead > AHEAD_MAX) {
            return None;
        }
        // It is not closed. What is asked for in vain is not known below.
        let _place = self.resuming.acquire().await.ok();
        if number > self.newest().manifest().number {
            // Another reader has seen a newer one.
            drop(self.look().await);
        }
        if entries > self.newest().tail().entries() {
            drop(self.hear().await);
        }
        if let Some(known) = self.news(after) {
            return Some(known);
        }
        // Without what waits, too, another reader may have been ahead: the timeline continues.
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

    /// The changes of what is new from one revision to another; `None` if it cannot be read.
    async fn changes(
        &self,
        (after, to): (Revision, Revision),
        new: New,
    ) -> Option<Arc<[Arc<Change>]>> {
        // All who watch wait for the first of them, who reads it for all.
        let mut told = self.told.lock().await;
        if let Some(known) = told.as_ref().and_then(|told| told.of(after, to)) {
            return Some(known);
        }
        let cluster = Arc::clone(&self.name);
        let read = spawn_blocking(move || news::changes(&cluster, new)).await;
        let changes: Arc<[_]> = read.ok()?.ok()?.into();
        *told = Told::new((after, to), &changes);
        Some(changes)
    }
}
