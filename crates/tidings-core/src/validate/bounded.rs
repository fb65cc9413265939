//! Text of bounded length, made of any displayed value. No more than the bound is in memory.

use std::fmt::{self, Display, Write};

/// The end of a text that was cut.
const ELLIPSIS: char = '…';

/// Prints a value, as a text that takes at most `bytes_max` bytes in JSON. A longer one is cut
/// between two characters and ends with `…`; the rest is not printed at all.
///
/// ```
/// use tidings_core::validate::bounded_text;
///
/// assert_eq!(bounded_text(format_args!("{}", 12345), 5), "12345");
/// assert_eq!(bounded_text("größer", 6), "gr…");
/// ```
pub fn bounded_text(text: impl Display, bytes_max: usize) -> String {
    text_within(text, bytes_max).unwrap_or_else(|cut| cut)
}

/// The printed text, cut to at most `bytes_max` bytes of JSON.
///
/// # Errors
///
/// The cut text, if the whole text does not fit.
pub fn text_within(text: impl Display, bytes_max: usize) -> Result<String, String> {
    let mut bounded = Bounded {
        text: String::new(),
        room: bytes_max,
    };
    if write!(bounded, "{text}").is_ok() {
        return Ok(bounded.text);
    }
    bounded.end();
    Err(bounded.text)
}

/// Number of bytes that a character takes in a JSON string.
pub fn json_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..' ' => 6,
        _ => character.len_utf8(),
    }
}

struct Bounded {
    text: String,
    room: usize,
}

impl Bounded {
    /// Replaces as many characters as necessary by the ellipsis.
    fn end(&mut self) {
        let mark = json_len(ELLIPSIS);
        while self.room < mark {
            match self.text.pop() {
                Some(character) => self.room += json_len(character),
                None => return,
            }
        }
        self.text.push(ELLIPSIS);
    }
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.write_char(character)?;
        }
        Ok(())
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        self.room = self
            .room
            .checked_sub(json_len(character))
            .ok_or(fmt::Error)?;
        self.text.push(character);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A value that displays an endless text and counts how often it is asked for more.
    struct Endless<'a>(&'a std::cell::Cell<usize>);

    impl Display for Endless<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                self.0.set(self.0.get() + 1);
                f.write_str("0123456789")?;
            }
        }
    }

    #[test]
    fn what_would_be_cut_is_not_printed() {
        let asked = std::cell::Cell::new(0);
        let text = bounded_text(Endless(&asked), 25);
        assert_eq!((text.as_str(), asked.get()), ("0123456789012345678901…", 3));
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_bound(text in "\\PC{0,20}[\"\\\\\n\u{1}é🦀]{0,20}", bytes_max in 0..80_usize) {
            let bounded = bounded_text(&text, bytes_max);
            let json = serde_json::to_string(&bounded).map_or(0, |json| json.len() - 2);
            prop_assert!(json <= bytes_max, "{json} bytes");
            let whole = serde_json::to_string(&text).map_or(0, |json| json.len() - 2);
            prop_assert_eq!(bounded == text, whole <= bytes_max);
            prop_assert!(text.starts_with(bounded.trim_end_matches(ELLIPSIS)));
        }
    }
}
