//! The events of a range that were not read, by the counts that a store keeps by hour and reason.
//!
//! Only the spans that were not read can have them. In an hour with several such spans each gets
//! its part by how dense the events beside it were: an estimate whose sum is the store's.

use foldhash::HashMap;
use tidings_store::HOUR_MILLIS;

use tidings_core::occurrences::Occurrences;

/// A span of time of which not all events were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unread {
    pub(crate) from: i64,
    /// Not part of it.
    pub(crate) to: i64,
    /// Events a millisecond in what was read just after it.
    pub(crate) density: f64,
}

/// The events that were last seen within an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfHour<'a> {
    pub(crate) reason: &'a str,
    /// When the hour begins.
    pub(crate) hour: i64,
    pub(crate) events: u64,
}

/// Events of a reason that were not read, each taken to have happened once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing<'a> {
    pub(crate) reason: &'a str,
    pub(crate) occurrences: Occurrences,
}

/// The events that are counted in a range and were not read. `read` has the reason, the time
/// and the number of the events that were read. An hour that is not wholly in the range counts for
/// its part.
pub(crate) fn missing<'a>(
    counts: &[OfHour<'a>],
    read: impl Iterator<Item = (&'a str, i64, u64)>,
    spans: &[Unread],
    (from, to): (i64, i64),
) -> Vec<Missing<'a>> {
    let mut of_hours: HashMap<(i64, &str), u64> = HashMap::default();
    for (reason, at, events) in read.filter(|(_, at, _)| (from..to).contains(at)) {
        let hour = at.saturating_sub(at.rem_euclid(HOUR_MILLIS));
        *of_hours.entry((hour, reason)).or_default() += events;
    }
    let mut missing = Vec::new();
    for count in counts {
        let end = count.hour.saturating_add(HOUR_MILLIS);
        let (begin, end) = (count.hour.max(from), end.min(to));
        if begin >= end {
            continue;
        }
        let part = end.abs_diff(begin) as f64 / HOUR_MILLIS as f64;
        let events = (count.events as f64 * part).round() as u64;
        let read = of_hours.get(&(count.hour, count.reason)).copied();
        let left = events.saturating_sub(read.unwrap_or_default());
        if left == 0 {
            continue;
        }
        let within: Vec<(i64, i64, f64)> = spans
            .iter()
            .map(|span| (span.from.max(begin), span.to.min(end), span.density))
            .filter(|(from, to, _)| from < to)
            .map(|(from, to, density)| (from, to, density * to.abs_diff(from) as f64))
            .collect();
        let all: f64 = within.iter().map(|(.., weight)| weight).sum();
        let (mut sum, mut given) = (0.0, 0);
        for (at, (from, to, weight)) in (1..).zip(&within) {
            sum += weight;
            let until = if at == within.len() {
                left
            } else {
                ((left as f64 * (sum / all)).round() as u64).clamp(given, left)
            };
            if until > given {
                missing.push(Missing {
                    reason: count.reason,
                    occurrences: Occurrences::within(*from, *to, until - given),
                });
            }
            given = until;
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(from: i64, to: i64, density: f64) -> Unread {
        Unread { from, to, density }
    }

    #[test]
    fn what_was_not_read_is_where_nothing_was_read() {
        let count = |reason, events| OfHour {
            reason,
            hour: 0,
            events,
        };
        let counts = [count("Pulled", 1000), count("BackOff", 3)];
        let read = [("Pulled", 5, 60), ("Pulled", 6, 40), ("BackOff", 7, 3)].into_iter();
        let spans = [
            span(60_000, 120_000, 3.0),
            span(120_000, 180_000, 1.0),
            // Of another hour.
            span(HOUR_MILLIS, 2 * HOUR_MILLIS, 9.0),
        ];
        let found = missing(&counts, read, &spans, (0, HOUR_MILLIS));
        let of = |from, to, count| Missing {
            reason: "Pulled",
            occurrences: Occurrences::within(from, to, count),
        };
        assert_eq!(found, [of(60_000, 120_000, 675), of(120_000, 180_000, 225)]);
        // An hour that is not wholly in the range counts for its part.
        let quarter = (HOUR_MILLIS / 2, HOUR_MILLIS * 3 / 4);
        let everything = [span(0, HOUR_MILLIS, 1.0)];
        let found = missing(&counts, std::iter::empty(), &everything, quarter);
        let found: Vec<_> = found.iter().map(|one| one.occurrences.count).collect();
        assert_eq!(found, [250, 1]);
        // Everything was read.
        assert_eq!(
            missing(&counts, std::iter::empty(), &[], (0, HOUR_MILLIS)),
            []
        );
    }

    proptest! {
        /// The sum is what the store counts, whatever was read.
        #[test]
        fn the_sum_is_the_count(
            times in prop::collection::vec((0..3 * HOUR_MILLIS, 0_usize..3), 0..200),
            cuts in prop::collection::vec((0..3 * HOUR_MILLIS, 0..3 * HOUR_MILLIS, 0.001..9.0_f64), 0..5),
        ) {
            let reasons = ["A", "B", "C"];
            let spans: Vec<Unread> = cuts
                .iter()
                .filter(|(from, to, _)| from < to)
                .map(|(from, to, density)| span(*from, *to, *density))
                .collect();
            let is_read = |at: &i64| !spans.iter().any(|span| (span.from..span.to).contains(at));
            let mut counts: Vec<OfHour<'_>> = Vec::new();
            for hour in 0..3 {
                for (number, reason) in reasons.iter().enumerate() {
                    let hour = hour * HOUR_MILLIS;
                    let is_of = |(at, of): &&(i64, usize)| {
                        *of == number && (hour..hour + HOUR_MILLIS).contains(at)
                    };
                    let events = times.iter().filter(is_of).count() as u64;
                    counts.push(OfHour { reason, hour, events });
                }
            }
            let read = times.iter().filter(|(at, _)| is_read(at));
            let read = read.map(|(at, of)| (reasons[*of], *at, 1));
            let found = missing(&counts, read.clone(), &spans, (0, 3 * HOUR_MILLIS));
            for reason in reasons {
                let of_reason = found.iter().filter(|one| one.reason == reason);
                let missing: u64 = of_reason.map(|one| one.occurrences.count).sum();
                let read = read.clone().filter(|(one, ..)| *one == reason).count();
                let all = times.iter().filter(|(_, of)| reasons[*of] == reason).count();
                prop_assert_eq!(missing as usize + read, all);
            }
        }
    }
}
