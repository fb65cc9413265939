//! Local index of etcd's keys, by object and by the time last seen. It holds no values.
//!
//! The index is loaded once from a snapshot and then follows the watch, so it is exact at its own
//! revision, which only grows. Uids and names are stored as hashes, so the index returns
//! candidates, and the reader decides by the record itself. If there are more records than its
//! maximum, the index empties itself and answers no request.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::end::{End, SET_MILLIS};
use crate::clock::Reading;
use crate::{Index, ObjectSelector, Place, Revision, UnixMillis};

/// The index's data about one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) revision: Revision,
    pub(super) end: Option<End>,
    pub(super) last_seen: UnixMillis,
    pub(super) value_len: usize,
    uid: Option<u64>,
    name: Option<u64>,
}

impl Entry {
    /// The record's place in the order of last seen.
    pub(super) fn place(&self) -> Place {
        Place {
            last_seen: self.last_seen,
            revision: self.revision,
        }
    }
}

/// A changed key, the revision of the change, and the new data; `None` means deleted.
pub(super) type Applied = (Bytes, Revision, Option<Entry>);

/// Share of the index that must be free before it is loaded again after an overflow: 1/16. With
/// less, a number of records that varies around the maximum would cause load after load.
const ROOM_PART: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The index is empty: it was never loaded, or it missed changes.
    Empty,
    /// A snapshot is being read. Changes queue in `waiting` until it is complete.
    Loading,
    Ready,
    /// The store has more records than the index may hold.
    TooLarge,
}

pub(super) struct LocalIndex {
    state: Mutex<State>,
    hasher: RandomState,
    len_max: usize,
}

struct State {
    phase: Phase,
    /// Number of the load or reset; distinguishes a load that began before a reset from a later
    /// one.
    generation: u64,
    revision: Revision,
    entries: HashMap<Bytes, Entry>,
    by_object: BTreeSet<(u64, Bytes)>,
    by_last_seen: BTreeSet<(Reverse<UnixMillis>, Reverse<Revision>, Bytes)>,
    by_end: BTreeSet<(UnixMillis, Bytes)>,
    /// Records whose end was computed from a remaining time, by the clock's lead at that time.
    by_lead: BTreeSet<(i64, Bytes)>,
    value_bytes: u64,
    waiting: Vec<Applied>,
}

/// Keys found in the index, and the index's revision.
pub(super) struct Found<K = Bytes> {
    pub(super) keys: Vec<K>,
    pub(super) revision: Revision,
    pub(super) more: bool,
}

impl LocalIndex {
    pub(super) fn new(len_max: usize) -> Self {
        Self {
            state: Mutex::new(State::new(Phase::Empty, 0)),
            hasher: RandomState::new(),
            len_max,
        }
    }

    fn ready(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.state.lock();
        (state.phase == Phase::Ready).then_some(state)
    }

    /// Makes the index's data for a record.
    pub(super) fn entry(
        &self,
        revision: Revision,
        end: Option<End>,
        index: &Index,
        value_len: usize,
    ) -> Entry {
        Entry {
            revision,
            end,
            last_seen: index.last_seen,
            value_len,
            uid: (!index.object_uid.is_empty()).then(|| self.hasher.hash_one(&index.object_uid)),
            name: (!index.object_name.is_empty()).then(|| self.hasher.hash_one(&index.object_name)),
        }
    }

    /// Maximum number of records with which the index is worth loading.
    pub(super) fn loaded_up_to(&self) -> u64 {
        let is_too_small = self.state.lock().phase == Phase::TooLarge;
        let room = if is_too_small {
            self.len_max / ROOM_PART
        } else {
            0
        };
        (self.len_max - room) as u64
    }

    /// Begins to load a snapshot that is read from now on. Returns the number of this load, for
    /// [`load`](Self::load) and [`end_load`](Self::end_load).
    pub(super) fn begin_load(&self) -> u64 {
        let mut state = self.state.lock();
        state.clear(Phase::Loading);
        state.generation += 1;
        state.generation
    }

