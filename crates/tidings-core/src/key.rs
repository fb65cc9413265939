//! Keys define when two events are the same, by typed fields and never by joined strings.
//!
//! A [`Projection`] selects fields of an event; a [`Key`] is an event together with a projection. A
//! key holds the shared event itself, so it needs no allocation. Its hash is computed once, and two
//! keys are equal only if all selected fields are equal. client-go joins the fields into one string
//! without a separator (`getEventKey`, `getSpamKey`, `EventAggregatorByReasonFunc`), so different
//! events can share a key there.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::event::{MESSAGE_TEXTS, REASON_TEXTS, TYPE_TEXTS};
use crate::reference::{ALL_FIELDS, OBJECT_FIELDS, PART_FIELDS};
use crate::source::{COMPONENT_FIELDS, REPORTING_FIELDS};
use crate::{Event, Reference};

/// The fields of an event that a key compares. For each packed group, the number of its leading
/// fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Projection {
    /// Number of source fields: component, host | reportingController, reportingInstance.
    source: u8,
    /// Number of fields of the object: kind, namespace, name, uid, apiVersion | fieldPath |
    /// resourceVersion. Only client-go's series compare the last one: an object that was updated is
    /// still the same object.
    regarding: u8,
    /// Number of texts: type | reason | message | action.
    text: u8,
    /// Whether the action is compared even if the message is not.
    action: bool,
    /// Whether the event's own namespace is compared.
    namespace: bool,
    /// Number of fields of the related object, in the order of `regarding`.
    related: u8,
}

/// Selects no field, for keys that consist of a text only.
const NOTHING: Projection = Projection {
    source: 0,
    regarding: 0,
    text: 0,
    action: false,
    namespace: false,
    related: 0,
};

impl Projection {
    /// Repeats of an event, as client-go defines them. It compares source, object, part of the
    /// object, type, reason and message.
    pub(crate) const CLIENT_GO_REPEAT: Self = Self {
        source: COMPONENT_FIELDS as u8,
        regarding: PART_FIELDS as u8,
        text: MESSAGE_TEXTS as u8,
        ..NOTHING
    };

    /// Repeats of an event: all fields that a reader sees, except times, annotations and labels.
    pub(crate) const REPEAT: Self = Self {
        source: REPORTING_FIELDS as u8,
        regarding: PART_FIELDS as u8,
        text: MESSAGE_TEXTS as u8 + 1,
        namespace: true,
        related: PART_FIELDS as u8,
        ..NOTHING
    };

    /// Events of one series: all fields except the note, times, annotations and labels.
    pub(crate) const SERIES: Self = Self {
        source: REPORTING_FIELDS as u8,
        regarding: PART_FIELDS as u8,
        text: REASON_TEXTS as u8,
        action: true,
        namespace: true,
        related: PART_FIELDS as u8,
    };

    /// Events of one series, as client-go's `tools/events` defines it. There an object that was
    /// updated is another object.
    pub(crate) const CLIENT_GO_SERIES: Self = Self {
        regarding: ALL_FIELDS as u8,
        related: ALL_FIELDS as u8,
        ..Self::SERIES
    };

    /// Events that differ only in their message, as client-go defines them. It compares source,
    /// reporter, object, type and reason.
    pub(crate) const CLIENT_GO_SIMILAR: Self = Self {
        source: REPORTING_FIELDS as u8,
        regarding: OBJECT_FIELDS as u8,
        text: REASON_TEXTS as u8,
        ..NOTHING
    };

    /// Events of one namespace that differ only in their message.
    pub(crate) const SIMILAR: Self = Self {
        namespace: true,
        ..Self::CLIENT_GO_SIMILAR
    };

    /// Events that share a budget in client-go: same source, object and type.
    pub(crate) const BUDGET_BY_OBJECT: Self = Self {
        source: COMPONENT_FIELDS as u8,
        regarding: OBJECT_FIELDS as u8,
        text: TYPE_TEXTS as u8,
        ..NOTHING
    };

    /// Events that share a budget: same source, object, type and reason.
    pub(crate) const BUDGET_BY_REASON: Self = Self {
        text: REASON_TEXTS as u8,
        ..Self::BUDGET_BY_OBJECT
    };

    /// Events of one namespace for which the user's function returns the same text.
    pub(crate) const CUSTOM: Self = Self {
        namespace: true,
        ..NOTHING
    };

    /// Events for which the user's function returns the same text.
    pub(crate) const CLIENT_GO_CUSTOM: Self = NOTHING;

