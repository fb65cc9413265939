//! Asks the archive that follows a cluster for pending versions.
//!
//! Invariant: an answer is accepted only if it comes from the store that the manifest names, and
//! begins with the feed entry that follows the known ones.

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

/// Maximum time until an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Number of requests after one manifest, after which the known versions are requested again.
const ANEW: u32 = 100;

/// The archive that follows a cluster, as the source of pending versions.
pub trait WaitingSource: Send + Sync + 'static {
    /// Returns what [`Waiting::file`](crate::Waiting::file) of the writing store gives, or why it
    /// cannot.
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Option<Bytes>, String>>;

    /// The address of that archive, where the cluster's events can be watched; `None`, which is the
    /// default, if it is not known.
    fn address(&self) -> Option<String> {
        None
    }
}

/// Why the archive gave no usable answer about pending versions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The archive that follows the cluster refused or failed.
    #[error("{0}")]
    Unanswered(String),
    /// The archive did not answer in time.
    #[error("no answer within {} s", ANSWER_MAX.as_secs())]
    Slow,
    /// The answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    File(#[from] FileError),
    /// The answer is about something else than was asked for.
    #[error("the answer is about {found} instead of {wanted}")]
    Other {
        /// What the answer is about.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// Reading the answer panicked; the log says how.
    #[error("reading the answer panicked")]
    Panicked,
}

/// The source of pending versions of one cluster, and how the last request ended.
pub(in crate::reader) struct Listening {
    pub(in crate::reader) source: Arc<dyn WaitingSource>,
    folder: Arc<Folder>,
    cluster: Arc<str>,
    pub(in crate::reader) bytes_max: u64,
    pub(in crate::reader) failure: Mutex<Option<String>>,
    /// The manifest after which was last asked, and the number of requests.
    asked: Mutex<(u64, u32)>,
}

/// The outcome of asking for further pending versions.
pub(in crate::reader) enum More {
    /// All that was asked for or that exists, and the new part of it.
    Tail(Tail, Vec<Arc<Part>>),
    /// As many versions as a reader may hold, with the new part.
    Full(Tail, Vec<Arc<Part>>),
    /// Some of the versions were sealed meanwhile.
    Sealed,
    /// The answer comes from another store, whose identity this is.
    Foreign(String),
    /// The archive has fewer entries than the reader already knows.
    Short,
}

/// The outcome of one request.
enum Answer {
    Heard(Heard),
    Sealed,
    Foreign(String),
    Short,
}

impl Listening {
    pub(in crate::reader) fn to(
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
            asked: Mutex::default(),
        }
    }

    /// Counts a request after a manifest. Returns whether there were so many that the known
    /// versions are requested again.
    pub(in crate::reader) fn count_request(&self, manifest: u64) -> bool {
        let mut asked = self.asked.lock();
        let (before, times) = *asked;
        let times = if before == manifest { times + 1 } else { 1 };
        *asked = (manifest, times % ANEW);
        times == ANEW
    }

    /// Extends the pending versions after a manifest, up to an entry or as far as entries exist.
    pub(in crate::reader) async fn more(
        &self,
        manifest: &Manifest,
        mut tail: Tail,
        to: Option<u64>,
    ) -> Result<More, AskError> {
        // A revision has no more room for entries.
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
                // The same request would be repeated for ever.
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

    /// Asks for the versions of the entries `from..to`; `None` if one answer does not have all of
    /// them.
    pub(in crate::reader) async fn between(
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

    /// Sends one request for the versions of the entries from `from` on.
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
