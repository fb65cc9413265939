//! Marks of a view: when something happened to an object, as a start and an end.
//!
//! Events of one lane, reason and type become one mark if they are closer than the view can
//! resolve. If there are still too many marks, the resolution is reduced. Warnings never share a
//! mark with other events.

use foldhash::HashMap;
use serde::Serialize;

use super::seen::Seen;

/// Parts of the range that a view can resolve.
pub(crate) const PARTS: i64 = 1000;
/// How often the resolution is halved at most, until the whole range is one part.
const COARSER_MAX: u32 = 11;

/// One mark in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) lane: usize,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) warning: bool,
    pub(crate) occurrences: u64,
    pub(crate) events: u64,
    /// The index of its reason; if it has several, of its first event's reason.
    pub(crate) reason: usize,
    /// The index of its event, if it has only one.
    pub(crate) event: Option<usize>,
}

/// `[lane, from, to, warning, occurrences, events, reason, event]`, with -1 for no event.
impl Serialize for Mark {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.event.and_then(|event| i64::try_from(event).ok());
        let mark = (
            self.lane,
            self.from,
            self.to,
            u8::from(self.warning),
            self.occurrences,
            self.events,
            self.reason,
            event.unwrap_or(-1),
        );
        mark.serialize(serializer)
    }
}

/// The marks of a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks<'a> {
    /// The marks, sorted by lane and time.
    pub(crate) drawn: Vec<Mark>,
    /// The reasons of the marks.
    pub(crate) reasons: Vec<&'a str>,
    /// Whether marks may stand for events of several reasons: there were too many marks.
    pub(crate) mixed: bool,
    /// The number of events without a mark.
    pub(crate) more: u64,
}

/// Makes the marks of events, each with its lane or none, in a time range: at most `max`.
pub(crate) fn marks<'a>(
    events: &[Seen<'a>],
    lanes: &[Option<usize>],
    (from, to): (i64, i64),
    max: usize,
) -> Marks<'a> {
    let mut reasons = Reasons::default();
    let mut single = Vec::with_capacity(events.len());
    for (at, (event, lane)) in events.iter().zip(lanes).enumerate() {
        let Some(lane) = *lane else { continue };
        let brief = &event.brief;
        single.push(Mark {
            lane,
            from: brief.first,
            to: brief.last,
            warning: event.is_warning(),
            occurrences: brief.count,
            events: event.events,
            reason: reasons.number(brief.reason),
            event: Some(at).filter(|_| event.events == 1),
        });
    }
    single.sort_unstable_by_key(|mark| (mark.lane, mark.warning, mark.reason, mark.from, mark.to));
    let part = (to.saturating_sub(from) / PARTS).max(1);
    let mut marks = single;
    for step in 0..COARSER_MAX {
        let part = part.saturating_mul(1 << step);
        marks = merged(marks, |a, b| {
            a.reason == b.reason && b.from.saturating_sub(a.to) < part
        });
        if marks.len() <= max {
            break;
        }
    }
    let mixed = marks.len() > max;
    if mixed {
        marks.sort_unstable_by_key(|mark| (mark.lane, mark.warning, mark.from, mark.to));
        marks = merged(marks, |_, _| true);
    }
    // At most two marks for each lane are left, so this happens only if there are more lanes than
    // marks allowed.
    if marks.len() > max {
        marks.sort_unstable_by_key(|mark| (!mark.warning, mark.lane));
        marks.truncate(max);
    }
    let shown: u64 = marks.iter().map(|mark| mark.events).sum();
    marks.sort_unstable_by_key(|mark| (mark.lane, mark.from, mark.to, mark.reason));
    Marks {
        drawn: marks,
        reasons: reasons.names,
        mixed,
        more: events.iter().map(|event| event.events).sum::<u64>() - shown,
    }
}