    /// Adds a part of the snapshot. Returns false if the load should stop.
    pub(super) fn load(&self, generation: u64, part: Vec<(Bytes, Entry)>) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation || state.phase != Phase::Loading {
            return false;
        }
        for (key, entry) in part {
            state.set(&key, Some(entry));
        }
        state.check_len(self.len_max);
        state.phase == Phase::Loading
    }

    /// Ends a load: the snapshot is complete and was taken at `revision`.
    pub(super) fn end_load(&self, generation: u64, revision: Revision) {
        let mut state = self.state.lock();
        if state.generation != generation || state.phase != Phase::Loading {
            return;
        }
        state.phase = Phase::Ready;
        state.revision = revision;
        for (key, changed_at, entry) in std::mem::take(&mut state.waiting) {
            if changed_at > revision {
                state.set(&key, entry);
                state.revision = state.revision.max(changed_at);
            }
        }
        state.check_len(self.len_max);
    }

    /// Applies changes of the watch, which are complete up to `revision`.
    pub(super) fn apply(&self, changes: Vec<Applied>, revision: Revision) {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Empty | Phase::TooLarge => return,
            Phase::Loading => state.waiting.extend(changes),
            Phase::Ready => {
                for (key, changed_at, entry) in changes {
                    // The snapshot may have been ahead of the watch, so earlier changes are
                    // skipped.
                    if changed_at > state.revision {
                        state.set(&key, entry);
                    }
                }
                state.revision = state.revision.max(revision);
            }
        }
        state.check_len(self.len_max);
    }

    /// Corrects the end of a version, if the index has this version.
    pub(super) fn correct(&self, key: &Bytes, revision: Revision, expires_at: UnixMillis) {
        let mut state = self.state.lock();
        let held = state.entries.get(key).copied();
        if let Some(mut entry) = held.filter(|entry| entry.revision == revision) {
            entry.end = Some(End::exact(expires_at));
            state.set(key, Some(entry));
        }
        for (waiting, changed_at, entry) in &mut state.waiting {
            if let Some(entry) = entry
                && (&*waiting, *changed_at) == (key, revision)
            {
                entry.end = Some(End::exact(expires_at));
            }
        }
    }

    /// Recomputes the ends that were computed with another lead of the clock. The cost is
    /// proportional to the number of these ends.
    pub(super) fn reckon(&self, lead: i64) {
        let mut state = self.state.lock();
        let is_set = |of: &i64| of.abs_diff(lead) > SET_MILLIS;
        let set_back = state.by_lead.iter().rev().take_while(|(of, _)| *of > lead);
        let set_ahead = state.by_lead.iter().take_while(|(of, _)| *of < lead);
        let keys: Vec<_> = set_ahead
            .take_while(|(of, _)| is_set(of))
            .chain(set_back.take_while(|(of, _)| is_set(of)))
            .map(|(_, key)| key.clone())
            .collect();
        for key in keys {
            if let Some(mut entry) = state.entries.get(&key).copied() {
                entry.end = entry.end.map(|end| end.under(lead));
                state.set(&key, Some(entry));
            }
        }
    }

    /// Empties the index because it missed changes.
    pub(super) fn reset(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.clear(Phase::Empty);
    }

    /// The index's revision, or `None` while it cannot answer.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.ready().map(|state| state.revision)
    }

    /// Finds keys under a prefix whose records may be about an object. `None` if there are more
    /// than `max`, or if the index cannot answer.
    pub(super) fn about(
        &self,
        object: &ObjectSelector,
        prefix: &Bytes,
        max: usize,
    ) -> Option<Found> {
        let (ObjectSelector::Uid(text) | ObjectSelector::Name { name: text, .. }) = object;
        let hash = self.hasher.hash_one(text);
        let state = self.ready()?;
        let keys: Vec<_> = state
            .by_object
            .range((hash, prefix.clone())..)
            .take_while(|(of, key)| *of == hash && key.starts_with(prefix))
            .take(max + 1)
            .map(|(_, key)| key.clone())
            .collect();
        (keys.len() <= max).then_some(Found {
            keys,
            revision: state.revision,
            more: false,
        })
    }

    /// Finds live records under a prefix, last seen first.
    pub(super) fn newest(
        &self,
        prefix: &[u8],
        since: Option<UnixMillis>,
        limit: usize,
        now: Reading,
    ) -> Option<Found<(Bytes, Entry)>> {
        let state = self.ready()?;
        let (lead, now) = (now.lead(), now.wall);
        let live = |key: &Bytes| {
            let entry = state.entries.get(key).copied();
            entry.filter(|entry| entry.end.is_none_or(|end| end.under(lead).at > now))
        };
        let mut keys: Vec<_> = state
            .by_last_seen
            .iter()
            .take_while(|(seen, ..)| since.is_none_or(|since| seen.0 >= since))
            .map(|(.., key)| key)
            .filter(|key| key.starts_with(prefix))
            .filter_map(|key| Some((key.clone(), live(key)?)))
            .take(limit.saturating_add(1))
            .collect();
        let more = keys.len() > limit;
        keys.truncate(limit);
        Some(Found {
            keys,
            revision: state.revision,
            more,
        })
    }

    /// The end of a version, if the index has this version and it ends.
    pub(super) fn end_of(&self, key: &[u8], revision: Revision) -> Option<End> {
        let state = self.ready()?;
        let entry = state.entries.get(key)?;
        entry.end.filter(|_| entry.revision == revision)
    }

    /// Finds at most `limit` records that ended by a moment, the earliest first. `lead` is that of
    /// the current clock. Also returns the index's revision.
    pub(super) fn ended(
        &self,
        by: UnixMillis,
        lead: i64,
        limit: usize,
    ) -> Option<(Vec<(Bytes, Entry)>, Revision)> {
        let state = self.ready()?;
        let ended = state
            .by_end
            .iter()
            .take_while(|(end, _)| *end <= by)
            .filter_map(|(_, key)| Some((key.clone(), *state.entries.get(key)?)))
            .filter(|(_, entry)| entry.end.is_some_and(|end| end.under(lead).at <= by))
            .take(limit);
        Some((ended.collect(), state.revision))
    }

    /// Sum of the lengths of all values, in bytes.
    pub(super) fn value_bytes(&self) -> Option<u64> {
        self.ready().map(|state| state.value_bytes)
    }
}

