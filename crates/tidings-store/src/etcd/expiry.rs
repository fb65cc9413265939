//! The known ends of records.
//!
//! A record in etcd has a lease, which is a little longer than requested and starts again when the
//! leader changes. So the true end comes from the first of these sources that has it:
//!
//! 1. this process wrote the revision, or is writing it now (exact);
//! 2. the server's decoder finds it in the value (exact);
//! 3. the number of the lease contains its end: written by this or another tidings (at most `min(60
//!    s, 5 %)` late);
//! 4. the remaining time of the lease when it was first seen: written by kube-apiserver (as late as
//!    kube-apiserver itself). It passes in steady time, so the end is stored with the clock's lead
//!    at that time, and moves when the clock is set.
//!
//! Bounded: own writes by revision up to a number, first-seen leases up to [`LEASES_MAX`], writes
//! in flight by the calls in flight.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::end::End;
use super::lease;
use super::wire::KeyValue;
use crate::{Revision, UnixMillis};

/// Maximum leases of other programs whose end is remembered; kube-apiserver makes one per minute,
/// or per 1000 writes.
const LEASES_MAX: usize = 16_384;

/// The end as known without a request to etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The end; `None` means never.
    End(Option<End>),
    /// It depends on this lease of another program, which was not seen before.
    Lease(i64),
}

pub(super) struct Expiries {
    state: Mutex<State>,
    written_max: usize,
}

#[derive(Default)]
struct State {
    written: BTreeMap<Revision, UnixMillis>,
    in_flight: HashMap<Bytes, Vec<(u64, Write)>>,
    next: u64,
    leases: HashMap<i64, End>,
    leases_in_order: VecDeque<i64>,
}

/// A write of this process, identified by its lease and value.
struct Write {
    lease: i64,
    value: Bytes,
    expires_at: UnixMillis,
}

impl Expiries {
    pub(super) fn new(written_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            written_max,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a write that is about to be sent, until the guard is dropped. A watch may see it
    /// before the answer arrives.
    pub(super) fn begin(
        &self,
        key: &Bytes,
        value: &Bytes,
        lease: i64,
        expires_at: UnixMillis,
    ) -> InFlight<'_> {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let write = Write {
            lease,
            value: value.clone(),
            expires_at,
        };
        state
            .in_flight
            .entry(key.clone())
            .or_default()
            .push((id, write));
        InFlight {
            expiries: self,
            key: key.clone(),
            id,
        }
    }

    /// Notes that this process wrote a revision. Returns whether another end was assumed until now:
    /// a watch cannot distinguish two concurrent writes of one value under one lease.
    pub(super) fn wrote(&self, revision: Revision, expires_at: UnixMillis) -> bool {
        let mut state = self.state();
        let before = state.written.get(&revision).copied();
        state.wrote(revision, expires_at, self.written_max);
        before.is_some_and(|before| before != expires_at)
    }

    /// The end of a revision that this process wrote recently.
    pub(super) fn of_revision(&self, revision: Revision) -> Option<UnixMillis> {
        self.state().written.get(&revision).copied()
    }

    /// Forgets the revisions of all writes: another history has other writes at them.
    pub(super) fn forget_written(&self) {
        self.state().written.clear();
    }

    /// The end of a version of a record; `decode` asks the index, or the server's decoder about its
    /// value.
    pub(super) fn of(
        &self,
        key: &[u8],
        version: &KeyValue,
        decode: impl FnOnce() -> Option<End>,
    ) -> Known {
        let revision = super::client::unsigned(version.mod_revision);
        let mut state = self.state();
        if let Some(end) = state.written.get(&revision) {
            return Known::End(Some(End::exact(*end)));
        }
        if version.lease != 0
            && let Some(writes) = state.in_flight.get(key)
            && let Some((_, write)) = writes
                .iter()
                .find(|(_, write)| write.lease == version.lease && write.value == version.value)
        {
            let end = write.expires_at;
            state.wrote(revision, end, self.written_max);
            return Known::End(Some(End::exact(end)));
        }
        drop(state);
        let decoded = decode();
        if decoded.is_some() || version.lease == 0 {
            return Known::End(decoded);
        }
        let state = self.state();
        let of_lease = lease::end_of(version.lease).map(End::exact);
        match of_lease.or_else(|| state.leases.get(&version.lease).copied()) {
            Some(end) => Known::End(Some(end)),
            None => Known::Lease(version.lease),
        }
    }

    /// Notes the end of another program's lease. The first answer is kept, since etcd may extend
    /// the lease later.
    pub(super) fn first_seen(&self, lease: i64, end: End) -> End {
        let mut state = self.state();
        if let Some(end) = state.leases.get(&lease) {
            return *end;
        }
        state.leases.insert(lease, end);
        state.leases_in_order.push_back(lease);
        if state.leases_in_order.len() > LEASES_MAX
            && let Some(oldest) = state.leases_in_order.pop_front()
        {
            state.leases.remove(&oldest);
        }
        end
    }

    /// Whether exactly one write of this process in flight looks like this one.
    pub(super) fn is_alone(&self, key: &Bytes, lease: i64, value: &Bytes) -> bool {
        let state = self.state();
        let alike = state.in_flight.get(key).map_or(0, |writes| {
            writes
                .iter()
                .filter(|(_, write)| write.lease == lease && write.value == value)
                .count()
        });
        alike == 1
    }
}

