//! Routes of kubernetes-event-exporter, as conditions.
//!
//! A route's `drop` rules come first: one that matches ends the route. Each `match` rule that
//! matches sends to its receiver. Sub-routes run if all `match` rules matched. A feed has the
//! conditions of all rules on the way to a receiver.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidings_api::conditions::Conditions;

use super::environment::expanded;
use super::findings::Notes;
use super::pattern::{PatternError, values};
use super::tree::Node;

/// The conditions of rules, with the keys of a feed's conditions.
const FIELDS: [(&str, &str); 7] = [
    ("namespace", "namespace"),
    ("kind", "kind"),
    ("reason", "reason"),
    ("type", "type"),
    ("component", "source.component"),
    ("host", "source.host"),
    ("message", "message"),
];
/// Conditions that a feed has nothing like.
const OTHERS: [(&str, &str); 4] = [
    (
        "labels",
        "a feed sees the event, not the labels of its object",
    ),
    (
        "annotations",
        "a feed sees the event, not the annotations of its object",
    ),
    (
        "apiVersion",
        "a feed has no condition on the apiVersion of the object",
    ),
    (
        "minCount",
        "a feed has no condition on the count; `every: 5m` reduces repeats",
    ),
];

/// What leads to a receiver.
#[derive(Debug)]
pub(super) struct Selection {
    /// The receiver's name.
    pub(super) receiver: String,
    /// The line of the rule.
    pub(super) line: u64,
    /// The conditions of the feed; without members for all events.
    pub(super) conditions: Map<String, Value>,
}

/// The conditions of a rule: for each key the patterns of which one must match.
type Rule = BTreeMap<&'static str, Vec<String>>;

/// The conditions on the way to a rule.
#[derive(Clone, Debug, Default)]
struct Way {
    only: Rule,
    /// The rules of which none may match.
    not: Vec<Rule>,
}

/// Why a rule has no conditions.
enum Obstacle {
    /// It matches no event.
    Never,
    /// A feed has nothing like it.
    Inexpressible,
}

/// Returns what leads to receivers. `namespace` is the only followed one, if there is one.
pub(super) fn selections(route: &Node, namespace: &str, notes: &mut Notes) -> Vec<Selection> {
    let mut way = Way::default();
    if !namespace.is_empty() {
        way.only.insert("namespace", vec![namespace.to_owned()]);
    }
    let mut found = Vec::new();
    walk(route, "route", &way, notes, &mut found);
    found
}

fn walk(route: &Node, path: &str, above: &Way, notes: &mut Notes, found: &mut Vec<Selection>) {
    let list = |name: &str| route.get(name).map_or(&[][..], Node::items);
    let mut here = above.clone();
    for (number, rule) in list("drop").iter().enumerate() {
        let path = format!("{path}.drop[{number}]");
        match conditions(rule, &path, true, notes) {
            Ok(rule_of) if rule_of.is_empty() => {
                let why = "it drops every event, so nothing of this route is delivered";
                return notes.add(rule.line, &path, why);
            }
            Ok(rule_of) => here.not.push(rule_of),
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
        if let Some(way) = with_rule.as_ref().filter(|_| !receiver.is_empty()) {
            found.push(Selection {
                receiver: receiver.to_owned(),
                line: rule.line,
                conditions: way.conditions(),
            });
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
    let mut all = Rule::new();
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
        let Some((_, key)) = FIELDS.iter().find(|(field, _)| field == name) else {
            if name != "receiver" {
                let why = "kubernetes-event-exporter has no such condition";
                notes.add(node.line, &path, why);
            }
            continue;
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
                let why = format!("a pattern of a feed has nothing like {what}");
                notes.add(node.line, &path, &why);
                refuse(Obstacle::Inexpressible);
            }
            Ok(found) if found.is_any_case => {
                notes.add(node.line, &path, "a feed compares in upper and lower case");
                refuse(Obstacle::Inexpressible);
            }
            Ok(found) if found.alternatives.iter().any(|value| value == "*") => {}
            Ok(found) => {
                let rule = Rule::from([(*key, found.alternatives)]);
                if let Err(why) = check(&rule) {
                    notes.add(node.line, &path, &why);
                    refuse(Obstacle::Inexpressible);
                }
                all.extend(rule);
            }
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

/// Checks that a feed accepts a rule's conditions.
fn check(rule: &Rule) -> Result<(), String> {
    let text = Value::from(members(rule)).to_string();
    let read = serde_saphyr::from_str::<Conditions>(&text).map(drop);
    read.map_err(|error| {
        let why = error.without_snippet().to_string();
        let (why, _) = why.rsplit_once(" at line ").unwrap_or((&why, ""));
        why.to_owned()
    })
}

/// Returns a rule as the map of a file.
fn members(rule: &Rule) -> Map<String, Value> {
    let (mut map, mut source) = (Map::new(), Map::new());
    for (key, patterns) in rule {
        let patterns = match patterns.as_slice() {
            [pattern] => json!(pattern),
            patterns => json!(patterns),
        };
        match key.strip_prefix("source.") {
            Some(key) => source.insert(key.to_owned(), patterns),
            None => map.insert((*key).to_owned(), patterns),
        };
    }
    if !source.is_empty() {
        map.insert("source".to_owned(), source.into());
    }
    map
}

impl Way {
    /// Returns these conditions with those of a rule; `None` if no feed or no event has both.
    fn and(&self, rule: &Rule, line: u64, path: &str, notes: &mut Notes) -> Option<Self> {
        let mut all = self.clone();
        for (key, values) in rule {
            let before = all.only.entry(key).or_insert_with(|| values.clone());
            if before == values {
                continue;
            }
            let has_star = |values: &[String]| values.iter().any(|value| value.contains('*'));
            let had_star = has_star(before);
            before.retain(|value| values.contains(value));
            if has_star(values) || had_star || before.is_empty() {
                let why = format!(
                    "not taken over: a feed cannot require two conditions on {key}, of this rule \
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
        self.and(&other.only, line, path, notes)
    }

    /// Returns the conditions as the map of a file.
    fn conditions(&self) -> Map<String, Value> {
        let mut map = members(&self.only);
        let not: Vec<Value> = self.not.iter().map(|rule| members(rule).into()).collect();
        if !not.is_empty() {
            map.insert("not".to_owned(), not.into());
        }
        map
    }
}
