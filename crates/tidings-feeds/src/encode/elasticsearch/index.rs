//! Names of indices.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Maximum bytes of an index's name.
const INDEX_LEN_MAX: usize = 255;

/// The name of an index. `{yyyy.MM.dd}` in it is the date, in UTC, on which a version was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    before: String,
    date: String,
    after: String,
}

/// A text is no name of an index.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is no index: lowercase without blank space and any of \\/*?\"<>|,#:, not beginning with \
     '-', '_' or '+', at most {INDEX_LEN_MAX} bytes, with at most one date of yyyy, MM and dd in {{}}"
)]
pub struct IndexError(String);

impl Index {
    /// Reads a name with at most one date in braces.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        let refused = || IndexError(text.to_owned());
        let (before, (date, after)) = match text.split_once('{') {
            Some((before, rest)) => (before, rest.split_once('}').ok_or_else(refused)?),
            None => (text, ("", "")),
        };
        let rest = date.replace("yyyy", "").replace("MM", "").replace("dd", "");
        let is_date = rest.bytes().all(|byte| matches!(byte, b'.' | b'-' | b'_'));
        let has_braces = before.len() < text.len();
        if !is_date || (has_braces && rest.len() == date.len()) {
            return Err(refused());
        }
        let [before, date, after] = [before, date, after].map(str::to_owned);
        let index = Self {
            before,
            date,
            after,
        };
        // The names of all days have the same length.
        let name = index.on(Timestamp::UNIX_EPOCH);
        let is_refused = |c: char| {
            c.is_whitespace() || c.is_control() || c.is_uppercase() || "\\/*?\"<>|,#:{}".contains(c)
        };
        let is_name = !name.is_empty()
            && !name.chars().any(is_refused)
            && !name.starts_with(['-', '_', '+'])
            && name != "."
            && name != ".."
            && name.len() <= INDEX_LEN_MAX;
        is_name.then_some(index).ok_or_else(refused)
    }

    /// Whether the name has a date.
    pub fn is_dated(&self) -> bool {
        !self.date.is_empty()
    }

    /// Returns a pattern of the names on all days.
    pub(super) fn pattern(&self) -> String {
        let star = if self.is_dated() { "*" } else { "" };
        format!("{}{star}{}", self.before, self.after)
    }

    /// Returns the name on the day of this time.
    pub(super) fn on(&self, observed: Timestamp) -> String {
        let day = observed.to_zoned(jiff::tz::TimeZone::UTC).date();
        let date = self.date.replace("yyyy", &format!("{:04}", day.year()));
        let date = date.replace("MM", &format!("{:02}", day.month()));
        let date = date.replace("dd", &format!("{:02}", day.day()));
        format!("{}{date}{}", self.before, self.after)
    }
}

impl Default for Index {
    /// `kubernetes-events`.
    fn default() -> Self {
        Self {
            before: "kubernetes-events".to_owned(),
            date: String::new(),
            after: String::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}
