//! The records of the gaps, a bounded number.
//!
//! A gap that touches one of the same cause is joined to it, as happens if a source forgets again
//! and again. If there are still too many, the oldest two of the namespace and cause with most gaps
//! are joined. The result states how many gaps it stands for, and their length together. So a time
//! in which versions may be missing is never left out.
//!
//! A gap of events that cannot be kept belongs to their namespace. If there are too many such
//! namespaces, the gaps of those with fewest are joined into gaps of the whole cluster. So the
//! authors of such events can cause only gaps of this kind to be joined, and first those of their
//! own namespace.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use bytes::Bytes;
use tidings_history::{Cause, Gap, StoredGap};
use tidings_store::{Expected, ListRequest, NewRecord, ReadError, Store, UnixMillis, Write};

use crate::keep::json::{json, parse};
use crate::keep::keys;

/// Maximum number of gaps, if those of each namespace and cause can be joined.
pub(crate) const GAPS_MAX: usize = 1000;

/// Reads all gaps, in the order of their beginnings: a bounded number.
pub(crate) async fn read_gaps(store: &dyn Store) -> Result<Vec<Gap>, ReadError> {
    let page = store.list(ListRequest::prefix(keys::GAPS)).await?;
    let gaps = page.records.iter().map(|found| read_one(&found.value));
    gaps.collect()
}

fn read_one(value: &[u8]) -> Result<Gap, ReadError> {
    Ok(parse::<StoredGap>(value)?.into())
}

/// Returns the writes with which the store has these gaps too.
pub(crate) async fn write_gaps(store: &dyn Store, new: &[Gap]) -> Result<Vec<Write>, ReadError> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let page = store.list(ListRequest::prefix(keys::GAPS)).await?;
    let mut gaps = Vec::with_capacity(page.records.len() + new.len());
    for found in &page.records {
        let gap = read_one(&found.value)?;
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

/// A gap, and its stored form.
struct Slot {
    before: Option<(Bytes, Expected)>,
    is_changed: bool,
    /// `None` if it was joined to another gap.
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
            let put = Write::put(key, NewRecord::new(json(&StoredGap::from(gap))));
            writes.push(match expected {
                Some(expected) => put.expecting(expected),
                None => put,
            });
        }
        writes
    }
}

fn key(gap: &Gap) -> Bytes {
    keys::gap(gap.from.0, &gap.namespace)
}

