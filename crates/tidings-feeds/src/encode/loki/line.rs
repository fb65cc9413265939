//! The lines of Loki's entries, byte for byte as Alloy's `loki.source.kubernetes_events` has them.

use serde::Deserialize;
use tidings_core::is_printable;
use tidings_core::wire::{write_integer, write_string};

use crate::encode::facts::{EventFacts, Facts, Notice};
use crate::record::Record;

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// `logfmt`: fields in Alloy's order. As there, only `msg` is quoted, so a field with blank
    /// space ends early for those who parse it; a blank follows the last field.
    #[default]
    Logfmt,
    /// `json`: the same fields as an object, in alphabetical order.
    Json,
}

enum Value<'a> {
    Text(&'a str),
    Message(&'a str),
    Number(i32),
}

impl Line {
    /// Returns the line of a record.
    pub(super) fn of(self, record: &Record) -> String {
        let facts = record.facts();
        let mut fields = match &facts {
            Facts::Event(event) => event_fields(event),
            Facts::Notice(notice) => notice_fields(notice),
        };
        fields.retain(|(_, value)| !matches!(value, Value::Text("") | Value::Number(0)));
        match self {
            Self::Logfmt => logfmt(&fields),
            Self::Json => json(fields),
        }
    }
}

fn event_fields<'a>(facts: &EventFacts<'a>) -> Vec<(&'static str, Value<'a>)> {
    let (event, object) = (facts.event(), facts.object);
    let metadata = event.metadata.as_ref();
    vec![
        ("name", Value::Text(object.name())),
        ("kind", Value::Text(object.kind())),
        ("action", Value::Text(event.action())),
        ("objectAPIversion", Value::Text(object.api_version())),
        ("objectRV", Value::Text(object.resource_version())),
        (
            "eventRV",
            Value::Text(metadata.map_or("", |m| m.resource_version())),
        ),
        ("reportinginstance", Value::Text(event.reporting_instance())),
        (
            "reportingcontroller",
            Value::Text(event.reporting_component()),
        ),
        ("sourcecomponent", Value::Text(facts.component())),
        ("sourcehost", Value::Text(facts.host())),
        ("reason", Value::Text(event.reason())),
        ("type", Value::Text(event.r#type())),
        // Alloy has the count of core/v1 only, so that series would have none.
        ("count", Value::Number(facts.count())),
        ("msg", Value::Message(event.message())),
    ]
}

fn notice_fields<'a>(notice: &'a Notice<'_>) -> Vec<(&'static str, Value<'a>)> {
    vec![
        ("reportingcontroller", Value::Text("tidings")),
        ("reason", Value::Text(notice.reason)),
        ("type", Value::Text(notice.event_type)),
        ("msg", Value::Message(&notice.message)),
    ]
}

fn logfmt(fields: &[(&str, Value<'_>)]) -> String {
    let mut line = String::new();
    for (name, value) in fields {
        line.push_str(name);
        line.push('=');
        match value {
            Value::Text(text) => line.push_str(text),
            Value::Message(text) => quote(text, &mut line),
            Value::Number(number) => line.push_str(&number.to_string()),
        }
        line.push(' ');
    }
    line
}

fn json(mut fields: Vec<(&str, Value<'_>)>) -> String {
    fields.sort_unstable_by_key(|(name, _)| *name);
    let mut line = Vec::new();
    for (name, value) in fields {
        line.push(if line.is_empty() { b'{' } else { b',' });
        write_string(name, &mut line);
        line.push(b':');
        match value {
            Value::Text(text) | Value::Message(text) => write_string(text, &mut line),
            Value::Number(number) => write_integer(number, &mut line),
        }
    }
    line.push(b'}');
    String::from_utf8(line).unwrap_or_default()
}

/// Appends a text in quotes as Go's `%q` does.
fn quote(text: &str, line: &mut String) {
    use std::fmt::Write;
    line.push('"');
    for character in text.chars() {
        // Writing to a text cannot fail.
        let _ = match character {
            '"' | '\\' => write!(line, "\\{character}"),
            '\u{7}' => write!(line, "\\a"),
            '\u{8}' => write!(line, "\\b"),
            '\u{c}' => write!(line, "\\f"),
            '\n' => write!(line, "\\n"),
            '\r' => write!(line, "\\r"),
            '\t' => write!(line, "\\t"),
            '\u{b}' => write!(line, "\\v"),
            '\0'..='\x1f' | '\x7f' => write!(line, "\\x{:02x}", u32::from(character)),
            other if other == ' ' || is_visible(other) => write!(line, "{other}"),
            '\0'..='\u{ffff}' => write!(line, "\\u{:04x}", u32::from(character)),
            _ => write!(line, "\\U{:08x}", u32::from(character)),
        };
    }
    line.push('"');
}

fn is_visible(character: char) -> bool {
    is_printable(character) && !character.is_whitespace()
}
