//! Tables of what happened most: occurrences by reason, object or another key, with when they were
//! first and last seen, over time, and beside the range before.
//!
//! `tidings top` and the timeline count with these tables. Events are added one at a time; memory
//! grows with the number of keys and of their objects. A row says what a scan of all its events
//! says. What rests on an assumption makes it [estimated](Row::is_estimated): that occurrences
//! between the first and the last were [evenly spread](Occurrences), or that events were counted by
//! hour.

use std::cmp::Reverse;
use std::hash::{BuildHasher as _, Hash};

use foldhash::fast::FixedState;
use foldhash::{HashMap, HashSet};

use crate::occurrences::Occurrences;

/// The length of the hours in which archives count events, in milliseconds.
const HOUR: i64 = 3_600_000;
/// The shortest usual interval, in milliseconds: many reporters write whole seconds.
const INTERVAL_MIN: u64 = 1000;
/// Something goes on if it was last seen within so many of its usual intervals.
const INTERVALS: u64 = 3;

/// A range of time in equal parts. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The first moment.
    pub from: i64,
    /// The end, which is not part of it.
    pub to: i64,
    /// The number of parts.
    pub parts: usize,
    /// Whether the end is now. Then an event whose clock is ahead counts as seen now.
    pub is_until_now: bool,
}

impl Axis {
    /// The range of the same length before this one.
    pub fn before(&self) -> (i64, i64) {
        let length = self.to.saturating_sub(self.from);
        (self.from.saturating_sub(length), self.from)
    }

    fn length(&self) -> i128 {
        (i128::from(self.to) - i128::from(self.from)).max(1)
    }

    /// The first moment of a part.
    fn bound(&self, part: usize) -> i64 {
        let parts = i128::try_from(self.parts.max(1)).unwrap_or(1);
        let part = i128::try_from(part).unwrap_or(parts);
        // Rounded up, so that `part_of` agrees.
        let into = (self.length() * part + parts - 1).div_euclid(parts);
        i64::try_from(i128::from(self.from) + into).unwrap_or(self.to)
    }

    /// The part that has a moment of the range.
    fn part_of(&self, at: i64) -> usize {
        let parts = i128::try_from(self.parts).unwrap_or(1);
        let into = (i128::from(at) - i128::from(self.from)).max(0);
        let part = usize::try_from(into * parts / self.length()).unwrap_or(usize::MAX);
        part.min(self.parts.saturating_sub(1))
    }

    /// Adds the occurrences in each part. Whether the part of some of them is assumed.
    fn spread(&self, occurrences: &Occurrences, sums: &mut [u64]) -> bool {
        if occurrences.between(self.from, self.to) == 0 {
            return false;
        }
        let begin = match occurrences.count {
            1 => occurrences.last,
            _ => occurrences.first.max(self.from),
        };
        let last = occurrences.last.min(self.to.saturating_sub(1));
        let (begin, end) = (self.part_of(begin), self.part_of(last));
        let mut before = occurrences.before(self.from);
        for part in begin..=end {
            let until = if part == end {
                self.to
            } else {
                self.bound(part + 1)
            };
            let until = occurrences.before(until);
            if let Some(sum) = sums.get_mut(part) {
                *sum = sum.saturating_add(until.saturating_sub(before));
            }
            before = until;
        }
        occurrences.is_estimated() && begin < end
    }
}

/// An event as a table counts it.
#[derive(Clone, Copy, Debug)]
pub struct Counted<O> {
    /// When it happened.
    pub occurrences: Occurrences,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The object that it is about.
    pub object: O,
}

