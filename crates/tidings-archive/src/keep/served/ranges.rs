//! Converts revisions of a store into the numbers that clients see as resourceVersions. Each store
//! has a range of its own, so that a number of one archive of a cluster is not taken for one of
//! another archive.
//!
//! ```text
//! bit 62   61 ───────── 40   39 ─────── 0
//!      1   of the store      its revision
//! ```

use tidings_store::{REVISION_OF_NEW, Revision};

/// Number of low bits of a resourceVersion of an archive: they are the revision in its store. The
/// bits above are the same for all numbers of one store, and differ between two stores, except for
/// one pair in four million.
///
/// Forty bits are enough for 34 years at a thousand changes per second.
pub const REVISION_BITS: u32 = 40;
/// Number of bits that identify the store.
const STORE_BITS: u32 = 22;
/// This bit is set in every number of an archive, since no API server and no archive on object
/// storage counts that far. Clients accept numbers of less than twice its value.
const ARCHIVE: u64 = 1 << (STORE_BITS + REVISION_BITS);

/// The range of numbers of one store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    first: u64,
}

impl Numbers {
    /// The range of the store with this identity, the same as long as the store has it.
    pub(crate) fn of(identity: &str) -> Self {
        let hash = hash(identity);
        let store = ((hash >> 32) ^ hash) & ((1 << STORE_BITS) - 1);
        Self {
            first: ARCHIVE | store << REVISION_BITS,
        }
    }

    /// The number of a revision. The revision that every store begins with has the same number for
    /// all.
    pub(crate) fn number(self, revision: Revision) -> u64 {
        if revision <= REVISION_OF_NEW {
            revision
        } else {
            self.first.saturating_add(revision)
        }
    }

    /// Replaces revisions by their numbers.
    pub(crate) fn tell(self, revisions: [&mut Revision; 2]) {
        for revision in revisions {
            *revision = self.number(*revision);
        }
    }

    /// The revision that has this number; `None` if the number is of another store.
    pub(crate) fn revision(self, number: u64) -> Option<Revision> {
        if number <= REVISION_OF_NEW {
            return Some(number);
        }
        let revision = number.checked_sub(self.first)?;
        (revision >> REVISION_BITS == 0).then_some(revision)
    }
}

/// The hash function FNV-1a. It must never change, because numbers outlive the process.
fn hash(text: &str) -> u64 {
    const BEGIN: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = BEGIN;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const REVISIONS: [Revision; 6] = [0, 1, 2, 3, 1_000_000, (1 << REVISION_BITS) - 1];

    #[test]
    fn numbers_are_read_back_and_in_the_order_of_revisions() {
        let numbers = Numbers::of("one");
        let told = REVISIONS.map(|revision| numbers.number(revision));
        assert!(told.is_sorted());
        let read = told.map(|number| numbers.revision(number));
        assert_eq!(read, REVISIONS.map(Some));
        // The numbers are also valid as signed ones, and no source or sealed archive has them.
        assert_eq!(told[..2], [0, 1]);
        assert!(told[2..].iter().all(|number| number >> 62 == 1));
    }

    #[test]
    fn a_number_of_another_store_has_no_revision() {
        let [one, other] = ["one", "other"].map(Numbers::of);
        for revision in &REVISIONS[2..] {
            assert_eq!(one.revision(other.number(*revision)), None, "{revision}");
            assert_eq!(other.revision(one.number(*revision)), None, "{revision}");
            // This number is one of a source, or of an archive of an earlier version of the
            // program.
            assert_eq!(one.revision(*revision), None, "{revision}");
        }
        for number in [1 << 61, 1 << 63, u64::MAX] {
            assert_eq!(one.revision(number), None, "{number}");
        }
    }

    /// Watches are resumed after a restart, and after an update of the program.
    #[test]
    fn numbers_stay_as_they_are() {
        for (identity, range) in [
            ("0123456789abcdef0123456789abcdef", 6_456_258_u64),
            ("fedcba9876543210fedcba9876543210", 5_785_311),
        ] {
            let number = Numbers::of(identity).number(2);
            assert_eq!(number, range << REVISION_BITS | 2, "{identity}");
        }
    }

    #[test]
    fn stores_hardly_ever_share_their_numbers() {
        let identities = (0..2000_u64).map(|number| format!("{number:032x}"));
        let firsts: HashSet<_> = identities.map(|it| Numbers::of(&it).first).collect();
        assert!(firsts.len() > 1990, "{}", firsts.len());
    }
}
