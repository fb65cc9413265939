//! The rest of an event whose beginning is missing, in a text that was cut at its front: `"reason":
//! "Pulled"}` before the first whole line of JSON Lines.

use std::io::{self, Read};

use super::line::has_key;
use super::scan::Scanner;
use super::unreadable::Unreadable;

/// Maximum length of the rest of an event, in bytes.
const REMAINDER_BYTES_MAX: usize = 1 << 20;

/// Words that only events have as keys.
const OF_EVENTS: [&[u8]; 6] = [
    b"involvedObject",
    b"regarding",
    b"firstTimestamp",
    b"lastTimestamp",
    b"eventTime",
    b"reportingComponent",
];

impl<R: Read> Scanner<'_, '_, R> {
    /// Reports the rest of an event at the current position, unless the event itself is whole in
    /// it, and reads the objects in it. Returns whether there is such a rest. It ends with a line.
    /// If it has no key that only events have, it counts as an event if the text has other events.
    pub(super) fn remainder(&mut self) -> io::Result<bool> {
        if self.is_nested {
            return Ok(false);
        }
        let (start, place) = (self.at.at, self.at.line);
        let mut guesses = Remainder::guesses();
        // An array may be long, and its items are read before its end is there.
        let is_array = self.window.byte(start)? == Some(b'[');
        let text = self.window.peek(start, REMAINDER_BYTES_MAX, |byte| {
            let is_end = is_array || guesses.iter().any(Remainder::is_complete);
            let is_end = is_end && byte == b'\n';
            for guess in &mut guesses {
                guess.take(byte);
            }
            is_end || guesses.iter().all(|guess| guess.is_wrong)
        });
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                // What is there is read nonetheless.
                self.window.end_with(error);
                return Ok(false);
            }
        };
        let Some(guess) = guesses.into_iter().find(Remainder::is_complete) else {
            return Ok(false);
        };
        self.sink.seen.line(text, text);
        let text = guess.next.and_then(|at| text.get(..at)).unwrap_or(text);
        let is_event = OF_EVENTS.iter().any(|word| has_key(text, word));
        self.is_rest_missed = false;
        let events = self.sink.seen.events;
        while let Some(inner) = guess.last_inner
            && self.at.at <= start + inner as u64
            && !self.sink.is_stopped()
        {
            self.rest_of_line()?;
        }
        if self.sink.seen.events == events {
            if is_event {
                self.sink.lost(place, Unreadable::headless());
            } else {
                self.sink.perhaps_lost(place, Unreadable::headless(), false);
            }
        }
        if self.at.line == place {
            self.rest_of_line()?;
        }
        Ok(true)
    }
}

/// The last token of a remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// None yet: any token may follow.
    None,
    /// A comma, a colon or an opening bracket.
    Before,
    Literal,
    /// A text, or a literal that has ended.
    Value,
    Closing,
}

/// A guess at where the front was cut off, and what follows from it for the bytes behind.
#[derive(Debug)]
struct Remainder {
    /// Whether the bytes cannot be the rest of JSON under this guess.
    is_wrong: bool,
    is_text: bool,
    is_escaped: bool,
    last: Token,
    /// Opening brackets less closing ones, and the least number so far.
    depth: i64,
    least: i64,
    /// The number of bytes so far.
    length: usize,
    /// The position of the last brace within the innermost object whose beginning is missing.
    last_inner: Option<usize>,
    /// The position of the first brace behind that object.
    next: Option<usize>,
}

impl Remainder {
    /// The front was cut off within a text, there behind a backslash, or elsewhere.
    fn guesses() -> [Self; 3] {
        [(true, false), (true, true), (false, false)].map(|(is_text, is_escaped)| Self {
            is_wrong: false,
            is_text,
            is_escaped,
            last: Token::None,
            depth: 0,
            least: 0,
            length: 0,
            last_inner: None,
            next: None,
        })
    }

    fn take(&mut self, byte: u8) {
        self.length += 1;
        if self.is_text {
            self.is_wrong |= byte == b'\n';
            self.is_text = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            if !self.is_text {
                self.last = Token::Value;
            }
            return;
        }
        let last = self.last;
        let is_open = matches!(last, Token::None | Token::Before);
        let (next, fits) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' if last == Token::Literal => (Token::Value, true),
            b' ' | b'\t' | b'\r' | b'\n' => (last, true),
            b'"' => {
                self.is_text = true;
                (last, is_open)
            }
            b'{' | b'[' => {
                let at = self.length - 1;
                match byte {
                    b'{' if self.least == 0 => self.last_inner = Some(at),
                    b'{' => _ = self.next.get_or_insert(at),
                    _ => {}
                }
                self.depth += 1;
                (Token::Before, is_open)
            }
            b'}' | b']' => {
                self.depth -= 1;
                self.least = self.least.min(self.depth);
                (Token::Closing, true)
            }
            b',' | b':' => (Token::Before, last != Token::Before),
            // The letters of true, false and null.
            b'0'..=b'9'
            | b'+'
            | b'-'
            | b'.'
            | b'e'
            | b'E'
            | b't'
            | b'r'
            | b'u'
            | b'f'
            | b'a'
            | b'l'
            | b's'
            | b'n' => (Token::Literal, is_open || last == Token::Literal),
            _ => (last, false),
        };
        self.is_wrong |= !fits;
        self.last = next;
    }

    /// Whether an object ends here whose beginning is missing.
    fn is_complete(&self) -> bool {
        let is_outermost = self.depth < 0 && self.depth == self.least;
        !self.is_wrong && !self.is_text && is_outermost && self.last == Token::Closing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_an_object_is_told_from_other_text() {
        let object = r#"{"a": [1, -2.5e3, true, false, null], "b": {"c": "\"x\" {\\"}, "d": []}"#;
        let rests = (1..object.len()).map(|from| (&object[from..], true));
        let others = [
            ("", false),
            ("text", false),
            ("a \"quoted\" text", false),
            ("a \"quoted\" {text}", false),
            ("$ kubectl get -o jsonpath=\"{.items}\"", false),
            ("error: {\"a\": 1}", false),
            ("\"a\",1,\"b\"", false),
            ("1 } 2", false),
            (object, false),
        ];
        for (text, expected) in rests.chain(others) {
            let mut guesses = Remainder::guesses();
            for byte in text.bytes() {
                for guess in &mut guesses {
                    guess.take(byte);
                }
            }
            let is_rest = guesses.iter().any(Remainder::is_complete);
            assert_eq!(is_rest, expected, "{text}");
        }
    }
}
