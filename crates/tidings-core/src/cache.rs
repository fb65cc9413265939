//! A least-recently-used cache, bounded by entries and by bytes.
//!
//! Invariants: after every call `len() <= entries_max` and `bytes <= bytes_max`; `bytes` is the sum
//! of the entries' weights.

use std::hash::BuildHasherDefault;

use lru::LruCache;

use crate::key::{Hashed, Key};

/// Statistics of one of a correlator's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Number of entries now.
    pub entries: usize,
    /// About how many bytes the entries take. An event that several entries share counts for each.
    pub bytes: usize,
    /// Number of lookups that found an entry.
    pub hits: u64,
    /// Number of lookups that found no entry.
    pub misses: u64,
    /// Number of entries evicted because of a bound. A repeat of an evicted event counts as a new
    /// event. If this happens often, raise the cache's bounds.
    pub evictions: u64,
}

struct Slot<V> {
    value: V,
    /// Bytes of the entry and its key, which do not change.
    base: usize,
    /// Further bytes of the value on the heap, which may change.
    extra: usize,
}

/// A bounded map from [`Key`]s to values.
pub(crate) struct Cache<V> {
    slots: LruCache<Key, Slot<V>, BuildHasherDefault<Hashed>>,
    entries_max: usize,
    bytes_max: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
    evictions: u64,
}

/// Bytes of an entry besides its key: the list's links and the table's slot.
const SLOT_BYTES: usize = 48;

