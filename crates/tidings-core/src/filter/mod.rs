//! Filters of events as people write them: `reason:Failed* -reason:Pulled node:worker-1 timeout`.
//!
//! A filter is a list of terms, separated by blank space. A term is `KEY:VALUE` or a text; a `-`
//! before it excludes. `*` stands for any characters, and quotes keep blank space, stars, colons
//! and a leading `-` as they are.
//!
//! An event matches if none of the excluding terms does, if for each key one of its other terms
//! does, and if all texts do. Names are compared as they are written; kinds, types and texts in any
//! case. A text is looked for in the message, the reason, the source and the object.
//!
//! The command, the timeline and configurations use this language; there is no other parser.
//! Everything is bounded, and matching takes time in proportion to the length of the event.

mod pattern;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fmt::Write as _;

pub use pattern::Pattern;

/// Maximum length of a filter, in bytes.
pub const FILTER_LEN_MAX: usize = 8192;
/// Maximum terms of a filter.
pub const TERMS_MAX: usize = 64;
/// Maximum texts among the terms.
pub const TEXTS_MAX: usize = 8;
/// Maximum length of a term's value, in bytes.
pub const VALUE_LEN_MAX: usize = 512;

/// What a term is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Key {
    /// The key `cluster:` selects by the name of the followed cluster in an archive.
    Cluster,
    /// The key `namespace:`, or `ns:`, selects by the event's namespace.
    Namespace,
    /// The key `kind:` selects by the kind of the involvedObject, in upper or lower case.
    Kind,
    /// The key `object:`, or `name:`, selects by the name of the involvedObject, or by its kind, in
    /// upper or lower case, and its name: `object:Pod/web-0`.
    Object,
    /// The key `reason:` selects by the event's reason.
    Reason,
    /// The key `type:` selects by the event's type, in upper or lower case.
    Type,
    /// The key `source:` selects by the reporting component: `source.component`, or else
    /// `reportingComponent`.
    Source,
    /// The key `host:`, or `node:`, selects by the reporting host: `source.host`, or else
    /// `reportingInstance`.
    Host,
    /// The key `text:`, or a word without a key, selects by what people read of the event: its
    /// message, reason, source and object.
    Text,
}

impl Key {
    /// All keys, in the order in which they are documented.
    pub const ALL: [Self; 9] = [
        Self::Reason,
        Self::Type,
        Self::Kind,
        Self::Object,
        Self::Namespace,
        Self::Host,
        Self::Source,
        Self::Cluster,
        Self::Text,
    ];

    /// The key as it is written before the colon.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Kind => "kind",
            Self::Object => "object",
            Self::Reason => "reason",
            Self::Type => "type",
            Self::Source => "source",
            Self::Host => "host",
            Self::Text => "text",
        }
    }

    /// The key of a name or another accepted word, in any case.
    fn of(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        match word.as_str() {
            "ns" => Some(Self::Namespace),
            "name" => Some(Self::Object),
            "node" => Some(Self::Host),
            word => Self::ALL.into_iter().find(|key| key.name() == word),
        }
    }
}

/// The fields of an event that a filter looks at. A field that is not set is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The followed cluster the event is from.
    pub cluster: &'a str,
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `involvedObject.kind`.
    pub kind: &'a str,
    /// `involvedObject.name`.
    pub object: &'a str,
    /// `reason`.
    pub reason: &'a str,
    /// `type`.
    pub event_type: &'a str,
    /// The reporting component.
    pub source: &'a str,
    /// The reporting host.
    pub host: &'a str,
    /// `message`.
    pub message: &'a str,
}

/// How a term compares.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// With the whole field.
    Whole(Pattern),
    /// With the whole field, in any case; the pattern is in lower case.
    AnyCase(Pattern),
    /// With the name of the object, or with its kind and name; in the second pattern the kind is
    /// in lower case.
    KindAndName(Pattern, Pattern),
    /// With parts of several fields, in any case.
    Text(Pattern),
}

/// One condition of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    key: Key,
    is_excluded: bool,
    pattern: Pattern,
    test: Test,
}

