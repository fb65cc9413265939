//! Makes untrusted text safe to show in a terminal, a log and a page.
//!
//! Nothing in the text can act as a command, and nothing in it stays invisible.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is visible by itself. Control characters, those that change the direction of
/// text, those without a width, and tags are not. The joiners of emoji and of some scripts (U+200C,
/// U+200D) count as invisible, because they can also make two names look alike.
#[must_use]
pub fn is_printable(character: char) -> bool {
    !matches!(character,
        // Control characters of ASCII, and those of ISO 6429.
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // The soft hyphen, which shows only at the end of a line, and fillers and joiners.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        // Marks that change the direction of text.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Characters without width, and separators of lines and paragraphs.
        | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        // Tags, and the code points that Unicode reserves beside them for invisible characters.
        | '\u{e0000}'..='\u{e0fff}')
}

/// The text with each character that is not [printable](is_printable) as `\u{202e}`.
///
/// ```
/// use tidings_core::printable;
///
/// assert_eq!(printable("Back-off restarting"), "Back-off restarting");
/// assert_eq!(printable("a\u{1b}[2J\n\u{202e}b"), r"a\u{1b}[2J\u{a}\u{202e}b");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 32);
    for character in text.chars() {
        if is_printable(character) {
            safe.push(character);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
        }
    }
    Cow::Owned(safe)
}