    fn hash(self, event: &Event, state: &mut impl Hasher) {
        // The projection takes part, because keys of different kinds share one cache.
        Hash::hash(&self, state);
        if self.source > 0 {
            event.source().hash_prefix(usize::from(self.source), state);
        }
        if self.regarding > 0 {
            event
                .regarding()
                .hash_prefix(usize::from(self.regarding), state);
        }
        if self.text > 0 {
            event.text().hash_prefix(usize::from(self.text), state);
        }
        if self.namespace {
            event.namespace().hash(state);
        }
        if self.action {
            event.action().hash(state);
        }
        if self.related > 0
            && let Some(related) = event.related()
        {
            related.hash_prefix(usize::from(self.related), state);
        }
    }

    fn eq(self, left: &Event, right: &Event) -> bool {
        let related = |left: Option<&Reference>, right: Option<&Reference>| match (left, right) {
            (Some(left), Some(right)) => left.prefix_eq(right, usize::from(self.related)),
            (None, None) => true,
            _ => false,
        };
        left.source()
            .prefix_eq(right.source(), usize::from(self.source))
            && left
                .regarding()
                .prefix_eq(right.regarding(), usize::from(self.regarding))
            && left.text().prefix_eq(right.text(), usize::from(self.text))
            && (!self.namespace || left.namespace() == right.namespace())
            && (!self.action || left.action() == right.action())
            && (self.related == 0 || related(left.related(), right.related()))
    }
}

/// Makes keys whose hashes cannot be predicted without the seed. So authors of messages cannot
/// cause collisions.
pub(crate) struct Keys(FixedState);

impl Keys {
    pub(crate) fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// The key of `event` by `projection`.
    pub(crate) fn key(&self, event: &Event, projection: Projection) -> Key {
        self.make(event, projection, None)
    }

    /// The key of `event` by `projection`, and by the text that the user's function returned.
    pub(crate) fn custom(&self, event: &Event, projection: Projection, text: String) -> Key {
        self.make(event, projection, Some(text.into()))
    }

    fn make(&self, event: &Event, projection: Projection, text: Option<Arc<str>>) -> Key {
        let mut state = self.0.build_hasher();
        projection.hash(event, &mut state);
        text.hash(&mut state);
        Key {
            hash: state.finish(),
            projection,
            event: event.clone(),
            text,
        }
    }
}

/// The selected fields of an event, with their hash. Cloning it copies pointers.
#[derive(Clone)]
pub(crate) struct Key {
    hash: u64,
    projection: Projection,
    event: Event,
    text: Option<Arc<str>>,
}

