//! kubectl's JSONPath templates: text with `{expressions}`, as `kubectl -o jsonpath=` accepts them.
//!
//! The supported syntax is what kubectl's reference documents (`k8s.io/client-go/util/jsonpath`):
//! `$` and `@`, `.name`, `['name']`, `..name`, `*`, `[n]`, `[from:to:step]`, `[a,b]`,
//! `[?(@.name=="value")]` with `==`, `!=`, `<`, `<=`, `>`, `>=` or none, `{range}`…`{end}`, and
//! quoted text. A missing field prints nothing, and an index out of bounds is an error, as in
//! kubectl.

mod parse;
mod syntax;

use std::fmt::Write;

use serde_json::Value;

pub use self::syntax::Path;
use self::syntax::{Comparison, Node, Operand, Step};

/// A parsed template.
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
/// assert_eq!(template.render(&list).unwrap(), "BackOff\t7\n");
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

    /// Parses a path with or without braces and leading dot, as custom columns have it.
    fn from_str(text: &str) -> Result<Self, String> {
        parse::relaxed_path(text)
    }
}

/// Why a template or a path cannot be applied to a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// An index is out of an array's bounds.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index, from the beginning.
        index: i64,
        /// The length of the array.
        length: usize,
    },
    /// The end of a slice is before its start.
    #[error("starting index {from} is greater than ending index {to}")]
    Backwards {
        /// The start of the slice.
        from: i64,
        /// The end of the slice.
        to: i64,
    },
    /// An index, a slice or a filter is applied to a value that is not an array.
    #[error("{0} is no array")]
    NoArray(&'static str),
}

impl Template {
    /// Renders the template with a value.
    ///
    /// # Errors
    /// An index, a slice or a filter cannot be applied to the value.
    pub fn render(&self, value: &Value) -> Result<String, EvaluationError> {
        let mut out = String::new();
        render(&self.nodes, value, value, &mut out)?;
        Ok(out)
    }
}

fn render(
    nodes: &[Node],
    root: &Value,
    current: &Value,
    out: &mut String,
) -> Result<(), EvaluationError> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(path) => {
                for (index, value) in path.find(root, current)?.into_iter().enumerate() {
                    if index > 0 {
                        out.push(' ');
                    }
                    print(value, out);
                }
            }
            Node::Range(path, nodes) => {
                for value in path.find(root, current)? {
                    render(nodes, root, value, out)?;
                }
            }
        }
    }
    Ok(())
}

/// Prints a value: a string without quotes, everything else as JSON.
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
    ///
    /// # Errors
    /// An index, a slice or a filter cannot be applied to the value.
    pub fn find<'a>(
        &self,
        root: &'a Value,
        current: &'a Value,
    ) -> Result<Vec<&'a Value>, EvaluationError> {
        let start = if self.from_root { root } else { current };
        let mut values = vec![start];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in values {
                step.take(root, value, &mut next)?;
            }
            values = next;
        }
        Ok(values)
    }
}

impl Step {
    fn take<'a>(
        &self,
        root: &'a Value,
        value: &'a Value,
        found: &mut Vec<&'a Value>,
    ) -> Result<(), EvaluationError> {
        match self {
            Self::Field(name) => found.extend(value.get(name)),
            Self::Wildcard => found.extend(children(value)),
            Self::Descend => descend(value, found),
            Self::Index(index) => {
                if let Some(items) = array(value)? {
                    let index = from_start(*index, items.len());
                    let item = usize::try_from(index).ok().and_then(|at| items.get(at));
                    let length = items.len();
                    found.push(item.ok_or(EvaluationError::OutOfBounds { index, length })?);
                }
            }
            Self::Slice { from, to, step } => {
                if let Some(items) = array(value)? {
                    found.extend(slice(items, *from, *to)?.iter().step_by(*step));
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    found.extend(path.find(root, value)?);
                }
            }
            Self::Filter(left, comparison) => {
                for child in array(value)?.unwrap_or_default() {
                    if is_selected(left, comparison.as_ref(), root, child)? {
                        found.push(child);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The items of an array; `None` for null.
fn array(value: &Value) -> Result<Option<&[Value]>, EvaluationError> {
    let what = match value {
        Value::Array(items) => return Ok(Some(items)),
        Value::Null => return Ok(None),
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Object(_) => "an object",
    };
    Err(EvaluationError::NoArray(what))
}

/// The items from one index to before another. Of an empty array, any slice is empty.
fn slice(items: &[Value], from: Option<i64>, to: Option<i64>) -> Result<&[Value], EvaluationError> {
    let length = items.len();
    let from = from.map_or(0, |from| from_start(from, length));
    let end = i64::try_from(length).unwrap_or(i64::MAX);
    let to = to.map_or(end, |to| from_start(to, length));
    if from == to {
        return Ok(&[]);
    }
    let out_of_bounds = |index: i64| EvaluationError::OutOfBounds { index, length };
    let start = usize::try_from(from).ok().filter(|start| *start < length);
    let start = start.ok_or_else(|| out_of_bounds(from))?;
    let end = usize::try_from(to).ok().filter(|end| *end <= length);
    let end = end.ok_or_else(|| out_of_bounds(to.saturating_sub(1)))?;
    let backwards = EvaluationError::Backwards { from, to };
    items.get(start..end).ok_or(backwards)
}

/// An index counted from the beginning; a negative one counts from the end.
fn from_start(index: i64, length: usize) -> i64 {
    if index < 0 {
        index.saturating_add_unsigned(length as u64)
    } else {
        index
    }
}

/// Whether a filter selects an item. A filter without a comparison also selects an item in which
/// the path cannot be looked up, as kubectl does.
fn is_selected(
    left: &Operand,
    comparison: Option<&(Comparison, Operand)>,
    root: &Value,
    item: &Value,
) -> Result<bool, EvaluationError> {
    let Some((comparison, right)) = comparison else {
        return Ok(!matches!(left.values(root, item), Ok(found) if found.is_empty()));
    };
    let (left, right) = (left.values(root, item)?, right.values(root, item)?);
    Ok(match (left.first(), right.first()) {
        (Some(left), Some(right)) => comparison.holds(left, right),
        _ => false,
    })
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Recursion is bounded by the depth that `serde_json` accepts.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    for child in children(value) {
        descend(child, found);
    }
}

impl Operand {
    fn values<'a>(
        &'a self,
        root: &'a Value,
        current: &'a Value,
    ) -> Result<Vec<&'a Value>, EvaluationError> {
        match self {
            Self::Path(path) => path.find(root, current),
            Self::Literal(value) => Ok(vec![value]),
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
