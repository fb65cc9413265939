//! kubectl's flags and verbs that users type out of habit. Those that cost nothing are accepted;
//! for the others, the error says what to type instead.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, Error};

use super::removed;

/// Flags of kubectl that are not accepted, and what to use instead.
const FLAGS: [(&str, &str); 18] = [
    (
        "--allow-missing-template-keys",
        "a field that is not there prints as nothing; leave it out",
    ),
    (
        "--chunk-size",
        "events are read in pages of 500; leave it out",
    ),
    ("--filename", "--file reads captures"),
    ("-f", "--file reads captures"),
    ("--follow", "-w continues with new events"),
    (
        "--grep",
        "--filter TEXT finds a text, in quotes if it has blank space",
    ),
    (
        "-g",
        "--filter TEXT finds a text, in quotes if it has blank space",
    ),
    (
        "--ignore-not-found",
        "that nothing is found is no error; leave it out",
    ),
    (
        "--label-columns",
        "-o custom-columns=APP:.metadata.labels.app shows one label, --show-labels all",
    ),
    (
        "-L",
        "-o custom-columns=APP:.metadata.labels.app shows one label, --show-labels all",
    ),
    (
        "--output-watch-events",
        "-w -o jsonl prints the event of each change",
    ),
    (
        "--show-kind",
        "an object is always shown with its kind; leave it out",
    ),
    (
        "--show-managed-fields",
        "-o json prints every field; leave it out",
    ),
    ("--reason", "--filter reason:BackOff finds a reason"),
    ("--since-time", "--since takes a time, too"),
    ("--source", "--filter source:kubelet finds a source"),
    ("--tail", "--limit shows the last events only"),
    ("--template", "-o jsonpath={…} takes a template"),
];

/// Verbs of kubectl, and our verbs of the same purpose.
const VERBS: [(&str, &str); 6] = [
    ("event", "tidings events shows events"),
    (
        "get",
        "tidings events takes the flags of kubectl get events",
    ),
    ("list", "tidings events shows events"),
    (
        "logs",
        "tidings events --for pod/NAME shows what happened to a pod",
    ),
    (
        "apply",
        "tidings import writes events, and tidings record a new one",
    ),
    ("watch", "tidings events -w continues with new events"),
];

/// Allows a value for each switch, as kubectl does: `--watch=true`.
pub(super) fn with_values_of_switches(command: Command) -> Command {
    command.mut_subcommands(|verb| {
        verb.mut_args(|arg| {
            if !matches!(arg.get_action(), ArgAction::SetTrue) {
                return arg;
            }
            arg.action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .default_value("false")
                .value_parser(switch)
        })
    })
}

/// Parses true or false as Go does (`strconv.ParseBool`).
fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// Adds what to type instead to an error, if that is known.
pub(super) fn with_advice(mut error: Error) -> Error {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    // The usage begins with the verb: `Usage: tidings serve`.
    let verb = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let verb = verb.split_whitespace().nth(2).unwrap_or_default();
    let advice = match error.kind() {
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg).and_then(|given| {
            let known = FLAGS.iter().find(|(flag, _)| *flag == given);
            let known = known.map(|(_, advice)| *advice);
            match known.or_else(|| removed::advice(verb, &given)) {
                Some(advice) => Some(advice.to_owned()),
                None if !given.starts_with('-') => Some(
                    "an object is named with --for KIND/NAME, such as --for pod/web-0".to_owned(),
                ),
                None => None,
            }
        }),
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand).and_then(|given| {
            let known = VERBS.iter().find(|(verb, _)| *verb == given);
            known.map(|(_, advice)| (*advice).to_owned())
        }),
        _ => None,
    };
    if let Some(advice) = advice {
        // Suggestions by spelling would not be better.
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        let advice = ContextValue::StyledStrs(vec![StyledStr::from(advice)]);
        error.insert(ContextKind::Suggested, advice);
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::super::Command as Tidings;
    use super::*;

    fn parsed(words: &str) -> Result<Tidings, Error> {
        let command = with_values_of_switches(Tidings::command());
        let matches = command.try_get_matches_from(words.split(' '));
        Tidings::from_arg_matches(&matches.map_err(with_advice)?)
    }

    #[test]
    fn switches_take_a_value_as_those_of_kubectl() {
        for (words, expected) in [
            ("tidings events", [false, false]),
            ("tidings events -A -w", [true, true]),
            ("tidings events -Aw", [true, true]),
            ("tidings events --watch=true -A=true", [true, true]),
            ("tidings events -w=1 -A=F", [false, true]),
            ("tidings events -Aw=false", [true, false]),
            (
                "tidings events --all-namespaces=True --watch=false",
                [true, false],
            ),
        ] {
            let command = parsed(words).unwrap();
            let shown = format!("{command:?}");
            let all = shown.contains("all_namespaces: true");
            assert_eq!([all, shown.contains(" watch: true")], expected, "{words}");
        }
        let error = parsed("tidings events --watch=maybe")
            .unwrap_err()
            .to_string();
        assert!(error.contains("expected true or false"), "{error}");
        // A separate word is no value of a switch.
        assert!(parsed("tidings events --watch true").is_err());
    }

    #[test]
    fn what_is_not_taken_is_answered_with_what_is() {
        for (words, advice) in [
            ("tidings get events", "tidings events takes the flags"),
            ("tidings events pod/web-0", "--for pod/web-0"),
            ("tidings events -L app", "--show-labels all"),
            ("tidings events --chunk-size=500", "in pages of 500"),
            ("tidings events --output-watch-events -w", "-o jsonl"),
            ("tidings describe pod/a --tail 3", "--limit"),
            ("tidings events --reason=A", "--filter reason:"),
            ("tidings top -g oom", "--filter TEXT"),
            ("tidings serve --max-request-bytes=1Mi", "at most 3Mi"),
            ("tidings archive -l app=web", "labelSelector in the file"),
        ] {
            let error = parsed(words).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(advice), "{words}: {error}");
        }
        // Only the verbs that had a flag say what holds instead.
        for words in [
            "tidings timeline -l app=web",
            "tidings mcp --selector=a",
            "tidings sealed -n x",
            "tidings serve --namespace x",
            "tidings archive --etcd-username x",
        ] {
            let error = parsed(words).unwrap_err().to_string();
            assert!(!error.contains("file of --clusters"), "{words}: {error}");
            assert!(!error.contains("says what is followed"), "{words}: {error}");
            assert!(!error.contains("passwords"), "{words}: {error}");
        }
    }
}
