//! kubectl's JSONPath templates: text with `{expressions}` in it, as `kubectl -o jsonpath=` takes
//! them.
//!
//! What is understood is what kubectl's reference documents (`k8s.io/client-go/util/jsonpath`): `$`
//! and `@`, `.name`, `['name']`, `..name`, `*`, `[n]`, `[from:to:step]`, `[a,b]`,
//! `[?(@.name=="value")]` with `==`, `!=`, `<`, `<=`, `>`, `>=` or none, `{range}`…`{end}`, and
//! quoted text. What is not there prints as nothing.

mod parse;
mod syntax;

use std::fmt::Write;

use serde_json::Value;

pub use self::syntax::Path;
use self::syntax::{Comparison, Node, Operand, Step};

/// A template that was understood.
///
/// ```
/// use serde_json::json;
/// use tidings_cli::jsonpath::Template;
///
/// let template: Template = r#"{range .items[?(@.type=="Warning")]}{.reason}{"\t"}{.count}{"\n"}{end}"#.parse()?;
/// let list = json!({"items": [
///     {"type": "Warning", "reason": "BackOff", "count": 7},
///     {"type": "Normal", "reason": "Pulled"},
/// ]});
/// assert_eq!(template.render(&list), "BackOff\t7\n");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    nodes: Vec<Node>,
}

impl std::str::FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse::template(text).map(|nodes| Self { nodes })
    }
}

impl std::str::FromStr for Path {
    type Err = String;

    /// A path with or without braces and leading dot, as custom columns have it.
    fn from_str(text: &str) -> Result<Self, String> {
        parse::relaxed_path(text)
    }
}

impl Template {
    /// The template filled in from a value.
    pub fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        render(&self.nodes, value, value, &mut out);
        out
    }
}

fn render(nodes: &[Node], root: &Value, current: &Value, out: &mut String) {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(path) => {
                for (index, value) in path.find(root, current).into_iter().enumerate() {
                    if index > 0 {
                        out.push(' ');
                    }
                    print(value, out);
                }
            }
            Node::Range(path, nodes) => {
                for value in path.find(root, current) {
                    render(nodes, root, value, out);
                }
            }
        }
    }
}

/// A value as it is printed: text without quotes, everything else as JSON.
pub fn print(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Null => {}
        // Writing to a String does not fail.
        other => drop(write!(out, "{other}")),
    }
}

impl Path {
    /// All values at this path.
    pub fn find<'a>(&self, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
        let start = if self.from_root { root } else { current };
        let mut values = vec![start];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in values {
                step.take(root, value, &mut next);
            }
            values = next;
        }
        values
    }
}

impl Step {
    fn take<'a>(&self, root: &'a Value, value: &'a Value, found: &mut Vec<&'a Value>) {
        match self {
            Self::Field(name) => found.extend(value.get(name)),
            Self::Wildcard => found.extend(children(value)),
            Self::Descend => descend(value, found),
            Self::Index(index) => {
                if let Value::Array(items) = value {
                    let index = position(*index, items.len());
                    found.extend(
                        usize::try_from(index)
                            .ok()
                            .and_then(|index| items.get(index)),
                    );
                }
            }
            Self::Slice { from, to, step } => {
                if let Value::Array(items) = value {
                    let end = |bound: i64| {
                        let bound = position(bound, items.len()).max(0);
                        usize::try_from(bound).unwrap_or(0).min(items.len())
                    };
                    let from = from.map_or(0, end);
                    let to = to.map_or(items.len(), end);
                    let taken = items.get(from..to.max(from)).unwrap_or_default();
                    found.extend(taken.iter().step_by(*step));
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    found.extend(path.find(root, value));
                }
            }
            Self::Filter(left, comparison) => {
                for child in children(value) {
                    let is_selected = match comparison {
                        None => !left.values(root, child).is_empty(),
                        Some((comparison, right)) => {
                            let (left, right) =
                                (left.values(root, child), right.values(root, child));
                            match (left.first(), right.first()) {
                                (Some(left), Some(right)) => comparison.holds(left, right),
                                _ => false,
                            }
                        }
                    };
                    if is_selected {
                        found.push(child);
                    }
                }
            }
        }
    }
}

/// From the end where negative.
fn position(index: i64, len: usize) -> i64 {
    if index < 0 {
        index.saturating_add_unsigned(len as u64)
    } else {
        index
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// How deep a value a server sent can be: `serde_json` reads no deeper.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    for child in children(value) {
        descend(child, found);
    }
}

impl Operand {
    fn values<'a>(&'a self, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Path(path) => path.find(root, current),
            Self::Literal(value) => vec![value],
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                _ => left
                    .as_f64()
                    .zip(right.as_f64())
                    .and_then(|(left, right)| left.partial_cmp(&right)),
            },
            _ => None,
        };
        match (self, order) {
            (Self::Equal, None) => left == right,
            (Self::NotEqual, None) => left != right,
            (_, None) => false,
            (Self::Equal, Some(order)) => order.is_eq(),
            (Self::NotEqual, Some(order)) => order.is_ne(),
            (Self::Less, Some(order)) => order.is_lt(),
            (Self::LessOrEqual, Some(order)) => order.is_le(),
            (Self::Greater, Some(order)) => order.is_gt(),
            (Self::GreaterOrEqual, Some(order)) => order.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests;
