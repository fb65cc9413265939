//! Reads a filter, character by character.

use std::iter::Peekable;
use std::str::{Chars, FromStr};

use super::{FILTER_LEN_MAX, Filter, InvalidFilter, Key, Pattern, Term};

impl FromStr for Filter {
    type Err = InvalidFilter;

    fn from_str(text: &str) -> Result<Self, InvalidFilter> {
        if text.len() > FILTER_LEN_MAX {
            return Err(InvalidFilter::TooLong);
        }
        let mut filter = Filter::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, after) = term(rest)?;
            filter.add(term)?;
            rest = after.trim_start();
        }
        Ok(filter)
    }
}

/// The first term of a text, and what follows it.
fn term(text: &str) -> Result<(Term, &str), InvalidFilter> {
    let (is_excluded, text) = match text.strip_prefix('-') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(char::is_whitespace) => (true, rest),
        _ => (false, text),
    };
    let word = text.trim_start_matches(|character: char| character.is_ascii_alphabetic());
    let word = text.get(..text.len() - word.len()).unwrap_or_default();
    let after_word = text.strip_prefix(word).unwrap_or_default();
    let (key, value) = match after_word.strip_prefix(':') {
        Some(value) if !word.is_empty() => {
            let key = Key::of(word).ok_or_else(|| {
                let shown: String = word.chars().take(40).collect();
                InvalidFilter::UnknownKey(shown)
            })?;
            if value.is_empty() || value.starts_with(char::is_whitespace) {
                return Err(InvalidFilter::MissingValue(key.name()));
            }
            (key, value)
        }
        _ => (Key::Text, text),
    };
    let mut characters = value.chars().peekable();
    let pattern = pattern(&mut characters)?;
    let left: usize = characters.map(char::len_utf8).sum();
    let after = value.get(value.len() - left..).unwrap_or_default();
    Ok((Term::new(key, is_excluded, pattern)?, after))
}

/// The value up to the next blank space outside of quotes.
fn pattern(characters: &mut Peekable<Chars<'_>>) -> Result<Pattern, InvalidFilter> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    while let Some(character) = characters.next_if(|it| is_quoted || !it.is_whitespace()) {
        let literal = match character {
            '"' => {
                is_quoted = !is_quoted;
                None
            }
            '*' if !is_quoted => {
                parts.push(String::new());
                None
            }
            '\\' if is_quoted => characters
                .next_if(|it| matches!(it, '"' | '\\'))
                .or(Some(character)),
            character => Some(character),
        };
        if let (Some(part), Some(literal)) = (parts.last_mut(), literal) {
            part.push(literal);
        }
    }
    if is_quoted {
        return Err(InvalidFilter::OpenQuote);
    }
    Ok(Pattern::of_parts(parts))
}
