//! Makes files of pending versions, which readers of the archive show after its newest manifest.
//!
//! The file has the form of a sealed one, with rows in their order. The key `tidings.waiting` says
//! which entries of whose feed it covers.
//!
//! Invariant: a file has the versions of all entries in a range, except those that expired or were
//! deleted before they were sealed. So files that follow each other, from the entry on up to which
//! the manifest says that versions are sealed, skip none and have none twice. Versions that the
//! last seal took are still given to readers that had not asked for them. Asking changes nothing.
//!
//! Memory: some megabytes of events with their columns, once for each cluster.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidings_archive::{Cluster, JournalError, Part, Position, Unsealed};
use tidings_history::{Gap, Pending, PendingVersions, stored_gaps};
use tidings_store::{BoxFuture, Fault, ReadError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::file::read::FileError;
use crate::file::write::Writer;
use crate::seal::rows;

/// The key under which a file states which entries it covers.
pub(crate) const KEY: &str = "tidings.waiting";
/// Bytes of events at which a file ends.
const FILE_BYTES: usize = 4 << 20;

/// Which entries a file covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// The identity of the store whose feed it is, as in a manifest.
    pub(crate) writer: String,
    /// The first entry that was asked for.
    pub(crate) from: u64,
    /// The entry after the last one. If it is less than `from`, the feed ends there.
    pub(crate) through: u64,
    /// Whether it covers all that was asked for, rather than as much as fits.
    pub(crate) is_whole: bool,
    /// The positions in the followed cluster, by namespace. They are given only if everything up to
    /// them is in this file or before it.
    pub(crate) positions: Vec<(String, Position)>,
    /// The latest gaps; given with positions only.
    #[serde(with = "stored_gaps")]
    pub(crate) gaps: Vec<Gap>,
}

/// Why no file of pending versions could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitingError {
    /// The cluster's store could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file could not be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// Making the file panicked; the log says how.
    #[error("making a file panicked")]
    Panicked,
}

/// The pending versions of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Waiting {
    cluster: Arc<str>,
    writer: Arc<str>,
    unsealed: Unsealed,
    /// The permit for making a file, one at a time.
    turn: Arc<Semaphore>,
}

impl Waiting {
    /// Returns those of a cluster that is or was followed.
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.name().into(),
            writer: cluster.store_identity().into(),
            unsealed: cluster.unsealed(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns whether the cluster was ever sealed, so that its pending versions are known.
    pub fn is_known(&self) -> bool {
        self.unsealed.waiting().is_some()
    }

    /// Makes a file of the versions of the feed's entries from `from` on, before `to` if given.
    ///
    /// It covers as many entries as make about four megabytes, and states how many. `None` if some
    /// of them may be sealed already and are no longer known here: then a newer manifest has them.
    /// [`Unsealed::waiting_from`] says which sealed entries are still known.
    ///
    /// # Errors
    ///
    /// The cluster's store could not be read.
    pub async fn file(&self, from: u64, to: Option<u64>) -> Result<Option<Vec<u8>>, WaitingError> {
        // The semaphore is never closed.
        let _turn = self.turn.acquire().await.ok();
        let part = self.unsealed.waiting_from(from, to, FILE_BYTES).await?;
        let Some(part) = part else {
            return Ok(None);
        };
        let (cluster, writer) = (Arc::clone(&self.cluster), self.writer.to_string());
        let made = spawn_blocking(move || make(&cluster, writer, from, part));
        Ok(Some(made.await.map_err(|_| WaitingError::Panicked)??))
    }
}

impl PendingVersions for Waiting {
    fn pending(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Pending, ReadError>> {
        Box::pin(async move {
            if !self.is_known() {
                return Ok(Pending::NotSealed);
            }
            match self.file(from, to).await {
                Ok(Some(file)) => Ok(Pending::File(file)),
                Ok(None) => Ok(Pending::Sealed),
                Err(WaitingError::Journal(JournalError::Read(error))) => Err(error),
                Err(error) => Err(Fault::Storage(Arc::new(error)).into()),
            }
        })
    }
}

fn make(cluster: &Arc<str>, writer: String, from: u64, part: Part) -> Result<Vec<u8>, FileError> {
    let head = Head {
        cluster: cluster.to_string(),
        writer,
        from,
        through: part.through,
        is_whole: part.is_whole,
        positions: part.positions,
        gaps: part.gaps,
    };
    let mut file = Writer::new(false)?;
    let (rows, _) = rows(cluster, part.versions);
    for row in rows {
        file.push(row)?;
    }
    // This cannot fail: texts and numbers can always be written.
    file.say(KEY, serde_json::to_string(&head).unwrap_or_default());
    Ok(file.finish()?)
}
