//! The state of the store, which every frame of the log and the checkpoint have.
//!
//! The order of its numbers is part of the format and must be kept; see docs/storage-format.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::varint::{Reader, damaged, put_varint};
use crate::{Fault, Revision};

/// The position up to which expiries are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Swept {
    /// All expiries of this bucket and of earlier ones are written.
    pub(in crate::embedded) floor: u64,
    /// For later buckets, the revision up to which all versions have expired or otherwise ended.
    pub(in crate::embedded) marks: Arc<BTreeMap<u64, Revision>>,
}

impl Swept {
    /// Whether the position covers the end of a version.
    pub(in crate::embedded) fn has(&self, bucket: u64, revision: Revision) -> bool {
        bucket <= self.floor || revision <= self.mark(bucket)
    }

    /// The revision up to which a bucket after the floor is swept.
    pub(in crate::embedded) fn mark(&self, bucket: u64) -> Revision {
        self.marks.get(&bucket).copied().unwrap_or(0)
    }

    pub(in crate::embedded) fn set_mark(&mut self, bucket: u64, revision: Revision) {
        Arc::make_mut(&mut self.marks).insert(bucket, revision);
    }

    /// Raises the floor to a bucket, and drops the marks that it covers.
    pub(in crate::embedded) fn raise(&mut self, floor: u64) {
        self.floor = floor;
        let is_below = |bucket: &u64| *bucket <= floor;
        if self.marks.keys().any(is_below) {
            Arc::make_mut(&mut self.marks).retain(|bucket, _| !is_below(bucket));
        }
    }

    /// The position in formats up to 3: everything up to a bucket, and up to a revision in it.
    pub(in crate::embedded) fn up_to(bucket: u64, revision: Revision) -> Self {
        let mut swept = Self::default();
        if revision == Revision::MAX {
            swept.floor = bucket;
        } else {
            swept.floor = bucket.saturating_sub(1);
            if revision > 0 {
                swept.set_mark(bucket, revision);
            }
        }
        swept
    }

    /// The first bucket after the floor, for callers that do not use marks.
    pub(in crate::embedded) fn begins_at(&self) -> u64 {
        match self.floor {
            0 => 0,
            floor => floor.saturating_add(1),
        }
    }
}

/// The store's state, which every commit writes again.
///
/// On disk it is a row of varints: revision, compacted, the swept position as two numbers, records
/// and value bytes. The two numbers are the first bucket after the floor, and 0; in formats up to 3
/// they were a bucket and a revision in it. Then bucket and mark follow for each bucket with a
/// mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct State {
    /// The latest revision.
    pub(in crate::embedded) revision: Revision,
    /// History up to this revision is forgotten.
    pub(in crate::embedded) compacted: Revision,
    /// The position up to which expiries are written.
    pub(in crate::embedded) swept: Swept,
    /// Number of records whose expiry is not written.
    pub(in crate::embedded) records: u64,
    /// Bytes of the values of these records.
    pub(in crate::embedded) value_bytes: u64,
}

/// A bound that numbers which grow by one never reach.
pub(in crate::embedded) const COUNTED_MAX: u64 = 1 << 62;

impl State {
    /// Whether a store can have this state.
    pub(in crate::embedded) fn is_possible(&self) -> bool {
        let Self {
            revision,
            compacted,
            records,
            value_bytes,
            ..
        } = self;
        let counted = [revision, compacted, records, value_bytes];
        counted.into_iter().all(|count| *count <= COUNTED_MAX)
    }

    pub(in crate::embedded) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48 + 12 * self.swept.marks.len());
        let Self {
            revision,
            compacted,
            swept,
            records,
            value_bytes,
        } = self;
        for value in [
            *revision,
            *compacted,
            swept.begins_at(),
            0,
            *records,
            *value_bytes,
        ] {
            put_varint(&mut out, value);
        }
        for (bucket, revision) in &*swept.marks {
            put_varint(&mut out, *bucket);
            put_varint(&mut out, *revision);
        }
        out
    }

    pub(in crate::embedded) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes, "the state");
        let mut state = Self {
            revision: reader.varint()?,
            compacted: reader.varint()?,
            swept: Swept::up_to(reader.varint()?, reader.varint()?),
            records: reader.varint()?,
            value_bytes: reader.varint()?,
        };
        while !reader.left().is_empty() {
            let (bucket, revision) = (reader.varint()?, reader.varint()?);
            state.swept.set_mark(bucket, revision);
        }
        if state.is_possible() {
            Ok(state)
        } else {
            Err(damaged("the state"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn state_round_trips(values in prop::array::uniform4(0..=COUNTED_MAX), floor in 0..u64::MAX, marks: BTreeMap<u64, Revision>) {
            let [revision, compacted, records, value_bytes] = values;
            let swept = Swept { floor, marks: Arc::new(marks) };
            let state = State { revision, compacted, swept, records, value_bytes };
            prop_assert_eq!(State::decode(&state.encode())?, state);
        }

        #[test]
        fn decoding_anything_never_panics(bytes: Vec<u8>) {
            let _ = State::decode(&bytes);
        }
    }

    #[test]
    fn formats_up_to_3_had_one_mark() {
        let of = |bucket, revision| Swept::up_to(bucket, revision);
        assert_eq!(of(0, 0), Swept::default());
        assert!(of(7, 5).has(7, 5) && of(7, 5).has(6, 9) && !of(7, 5).has(7, 6));
        assert!(of(7, Revision::MAX).has(7, 9) && !of(7, Revision::MAX).has(8, 1));
    }

    /// These bytes are the format: a change here is a change of the format.
    #[test]
    fn bytes_are_these() {
        let mut state = State {
            revision: 300,
            compacted: 2,
            swept: Swept::up_to(9, Revision::MAX),
            records: 4,
            value_bytes: 5,
        };
        assert_eq!(state.encode(), [0xac, 2, 2, 10, 0, 4, 5]);
        state.swept.set_mark(20, 7);
        assert_eq!(state.encode(), [0xac, 2, 2, 10, 0, 4, 5, 20, 7]);
    }

    #[test]
    fn a_state_that_no_store_reaches_is_damaged() {
        let most = COUNTED_MAX;
        for change in [
            |state: &mut State| state.revision += 1,
            |state: &mut State| state.compacted += 1,
            |state: &mut State| state.records += 1,
            |state: &mut State| state.value_bytes += 1,
        ] {
            let mut state = State {
                revision: most,
                compacted: most,
                records: most,
                value_bytes: most,
                ..State::default()
            };
            assert_eq!(State::decode(&state.encode()).as_ref().ok(), Some(&state));
            change(&mut state);
            assert!(State::decode(&state.encode()).is_err(), "{state:?}");
        }
    }
}
