//! Rates: the number of events last seen in each step of a range.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::Serialize;

/// Maximum steps.
const STEPS_MAX: i64 = 400;
/// Maximum series. If there are more names, the last series has all others.
const SERIES_MAX: usize = 12;
/// The name of the series for all names without their own.
const OTHER: &str = "other";
const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;
/// The lengths that a step can have, which are those of clocks and calendars.
#[rustfmt::skip]
const LENGTHS: [i64; 19] = [
    SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND,
    60 * SECOND, 120 * SECOND, 300 * SECOND, 600 * SECOND, 900 * SECOND, 1800 * SECOND,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 7 * 24 * HOUR,
];
/// The approximate number of steps.
const STEPS: i64 = 120;

/// One series of the rates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<u64>,
}

/// The rates of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rates {
    /// The length of a step in milliseconds.
    pub(crate) step: i64,
    /// The start of the first step, a multiple of the step.
    pub(crate) start: i64,
    pub(crate) series: Vec<Series>,
}

/// The length of a step for a range, at least `least` milliseconds.
pub(crate) fn step((from, to): (i64, i64), least: i64) -> i64 {
    let range = to.saturating_sub(from).max(1);
    let fits = |step: &i64| *step >= least && range / step <= STEPS;
    let longest = LENGTHS.last().copied().unwrap_or(HOUR);
    let step = LENGTHS.into_iter().find(fits).unwrap_or(longest);
    // The range spans many years.
    let most = range / STEPS_MAX / step + 1;
    step.saturating_mul(most.max(1))
}

/// Counts moments by name. The most frequent names have a series each, in that order; the others
/// share one.
pub(crate) fn rates<'a>(
    counted: impl Iterator<Item = (&'a str, i64, u64)>,
    (from, to): (i64, i64),
    step: i64,
) -> Rates {
    let start = from.saturating_sub(from.rem_euclid(step));
    let len = to.saturating_sub(start).saturating_sub(1).max(0) / step + 1;
    let len = usize::try_from(len.min(STEPS_MAX + 2)).unwrap_or(0);
    let mut counts: HashMap<&str, (u64, BTreeMap<usize, u64>)> = HashMap::default();
    for (name, at, events) in counted {
        let step = usize::try_from(at.saturating_sub(start) / step);
        let Ok(step) = step else { continue };
        if at < start || step >= len {
            continue;
        }
        let (sum, steps) = counts.entry(name).or_default();
        *sum += events;
        *steps.entry(step).or_default() += events;
    }
    let mut ranked: Vec<_> = counts.into_iter().collect();
    ranked.sort_unstable_by_key(|(name, (sum, _))| (Reverse(*sum), *name));
    let all = ranked.len();
    let mut series: Vec<Series> = Vec::new();
    for (at, (name, (_, steps))) in ranked.into_iter().enumerate() {
        let is_own = all <= SERIES_MAX || at + 1 < SERIES_MAX;
        if is_own || series.len() < SERIES_MAX {
            series.push(Series {
                name: if is_own { name } else { OTHER }.to_owned(),
                values: vec![0; len],
            });
        }
        let Some(Series { values, .. }) = series.last_mut() else {
            continue;
        };
        for (step, events) in steps {
            if let Some(value) = values.get_mut(step) {
                *value += events;
            }
        }
    }
    Rates {
        step,
        start,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_clocks() {
        const DAY: i64 = 24 * HOUR;
        for (range, least, expected) in [
            (60 * SECOND, 0, SECOND),
            (HOUR, 0, 30 * SECOND),
            (HOUR, HOUR, HOUR),
            (DAY, 0, 900 * SECOND),
            (30 * DAY, 0, 6 * HOUR),
            (30 * DAY, 12 * HOUR, 12 * HOUR),
            (365 * DAY, 0, 7 * DAY),
            (0, 0, SECOND),
        ] {
            assert_eq!(step((0, range), least), expected, "{range}");
        }
        for range in [
            (0, i64::MAX),
            (i64::MIN, i64::MAX),
            (-5, 253_402_300_800_000),
        ] {
            let step = step(range, 0);
            let found = rates(std::iter::once(("a", 0, 1)), range, step);
            let len = found.series.first().map_or(0, |series| series.values.len());
            assert!(len <= 402, "{range:?}: {len}");
        }
    }

    #[test]
    fn moments_are_counted_where_they_are() {
        let counted = [
            ("Normal", 999, 1),
            ("Normal", 1000, 1),
            ("Warning", 2999, 5),
            ("Normal", 3999, 2),
            ("Normal", 4000, 7),
        ];
        let found = rates(counted.into_iter(), (1500, 4000), SECOND);
        let series = |name: &str, values: [u64; 3]| Series {
            name: name.into(),
            values: values.into(),
        };
        assert_eq!(
            found.series,
            [series("Warning", [0, 5, 0]), series("Normal", [1, 0, 2])]
        );
        assert_eq!((found.start, found.step), (1000, SECOND));
    }

    #[test]
    fn there_is_a_bounded_number_of_series() {
        let names: Vec<String> = (0..100).map(|at| format!("R{at:03}")).collect();
        let counted = names.iter().enumerate();
        let counted = counted.map(|(at, name)| (name.as_str(), 0, 200 - at as u64));
        let found = rates(counted, (0, 1000), SECOND);
        assert_eq!(found.series.len(), 12);
        assert_eq!(found.series[0].name, "R000");
        let rest: u64 = (11..100).map(|at| 200 - at).sum();
        let last = &found.series[11];
        assert_eq!((last.name.as_str(), last.values[0]), ("other", rest));
    }
}