/// What happened to one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of a row")]
pub struct Row {
    /// Occurrences in the range.
    pub occurrences: u64,
    /// Those of warnings.
    pub warnings: u64,
    /// Occurrences in the range before, if tables are compared.
    pub before: u64,
    /// Events with an occurrence in the range.
    pub events: u64,
    /// The earliest time that these state for the first occurrence, which may be before the range.
    pub first: Option<i64>,
    /// The latest time that they state for the last one, which may be after the range.
    pub last: Option<i64>,
    /// Whether [`first`](Self::first) and [`last`](Self::last) are only known to the hour.
    pub is_by_hour: bool,
    /// Whether the numbers of occurrences in the range rest on an assumption.
    pub is_estimated: bool,
    /// Whether the number of those in the range before does.
    pub is_before_estimated: bool,
    /// Occurrences in each part of the range.
    pub parts: Vec<u64>,
    /// Whether these rest on an assumption.
    pub are_parts_estimated: bool,
    /// All occurrences of the events, also those outside of the range.
    all: u64,
    /// Hashes of their objects.
    objects: HashSet<u64>,
}

impl Row {
    fn of(axis: &Axis) -> Self {
        Self {
            parts: vec![0; axis.parts],
            ..Self::default()
        }
    }

    /// The number of objects; `None` if events were only counted.
    pub fn objects(&self) -> Option<usize> {
        (!self.is_by_hour).then_some(self.objects.len())
    }

    /// Whether it happened in the range and not in the one before.
    pub fn is_new(&self) -> bool {
        self.occurrences > 0 && self.before == 0
    }

    /// Whether it happened in the range before and not in this one.
    pub fn is_gone(&self) -> bool {
        self.occurrences == 0 && self.before > 0
    }

    /// Whether it still went on at the end of the range: it was last seen within three times its
    /// usual interval of the end. That interval is the average between its first and its last
    /// occurrence; what happened once has none. False if the times are known to the hour only.
    pub fn is_going_on(&self, axis: &Axis) -> bool {
        if self.is_by_hour {
            return false;
        }
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return false;
        };
        let Some(intervals) = self.all.checked_sub(1).filter(|it| *it > 0 && first < last) else {
            return false;
        };
        let interval = (last.abs_diff(first) / intervals).max(INTERVAL_MIN);
        let end = axis.to.saturating_sub(1);
        last >= end || last.abs_diff(end) <= interval.saturating_mul(INTERVALS)
    }

    fn add(&mut self, occurrences: Occurrences, is_warning: bool, axis: &Axis) {
        let within = occurrences.between(axis.from, axis.to);
        self.are_parts_estimated |= axis.spread(&occurrences, &mut self.parts);
        self.is_estimated |= occurrences.is_estimated() && within < occurrences.count;
        self.occurrences = self.occurrences.saturating_add(within);
        if is_warning {
            self.warnings = self.warnings.saturating_add(within);
        }
        self.all = self.all.saturating_add(occurrences.count);
        self.first = Some(
            self.first
                .map_or(occurrences.first, |it| it.min(occurrences.first)),
        );
        self.last = self.last.max(Some(occurrences.last));
    }

    fn add_before(&mut self, before: u64) {
        self.before = self.before.saturating_add(before);
    }

    fn merge(&mut self, other: Self) {
        self.occurrences = self.occurrences.saturating_add(other.occurrences);
        self.warnings = self.warnings.saturating_add(other.warnings);
        self.before = self.before.saturating_add(other.before);
        self.events = self.events.saturating_add(other.events);
        self.first = match (self.first, other.first) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.last = self.last.max(other.last);
        self.is_by_hour |= other.is_by_hour;
        self.is_estimated |= other.is_estimated;
        self.is_before_estimated |= other.is_before_estimated;
        self.are_parts_estimated |= other.are_parts_estimated;
        for (sum, part) in self.parts.iter_mut().zip(other.parts) {
            *sum = sum.saturating_add(part);
        }
        self.all = self.all.saturating_add(other.all);
        self.objects.extend(other.objects);
    }
}

