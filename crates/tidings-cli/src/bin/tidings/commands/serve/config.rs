//! `--config`: a YAML file with a setting for each flag, by the flag's name. The settings are
//! inserted as arguments before those of the command line, which therefore take precedence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::commands::removed;

/// The verbs that accept the settings.
const VERBS: [&str; 2] = ["serve", "archive"];

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub(crate) struct ConfigError {
    /// The verb that was given.
    pub(crate) verb: &'static str,
    path: PathBuf,
    message: String,
}

/// Adds the settings of the file that `--config` names to the arguments, if there is one.
///
/// # Errors
/// The error in the file, and its line.
pub(crate) fn expand(
    command: &clap::Command,
    mut args: Vec<OsString>,
) -> Result<Vec<OsString>, ConfigError> {
    // Errors in the arguments are reported when they are parsed again later.
    let matches = command.clone().ignore_errors(true);
    let Ok(matches) = matches.try_get_matches_from(&args) else {
        return Ok(args);
    };
    let Some((name, given)) = matches.subcommand() else {
        return Ok(args);
    };
    let Some(name) = VERBS.into_iter().find(|verb| *verb == name) else {
        return Ok(args);
    };
    let Ok(Some(path)) = given.try_get_one::<PathBuf>("config") else {
        return Ok(args);
    };
    let (Some(verb), Some(at)) = (
        command.find_subcommand(name),
        args.iter().position(|arg| arg == name),
    ) else {
        return Ok(args);
    };
    let settings = read(path, verb, given).map_err(|message| ConfigError {
        verb: name,
        path: path.clone(),
        message,
    })?;
    args.splice(at + 1..=at, settings);
    Ok(args)
}

fn read(path: &Path, verb: &clap::Command, given: &ArgMatches) -> Result<Vec<OsString>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let settings: Option<BTreeMap<String, Spanned<Value>>> =
        serde_saphyr::from_str(&text).map_err(|error| error.without_snippet().to_string())?;
    let mut settings: Vec<_> = settings.unwrap_or_default().into_iter().collect();
    // The first mistake in the file is reported first.
    settings.sort_by_key(|(_, value)| value.referenced.line());
    let mut args = Vec::new();
    for (name, value) in settings {
        let at = |message: String| format!("line {}: {message}", value.referenced.line());
        let flag = find(verb, &name).ok_or_else(|| at(unknown(verb, &name)))?;
        let arguments = arguments(flag, &name, &value.value).map_err(at)?;
        check(verb, &arguments).map_err(at)?;
        let on_command_line =
            given.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine);
        if !on_command_line {
            args.extend(arguments);
        }
    }
    Ok(args)
}

/// The flags that a file may set.
fn flags(verb: &clap::Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments()
        .filter(|arg| !matches!(arg.get_id().as_str(), "config" | "help" | "version"))
}

fn find<'a>(verb: &'a clap::Command, name: &str) -> Option<&'a Arg> {
    flags(verb).find(|arg| {
        arg.get_long() == Some(name)
            || arg
                .get_all_aliases()
                .is_some_and(|aliases| aliases.contains(&name))
    })
}

fn unknown(verb: &clap::Command, name: &str) -> String {
    if let Some(advice) = removed::advice(verb.get_name(), &format!("--{name}")) {
        return format!("there is no setting {name:?}: {advice}");
    }
    let nearest = flags(verb)
        .filter_map(Arg::get_long)
        .map(|flag| (strsim::jaro_winkler(flag, name), flag))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, nearest)) => {
            format!("there is no setting {name:?}; the nearest is {nearest:?}")
        }
        None => format!("there is no setting {name:?}; settings have the names of flags"),
    }
}

