//! Events that were already encoded for one watcher and are about to be sent to the next.
//!
//! A change goes to every watcher; encoding it is most of the work. The form of an event does not depend on who watches,
//! so a bounded number of the latest encodings is kept and shared.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::codec::Api;
use crate::negotiate::{Media, Shape};

/// So many encodings are remembered: enough for watchers that are a little apart.
const ENTRIES_MAX: usize = 256;
/// Longer encodings are not remembered, so that all together stay below 16 MiB.
const BYTES_MAX: usize = 64 * 1024;

/// What an encoding depends on. Tables are left out: ages change by the second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EncodingKey {
    /// The revision of the change.
    pub(crate) revision: u64,
    /// Several keys may change in one revision.
    pub(crate) key: Bytes,
    /// The state before a change is sent too, when an event leaves a selection.
    pub(crate) before: bool,
    pub(crate) api: Api,
    pub(crate) media: Media,
    pub(crate) shape: Shape,
}

/// The latest encodings.
#[derive(Default)]
pub(crate) struct EncodedEvents(Mutex<VecDeque<(EncodingKey, Bytes)>>);

impl EncodedEvents {
    /// The encoding, made by `encode` if nobody needed it before.
    pub(crate) fn get_or_encode<E>(
        &self,
        key: EncodingKey,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        // Latest first: a watcher that keeps up finds its entry at once.
        if let Some((_, bytes)) = self.entries().iter().rev().find(|(entry, _)| *entry == key) {
            return Ok(bytes.clone());
        }
        let bytes = encode()?;
        if bytes.len() > BYTES_MAX {
            return Ok(bytes);
        }
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back((key, bytes.clone()));
        Ok(bytes)
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, VecDeque<(EncodingKey, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