impl Term {
    /// Makes a term.
    ///
    /// # Errors
    /// [`InvalidFilter::ValueTooLong`]; [`InvalidFilter::MissingValue`] for an empty text.
    pub fn new(key: Key, is_excluded: bool, pattern: Pattern) -> Result<Self, InvalidFilter> {
        if pattern.len() > VALUE_LEN_MAX {
            return Err(InvalidFilter::ValueTooLong(key.name()));
        }
        let mut pattern = pattern;
        if let (Key::Type, Some(text)) = (key, pattern.exact()) {
            let known = ["Normal", "Warning"].into_iter();
            let mut known = known.filter(|known| known.eq_ignore_ascii_case(text));
            pattern = known.next().map_or(pattern.clone(), Pattern::of);
        }
        let lower = || pattern.map(str::to_lowercase);
        let test = match key {
            Key::Text if pattern.len() == 0 => {
                return Err(InvalidFilter::MissingValue(key.name()));
            }
            Key::Text => Test::Text(lower()),
            Key::Kind | Key::Type => Test::AnyCase(lower()),
            Key::Object => match pattern.lower_before('/') {
                Some(lower) => Test::KindAndName(pattern.clone(), lower),
                None => Test::Whole(pattern.clone()),
            },
            _ => Test::Whole(pattern.clone()),
        };
        Ok(Self {
            key,
            is_excluded,
            pattern,
            test,
        })
    }

    /// What the term is compared with.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Whether events that match the term are left out.
    pub fn is_excluded(&self) -> bool {
        self.is_excluded
    }

    /// The value that is compared.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether a value of the term's key has what the term says, included or excluded.
    fn has(&self, value: &str) -> bool {
        match &self.test {
            Test::Whole(pattern) => pattern.matches(value),
            Test::AnyCase(pattern) => pattern.matches(&value.to_lowercase()),
            Test::KindAndName(plain, lower) => {
                let name = value.split_once('/');
                plain.matches(value)
                    || name.is_some_and(|(kind, name)| {
                        lower.matches(&format!("{}/{name}", kind.to_lowercase()))
                    })
            }
            Test::Text(pattern) => pattern.is_in(&value.to_lowercase()),
        }
    }

    /// Whether an event has what the term says, included or excluded.
    fn is_of(&self, fields: &Fields<'_>, texts: &[String]) -> bool {
        let value = match self.key {
            Key::Cluster => fields.cluster,
            Key::Namespace => fields.namespace,
            Key::Kind => fields.kind,
            Key::Object => fields.object,
            Key::Reason => fields.reason,
            Key::Type => fields.event_type,
            Key::Source => fields.source,
            Key::Host => fields.host,
            Key::Text => "",
        };
        match &self.test {
            Test::KindAndName(plain, lower) => {
                let (kind, name) = (fields.kind, fields.object);
                plain.matches(name)
                    || plain.matches(&format!("{kind}/{name}"))
                    || lower.matches(&format!("{}/{name}", kind.to_lowercase()))
            }
            Test::Text(pattern) => texts.iter().any(|text| pattern.is_in(text)),
            Test::Whole(_) | Test::AnyCase(_) => self.has(value),
        }
    }
}

/// The term as it is written in a filter.
impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_excluded {
            formatter.write_char('-')?;
        }
        match self.key {
            Key::Text => self.pattern.write(formatter, true),
            key => {
                write!(formatter, "{}:", key.name())?;
                self.pattern.write(formatter, false)
            }
        }
    }
}

/// A filter of events; the default selects all.
///
/// ```
/// use tidings_core::filter::{Fields, Filter};
///
/// let filter: Filter = "reason:Failed* -reason:FailedMount node:worker-1".parse()?;
/// let event = Fields { reason: "FailedScheduling", host: "worker-1", ..Fields::default() };
/// assert!(filter.selects(&event));
/// assert!(!filter.selects(&Fields { reason: "FailedMount", ..event }));
///
/// let unknown = "raeson:BackOff".parse::<Filter>().unwrap_err();
/// assert!(unknown.to_string().contains("reason, type, kind"));
/// # Ok::<(), tidings_core::filter::InvalidFilter>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

impl Filter {
    /// Adds a term, unless the filter has it.
    ///
    /// # Errors
    /// [`InvalidFilter::TooManyTerms`] and [`InvalidFilter::TooManyTexts`].
    pub fn add(&mut self, term: Term) -> Result<(), InvalidFilter> {
        if self.terms.contains(&term) {
            return Ok(());
        }
        let texts = self.of(Key::Text).count();
        if term.key == Key::Text && texts >= TEXTS_MAX {
            return Err(InvalidFilter::TooManyTexts);
        }
        if self.terms.len() >= TERMS_MAX {
            return Err(InvalidFilter::TooManyTerms);
        }
        self.terms.push(term);
        Ok(())
    }

