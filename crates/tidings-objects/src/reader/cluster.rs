//! A cluster of an archive, as the newest manifest says it is, and as some former ones did.
//!
//! Invariants: a read sees one manifest, whole; a manifest that is known is replaced only by one
//! with a greater number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use object_store::Error;
use parking_lot::{Mutex, RwLock};
use tidings_store::{At, ReadError, Revision};
use tokio::sync::watch;
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64;

use super::fault::Fault;
use super::fetch::{Counters, Fetch, Shared};
use super::view::View;
use crate::folder::{Folder, FolderError};
use crate::manifest::Manifest;
use crate::place::Place;

/// Former manifests that are remembered. Others are read again.
const FORMER_MAX: usize = 8;
/// How long a look for a newer manifest may take.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// The storage did not do as it should.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It did not answer in time.
    #[error("no answer within {} s", LOOK_MAX.as_secs())]
    Slow,
    /// There is none any more.
    #[error("there is no archive of {cluster:?}")]
    None {
        /// The cluster's name.
        cluster: String,
    },
}

/// What was asked of the storage for a cluster, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// Requests.
    pub requests: u64,
    /// Those that were not answered as they should be.
    pub failed: u64,
    /// Bytes of files that were read.
    pub bytes: u64,
}

/// See the module documentation.
pub(super) struct Sealed {
    pub(super) name: String,
    /// Of the place and the name: the same for every reader, and after a writer's data folder was
    /// lost.
    pub(super) identity: String,
    folder: Folder,
    fetch: Fetch,
    newest: RwLock<Arc<View>>,
    former: Mutex<VecDeque<Arc<View>>>,
    /// Why the last look failed, if it did.
    failure: Mutex<Option<String>>,
    /// The number of the newest manifest.
    number: watch::Sender<Revision>,
}

async fn newest(folder: &Folder, counters: &Counters) -> Result<Option<Manifest>, LookError> {
    // The list of manifests, and the newest of them.
    counters.requests.fetch_add(2, Ordering::Relaxed);
    let found = timeout(LOOK_MAX, folder.newest()).await;
    let found = found.map_err(|_| LookError::Slow).and_then(|it| Ok(it?));
    if found.is_err() {
        counters.failed.fetch_add(1, Ordering::Relaxed);
    }
    found
}

impl Sealed {
    /// The cluster, as its newest manifest says it is.
    pub(super) async fn open(
        place: &Place,
        name: &str,
        shared: Arc<Shared>,
    ) -> Result<Self, LookError> {
        let folder = Folder::new(place, name);
        let fetch = Fetch {
            shared,
            counters: Arc::new(Counters::default()),
        };
        let manifest = newest(&folder, &fetch.counters).await?;
        let manifest = manifest.ok_or_else(|| LookError::None {
            cluster: name.to_owned(),
        })?;
        let number = watch::Sender::new(manifest.number);
        let view = View::new(&folder, manifest, fetch.clone());
        Ok(Self {
            name: name.to_owned(),
            identity: format!(
                "{:016x}",
                xxh3_64(format!("{}/{name}", place.url()).as_bytes())
            ),
            folder,
            fetch,
            newest: RwLock::new(Arc::new(view)),
            former: Mutex::default(),
            failure: Mutex::default(),
            number,
        })
    }

    /// What was asked of the storage.
    pub(super) fn asked(&self) -> Asked {
        let counters = &self.fetch.counters;
        Asked {
            requests: counters.requests.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn newest(&self) -> Arc<View> {
        Arc::clone(&self.newest.read())
    }

    /// Looks whether there is a newer manifest.
    pub(super) async fn look(&self) -> Result<(), LookError> {
        let found = newest(&self.folder, &self.fetch.counters).await;
        let found = found.and_then(|found| {
            found.ok_or_else(|| LookError::None {
                cluster: self.name.clone(),
            })
        });
        *self.failure.lock() = found.as_ref().err().map(ToString::to_string);
        let manifest = found?;
        let mut newest = self.newest.write();
        if manifest.number <= newest.manifest.number {
            return Ok(());
        }
        let number = manifest.number;
        let view = View::new(&self.folder, manifest, self.fetch.clone());
        let former = std::mem::replace(&mut *newest, Arc::new(view));
        drop(newest);
        self.number.send_replace(number);
        self.remember(former);
        Ok(())
    }

    fn remember(&self, view: Arc<View>) {
        let mut former = self.former.lock();
        former.push_front(view);
        former.truncate(FORMER_MAX);
    }

    /// Reads of the manifest of a revision. If a file is gone, the manifest is too old.
    pub(super) async fn read<T, R: Future<Output = Result<T, Fault>>>(
        &self,
        at: At,
        read: impl Fn(Arc<View>) -> R,
    ) -> Result<T, ReadError> {
        // It is not closed.
        let _place = self.fetch.shared.reads.acquire().await.ok();
        let view = self.view(at).await?;
        let done = read(Arc::clone(&view)).await;
        let number = view.manifest.number;
        match done {
            Err(fault) if fault.is_gone() => {}
            done => return Ok(done?),
        }
        // A newer one names other files, if this one is not the newest.
        drop(self.look().await);
        let newest = self.newest();
        match at {
            At::Latest if newest.manifest.number > number => Ok(read(newest).await?),
            At::Exact(requested) if newest.manifest.number > number => Err(ReadError::Compacted {
                requested,
                oldest: newest.manifest.number,
            }),
            _ => Ok(read(view).await?),
        }
    }

    async fn view(&self, at: At) -> Result<Arc<View>, ReadError> {
        let requested = match at {
            At::Latest => return Ok(self.newest()),
            At::Exact(requested) => requested,
        };
        if let Some(view) = self.known(requested) {
            return Ok(view);
        }
        if requested > self.newest().manifest.number {
            // Another reader may have seen a newer one.
            drop(self.look().await);
        }
        let newest = self.newest();
        if let Some(view) = self.known(requested) {
            return Ok(view);
        }
        if requested > newest.manifest.number {
            return Err(ReadError::Future {
                requested,
                current: newest.manifest.number,
            });
        }
        self.fetch.counters.requests.fetch_add(1, Ordering::Relaxed);
        match timeout(LOOK_MAX, self.folder.read(requested)).await {
            Ok(Ok(manifest)) => {
                let view = Arc::new(View::new(&self.folder, manifest, self.fetch.clone()));
                self.remember(Arc::clone(&view));
                Ok(view)
            }
            Ok(Err(FolderError::Store(Error::NotFound { .. }))) => Err(ReadError::Compacted {
                requested,
                oldest: newest.manifest.number,
            }),
            Ok(Err(error)) => Err(tidings_store::Fault::Storage(Arc::new(error)).into()),
            Err(_) => Err(tidings_store::Fault::Storage(Arc::new(LookError::Slow)).into()),
        }
    }

    fn known(&self, number: Revision) -> Option<Arc<View>> {
        let newest = self.newest();
        if newest.manifest.number == number {
            return Some(newest);
        }
        let former = self.former.lock();
        former
            .iter()
            .find(|view| view.manifest.number == number)
            .cloned()
    }

    /// Tells the number of the newest manifest, whenever it changes.
    pub(super) fn numbers(&self) -> watch::Receiver<Revision> {
        self.number.subscribe()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}
