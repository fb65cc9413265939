//! Routes of kubernetes-event-exporter, as filters.
//!
//! A route's `drop` rules come first: one that matches ends the route. Each `match` rule that
//! matches sends to its receiver. Sub-routes run if all `match` rules matched. A filter has the
//! conditions of all rules on the way to a receiver.

use std::collections::BTreeMap;

use tidings_core::filter::Filter;

use super::environment::expanded;
use super::findings::Notes;
use super::pattern::{PatternError, Values, literal, values};
use super::tree::Node;

/// The conditions of rules that a filter has, with its keys, and whether it compares in any case.
const FIELDS: [(&str, &str, bool); 6] = [
    ("namespace", "namespace", false),
    ("kind", "kind", true),
    ("reason", "reason", false),
    ("type", "type", true),
    ("component", "source", false),
    ("host", "host", false),
];
/// Conditions that a filter has nothing like.
const OTHERS: [(&str, &str); 4] = [
    (
        "labels",
        "a filter sees the event, not the labels of its object",
    ),
    (
        "annotations",
        "a filter sees the event, not the annotations of its object",
    ),
    ("apiVersion", "a filter has no apiVersion of the object"),
    (
        "minCount",
        "a filter has no count; `every: 5m` reduces repeats",
    ),
];

/// What leads to a receiver.
#[derive(Debug)]
pub(super) struct Selection {
    /// The receiver's name.
    pub(super) receiver: String,
    /// The line of the rule.
    pub(super) line: u64,
    /// The filter of the feed; empty for all events.
    pub(super) filter: String,
}

/// The conditions on the way to a rule.
#[derive(Clone, Debug, Default)]
struct Conditions {
    /// For each key, the values of which one must match.
    only: BTreeMap<&'static str, Vec<String>>,
    texts: Vec<String>,
    without: Vec<String>,
}

/// Why a rule has no conditions.
enum Obstacle {
    /// It matches no event.
    Never,
    /// A filter has nothing like it.
    Inexpressible,
}