/// Converts a setting to arguments.
fn arguments(flag: &Arg, name: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let argument = |value: String| vec![OsString::from(format!("--{name}={value}"))];
    if matches!(flag.get_action(), ArgAction::SetTrue) {
        return match value {
            Value::Bool(true) => Ok(vec![OsString::from(format!("--{name}"))]),
            Value::Bool(false) => Ok(Vec::new()),
            _ => Err(format!("{name} must be true or false")),
        };
    }
    match value {
        Value::Array(values) => {
            let values: Option<Vec<String>> = values.iter().map(scalar).collect();
            let values = values.ok_or_else(|| format!("{name} must be a list of plain values"))?;
            match (flag.get_value_delimiter(), flag.get_action()) {
                _ if values.is_empty() => Ok(Vec::new()),
                (Some(delimiter), _) => Ok(argument(values.join(&delimiter.to_string()))),
                (None, ArgAction::Append) => Ok(values.into_iter().flat_map(argument).collect()),
                _ => Err(format!("{name} must be one value, not a list")),
            }
        }
        one => scalar(one)
            .map(argument)
            .ok_or_else(|| format!("{name} must be a plain value")),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Checks that the command accepts these arguments; others may still be missing.
fn check(verb: &clap::Command, arguments: &[OsString]) -> Result<(), String> {
    let name = OsString::from(verb.get_name());
    let parsed = verb
        .clone()
        .try_get_matches_from([&name].into_iter().chain(arguments));
    match parsed {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::TooManyValues
            ) =>
        {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Err(line.trim_start_matches("error: ").to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::CommandFactory;

    use super::*;
    use crate::commands::Command;

    fn expanded(file: &str, args: &[&str]) -> Result<Vec<String>, String> {
        let mut config = tempfile::NamedTempFile::new().unwrap();
        config.write_all(file.as_bytes()).unwrap();
        let path = config.path().to_str().unwrap();
        let mut all = vec!["tidings", "serve", "--config", path];
        all.extend(args);
        let all = all.into_iter().map(OsString::from).collect();
        match expand(&Command::command(), all) {
            Ok(args) => {
                let args = args.into_iter().map(|arg| arg.into_string().unwrap());
                Ok(args
                    .filter(|arg| arg != path && arg != "--config")
                    .skip(2)
                    .collect())
            }
            Err(error) => Err(error.to_string().replace(path, "FILE")),
        }
    }

    #[test]
    fn settings_become_arguments_and_the_command_line_wins() {
        let file = "
data-dir: ./events
secure-port: 6444
event-ttl: 2h
namespaces: [a, b]
no-timeline: true
anonymous-auth: false
logging-format: json
";
        assert_eq!(
            expanded(file, &["--event-ttl", "3h"]).unwrap(),
            [
                "--data-dir=./events",
                "--secure-port=6444",
                "--namespaces=a,b",
                "--no-timeline",
                "--logging-format=json",
                "--event-ttl",
                "3h"
            ]
        );
        assert_eq!(expanded("", &["--data-dir=x"]).unwrap(), ["--data-dir=x"]);
        // Without --config the arguments are unchanged, even if they are wrong.
        let args: Vec<OsString> = ["tidings", "serve", "--nonsense"]
            .map(OsString::from)
            .into();
        assert_eq!(expand(&Command::command(), args.clone()).unwrap(), args);
    }

    #[test]
    fn mistakes_are_said_with_their_line() {
        for (file, said) in [
            (
                "data-dir: x\nevent-tll: 1h\n",
                "FILE: line 2: there is no setting \"event-tll\"; the nearest is \"event-ttl\"",
            ),
            ("config: x\n", "line 1: there is no setting \"config\""),
            (
                "data-dir: x\n\nevent-ttl: soon\n",
                "line 3: invalid value 'soon'",
            ),
            ("secure-port: 99999\n", "line 1: invalid value '99999'"),
            (
                "authorization-mode: maybe\n",
                "line 1: invalid value 'maybe'",
            ),
            (
                "bookmark-interval: 1m\n",
                "line 1: there is no setting \"bookmark-interval\": bookmarks are sent every minute",
            ),
            (
                "event-ttl: [1h, 2h]\n",
                "line 1: event-ttl must be one value",
            ),
            ("event-ttl:\n", "line 1: event-ttl must be a plain value"),
            ("no-timeline: 1\n", "must be true or false"),
            ("event-ttl: 1h\nevent-ttl: 2h\n", "event-ttl"),
            ("- a\n", "FILE: "),
        ] {
            let error = expanded(file, &[]).unwrap_err();
            assert!(error.contains(said), "{file:?}: {error}");
        }
        let args = ["tidings", "serve", "--config", "/nowhere/x"].map(OsString::from);
        let error = expand(&Command::command(), args.into()).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/x: "), "{error}");
    }
}
