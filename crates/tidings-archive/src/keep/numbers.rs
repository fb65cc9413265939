//! The numbers by which clients know the revisions of a store, as resourceVersions. Each store has
//! a range of its own, so that what one archive of a cluster has told is not taken for what another
//! one has.
//!
//! ```text
//! bit 62   61 ───────── 40   39 ─────── 0
//!      1   of the store      its revision
//! ```

use tidings_store::{REVISION_OF_NEW, Revision};

/// Bits of a resourceVersion of an archive that are the revision in its store. Two of one store
/// have the same bits above these; two of different stores do not, but for one pair in four
/// million.
///
/// At a thousand changes a second they are enough for 34 years.
pub const REVISION_BITS: u32 = 40;
/// Bits that say whose number it is.
const STORE_BITS: u32 = 22;
/// Every number of an archive has this bit; no API server and no archive on object storage counts
/// as far. What clients accept is less than twice as much.
const ARCHIVE: u64 = 1 << (STORE_BITS + REVISION_BITS);

/// The numbers of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    first: u64,
}

impl Numbers {
    /// Those of the store with this identity, which are the same as long as it has it.
    pub(crate) fn of(identity: &str) -> Self {
        let hash = hash(identity);
        let store = ((hash >> 32) ^ hash) & ((1 << STORE_BITS) - 1);
        Self {
            first: ARCHIVE | store << REVISION_BITS,
        }
    }

    /// The number of a revision. What every store begins with is the same for all.
    pub(crate) fn number(self, revision: Revision) -> u64 {
        if revision <= REVISION_OF_NEW {
            revision
        } else {
            self.first.saturating_add(revision)
        }
    }

    /// Puts their numbers in the place of revisions.
    pub(crate) fn tell(self, revisions: [&mut Revision; 2]) {
        for revision in revisions {
            *revision = self.number(*revision);
        }
    }

    /// The revision that has a number; `None` if it is of another store.
    pub(crate) fn revision(self, number: u64) -> Option<Revision> {
        if number <= REVISION_OF_NEW {
            return Some(number);
        }
        let revision = number.checked_sub(self.first)?;
        (revision >> REVISION_BITS == 0).then_some(revision)
    }
}

/// FNV-1a, which no release changes: numbers outlive the process.
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
        // As signed numbers, too, and none that a source or a sealed archive has.
        assert_eq!(told[..2], [0, 1]);
        assert!(told[2..].iter().all(|number| number >> 62 == 1));
    }

    #[test]
    fn a_number_of_another_store_has_no_revision() {
        let [one, other] = ["one", "other"].map(Numbers::of);
        for revision in &REVISIONS[2..] {
            assert_eq!(one.revision(other.number(*revision)), None, "{revision}");
            assert_eq!(other.revision(one.number(*revision)), None, "{revision}");
            // Of a source, or of an archive before it had such numbers.
            assert_eq!(one.revision(*revision), None, "{revision}");
        }
        for number in [1 << 61, 1 << 63, u64::MAX] {
            assert_eq!(one.revision(number), None, "{number}");
        }
    }

    /// Watches outlive a process, and a release.
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
