//! Describes an event or an object in one sentence.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::seen::Seen;
use super::words;

/// Maximum length of a message's part in a sentence, in characters.
const TEXT_MAX: usize = 120;
/// Maximum of reasons of an object that are counted by themselves.
const REASONS_MAX: usize = 100;
/// What happened again at least this often has a rhythm.
const OFTEN: i64 = 9;

/// What an event says, in one sentence: `back-off of nginx in web-0: 412 times in 2 h 10 min, last
/// 3 min ago, began 40 s after image nginx:1.29 was pulled`. `cause` is what matters most of what
/// changed before, and when it did. `began` is when similar events before it began.
pub(crate) fn of_event(
    event: &Seen<'_>,
    began: i64,
    cause: Option<(&Seen<'_>, i64)>,
    now: i64,
) -> String {
    let brief = &event.brief;
    let mut sentence = format!("{}: ", what(event));
    let is_repeated = brief.count > 1;
    if is_repeated {
        let over = words::long(brief.last.saturating_sub(brief.first));
        let times = words::many(brief.count, "time");
        let _ = write!(sentence, "{times} in {over}");
    }
    if began < brief.first {
        let earlier = words::long(brief.first.saturating_sub(began));
        let after = if is_repeated { " after" } else { "after" };
        let _ = write!(sentence, "{after} similar events of {earlier}");
    }
    if is_repeated || began < brief.first {
        sentence += ", last ";
    }
    sentence += &ago(brief.last, now);
    if let Some((cause, at)) = cause {
        let distance = words::long(began.saturating_sub(at));
        let _ = write!(sentence, ", began {distance} after {}", told(cause));
    }
    sentence
}

/// What the events of one object say together: they are added one after the other, and not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) events: u64,
    pub(crate) warnings: u64,
    pub(crate) occurrences: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Whether some have it that are warnings, and the occurrences.
    reasons: BTreeMap<String, (bool, u64)>,
    /// Whether there are more reasons.
    has_more: bool,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            events: 0,
            warnings: 0,
            occurrences: 0,
            first: i64::MAX,
            last: i64::MIN,
            reasons: BTreeMap::new(),
            has_more: false,
        }
    }
}

impl Summary {
    pub(crate) fn add(&mut self, event: &Seen<'_>) {
        let brief = &event.brief;
        self.events += 1;
        self.warnings += u64::from(event.is_warning());
        self.occurrences = self.occurrences.saturating_add(brief.count);
        self.first = self.first.min(brief.first);
        self.last = self.last.max(brief.last);
        if !self.reasons.contains_key(brief.reason) {
            if self.reasons.len() >= REASONS_MAX {
                self.has_more = true;
                return;
            }
            self.reasons.insert(brief.reason.to_owned(), (false, 0));
        }
        if let Some(reason) = self.reasons.get_mut(brief.reason) {
            reason.0 |= event.is_warning();
            reason.1 = reason.1.saturating_add(brief.count);
        }
    }

    /// In one sentence: `web-0: 1 warning and 3 other events in 1 h 57 min, last 1 min ago: BackOff
    /// 412 times, Created, Pulled and 1 other reason`. If not all events were read, it says of how
    /// many of the last ones it is.
    pub(crate) fn sentence(&self, name: &str, is_whole: bool, now: i64) -> String {
        if self.events == 0 {
            return format!("{name}: no events in this time");
        }
        let mut ranked: Vec<_> = self.reasons.iter().collect();
        ranked.sort_by_key(|(_, (warning, count))| Reverse((*warning, *count)));
        let reasons = ranked
            .iter()
            .take(3)
            .map(|(reason, (_, count))| match count {
                1 => (*reason).clone(),
                count => format!("{reason} {count} times"),
            });
        let reasons: Vec<_> = reasons.collect();
        let more = match ranked.len() {
            _ if self.has_more => " and many other reasons".to_owned(),
            0..=3 => String::new(),
            all => format!(" and {}", words::many((all - 3) as u64, "other reason")),
        };
        let all = words::many(self.events, "event");
        let number = match (self.warnings, is_whole) {
            (0, true) => all,
            (0, false) => format!("the last {all}"),
            (warnings, true) => format!(
                "{} and {}",
                words::many(warnings, "warning"),
                words::many(self.events - warnings, "other event")
            ),
            (warnings, false) => {
                let of = words::many(warnings, "warning");
                format!("the last {all}, with {of},")
            }
        };
        let over = self.last.saturating_sub(self.first);
        let steps = i64::try_from(self.occurrences.saturating_sub(1)).unwrap_or(i64::MAX);
        let every = if steps >= OFTEN && over / steps >= 1000 {
            format!(", about every {}", words::long(over / steps))
        } else {
            String::new()
        };
        format!(
            "{name}: {number} in {}{every}, last {}: {}{more}",
            words::long(over),
            ago(self.last, now),
            reasons.join(", ")
        )
    }
}

