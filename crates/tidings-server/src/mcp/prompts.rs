//! The prompts: how to go about a question with the tools.

use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::errors::CallError;
use super::text::clean;

/// Maximum bytes of an argument in a prompt.
const VALUE_MAX: usize = 253;

/// A prompt.
pub(super) struct Prompt {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Its arguments, whether they are required, and what they mean.
    pub(super) arguments: &'static [(&'static str, bool, &'static str)],
    /// Its text, with arguments in braces.
    text: &'static str,
}

pub(super) const PROMPTS: [Prompt; 3] = [
    Prompt {
        name: "investigate",
        description: "Why does this object fail?",
        arguments: &[
            ("kind", true, "Kind, such as Pod or Deployment"),
            ("name", true, "Name of the object"),
            ("namespace", false, "Namespace of the object"),
        ],
        text: "Find out why {kind} {name} (namespace: {namespace}) fails.\n\
               1. Call `object` with this kind, name and namespace.\n\
               2. Call `event` with the id of its most frequent warning, and read what changed before it began.\n\
               3. If a node, volume or other object is named there, call `object` for that.\n\
               4. Read the coverage line of each answer: what is in a gap is unknown, not absent.\n\
               Answer with the likely cause, the events that show it with their times, and what you could not see.",
    },
    Prompt {
        name: "what-happened",
        description: "What happened in this time?",
        arguments: &[
            ("from", true, "Begin, such as 2h or 2026-03-04T05:00:00Z"),
            (
                "to",
                false,
                "End, in the same forms; now if it is not given",
            ),
        ],
        text: "Tell what happened in the cluster since {from} until {to}.\n\
               1. Call `coverage` for this range, then `top` by reason and by object.\n\
               2. Call `compare` for this range to see what is unusual.\n\
               3. Call `search` with type Warning and the unusual reasons; call `event` for the earliest of each.\n\
               Answer with a timeline of the incidents, the earliest cause first, and with what may be missing.",
    },
    Prompt {
        name: "handover",
        description: "What must the next person on call know?",
        arguments: &[("since", true, "Begin of the shift, such as 8h")],
        text: "Write a handover of what happened since {since}.\n\
               1. Call `compare` since {since}, then `top` by object.\n\
               2. Rows that are \"still going\" are open: call `object` for the most important five.\n\
               3. Call `coverage` for this range.\n\
               Answer with what is open, what is over, what is new since the day before, and what was not observed.",
    },
];

/// The text of a prompt with its arguments.
///
/// # Errors
/// There is no such prompt, or an argument is missing or wrong.
pub(super) fn prompt(name: &str, given: Map<String, Value>) -> Result<String, CallError> {
    let Some(prompt) = PROMPTS.iter().find(|prompt| prompt.name == name) else {
        return Err(CallError::Unknown {
            what: "prompt",
            name: name.to_owned(),
            accepted: PROMPTS.map(|prompt| prompt.name).join(", "),
        });
    };
    let known: Vec<&str> = prompt.arguments.iter().map(|it| it.0).collect();
    let arguments = Arguments::new(given, &known)?;
    let mut text = prompt.text.to_owned();
    for (name, is_required, _) in prompt.arguments {
        let value = if *is_required {
            arguments.required(name)?
        } else {
            let default = if *name == "to" { "now" } else { "not known" };
            arguments.text(name)?.unwrap_or(default)
        };
        // A brace of a value names no other argument.
        let value = clean(value, VALUE_MAX).replace(['{', '}'], " ");
        text = text.replace(&format!("{{{name}}}"), &value);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts_have_their_arguments() {
        let text = |name: &str, given: Value| {
            let given = given.as_object().cloned().unwrap_or_default();
            prompt(name, given).map_err(|error| error.to_string())
        };
        let found = text(
            "investigate",
            json!({"kind": "Pod", "name": "web-0\n{namespace}"}),
        );
        let found = found.unwrap();
        assert!(
            found.starts_with("Find out why Pod web-0  namespace  (namespace: not known) fails.")
        );
        assert!(
            text("what-happened", json!({"from": "2h"}))
                .unwrap()
                .contains("until now.")
        );
        for (name, given, expected) in [
            ("handover", json!({}), "since: is required"),
            (
                "handover",
                json!({"from": "1h"}),
                "from: is no argument of this tool; it takes since",
            ),
            ("other", json!({}), "there is no prompt \"other\""),
        ] {
            assert_eq!(text(name, given), Err(expected.to_owned()), "{name}");
        }
    }
}
