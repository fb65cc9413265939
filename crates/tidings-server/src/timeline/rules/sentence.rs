//! Describes an event or an object in one sentence.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::seen::Seen;
use super::words;

/// Maximum length of a message's part in a sentence, in characters.
const TEXT_MAX: usize = 120;

/// Describes an event: `back-off of nginx in web-0: 412 times in 2 h 10 min, last 3 min ago, began
/// 40 s after image nginx:1.29 was pulled`. `cause` is the most likely cause among the earlier
/// changes.
pub(crate) fn of_event(event: &Seen<'_>, cause: Option<&Seen<'_>>, now: i64) -> String {
    let brief = &event.brief;
    let mut sentence = format!("{}: ", what(event));
    if brief.count > 1 {
        let over = words::long(brief.last.saturating_sub(brief.first));
        let times = words::many(brief.count, "time");
        let _ = write!(sentence, "{times} in {over}, last ");
    }
    sentence += &ago(brief.last, now);
    if let Some(cause) = cause {
        let happened = cause.brief.last.min(brief.first);
        let distance = words::long(brief.first.saturating_sub(happened));
        let _ = write!(sentence, ", began {distance} after {}", told(cause));
    }
    sentence
}

/// Describes the events of one object together.
pub(crate) fn of_object(name: &str, events: &[Seen<'_>], now: i64) -> String {
    let mut reasons: HashMap<&str, (bool, u64)> = HashMap::new();
    let (mut warnings, mut first, mut last) = (0, i64::MAX, i64::MIN);
    for event in events {
        let brief = &event.brief;
        warnings += u64::from(event.is_warning());
        first = first.min(brief.first);
        last = last.max(brief.last);
        let reason = reasons.entry(brief.reason).or_default();
        reason.0 |= event.is_warning();
        reason.1 = reason.1.saturating_add(brief.count);
    }
    if events.is_empty() {
        return format!("{name}: no events in this time");
    }
    let mut ranked: Vec<_> = reasons.into_iter().collect();
    ranked
        .sort_unstable_by_key(|(reason, (warning, count))| (Reverse((*warning, *count)), *reason));
    let reasons = ranked
        .iter()
        .take(3)
        .map(|(reason, (_, count))| match count {
            1 => (*reason).to_owned(),
            count => format!("{reason} {count} times"),
        });
    let reasons: Vec<_> = reasons.collect();
    let more = match ranked.len() {
        0..=3 => String::new(),
        all => format!(" and {}", words::many((all - 3) as u64, "other reason")),
    };
    let number = match warnings {
        0 => words::many(events.len() as u64, "event"),
        warnings => format!(
            "{} and {}",
            words::many(warnings, "warning"),
            words::many(events.len() as u64 - warnings, "other event")
        ),
    };
    format!(
        "{name}: {number} in {}, last {}: {}{more}",
        words::long(last.saturating_sub(first)),
        ago(last, now),
        reasons.join(", ")
    )
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
                Some(ready),
                "back-off of nginx in web-0: 412 times in 2 h 10 min, last 3 min 20 s ago, \
                 began less than 1 s after NodeReady of node node-1",
            ),
        ] {
            let cases: Vec<_> = std::iter::once(event).chain(cause).collect();
            let events = seen(&cases);
            assert_eq!(of_event(&events[0], events.get(1), 9_000_000), expected);
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
        let events = seen(&cases);
        assert_eq!(
            of_object("web-0", &events, 8_060_000),
            "web-0: 1 warning and 3 other events in 1 h 57 min, last 1 min ago: BackOff 412 times, \
             Created, Pulled and 1 other reason"
        );
        assert_eq!(
            of_object("web-0", &events[1..], 8_060_000),
            "web-0: 3 events in 2 s, last 1 h 58 min ago: Created, Pulled, Started"
        );
        assert_eq!(of_object("web-0", &[], 0), "web-0: no events in this time");
    }
}