/// Merges neighbouring marks of one lane and type that `are_one`.
fn merged(marks: Vec<Mark>, are_one: impl Fn(&Mark, &Mark) -> bool) -> Vec<Mark> {
    let mut merged: Vec<Mark> = Vec::with_capacity(marks.len());
    for mark in marks {
        match merged.last_mut() {
            Some(last)
                if last.lane == mark.lane
                    && last.warning == mark.warning
                    && are_one(last, &mark) =>
            {
                last.from = last.from.min(mark.from);
                last.to = last.to.max(mark.to);
                last.occurrences = last.occurrences.saturating_add(mark.occurrences);
                last.events += mark.events;
                last.event = None;
            }
            _ => merged.push(mark),
        }
    }
    merged
}

/// The reasons in the order in which they occur.
#[derive(Default)]
struct Reasons<'a> {
    names: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Reasons<'a> {
    fn number(&mut self, name: &'a str) -> usize {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Case, seen};
    use super::super::lanes::{Group, Sort, lanes};
    use super::*;

    fn of(cases: &[Case], range: (i64, i64), max: usize) -> Marks<'_> {
        let events = seen(cases);
        let lanes = lanes(&events, (Sort::Trouble, Group::Owner), 0, 300);
        marks(&events, &lanes.of_events, range, max)
    }

    #[test]
    fn what_cannot_be_told_apart_is_one_mark() {
        // A thousandth of the range is ten seconds.
        let range = (0, 10_000_000);
        let cases = [
            Case::new("Pod", "web-0", "BackOff", 100)
                .warning()
                .times(7, 40),
            Case::new("Pod", "web-0", "BackOff", 109).warning(),
            Case::new("Pod", "web-0", "BackOff", 119).warning(),
            Case::new("Pod", "web-0", "Pulled", 109),
            Case::new("Pod", "web-0", "BackOff", 109),
            Case::new("Pod", "cache-1", "BackOff", 109).warning(),
        ];
        let found = of(&cases, range, 2000);
        let text = serde_json::to_string(&found.drawn).unwrap();
        assert_eq!(
            text,
            "[[0,40000,109000,1,8,2,0,-1],[0,109000,109000,0,1,1,0,4],[0,109000,109000,0,1,1,1,3],\
             [0,119000,119000,1,1,1,0,2],[1,109000,109000,1,1,1,0,5]]"
        );
        assert_eq!(found.reasons, ["BackOff", "Pulled"]);
        assert_eq!(found.more, 0);
    }

    #[test]
    fn marks_are_bounded_and_stand_for_every_event() {
        let mut cases = Vec::new();
        for at in 0..3000 {
            let name = format!("web-{}", at % 30);
            let reason = format!("R{}", at % 7);
            let case = Case::new("Pod", &name, &reason, at * 97 % 3600);
            cases.push(if at % 7 == 0 { case.warning() } else { case });
        }
        for max in [5000, 2000, 300, 60] {
            let found = of(&cases, (0, 3_600_000), max);
            assert!(found.drawn.len() <= max, "{max}");
            let events: u64 = found.drawn.iter().map(|mark| mark.events).sum();
            let warnings = found.drawn.iter().filter(|mark| mark.warning);
            assert_eq!((events, found.more), (3000, 0), "{max}");
            assert_eq!(warnings.map(|mark| mark.events).sum::<u64>(), 429);
            // Each of the 30 lanes has 7 reasons: a mark of each, or marks of several reasons.
            assert_eq!(found.mixed, max < 210, "{max}");
        }
        // There is no room even for one mark of each lane and type, so warnings are kept.
        let found = of(&cases, (0, 3_600_000), 30);
        assert!(found.drawn.iter().all(|mark| mark.warning));
        assert_eq!((found.drawn.len(), found.more), (30, 2571));
    }

    #[test]
    fn a_mark_says_when_it_began_and_ended_though_the_picture_does_not_reach_there() {
        let cases = [Case::new("Pod", "web-0", "BackOff", 5000).times(9, 1)];
        let found = of(&cases, (1_000_000, 2_000_000), 10);
        let mark = &found.drawn[0];
        assert_eq!((mark.from, mark.to), (1000, 5_000_000));
        // Any range is accepted.
        for range in [(i64::MIN, i64::MAX), (0, 0), (i64::MAX, i64::MAX)] {
            assert_eq!(of(&cases, range, 10).drawn.len(), 1);
        }
    }
}
