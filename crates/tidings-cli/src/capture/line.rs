//! Judges lines that are between the lines of an object: whether they are of another program, and
//! whether they have objects themselves.

use serde::de::IgnoredAny;

/// Whether a line has a brace and the quote of a key behind it, also within quotes.
pub(super) fn has_object(line: &[u8]) -> bool {
    let braces = line.split(|byte| *byte == b'{').skip(1);
    let mut behind = braces.map(<[u8]>::trim_ascii_start);
    behind.any(|text| text.starts_with(b"\"") || text.starts_with(b"\\\""))
}

/// Whether a text has a word as a key, also within quotes.
pub(super) fn has_key(text: &[u8], word: &[u8]) -> bool {
    let is_colon = |behind: &[u8]| behind.trim_ascii_start().starts_with(b":");
    let mut words = text.windows(word.len()).enumerate();
    words.any(|(at, piece)| {
        let behind = text.get(at + word.len()..).unwrap_or_default();
        let behind = behind.strip_prefix(b"\\").unwrap_or(behind);
        piece == word && behind.strip_prefix(b"\"").is_some_and(is_colon)
    })
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Whether a line is a whole object without an event.
fn is_of_a_log(line: &[u8]) -> bool {
    !has_word_of_event(line) && is_json(line)
}

/// Whether a line that begins with text may be one of another program within an object.
pub(super) fn is_of_other_program(line: &[u8]) -> bool {
    match line {
        [] | [b'}' | b']' | b'"' | b',' | b':', ..] => false,
        [b'{', ..] => is_of_a_log(line),
        [b'[', rest @ ..] => rest.first().is_some_and(u8::is_ascii_alphabetic) && !is_json(line),
        _ => true,
    }
}

pub(super) fn has_word_of_event(line: &[u8]) -> bool {
    let has = |word: &[u8]| line.windows(word.len()).any(|it| it == word);
    has(b"involvedObject") || has(b"regarding") || has(b"\"Event\"")
}
