//! Layouts of kubernetes-event-exporter, which are templates of Go, as templates of feeds.
//!
//! Each text of a layout stays a text, as there, but JSON becomes the value that it is of. A text
//! that has no equal is left out and named.

use std::fmt::Write;

use serde_json::Value as Json;

use super::environment::expanded;
use super::findings::Notes;
use super::tree::{Node, Value};

/// Fields of Go's templates, and what a template of a feed has in their place.
const FIELDS: [(&str, &str); 35] = [
    (".", "event"),
    (".Message", "message"),
    (".Reason", "reason"),
    (".Type", "type"),
    (".Count", "event.count"),
    (".Action", "event.action"),
    (".Name", "event.metadata.name"),
    (".Namespace", "event.metadata.namespace"),
    (".UID", "event.metadata.uid"),
    (".ResourceVersion", "event.metadata.resourceVersion"),
    (".Labels", "event.metadata.labels"),
    (".Annotations", "event.metadata.annotations"),
    (
        ".CreationTimestamp",
        "(event.metadata.creationTimestamp or '')",
    ),
    (".FirstTimestamp", "(event.firstTimestamp or '')"),
    (".LastTimestamp", "(event.lastTimestamp or '')"),
    (".EventTime", "(event.eventTime or '')"),
    (".InvolvedObject", "event.involvedObject"),
    (
        ".InvolvedObject.APIVersion",
        "event.involvedObject.apiVersion",
    ),
    (".InvolvedObject.Kind", "event.involvedObject.kind"),
    (".InvolvedObject.Name", "event.involvedObject.name"),
    (
        ".InvolvedObject.Namespace",
        "event.involvedObject.namespace",
    ),
    (".InvolvedObject.UID", "event.involvedObject.uid"),
    (
        ".InvolvedObject.ResourceVersion",
        "event.involvedObject.resourceVersion",
    ),
    (
        ".InvolvedObject.FieldPath",
        "event.involvedObject.fieldPath",
    ),
    (".Source", "event.source"),
    (".Source.Component", "event.source.component"),
    (".Source.Host", "event.source.host"),
    (".ReportingController", "event.reportingComponent"),
    (".ReportingInstance", "event.reportingInstance"),
    (".Series.Count", "event.series.count"),
    (".ClusterName", "cluster"),
    (".GetTimestampMs", "firstSeenMs"),
    (".GetTimestampISO8601", "firstSeen"),
    (".Event", "event"),
    (".ObjectMeta", "event.metadata"),
];

/// Returns the template of a layout.
pub(super) fn template(layout: &Node, path: &str, notes: &mut Notes) -> String {
    value(layout, path, notes).unwrap_or_else(|| "{}".to_owned())
}

fn value(node: &Node, path: &str, notes: &mut Notes) -> Option<String> {
    match &node.value {
        Value::Null => Some("null".to_owned()),
        Value::Text(_) => {
            let written = expanded(node, path, notes);
            match text(&written) {
                Ok(text) => Some(text),
                Err(what) => {
                    let why =
                        format!("not taken over: a template of a feed has nothing like {what}");
                    notes.add(node.line, path, &why);
                    None
                }
            }
        }
        Value::List(items) => {
            let items = items.iter().enumerate();
            let items =
                items.filter_map(|(number, item)| value(item, &format!("{path}[{number}]"), notes));
            Some(format!("[{}]", items.collect::<Vec<_>>().join(", ")))
        }
        Value::Map(members) => {
            let members = members.iter().filter_map(|(name, node)| {
                let value = value(node, &format!("{path}.{name}"), notes)?;
                Some(format!("{}: {value}", literal(name)))
            });
            Some(format!("{{{}}}", members.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Writes a text of JSON. Braces could begin a template's own syntax.
fn literal(text: &str) -> String {
    let json = Json::from(text).to_string();
    if text.contains('{') {
        format!("{{{{ {json} }}}}")
    } else {
        json
    }
}

/// Translates a text with actions of Go's templates; otherwise, returns the part that has no equal.
fn text(text: &str) -> Result<String, String> {
    if let Some(json) = json(text) {
        return json;
    }
    let mut parts = Vec::new();
    let mut rest = text;
    let mut trims_next = false;
    loop {
        let (before, action) = match rest.split_once("{{") {
            Some((before, after)) => (before, Some(after)),
            None => (rest, None),
        };
        let mut before = if trims_next {
            before.trim_start()
        } else {
            before
        };
        let Some(after) = action else {
            parts.extend((!before.is_empty()).then(|| Json::from(before).to_string()));
            break;
        };
        let (action, behind) = after.split_once("}}").ok_or("an action without its end")?;
        let (mut action, mut ended) = (action, false);
        if let Some(rest) = action.strip_prefix("- ") {
            before = before.trim_end();
            action = rest;
        }
        if let Some(rest) = action.strip_suffix(" -") {
            ended = true;
            action = rest;
        }
        trims_next = ended;
        parts.extend((!before.is_empty()).then(|| Json::from(before).to_string()));
        parts.push(expression(action.trim())?);
        rest = behind;
    }
    let is_plain = !text.contains("{{");
    let mut joined = String::new();
    if is_plain || parts.is_empty() {
        return Ok(literal(text));
    }
    // An expression alone is made a text.
    if parts.len() == 1 {
        joined.push_str("\"\" ~ ");
    }
    let _ = write!(joined, "{}", parts.join(" ~ "));
    Ok(format!("{{{{ {joined} }}}}"))
}

/// Translates a text that is JSON of one field, which becomes that value.
fn json(text: &str) -> Option<Result<String, String>> {
    let action = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let words: Vec<&str> = action.split_whitespace().collect();
    match words.as_slice() {
        ["toJson" | "toRawJson" | "toPrettyJson", of]
        | [of, "|", "toJson" | "toRawJson" | "toPrettyJson"] => {
            Some(operand(of).map(|of| format!("{{{{ {of} }}}}")))
        }
        _ => None,
    }
}

/// Translates an expression: a field, or a product.
fn expression(action: &str) -> Result<String, String> {
    let words: Vec<&str> = action.split_whitespace().collect();
    match words.as_slice() {
        [operand] => self::operand(operand),
        ["mul", first, others @ ..] if !others.is_empty() => {
            let mut product = operand(first)?;
            for other in others {
                product = format!("{product} * {}", operand(other)?);
            }
            Ok(format!("({product})"))
        }
        _ => Err(format!("{{{{ {action} }}}}")),
    }
}

fn operand(operand: &str) -> Result<String, String> {
    let of_object = [".Labels", ".Annotations", ".OwnerReferences", ".Deleted"];
    let object = operand.strip_prefix(".InvolvedObject");
    if object.is_some_and(|field| of_object.iter().any(|of| field.starts_with(of))) {
        return Err(format!(
            "{operand}, since it has the event and not its object"
        ));
    }
    if let Some((_, field)) = FIELDS.iter().find(|(name, _)| *name == operand) {
        return Ok((*field).to_owned());
    }
    for (map, field) in [(".Labels.", "labels"), (".Annotations.", "annotations")] {
        if let Some(key) = operand.strip_prefix(map) {
            let key = Json::from(key);
            return Ok(format!("(event.metadata.{field}[{key}] | default(''))"));
        }
    }
    let is_number = !operand.is_empty() && operand.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && operand.len() < 10 {
        return Ok(operand.to_owned());
    }
    Err(operand.to_owned())
}
