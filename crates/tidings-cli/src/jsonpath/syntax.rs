//! The syntax tree of a template.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    Path(Path),
    Range(Path, Vec<Node>),
}

/// A path to values, from the root or from the current item of a range or filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    pub(super) from_root: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Field(String),
    Wildcard,
    /// Every value below the current one, and the current one itself.
    Descend,
    Index(i64),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: usize,
    },
    Union(Vec<Path>),
    Filter(Operand, Option<(Comparison, Operand)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Path(Path),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
