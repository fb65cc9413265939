//! What a server needs of a cluster of a sealed archive.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use tidings_history::{Coverage, ObjectRequests, OverQuota, Totals, Versions};
use tidings_store::{At, ReadError, Store, UnixMillis};

use super::store::{self, SealedStore};
use crate::reader::pending::WaitingSource;
use crate::reader::plan::View;
use crate::reader::state::HearError;
use crate::reader::state::{LookError, Sealed};

/// A cluster of a sealed archive. Cheap to clone.
#[derive(Clone)]
pub struct SealedCluster(pub(in crate::reader) Arc<Sealed>);

/// What a reader shows of the pending versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeardOf {
    /// Number of pending versions that are shown.
    pub versions: u64,
    /// Why further ones are unknown, if the last request for them failed.
    pub failure: Option<String>,
}

impl SealedCluster {
    /// Returns the cluster's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the identity that continue tokens name; it is the same for every reader of a place.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Looks for a newer manifest, and shows it if it can. Versions that it seals, and that
    /// watchers were not shown yet, are asked for first.
    ///
    /// # Errors
    ///
    /// The object storage failed. The known manifest is still served.
    pub async fn look(&self) -> Result<(), LookError> {
        self.0.look().await
    }

    /// Asks the archive that follows the cluster for pending versions, if one was named.
    ///
    /// # Errors
    ///
    /// The archive did not answer as it should. Known versions are still served.
    pub async fn hear(&self) -> Result<(), HearError> {
        self.0.hear().await
    }

    /// Returns what is shown of the pending versions; `None` if they are not asked for.
    pub fn heard(&self) -> Option<HeardOf> {
        let listening = self.0.listening.as_ref()?;
        Some(HeardOf {
            versions: self.0.newest().tail().rows(),
            failure: listening.failure.lock().clone(),
        })
    }

    /// Returns the cluster's events, the newest version of each, as a store for an API server. It
    /// is read-only. A watch delivers new pending versions, and ends if it cannot tell what is new.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(SealedStore(Arc::clone(&self.0)))
    }

    /// Reads versions of the event under a key (`namespace/name`), the newest first. They come
    /// after `after`, which is [`Versions::more`] of the page before: at most `limit`, and about a
    /// megabyte. `None` if there is no such event.
    ///
    /// # Errors
    ///
    /// The object storage failed, or a file is damaged.
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

    /// Returns how far the cluster was followed, its gaps, and how much is kept. It counts versions
    /// where an archive counts events.
    pub fn coverage(&self) -> Coverage {
        let view = self.0.newest();
        let manifest = view.manifest();
        let from = view.files().map(|file| file.from);
        let (positions, gaps) = match view.tail().followed() {
            Some((positions, gaps)) => (positions, gaps),
            None => (&manifest.positions, &manifest.gaps),
        };
        let followed = positions.iter();
        let over_quota = &manifest.over_quota;
        Coverage {
            cluster: self.name().to_owned(),
            followed: followed
                .map(|(namespace, position)| position.followed(namespace))
                .collect(),
            gaps: gaps.clone(),
            over_quota: OverQuota {
                events: over_quota.versions,
                observed_before: over_quota.until.map(millis),
            },
            totals: Some(Totals {
                events: view.count_of_versions(),
                kept_since: from.map(millis).min(),
                disk_bytes: manifest.bytes(),
                ended_by_rules: 0,
                gone: Some(manifest.gone),
            }),
            ..Coverage::default()
        }
    }

    /// Returns why the last look for a newer manifest failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.0.failure()
    }

    /// Returns the counts of requests to object storage.
    pub fn requests(&self) -> ObjectRequests {
        self.0.requests()
    }

    /// Returns the source of pending versions, if there is one.
    pub(in crate::reader) fn source(&self) -> Option<&dyn WaitingSource> {
        self.0.listening.as_ref().map(|it| &*it.source)
    }
}

fn millis(at: Timestamp) -> UnixMillis {
    UnixMillis(at.as_millisecond())
}