/// Adds a gap, or joins it to the latest one of its namespace and cause if they touch.
fn add(gaps: &mut Vec<Slot>, new: &Gap) {
    let touches = |slot: &&mut Slot| {
        let gap = slot.gap.as_ref();
        gap.is_some_and(|gap| {
            let touches = gap.from <= new.to && new.from <= gap.to;
            // Gaps that begin at the same time have the same key.
            gap.namespace == new.namespace
                && (gap.cause == new.cause && touches || gap.from == new.from)
        })
    };
    if let Some(slot) = gaps.iter_mut().rev().find(touches) {
        // The same gap may be written again.
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

/// Gaps that may be joined: those of a namespace and cause.
type Group = (String, Cause);

/// Returns whether versions are missing because events cannot be kept, which their authors can
/// cause.
fn is_by_events(cause: Cause) -> bool {
    matches!(cause, Cause::TooLarge | Cause::Unreadable)
}

/// Joins gaps until there are at most `max`. If gaps of events that cannot be kept are more than
/// half of `max`, these are joined, otherwise the others: each time the oldest two of the group
/// with most gaps. If no such group has two, gaps of events that cannot be kept become gaps of the
/// whole cluster.
fn bound(gaps: &mut [Slot], max: usize) {
    loop {
        let mut groups = groups(gaps);
        let mut by_size = [BTreeSet::new(), BTreeSet::new()];
        let mut left = [0; 2];
        for (group, members) in &groups {
            let kind = usize::from(is_by_events(group.1));
            by_size[kind].insert((members.len(), group.clone()));
            left[kind] += members.len();
        }
        while left[0] + left[1] > max {
            let kind = usize::from(left[1] > max / 2);
            let Some((size, group)) = by_size[kind].pop_last() else {
                break;
            };
            let members = groups.entry(group.clone()).or_default();
            let Some(first) = members.pop_front() else {
                continue;
            };
            let Some(next) = members.front_mut() else {
                break;
            };
            join(gaps, first, *next);
            *next = first;
            by_size[kind].insert((size - 1, group));
            left[kind] -= 1;
        }
        if left[0] + left[1] <= max || !widen(gaps) {
            return;
        }
    }
}

/// Returns the slots of each group, in the order in which their gaps begin.
fn groups(gaps: &[Slot]) -> BTreeMap<Group, VecDeque<usize>> {
    let found = gaps.iter().enumerate();
    let found = found.filter_map(|(at, slot)| slot.gap.as_ref().map(|gap| (gap.from, at, gap)));
    let mut order: Vec<_> = found.collect();
    order.sort_by_key(|(from, at, _)| (*from, *at));
    let mut groups: BTreeMap<Group, VecDeque<usize>> = BTreeMap::new();
    for (_, at, gap) in order {
        let group = (gap.namespace.clone(), gap.cause);
        groups.entry(group).or_default().push_back(at);
    }
    groups
}

/// Makes all gaps of events that cannot be kept gaps of the whole cluster. Returns `false` if none
/// belongs to a namespace.
fn widen(gaps: &mut [Slot]) -> bool {
    let of_cluster = gaps.iter().filter_map(|slot| slot.gap.as_ref());
    let of_cluster = of_cluster.filter(|gap| gap.namespace.is_empty());
    let mut beginnings: HashSet<UnixMillis> = of_cluster.map(|gap| gap.from).collect();
    let mut is_done = false;
    for slot in gaps {
        if let Some(gap) = &mut slot.gap
            && is_by_events(gap.cause)
            && !gap.namespace.is_empty()
        {
            gap.namespace.clear();
            // Gaps that begin at the same time have the same key.
            while !beginnings.insert(gap.from) {
                gap.from.0 -= 1;
            }
            slot.is_changed = true;
            is_done = true;
        }
    }
    is_done
}

/// Joins another gap to one.
fn join(gaps: &mut [Slot], one: usize, other: usize) {
    let Some(other) = gaps.get_mut(other) else {
        return;
    };
    other.is_changed = true;
    let other = other.gap.take();
    if let (Some(slot), Some(other)) = (gaps.get_mut(one), other) {
        slot.gap = slot.gap.take().map(|gap| gap.joined(&other));
        slot.is_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::coverage::position;

    fn gap(from: i64, to: i64, namespace: &str) -> Gap {
        position::cluster_gap(from, to, Cause::Compacted).of(namespace)
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
        gaps.map(|gap| (gap.from.0, gap.to.0, gap.gaps, gap.missing_millis()))
            .collect()
    }

    #[test]
    fn gaps_that_touch_are_one_that_says_how_many() {
        let found = slots(&[
            gap(0, 10, ""),
            gap(8, 20, ""),
            gap(20, 30, ""),
            gap(25, 28, "shop"),
            position::cluster_gap(45, 60, Cause::TooLarge),
            gap(40, 50, ""),
            // As when a commit is repeated.
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
        // Gaps of different namespaces are not joined.
        bound(&mut found, 1);
        assert_eq!(told(&found), [(0, 91, 9, 9), (10, 11, 1, 1)]);
    }

    fn not_kept(at: i64, namespace: &str) -> Gap {
        position::cluster_gap(at, at + 1, Cause::TooLarge).of(namespace)
    }

    /// Everybody who writes events can write some that are too large.
    #[test]
    fn events_that_cannot_be_kept_join_no_gaps_of_the_cluster_or_of_other_namespaces() {
        let mut gaps = vec![gap(0, 10, ""), gap(50, 60, ""), not_kept(70, "shop")];
        gaps.push(not_kept(90, "shop"));
        gaps.extend((0..2000).map(|at| not_kept(100 + 10 * at, "storm")));
        let mut found = slots(&gaps);
        bound(&mut found, 20);
        let of = |found: &[Slot], namespace: &str, cause: Cause| {
            let gaps = found.iter().filter_map(|slot| slot.gap.as_ref());
            let gaps = gaps.filter(|gap| gap.namespace == namespace && gap.cause == cause);
            let mut gaps: Vec<_> = gaps.map(|gap| (gap.from.0, gap.gaps)).collect();
            gaps.sort_unstable();
            gaps
        };
        let apart = [(0, 1), (50, 1)];
        assert_eq!(of(&found, "", Cause::Compacted), apart);
        assert_eq!(of(&found, "shop", Cause::TooLarge), [(70, 1), (90, 1)]);
        let storm = of(&found, "storm", Cause::TooLarge);
        assert_eq!((storm.len(), storm[0]), (16, (100, 1985)));
        // The same gaps, from very many namespaces.
        let many = (0..2000).map(|at| not_kept(100 + 10 * at, &format!("storm-{at}")));
        gaps.truncate(4);
        gaps.extend(many);
        // As a gap of the cluster, it would have the key of another one.
        gaps.push(not_kept(50, "storm"));
        let mut found = slots(&gaps);
        bound(&mut found, 20);
        assert_eq!(of(&found, "", Cause::Compacted), apart);
        assert_eq!(found.iter().filter(|slot| slot.gap.is_some()).count(), 20);
        assert_eq!(of(&found, "", Cause::TooLarge)[0].0, 49);
    }
}
