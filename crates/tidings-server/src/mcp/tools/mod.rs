//! The tools: their names, what they do, their arguments, and what they answer.

mod event;
mod object;
mod reading;
mod search;
mod top;

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::errors::CallError;
use super::page::{self, Answer, Line, Page};
use super::source::Source;
use reading::{coverage, covering};

/// A tool. None of them writes.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Its arguments, with their descriptions and whether they are required.
    arguments: &'static [Argument],
}

/// An argument: its name, its JSON type, whether it is required, and what it means.
type Argument = (&'static str, &'static str, bool, &'static str);

const CLUSTER: Argument = (
    "cluster",
    "string",
    false,
    "Name of the cluster, as `clusters` lists it. Default: all",
);
const NAMESPACE: Argument = (
    "namespace",
    "string",
    false,
    "Namespace of the events. Default: all that you may read",
);
const SINCE: Argument = (
    "since",
    "string",
    false,
    "Begin: a duration before now such as 90m or 3d, or a time such as 2026-03-04T05:06:00Z",
);
const UNTIL: Argument = (
    "until",
    "string",
    false,
    "End, in the same forms. Default: now",
);
const FILTER: Argument = (
    "filter",
    "string",
    false,
    "Terms that must all match: reason:Failed* type:Warning -object:Pod/web-* node:worker-1 \"a text\"",
);
const LIMIT: Argument = (
    "limit",
    "integer",
    false,
    "Maximum lines, 1 to 100. Default: 30",
);
const CURSOR: Argument = (
    "cursor",
    "string",
    false,
    "The cursor of the answer before, for what follows it",
);
const MAX_BYTES: Argument = (
    "maxBytes",
    "integer",
    false,
    "Bound of the answer in bytes, 2048 to 65536. Default: 24576",
);

/// All tools, in the order in which they are usually called.
pub(super) const TOOLS: [Tool; 7] = [
    Tool {
        name: "clusters",
        description: "Lists the clusters whose Kubernetes events can be read: since when and until when each is covered, what is wrong with it, and which namespaces you may read. Call it first, and when an answer is empty.",
        arguments: &[CURSOR, MAX_BYTES],
    },
    Tool {
        name: "coverage",
        description: "Says what may be missing: the gaps of a time range with their causes, and how long events are kept. Call it before you conclude that something did not happen.",
        arguments: &[CLUSTER, SINCE, UNTIL, CURSOR, MAX_BYTES],
    },
    Tool {
        name: "search",
        description: "Finds Kubernetes events, the last seen first, one line each with its time, count, type, reason, object, message and id. Default range: the last 24 hours. Shows what happened also to objects that no longer exist.",
        arguments: &[
            CLUSTER,
            NAMESPACE,
            (
                "object",
                "string",
                false,
                "Name of the involved object, or KIND/NAME; web-* is a pattern",
            ),
            (
                "kind",
                "string",
                false,
                "Kind of the involved object, such as Pod",
            ),
            (
                "reason",
                "string",
                false,
                "Reason, such as BackOff; Failed* is a pattern",
            ),
            ("type", "string", false, "Warning or Normal"),
            (
                "text",
                "string",
                false,
                "Text in the message, reason, source or object",
            ),
            FILTER,
            SINCE,
            UNTIL,
            LIMIT,
            CURSOR,
            MAX_BYTES,
        ],
    },
    Tool {
        name: "object",
        description: "Tells in a sentence what happened to one object, the same of its owners and of what it owns (a Deployment's pods), and lists its events, the last seen first. Call it to find out why a pod, deployment, node or volume fails. Default range: the last 24 hours.",
        arguments: &[
            (
                "kind",
                "string",
                true,
                "Kind, such as Pod, Deployment or Node",
            ),
            ("name", "string", true, "Name of the object"),
            (
                "namespace",
                "string",
                false,
                "Namespace of the object; not for objects of the whole cluster",
            ),
            CLUSTER,
            (
                "family",
                "boolean",
                false,
                "Whether owners and owned objects are told about. Default: true",
            ),
            SINCE,
            UNTIL,
            LIMIT,
            CURSOR,
            MAX_BYTES,
        ],
    },
    Tool {
        name: "event",
        description: "Tells all about one event: how often it happened over time, what changed before it began (the likely causes, most important first), and which other objects have the same. Takes the id that `search` and `object` print.",
        arguments: &[
            (
                "id",
                "string",
                true,
                "CLUSTER/NAMESPACE/NAME, as lines of `search` and `object` end with it",
            ),
            MAX_BYTES,
        ],
    },
    Tool {
        name: "top",
        description: "Counts what happened most, by reason, object, namespace or controller. Default range: the last hour. Over months, reasons are counted by the hour in which each event was last seen.",
        arguments: &[
            (
                "by",
                "string",
                false,
                "reason, object, namespace or controller. Default: reason",
            ),
            CLUSTER,
            NAMESPACE,
            FILTER,
            SINCE,
            UNTIL,
            LIMIT,
            CURSOR,
            MAX_BYTES,
        ],
    },
    Tool {
        name: "compare",
        description: "Says what is different between two time ranges: reasons that are new, that are gone, and that happen more or less often. Default: the last hour, and the same hour of the day before; a range of more than a day, with the one before it.",
        arguments: &[
            SINCE,
            UNTIL,
            (
                "againstSince",
                "string",
                false,
                "Begin of the range to compare with. Default: a day before since, or the length of a longer range",
            ),
            (
                "againstUntil",
                "string",
                false,
                "End of the range to compare with. Default: a day before until, or the length of a longer range",
            ),
            CLUSTER,
            NAMESPACE,
            FILTER,
            LIMIT,
            CURSOR,
            MAX_BYTES,
        ],
    },
];

impl Tool {
    /// The JSON Schema of its arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, of, is_required, description) in self.arguments {
            let property = json!({"type": of, "description": description});
            properties.insert((*name).to_owned(), property);
            required.extend(is_required.then_some(*name));
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        schema
    }
}

