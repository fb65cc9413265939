//! What is found in what: tables of cases, a matrix of damaged captures, and properties.

mod bundles;
mod forms;
mod matrix;
mod properties;

use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::{Found, read};

fn found(input: &[u8]) -> Vec<Found> {
    let mut all = Vec::new();
    read(input, &|_| {}, &mut |found| {
        all.push(found);
        ControlFlow::Continue(())
    });
    all
}

/// What was found, a line each: `place: namespace/name notes`, `place! reason` for an event that
/// cannot be read, `place!! reason` for an input, `= words` for an input without events.
fn summary(input: &[u8]) -> Vec<String> {
    found(input).into_iter().map(words).collect()
}

fn words(found: Found) -> String {
    match found {
        Found::Record(record) => match record.event {
            Ok(event) => {
                let notes: String = record
                    .notes
                    .iter()
                    .map(|note| format!(" {note:?}"))
                    .collect();
                format!(
                    "{}: {}/{}{notes}",
                    record.place, event.namespace, event.name
                )
            }
            Err(reason) => format!("{}! {reason}", record.place),
        },
        Found::Failed { place, why } => format!("{place}!! {why}"),
        Found::Nothing { what } => format!("= {what}"),
    }
}

fn check(input: impl AsRef<[u8]>, expected: &[&str]) {
    let input = input.as_ref();
    assert_eq!(
        summary(input),
        expected,
        "from {:?}",
        String::from_utf8_lossy(input)
    );
}

/// The only event of an input.
fn event(input: &[u8]) -> Value {
    let mut all = found(input);
    assert_eq!(all.len(), 1, "{all:?}");
    match all.pop() {
        Some(Found::Record(record)) => Value::Object(record.event.expect("an event").body),
        other => panic!("{other:?}"),
    }
}

/// An event as small as one can be.
fn value(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "n"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"}, "reason": "Pulled",
        "message": "a \"quoted\" {text}: [1]", "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}

fn line(name: &str) -> String {
    value(name).to_string()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON")
}

fn list(names: &[&str]) -> Value {
    let items: Vec<_> = names.iter().map(|name| value(name)).collect();
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// As kubectl prints it: the items of a list are no further to the right than its key.
fn yaml(value: &Value) -> String {
    fn write(value: &Value, indent: usize, out: &mut String) {
        let blank = " ".repeat(indent);
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push_str(&blank);
                    }
                    match value {
                        Value::Object(fields) if !fields.is_empty() => {
                            out.push_str(&format!("{name}:\n{blank}  "));
                            write(value, indent + 2, out);
                        }
                        Value::Array(items) if !items.is_empty() => {
                            out.push_str(&format!("{name}:\n"));
                            for item in items {
                                out.push_str(&format!("{blank}- "));
                                write(item, indent + 2, out);
                            }
                        }
                        value => out.push_str(&format!("{name}: {value}\n")),
                    }
                }
            }
            value => out.push_str(&format!("{value}\n")),
        }
    }
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}