impl State {
    fn wrote(&mut self, revision: Revision, end: UnixMillis, written_max: usize) {
        self.written.insert(revision, end);
        while self.written.len() > written_max {
            self.written.pop_first();
        }
    }
}

/// A write whose answer is awaited.
pub(super) struct InFlight<'a> {
    expiries: &'a Expiries,
    key: Bytes,
    id: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.expiries.state();
        if let Some(writes) = state.in_flight.get_mut(&self.key) {
            writes.retain(|(id, _)| *id != self.id);
            if writes.is_empty() {
                state.in_flight.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(revision: i64, lease: i64, value: &'static str) -> KeyValue {
        KeyValue {
            mod_revision: revision,
            lease,
            value: value.into(),
            ..KeyValue::default()
        }
    }

    fn exact(millis: i64) -> End {
        End::exact(UnixMillis(millis))
    }

    fn at(millis: i64) -> Known {
        Known::End(Some(exact(millis)))
    }

    #[test]
    fn a_write_in_flight_is_known_and_stays_known_once_seen() {
        let expiries = Expiries::new(10);
        let (key, value) = (Bytes::from("a/b"), Bytes::from("one"));
        let guard = expiries.begin(&key, &value, 7, UnixMillis(5));
        assert_eq!(
            expiries.of(b"a/b", &version(3, 7, "two"), || None),
            Known::Lease(7)
        );
        assert_eq!(
            expiries.of(b"a/c", &version(3, 7, "one"), || None),
            Known::Lease(7)
        );
        assert_eq!(expiries.of(b"a/b", &version(3, 7, "one"), || None), at(5));
        drop(guard);
        assert_eq!(expiries.of(b"a/b", &version(3, 7, "one"), || None), at(5));
        assert_eq!(
            expiries.of(b"a/b", &version(4, 7, "one"), || None),
            Known::Lease(7)
        );
        assert!(expiries.state().in_flight.is_empty());
    }

    #[test]
    fn the_first_word_about_a_lease_counts() {
        let expiries = Expiries::new(10);
        assert_eq!(expiries.first_seen(9, exact(50)), exact(50));
        assert_eq!(expiries.first_seen(9, exact(90)), exact(50));
        assert_eq!(expiries.of(b"k", &version(1, 9, ""), || None), at(50));
        assert_eq!(
            expiries.of(b"k", &version(1, 9, ""), || Some(exact(20))),
            at(20)
        );
        assert_eq!(
            expiries.of(b"k", &version(1, 0, ""), || None),
            Known::End(None)
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let expiries = Expiries::new(2);
        for revision in 1..=3 {
            assert!(!expiries.wrote(revision, UnixMillis(1)));
        }
        assert_eq!(expiries.of_revision(1), None);
        assert_eq!(expiries.of_revision(3), Some(UnixMillis(1)));
        for lease in 1..=i64::try_from(LEASES_MAX).unwrap() + 1 {
            expiries.first_seen(lease, exact(lease));
        }
        assert_eq!(expiries.state().leases.len(), LEASES_MAX);
        assert_eq!(
            expiries.of(b"k", &version(1, 1, ""), || None),
            Known::Lease(1)
        );
    }

    #[test]
    fn two_writes_that_look_alike_are_told_apart_by_their_answers() {
        let expiries = Expiries::new(8);
        let (key, value) = (Bytes::from("k"), Bytes::from("v"));
        let first = expiries.begin(&key, &value, 9, UnixMillis(10));
        let second = expiries.begin(&key, &value, 9, UnixMillis(20));
        let seen = expiries.of(&key, &version(1, 9, "v"), || None);
        assert_eq!(seen, at(10));
        assert!(expiries.wrote(1, UnixMillis(20)));
        assert!(!expiries.wrote(1, UnixMillis(20)));
        assert_eq!(expiries.of_revision(1), Some(UnixMillis(20)));
        drop((first, second));
    }
}
