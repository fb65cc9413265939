//! Counts occurrences by object, reason and other keys, for `tidings top`.
//!
//! An event states how often it was seen, when first and when last, but not the times in between.
//! Its occurrences are assumed to be evenly spread over that time. With a count of one, or with
//! equal times, they are at the last time. An event last seen within the span counts at least once,
//! because one occurrence was at that time, whatever the spread gives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use crate::event::Event;

/// The bars of a chart, from lowest to highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A span of time that is divided into equal parts.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The start of the span.
    pub from: Timestamp,
    /// The end of the span.
    pub to: Timestamp,
    /// Whether the end is now. Then an event whose clock is ahead counts as seen now.
    pub is_until_now: bool,
    /// The number of parts.
    pub parts: usize,
}

/// The counts of one key, such as a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The key's name.
    pub name: String,
    /// Occurrences within the span.
    pub occurrences: f64,
    /// Occurrences in each part of the span.
    pub parts: Vec<f64>,
    /// Occurrences of warnings.
    pub warnings: f64,
    /// The last time an event of the key was seen.
    pub last_seen: Option<Timestamp>,
}

impl Group {
    fn new(name: String, parts: usize) -> Self {
        Self {
            name,
            occurrences: 0.,
            parts: vec![0.; parts],
            warnings: 0.,
            last_seen: None,
        }
    }

    fn add(&mut self, event: &Event, parts: &[f64]) {
        let occurrences: f64 = parts.iter().sum();
        self.occurrences += occurrences;
        if event.is_warning() {
            self.warnings += occurrences;
        }
        for (sum, part) in self.parts.iter_mut().zip(parts) {
            *sum += part;
        }
        self.last_seen = self.last_seen.max(event.last_seen());
    }

    fn merge(&mut self, other: &Self) {
        self.occurrences += other.occurrences;
        self.warnings += other.warnings;
        for (sum, part) in self.parts.iter_mut().zip(&other.parts) {
            *sum += part;
        }
        self.last_seen = self.last_seen.max(other.last_seen);
    }

    /// A chart with one bar for each part; the highest bar is the busiest part.
    pub fn chart(&self) -> String {
        let most = self.parts.iter().copied().fold(0., f64::max);
        let bar = |part: &f64| {
            if *part <= 0. {
                return ' ';
            }
            let level = (part / most * (BARS.len() - 1) as f64).round() as usize;
            BARS.get(level).copied().unwrap_or('█')
        };
        self.parts.iter().map(bar).collect()
    }

    /// Occurrences per minute.
    pub fn per_minute(&self, span: Span) -> f64 {
        let seconds = span.to.duration_since(span.from).as_secs_f64();
        if seconds > 0. {
            self.occurrences * 60. / seconds
        } else {
            0.
        }
    }
}

/// Counts the occurrences of events within a span. Events are counted one at a time; memory grows
/// only with the number of keys.
#[derive(Clone, Debug)]
pub struct Noise {
    span: Span,
    /// The counts of all events.
    pub total: Group,
    /// The number of events.
    pub events: u64,
    /// Whether every event was read. An archive's counts have no types and repeats.
    pub is_read: bool,
    /// Counts by name, and by the uid that distinguishes objects of one name.
    groups: HashMap<String, BTreeMap<String, Group>>,
}

impl Noise {
    /// Makes an empty count for a span.
    pub fn new(span: Span) -> Self {
        Self {
            span,
            total: Group::new("total".to_owned(), span.parts),
            events: 0,
            is_read: true,
            groups: HashMap::new(),
        }
    }

    /// Counts an event under a name, if it was seen within the span. A nonempty uid distinguishes
    /// objects of one name.
    pub fn add(&mut self, event: &Event, name: &str, uid: &str) {
        let parts = spread(event, self.span);
        if parts.iter().all(|part| *part <= 0.) {
            return;
        }
        self.events += 1;
        self.total.add(event, &parts);
        self.group(name, uid).add(event, &parts);
    }

    /// Counts events that were last seen within an hour, each once, under a name.
    pub fn count(&mut self, name: &str, hour: Timestamp, events: u64) {
        self.is_read = false;
        // The hour in which the span begins counts as a whole.
        let at = hour.max(self.span.from);
        let whole = self.span.to.duration_since(self.span.from).as_secs_f64();
        let part = at.duration_since(self.span.from).as_secs_f64() / whole;
        let last = self.span.parts.saturating_sub(1);
        let part = ((part * self.span.parts as f64) as usize).min(last);
        let end = hour.checked_add(SignedDuration::from_hours(1));
        let end = end.unwrap_or(hour).min(self.span.to);
        let mut counted = Group::new(name.to_owned(), self.span.parts);
        counted.occurrences = events as f64;
        if let Some(sum) = counted.parts.get_mut(part) {
            *sum = events as f64;
        }
        counted.last_seen = Some(end);
        self.total.merge(&counted);
        self.group(name, "").merge(&counted);
        self.events += events;
    }

