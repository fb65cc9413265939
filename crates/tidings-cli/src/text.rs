//! Makes untrusted text safe to print on a terminal.
//!
//! Invariant: untrusted text never reaches a terminal as an escape sequence, and all of it is
//! visible. `tidings_core::is_printable` decides for every form of output.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use tidings_core::{is_printable, printable};

/// A text as one safe line. Text after a line break is replaced by `...`, and an escape by `^[` (as
/// in `k8s.io/cli-runtime/pkg/printers`). A tab becomes a blank, and any other unprintable
/// character `\u{202e}`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let (line, tail) = match text.find(['\n', '\r']) {
        Some(end) => (text.get(..end).unwrap_or(text), "..."),
        None => (text, ""),
    };
    if tail.is_empty() && line.chars().all(is_printable) {
        return Cow::Borrowed(line);
    }
    let line = line.replace('\u{1b}', "^[").replace('\t', " ");
    Cow::Owned(printable(&line).into_owned() + tail)
}

/// A message of several lines as one safe line. Line breaks and tabs become blanks, and any other
/// unprintable character `\u{202e}`.
pub fn message(text: &str) -> String {
    printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// A safe text of several lines. Unprintable characters, except line breaks and tabs, are written
/// `\u001b`, which has the same meaning in JSON.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but_colors(text, false)
}

/// [`escaped`], optionally with colours (`ESC [ … m`) unchanged.
fn escaped_but_colors(text: &str, colors: bool) -> Cow<'_, str> {
    let is_unseen = |character: char| !is_printable(character) && !matches!(character, '\n' | '\t');
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let color = if colors { color_len(rest) } else { 0 };
        if color > 0 {
            let (color, behind) = rest.split_at(color);
            safe.push_str(color);
            rest = behind;
            continue;
        }
        if is_unseen(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(safe)
}

/// The length of the colour sequence at the beginning of a text; 0 if there is no complete one.
fn color_len(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    let length = numbers.bytes().take_while(is_number).count();
    match numbers.as_bytes().get(length) {
        Some(b'm') => length + 3,
        _ => 0,
    }
}

/// A writer that passes text through [`escaped`], in whatever pieces it comes.
#[derive(Debug)]
pub struct Escaping<W> {
    out: W,
    colors: bool,
    /// The beginning of a character whose rest is not written yet.
    begun: Vec<u8>,
}

impl<W: io::Write> Escaping<W> {
    /// Makes a writer in front of a terminal.
    pub fn new(out: W) -> Self {
        Self {
            out,
            colors: false,
            begun: Vec::new(),
        }
    }

    /// Makes a writer in front of a terminal, for text with colours. A colour sequence must come in
    /// one piece.
    pub fn of_colored(out: W) -> Self {
        Self {
            colors: true,
            ..Self::new(out)
        }
    }
}

impl<W: io::Write> io::Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let text: Vec<u8> = self.begun.drain(..whole).collect();
        let text = String::from_utf8_lossy(&text);
        self.out
            .write_all(escaped_but_colors(&text, self.colors).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A message in one line, as [`one_line`] makes it. If one of the `wanted` texts is found only in a
/// later line, that line is shown, and the omitted lines before it are replaced by `...`.
///
/// ```
/// use tidings_cli::text::line_with;
///
/// let message = "upgrade failed\nmissing field: tag\nrolled back";
/// assert_eq!(line_with(message, &[]), "upgrade failed...");
/// assert_eq!(line_with(message, &["field".to_owned()]), "...missing field: tag...");
/// ```
pub fn line_with<'a>(text: &'a str, wanted: &[String]) -> Cow<'a, str> {
    // A terminal also ends a line at a carriage return alone.
    let mut start = 0;
    for line in text.split(['\n', '\r']) {
        if wanted.iter().any(|wanted| find(line, wanted).is_some()) {
            let shown = one_line(text.get(start..).unwrap_or(line));
            return match start {
                0 => shown,
                _ => Cow::Owned(format!("...{shown}")),
            };
        }
        start += line.len() + 1;
    }
    one_line(text)
}