/// The JSON Schema of every answer.
pub(super) fn output_schema() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let lines = json!({"type": "array", "items": text});
    let number = json!({"type": "integer"});
    let schema = json!({
        "type": "object",
        "properties": {
            "coverage": text, "notes": lines, "untrusted": lines, "truncatedBytes": number,
            "more": number, "cursor": text,
        },
        "required": ["coverage", "untrusted"],
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// Calls a tool, as the method `tools/call` does.
///
/// # Errors
/// [`CallError`] says what is wrong, and what to call instead.
pub async fn call(
    source: &dyn Source,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Answer, CallError> {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let Some(tool) = tool else {
        return Err(CallError::Unknown {
            what: "tool",
            name: name.to_owned(),
            accepted: TOOLS.map(|tool| tool.name).join(", "),
        });
    };
    let known: Vec<&str> = tool.arguments.iter().map(|argument| argument.0).collect();
    let arguments = Arguments::new(arguments, &known)?;
    let max = arguments.max_bytes()?;
    match name {
        "clusters" => {
            let coverage = coverage(source, &arguments.place()?).await?;
            let began = arguments.began(coverage.now)?;
            let page = Page {
                coverage: coverage.line((coverage.now, None)),
                lines: coverage.clusters().into_iter().map(Line::from).collect(),
                ..Page::default()
            };
            page.starting_at(arguments.cursor()?, began, usize::MAX, max)
        }
        "coverage" => gaps(source, &arguments, max).await,
        "search" => search::search(source, &arguments, max).await,
        "object" => object::object(source, &arguments, max).await,
        "event" => event::event(source, arguments.required("id")?, max).await,
        "top" => top::top(source, &arguments, max).await,
        _ => top::compare(source, &arguments, max).await,
    }
}

/// The event of a resource, within the default bound.
pub(super) async fn resource(source: &dyn Source, id: &str) -> Result<Answer, CallError> {
    event::event(source, id, page::BYTES).await
}

async fn gaps(source: &dyn Source, arguments: &Arguments, max: usize) -> Result<Answer, CallError> {
    let place = arguments.place()?;
    let coverage = coverage(source, &place).await?;
    let began = arguments.began(coverage.now)?;
    let range = arguments.range(("since", "until"), began, i64::MAX)?;
    let coverage = covering(source, &place, range, coverage).await?;
    let lines = coverage.gaps(range, began);
    let left_out = coverage.left_out();
    let mut notes = vec![match lines.len() + left_out {
        0 => "No gap is in this time.".to_owned(),
        1 => "1 gap is in this time; versions of events may be missing there.".to_owned(),
        gaps => format!("{gaps} gaps are in this time; versions of events may be missing there."),
    }];
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of them, the earliest of their clusters, are not listed: an earlier `until` \
             lists them."
        ));
    }
    let mut all = coverage.clusters();
    all.extend(lines);
    let page = Page {
        coverage: coverage.line(range),
        notes,
        lines: all.into_iter().map(Line::from).collect(),
        ..Page::default()
    };
    page.starting_at(arguments.cursor()?, began, usize::MAX, max)
}
