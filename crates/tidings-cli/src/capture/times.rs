//! Normalizes an event's times to the API server's forms: `Time` in whole seconds, `MicroTime` with
//! six digits, both in UTC.

use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_core::wire::{Moment, write_micro_time, write_time};

use super::note::Note;

/// The time fields, and whether each has microseconds.
const TIMES: [(&str, bool); 3] = [
    ("firstTimestamp", false),
    ("lastTimestamp", false),
    ("eventTime", true),
];

/// Writes all times in the server's forms. An event whose only time is its creation gets that as
/// first and last time.
pub(super) fn normalize(
    event: &mut Map<String, Value>,
    created: Option<&Value>,
    notes: &mut Vec<Note>,
) {
    let mut has_time = false;
    for (field, is_micro) in TIMES {
        has_time |= normalize_field(event, field, is_micro, notes);
    }
    if let Some(Value::Object(series)) = event.get_mut("series") {
        has_time |= normalize_field(series, "lastObservedTime", true, notes);
    }
    if has_time {
        return;
    }
    match created.and_then(Value::as_str).and_then(moment) {
        Some(moment) => {
            for field in ["firstTimestamp", "lastTimestamp"] {
                event.insert(field.to_owned(), written(moment, false));
            }
            notes.push(Note::CreationTime);
        }
        None => notes.push(Note::NoTime),
    }
}

/// A creation time in the server's form, if it is a time.
pub(super) fn creation(created: &Value) -> Option<Value> {
    Some(written(moment(created.as_str()?)?, false))
}

/// Normalizes one field; returns whether it then has a time.
fn normalize_field(
    object: &mut Map<String, Value>,
    field: &str,
    is_micro: bool,
    notes: &mut Vec<Note>,
) -> bool {
    let note = |notes: &mut Vec<Note>, note| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    let Some(value) = object.get_mut(field) else {
        return false;
    };
    let text = match value {
        Value::Null => return false,
        Value::String(text) if text.is_empty() => {
            *value = Value::Null;
            return false;
        }
        Value::String(text) => text,
        _ => "",
    };
    let Some(moment) = moment(text) else {
        if !(text.starts_with("0001-01-01T00:00:00") || text.starts_with("0001-01-01 00:00:00")) {
            note(notes, Note::TimeLost);
        }
        *value = Value::Null;
        return false;
    };
    let kept = if is_micro { 1000 } else { 1_000_000_000 };
    if moment.nanos % kept != 0 {
        note(notes, Note::TimeCut);
    }
    *value = written(moment, is_micro);
    true
}

/// The moment of a text in RFC 3339 or as Go prints times; `None` for Go's zero time, which means
/// unset.
fn moment(text: &str) -> Option<Moment> {
    let printed = printed_by_go(text);
    let text = printed.as_deref().unwrap_or(text);
    let moment = match text.parse::<Timestamp>() {
        Ok(time) => Moment::from(time),
        Err(_) => last_day(text)?,
    };
    (!moment.is_zero()).then_some(moment)
}

/// The RFC 3339 form of a time as Go's `Time.String` prints it: `2026-01-02 03:04:05.7 +0100 CET`,
/// perhaps with a reading of the monotonic clock behind it.
fn printed_by_go(text: &str) -> Option<String> {
    let mut words = text.split(' ');
    let (day, time, offset) = (words.next()?, words.next()?, words.next()?);
    let is_offset = offset.len() == 5 && offset.starts_with(['+', '-']);
    let (hours, minutes) = offset.split_at_checked(3).filter(|_| is_offset)?;
    Some(format!("{day}T{time}{hours}:{minutes}"))
}

/// A moment on the last day of the year 9999, which is beyond jiff's timestamps.
fn last_day(text: &str) -> Option<Moment> {
    let time = text.strip_prefix("9999-12-3")?;
    let day: i64 = time.get(..1)?.parse().ok()?;
    let earlier = format!("9999-12-0{}{}", day + 1, time.get(1..)?);
    let earlier = Moment::from(earlier.parse::<Timestamp>().ok()?);
    Moment::new(earlier.seconds + 29 * 24 * 3600, earlier.nanos)
}

