//! A random history of events, version by version.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Versions of events about many objects in several namespaces. Some names are used again.
pub(crate) struct History {
    random: fastrand::Rng,
    /// The uid and the count of the event that has a name now.
    events: BTreeMap<(usize, usize, usize, usize), (String, u64)>,
    version: u64,
    pub(crate) time: i64,
    /// Number of random letters in a message.
    pub(crate) noise: usize,
    /// The times that authors state in turn, if they are strange.
    pub(crate) strange: &'static [Stated],
}

/// A time that an author states: the right one (`None`), none at all, or any other.
pub(crate) type Stated = Option<Option<&'static str>>;

pub(crate) const ABOUT_1970: [Stated; 8] = [
    None,
    Some(None),
    None,
    Some(Some("1970-01-01T00:00:00.000000Z")),
    None,
    Some(Some("1970-01-01T00:59:59.999999Z")),
    Some(Some("1970-01-01T01:30:00.000000Z")),
    Some(Some("1969-12-31T23:59:59.000000Z")),
];
pub(crate) const FAR: [Stated; 4] = [Some(Some("2999-01-01T00:00:00.000000Z")), None, None, None];
/// The time at which a history begins, in milliseconds.
pub(crate) const START: i64 = 1_700_000_000_000;
pub(crate) const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];
const KINDS: [&str; 3] = ["Deployment", "Node", "Pod"];
const REASONS: [&str; 3] = ["BackOff", "Created", "Pulled"];

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            events: BTreeMap::new(),
            version: 100,
            time: START,
            noise: 0,
            strange: &[],
        }
    }

    fn uid(&mut self) -> String {
        format!(
            "{:08x}-0000-4000-8000-{:012x}",
            self.random.u32(..),
            self.version
        )
    }

    fn message(&mut self) -> String {
        let letters = (0..self.noise).map(|_| self.random.alphanumeric());
        letters.chain("m".repeat(100).chars()).collect()
    }

    pub(crate) fn next(&mut self) -> Value {
        let slot = (
            self.random.usize(..NAMESPACES.len()),
            self.random.usize(..KINDS.len()),
            self.random.usize(..5),
            self.random.usize(..3),
        );
        self.version += self.random.u64(1..4);
        self.time += self.random.i64(1..90_000);
        let is_known = self.events.contains_key(&slot);
        // Events of one time are sorted by when their records were written: an archive writes a
        // predecessor again under its new name, a bucket does not.
        let is_new = !is_known || self.random.u8(..100) < 15 && self.strange.is_empty();
        if is_new {
            let uid = self.uid();
            self.events.insert(slot, (uid, 0));
        }
        let (uid, count) = self.events.get_mut(&slot).unwrap();
        *count += 1;
        let (uid, count) = (uid.clone(), *count);
        let reason = REASONS[self.random.usize(..REASONS.len())];
        let message = self.message();
        let (namespace, kind, object, event) = slot;
        let object = format!("x-{object}");
        let name = format!("{}-{object}.{event}", KINDS[kind].to_lowercase());
        let time = Timestamp::from_millisecond(self.time).unwrap();
        let observed = format!("{time:.6}");
        let mut stated = self.strange.iter().cycle();
        let stated = stated.nth(usize::try_from(self.version).unwrap());
        let time = match stated.copied().flatten() {
            Some(time) => json!(time),
            None => json!(observed),
        };
        // The events have their times in different fields.
        let series = (event > 0).then(|| json!({"count": count, "lastObservedTime": time}));
        json!({
            "kind": "Version", "namespace": NAMESPACES[namespace], "name": name,
            "epoch": 0, "observedAt": observed,
            "event": {
                "apiVersion": "v1", "kind": "Event",
                "metadata": {
                    "namespace": NAMESPACES[namespace], "name": name, "uid": uid,
                    "resourceVersion": self.version.to_string(),
                },
                "involvedObject": {
                    "kind": KINDS[kind], "namespace": NAMESPACES[namespace], "name": object,
                    "uid": format!("of-{object}"),
                },
                "reason": reason, "message": message,
                "type": if event == 0 { "Warning" } else { "Normal" },
                "eventTime": time, "series": series,
            },
        })
    }

    pub(crate) fn versions(&mut self, number: usize) -> Vec<Value> {
        (0..number).map(|_| self.next()).collect()
    }
}
