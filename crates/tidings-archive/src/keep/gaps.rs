//! The records of where versions may be missing: a bounded number of them.
//!
//! A gap that touches one of the same cause becomes a part of it, as those of a source that forgets
//! again and again do. Where there are still too many, the oldest two of a namespace become one,
//! which says how many it stands for and how long they were together. So no time in which versions
//! may be missing is ever left out.

use bytes::Bytes;
use tidings_store::{Expected, ListRequest, NewRecord, ReadError, Store, Write};

use super::keys;
use super::own::{json, parse};
use super::position::Gap;

/// Maximum gaps that are kept apart, if those of each namespace can be joined.
pub(crate) const GAPS_MAX: usize = 1000;

/// All gaps, in the order of their beginnings: a bounded number.
pub(crate) async fn read(store: &dyn Store) -> Result<Vec<Gap>, ReadError> {
    let page = store.list(ListRequest::prefix(keys::GAPS)).await?;
    let gaps = page.records.iter().map(|found| Ok(parse(&found.value)?));
    gaps.collect()
}

/// What the store is to do so that it has these gaps, too.
pub(crate) async fn write(store: &dyn Store, new: &[Gap]) -> Result<Vec<Write>, ReadError> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let page = store.list(ListRequest::prefix(keys::GAPS)).await?;
    let mut gaps = Vec::with_capacity(page.records.len() + new.len());
    for found in &page.records {
        let gap: Gap = parse(&found.value)?;
        let before = (found.key.clone(), Expected::At(found.revision));
        gaps.push(Slot {
            before: Some(before),
            is_changed: false,
            gap: Some(gap),
        });
    }
    for gap in new {
        add(&mut gaps, gap);
    }
    bound(&mut gaps, GAPS_MAX);
    Ok(gaps.into_iter().flat_map(Slot::writes).collect())
}

/// A gap, and what the store has of it.
struct Slot {
    before: Option<(Bytes, Expected)>,
    is_changed: bool,
    /// `None`: it is a part of another one.
    gap: Option<Gap>,
}

impl Slot {
    fn writes(self) -> Vec<Write> {
        if !self.is_changed {
            return Vec::new();
        }
        let key = self.gap.as_ref().map(key);
        let mut writes = Vec::new();
        let mut expected = None;
        match self.before {
            Some((before, revision)) if key.as_ref() == Some(&before) => expected = Some(revision),
            Some((before, revision)) => writes.push(Write::delete(before).expecting(revision)),
            None => {}
        }
        if let (Some(gap), Some(key)) = (&self.gap, key) {
            let put = Write::put(key, NewRecord::new(json(gap)));
            writes.push(match expected {
                Some(expected) => put.expecting(expected),
                None => put,
            });
        }
        writes
    }
}

fn key(gap: &Gap) -> Bytes {
    keys::gap(gap.from, &gap.namespace)
}

/// Adds a gap, to the latest one of its namespace and cause if they touch.
fn add(gaps: &mut Vec<Slot>, new: &Gap) {
    let touches = |slot: &&mut Slot| {
        let gap = slot.gap.as_ref();
        gap.is_some_and(|gap| {
            let touches = gap.from <= new.to && new.from <= gap.to;
            // Those of one beginning have one key.
            gap.namespace == new.namespace
                && (gap.cause == new.cause && touches || gap.from == new.from)
        })
    };
    if let Some(slot) = gaps.iter_mut().rev().find(touches) {
        // The same one, written again.
        if slot.gap.as_ref() != Some(new) {
            slot.gap = slot.gap.take().map(|gap| gap.joined(new));
            slot.is_changed = true;
        }
        return;
    }
    gaps.push(Slot {
        before: None,
        is_changed: true,
        gap: Some(new.clone()),
    });
}

/// Joins the oldest with the next of its namespace until there are not too many.
fn bound(gaps: &mut [Slot], max: usize) {
    let mut left = gaps.iter().filter(|slot| slot.gap.is_some()).count();
    let mut first = 0;
    while left > max && first < gaps.len() {
        let Some(gap) = gaps[first].gap.clone() else {
            first += 1;
            continue;
        };
        let is_next = |slot: &Slot| {
            let other = slot.gap.as_ref();
            other.is_some_and(|other| other.namespace == gap.namespace)
        };
        let next = gaps.iter().skip(first + 1).position(is_next);
        let Some(next) = next.map(|at| first + 1 + at) else {
            first += 1;
            continue;
        };
        if let Some(other) = gaps[next].gap.take() {
            gaps[next].is_changed = true;
            gaps[first].gap = Some(gap.joined(&other));
            gaps[first].is_changed = true;
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::position::Cause;
    use super::*;

    fn gap(from: i64, to: i64, namespace: &str) -> Gap {
        Gap {
            namespace: namespace.into(),
            ..Gap::new(from, to, Cause::Compacted)
        }
    }

    fn slots(gaps: &[Gap]) -> Vec<Slot> {
        let mut slots = Vec::new();
        for gap in gaps {
            add(&mut slots, gap);
        }
        slots
    }

    fn told(slots: &[Slot]) -> Vec<(i64, i64, u64, i64)> {
        let gaps = slots.iter().filter_map(|slot| slot.gap.as_ref());
        gaps.map(|gap| (gap.from, gap.to, gap.gaps, gap.missing()))
            .collect()
    }

    #[test]
    fn gaps_that_touch_are_one_that_says_how_many() {
        let found = slots(&[
            gap(0, 10, ""),
            gap(8, 20, ""),
            gap(20, 30, ""),
            gap(25, 28, "shop"),
            Gap::new(45, 60, Cause::TooLarge),
            gap(40, 50, ""),
            // As when a commit is done again.
            gap(40, 50, ""),
        ]);
        assert_eq!(
            told(&found),
            [
                (0, 30, 3, 30),
                (25, 28, 1, 3),
                (45, 60, 1, 15),
                (40, 50, 1, 10)
            ]
        );
    }

    #[test]
    fn beyond_the_maximum_the_oldest_become_one() {
        let gaps: Vec<Gap> = (0..10)
            .map(|at| gap(10 * at, 10 * at + 1, if at == 1 { "shop" } else { "" }))
            .collect();
        let mut found = slots(&gaps);
        bound(&mut found, 4);
        assert_eq!(
            told(&found),
            [
                (0, 71, 7, 7),
                (10, 11, 1, 1),
                (80, 81, 1, 1),
                (90, 91, 1, 1)
            ]
        );
        // Those of different namespaces stay apart.
        bound(&mut found, 1);
        assert_eq!(told(&found), [(0, 91, 9, 9), (10, 11, 1, 1)]);
    }
}
