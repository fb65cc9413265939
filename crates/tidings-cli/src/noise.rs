//! Which objects and reasons make the noise: occurrences counted and put in order, and when they
//! happened.
//!
//! An event says how often it was seen, when first and when last, but not when in between. Its
//! occurrences are taken to be spread evenly over that time; of a count of one, or where the times
//! are the same, they lie at the last. An event that was last seen within the span counts at least
//! once: one of its occurrences was then, however few would be there by their spread.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::event::Event;

/// The bars of a chart, from nothing to the most.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A span of time, in parts of the same length.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// The number of its parts.
    pub parts: usize,
}

/// A key of counted events.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// The occurrences within the span, and of them those in each part.
    pub occurrences: f64,
    /// Occurrences in each part.
    pub parts: Vec<f64>,
    /// Those of events that are warnings.
    pub warnings: f64,
    /// When last.
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
        if event.event_type() != "Normal" {
            self.warnings += occurrences;
        }
        for (sum, part) in self.parts.iter_mut().zip(parts) {
            *sum += part;
        }
        self.last_seen = self.last_seen.max(event.last_seen());
    }

    /// A small chart of the parts: the highest bar is the busiest part.
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

    /// Occurrences a minute.
    pub fn per_minute(&self, span: Span) -> f64 {
        let seconds = span.to.duration_since(span.from).as_secs_f64();
        if seconds > 0. {
            self.occurrences * 60. / seconds
        } else {
            0.
        }
    }
}

/// Counts the occurrences of events within a span, one event after the other: memory is taken for
/// what they are counted by.
#[derive(Clone, Debug)]
pub struct Noise {
    span: Span,
    /// All of it.
    pub total: Group,
    /// Its number of events.
    pub events: u64,
    /// Whether every event was read. Counts say nothing of types and repeats.
    pub is_read: bool,
    groups: HashMap<String, Group>,
}

impl Noise {
    /// Nothing yet.
    pub fn new(span: Span) -> Self {
        Self {
            span,
            total: Group::new("total".to_owned(), span.parts),
            events: 0,
            is_read: true,
            groups: HashMap::new(),
        }
    }

    /// Counts an event under a name, if it was seen within the span.
    pub fn add(&mut self, event: &Event, name: String) {
        let parts = spread(event, self.span);
        if parts.iter().all(|part| *part <= 0.) {
            return;
        }
        self.events += 1;
        self.total.add(event, &parts);
        let parts_count = self.span.parts;
        self.groups
            .entry(name)
            .or_insert_with_key(|name| Group::new(name.clone(), parts_count))
            .add(event, &parts);
    }

    /// Counts events that were last seen within an hour, each once, under a name.
    pub fn count(&mut self, name: &str, hour: Timestamp, events: u64) {
        self.is_read = false;
        // The hour that the span begins in counts as a whole.
        let at = hour.max(self.span.from);
        let whole = self.span.to.duration_since(self.span.from).as_secs_f64();
        let part = at.duration_since(self.span.from).as_secs_f64() / whole;
        let last = self.span.parts.saturating_sub(1);
        let part = ((part * self.span.parts as f64) as usize).min(last);
        let end = hour.checked_add(SignedDuration::from_hours(1));
        let end = end.unwrap_or(hour).min(self.span.to);
        let parts_count = self.span.parts;
        if !self.groups.contains_key(name) {
            let group = Group::new(name.to_owned(), parts_count);
            self.groups.insert(name.to_owned(), group);
        }
        let group = self.groups.get_mut(name);
        for group in group.into_iter().chain([&mut self.total]) {
            group.occurrences += events as f64;
            if let Some(sum) = group.parts.get_mut(part) {
                *sum += events as f64;
            }
            group.last_seen = group.last_seen.max(Some(end));
        }
        self.events += events;
    }

    /// What it is made of, the loudest first.
    pub fn groups(&self) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
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
    let (first, last) = (at(event.first_seen().unwrap_or(last)), at(last));
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
            // Half of it is before the span.
            event("Failed", "Warning", "04:30", "05:30", 80),
            event("Pulled", "Normal", "05:55", "05:55", 1),
            event("Old", "Normal", "03:00", "04:00", 1000),
            Event::new(json!({"reason": "Timeless", "count": 7})),
        ];
        let mut noise = Noise::new(span());
        for event in &events {
            noise.add(event, event.reason().to_owned());
        }
        let found: Vec<_> = noise
            .groups()
            .into_iter()
            .map(|group| (group.name.as_str(), group.occurrences, group.chart()))
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

    /// Of three in hours, one was at the last moment, whatever the spread of the others says.
    #[test]
    fn what_was_last_seen_within_the_span_counts_at_least_once() {
        let seen = |last: &str| {
            let event = event("Rare", "Warning", "00:15", last, 3);
            spread(&event, span()).iter().sum::<f64>()
        };
        for last in ["05:00", "05:15", "06:00"] {
            assert!((seen(last) - 1.).abs() < 1e-9, "{last}: {}", seen(last));
        }
        // After the span: what is known of it is no more than the spread.
        assert!((seen("06:15") - 0.5).abs() < 1e-9, "{}", seen("06:15"));
        assert!(seen("04:59") < 1e-9, "{}", seen("04:59"));
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
