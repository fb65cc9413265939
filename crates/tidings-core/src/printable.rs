//! Text that others wrote, as a terminal, a log and a page may show it: nothing in it is a command,
//! and nothing that is in it is unseen.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character shows itself: not a control character, none that changes the direction of
/// text around it, none without a width of its own, and no tag.
///
/// The joiners of emoji and of some scripts (U+200C, U+200D) are among the unseen ones, as they
/// also make two names look like one.
#[must_use]
pub fn is_printable(character: char) -> bool {
    !matches!(character,
        // Control characters of ASCII, and those of ISO 6429.
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // A hyphen that is seen at the end of a line alone, fillers and joiners.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        // Direction.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // No width, and ends of lines and paragraphs.
        | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        // Tags, and what Unicode reserves beside them for the unseen.
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
            // Writing to a String does not fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
        }
    }
    Cow::Owned(safe)
}
