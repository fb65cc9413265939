//! What a server needs of a cluster that is archived.

use std::sync::Arc;

use bytes::Bytes;
use tidings_archive::{Coverage, Versions};
use tidings_store::{At, ReadError, Store};

use super::cluster::{Asked, LookError, Sealed};
use super::hear::HearError;
use super::store::{self, SealedStore};
use super::view::View;

/// A cluster that is archived. Cheap to clone.
#[derive(Clone)]
pub struct SealedCluster(pub(super) Arc<Sealed>);

/// What is shown of what waits to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeardOf {
    /// How many versions that are.
    pub versions: u64,
    /// Why it is not known what else waits, if the last question failed.
    pub failure: Option<String>,
}

impl SealedCluster {
    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What continue tokens name: the same for every reader of a place.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Looks whether there is a newer manifest. What is sealed by then and was not shown to those
    /// who watch is asked for at first.
    ///
    /// # Errors
    /// The storage did not answer as it should. What is known is served further.
    pub async fn look(&self) -> Result<(), LookError> {
        self.0.look().await
    }

    /// Asks the archive that follows the cluster, if one was named, for what waits to be sealed.
    ///
    /// # Errors
    /// It did not answer as it should. What is known is served further.
    pub async fn hear(&self) -> Result<(), HearError> {
        self.0.hear().await
    }

    /// What is shown of what waits to be sealed; `None` if it is not asked for.
    pub fn heard(&self) -> Option<HeardOf> {
        let listening = self.0.listening.as_ref()?;
        Some(HeardOf {
            versions: self.0.newest().tail().rows(),
            failure: listening.failure.lock().clone(),
        })
    }

    /// The events, the newest version of each, as an API server serves them. Nothing can be
    /// written; a watch says what is new of what waits, and ends when that cannot be told.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(SealedStore(Arc::clone(&self.0)))
    }

    /// Versions of the event under a key (`namespace/name`), the newest first, after `after`, which
    /// is [`Versions::more`] of the page before: at most `limit`, and no more once they have a
    /// megabyte. `None` if there is no such event.
    ///
    /// # Errors
    /// The storage did not answer as it should, or a file is damaged.
    pub async fn versions(
        &self,
        key: &Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Option<Versions>, ReadError> {
        let Some((namespace, name)) = store::named(key) else {
            return Ok(None);
        };
        let read =
            |view: Arc<View>| async move { view.versions(namespace, name, after, limit).await };
        self.0.read(At::Latest, read).await
    }

    /// How far the cluster was followed, its gaps, and how much is kept. Versions are counted
    /// instead of events.
    pub fn coverage(&self) -> Coverage {
        let view = self.0.newest();
        let manifest = view.manifest();
        let from = view.files().map(|file| file.from);
        let mut coverage = Coverage::default();
        let (followed, gaps) = match view.tail().followed() {
            Some((followed, gaps)) => (followed, gaps),
            None => (&manifest.positions, &manifest.gaps),
        };
        coverage.followed.clone_from(followed);
        coverage.gaps.clone_from(gaps);
        coverage.events = view.count_of_versions();
        coverage.kept_since = from.map(jiff::Timestamp::as_millisecond).min();
        coverage.disk_bytes = manifest.bytes();
        coverage.gone = Some(manifest.gone);
        coverage.trimmed.events = manifest.over_quota.versions;
        let until = manifest.over_quota.until;
        coverage.trimmed.before = until.map_or(0, jiff::Timestamp::as_millisecond);
        coverage
    }

    /// Why the last look for a newer manifest failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.0.failure()
    }

    /// What was asked of the storage.
    pub fn asked(&self) -> Asked {
        self.0.asked()
    }
}
