//! Compares the memtable with a plain list of changes, as of any revision.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Index, ObjectSelector};

const NAMES: [&str; 6] = ["a/x", "a/y", "b/x", "b", "b/", "c/long-name"];
const OBJECTS: [&str; 3] = ["", "one", "two"];

/// A hash that puts different names into one chain.
fn hash(name: &str) -> u64 {
    name.len() as u64 % 2
}

#[derive(Clone, Debug)]
enum Step {
    /// Puts or removes one of the names.
    Put {
        name: usize,
        object: usize,
        last_seen: i64,
    },
    Remove {
        name: usize,
    },
    /// Makes a number of changes, more than a chunk has.
    Many {
        name: usize,
        count: usize,
    },
    /// Removes the last changes.
    TakeBack(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..6usize, 0..3usize, 0..5i64)
            .prop_map(|(name, object, last_seen)| Step::Put { name, object, last_seen }),
        3 => (0..6usize).prop_map(|name| Step::Remove { name }),
        1 => (0..6usize, CHUNK - 3..CHUNK + 3).prop_map(|(name, count)| Step::Many { name, count }),
        2 => (0..2 * CHUNK).prop_map(Step::TakeBack),
        2 => (0..4usize).prop_map(Step::TakeBack),
    ];
    proptest::collection::vec(step, 1..30)
}

/// The changes, oldest first: the revision, the name, the new version, and the ended one.
#[derive(Default)]
struct Model {
    changes: Vec<(Revision, &'static str, Option<Placed>, Option<Placed>)>,
    /// The versions that names had before this memtable.
    before: BTreeMap<&'static str, Placed>,
}

impl Model {
    fn as_of(&self, at: Revision) -> BTreeMap<&'static str, Option<Placed>> {
        let seen = self.changes.iter().filter(|change| change.0 <= at);
        seen.map(|(_, name, placed, _)| (*name, *placed)).collect()
    }

    fn current(&self, name: &str) -> Option<Placed> {
        let changes = self.as_of(Revision::MAX);
        changes
            .get(name)
            .copied()
            .unwrap_or_else(|| self.before.get(name).copied())
    }
}

pub(in crate::embedded) fn placed(
    revision: Revision,
    name: &str,
    object: usize,
    last_seen: i64,
) -> Placed {
    let index = Index {
        object_uid: OBJECTS[object].into(),
        object_name: OBJECTS[(object + 1) % 3].into(),
        last_seen: UnixMillis(last_seen),
        ..Index::default()
    };
    Placed {
        pointer: Pointer {
            revision,
            bucket: 9,
            expires_at: Some(UnixMillis(5)),
        },
        fields: Fields::of(&index, name.as_bytes()),
        is_early: false,
    }
}

fn check(memtable: &Memtable, model: &Model, at: Revision) -> Result<(), TestCaseError> {
    let expected = model.as_of(at);
    for name in NAMES {
        let found = memtable.find(hash(name), name.as_bytes(), at);
        match (found, expected.get(name)) {
            (Found::Unknown, None) | (Found::Gone, Some(None)) => {}
            (Found::Placed(found), Some(Some(expected))) => {
                prop_assert_eq!(found.pointer, expected.pointer);
            }
            (found, expected) => prop_assert!(false, "{}: {:?} {:?}", name, found, expected),
        }
    }
    let chunks = memtable.chunks(at);
    let mut names = BTreeMap::new();
    for chunk in &chunks {
        let mut stream = Names::new(Arc::clone(chunk), at, |name| name < &b"b"[..]);
        let mut last = Vec::new();
        while let Some((name, pointer)) = stream.peek() {
            prop_assert!(*last < *name);
            last = name.to_vec();
            names.insert(last.clone(), pointer);
            stream.advance();
        }
    }
    let from_b: BTreeMap<_, _> = expected
        .iter()
        .filter(|(name, _)| **name >= "b")
        .map(|(name, placed)| (name.as_bytes().to_vec(), placed.map(|it| it.pointer)))
        .collect();
    prop_assert_eq!(names, from_b);
    let selectors = OBJECTS.iter().skip(1).flat_map(|object| {
        let by_name = ObjectSelector::Name {
            kind: None,
            namespace: None,
            name: (*object).into(),
        };
        [ObjectSelector::Uid((*object).into()), by_name]
    });
    for selector in selectors {
        let wanted = ObjectKey::of(&selector, b"").unwrap();
        let about: BTreeSet<_> = memtable
            .about(wanted, at, false)
            .unwrap()
            .into_iter()
            .map(|found| found.revision)
            .collect();
        let live = expected.values().flatten();
        let expected: BTreeSet<_> = live
            .filter(|placed| placed.fields.objects().contains(&Some(wanted.hash())))
            .map(|placed| placed.pointer.revision)
            .collect();
        prop_assert_eq!(about, expected, "{:?}", selector);
    }
    let group = crate::embedded::index::keys::group(b"a/");
    for by in [By::Seen, By::Group(group.unwrap())] {
        let mut seen = Vec::new();
        for chunk in &chunks {
            let of_chunk: Vec<_> = Seen::new(Arc::clone(chunk), at, by, None)
                .map(|(place, _)| place)
                .collect();
            for behind in &of_chunk {
                let rest = Seen::new(Arc::clone(chunk), at, by, Some(*behind));
                let next = of_chunk.iter().find(|place| *place < behind);
                prop_assert_eq!(rest.map(|(place, _)| place).next(), next.copied());
            }
            prop_assert!(of_chunk.is_sorted_by(|a, b| a > b));
            seen.extend(of_chunk);
        }
        seen.sort_unstable();
        let live = expected.values().flatten();
        let mut expected: Vec<_> = live
            .filter(|placed| by == By::Seen || placed.fields.group == group)
            .map(|placed| Place {
                last_seen: placed.fields.last_seen,
                revision: placed.pointer.revision,
            })
            .collect();
        expected.sort_unstable();
        prop_assert_eq!(seen, expected);
    }
    for (by, _, _, ended) in &model.changes {
        if let Some(ended) = ended {
            let found = memtable.ended_by(ended.pointer.revision, at);
            prop_assert_eq!(found, (*by <= at).then_some(*by));
        }
    }
    Ok(())
}