fn ago(moment: i64, now: i64) -> String {
    format!("{} ago", words::long(now.saturating_sub(moment)))
}

/// What happened to the object.
fn what(event: &Seen<'_>) -> String {
    let brief = &event.brief;
    let container = container(brief.field_path);
    let object = brief.object;
    match (brief.reason, container) {
        ("BackOff", Some(container)) if brief.message.contains("pulling image") => {
            format!("back-off of the image of {container} in {object}")
        }
        ("BackOff", Some(container)) => format!("back-off of {container} in {object}"),
        (reason, Some(container)) => format!("{reason} of {container} in {object}"),
        (reason, None) => format!("{reason} of {} {object}", brief.kind.to_lowercase()),
    }
}

/// The cause, in words that follow "after".
fn told(event: &Seen<'_>) -> String {
    let brief = &event.brief;
    match brief.reason {
        "Pulled" | "Pulling" => match quoted(brief.message) {
            Some(image) => format!("image {image} was pulled"),
            None => format!("an image of {} was pulled", brief.object),
        },
        "Scheduled" => format!("{} was scheduled", brief.object),
        "ScalingReplicaSet" => lower(&short(brief.message)),
        "Killing" => format!("{} was stopped", brief.object),
        "Started" => match container(brief.field_path) {
            Some(container) => format!("{container} was started"),
            None => format!("a start of {}", brief.object),
        },
        reason => format!("{reason} of {} {}", brief.kind.to_lowercase(), brief.object),
    }
}

/// The container that a field path names.
fn container(field_path: &str) -> Option<&str> {
    let (_, rest) = field_path.split_once('{')?;
    rest.strip_suffix('}').filter(|name| !name.is_empty())
}

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    let (quoted, _) = rest.split_once('"')?;
    (!quoted.is_empty() && quoted.len() <= TEXT_MAX).then_some(quoted)
}

