//! Versions that wait to be sealed, as a file: what a reader of the archive shows behind its newest
//! manifest.
//!
//! The file is one as are sealed, with rows in their order. The key `tidings.waiting` says of which
//! entries of whose journal they are. Invariant: a file has the versions of all entries from one
//! number on and before another, but for those that ended or were deleted before they were sealed;
//! so files that follow each other, behind a manifest that says up to where versions are sealed,
//! skip none and have none twice. What the last seal took is told, too, to readers that had not
//! asked for it. Nothing is changed by asking. Memory: some megabytes of events with their columns,
//! once for each cluster.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidings_archive::{Cluster, Gap, JournalError, Part, Position, Unsealed};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::file::read::FileError;
use crate::file::write::Writer;
use crate::seal::rows;

/// What a file says by which entries it has.
pub(crate) const KEY: &str = "tidings.waiting";
/// Bytes of events from which on a file has no more.
const FILE_BYTES: usize = 4 << 20;

/// Of which entries a file has the versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// The identity of the store whose journal it is, as in a manifest.
    pub(crate) writer: String,
    /// The first entry that was asked for.
    pub(crate) from: u64,
    /// The entry behind the last one. If it is less than `from`, the journal ends there.
    pub(crate) through: u64,
    /// Whether it has all that were asked for, rather than as many as fit.
    pub(crate) is_whole: bool,
    /// How far the cluster was followed then, by namespaces, if everything up to there is in this
    /// file or before it.
    pub(crate) positions: Vec<(String, Position)>,
    /// The latest gaps, with positions.
    pub(crate) gaps: Vec<Gap>,
}

/// Why there is no file of what waits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitingError {
    /// The cluster's store could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file could not be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// Making it panicked; the log says how.
    #[error("making a file panicked")]
    Panicked,
}

/// What waits of a cluster to be sealed. Cheap to clone.
#[derive(Clone)]
pub struct Waiting {
    cluster: Arc<str>,
    writer: Arc<str>,
    unsealed: Unsealed,
    /// One file is made at a time.
    turn: Arc<Semaphore>,
}

impl Waiting {
    /// Of a cluster that is followed, or was.
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.name().into(),
            writer: cluster.store_identity().into(),
            unsealed: cluster.unsealed(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Whether anything of it ever waited: the cluster was sealed once.
    pub fn is_known(&self) -> bool {
        self.unsealed.waiting().is_some()
    }

    /// A file of the versions of the journal's entries from a number on; of those before `to`, if
    /// it is given. It has as many as make about four megabytes, and says how many. `None` if some
    /// of them may be sealed already, and are not known here any more: a newer manifest says so.
    /// Which are known further, [`Unsealed::waiting_from`] says.
    ///
    /// # Errors
    /// The cluster's store could not be read.
    pub async fn file(&self, from: u64, to: Option<u64>) -> Result<Option<Vec<u8>>, WaitingError> {
        // It is not closed.
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
    // Texts and numbers can always be written.
    file.say(KEY, serde_json::to_string(&head).unwrap_or_default());
    Ok(file.finish()?)
}
