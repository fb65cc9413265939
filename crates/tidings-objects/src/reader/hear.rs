//! Asks for the pending versions after the newest manifest, and shows them.
//!
//! Invariant: if the answer does not follow the manifest that is shown, a newer manifest is looked
//! for first, so that no version is skipped or shown twice.

use std::sync::Arc;

use super::ask::{AskError, Listening, More};
use super::cluster::{LookError, Sealed};
use super::news::News;
use super::tail::Tail;

/// How often asking begins anew when the manifest or the view changed meanwhile.
const TRIES: usize = 4;

/// Why the pending versions are unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HearError {
    /// The archive gave no usable answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The look for a newer manifest failed.
    #[error(transparent)]
    Look(#[from] LookError),
    /// The pending versions follow a manifest that is not visible yet, or that is elsewhere.
    #[error("more is sealed there than the newest manifest says, or it seals to elsewhere")]
    Behind,
    /// The archive that follows the cluster seals elsewhere, or another one took over.
    #[error("its data folder (store {found}) is not the one that seals to here ({writer})")]
    Foreign {
        /// The identity of that archive's store.
        found: String,
        /// The identity of the store that the manifest names.
        writer: String,
    },
    /// The feed ends before what the manifest says is sealed.
    #[error("its data folder was put back from a copy: it has less than is sealed")]
    Short,
    /// There are more pending versions than a reader may hold.
    #[error("more than {bytes_max} bytes of events wait: only the first are shown")]
    Full {
        /// [`ReadOptions::waiting_bytes`](crate::ReadOptions::waiting_bytes).
        bytes_max: u64,
    },
}

impl Sealed {
    /// Asks for the pending versions after those that are shown, and shows them.
    pub(super) async fn hear(&self) -> Result<(), HearError> {
        let Some(listening) = &self.listening else {
            return Ok(());
        };
        let heard = self.hear_from(listening).await;
        *listening.failure.lock() = heard.as_ref().err().map(ToString::to_string);
        heard
    }

    async fn hear_from(&self, listening: &Listening) -> Result<(), HearError> {
        for _ in 0..TRIES {
            let now = self.newest();
            let (manifest, tail) = (now.manifest(), now.tail());
            let more = listening.more(manifest, tail.clone(), None).await?;
            let found = match more {
                More::Tail(tail, new) => {
                    if self.replace(&now, now.with(tail), News::Parts(new)) {
                        return Ok(());
                    }
                    continue;
                }
                More::Full(tail, new) => {
                    let bytes_max = listening.bytes_max;
                    self.replace(&now, now.with(tail), News::Parts(new));
                    return Err(HearError::Full { bytes_max });
                }
                More::Short if tail.reached() > manifest.sealed_through => {
                    let tail = Tail::behind(manifest);
                    self.replace(&now, now.with(tail), News::Unknown);
                    continue;
                }
                More::Short => return Err(HearError::Short),
                More::Sealed => None,
                More::Foreign(found) => Some(found),
            };
            self.look().await?;
            if Arc::ptr_eq(&now, &self.newest()) {
                let writer = manifest.writer.clone();
                return Err(match found {
                    Some(found) => HearError::Foreign { found, writer },
                    None => HearError::Behind,
                });
            }
        }
        Err(HearError::Behind)
    }
}