    fn group(&mut self, name: &str, uid: &str) -> &mut Group {
        let parts = self.span.parts;
        let by_uid = self.groups.entry(name.to_owned()).or_default();
        by_uid
            .entry(uid.to_owned())
            .or_insert_with(|| Group::new(name.to_owned(), parts))
    }

    /// The counts by key, the highest first. Objects of one name are shown with the beginning of
    /// their uid.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::with_capacity(self.groups.len());
        for (name, by_uid) in &self.groups {
            let is_one = by_uid.keys().filter(|uid| !uid.is_empty()).count() <= 1;
            let mut whole = Group::new(name.clone(), self.span.parts);
            for (uid, group) in by_uid {
                if is_one {
                    whole.merge(group);
                } else {
                    let mut group = group.clone();
                    if !uid.is_empty() {
                        let begin = uid.get(..8).unwrap_or(uid);
                        group.name = format!("{name} (uid {begin}…)");
                    }
                    groups.push(group);
                }
            }
            if is_one {
                groups.push(whole);
            }
        }
        groups.sort_by(|one, other| {
            other
                .occurrences
                .total_cmp(&one.occurrences)
                .then_with(|| Reverse(one.last_seen).cmp(&Reverse(other.last_seen)))
                .then_with(|| one.name.cmp(&other.name))
        });
        groups
    }
}