impl<V> Cache<V> {
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self {
            // `lru` has no bound here: with one it would allocate its maximum at once, and it
            // cannot count bytes.
            slots: LruCache::unbounded_with_hasher(BuildHasherDefault::default()),
            entries_max,
            bytes_max,
            bytes: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
        }
    }

    /// Looks up the value of `key`, which becomes the most recently used one.
    pub(crate) fn get(&mut self, key: &Key) -> Option<&mut V> {
        let slot = self.slots.get_mut(key);
        if slot.is_some() {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        slot.map(|slot| &mut slot.value)
    }

    /// The value of `key`, without marking it as used.
    pub(crate) fn peek(&mut self, key: &Key) -> Option<&mut V> {
        self.slots.peek_mut(key).map(|slot| &mut slot.value)
    }

    /// Inserts or replaces the value of `key`, and evicts entries beyond the bounds. `extra` is the
    /// bytes of the value on the heap.
    pub(crate) fn put(&mut self, key: Key, value: V, extra: usize) {
        self.insert(key, value, extra);
        self.trim();
    }

    /// Like [`Cache::put`], but without eviction; call [`Cache::pop_excess`] afterwards.
    pub(crate) fn insert(&mut self, key: Key, value: V, extra: usize) {
        let base = SLOT_BYTES + size_of::<Slot<V>>() + key.size();
        self.bytes += base + extra;
        if let Some(old) = self.slots.put(key, Slot { value, base, extra }) {
            self.bytes -= old.base + old.extra;
        }
    }

    /// Removes the entry of `key`.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        let slot = self.slots.pop(key)?;
        self.bytes -= slot.base + slot.extra;
        Some(slot.value)
    }

    /// Removes the least recently used entry.
    pub(crate) fn pop(&mut self) -> Option<(Key, V)> {
        let (key, slot) = self.slots.pop_lru()?;
        self.bytes -= slot.base + slot.extra;
        Some((key, slot.value))
    }

    /// Removes the least recently used entry if the bounds are exceeded.
    pub(crate) fn pop_excess(&mut self) -> Option<(Key, V)> {
        if self.slots.len() <= self.entries_max && self.bytes <= self.bytes_max {
            return None;
        }
        self.evictions += 1;
        self.pop()
    }

    /// All keys, most recently used first.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.slots.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Updates the value's bytes on the heap, and evicts entries beyond the bounds.
    pub(crate) fn weigh(&mut self, key: &Key, extra: usize) {
        self.reweigh(key, extra);
        self.trim();
    }

    /// Like [`Cache::weigh`], but without eviction; call [`Cache::pop_excess`] afterwards.
    pub(crate) fn reweigh(&mut self, key: &Key, extra: usize) {
        if let Some(slot) = self.slots.peek_mut(key) {
            self.bytes = self.bytes - slot.extra + extra;
            slot.extra = extra;
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            entries: self.slots.len(),
            bytes: self.bytes,
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
        }
    }

    fn trim(&mut self) {
        while self.pop_excess().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;

    use super::*;
    use crate::Event;
    use crate::key::{Keys, Projection};

    /// A key; all have the same size.
    fn key(text: &str) -> Key {
        let event = Event::from_wire(v1::Event::default());
        Keys::new(1).custom(&event, Projection::CUSTOM, text.to_owned())
    }

    #[test]
    fn what_is_in_it_is_weighed_and_looked_up_is_counted() {
        let mut cache = Cache::new(3, usize::MAX);
        cache.put(key("a"), 1, 10);
        let one = cache.stats().bytes;
        let base = SLOT_BYTES + size_of::<Slot<i32>>() + key("a").size();
        assert_eq!(one, base + 10);
        cache.put(key("b"), 2, 7);
        assert_eq!(cache.stats().bytes, one + base + 7);
        // This replaces an earlier value.
        cache.put(key("b"), 3, 5);
        assert_eq!(cache.stats().bytes, one + base + 5);
        cache.weigh(&key("a"), 4);
        cache.weigh(&key("not there"), 1000);
        assert_eq!(cache.stats().bytes, 2 * base + 4 + 5);
        assert_eq!(cache.remove(&key("a")), Some(1));
        assert_eq!(cache.remove(&key("a")), None);
        assert_eq!(cache.stats().bytes, base + 5);
        assert_eq!(cache.pop().map(|(_, value)| value), Some(3));
        assert_eq!((cache.stats().bytes, cache.stats().entries), (0, 0));

        cache.put(key("a"), 1, 0);
        for (looked_up, found) in [("a", Some(1)), ("b", None), ("a", Some(1)), ("c", None)] {
            assert_eq!(cache.get(&key(looked_up)).copied(), found);
        }
        assert_eq!(cache.peek(&key("a")).copied(), Some(1));
        assert_eq!(cache.get(&key("d")), None);
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.evictions), (2, 3, 0));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let base = SLOT_BYTES + size_of::<Slot<i32>>() + key("a").size();
        // The cache is bounded by entries, then by bytes. An entry that fills the bound exactly
        // stays.
        for (entries_max, bytes_max) in [(2, usize::MAX), (usize::MAX, 2 * base)] {
            let mut cache = Cache::new(entries_max, bytes_max);
            cache.put(key("a"), 1, 0);
            cache.put(key("b"), 2, 0);
            assert_eq!(cache.stats().evictions, 0);
            assert_eq!(cache.keys().len(), 2);
            // A lookup counts as use, a peek does not.
            cache.get(&key("a"));
            cache.peek(&key("b"));
            assert!(cache.keys() == [key("a"), key("b")]);
            cache.insert(key("c"), 3, 0);
            assert_eq!(cache.stats().entries, 3, "until it is taken");
            assert_eq!(cache.pop_excess().map(|(_, value)| value), Some(2));
            assert!(cache.pop_excess().is_none());
            assert_eq!(cache.stats().evictions, 1);
            assert!(cache.keys() == [key("c"), key("a")]);
        }
        // A value that grows evicts others. If it is too large by itself, it is evicted, too.
        let mut cache = Cache::new(usize::MAX, 2 * base);
        cache.put(key("a"), 1, 0);
        cache.put(key("b"), 2, 0);
        cache.reweigh(&key("b"), 1);
        assert_eq!(cache.stats().entries, 2);
        cache.weigh(&key("b"), base);
        assert!(cache.keys() == [key("b")]);
        cache.weigh(&key("b"), base + 1);
        let stats = cache.stats();
        assert_eq!((stats.entries, stats.bytes, stats.evictions), (0, 0, 2));
    }
}
