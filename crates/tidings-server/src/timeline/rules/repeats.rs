//! The repeats of an event over time. Each version states the time of the last occurrence and the
//! count, so between two versions the event occurred as often as the count increased.

use serde::Serialize;

/// Maximum bins.
const BINS_MAX: u64 = 200;

/// The occurrences that a version of an event states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// When the event last happened, in milliseconds.
    pub(crate) last: i64,
    /// How often it had happened by then.
    pub(crate) count: u64,
}

/// The occurrences of an event in bins of equal length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Repeats {
    /// The start of the first bin.
    pub(crate) from: i64,
    /// The end of the last bin, exclusive.
    pub(crate) to: i64,
    pub(crate) bins: Vec<u64>,
    /// The count of the oldest version, whose occurrences are in no bin because their times are
    /// unknown. 0 if that version has the first occurrence.
    pub(crate) begun: u64,
    /// The number of versions from which the bins are made.
    pub(crate) versions: usize,
    /// Whether there are older versions.
    pub(crate) more: bool,
}

/// The repeats of an event that first happened at `first`, by its versions, newest first; `None`
/// without versions. `more` says that there are older versions.
pub(crate) fn repeats(told: &[Told], first: i64, more: bool) -> Option<Repeats> {
    let oldest = told.last()?;
    let from = told.iter().map(|version| version.last).min()?;
    let to = told.iter().map(|version| version.last).max()?;
    let to = to.saturating_add(1);
    // A moment at the end of all times has no bin of its own.
    let span = to.abs_diff(from).max(1);
    let len = span.min(BINS_MAX);
    let bin_of = |at: i64| {
        let bin = u128::from(at.abs_diff(from)) * u128::from(len) / u128::from(span);
        usize::try_from(bin.min(u128::from(len) - 1)).unwrap_or(0)
    };
    let begun = if more || oldest.last > first {
        oldest.count
    } else {
        0
    };
    let mut bins = vec![0_u64; usize::try_from(len).unwrap_or(1)];
    let mut count = begun;
    for version in told.iter().rev() {
        if let Some(bin) = bins.get_mut(bin_of(version.last)) {
            *bin = bin.saturating_add(version.count.saturating_sub(count));
        }
        count = count.max(version.count);
    }
    Some(Repeats {
        from,
        to,
        bins,
        begun,
        versions: told.len(),
        more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions, newest first, as they are read.
    fn versions(oldest_first: &[(i64, u64)]) -> Vec<Told> {
        oldest_first
            .iter()
            .rev()
            .map(|&(last, count)| Told { last, count })
            .collect()
    }

    fn bins(oldest_first: &[(i64, u64)], first: i64, more: bool) -> Vec<u64> {
        repeats(&versions(oldest_first), first, more).unwrap().bins
    }

    #[test]
    fn every_occurrence_that_is_known_is_in_one_bin() {
        let rising: Vec<(i64, u64)> = (0..70_000).map(|n| (n * 10_000, n as u64 + 1)).collect();
        let found = repeats(&versions(&rising), 0, false).unwrap();
        assert_eq!(found.bins.len(), 200);
        assert_eq!(found.bins.iter().sum::<u64>(), 70_000);
        // The rate is as steady as it was.
        assert!(found.bins.iter().all(|bin| bin.abs_diff(350) <= 1));
        assert_eq!((found.from, found.to), (0, 699_990_001));
        assert_eq!((found.begun, found.versions), (0, 70_000));
        assert!(!found.more);
    }

    #[test]
    fn what_happened_before_the_versions_is_in_no_bin() {
        let told = [(5_000, 900), (6_000, 903), (7_000, 904)];
        for (first, more, begun, sum) in [
            (0, false, 900, 4),
            (5_000, false, 0, 904),
            (5_000, true, 900, 4),
        ] {
            let found = repeats(&versions(&told), first, more).unwrap();
            let sums = (found.begun, found.bins.iter().sum::<u64>());
            assert_eq!(sums, (begun, sum), "{first} {more}");
        }
    }

    #[test]
    fn a_bin_is_at_least_a_millisecond_long() {
        for (told, expected) in [
            (vec![(7, 3)], vec![3]),
            (vec![(7, 3), (7, 5)], vec![5]),
            (vec![(7, 3), (9, 5)], vec![3, 0, 2]),
            // A decrease of the count is no occurrence, nor is a rise to its former value.
            (vec![(7, 3), (8, 1), (9, 4)], vec![3, 0, 1]),
            // Versions that came late are counted at their own times.
            (vec![(9, 3), (7, 4), (8, 6)], vec![1, 2, 3]),
        ] {
            assert_eq!(bins(&told, i64::MAX, false), expected, "{told:?}");
        }
        assert_eq!(repeats(&[], 0, false), None);
    }

    #[test]
    fn no_time_is_too_far_away() {
        for told in [
            [(i64::MIN, 1), (i64::MAX, 2)],
            [(i64::MAX, 1), (i64::MAX, 2)],
        ] {
            let found = bins(&told, i64::MAX, false);
            assert_eq!(found.iter().sum::<u64>(), 2, "{told:?}");
            assert!(found.len() as u64 <= BINS_MAX);
        }
    }
}