type Rule = Vec<(&'static str, Vec<String>)>;

/// Returns what leads to receivers. `namespace` is the only followed one, if there is one.
pub(super) fn selections(route: &Node, namespace: &str, notes: &mut Notes) -> Vec<Selection> {
    let mut conditions = Conditions::default();
    if !namespace.is_empty() {
        conditions
            .only
            .insert("namespace", vec![literal(namespace)]);
    }
    let mut found = Vec::new();
    walk(route, "route", &conditions, notes, &mut found);
    found
}

fn walk(
    route: &Node,
    path: &str,
    above: &Conditions,
    notes: &mut Notes,
    found: &mut Vec<Selection>,
) {
    let list = |name: &str| route.get(name).map_or(&[][..], Node::items);
    let mut here = above.clone();
    for (number, rule) in list("drop").iter().enumerate() {
        let path = format!("{path}.drop[{number}]");
        match conditions(rule, &path, true, notes) {
            Ok(rule_of) => match rule_of.as_slice() {
                [] => {
                    let why = "it drops every event, so nothing of this route is delivered";
                    return notes.add(rule.line, &path, why);
                }
                [(key, values)] => {
                    let terms = values.iter().map(|value| format!("-{key}:{value}"));
                    here.without.extend(terms);
                }
                _ => notes.add(
                    rule.line,
                    &path,
                    "not taken over, so more events are delivered: a filter cannot exclude what \
                     matches several conditions at once",
                ),
            },
            Err(Obstacle::Never) => {}
            Err(Obstacle::Inexpressible) => {
                notes.add(
                    rule.line,
                    &path,
                    "not taken over, so more events are delivered",
                );
            }
        }
    }
    let has_routes = !list("routes").is_empty();
    let mut below = has_routes.then(|| here.clone());
    for (number, rule) in list("match").iter().enumerate() {
        let path = format!("{path}.match[{number}]");
        let with_rule = match conditions(rule, &path, false, notes) {
            Ok(rule_of) => here.and(&rule_of, rule.line, &path, notes),
            Err(Obstacle::Never) => None,
            Err(Obstacle::Inexpressible) => {
                let why = "not taken over: no feed has this rule, nor what is below it";
                notes.add(rule.line, &path, why);
                None
            }
        };
        let receiver = rule.get("receiver").map_or("", Node::text);
        if let Some(conditions) = with_rule.as_ref().filter(|_| !receiver.is_empty()) {
            let filter = conditions.filter();
            match filter.parse::<Filter>() {
                Ok(_) => found.push(Selection {
                    receiver: receiver.to_owned(),
                    line: rule.line,
                    filter,
                }),
                Err(why) => notes.add(rule.line, &path, &format!("not taken over: {why}")),
            }
        }
        // What all of them match is below.
        below = match (below, with_rule) {
            (Some(below), Some(with_rule)) => below.joined(&with_rule, rule.line, &path, notes),
            _ => None,
        };
    }
    if let Some(below) = below {
        for (number, route) in list("routes").iter().enumerate() {
            walk(
                route,
                &format!("{path}.routes[{number}]"),
                &below,
                notes,
                found,
            );
        }
    }
}

/// Returns the conditions of a rule, without those that every event meets.
fn conditions(rule: &Node, path: &str, is_drop: bool, notes: &mut Notes) -> Result<Rule, Obstacle> {
    let mut all = Vec::new();
    let mut obstacle = None;
    let mut refuse = |with: Obstacle| {
        // A rule that never matches needs nothing else.
        if !matches!(obstacle, Some(Obstacle::Never)) {
            obstacle = Some(with);
        }
    };
    for (name, node) in rule.members() {
        let path = format!("{path}.{name}");
        if let Some((_, why)) = OTHERS.iter().find(|(other, _)| other == name) {
            let is_set = !node.members().is_empty() || !matches!(node.text(), "" | "0" | "1");
            // A pattern that RE2 does not accept makes the rule match nothing.
            let invalid = match values(node.text()) {
                Err(PatternError::Invalid(why)) if name == "apiVersion" => Some(why),
                _ => None,
            };
            match invalid {
                Some(why) => {
                    note_invalid(node, &path, is_drop, &why, notes);
                    refuse(Obstacle::Never);
                }
                None if is_set => {
                    notes.add(node.line, &path, why);
                    refuse(Obstacle::Inexpressible);
                }
                None => {}
            }
            continue;
        }
        let field = FIELDS.iter().find(|(field, ..)| field == name);
        let (key, is_any_case) = match field {
            Some((_, key, is_any_case)) => (*key, *is_any_case),
            None if name == "message" => ("text", true),
            None => {
                if name != "receiver" {
                    notes.add(
                        node.line,
                        &path,
                        "kubernetes-event-exporter has no such condition",
                    );
                }
                continue;
            }
        };
        let pattern = expanded(node, &path, notes);
        if pattern.is_empty() {
            continue;
        }
        match values(&pattern) {
            Err(PatternError::Invalid(why)) => {
                note_invalid(node, &path, is_drop, &why, notes);
                refuse(Obstacle::Never);
            }
            Err(PatternError::Inexpressible(what)) => {
                notes.add(
                    node.line,
                    &path,
                    &format!("a filter has nothing like {what}"),
                );
                refuse(Obstacle::Inexpressible);
            }
            Ok(found) if found.is_any_case && !is_any_case => {
                notes.add(
                    node.line,
                    &path,
                    "a filter compares this field in upper and lower case",
                );
                refuse(Obstacle::Inexpressible);
            }
            Ok(found) if found.alternatives.iter().any(|value| value == "*") => {}
            Ok(found) if key == "text" => match text(found, is_drop) {
                Ok(value) => {
                    let why = "a text of a filter is looked for in the message, the reason, the \
                               source and the object, in any case";
                    notes.add(node.line, &path, why);
                    all.push((key, vec![value]));
                }
                Err(why) => {
                    notes.add(node.line, &path, why);
                    refuse(Obstacle::Inexpressible);
                }
            },
            Ok(found) => all.push((key, found.alternatives)),
        }
    }
    match obstacle {
        Some(obstacle) => Err(obstacle),
        None => Ok(all),
    }
}

fn note_invalid(node: &Node, path: &str, is_drop: bool, why: &str, notes: &mut Notes) {
    let effect = if is_drop {
        "so this rule has never dropped an event, and is left out"
    } else {
        "so this rule has never sent an event, and has no feed"
    };
    let why = format!("the pattern is invalid and never matches ({why}), {effect}");
    notes.add(node.line, path, &why);
}

/// Returns the text of a filter for a pattern of messages.
fn text(found: Values, is_drop: bool) -> Result<String, &'static str> {
    let mut values = found.alternatives;
    match (values.pop(), values.is_empty()) {
        (Some(value), true) if !found.is_anchored => {
            if is_drop && !value.contains(' ') {
                return Err(
                    "without a blank it could exclude other events by their reason or object",
                );
            }
            Ok(value.trim_matches('*').to_owned())
        }
        _ => Err("a text of a filter has no alternatives and no anchors"),
    }
}

impl Conditions {
    /// Returns these conditions with those of a rule; `None` if no filter or no event has both.
    fn and(&self, rule: &Rule, line: u64, path: &str, notes: &mut Notes) -> Option<Self> {
        let mut all = self.clone();
        for (key, values) in rule {
            if *key == "text" {
                all.texts.extend(values.iter().cloned());
                continue;
            }
            let before = all.only.entry(key).or_insert_with(|| values.clone());
            if before == values {
                continue;
            }
            let has_star = |values: &[String]| values.iter().any(|value| value.contains('*'));
            before.retain(|value| values.contains(value));
            if has_star(values) || has_star(before) || before.is_empty() {
                let why = format!(
                    "not taken over: a filter cannot require two conditions on {key}, of this rule \
                     and of one above it"
                );
                notes.add(line, path, &why);
                return None;
            }
        }
        Some(all)
    }

    /// Returns the conditions of both.
    fn joined(&self, other: &Self, line: u64, path: &str, notes: &mut Notes) -> Option<Self> {
        let mut rule: Rule = Vec::new();
        for (key, values) in &other.only {
            rule.push((key, values.clone()));
        }
        for text in other.texts.iter().filter(|text| !self.texts.contains(text)) {
            rule.push(("text", vec![text.clone()]));
        }
        self.and(&rule, line, path, notes)
    }

    fn filter(&self) -> String {
        let mut terms = Vec::new();
        for (key, values) in &self.only {
            terms.extend(values.iter().map(|value| format!("{key}:{value}")));
        }
        terms.extend(self.texts.iter().map(|text| format!("text:{text}")));
        terms.extend(self.without.iter().cloned());
        terms.join(" ")
    }
}