/// The occurrences of one event in each part of a span.
fn spread(event: &Event, span: Span) -> Vec<f64> {
    let mut parts = vec![0.; span.parts];
    let Some(last) = event.last_seen() else {
        return parts;
    };
    let at = |time: Timestamp| time.duration_since(span.from).as_secs_f64();
    let length = at(span.to) / span.parts.max(1) as f64;
    if length <= 0. {
        return parts;
    }
    let count = event.count() as f64;
    let (mut first, mut last) = (at(event.first_seen().unwrap_or(last)), at(last));
    if span.is_until_now {
        (first, last) = (first.min(at(span.to)), last.min(at(span.to)));
    }
    let is_within = (0. ..=at(span.to)).contains(&last);
    let last_part = ((last / length) as usize).min(parts.len().saturating_sub(1));
    if count <= 1. || last <= first {
        if is_within && let Some(part) = parts.get_mut(last_part) {
            *part = count;
        }
        return parts;
    }
    for (index, part) in parts.iter_mut().enumerate() {
        let (from, to) = (index as f64 * length, (index + 1) as f64 * length);
        let overlap = (last.min(to) - first.max(from)).max(0.);
        *part = count * overlap / (last - first);
    }
    let sum: f64 = parts.iter().sum();
    if is_within
        && sum < 1.
        && let Some(part) = parts.get_mut(last_part)
    {
        *part += 1. - sum;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn span() -> Span {
        Span {
            from: "2026-03-04T05:00:00Z".parse().unwrap(),
            to: "2026-03-04T06:00:00Z".parse().unwrap(),
            is_until_now: false,
            parts: 6,
        }
    }

    fn event(reason: &str, event_type: &str, first: &str, last: &str, count: u64) -> Event {
        Event::new(json!({
            "reason": reason, "type": event_type, "count": count,
            "firstTimestamp": format!("2026-03-04T{first}:00Z"), "lastTimestamp": format!("2026-03-04T{last}:00Z"),
        }))
    }

    #[test]
    fn the_loudest_is_first() {
        let events = [
            event("BackOff", "Warning", "05:00", "06:00", 60),
            // Half of its occurrences are before the span.
            event("Failed", "Warning", "04:30", "05:30", 80),
            event("Pulled", "Normal", "05:55", "05:55", 1),
            event("Old", "Normal", "03:00", "04:00", 1000),
            Event::new(json!({"reason": "Timeless", "count": 7})),
        ];
        let mut noise = Noise::new(span());
        for event in &events {
            noise.add(event, event.reason(), "");
        }
        let groups = noise.groups();
        let found: Vec<_> = groups
            .iter()
            .map(|group| (&*group.name, group.occurrences, group.chart()))
            .collect();
        assert_eq!(
            found,
            [
                ("BackOff", 60., "██████".to_owned()),
                ("Failed", 40., "███   ".to_owned()),
                ("Pulled", 1., "     █".to_owned()),
            ]
        );
        assert_eq!(
            (noise.total.occurrences, noise.total.warnings, noise.events),
            (101., 100., 3)
        );
        assert!((noise.groups()[0].per_minute(span()) - 1.).abs() < 1e-9);
    }

    /// Of three occurrences within hours, one was at the last time, whatever the spread gives for
    /// the others.
    #[test]
    fn what_was_last_seen_within_the_span_counts_at_least_once() {
        let seen = |last: &str| {
            let event = event("Rare", "Warning", "00:15", last, 3);
            spread(&event, span()).iter().sum::<f64>()
        };
        for last in ["05:00", "05:15", "06:00"] {
            assert!((seen(last) - 1.).abs() < 1e-9, "{last}: {}", seen(last));
        }
        // The event was last seen after the span, so only the spread counts.
        assert!((seen("06:15") - 0.5).abs() < 1e-9, "{}", seen("06:15"));
        assert!(seen("04:59") < 1e-9, "{}", seen("04:59"));
    }

    #[test]
    fn until_now_an_event_of_a_clock_that_is_ahead_counts() {
        let now = Span {
            is_until_now: true,
            ..span()
        };
        for (first, last, count) in [("06:10", "06:10", 1), ("06:10", "06:20", 40)] {
            let ahead = event("Ahead", "Warning", first, last, count);
            assert_eq!(spread(&ahead, now), [0., 0., 0., 0., 0., count as f64]);
            assert_eq!(spread(&ahead, span()), [0.; 6]);
        }
    }

    #[test]
    fn things_of_one_name_are_told_apart_by_their_uid() {
        let seen = |uids: &[&str]| {
            let mut noise = Noise::new(span());
            for uid in uids {
                let event = event("Failed", "Error", "05:30", "05:30", 1);
                noise.add(&event, "Pod/redis-0", uid);
            }
            assert!(noise.total.warnings < 1e-9, "an Error is no warning");
            let mut found: Vec<_> = noise.groups();
            found.sort_by(|one, other| one.name.cmp(&other.name));
            let found = found.into_iter();
            found
                .map(|group| (group.name, group.occurrences))
                .collect::<Vec<_>>()
        };
        let named = |name: &str, count: f64| (name.to_owned(), count);
        assert_eq!(seen(&["", "aaaaaaaa-0000", ""]), [named("Pod/redis-0", 3.)]);
        assert_eq!(
            seen(&["aaaaaaaa-0000", "bbbbbbbb-0000", "", "bbbbbbbb-0000"]),
            [
                named("Pod/redis-0", 1.),
                named("Pod/redis-0 (uid aaaaaaaa…)", 1.),
                named("Pod/redis-0 (uid bbbbbbbb…)", 2.),
            ]
        );
    }

    proptest! {
        #[test]
        fn no_occurrence_is_counted_twice(first in 0_u32..120, length in 0_u32..240, count in 1_u64..10_000) {
            let time = |minutes: u32| {
                span().from.checked_add(jiff::SignedDuration::from_mins(i64::from(minutes) - 60)).unwrap().to_string()
            };
            let event = Event::new(json!({"count": count, "firstTimestamp": time(first), "lastTimestamp": time(first + length)}));
            let sum: f64 = spread(&event, span()).iter().sum();
            prop_assert!(sum <= count as f64 + 1e-6);
            let is_inside = first >= 60 && first + length <= 120;
            if is_inside {
                prop_assert!((sum - count as f64).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn counts_of_hours_are_in_the_part_they_begin_in() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let mut noise = Noise::new(Span {
            from: at("2026-03-01T00:30:00Z"),
            to: at("2026-03-05T00:30:00Z"),
            is_until_now: false,
            parts: 4,
        });
        for (hour, reason, events) in [
            ("2026-03-01T00:00:00Z", "BackOff", 1),
            ("2026-03-01T23:00:00Z", "BackOff", 2),
            ("2026-03-02T01:00:00Z", "BackOff", 3),
            ("2026-03-05T00:00:00Z", "BackOff", 4),
            ("2026-03-03T12:00:00Z", "Pulled", 50),
        ] {
            noise.count(reason, at(hour), events);
        }
        let groups = noise.groups();
        let found: Vec<_> = groups.iter().map(|it| (&*it.name, &it.parts[..])).collect();
        assert_eq!(
            found,
            [
                ("Pulled", &[0., 0., 50., 0.][..]),
                ("BackOff", &[3., 3., 0., 4.])
            ]
        );
        assert_eq!((noise.events, noise.total.occurrences), (60, 60.));
        assert_eq!(groups[1].last_seen, Some(at("2026-03-05T00:30:00Z")));
    }
}