impl Key {
    /// Approximate bytes of memory that a cache keeps alive by holding this key.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.event.size() + self.text.as_ref().map_or(0, |text| text.len())
    }

    /// The same key, but holding `event`, whose selected fields are equal.
    pub(crate) fn kept_by(&self, event: &Event) -> Self {
        Self {
            event: event.clone(),
            ..self.clone()
        }
    }

    /// Bytes that `event` takes besides this key: 0 if it is the key's own event.
    pub(crate) fn size_beside(&self, event: &Event) -> usize {
        if self.event.is_same(event) {
            0
        } else {
            event.size()
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.projection == other.projection
            && self.text == other.text
            && (self.event.is_same(&other.event) || self.projection.eq(&self.event, &other.event))
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher that returns the hash that a [`Key`] already has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // `Key` does not use this, but it is correct for any input.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Identifies the stored event that an [`Occurrence`](crate::Occurrence) is written to. Two
/// occurrences with the same key change the same event in the cluster, so their writes keep their
/// order. It is cheap to clone and to hash.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CountKey(pub(crate) Key);

impl std::fmt::Debug for CountKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CountKey({:016x})", self.0.hash)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use proptest::prelude::*;
    use std::hash::BuildHasherDefault;

    use super::*;

    /// The parts of an event. In order: source component, host, reportingController,
    /// reportingInstance; kind, namespace, name, uid, apiVersion, fieldPath, resourceVersion; type,
    /// reason, message, action; the event's namespace; the related object's name.
    type Parts = [&'static str; 17];

    fn event(parts: &Parts) -> Event {
        let some = |text: &str| Some(text.to_owned());
        let [
            component,
            host,
            controller,
            instance,
            kind,
            namespace,
            name,
            uid,
            api_version,
            field_path,
            resource_version,
            event_type,
            reason,
            message,
            action,
            own_namespace,
            related,
        ] = parts;
        Event::from_wire(v1::Event {
            metadata: ObjectMeta {
                namespace: some(own_namespace),
                ..Default::default()
            },
            source: Some(v1::EventSource {
                component: some(component),
                host: some(host),
            }),
            reporting_component: some(controller),
            reporting_instance: some(instance),
            involved_object: v1::ObjectReference {
                kind: some(kind),
                namespace: some(namespace),
                name: some(name),
                uid: some(uid),
                api_version: some(api_version),
                field_path: some(field_path),
                resource_version: some(resource_version),
            },
            type_: some(event_type),
            reason: some(reason),
            message: some(message),
            action: some(action),
            related: (!related.is_empty()).then(|| v1::ObjectReference {
                name: some(related),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    /// Each projection, with the indexes in [`Parts`] of the fields it compares.
    const PROJECTIONS: [(Projection, &[usize]); 10] = [
        (
            Projection::SERIES,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14, 15, 16],
        ),
        (
            Projection::CLIENT_GO_SERIES,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16],
        ),
        (
            Projection::CLIENT_GO_REPEAT,
            &[0, 1, 4, 5, 6, 7, 8, 9, 11, 12, 13],
        ),
        (
            Projection::REPEAT,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16],
        ),
        (
            Projection::CLIENT_GO_SIMILAR,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12],
        ),
        (
            Projection::SIMILAR,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15],
        ),
        (Projection::BUDGET_BY_OBJECT, &[0, 1, 4, 5, 6, 7, 8, 11]),
        (Projection::BUDGET_BY_REASON, &[0, 1, 4, 5, 6, 7, 8, 11, 12]),
        (Projection::CUSTOM, &[15]),
        (Projection::CLIENT_GO_CUSTOM, &[]),
    ];

    fn parts() -> impl Strategy<Value = Parts> {
        let word = prop::sample::select(vec!["", "a", "b", "ab", "aab"]);
        prop::collection::vec(word, 17).prop_map(|words| std::array::from_fn(|at| words[at]))
    }

    proptest! {
        /// Two events that differ in one part have the same key exactly if that part is not
        /// compared. The same holds for any two events.
        #[test]
        fn keys_are_equal_exactly_when_all_that_counts_is(left in parts(), other in parts(), place in 0..17_usize, seed: u64) {
            let keys = Keys::new(seed);
            let mut near = left;
            near[place] = other[place];
            // A character is moved from one part to the next: joined, the text is the same.
            let mut shifted = left;
            shifted.swap(place, (place + 1) % 17);
            for right in [other, near, shifted] {
                for (projection, counts) in PROJECTIONS {
                    let same = counts.iter().all(|place| left[*place] == right[*place]);
                    let (one, two) = (keys.key(&event(&left), projection), keys.key(&event(&right), projection));
                    prop_assert_eq!(one == two, same, "{:?}", projection);
                    prop_assert_eq!(one.hash == two.hash, same, "{:?}", projection);
                    // Keys with the same hash by chance are still different.
                    let two = Key { hash: one.hash, ..two };
                    prop_assert_eq!(one == two, same, "{:?}", projection);
                }
            }
        }

        #[test]
        fn keys_of_different_kinds_differ(parts in parts()) {
            let (keys, event) = (Keys::new(1), event(&parts));
            let all: Vec<_> = PROJECTIONS.iter().map(|(projection, _)| keys.key(&event, *projection)).collect();
            for (place, key) in all.iter().enumerate() {
                prop_assert_eq!(all.iter().position(|other| other == key), Some(place));
            }
            let custom = |text: &str| keys.custom(&event, Projection::CUSTOM, text.to_owned());
            prop_assert!(custom("a") == custom("a") && custom("a") != custom("b"));
            prop_assert!(custom("") != keys.key(&event, Projection::CUSTOM));
        }
    }

    #[test]
    fn a_key_weighs_what_it_keeps_in_memory() {
        let mut parts = ["a"; 17];
        let keys = Keys::new(1);
        let small = event(&parts);
        parts[13] = "a message of twenty-six byte";
        let (large, text) = (event(&parts), "text");
        assert!(large.size() > small.size());
        let key = keys.key(&small, Projection::CUSTOM);
        assert_eq!(key.size(), size_of::<Key>() + small.size());
        let custom = keys.custom(&small, Projection::CUSTOM, text.to_owned());
        assert_eq!(custom.size(), key.size() + text.len());
        // The same key, held by another event with equal fields.
        let kept = key.kept_by(&large);
        assert_eq!(
            BuildHasherDefault::<Hashed>::default().hash_one(&kept),
            key.hash
        );
        assert!(kept == key);
        assert_eq!(kept.size(), size_of::<Key>() + large.size());
        assert_eq!(
            [&small, &large].map(|event| kept.size_beside(event)),
            [small.size(), 0]
        );
    }
}
