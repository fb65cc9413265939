//! A cache of events' resourceVersions, so that a patch can name the version it is made for.
//!
//! Invariant: an entry is what an answer said, and is taken away when it turns out to be another's
//! by now. Two events that share an entry, by a chance of one in 2^64, cost a request more.

use std::hash::{BuildHasher, RandomState};

use lru::LruCache;
use tidings_core::Occurrence;

use crate::sync::{Mutex, lock};

pub(super) struct Versions {
    hasher: RandomState,
    /// By a hash of namespace and name. An empty version: the server gives none.
    entries: Mutex<LruCache<u64, Box<str>>>,
    entries_max: usize,
}

impl Versions {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            // Bounded by hand: the cache would make room for all of them at once.
            entries: Mutex::new(LruCache::unbounded()),
            entries_max,
        }
    }

    /// Whether none are kept.
    pub(super) fn is_off(&self) -> bool {
        self.entries_max == 0
    }

    pub(super) fn get(&self, occurrence: &Occurrence) -> Option<Box<str>> {
        lock(&self.entries).get(&self.key(occurrence)).cloned()
    }

    /// Notes what an answer said; `None`: it could not be read.
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
