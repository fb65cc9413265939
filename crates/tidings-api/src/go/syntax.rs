//! The syntax errors of Go's `encoding/json`.
//!
//! They are used only after our reader has refused a text, so that clients get the same words as
//! everywhere in Kubernetes.

use tidings_core::validate::go_quote;

/// Maximum depth of nesting, as in Go.
const DEPTH_MAX: usize = 10_000;

/// Go's syntax error for a text; `None` if the text is JSON to Go.
pub fn complaint(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner {
        state: State::Value,
        open: Vec::new(),
    };
    for &byte in text {
        if let Err(complaint) = scanner.step(byte) {
            return Some(complaint);
        }
    }
    // The end of the text also ends a number.
    let ended = scanner.open.is_empty()
        && matches!(
            scanner.state,
            State::End | State::Zero | State::Digits | State::Fraction | State::Exponent
        );
    (!ended).then(|| "unexpected end of JSON input".to_owned())
}

/// The next part of a text that the scanner expects.
#[derive(Clone, Copy)]
enum State {
    Value,
    /// After `[`: an item or `]`.
    ValueOrEnd,
    /// After `{`: a key or `}`.
    KeyOrEnd,
    /// After a comma in an object: a key.
    Key,
    /// After a value: a comma, the end of the container, or nothing.
    End,
    String,
    Escape,
    /// Hexadecimal digits of an escape; the number of those that remain.
    Hex(u8),
    /// A literal such as `true`, and the number of its letters read.
    Word(&'static str, usize),
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    ExponentStart,
    ExponentSign,
    Exponent,
}

/// An enclosing array or object.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Array,
    ObjectKey,
    ObjectValue,
}

struct Scanner {
    state: State,
    open: Vec<Open>,
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<(), String> {
        self.state = match self.state {
            State::Value | State::ValueOrEnd | State::KeyOrEnd | State::Key | State::End
                if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') =>
            {
                self.state
            }
            State::ValueOrEnd if byte == b']' => self.close(),
            State::Value | State::ValueOrEnd => self.value(byte)?,
            State::KeyOrEnd if byte == b'}' => self.close(),
            State::KeyOrEnd | State::Key if byte == b'"' => State::String,
            State::KeyOrEnd | State::Key => {
                return invalid(byte, "looking for beginning of object key string");
            }
            State::String => match byte {
                b'"' => State::End,
                b'\\' => State::Escape,
                0..0x20 => return invalid(byte, "in string literal"),
                _ => State::String,
            },
            State::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => State::String,
                b'u' => State::Hex(4),
                _ => return invalid(byte, "in string escape code"),
            },
            State::Hex(left) if byte.is_ascii_hexdigit() => match left {
                ..=1 => State::String,
                _ => State::Hex(left - 1),
            },
            State::Hex(_) => return invalid(byte, "in \\u hexadecimal character escape"),
            State::Word(word, read) => match word.as_bytes().get(read) {
                Some(expected) if *expected == byte && read + 1 == word.len() => State::End,
                Some(expected) if *expected == byte => State::Word(word, read + 1),
                expected => {
                    let expected = char::from(*expected.unwrap_or(&b' '));
                    let context = format!("in literal {word} (expecting '{expected}')");
                    return invalid(byte, &context);
                }
            },
            State::Minus => match byte {
                b'0' => State::Zero,
                b'1'..=b'9' => State::Digits,
                _ => return invalid(byte, "in numeric literal"),
            },
            State::Zero | State::Digits => match byte {
                b'0'..=b'9' if matches!(self.state, State::Digits) => State::Digits,
                b'.' => State::Point,
                b'e' | b'E' => State::ExponentStart,
                _ => self.after_value(byte)?,
            },
            State::Point if byte.is_ascii_digit() => State::Fraction,
            State::Point => return invalid(byte, "after decimal point in numeric literal"),
            State::Fraction => match byte {
                b'0'..=b'9' => State::Fraction,
                b'e' | b'E' => State::ExponentStart,
                _ => self.after_value(byte)?,
            },
            State::ExponentStart if matches!(byte, b'+' | b'-') => State::ExponentSign,
            State::ExponentStart | State::ExponentSign | State::Exponent
                if byte.is_ascii_digit() =>
            {
                State::Exponent
            }
            State::ExponentStart | State::ExponentSign => {
                return invalid(byte, "in exponent of numeric literal");
            }
            State::End | State::Exponent => self.after_value(byte)?,
        };
        Ok(())
    }

    fn value(&mut self, byte: u8) -> Result<State, String> {
        Ok(match byte {
            b'{' => self.enter(Open::ObjectKey, State::KeyOrEnd)?,
            b'[' => self.enter(Open::Array, State::ValueOrEnd)?,
            b'"' => State::String,
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Digits,
            b't' => State::Word("true", 1),
            b'f' => State::Word("false", 1),
            b'n' => State::Word("null", 1),
            _ => return invalid(byte, "looking for beginning of value"),
        })
    }

    fn enter(&mut self, open: Open, state: State) -> Result<State, String> {
        self.open.push(open);
        if self.open.len() > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        Ok(state)
    }

    fn close(&mut self) -> State {
        self.open.pop();
        State::End
    }

    fn after_value(&mut self, byte: u8) -> Result<State, String> {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return Ok(State::End);
        }
        let Some(open) = self.open.last_mut() else {
            return invalid(byte, "after top-level value");
        };
        match (*open, byte) {
            (Open::ObjectKey, b':') => {
                *open = Open::ObjectValue;
                Ok(State::Value)
            }
            (Open::ObjectKey, _) => invalid(byte, "after object key"),
            (Open::ObjectValue, b',') => {
                *open = Open::ObjectKey;
                Ok(State::Key)
            }
            (Open::ObjectValue, b'}') | (Open::Array, b']') => Ok(self.close()),
            (Open::ObjectValue, _) => invalid(byte, "after object key:value pair"),
            (Open::Array, b',') => Ok(State::Value),
            (Open::Array, _) => invalid(byte, "after array element"),
        }
    }
}

