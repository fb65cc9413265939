//! Recognises further versions of events: a watch, or two captures of one cluster, have an event
//! more than once, each time with another count.
//!
//! Invariant: memory is bounded by [`EVENTS_MAX`]; beyond that all events so far are
//! forgotten, and their further versions are not recognised.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tidings_cli::capture::Event;

/// Maximum events that are remembered.
const EVENTS_MAX: usize = 1 << 17;

/// The last version of an event that was read.
#[derive(Clone, Copy)]
struct Last {
    resource_version: Option<u64>,
    /// A hash of the event, which is written differently in the two API groups of events.
    text: u64,
}

/// The events read so far: the last version of each, by a hash of its name.
#[derive(Default)]
pub(super) struct Versions(HashMap<u64, Last>);

impl Versions {
    /// Remembers an event; returns whether another version of it was read before.
    pub(super) fn add(&mut self, event: &Event) -> bool {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let name = hasher.hash_one((&event.namespace, &event.name));
        let text = serde_json::to_vec(&event.body).unwrap_or_default();
        let last = Last {
            resource_version: event.resource_version,
            text: hasher.hash_one(text),
        };
        if self.0.len() >= EVENTS_MAX {
            self.0.clear();
        }
        let before = self.0.insert(name, last);
        before.is_some_and(
            |before| match before.resource_version.zip(last.resource_version) {
                Some((before, last)) => before != last,
                None => before.text != last.text,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn versions_are_told_apart_by_their_number_where_they_have_one() {
        let event = |resource_version, count: u64| Event {
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            body: Map::from_iter([("count".to_owned(), count.into())]),
            identity: Map::new(),
            resource_version,
        };
        for (before, next, is_other) in [
            ((None, 1), (None, 1), false),
            ((None, 1), (None, 2), true),
            ((Some(7), 1), (Some(7), 2), false),
            ((Some(7), 1), (Some(8), 1), true),
            ((Some(7), 1), (None, 1), false),
        ] {
            let mut versions = Versions::default();
            assert!(!versions.add(&event(before.0, before.1)));
            let found = versions.add(&event(next.0, next.1));
            assert_eq!(found, is_other, "{before:?} {next:?}");
        }
    }
}
