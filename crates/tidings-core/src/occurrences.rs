//! When an event happened, by its first time, its last time and its count.
//!
//! The first and the last occurrence are known. The others are assumed to be evenly spaced between
//! them, which is an estimate.

/// The occurrences of one event, or of several that are counted together.
///
/// ```
/// use tidings_core::occurrences::Occurrences;
///
/// let occurrences = Occurrences { first: 0, last: 100, count: 11 };
/// assert_eq!(occurrences.between(0, 50), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrences {
    /// The first one, in milliseconds.
    pub first: i64,
    /// The last one. A single occurrence is here.
    pub last: i64,
    /// How many there were.
    pub count: u64,
}

impl Occurrences {
    /// One occurrence.
    pub fn once(at: i64) -> Self {
        Self {
            first: at,
            last: at,
            count: 1,
        }
    }

    /// `count` occurrences spread over a span, whose end is not part of it.
    pub fn within(from: i64, to: i64, count: u64) -> Self {
        let last = to.saturating_sub(1).max(from);
        if count <= 1 {
            let middle = from.midpoint(last);
            return Self {
                count,
                ..Self::once(middle)
            };
        }
        Self {
            first: from,
            last,
            count,
        }
    }

    /// The number of occurrences before a moment.
    pub fn before(&self, moment: i64) -> u64 {
        if moment > self.last {
            return self.count;
        }
        if self.count <= 1 || moment <= self.first {
            return 0;
        }
        // Occurrence `i` is at `first + i * (last - first) / (count - 1)`.
        let steps = u128::from(self.count - 1);
        let passed = u128::from(moment.abs_diff(self.first)) * steps;
        let before = passed.div_ceil(u128::from(self.last.abs_diff(self.first)));
        u64::try_from(before).unwrap_or(u64::MAX)
    }

    /// The number of occurrences from a moment on and before another.
    pub fn between(&self, from: i64, to: i64) -> u64 {
        self.before(to).saturating_sub(self.before(from))
    }

    /// Whether the time of some occurrence is not known.
    pub fn is_estimated(&self) -> bool {
        self.count > 2 && self.first < self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_and_the_last_occurrence_are_where_they_were_seen() {
        let told = |first, last, count| Occurrences { first, last, count };
        for (occurrences, range, expected) in [
            (told(5, 5, 1), (5, 6), 1),
            // A single occurrence was at the last time.
            (told(1, 5, 1), (1, 5), 0),
            (told(0, 100, 2), (0, 1), 1),
            (told(0, 100, 2), (1, 100), 0),
            (told(0, 100, 2), (100, 101), 1),
            (told(0, 100, 11), (0, 50), 5),
            (told(0, 100, 11), (50, 101), 6),
            (told(7, 7, 40), (7, 8), 40),
            (told(i64::MIN, i64::MAX, u64::MAX), (i64::MIN, 0), 1 << 63),
        ] {
            let found = occurrences.between(range.0, range.1);
            assert_eq!(found, expected, "{occurrences:?} {range:?}");
        }
        assert_eq!(Occurrences::within(10, 20, 1), Occurrences::once(14));
        assert_eq!(Occurrences::within(10, 20, 5).between(10, 20), 5);
    }

    proptest! {
        /// However a range is divided, each occurrence is in one part.
        #[test]
        fn parts_have_each_occurrence_once(
            first in -1000_i64..1000,
            length in 0_i64..2000,
            count in 1_u64..300,
            mut bounds in prop::collection::vec(-1500_i64..3500, 1..20),
        ) {
            let occurrences = Occurrences { first, last: first + length, count };
            bounds.extend([-2000, 4000]);
            bounds.sort_unstable();
            let pairs = bounds.iter().zip(bounds.iter().skip(1));
            let parts: Vec<u64> = pairs.map(|(from, to)| occurrences.between(*from, *to)).collect();
            prop_assert_eq!(parts.iter().sum::<u64>(), count);
            // As each occurrence alone says.
            for ((from, to), part) in bounds.iter().zip(bounds.iter().skip(1)).zip(parts) {
                let is_within = |at: &u64| {
                    if count == 1 {
                        return (*from..*to).contains(&(first + length));
                    }
                    let scaled = i128::from(*at) * i128::from(length);
                    let steps = i128::from(count - 1);
                    let is_from = scaled >= i128::from(from - first) * steps;
                    is_from && scaled < i128::from(to - first) * steps
                };
                prop_assert_eq!((0..count).filter(is_within).count() as u64, part);
            }
        }
    }
}