impl State {
    fn new(phase: Phase, generation: u64) -> Self {
        Self {
            phase,
            generation,
            revision: 0,
            entries: HashMap::new(),
            by_object: BTreeSet::new(),
            by_last_seen: BTreeSet::new(),
            by_end: BTreeSet::new(),
            by_lead: BTreeSet::new(),
            value_bytes: 0,
            waiting: Vec::new(),
        }
    }

    fn clear(&mut self, phase: Phase) {
        *self = Self::new(phase, self.generation);
    }

    fn check_len(&mut self, len_max: usize) {
        if self.entries.len() > len_max || self.waiting.len() > len_max {
            tracing::warn!(
                len_max,
                "more records in etcd than the local index may hold; lists by object and by time read them all"
            );
            self.clear(Phase::TooLarge);
        }
    }

    fn set(&mut self, key: &Bytes, entry: Option<Entry>) {
        if let Some(old) = self.entries.remove(key) {
            for hash in [old.uid, old.name].into_iter().flatten() {
                self.by_object.remove(&(hash, key.clone()));
            }
            self.by_last_seen
                .remove(&(Reverse(old.last_seen), Reverse(old.revision), key.clone()));
            if let Some(end) = old.end {
                self.by_end.remove(&(end.at, key.clone()));
                if let Some(lead) = end.lead {
                    self.by_lead.remove(&(lead, key.clone()));
                }
            }
            self.value_bytes -= old.value_len as u64;
        }
        let Some(new) = entry else { return };
        // A copy: the key is a slice of a much larger answer and would keep all of it in memory.
        let key = Bytes::copy_from_slice(key);
        for hash in [new.uid, new.name].into_iter().flatten() {
            self.by_object.insert((hash, key.clone()));
        }
        self.by_last_seen
            .insert((Reverse(new.last_seen), Reverse(new.revision), key.clone()));
        if let Some(end) = new.end {
            self.by_end.insert((end.at, key.clone()));
            if let Some(lead) = end.lead {
                self.by_lead.insert((lead, key.clone()));
            }
        }
        self.value_bytes += new.value_len as u64;
        self.entries.insert(key, new);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn described(object: u8, seen: u8) -> Index {
        Index {
            object_uid: format!("uid-{object}"),
            object_kind: "Pod".into(),
            object_namespace: "default".into(),
            object_name: format!("pod-{object}"),
            last_seen: UnixMillis(seen.into()),
            ..Index::default()
        }
    }

    fn key(number: u8) -> Bytes {
        Bytes::from(format!("default/{number}"))
    }

    proptest! {
        /// The index equals a scan, for any changes and any moment of the snapshot. Changes arrive
        /// while the snapshot loads or afterwards.
        #[test]
        fn it_answers_as_a_scan_would(
            changes in prop::collection::vec((0..12_u8, prop::option::of((0..4_u8, 0..6_u8))), 0..60),
            snapshot_after in 0..60_usize,
            delivered_during_load in 0..60_usize,
        ) {
            let index = LocalIndex::new(100);
            let snapshot_after = snapshot_after.min(changes.len());
            let during = delivered_during_load.min(changes.len());
            let mut model: BTreeMap<Bytes, (Entry, u8, u8)> = BTreeMap::new();
            let mut applied = Vec::new();
            let mut snapshot = Vec::new();
            for (at, (number, change)) in changes.iter().enumerate() {
                if at == snapshot_after {
                    snapshot = model.iter().map(|(key, (entry, ..))| (Bytes::clone(key), *entry)).collect();
                }
                let revision = at as Revision + 1;
                let entry = change.map(|(object, seen)| {
                    (index.entry(revision, None, &described(object, seen), 3), object, seen)
                });
                match entry {
                    Some(entry) => { model.insert(key(*number), entry); }
                    None => { model.remove(&key(*number)); }
                }
                applied.push((key(*number), revision, entry.map(|it| it.0)));
            }
            if snapshot_after == changes.len() {
                snapshot = model.iter().map(|(key, (entry, ..))| (key.clone(), *entry)).collect();
            }
            let generation = index.begin_load();
            let late = applied.split_off(during);
            index.apply(applied, during as Revision);
            prop_assert!(index.load(generation, snapshot));
            prop_assert!(index.revision().is_none());
            index.end_load(generation, snapshot_after as Revision);
            index.apply(late, changes.len() as Revision);

            prop_assert_eq!(index.revision(), Some(changes.len() as Revision));
            for object in 0..4 {
                let selector = ObjectSelector::Uid(format!("uid-{object}"));
                let found = index.about(&selector, &Bytes::new(), 100).map(|found| found.keys);
                let want: Vec<_> = model.iter().filter(|(_, it)| it.1 == object).map(|(key, _)| key.clone()).collect();
                prop_assert_eq!(found, Some(want));
            }
            let mut want: Vec<_> = model.iter().map(|(key, it)| (Reverse(it.2), Reverse(it.0.revision), key.clone())).collect();
            want.sort();
            let found = index.newest(b"", None, 5, Reading { wall: UnixMillis(0), steady: Duration::ZERO });
            let found = found.map(|found| (found.keys.into_iter().map(|it| it.0).collect(), found.more));
            let more = want.len() > 5;
            prop_assert_eq!(found, Some((want.into_iter().take(5).map(|it| it.2).collect::<Vec<_>>(), more)));
            prop_assert_eq!(index.value_bytes(), Some(3 * model.len() as u64));
        }
    }

    /// Ends computed from a remaining time move with the clock. They do so before and after the
    /// order of ends is corrected.
    #[test]
    fn ends_reckoned_by_the_clock_move_with_it() {
        const HOUR: i64 = 3_600_000;
        let index = LocalIndex::new(100);
        let generation = index.begin_load();
        index.end_load(generation, 0);
        let end = |at, lead| End {
            at: UnixMillis(at),
            lead,
        };
        let ends = [
            end(5000, None),
            end(5000, Some(0)),
            end(5000 + HOUR, Some(HOUR)),
            end(5000 - HOUR, Some(-HOUR)),
        ];
        for (number, end) in (1..).zip(ends) {
            let entry = index.entry(number.into(), Some(end), &described(1, 1), 1);
            index.apply(
                vec![(key(number), number.into(), Some(entry))],
                number.into(),
            );
        }
        let ended = |by, lead| {
            let (ended, _) = index.ended(UnixMillis(by), lead, 9).unwrap();
            let mut keys: Vec<_> = ended.into_iter().map(|(key, _)| key).collect();
            keys.sort();
            keys
        };
        // With the uncorrected order a record ends late, never early.
        assert_eq!(ended(4999, 0), Vec::<Bytes>::new());
        assert_eq!(ended(5000, 0), [key(1), key(2), key(4)]);
        for lead in [0, SET_MILLIS.cast_signed(), -HOUR, HOUR, 0] {
            index.reckon(lead);
            let moved = if lead.abs() == HOUR { lead } else { 0 };
            assert_eq!(ended(4999.min(4999 + moved), lead), Vec::<Bytes>::new());
            let all = ended(5000.max(5000 + moved), lead);
            assert_eq!(all, [key(1), key(2), key(3), key(4)]);
            assert_eq!(index.state.lock().by_lead.len(), 3);
            assert_eq!(index.state.lock().by_end.len(), 4);
        }
    }

    #[test]
    fn too_many_records_turn_it_off_and_a_reset_outdates_a_load() {
        let index = LocalIndex::new(2);
        let entry = |revision| index.entry(revision, None, &described(1, 1), 1);
        let generation = index.begin_load();
        index.end_load(generation, 0);
        for number in 1..=2 {
            index.apply(
                vec![(key(number), number.into(), Some(entry(number.into())))],
                number.into(),
            );
        }
        assert_eq!(index.revision(), Some(2));
        index.apply(vec![(key(3), 3, Some(entry(3)))], 3);
        assert_eq!(index.revision(), None);
        assert!(index.state.lock().entries.is_empty());

        let outdated = index.begin_load();
        index.reset();
        assert!(!index.load(outdated, Vec::new()));
        index.end_load(outdated, 9);
        assert_eq!(index.revision(), None);
    }

    #[test]
    fn once_it_was_too_small_it_is_loaded_only_with_some_room() {
        for (len_max, after) in [(2_u8, 2), (32, 30)] {
            let index = LocalIndex::new(len_max.into());
            let all = u64::from(len_max);
            assert_eq!(index.loaded_up_to(), all, "the first time");
            let entry = index.entry(1, None, &described(1, 1), 1);
            let part = (0..=len_max).map(|number| (key(number), entry));
            let generation = index.begin_load();
            assert!(!index.load(generation, part.collect()));
            assert_eq!(index.loaded_up_to(), after);
            index.reset();
            assert_eq!(index.loaded_up_to(), all, "changes were missed");
        }
    }
}