    /// Adds the terms of another filter.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn extend(&mut self, other: Self) -> Result<(), InvalidFilter> {
        other.terms.into_iter().try_for_each(|term| self.add(term))
    }

    /// The terms, in the order in which they were written.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The terms of a key.
    pub fn of(&self, key: Key) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(move |term| term.key == key)
    }

    /// Whether the filter has a term of a key.
    pub fn has(&self, key: Key) -> bool {
        self.of(key).next().is_some()
    }

    /// The filter without the terms of a key.
    #[must_use]
    pub fn without(mut self, key: Key) -> Self {
        self.terms.retain(|term| term.key != key);
        self
    }

    /// The values that a key may have, if these are few: its included terms are names without a
    /// star. Empty if it may have others. An [object](Key::Object) may be `Kind/name`.
    pub fn only(&self, key: Key) -> Vec<&str> {
        let included = self.of(key).filter(|term| !term.is_excluded);
        let values: Option<Vec<&str>> = included.map(|term| term.pattern.exact()).collect();
        let mut values = values.unwrap_or_default();
        values.retain(|value| self.accepts(key, value));
        values
    }

    /// Whether the terms of a key select a value of it, such as the name of a cluster.
    pub fn accepts(&self, key: Key, value: &str) -> bool {
        self.select(key, |term| term.has(value))
    }

    /// Whether the filter selects an event.
    pub fn selects(&self, event: &Fields<'_>) -> bool {
        let texts = if self.has(Key::Text) {
            let object = format!("{}/{}", event.kind, event.object);
            let fields = [event.message, event.reason, event.source, &object];
            fields.map(str::to_lowercase).to_vec()
        } else {
            Vec::new()
        };
        let mut keys = Key::ALL.into_iter();
        keys.all(|key| self.select(key, |term| term.is_of(event, &texts)))
    }

    fn select(&self, key: Key, is: impl Fn(&Term) -> bool) -> bool {
        let (mut is_asked, mut is_found) = (false, false);
        for term in self.of(key) {
            let has = is(term);
            if term.is_excluded {
                if has {
                    return false;
                }
            } else if key == Key::Text && !has {
                return false;
            } else {
                is_asked = true;
                is_found |= has;
            }
        }
        !is_asked || is_found
    }

    /// Parts of the texts that a selected event has, in lower case.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.of(Key::Text).filter(|term| !term.is_excluded);
        texts
            .flat_map(|term| match &term.test {
                Test::Text(pattern) => pattern.parts(),
                _ => &[],
            })
            .map(String::as_str)
            .filter(|part| !part.is_empty())
    }
}

/// The filter as it is written, which [`FromStr`](std::str::FromStr) reads again.
impl fmt::Display for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, term) in self.terms.iter().enumerate() {
            let space = if number > 0 { " " } else { "" };
            write!(formatter, "{space}{term}")?;
        }
        Ok(())
    }
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFilter {
    /// A key that does not exist.
    #[error(
        "no filter has the key {0:?}: the keys are {keys}; a text with a colon stands in quotes",
        keys = Key::ALL.map(Key::name).join(", ")
    )]
    UnknownKey(String),
    /// A key or a `-` without a value.
    #[error("{0}: in a filter has no value; an empty value is written as {0}:\"\"")]
    MissingValue(&'static str),
    /// A quote without its end.
    #[error("a quote in the filter has no end")]
    OpenQuote,
    /// A value of more than [`VALUE_LEN_MAX`] bytes.
    #[error("a value of {0} in the filter is longer than {VALUE_LEN_MAX} bytes")]
    ValueTooLong(&'static str),
    /// More than [`TERMS_MAX`] terms.
    #[error("the filter has more than {TERMS_MAX} terms")]
    TooManyTerms,
    /// More than [`TEXTS_MAX`] texts.
    #[error("the filter has more than {TEXTS_MAX} texts")]
    TooManyTexts,
    /// More than [`FILTER_LEN_MAX`] bytes.
    #[error("the filter is longer than {FILTER_LEN_MAX} bytes")]
    TooLong,
}
