//! A cache of stored events' resourceVersions, so that a patch can state the resourceVersion it is
//! made for.
//!
//! Invariant: an entry is the resourceVersion of the last answer, and is removed when the server
//! reports another. Two events share an entry with a probability of one in 2^64, which costs one
//! more request.

use std::hash::{BuildHasher, RandomState};

use lru::LruCache;
use tidings_core::Occurrence;

use crate::sync::{Mutex, lock};

pub(super) struct Versions {
    hasher: RandomState,
    /// ResourceVersions by a hash of namespace and name; empty if the server returns none.
    entries: Mutex<LruCache<u64, Box<str>>>,
    entries_max: usize,
}

impl Versions {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            // Unbounded here and bounded by hand, because a bounded cache would allocate its
            // maximum at once.
            entries: Mutex::new(LruCache::unbounded()),
            entries_max,
        }
    }

    /// Whether no resourceVersions are kept.
    pub(super) fn is_off(&self) -> bool {
        self.entries_max == 0
    }

    pub(super) fn get(&self, occurrence: &Occurrence) -> Option<Box<str>> {
        lock(&self.entries).get(&self.key(occurrence)).cloned()
    }

    /// Records the resourceVersion of an answer; `None` if it could not be read.
    pub(super) fn put(&self, occurrence: &Occurrence, version: Option<&str>) {
        if self.is_off() {
            return;
        }
        let key = self.key(occurrence);
        let mut entries = lock(&self.entries);
        match version {
            Some(version) => entries.put(key, version.into()),
            None => entries.pop(&key),
        };
        if entries.len() > self.entries_max {
            entries.pop_lru();
        }
    }

    fn key(&self, occurrence: &Occurrence) -> u64 {
        self.hasher
            .hash_one((occurrence.namespace(), &*occurrence.name()))
    }
}
