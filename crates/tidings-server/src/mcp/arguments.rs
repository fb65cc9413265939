//! The arguments of a call. A wrong one is an error that says what is accepted.

use serde_json::{Map, Value};
use tidings_core::filter::{Filter, Key, Pattern, Term, VALUE_LEN_MAX};
use tidings_core::validate::check_dns1123_label;

use super::errors::CallError;
use super::page::{self, Cursor};
use crate::http::moment::parse_moment;

/// An hour in milliseconds.
pub(super) const HOUR: i64 = 3_600_000;

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// The arguments of a call, of which only these names are known.
    ///
    /// # Errors
    /// An unknown name.
    pub(super) fn new(given: Map<String, Value>, known: &[&str]) -> Result<Self, CallError> {
        let unknown = given.keys().find(|name| !known.contains(&name.as_str()));
        match unknown {
            None => Ok(Self(given)),
            Some(name) => {
                let why = format!("is no argument of this tool; it takes {}", known.join(", "));
                Err(CallError::argument(name, why))
            }
        }
    }

    /// A text that is not empty, if it is given.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, CallError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.len() > VALUE_LEN_MAX => {
                let why = format!("is longer than {VALUE_LEN_MAX} bytes");
                Err(CallError::argument(name, why))
            }
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(CallError::argument(name, "is a text")),
        }
    }

    /// A required text.
    pub(super) fn required(&self, name: &str) -> Result<&str, CallError> {
        self.text(name)?
            .ok_or_else(|| CallError::argument(name, "is required"))
    }

    /// One of some words; the first is the default.
    pub(super) fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str, CallError> {
        let given = self.text(name)?;
        let word = words
            .iter()
            .find(|word| given.is_none_or(|given| given == **word));
        word.copied()
            .ok_or_else(|| CallError::argument(name, format!("is one of {}", words.join(", "))))
    }

    /// A number within bounds.
    pub(super) fn number(
        &self,
        name: &str,
        (min, max): (usize, usize),
        default: usize,
    ) -> Result<usize, CallError> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_null()) else {
            return Ok(default);
        };
        let number = value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| {
            CallError::argument(name, format!("is a whole number from {min} to {max}"))
        })
    }

    /// A switch that is on unless it is turned off.
    pub(super) fn switch(&self, name: &str) -> Result<bool, CallError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(true),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(CallError::argument(name, "is true or false")),
        }
    }

    /// The bound of the answer in bytes.
    pub(super) fn max_bytes(&self) -> Result<usize, CallError> {
        self.number("maxBytes", (page::BYTES_MIN, page::BYTES_MAX), page::BYTES)
    }

    /// The maximum of events or rows.
    pub(super) fn limit(&self) -> Result<usize, CallError> {
        self.number("limit", (1, 100), 30)
    }

    /// The cursor, if it is given.
    pub(super) fn cursor(&self) -> Result<Option<Cursor<'_>>, CallError> {
        let cursor = self.text("cursor")?.map(|text| {
            let (at, place) = text.split_once('~')?;
            let at = at.parse().ok()?;
            Some(Cursor { at, place })
        });
        let wrong = || CallError::argument("cursor", "is not one of this tool's answers");
        cursor.map(|cursor| cursor.ok_or_else(wrong)).transpose()
    }

    /// The time from which durations count: that of the list's first page, or else `now`.
    pub(super) fn began(&self, now: i64) -> Result<i64, CallError> {
        let cursor = self.cursor()?;
        Ok(cursor.map_or(now, |cursor| cursor.at.min(now)))
    }

    /// A moment in milliseconds, if it is given.
    pub(super) fn moment(&self, name: &str, now: i64) -> Result<Option<i64>, CallError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let now = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
        let found = parse_moment(text, now);
        let found = found.map_err(|why| CallError::argument(name, why))?;
        Ok(Some(found.as_millisecond()))
    }

    /// The range from `since` to `until`; without them, the last `default` milliseconds. `None` as
    /// its end means until now. `now` is when the list's first page was read.
    pub(super) fn range(
        &self,
        (since, until): (&str, &str),
        now: i64,
        default: i64,
    ) -> Result<(i64, Option<i64>), CallError> {
        let to = self.moment(until, now)?;
        let end = to.unwrap_or(now);
        let from = self.moment(since, now)?;
        let from = from.unwrap_or_else(|| end.saturating_sub(default));
        if from >= end {
            let why = format!("is not before {until}, which is now if it is not given");
            return Err(CallError::argument(since, why));
        }
        Ok((from, to))
    }

    /// The query for the cluster and namespace, and the filter of the other conditions.
    pub(super) fn selection(&self) -> Result<Query, CallError> {
        let mut filter = Filter::default();
        if let Some(text) = self.text("filter")? {
            let wrong = |why: String| CallError::argument("filter", why);
            filter = text.parse().map_err(|why| wrong(format!("{why}")))?;
        }
        for key in [Key::Object, Key::Kind, Key::Reason, Key::Type, Key::Text] {
            let name = key.name();
            let Some(value) = self.text(name)? else {
                continue;
            };
            // A pattern such as Failed*, if it is one word; any other text is meant as it is.
            let is_word = !value.contains(|it: char| it.is_whitespace() || "\"'\\:".contains(it));
            let parsed = format!("{name}:{value}").parse::<Filter>();
            let added = match parsed {
                Ok(parsed) if is_word => filter.extend(parsed),
                _ => Term::new(key, false, Pattern::of(value)).and_then(|term| filter.add(term)),
            };
            added.map_err(|why| CallError::argument(name, format!("{why}")))?;
        }
        let mut query = self.place()?;
        query.add("filter", &filter.to_string());
        Ok(query)
    }

    /// The query for the cluster and namespace.
    pub(super) fn place(&self) -> Result<Query, CallError> {
        let mut query = Query::default();
        let cluster = self.text("cluster")?.filter(|cluster| *cluster != "-");
        query.add("cluster", cluster.unwrap_or_default());
        query.add("namespace", self.namespace()?);
        Ok(query)
    }

    /// The namespace; empty if none is given.
    pub(super) fn namespace(&self) -> Result<&str, CallError> {
        let namespace = self.text("namespace")?.unwrap_or_default();
        if namespace.is_empty() || check_dns1123_label(namespace).is_empty() {
            return Ok(namespace);
        }
        let why = "is one name of a-z, 0-9 and -; leave it out to read all that you may";
        Err(CallError::argument("namespace", why))
    }
}

/// A query of the timeline's API.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Adds a parameter, unless its value is empty.
    pub(super) fn add(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.0.push((name, value.to_owned()));
        }
    }

    /// Whether it has a parameter.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// The query with another parameter.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.add(name, value);
        self
    }

    /// The query with a range; without its end, the range reaches until now.
    pub(super) fn within(self, (from, to): (i64, Option<i64>)) -> Self {
        let to = to.map(|to| to.to_string());
        self.with("from", &from.to_string())
            .with("to", &to.unwrap_or_default())
    }

    /// Its text in a URI.
    pub(super) fn encoded(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.0).finish()
    }
}