/// Rows by key.
///
/// ```
/// use tidings_core::occurrences::Occurrences;
/// use tidings_core::top::{Axis, Counted, Table};
///
/// let axis = Axis { from: 0, to: 60_000, parts: 2, is_until_now: false };
/// let mut table = Table::new(axis, false);
/// let occurrences = Occurrences { first: 10_000, last: 58_000, count: 13 };
/// table.add("BackOff", &Counted { occurrences, is_warning: true, object: "web-0" });
/// let (reason, row) = table.rows().remove(0);
/// assert_eq!((reason, row.occurrences, row.parts.as_slice()), ("BackOff", 13, &[5, 8][..]));
/// assert!(row.is_going_on(&axis));
/// ```
#[derive(Clone, Debug)]
pub struct Table<K> {
    axis: Axis,
    is_compared: bool,
    rows: HashMap<K, Row>,
    /// Everything together.
    pub total: Row,
}

impl<K: Hash + Eq + Ord> Table<K> {
    /// Makes an empty table; if it `is_compared`, with the range before.
    pub fn new(axis: Axis, is_compared: bool) -> Self {
        Self {
            axis,
            is_compared,
            rows: HashMap::default(),
            total: Row::of(&axis),
        }
    }

    /// Counts an event, if it happened in the range or in the one before.
    pub fn add(&mut self, key: K, event: &Counted<impl Hash>) {
        let axis = self.axis;
        let mut occurrences = event.occurrences;
        if axis.is_until_now {
            let now = axis.to.saturating_sub(1);
            occurrences.first = occurrences.first.min(now);
            occurrences.last = occurrences.last.min(now);
        }
        let (from, to) = axis.before();
        let before = if self.is_compared {
            occurrences.between(from, to)
        } else {
            0
        };
        let is_within = occurrences.between(axis.from, axis.to) > 0;
        if !is_within && before == 0 {
            return;
        }
        let is_assumed = occurrences.is_estimated() && before < occurrences.count;
        let object = FixedState::default().hash_one(&event.object);
        for row in [
            self.rows.entry(key).or_insert_with(|| Row::of(&axis)),
            &mut self.total,
        ] {
            row.add_before(before);
            row.is_before_estimated |= is_assumed && before > 0;
            if is_within {
                row.events += 1;
                row.objects.insert(object);
                row.add(occurrences, event.is_warning, &axis);
            }
        }
    }

    /// Counts events of one type that were last seen within an hour, each once. Of an hour that is
    /// not wholly in the range, the range gets its part.
    pub fn count(&mut self, key: K, hour: i64, events: u64, is_warning: bool) {
        let axis = self.axis;
        // Nothing was counted after now.
        let over = hour.saturating_add(HOUR);
        let over = if axis.is_until_now {
            over.min(axis.to)
        } else {
            over
        };
        let whole = u128::from(over.abs_diff(hour)).max(1);
        let part = |from: i64, to: i64| {
            let (begin, end) = (hour.max(from), hour.saturating_add(HOUR).min(to));
            let length = u64::try_from(end.saturating_sub(begin)).unwrap_or(0);
            let part = (u128::from(events) * u128::from(length) + whole / 2) / whole;
            (u64::try_from(part).unwrap_or(u64::MAX), begin, end)
        };
        let (within, begin, end) = part(axis.from, axis.to);
        let (from, to) = axis.before();
        let before = if self.is_compared {
            // Together they have no event twice.
            part(from, to).0.min(events.saturating_sub(within))
        } else {
            0
        };
        let is_whole = axis.from <= hour && over <= axis.to || from <= hour && over <= to;
        if within == 0 && before == 0 {
            return;
        }
        for row in [
            self.rows.entry(key).or_insert_with(|| Row::of(&axis)),
            &mut self.total,
        ] {
            row.is_by_hour = true;
            row.are_parts_estimated = true;
            row.is_estimated |= !is_whole && within > 0;
            row.is_before_estimated |= !is_whole && before > 0;
            row.add_before(before);
            if within > 0 {
                row.events = row.events.saturating_add(within);
                row.add(Occurrences::within(begin, end, within), is_warning, &axis);
                row.first = Some(row.first.map_or(begin, |first| first.min(begin)));
                row.last = row.last.max(Some(end.saturating_sub(1)));
            }
        }
    }

