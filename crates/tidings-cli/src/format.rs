//! The output formats of `-o`.

use crate::columns::Columns;
use crate::jsonpath::Template;

/// The values of `-o`, for help and error messages.
pub const FORMATS: &str = "wide, json, yaml, jsonl (one object per line), name, custom-columns=HEADING:.path,… or jsonpath={…}";

/// An output format.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// A table with a row for each event.
    Rows(Rows),
    /// A format for programs.
    Objects(Objects),
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Rows {
    /// The columns of `kubectl events`.
    Table,
    /// The columns of `kubectl get events -o wide`.
    Wide,
    /// Custom columns.
    Custom(Columns),
}

/// A format of events as objects.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Objects {
    /// A List; for a watch, one object after the other.
    Json,
    /// A List; for a watch, one document for each event.
    Yaml,
    /// A JSON object on each line.
    JsonLines,
    /// `event/NAME` on each line.
    Name,
    /// A template of the List; for a watch, of each event.
    Template(Template),
}

impl Default for Format {
    fn default() -> Self {
        Self::Rows(Rows::Table)
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, argument) = match text.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        Ok(match (name, argument) {
            ("table", None) => Self::Rows(Rows::Table),
            ("wide", None) => Self::Rows(Rows::Wide),
            ("custom-columns", Some(columns)) => Self::Rows(Rows::Custom(columns.parse()?)),
            ("json", None) => Self::Objects(Objects::Json),
            ("yaml", None) => Self::Objects(Objects::Yaml),
            ("jsonl", None) => Self::Objects(Objects::JsonLines),
            ("name", None) => Self::Objects(Objects::Name),
            ("jsonpath", Some(template)) => Self::Objects(Objects::Template(template.parse()?)),
            _ => return Err(format!("expected {FORMATS}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_that_are_not_there() {
        for text in ["", "go-template={{.}}", "jsonpath", "xml", "json=x"] {
            let error = text.parse::<Format>().unwrap_err();
            assert!(error.contains("expected wide, json"), "{error}");
        }
    }

    /// The match must name all forms. A new form must be added to `FORMATS`, `from_str` and the
    /// test below, too.
    fn name_of(form: &Format) -> &'static str {
        match form {
            Format::Rows(Rows::Table) => "table",
            Format::Rows(Rows::Wide) => "wide",
            Format::Rows(Rows::Custom(_)) => "custom-columns",
            Format::Objects(Objects::Json) => "json",
            Format::Objects(Objects::Yaml) => "yaml",
            Format::Objects(Objects::JsonLines) => "jsonl",
            Format::Objects(Objects::Name) => "name",
            Format::Objects(Objects::Template(_)) => "jsonpath",
        }
    }

    #[test]
    fn forms_that_are_there_are_named() {
        for text in [
            "wide",
            "json",
            "yaml",
            "jsonl",
            "name",
            "custom-columns=NAME:.metadata.name",
            "jsonpath={.items}",
        ] {
            let name = text.split('=').next().unwrap_or_default();
            assert_eq!(name_of(&text.parse().unwrap()), name);
            assert!(FORMATS.contains(name), "{name}");
        }
    }
}
