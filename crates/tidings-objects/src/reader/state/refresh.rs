//! Shows the pending versions after the newest manifest.
//!
//! Invariants: if the pending versions do not follow the manifest that is shown, a newer manifest
//! is looked for first, so that no version is skipped or shown twice. While nothing is sealed, the
//! shown versions are requested again from time to time, so that deleted events disappear.

use std::sync::Arc;

use super::sealed::{LookError, Sealed};
use crate::reader::pending::changes::News;
use crate::reader::pending::tail::Tail;
use crate::reader::pending::{AskError, Listening, More};

/// Maximum number of attempts while the manifest or the view changes in between.
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
    #[error("more is sealed there than the newest manifest states, or it seals to another place")]
    Behind,
    /// The archive that follows the cluster seals elsewhere, or another one took over.
    #[error("its data folder (store {found}) is not the one that seals to this place ({writer})")]
    Foreign {
        /// The identity of that archive's store.
        found: String,
        /// The identity of the store that the manifest names.
        writer: String,
    },
    /// The feed ends before what the manifest says is sealed.
    #[error("its data folder was restored from a copy: it has less than is sealed")]
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
    pub(in crate::reader) async fn hear(&self) -> Result<(), HearError> {
        let Some(listening) = &self.listening else {
            return Ok(());
        };
        let mut heard = self.hear_from(listening).await;
        if listening.count_request(self.newest().manifest().number)
            && let Err(error) = self.hear_anew(listening).await
        {
            heard = Err(error);
        }
        *listening.failure.lock() = heard.as_ref().err().map(ToString::to_string);
        heard
    }

    /// Requests all pending versions that are shown, and shows those that still exist.
    async fn hear_anew(&self, listening: &Listening) -> Result<(), HearError> {
        let now = self.newest();
        let (manifest, tail) = (now.manifest(), now.tail());
        if tail.parts().is_empty() {
            return Ok(());
        }
        let behind = Tail::behind(manifest);
        let to = Some(tail.reached());
        let anew = match listening.more(manifest, behind.clone(), to).await? {
            More::Tail(anew, _) | More::Full(anew, _) => anew,
            // The archive no longer has them. If they were sealed, a newer manifest would be shown
            // by now.
            More::Sealed | More::Foreign(_) | More::Short => behind,
        };
        if !anew.has_same_versions(tail) {
            self.forget_waiting().await;
            self.replace(&now, now.with(anew), News::Unknown);
        }
        Ok(())
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
