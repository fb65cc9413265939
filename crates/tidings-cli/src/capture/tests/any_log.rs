//! Logs of programs, put together by chance: each event in one is read, and no other.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::logs::batch;
use super::{Found, found, line, list, pretty, value};

/// The name of an event whose end is missing. Another line may end it.
const CUT: &str = "cut";

/// Lines without events.
const OTHERS: [&str; 23] = [
    "starting\n",
    "Config: loaded\n",
    "INFO:     Started server process [1]\n",
    "event: started\n",
    "Received:\n  a: b\n",
    "  indented: text\n",
    "W0101 x.go:1] \"y\" z=\"{\"\n",
    "W0101 x.go:1] \"y\" {\n",
    "[W] slow {x}\n",
    "{\"level\":\"info\",\"msg\":\"started {\"}\n",
    "{\"level\":\"info\",\"msg\":\"cut\n",
    "a: {b: c}\n",
    "- item\n",
    "# comment\n",
    "---\n",
    "\n",
    "\tat java.lang.Thread.run\n",
    "message: \"x {\"\n",
    "[1, 2]\n",
    "reason: text of regarding\n",
    "\"quoted\": text\n",
    "time=x msg=\"involvedObject {}\"\n",
    "{\"involvedObject\":\"x\",\"a\":\"{\\\"b\\\":1}\"}\n",
];

/// Texts before the first line of an event.
const BEFORE_FIRST: [&str; 12] = [
    "",
    "I0101 got ",
    "router: ",
    "event: ",
    "object: ",
    "message: ",
    "INFO:  got event ",
    "  got event: ",
    "- ",
    "msg=",
    "[router] ",
    "[1/2] a {b} ",
];

/// Texts before each line of an event.
const BEFORE_EACH: [&str; 4] = [
    "2026-01-01T00:00:00.1Z stdout F ",
    "2026-01-01T00:00:00.1Z ",
    "[pod/a/b] ",
    "web-1  | ",
];

/// A choice by chance.
type Index = prop::sample::Index;

/// The number of forms.
const FORMS: u8 = 15;

/// A text of one of the forms with events of these names, and how many of them it has.
fn text_of(form: u8, cut: Index, names: [&str; 2]) -> (String, usize) {
    let [first, second] = names.map(value);
    let text = |value: &Value| Value::from(value.to_string());
    let (json, count) = match form {
        0 => (first, 1),
        1 => (json!({"type": "ADDED", "object": first}), 1),
        2 => (
            json!({"verb": "UPDATED", "event": first, "old_event": second}),
            1,
        ),
        3 => (
            json!({"log": format!("got {first}\n"), "stream": "stdout"}),
            1,
        ),
        4 => (json!({"message": text(&first), "level": "info"}), 1),
        5 => (json!([first, second]), 2),
        6 => (batch(&[first, second]), 2),
        7 => (batch(&[text(&first), second]), 2),
        8 => (
            json!({"a": [{"b": {"event": first}}, [1, {"c": second}]]}),
            2,
        ),
        9 => {
            let other = json!({"kind": "Pod", "apiVersion": "v1", "x": text(&second)});
            let items = json!([{"b": {"event": text(&first)}}, [1, {"c": text(&second)}], other]);
            (json!({"a": items}), 2)
        }
        10 => return (format!("body={} x=1", text(&first)), 1),
        11 => return (pretty(&first), 1),
        12 => return (pretty(&list(&names)), 2),
        13 => {
            let text = line(CUT);
            return (text[..=cut.index(text.len() - 1)].to_owned(), 0);
        }
        _ => {
            let text = pretty(&value(CUT));
            let lines: Vec<_> = text.lines().collect();
            return (lines[..=cut.index(lines.len() - 1)].join("\n"), 0);
        }
    };
    (json.to_string(), count)
}

/// The lines of a text with other text before the first or each of them.
fn lines_of(text: &str, before: Index) -> String {
    let before = before.index(BEFORE_FIRST.len() + BEFORE_EACH.len());
    let of_first = BEFORE_FIRST.get(before).copied();
    let of_each = BEFORE_EACH.get(before.wrapping_sub(BEFORE_FIRST.len()));
    let lines = text.lines().enumerate().map(|(number, line)| {
        let before = match (of_first, of_each) {
            (Some(before), _) if number == 0 => before,
            (_, Some(before)) => before,
            _ => "",
        };
        format!("{before}{line}\n")
    });
    lines.collect()
}

proptest! {
    #[test]
    fn every_event_of_a_log_is_read(pieces in proptest::collection::vec(
        (0..FORMS, any::<[Index; 2]>(), proptest::collection::vec(prop::sample::select(&OTHERS), 0..3)),
        1..6,
    )) {
        let (mut text, mut expected) = (String::new(), Vec::new());
        for (number, (form, [cut, before], others)) in pieces.into_iter().enumerate() {
            let names = ["a", "b"].map(|name| format!("{name}{number}"));
            let (events, count) = text_of(form, cut, names.each_ref().map(|name| &**name));
            text.extend(others);
            text.push_str(&lines_of(&events, before));
            expected.extend(names.into_iter().take(count));
        }
        let mut read = Vec::new();
        for found in found(text.as_bytes()) {
            if let Found::Record(record) = found && let Ok(event) = record.event {
                let body = Value::Object(event.body);
                prop_assert_eq!(&body, &value(&event.name), "from {}", text);
                read.extend(Some(event.name).filter(|name| name != CUT));
            }
        }
        expected.sort();
        read.sort();
        prop_assert_eq!(read, expected, "from {}", text);
    }
}
