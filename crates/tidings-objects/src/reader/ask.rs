//! Asks the archive that follows a cluster for what waits to be sealed.
//!
//! Invariant: an answer is taken only if it is of the store that the manifest names, and of the
//! entry that follows what is known.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tidings_store::BoxFuture;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::tail::{ENTRIES_MAX, Heard, Part, Tail};
use crate::file::read::FileError;
use crate::folder::Folder;
use crate::manifest::Manifest;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Where it is asked for what waits to be sealed: the archive that follows the cluster.
pub trait WaitingSource: Send + Sync + 'static {
    /// What [`Waiting::file`](crate::Waiting::file) of the store gives that writes the archive of
    /// the cluster, or else why not.
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Option<Bytes>, String>>;
}

/// Why there is no answer about what waits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The archive that follows the cluster did not answer as it should.
    #[error("{0}")]
    Unanswered(String),
    /// It did not answer in time.
    #[error("no answer within {} s", ANSWER_MAX.as_secs())]
    Slow,
    /// The answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    File(#[from] FileError),
    /// It is not what was asked for.
    #[error("the answer is of {found}, and not of {wanted}")]
    Other {
        /// What it is of.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// Reading the answer panicked; the log says how.
    #[error("reading the answer panicked")]
    Panicked,
}

/// Where it is asked for one cluster, and how the last question ended.
pub(super) struct Listening {
    source: Arc<dyn WaitingSource>,
    folder: Arc<Folder>,
    cluster: Arc<str>,
    pub(super) bytes_max: u64,
    pub(super) failure: Mutex<Option<String>>,
}

/// What came of asking for more.
pub(super) enum More {
    /// As far as was asked for, or as there is; and what of it is new.
    Tail(Tail, Vec<Arc<Part>>),
    /// As much as is held.
    Full(Tail, Vec<Arc<Part>>),
    /// Some of it is sealed.
    Sealed,
    /// It is of another store.
    Foreign(String),
    /// There is less than is known.
    Short,
}

/// What one answer says.
enum Answer {
    Heard(Heard),
    Sealed,
    Foreign(String),
    Short,
}

impl Listening {
    pub(super) fn to(
        source: Arc<dyn WaitingSource>,
        (folder, cluster): (&Arc<Folder>, &Arc<str>),
        bytes_max: u64,
    ) -> Self {
        Self {
            source,
            folder: Arc::clone(folder),
            cluster: Arc::clone(cluster),
            bytes_max,
            failure: Mutex::default(),
        }
    }

    /// Extends what is behind a manifest, up to an entry or as far as there are some.
    pub(super) async fn more(
        &self,
        manifest: &Manifest,
        mut tail: Tail,
        to: Option<u64>,
    ) -> Result<More, AskError> {
        // A revision says no more.
        let last = manifest.sealed_through.saturating_add(ENTRIES_MAX);
        let to = Some(to.map_or(last, |to| to.min(last)));
        let mut new = Vec::new();
        loop {
            let from = tail.reached();
            if tail.events() >= self.bytes_max || from >= last {
                return Ok(More::Full(tail, new));
            }
            let heard = match self.answer(manifest, from, to).await? {
                Answer::Heard(heard) => heard,
                Answer::Sealed => return Ok(More::Sealed),
                Answer::Foreign(found) => return Ok(More::Foreign(found)),
                Answer::Short => return Ok(More::Short),
            };
            let head = &heard.head;
            let is_whole = head.is_whole;
            if !is_whole && head.through == from {
                // It would be asked for again and again.
                return Err(AskError::Unanswered("the answer has no entry".into()));
            }
            new.extend(heard.part.clone());
            tail = tail.with(heard);
            if tail.is_crowded() {
                let (folder, cluster) = (Arc::clone(&self.folder), Arc::clone(&self.cluster));
                let merged = spawn_blocking(move || tail.merged(&folder, &cluster));
                tail = merged.await.map_err(|_| AskError::Panicked)??;
            }
            if is_whole {
                return Ok(More::Tail(tail, new));
            }
        }
    }

    /// The versions of the entries from one on and before another, if one answer has all of them.
    pub(super) async fn between(
        &self,
        manifest: &Manifest,
        from: u64,
        to: u64,
    ) -> Result<Option<Heard>, AskError> {
        let answer = self.answer(manifest, from, Some(to)).await?;
        let Answer::Heard(heard) = answer else {
            return Ok(None);
        };
        let is_all = heard.head.is_whole && heard.head.through == to;
        Ok(is_all.then_some(heard))
    }

    /// One answer: what follows from an entry on.
    async fn answer(
        &self,
        manifest: &Manifest,
        from: u64,
        to: Option<u64>,
    ) -> Result<Answer, AskError> {
        let answer = timeout(ANSWER_MAX, self.source.waiting(from, to)).await;
        let answer = answer.map_err(|_| AskError::Slow)?;
        let Some(bytes) = answer.map_err(AskError::Unanswered)? else {
            return Ok(Answer::Sealed);
        };
        let (folder, cluster) = (Arc::clone(&self.folder), Arc::clone(&self.cluster));
        let read = spawn_blocking(move || Heard::read(&folder, &cluster, bytes));
        let heard = read.await.map_err(|_| AskError::Panicked)??;
        let head = &heard.head;
        if head.writer != manifest.writer {
            return Ok(Answer::Foreign(head.writer.clone()));
        }
        if *head.cluster != *self.cluster || head.from != from {
            let of = |cluster: &str, from: u64| format!("{cluster:?} from {from} on");
            return Err(AskError::Other {
                found: of(&head.cluster, head.from),
                wanted: of(&self.cluster, from),
            });
        }
        if head.through < from {
            return Ok(Answer::Short);
        }
        if to.is_some_and(|to| head.through > to) {
            let up_to = |entry: u64| format!("entries before {entry}");
            return Err(AskError::Other {
                found: up_to(head.through),
                wanted: up_to(to.unwrap_or(from)),
            });
        }
        Ok(Answer::Heard(heard))
    }
}