/// The place of a lower-case text within another text, ignoring case.
pub fn find(text: &str, wanted: &str) -> Option<std::ops::Range<usize>> {
    if wanted.is_empty() {
        return None;
    }
    // A character may have more bytes in lower case.
    let mut lower = String::with_capacity(text.len());
    let mut origins = Vec::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        for small in character.to_lowercase() {
            lower.push(small);
            origins.resize(lower.len(), (at, at + character.len_utf8()));
        }
    }
    let found = lower.find(wanted)?;
    let (start, _) = origins.get(found)?;
    let (_, end) = origins.get(found + wanted.len() - 1)?;
    Some(*start..*end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_a_command_to_the_terminal() {
        assert_eq!(one_line("plain"), "plain");
        assert_eq!(one_line("a\u{1b}[31mred\tb\u{7}"), r"a^[[31mred b\u{7}");
        assert_eq!(
            one_line("ad\u{200b}min\u{202e}x"),
            r"ad\u{200b}min\u{202e}x"
        );
        assert_eq!(message("a\n\u{1b}b\u{e0041}"), r"a \u{1b}b\u{e0041}");
        assert_eq!(one_line("first\nsecond"), "first...");
        assert_eq!(one_line("\rover"), "...");
        assert_eq!(escaped("plain\n\tü"), "plain\n\tü");
        assert_eq!(
            escaped("a\u{1b}[2J\u{9b}2J\u{7f}\r\u{202e}\u{e0041}"),
            r"a\u001b[2J\u009b2J\u007f\u000d\u202e\udb40\udc41"
        );
    }

    /// Colours pass where they are allowed, and no other escape sequence does.
    #[test]
    fn a_colour_is_the_only_command_that_passes() {
        for (text, shown) in [
            ("\u{1b}[33mWarning\u{1b}[0m", "\u{1b}[33mWarning\u{1b}[0m"),
            ("\u{1b}[38;5;1mx", "\u{1b}[38;5;1mx"),
            ("\u{1b}[2Jx", r"\u001b[2Jx"),
            ("\u{1b}]0;title\u{7}", r"\u001b]0;title\u0007"),
            ("\u{1b}[31", r"\u001b[31"),
            ("\u{1b}[31é", r"\u001b[31é"),
            ("\u{9b}31m", r"\u009b31m"),
            ("\u{1b}\u{1b}[1m", "\\u001b\u{1b}[1m"),
        ] {
            let mut out = Escaping::of_colored(Vec::new());
            io::Write::write_all(&mut out, text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(out.out).unwrap(), shown);
        }
    }

    #[test]
    fn the_line_that_has_what_is_looked_for_is_shown() {
        let failed = "Helm upgrade failed: error one\nerror two: missing field\nerror three";
        let exit = "Error: exit 1\r\nstdout: foo\r\nstderr: the real cause";
        for (message, wanted, shown) in [
            (failed, &[] as &[&str], "Helm upgrade failed: error one..."),
            (failed, &["upgrade"], "Helm upgrade failed: error one..."),
            (failed, &["missing"], "...error two: missing field..."),
            (failed, &["three"], "...error three"),
            (
                failed,
                &["missing", "three"],
                "...error two: missing field...",
            ),
            // The text is found in the object's name, for example.
            (failed, &["web-0"], "Helm upgrade failed: error one..."),
            (exit, &["real cause"], "...stderr: the real cause"),
            (exit, &["exit"], "Error: exit 1..."),
            ("a\n\u{1b}[2Jb", &["b"], "...^[[2Jb"),
            ("İX\nÄRGER", &["ärger"], "...ÄRGER"),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(line_with(message, &wanted), shown, "{wanted:?}");
        }
        assert_eq!(find("İstanbul is DOWN", "down"), Some(13..17));
        assert_eq!(find("a", ""), None);
    }

    proptest! {
        #[test]
        fn text_in_parts_is_escaped_as_the_whole(text in "[a\u{1b}\u{9b}é\n日]{0,40}", parts in prop::collection::vec(1_usize..5, 0..20)) {
            let mut out = Escaping::new(Vec::new());
            let mut rest = text.as_bytes();
            for length in parts {
                let (part, behind) = rest.split_at(length.min(rest.len()));
                io::Write::write_all(&mut out, part).unwrap();
                rest = behind;
            }
            io::Write::write_all(&mut out, rest).unwrap();
            prop_assert_eq!(String::from_utf8(out.out).unwrap(), escaped(&text));
        }
    }
}
