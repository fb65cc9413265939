//! The folder of a cluster: its manifests by number, its files, and every request for them.
//!
//! Invariants: a manifest is created only if there is none of its number; a request whose answer
//! was lost is found out about by reading. Each operation ends within a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::manifest::{FORM, Manifest};
use crate::place::Place;

/// How long an operation may take, with all that is tried again within it.
const OPERATION_MAX: Duration = Duration::from_secs(300);
/// Largest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Manifests that are read before it is believed that the newest one cannot be.
const TRIES: usize = 3;

/// Why the storage did not do as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It refused, or could not be reached.
    #[error(transparent)]
    Store(#[from] Error),
    /// It did not answer in time.
    #[error("no answer within {} s", OPERATION_MAX.as_secs())]
    Slow,
    /// A manifest cannot be read.
    #[error("{path}: {why}")]
    Manifest {
        /// Where it is.
        path: String,
        /// What is wrong, or what is known.
        why: String,
    },
    /// Another manifest of this number was written meanwhile.
    #[error("manifest {number} was written by another request or archive meanwhile")]
    Taken {
        /// Its number.
        number: u64,
    },
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Folder {
    store: Arc<dyn ObjectStore>,
    root: Path,
    /// The greatest number that was seen.
    known: AtomicU64,
}

impl Folder {
    pub(crate) fn new(place: &Place, cluster: &str) -> Self {
        Self {
            store: Arc::clone(&place.store),
            root: place.prefix.clone().join(cluster),
            known: AtomicU64::new(0),
        }
    }

    fn manifests(&self) -> Path {
        self.root.clone().join("manifests")
    }

    fn manifest(&self, number: u64) -> Path {
        self.manifests().join(format!("{number:020}.json"))
    }

    /// The path of a file of a manifest.
    pub(crate) fn path(&self, file: &str) -> Path {
        Path::from(format!("{}/{file}", self.root))
    }

    /// The manifest with the greatest number, if there is any.
    pub(crate) async fn newest(&self) -> Result<Option<Manifest>, FolderError> {
        let mut tries = TRIES;
        loop {
            let Some(number) = self.newest_number().await? else {
                return Ok(None);
            };
            match self.read(number).await {
                // It was removed meanwhile, as there are newer ones.
                Err(FolderError::Store(Error::NotFound { .. })) if tries > 0 => tries -= 1,
                Err(error) => return Err(error),
                Ok(manifest) => {
                    self.known.fetch_max(number, Ordering::Relaxed);
                    return Ok(Some(manifest));
                }
            }
        }
    }

    /// Only manifests from the last known one on are listed, which is not removed while it is
    /// among the newest; all of them, if there is none.
    async fn newest_number(&self) -> Result<Option<u64>, FolderError> {
        let known = self.known.load(Ordering::Relaxed);
        let before = self.manifest(known.saturating_sub(1));
        let newest = |found: &[ObjectMeta]| found.iter().filter_map(number).max();
        if known > 0 {
            let later = self
                .store
                .list_with_offset(Some(&self.manifests()), &before);
            if let Some(number) = newest(&within(later.try_collect::<Vec<_>>()).await?) {
                return Ok(Some(number));
            }
        }
        Ok(newest(&self.list("manifests").await?))
    }

    /// A manifest by its number.
    pub(crate) async fn read(&self, number: u64) -> Result<Manifest, FolderError> {
        let path = self.manifest(number);
        let wrong = |why: String| FolderError::Manifest {
            path: path.to_string(),
            why,
        };
        let bytes = self.get(&path, MANIFEST_BYTES_MAX).await?;
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if manifest.form != FORM || manifest.number != number {
            return Err(wrong(format!(
                "it says form {} and number {}, expected form {FORM} and number {number}",
                manifest.form, manifest.number
            )));
        }
        Ok(manifest)
    }

    /// Writes a manifest, unless there is one of its number.
    pub(crate) async fn commit(&self, manifest: &Manifest) -> Result<(), FolderError> {
        let number = manifest.number;
        // Texts, numbers and times can always be written.
        let bytes = serde_json::to_vec_pretty(manifest).unwrap_or_default();
        match self.create(&self.manifest(number), bytes.into()).await {
            Ok(()) => Ok(()),
            // The answer may have been lost, or be of a request that was repeated.
            Err(error) => match self.read(number).await {
                Ok(found) if found.id == manifest.id => Ok(()),
                Ok(_) => Err(FolderError::Taken { number }),
                Err(_) => Err(error),
            },
        }
    }

    /// Writes an object where there is none.
    pub(crate) async fn create(&self, path: &Path, bytes: Bytes) -> Result<(), FolderError> {
        let payload = PutPayload::from(bytes);
        let put = self.store.put_opts(path, payload, PutMode::Create.into());
        within(put).await.map(drop)
    }

    /// The bytes of an object, if they are not too many.
    pub(crate) async fn get(&self, path: &Path, bytes_max: u64) -> Result<Bytes, FolderError> {
        let get = async {
            let found = self.store.get(path).await?;
            if found.meta.size > bytes_max {
                return Err(Error::Generic {
                    store: "archive",
                    source: format!("{path} has more than {bytes_max} bytes").into(),
                });
            }
            found.bytes().await
        };
        within(get).await
    }

    /// Deletes an object, if it is there.
    pub(crate) async fn delete(&self, path: &Path) -> Result<(), FolderError> {
        match within(self.store.delete(path)).await {
            Err(FolderError::Store(Error::NotFound { .. })) => Ok(()),
            done => done,
        }
    }

    /// All objects in one of its folders.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, FolderError> {
        let folder = self.root.clone().join(folder);
        within(self.store.list(Some(&folder)).try_collect()).await
    }
}

/// The number of a manifest, by its path.
pub(crate) fn number(found: &ObjectMeta) -> Option<u64> {
    let name = found.location.filename()?.strip_suffix(".json")?;
    name.parse().ok()
}

async fn within<T>(operation: impl Future<Output = Result<T, Error>>) -> Result<T, FolderError> {
    match tokio::time::timeout(OPERATION_MAX, operation).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(FolderError::Slow),
    }
}
