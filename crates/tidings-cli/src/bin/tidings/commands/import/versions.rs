//! Recognises further versions of events: a watch, or two captures of one cluster, have an event
//! more than once, each time with another count.
//!
//! Invariant: memory is bounded by [`EVENTS_MAX`]; beyond that all events so far are
//! forgotten, and their further versions are not recognised.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tidings_cli::capture::Event;

/// Maximum events that are remembered, each by two hashes.
const EVENTS_MAX: usize = 1 << 17;

/// The events read so far: hashes of their names and of the last version of each.
#[derive(Default)]
pub(super) struct Versions(HashMap<u64, u64>);

impl Versions {
    /// Remembers an event; returns whether another version of it was read before.
    pub(super) fn add(&mut self, event: &Event) -> bool {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let name = hasher.hash_one((&event.namespace, &event.name));
        let text = serde_json::to_vec(&event.body).unwrap_or_default();
        let version = hasher.hash_one(text);
        if self.0.len() >= EVENTS_MAX {
            self.0.clear();
        }
        let before = self.0.insert(name, version);
        before.is_some_and(|before| before != version)
    }
}