    /// Changes the keys. Rows that get the same key become one.
    pub fn renamed<J: Hash + Eq + Ord>(self, name: impl Fn(K) -> J) -> Table<J> {
        let mut rows: HashMap<J, Row> = HashMap::default();
        for (key, row) in self.rows {
            let known = rows.entry(name(key)).or_insert_with(|| Row::of(&self.axis));
            known.merge(row);
        }
        Table {
            axis: self.axis,
            is_compared: self.is_compared,
            rows,
            total: self.total,
        }
    }

    /// The keys of all rows, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    /// The rows, those with the most occurrences first. If they are compared, the new ones come
    /// before all others, and those that are gone after them.
    pub fn rows(self) -> Vec<(K, Row)> {
        let mut rows: Vec<_> = self.rows.into_iter().collect();
        rows.sort_by(|(one_key, one), (other_key, other)| {
            let order = |row: &Row| {
                let kind = match (self.is_compared, row.is_new(), row.is_gone()) {
                    (true, true, _) => 0,
                    (true, _, true) => 1,
                    _ => 2,
                };
                (
                    kind,
                    Reverse(row.occurrences.max(row.before * u64::from(kind == 1))),
                    Reverse(row.last),
                )
            };
            order(one)
                .cmp(&order(other))
                .then_with(|| one_key.cmp(other_key))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const AXIS: Axis = Axis {
        from: 1000,
        to: 4000,
        parts: 3,
        is_until_now: false,
    };

    fn counted(first: i64, last: i64, count: u64) -> Counted<&'static str> {
        Counted {
            occurrences: Occurrences { first, last, count },
            is_warning: false,
            object: "web-0",
        }
    }

    #[test]
    fn what_goes_on_was_last_seen_within_its_intervals() {
        let axis = Axis {
            from: 0,
            to: 3_600_001,
            parts: 1,
            is_until_now: false,
        };
        let going = |first, last, count| {
            let mut table = Table::new(axis, false);
            table.add("a", &counted(first, last, count));
            table.rows().iter().all(|(_, row)| row.is_going_on(&axis))
        };
        for ((first, last, count), expected) in [
            ((0, 3_420_000, 58), true),
            ((0, 3_420_000, 59), false),
            // The shortest interval is a second.
            ((3_596_000, 3_597_000, 500), true),
            ((3_595_000, 3_596_000, 500), false),
            // What happened once has no interval.
            ((3_600_000, 3_600_000, 1), false),
            ((3_600_000, 3_600_000, 9), false),
            // It was seen again after the range.
            ((0, 7_200_000, 3), true),
        ] {
            assert_eq!(
                going(first, last, count),
                expected,
                "{first} {last} {count}"
            );
        }
    }

    #[test]
    fn new_rows_come_first_and_gone_ones_after_them() {
        let mut table = Table::new(AXIS, true);
        for (key, first, last, count) in [
            ("gone", -900, -800, 50),
            ("many", -1000, 3999, 100),
            ("new", 1500, 1500, 1),
            ("newer", 1500, 1600, 2),
            ("older", -9000, -8000, 2),
        ] {
            table.add(key, &counted(first, last, count));
        }
        let rows = table.rows();
        let rows = rows
            .iter()
            .map(|(key, row)| (*key, row.occurrences, row.before));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                ("newer", 2, 0),
                ("new", 1, 0),
                ("gone", 0, 50),
                ("many", 60, 40)
            ]
        );
    }

    #[test]
    fn hours_count_for_their_part_of_the_range() {
        let axis = Axis {
            from: HOUR / 2,
            to: 3 * HOUR,
            parts: 5,
            is_until_now: true,
        };
        let mut table = Table::new(axis, true);
        table.count("a", 0, 100, false);
        table.count("a", 2 * HOUR, 7, false);
        table.count("a", -HOUR, 9, false);
        table.count("b", 5 * HOUR, 9, false);
        let rows = table.rows();
        let (_, row) = &rows[0];
        assert_eq!((rows.len(), row.occurrences, row.before), (1, 57, 59));
        assert_eq!(row.parts, [50, 0, 0, 4, 3]);
        assert_eq!((row.first, row.last), (Some(HOUR / 2), Some(3 * HOUR - 1)));
        assert!(row.is_by_hour && row.is_estimated && row.objects().is_none());
        // The hour that is not over yet counts as a whole.
        let axis = Axis {
            to: 2 * HOUR + HOUR / 4,
            ..axis
        };
        let mut table = Table::new(axis, false);
        table.count("a", 2 * HOUR, 8, false);
        let row = &table.rows()[0].1;
        assert!(row.occurrences == 8 && !row.is_estimated);
    }

