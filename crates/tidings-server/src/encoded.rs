//! Watch events that were already encoded for one watcher and are about to be sent to the next.
//!
//! A change goes to every watcher; encoding it is most of the work. What is sent does not depend on who watches, only on
//! the form asked for, so the latest encodings are kept, in bounded number and size, and shared: each is made once for as
//! long as watchers are not further apart than what is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::codec::Api;
use crate::negotiate::{Media, Shape};
use crate::table::IncludeObject;

/// So many encodings are remembered.
const ENTRIES_MAX: usize = 4096;
/// All together have so many bytes.
const BYTES_MAX: usize = 8 << 20;

/// What an encoding depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct EncodingKey {
    /// The revision of the change.
    pub(crate) revision: u64,
    /// Several keys may change in one revision.
    pub(crate) key: Bytes,
    /// `ADDED`, `MODIFIED` or `DELETED`: what it is to this watcher's selector.
    pub(crate) kind: &'static str,
    pub(crate) api: Api,
    pub(crate) media: Media,
    pub(crate) shape: Shape,
    pub(crate) row: Option<RowKey>,
}

/// What a table's row depends on besides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RowKey {
    /// Ages change by the second.
    pub(crate) second: i64,
    pub(crate) include_object: IncludeObject,
    pub(crate) columns: bool,
}

/// The latest encodings.
#[derive(Default)]
pub(crate) struct EncodedEvents(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_key: HashMap<EncodingKey, Bytes>,
    oldest_first: VecDeque<EncodingKey>,
    bytes: usize,
}

impl EncodedEvents {
    /// The encoding, made by `encode` if nobody needed it before. Who needs the same meanwhile waits for it.
    pub(crate) fn get_or_encode<E>(
        &self,
        key: EncodingKey,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = entries.by_key.get(&key) {
            return Ok(bytes.clone());
        }
        let bytes = encode()?;
        entries.insert(key, bytes.clone());
        Ok(bytes)
    }
}

impl Entries {
    fn insert(&mut self, key: EncodingKey, bytes: Bytes) {
        // One that would drive out most others is not worth it.
        if bytes.len() > BYTES_MAX / 8 {
            return;
        }
        self.bytes += bytes.len();
        self.oldest_first.push_back(key.clone());
        self.by_key.insert(key, bytes);
        while self.bytes > BYTES_MAX || self.by_key.len() > ENTRIES_MAX {
            let Some(oldest) = self.oldest_first.pop_front() else {
                return;
            };
            if let Some(bytes) = self.by_key.remove(&oldest) {
                self.bytes -= bytes.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_encoded_once_and_what_is_kept_is_bounded() {
        let encoded = EncodedEvents::default();
        let get = |revision: u64, kind: &'static str, len: usize| {
            let mut made = false;
            let key = EncodingKey {
                revision,
                key: "shop/web".into(),
                kind,
                api: Api::Core,
                media: Media::Json,
                shape: Shape::Whole,
                row: None,
            };
            let encode = || {
                made = true;
                Ok::<_, ()>(Bytes::from(vec![0; len]))
            };
            assert_eq!(
                encoded.get_or_encode(key, encode).map(|bytes| bytes.len()),
                Ok(len)
            );
            made
        };
        assert!(get(1, "ADDED", 10) && !get(1, "ADDED", 10));
        assert!(get(1, "DELETED", 10), "another answer");
        assert!(
            get(2, "ADDED", BYTES_MAX) && get(2, "ADDED", BYTES_MAX),
            "too long to keep"
        );
        for revision in 10..10 + 2 * ENTRIES_MAX as u64 {
            assert!(get(revision, "ADDED", 4096));
        }
        let entries = encoded.0.lock().unwrap();
        assert!(entries.bytes <= BYTES_MAX && entries.by_key.len() <= ENTRIES_MAX);
        assert_eq!(entries.by_key.len(), entries.oldest_first.len());
    }
}