fn short(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(TEXT_MAX).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

fn lower(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cases::{Case, seen};
    use super::*;

    #[test]
    fn an_event_in_one_sentence() {
        let back_off = || {
            Case::new("Pod", "web-0", "BackOff", 8800)
                .message("Back-off restarting failed container nginx in pod web-0")
                .container("nginx")
                .times(412, 1000)
                .warning()
        };
        let pulled = Case::new("Pod", "web-0", "Pulled", 960)
            .message("Successfully pulled image \"nginx:1.29\" in 2.1s");
        let scaled = Case::new("Deployment", "web", "ScalingReplicaSet", 940)
            .message("Scaled up replica set web-5d4f8c7b9 to 3");
        let ready = Case::new("Node", "node-1", "NodeReady", 5000);
        for (event, cause, expected) in [
            (
                back_off(),
                Some(pulled),
                "back-off of nginx in web-0: 412 times in 2 h 10 min, last 3 min 20 s ago, \
                 began 40 s after image nginx:1.29 was pulled",
            ),
            (
                back_off().message("Back-off pulling image \"nginx:1.2.9\""),
                Some(scaled),
                "back-off of the image of nginx in web-0: 412 times in 2 h 10 min, last 3 min \
                 20 s ago, began 1 min after scaled up replica set web-5d4f8c7b9 to 3",
            ),
            (
                ready.clone(),
                None,
                "NodeReady of node node-1: 1 h 6 min ago",
            ),
            (
                back_off(),
                // It became ready again since.
                Some(ready.times(2, 970)),
                "back-off of nginx in web-0: 412 times in 2 h 10 min, last 3 min 20 s ago, \
                 began 30 s after NodeReady of node node-1",
            ),
        ] {
            let cases: Vec<_> = std::iter::once(event).chain(cause).collect();
            let events = seen(&cases);
            let cause = events.get(1);
            let cause = cause.map(|cause| (cause, cause.brief.first));
            let began = events[0].brief.first;
            assert_eq!(of_event(&events[0], began, cause, 9_000_000), expected);
        }
        for (event, expected) in [
            (
                back_off(),
                "back-off of nginx in web-0: 412 times in 2 h 10 min after similar events of \
                 5 min, last 3 min 20 s ago",
            ),
            (
                Case::new("Pod", "web-0", "Unhealthy", 1000),
                "Unhealthy of pod web-0: after similar events of 5 min, last 2 h 13 min ago",
            ),
        ] {
            let cases = [event];
            let found = of_event(&seen(&cases)[0], 700_000, None, 9_000_000);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_object_in_one_sentence() {
        let cases = [
            Case::new("Pod", "web-0", "BackOff", 8000)
                .times(412, 1000)
                .warning(),
            Case::new("Pod", "web-0", "Pulled", 960),
            Case::new("Pod", "web-0", "Created", 961),
            Case::new("Pod", "web-0", "Started", 962),
        ];
        let told = |cases: &[Case], is_whole| {
            let mut summary = Summary::default();
            for event in seen(cases) {
                summary.add(&event);
            }
            summary.sentence("web-0", is_whole, 8_060_000)
        };
        assert_eq!(
            told(&cases, true),
            "web-0: 1 warning and 3 other events in 1 h 57 min, about every 17 s, last 1 min ago: \
             BackOff 412 times, Created, Pulled and 1 other reason"
        );
        assert_eq!(
            told(&cases[1..], true),
            "web-0: 3 events in 2 s, last 1 h 58 min ago: Created, Pulled, Started"
        );
        assert_eq!(
            told(&cases[..2], false),
            "web-0: the last 2 events, with 1 warning, in 1 h 57 min, about every 17 s, last \
             1 min ago: BackOff 412 times, Pulled"
        );
        assert_eq!(told(&[], true), "web-0: no events in this time");
        // Whoever writes events chooses their reasons.
        let reasons = (0..200).map(|at| Case::new("Pod", "web-0", &format!("R{at}"), 900));
        let reasons: Vec<_> = reasons.collect();
        assert!(told(&reasons, true).ends_with("R0, R1, R10 and many other reasons"));
    }

    proptest! {
        /// In parts or at once, in any order, what is said is of all events.
        #[test]
        fn a_summary_is_of_all_events(
            events in prop::collection::vec((0_usize..6, 0_i64..500, 1_i32..50, any::<bool>()), 1..60),
        ) {
            let cases: Vec<Case> = events
                .iter()
                .map(|(reason, at, count, is_warning)| {
                    let case = Case::new("Pod", "web-0", &format!("R{reason}"), 1000 + at);
                    let case = case.times(*count, 1000 + at / 2);
                    if *is_warning { case.warning() } else { case }
                })
                .collect();
            let seen = seen(&cases);
            let (mut summary, mut reversed) = (Summary::default(), Summary::default());
            for (event, last) in seen.iter().zip(seen.iter().rev()) {
                summary.add(event);
                reversed.add(last);
            }
            prop_assert_eq!(&summary, &reversed);
            let counts = |reason: usize| -> u64 {
                let of_reason = events.iter().filter(|event| event.0 == reason);
                of_reason.map(|event| u64::try_from(event.2).unwrap()).sum()
            };
            let warnings = events.iter().filter(|event| event.3).count() as u64;
            prop_assert_eq!((summary.events, summary.warnings), (events.len() as u64, warnings));
            prop_assert_eq!(summary.occurrences, (0..6).map(counts).sum::<u64>());
            let first = events.iter().map(|event| 1000 + event.1 / 2).min();
            let last = events.iter().map(|event| 1000 + event.1).max();
            prop_assert_eq!((Some(summary.first), Some(summary.last)),
                (first.map(|first| first * 1000), last.map(|last| last * 1000)));
            for (reason, (_, count)) in &summary.reasons {
                prop_assert_eq!(*count, counts(reason[1..].parse().unwrap()));
            }
        }
    }
}