#[test]
fn what_is_added_later_is_not_gone_through() {
    let memtable = Memtable::default();
    let count = CHUNK + 10;
    let put = |revision: usize| {
        let (name, revision) = (format!("a/{revision}"), revision as u64);
        let new = placed(revision, &name, 1, 0);
        memtable.put(revision, name.as_bytes(), &new, None);
    };
    (0..count).for_each(put);
    let slots = |at: usize| {
        let chunks = memtable.chunks(at as u64);
        chunks.iter().map(|chunk| chunk.slots.len()).sum::<usize>()
    };
    let before = slots(count - 1);
    (count..10 * CHUNK).for_each(put);
    assert_eq!((before, slots(count - 1)), (count, 2 * CHUNK));
    assert_eq!(slots(10 * CHUNK), 10 * CHUNK);
    assert_eq!(slots(0), CHUNK);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn does_as_a_list_of_changes(steps in steps(), readers: [prop::sample::Index; 3]) {
        let memtable = Memtable::default();
        let mut model = Model::default();
        for (number, name) in NAMES.into_iter().enumerate().skip(2) {
            model.before.insert(name, placed(number as u64, name, 1, 0));
        }
        let first = 100;
        for step in steps {
            let revision = model.changes.last().map_or(first, |change| change.0 + 1);
            let put = |model: &mut Model, revision, name: usize, object, last_seen| {
                let (name, before) = (NAMES[name], model.current(NAMES[name]));
                let new = placed(revision, name, object, last_seen);
                memtable.put(hash(name), name.as_bytes(), &new, before.as_ref());
                model.changes.push((revision, name, Some(new), before));
            };
            match step {
                Step::Put { name, object, last_seen } => {
                    put(&mut model, revision, name, object, last_seen);
                }
                Step::Many { name, count } => {
                    for number in 0..count {
                        put(&mut model, revision + number as u64, name, number % 3, 1);
                    }
                }
                Step::Remove { name } => {
                    let name = NAMES[name];
                    if let Some(before) = model.current(name) {
                        memtable.remove(hash(name), name.as_bytes(), &before, revision);
                        model.changes.push((revision, name, None, Some(before)));
                    }
                }
                Step::TakeBack(count) => {
                    let left = model.changes.len().saturating_sub(count);
                    model.changes.truncate(left);
                    memtable.truncate(model.changes.last().map_or(first - 1, |change| change.0));
                }
            }
            check(&memtable, &model, Revision::MAX - 1)?;
        }
        for reader in readers {
            let at = first - 1 + reader.index(model.changes.len() + 1) as u64;
            check(&memtable, &model, at)?;
        }

        let outcome = memtable.outcome(Revision::MAX);
        let names: Vec<_> = outcome.names();
        let expected = model.as_of(Revision::MAX);
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, placed)| (name.as_bytes(), placed.map(|it| it.pointer)))
            .collect();
        prop_assert_eq!(names, expected);
        let ended: BTreeMap<_, _> = outcome
            .versions()
            .filter_map(|(placed, by)| Some((placed.pointer.revision, by?)))
            .chain(outcome.ended_before.iter().map(|(placed, by)| (placed.pointer.revision, *by)))
            .collect();
        let expected: BTreeMap<_, _> = model
            .changes
            .iter()
            .filter_map(|(by, _, _, ended)| Some(((*ended)?.pointer.revision, *by)))
            .collect();
        prop_assert_eq!(ended, expected);
        let live: BTreeSet<_> = outcome
            .versions()
            .filter(|(_, by)| by.is_none())
            .map(|(placed, _)| placed.pointer.revision)
            .collect();
        let expected: BTreeSet<_> = model
            .as_of(Revision::MAX)
            .values()
            .flatten()
            .map(|placed| placed.pointer.revision)
            .collect();
        prop_assert_eq!(live, expected);
    }
}
