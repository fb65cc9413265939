//! Rates: how often events happened in each step of a range.
//!
//! The first and the last occurrence of an event are where they were seen, the others evenly
//! between them ([`Occurrences`]); rates that rest on this say that they are estimated.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::Serialize;

use tidings_core::occurrences::Occurrences;

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
    /// Whether the times of some occurrences are assumed.
    pub(crate) estimated: bool,
    pub(crate) series: Vec<Series>,
}

/// The length of a step for a range, in milliseconds.
pub(crate) fn step((from, to): (i64, i64)) -> i64 {
    let range = to.saturating_sub(from).max(1);
    let fits = |step: &i64| range / step <= STEPS;
    let longest = LENGTHS.last().copied().unwrap_or(HOUR);
    let step = LENGTHS.into_iter().find(fits).unwrap_or(longest);
    // The range spans many years.
    let most = range / STEPS_MAX / step + 1;
    step.saturating_mul(most.max(1))
}

/// Counts occurrences in a range by name. The most frequent names have a series each, in that
/// order; the others share one.
pub(crate) fn rates<'a>(
    counted: impl Iterator<Item = (&'a str, Occurrences)>,
    (from, to): (i64, i64),
    step: i64,
) -> Rates {
    let start = from.saturating_sub(from.rem_euclid(step));
    let len = to.saturating_sub(start).saturating_sub(1).max(0) / step + 1;
    let len = usize::try_from(len.min(STEPS_MAX + 2)).unwrap_or(0);
    let step_of = |at: i64| {
        let step = usize::try_from(at.saturating_sub(start) / step).unwrap_or(0);
        step.min(len.saturating_sub(1))
    };
    let mut estimated = false;
    let mut counts: HashMap<&str, (u64, BTreeMap<usize, u64>)> = HashMap::default();
    for (name, occurrences) in counted {
        let all = occurrences.between(from, to);
        if all == 0 {
            continue;
        }
        let (sum, steps) = counts.entry(name).or_default();
        *sum = sum.saturating_add(all);
        let (begin, last) = match occurrences.count {
            1 => (occurrences.last, occurrences.last),
            _ => (occurrences.first.max(from), occurrences.last),
        };
        let (begin, end) = (step_of(begin), step_of(last.min(to.saturating_sub(1))));
        estimated |= occurrences.is_estimated() && (begin < end || all < occurrences.count);
        let mut before = occurrences.before(from);
        for at in begin..=end {
            let until = match i64::try_from(at + 1) {
                Ok(next) if at < end => start.saturating_add(step.saturating_mul(next)),
                _ => to,
            };
            let until = occurrences.before(until);
            if until > before {
                let value = steps.entry(at).or_default();
                *value = value.saturating_add(until - before);
            }
            before = until;
        }
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
        for (step, occurrences) in steps {
            if let Some(value) = values.get_mut(step) {
                *value = value.saturating_add(occurrences);
            }
        }
    }
    Rates {
        step,
        start,
        estimated,
        series,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn once((name, at): (&str, i64)) -> (&str, Occurrences) {
        (name, Occurrences::once(at))
    }

    #[test]
    fn steps_are_those_of_clocks() {
        const DAY: i64 = 24 * HOUR;
        for (range, expected) in [
            (60 * SECOND, SECOND),
            (HOUR, 30 * SECOND),
            (2 * HOUR, 60 * SECOND),
            (DAY, 900 * SECOND),
            (30 * DAY, 6 * HOUR),
            (365 * DAY, 7 * DAY),
            (0, SECOND),
        ] {
            assert_eq!(step((0, range)), expected, "{range}");
        }
        for range in [
            (0, i64::MAX),
            (i64::MIN, i64::MAX),
            (-5, 253_402_300_800_000),
        ] {
            let step = step(range);
            let everywhere = Occurrences {
                first: i64::MIN,
                last: i64::MAX,
                count: 3,
            };
            let found = rates([("a", everywhere)].into_iter(), range, step);
            let len = found.series.first().map_or(0, |series| series.values.len());
            assert!(len <= 402, "{range:?}: {len}");
        }
    }

    #[test]
    fn occurrences_are_counted_where_they_were() {
        let repeated = |first, last, count| Occurrences { first, last, count };
        let counted = [
            once(("Normal", 1499)),
            once(("Normal", 1500)),
            ("Warning", repeated(1500, 3999, 26)),
            ("Normal", repeated(3999, 3999, 2)),
            once(("Normal", 4000)),
            // Half of it is before the range.
            ("Before", repeated(501, 2500, 20)),
        ];
        let found = rates(counted.into_iter(), (1500, 4000), SECOND);
        let series = |name: &str, values: [u64; 3]| Series {
            name: name.into(),
            values: values.into(),
        };
        assert_eq!(
            found.series,
            [
                series("Warning", [6, 10, 10]),
                series("Before", [5, 5, 0]),
                series("Normal", [1, 0, 2]),
            ]
        );
        assert_eq!((found.start, found.step), (1000, SECOND));
        assert!(found.estimated);
        let known = [("a", repeated(1500, 3999, 2)), once(("a", 2000))];
        assert!(!rates(known.into_iter(), (1500, 4000), SECOND).estimated);
    }

    proptest! {
        /// What the bars say is what a scan of all occurrences says.
        #[test]
        fn bars_have_every_occurrence_of_the_range_once(
            events in prop::collection::vec((0_i64..9000, 0_i64..5000, 1_u64..40), 0..30),
            from in 0_i64..5000,
            length in 1_i64..9000,
        ) {
            let range = (from, from + length);
            let events: Vec<Occurrences> = events
                .into_iter()
                .map(|(first, length, count)| Occurrences { first, last: first + length, count })
                .collect();
            let found = rates(events.iter().map(|one| ("a", *one)), range, SECOND);
            let values = found.series.first().map_or(&[][..], |series| &series.values);
            let all: u64 = events.iter().map(|one| one.between(range.0, range.1)).sum();
            prop_assert_eq!(values.iter().sum::<u64>(), all);
            for (at, value) in (0..).zip(values) {
                let begin = found.start + at * SECOND;
                let end = (begin + SECOND).min(range.1);
                let begin = begin.max(range.0);
                let bar: u64 = events.iter().map(|one| one.between(begin, end)).sum();
                prop_assert_eq!(*value, bar);
            }
            if !found.estimated {
                // Then each occurrence that is counted is known, or in the bar of its event.
                let is_known = |one: &Occurrences| {
                    let bar = |at: i64| at.max(range.0).min(range.1 - 1) / SECOND;
                    !one.is_estimated() || bar(one.first) == bar(one.last)
                        || one.between(range.0, range.1) == 0
                };
                prop_assert!(events.iter().all(is_known));
            }
        }
    }

    #[test]
    fn there_is_a_bounded_number_of_series() {
        let names: Vec<String> = (0..100).map(|at| format!("R{at:03}")).collect();
        let of_first = |number: usize| {
            let counted = names.iter().take(number).enumerate().map(|(at, name)| {
                let count = 200 - at as u64;
                let occurrences = Occurrences {
                    count,
                    ..Occurrences::once(0)
                };
                (name.as_str(), occurrences)
            });
            rates(counted, (0, 1000), SECOND)
        };
        assert_eq!(of_first(12).series[11].name, "R011");
        let found = of_first(100);
        assert_eq!(found.series.len(), 12);
        assert_eq!(found.series[0].name, "R000");
        let rest: u64 = (11..100).map(|at| 200 - at).sum();
        let last = &found.series[11];
        assert_eq!((last.name.as_str(), last.values[0]), ("other", rest));
    }
}