/// An error at a byte, which Go reports as the character with that number.
fn invalid<T>(byte: u8, context: &str) -> Result<T, String> {
    let letter = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        _ => {
            let quoted = go_quote(char::from(byte).encode_utf8(&mut [0; 4]));
            quoted.trim_matches('"').to_owned()
        }
    };
    Err(format!("invalid character '{letter}' {context}"))
}

/// Converts text that only Go accepts to JSON that every parser accepts. Lone surrogates and
/// invalid UTF-8 become U+FFFD, as in Go's strings.
pub fn replace_what_is_no_text(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        let unit = |text: &str| {
            let digits = text.strip_prefix('u')?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let second = || unit(behind.get(5..)?.strip_prefix('\\')?);
        let (len, is_half) = match unit(behind) {
            Some(0xd800..0xdc00) if matches!(second(), Some(0xdc00..0xe000)) => (11, false),
            Some(0xd800..0xe000) => (5, true),
            // The escaped character, which may itself be a backslash.
            _ => (behind.chars().next().map_or(0, char::len_utf8), false),
        };
        let (escaped, behind) = behind.split_at_checked(len).unwrap_or_default();
        out.push('\\');
        out.push_str(if is_half { "ufffd" } else { escaped });
        rest = behind;
    }
    out.push_str(rest);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These are answers of Go 1.26's encoding/json.
    #[test]
    fn complaints_are_those_of_go() {
        let end = Some("unexpected end of JSON input");
        #[rustfmt::skip]
        let table = [
            (&b""[..], end),
            (b"{\"a\":", end),
            (b"tru", end),
            (b"{} x", Some("invalid character 'x' after top-level value")),
            (b"name: a", Some("invalid character 'a' in literal null (expecting 'u')")),
            (b"{a:1}", Some("invalid character 'a' looking for beginning of object key string")),
            (b"{\"a\" 1}", Some("invalid character '1' after object key")),
            (b"{\"a\":1 \"b\"}", Some("invalid character '\"' after object key:value pair")),
            (
                b"{\"a\":1,}",
                Some("invalid character '}' looking for beginning of object key string"),
            ),
            (b"[1 2]", Some("invalid character '2' after array element")),
            (b"[1,]", Some("invalid character ']' looking for beginning of value")),
            (b"'a'", Some("invalid character '\\'' looking for beginning of value")),
            (b"01", Some("invalid character '1' after top-level value")),
            (b"-x", Some("invalid character 'x' in numeric literal")),
            (b"1.x", Some("invalid character 'x' after decimal point in numeric literal")),
            (b"1ex", Some("invalid character 'x' in exponent of numeric literal")),
            (b"\"\n\"", Some("invalid character '\\n' in string literal")),
            (b"\"\\x\"", Some("invalid character 'x' in string escape code")),
            (b"\"\\u12g\"", Some("invalid character 'g' in \\u hexadecimal character escape")),
            (b"\x9e", Some("invalid character '\\u009e' looking for beginning of value")),
            (b"{\"a\":[1,{\"b\":null}], \"c\":-0.5e+3}", None),
            (b"\"\\ud800\"", None),
            (b" 0 ", None),
        ];
        for (text, expected) in table {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(complaint(text).as_deref(), expected, "{shown}");
        }
        let deep = "[".repeat(DEPTH_MAX + 1);
        let found = complaint(deep.as_bytes());
        assert_eq!(found.as_deref(), Some("exceeded max depth"));
    }

    #[test]
    fn halves_of_pairs_are_replaced() {
        for (text, expected) in [
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\udc00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\n\u00e9""#, r#""\n\u00e9""#),
        ] {
            let replaced = replace_what_is_no_text(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&replaced), expected, "{text}");
        }
    }
}