    #[test]
    fn until_now_a_clock_that_is_ahead_counts() {
        for (is_until_now, expected) in [(true, Some(&[0, 0, 40][..])), (false, None)] {
            let mut table = Table::new(
                Axis {
                    is_until_now,
                    ..AXIS
                },
                false,
            );
            table.add("a", &counted(5000, 6000, 40));
            let rows = table.rows();
            assert_eq!(rows.first().map(|(_, row)| &row.parts[..]), expected);
        }
    }

    proptest! {
        /// What a table says is what a scan of each single occurrence says.
        #[test]
        fn a_table_is_a_full_scan(
            events in prop::collection::vec(
                (0_u8..4, 0_u8..5, -3000_i64..6000, 0_i64..5000, 1_u64..30, any::<bool>()), 0..40),
            parts in 1_usize..9,
            is_until_now in any::<bool>(),
            is_compared in any::<bool>(),
        ) {
            let axis = Axis { parts, is_until_now, ..AXIS };
            let mut table = Table::new(axis, is_compared);
            let mut expected: BTreeMap<u8, (Row, BTreeSet<u8>)> = BTreeMap::new();
            for (key, object, first, length, count, is_warning) in events {
                let occurrences = Occurrences { first, last: first + length, count };
                table.add(key, &Counted { occurrences, is_warning, object });
                let now = if is_until_now { axis.to - 1 } else { i64::MAX };
                let (first, last) = (first.min(now), (first + length).min(now));
                let at = |number: u64| {
                    if count == 1 {
                        return last;
                    }
                    let (length, number) = (last - first, i64::try_from(number).unwrap());
                    first + (length * number).div_euclid(i64::try_from(count - 1).unwrap())
                };
                let times: Vec<i64> = (0..count).map(at).collect();
                let is_in = |from: i64, to: i64| {
                    times.iter().filter(move |at| (from..to).contains(at)).count() as u64
                };
                let (within, before) = (is_in(1000, 4000), is_in(-2000, 1000));
                let before = if is_compared { before } else { 0 };
                if within + before == 0 {
                    continue;
                }
                let (row, objects) = expected.entry(key).or_default();
                row.before += before;
                let is_assumed = |number: u64| {
                    count > 2 && first < last && (1..count).contains(&number)
                };
                row.is_estimated |= is_assumed(within);
                row.is_before_estimated |= is_assumed(before);
                if within > 0 {
                    row.occurrences += within;
                    row.warnings += if is_warning { within } else { 0 };
                    row.events += 1;
                    row.first = Some(row.first.map_or(first, |it| it.min(first)));
                    row.last = row.last.max(Some(last));
                    objects.insert(object);
                }
            }
            let found = table.rows();
            prop_assert_eq!(found.len(), expected.len());
            for (key, row) in found {
                let (expected, objects) = &expected[&key];
                let parts: u64 = row.parts.iter().sum();
                prop_assert_eq!(parts, row.occurrences);
                prop_assert_eq!(row.objects(), Some(objects.len()));
                prop_assert_eq!(
                    (row.before, row.occurrences, row.warnings, row.events, row.first, row.last),
                    (expected.before, expected.occurrences, expected.warnings, expected.events,
                        expected.first, expected.last)
                );
                prop_assert_eq!(
                    (row.is_estimated, row.is_before_estimated),
                    (expected.is_estimated, expected.is_before_estimated)
                );
            }
        }
    }
}
