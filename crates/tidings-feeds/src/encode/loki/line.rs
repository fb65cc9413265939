//! The lines of Loki's entries, as Alloy's `loki.source.kubernetes_events` has them.
//!
//! Invariant: no text of an event forges a field. Alloy quotes `msg` only; here other texts are
//! quoted, too, if those who parse logfmt would read more than one value.

use std::fmt::Write;

use serde::Deserialize;
use tidings_core::validate::{Quoted, is_printable};
use tidings_core::wire::{write_integer, write_string};

use crate::encode::facts::{EventFacts, Facts, Notice};
use crate::record::Record;

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// `logfmt`: fields in Alloy's order. As there, a blank follows the last field.
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
            Value::Text(text) if is_bare(text) => line.push_str(text),
            Value::Text(text) | Value::Message(text) => {
                // Writing to a text cannot fail.
                let _ = write!(line, "{}", Quoted(text));
            }
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

/// Whether a text is one value without quotes.
fn is_bare(text: &str) -> bool {
    let is_special = |c| matches!(c, ' ' | '"' | '=') || !is_printable(c);
    !text.contains(is_special)
}
