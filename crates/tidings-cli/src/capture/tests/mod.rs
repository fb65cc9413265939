//! Tests of captures: tables of cases, a matrix of damaged captures, and properties.

mod any_log;
mod between;
mod bundles;
mod forms;
mod logs;
mod matrix;
mod order;
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

/// The results, one a line: `place: namespace/name notes`, `place! reason` for an event that cannot
/// be read, `place!! reason` for an input, `= words` for an input without events.
fn summary(input: &[u8]) -> Vec<String> {
    found(input).into_iter().map(words).collect()
}

fn words(found: Found) -> String {
    match found {
        Found::Record(record) => match record.event {
            Ok(event) => {
                let mut words = vec![format!(
                    "{}: {}/{}",
                    record.place, event.namespace, event.name
                )];
                words.extend(record.notes.iter().map(|note| format!("{note:?}")));
                words.join(" ")
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

/// A minimal event.
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

/// YAML as kubectl prints it: the items of a list are not indented below their key.
fn yaml(value: &Value) -> String {
    lines(value, 0)
}

/// The YAML lines of a value whose first line is already indented.
fn lines(value: &Value, indent: usize) -> String {
    let blank = " ".repeat(indent);
    let Value::Object(fields) = value else {
        return format!("{value}\n");
    };
    let fields = fields.iter().map(|(name, value)| match value {
        Value::Object(fields) if !fields.is_empty() => {
            format!("{name}:\n{blank}  {}", lines(value, indent + 2))
        }
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| lines(item, indent + 2));
            let items: Vec<_> = items.collect();
            format!("{name}:\n{blank}- {}", items.join(&format!("{blank}- ")))
        }
        value => format!("{name}: {value}\n"),
    });
    let fields: Vec<_> = fields.collect();
    if fields.is_empty() {
        return "{}\n".to_owned();
    }
    fields.join(&blank)
}
