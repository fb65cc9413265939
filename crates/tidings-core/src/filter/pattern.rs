//! A value with stars: the texts between them, of which those in the middle are not empty.

use std::fmt;
use std::fmt::Write as _;

/// A value that is compared: a text in which a star stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The texts between the stars, at least one. The first and the last may be empty.
    parts: Vec<String>,
}

impl Pattern {
    /// A value without a star.
    pub fn of(text: &str) -> Self {
        Self {
            parts: vec![text.to_owned()],
        }
    }

    /// A value in which each star stands for any characters.
    pub fn glob(text: &str) -> Self {
        Self::of_parts(text.split('*').map(str::to_owned).collect())
    }

    /// Makes a pattern of the texts between its stars.
    pub(super) fn of_parts(mut parts: Vec<String>) -> Self {
        let last = parts.len().saturating_sub(1);
        let mut at = 0;
        // Two stars are one.
        parts.retain(|part| {
            let is_inner = at > 0 && at < last;
            at += 1;
            !is_inner || !part.is_empty()
        });
        if parts.is_empty() {
            parts.push(String::new());
        }
        Self { parts }
    }

    /// The value, if it has no star.
    pub fn exact(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The texts between the stars.
    pub(super) fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The number of bytes, without stars.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(String::len).sum()
    }

    pub(super) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self {
            parts: self.parts.iter().map(|part| change(part)).collect(),
        }
    }

    /// The pattern with what is before the first such character in lower case, if it has one.
    pub(super) fn lower_before(&self, at: char) -> Option<Self> {
        let index = self.parts.iter().position(|part| part.contains(at))?;
        let parts = self.parts.iter().enumerate();
        let parts = parts.map(|(number, part)| match part.split_once(at) {
            Some((before, after)) if number == index => {
                format!("{}{at}{after}", before.to_lowercase())
            }
            _ if number < index => part.to_lowercase(),
            _ => part.clone(),
        });
        Some(Self {
            parts: parts.collect(),
        })
    }

    /// Whether a whole text has this form.
    pub fn matches(&self, text: &str) -> bool {
        let [first, inner @ .., last] = self.parts.as_slice() else {
            return self.exact() == Some(text);
        };
        let inside = text.strip_prefix(first.as_str());
        let inside = inside.and_then(|rest| rest.strip_suffix(last.as_str()));
        inside.is_some_and(|rest| follow(inner, rest))
    }

    /// Whether a part of a text has this form.
    pub(super) fn is_in(&self, text: &str) -> bool {
        follow(&self.parts, text)
    }

    /// Writes the value, with quotes around parts that would be read as something else.
    pub(super) fn write(&self, formatter: &mut fmt::Formatter<'_>, is_text: bool) -> fmt::Result {
        for (number, part) in self.parts.iter().enumerate() {
            if number > 0 {
                formatter.write_char('*')?;
            }
            let is_special = |character: char| {
                character.is_whitespace()
                    || matches!(character, '"' | '*')
                    || (is_text && character == ':')
            };
            let is_nothing = part.is_empty() && self.parts.len() == 1;
            let excludes = is_text && number == 0 && part.starts_with('-');
            if is_nothing || excludes || part.contains(is_special) {
                let escaped = part.replace('\\', "\\\\").replace('"', "\\\"");
                write!(formatter, "\"{escaped}\"")?;
            } else {
                formatter.write_str(part)?;
            }
        }
        Ok(())
    }
}

/// Whether a text has some parts, one after the other. Taking each as early as possible finds them
/// if any choice does, so that the text is read only once.
fn follow(parts: &[String], text: &str) -> bool {
    let mut rest = Some(text);
    for part in parts {
        rest = rest.and_then(|rest| Some(rest.split_once(part.as_str())?.1));
    }
    rest.is_some()
}
