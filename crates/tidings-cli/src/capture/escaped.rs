//! Text that Go quoted (`strconv.Quote`), as klog writes it: `body="{\"kind\":\"Event\"}"`.

use std::io::{self, Read};

use super::record::RECORD_BYTES_MAX;
use super::scan::Scanner;

impl<R: Read> Scanner<'_, '_, R> {
    /// Reads the events of a quoted text whose first brace is at the current position, and skips
    /// the text; returns whether there is one. It ends at its closing quote, or where its line
    /// ends. At most [`RECORD_BYTES_MAX`] bytes are read of it.
    pub(super) fn escaped(&mut self) -> io::Result<bool> {
        let start = self.at.at;
        if self.is_nested || self.window.peek(start + 1, 2, |_| false)? != b"\\\"" {
            return Ok(false);
        }
        let mut is_escaped = false;
        let text = self.window.peek(start, RECORD_BYTES_MAX, |byte| {
            let is_end = byte == b'\n' || (byte == b'"' && !is_escaped);
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        })?;
        let end = |byte: &u8| matches!(byte, b'"' | b'\n');
        let text = match text.split_last() {
            Some((last, before)) if end(last) => before,
            _ => text,
        };
        let length = text.len() as u64;
        let has = |word: &[u8]| text.windows(word.len()).any(|it| it == word);
        // Few quoted texts have events, and another reader is costly.
        let words = ["nvolvedObject\\\"", "regarding\\\"", "EventList\\\""];
        if words.iter().any(|word| has(word.as_bytes())) {
            let text = unquoted(text);
            self.sink.text(self.at.line, &text, false)?;
        }
        self.at.at += length;
        Ok(true)
    }
}

/// The text without its escapes (`strconv.Unquote`). Escapes that Go does not write stay.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let Some((escape, behind)) = behind.split_first().filter(|_| *byte == b'\\') else {
            plain.push(*byte);
            continue;
        };
        let digits = match escape {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        let number = behind.get(..digits).and_then(hexadecimal);
        match (escape, number) {
            (b'a', _) => plain.push(0x07),
            (b'b', _) => plain.push(0x08),
            (b'f', _) => plain.push(0x0c),
            (b'n', _) => plain.push(b'\n'),
            (b'r', _) => plain.push(b'\r'),
            (b't', _) => plain.push(b'\t'),
            (b'v', _) => plain.push(0x0b),
            (b'"' | b'\\', _) => plain.push(*escape),
            (b'x', Some(number)) => plain.push(number as u8),
            (b'u' | b'U', Some(number)) => {
                let character = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
                plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => plain.extend([b'\\', *escape]),
        }
        rest = match number {
            Some(_) => behind.get(digits..).unwrap_or_default(),
            None => behind,
        };
    }
    plain
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::unquoted;

    /// strconv's `TestUnquote`.
    #[test]
    fn escapes_are_those_of_go() {
        for (quoted, plain) in [
            ("", &b""[..]),
            ("a", b"a"),
            (r"\a\b\f\n\r\t\v", b"\x07\x08\x0c\n\r\t\x0b"),
            (r#"{\"k\":\"\\\"\"}"#, br#"{"k":"\""}"#),
            (r"\xff\u00e9\U0001f600x", b"\xff\xc3\xa9\xf0\x9f\x98\x80x"),
            (r"\ud800", "\u{fffd}".as_bytes()),
            (r"\U00110000", "\u{fffd}".as_bytes()),
            (r"\x+1\u12", br"\x+1\u12"),
            (r"\q\", br"\q\"),
        ] {
            assert_eq!(unquoted(quoted.as_bytes()), plain, "{quoted}");
        }
    }
}
