//! Finds the end of a record, from several sources.
//!
//! A record in etcd has a lease. The lease is a little longer than requested, and etcd restarts it
//! when its leader changes. So a record's end comes from the first of these sources that has it:
//!
//! 1. This process wrote the revision, or is writing it now (exact).
//! 2. The server's decoder finds the end in the value (exact).
//! 3. The number of the lease contains its end: a tidings server wrote the record (late by at most
//!    `min(60 s, 5 %)`).
//! 4. The remaining time of the lease when it was first seen: kube-apiserver wrote the record (as
//!    late as kube-apiserver itself). This time passes in monotonic time, so the end is stored with
//!    the clock's lead and moves when the clock is set.
//!
//! All memory is bounded: own writes by a number of revisions, other programs' leases by
//! [`LEASES_MAX`], writes in flight by the calls in flight.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;

use super::end::End;
use super::lease;
use super::wire::KeyValue;
use crate::{Revision, UnixMillis};

/// Maximum leases of other programs whose end is remembered. kube-apiserver makes a new lease every
/// minute or every 1000 writes.
const LEASES_MAX: usize = 16_384;

/// The end of a record, as far as it is known without a request to etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The end is known; `None` means that the record never expires.
    End(Option<End>),
    /// The end depends on this lease of another program, which was not seen before.
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

/// A write of this process that is in flight. Its lease and value identify it.
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

    /// Registers a write that is about to be sent, until the guard is dropped. A watch may deliver
    /// the write before its answer arrives.
    pub(super) fn begin(
        &self,
        key: &Bytes,
        value: &Bytes,
        lease: i64,
        expires_at: UnixMillis,
    ) -> InFlight<'_> {
        let mut state = self.state.lock();
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

    /// Records the end of a revision that this process wrote. Returns whether another end was
    /// assumed until now. That happens because a watch cannot distinguish two concurrent writes of
    /// the same value under the same lease.
    pub(super) fn wrote(&self, revision: Revision, expires_at: UnixMillis) -> bool {
        let mut state = self.state.lock();
        let before = state.written.get(&revision).copied();
        state.wrote(revision, expires_at, self.written_max);
        before.is_some_and(|before| before != expires_at)
    }

    /// The end of a revision, if this process wrote it recently.
    pub(super) fn of_revision(&self, revision: Revision) -> Option<UnixMillis> {
        self.state.lock().written.get(&revision).copied()
    }

    /// Forgets the ends of all own writes: in another history their revisions mean other writes.
    pub(super) fn forget_written(&self) {
        self.state.lock().written.clear();
    }

    /// Finds the end of a version of a record. `decode` asks the index, or lets the server's
    /// decoder look at the value.
    pub(super) fn of(
        &self,
        key: &[u8],
        version: &KeyValue,
        decode: impl FnOnce() -> Option<End>,
    ) -> Known {
        let revision = super::client::unsigned(version.mod_revision);
        let mut state = self.state.lock();
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
        let state = self.state.lock();
        let of_lease = lease::end_of(version.lease).map(End::exact);
        match of_lease.or_else(|| state.leases.get(&version.lease).copied()) {
            Some(end) => Known::End(Some(end)),
            None => Known::Lease(version.lease),
        }
    }

    /// Remembers the end of another program's lease. The first end counts and is returned, because
    /// etcd may extend the lease later.
    pub(super) fn first_seen(&self, lease: i64, end: End) -> End {
        let mut state = self.state.lock();
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

    /// Whether exactly one write in flight has this key, lease and value.
    pub(super) fn is_alone(&self, key: &Bytes, lease: i64, value: &Bytes) -> bool {
        let state = self.state.lock();
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

/// Guard of a write whose answer is awaited; dropping it ends the registration.
pub(super) struct InFlight<'a> {
    expiries: &'a Expiries,
    key: Bytes,
    id: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.expiries.state.lock();
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
        assert!(expiries.state.lock().in_flight.is_empty());
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
        assert_eq!(expiries.state.lock().leases.len(), LEASES_MAX);
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
        assert!(!expiries.is_alone(&key, 9, &value));
        drop(first);
        assert!(expiries.is_alone(&key, 9, &value));
        assert!(!expiries.is_alone(&key, 8, &value));
        drop(second);
        assert!(!expiries.is_alone(&key, 9, &value));
    }
}