fn written(moment: Moment, is_micro: bool) -> Value {
    let mut quoted = Vec::new();
    if is_micro {
        write_micro_time(moment, &mut quoted);
    } else {
        write_time(moment, &mut quoted);
    }
    let text = String::from_utf8(quoted).unwrap_or_default();
    Value::String(text.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field, its text in a capture, the kept text, and what is said about it.
    type Case = (&'static str, Value, Value, &'static [Note]);

    fn check(cases: Vec<Case>) {
        for (field, given, kept, notes) in cases {
            let mut event = Map::from_iter([(field.to_owned(), given.clone())]);
            let mut said = Vec::new();
            normalize(&mut event, None, &mut said);
            assert_eq!(
                (&event[field], said.as_slice()),
                (&kept, notes),
                "{field} {given}"
            );
        }
    }

    #[test]
    fn a_moment_stays_what_it_was() {
        check(vec![
            (
                "firstTimestamp",
                json!("2026-01-02T03:04:05Z"),
                json!("2026-01-02T03:04:05Z"),
                &[],
            ),
            (
                "firstTimestamp",
                json!("2026-01-02T05:04:05+02:00"),
                json!("2026-01-02T03:04:05Z"),
                &[],
            ),
            (
                "lastTimestamp",
                json!("2026-01-02T03:04:05.7Z"),
                json!("2026-01-02T03:04:05Z"),
                &[Note::TimeCut],
            ),
            (
                "lastTimestamp",
                json!("9999-12-31T23:59:59Z"),
                json!("9999-12-31T23:59:59Z"),
                &[],
            ),
            (
                "eventTime",
                json!("9999-12-31T23:59:59.5Z"),
                json!("9999-12-31T23:59:59.500000Z"),
                &[],
            ),
            (
                "eventTime",
                json!("2026-01-02T03:04:05Z"),
                json!("2026-01-02T03:04:05.000000Z"),
                &[],
            ),
            (
                "eventTime",
                json!("2026-01-02T03:04:05.123Z"),
                json!("2026-01-02T03:04:05.123000Z"),
                &[],
            ),
            (
                "eventTime",
                json!("2026-01-02T03:04:05.123456789-01:30"),
                json!("2026-01-02T04:34:05.123456Z"),
                &[Note::TimeCut],
            ),
            (
                "eventTime",
                json!("1969-12-31T23:59:59.999999Z"),
                json!("1969-12-31T23:59:59.999999Z"),
                &[],
            ),
            // As Go prints times, in dumps of internal types.
            (
                "eventTime",
                json!("2026-01-02 03:04:05.123456 +0000 UTC"),
                json!("2026-01-02T03:04:05.123456Z"),
                &[],
            ),
            (
                "lastTimestamp",
                json!("2026-01-02 05:04:05 +0200 CEST m=+0.000000001"),
                json!("2026-01-02T03:04:05Z"),
                &[],
            ),
            (
                "lastTimestamp",
                json!("9999-12-31 23:59:59 +0000 UTC"),
                json!("9999-12-31T23:59:59Z"),
                &[],
            ),
        ]);
    }

    #[test]
    fn what_is_no_moment_is_lost() {
        check(vec![
            (
                "firstTimestamp",
                json!("0001-01-01 00:00:00 +0000 UTC"),
                json!(null),
                &[Note::NoTime],
            ),
            (
                "firstTimestamp",
                json!("2026-01-02 03:04:05 +00é0 UTC"),
                json!(null),
                &[Note::TimeLost, Note::NoTime],
            ),
            (
                "eventTime",
                json!("yesterday"),
                json!(null),
                &[Note::TimeLost, Note::NoTime],
            ),
            (
                "eventTime",
                json!(1_767_323_045),
                json!(null),
                &[Note::TimeLost, Note::NoTime],
            ),
            (
                "eventTime",
                json!("10000-01-01T00:00:00Z"),
                json!(null),
                &[Note::TimeLost, Note::NoTime],
            ),
            (
                "firstTimestamp",
                json!("0001-01-01T00:00:00Z"),
                json!(null),
                &[Note::NoTime],
            ),
            ("firstTimestamp", json!(""), json!(null), &[Note::NoTime]),
        ]);
    }

    #[test]
    fn the_creation_is_the_time_of_an_event_without_another() {
        let created = json!("2024-10-24T09:12:31Z");
        for (event, times, notes) in [
            (
                json!({}),
                json!({"firstTimestamp": created, "lastTimestamp": created}),
                vec![Note::CreationTime],
            ),
            (
                json!({"firstTimestamp": null, "lastTimestamp": null, "eventTime": "never"}),
                json!({"firstTimestamp": created, "lastTimestamp": created, "eventTime": null}),
                vec![Note::TimeLost, Note::CreationTime],
            ),
            (
                json!({"series": {"count": 2, "lastObservedTime": "2024-10-24T09:12:31Z"}}),
                json!({"series": {"count": 2, "lastObservedTime": "2024-10-24T09:12:31.000000Z"}}),
                vec![],
            ),
        ] {
            let Value::Object(mut event) = event else {
                unreachable!("it is an object")
            };
            let mut said = Vec::new();
            normalize(&mut event, Some(&created), &mut said);
            assert_eq!((Value::Object(event), said), (times, notes));
        }
    }
}
