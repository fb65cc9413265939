//! Text as Go prints it, for errors that show the refused value.

use std::fmt::{self, Display, Formatter, Write};

use crate::wire::escape;

/// Prints a text in quotes as Go's `%q` does.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\""),
                '\\' => f.write_str("\\\\"),
                '\u{7}' => f.write_str("\\a"),
                '\u{8}' => f.write_str("\\b"),
                '\u{c}' => f.write_str("\\f"),
                '\n' => f.write_str("\\n"),
                '\r' => f.write_str("\\r"),
                '\t' => f.write_str("\\t"),
                '\u{b}' => f.write_str("\\v"),
                _ if is_printable(character) => f.write_char(character),
                '\0'..=' ' | '\u{7f}' => write!(f, "\\x{:02x}", u32::from(character)),
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(character)),
                _ => write!(f, "\\U{:08x}", u32::from(character)),
            }?;
        }
        f.write_char('"')
    }
}

/// A text in quotes as Go's `%q` prints it.
///
/// ```
/// assert_eq!(tidings_core::validate::go_quote("a\"b\u{7}"), r#""a\"b\a""#);
/// ```
pub fn go_quote(text: &str) -> String {
    Quoted(text).to_string()
}

/// Prints a text in quotes as Go's `json.Marshal` does: characters with a meaning in HTML are
/// escaped.
pub(super) struct JsonString<'a>(pub(super) &'a str);

impl Display for JsonString<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        escape(self.0, |part| f.write_str(part))?;
        f.write_char('"')
    }
}

/// Whether Go's `unicode.IsPrint` is true for a character. Of all spaces it is true only for the
/// plain one. Characters that Rust escapes in debug output are not printable to Go either.
pub fn is_printable(character: char) -> bool {
    match character {
        // Rust escapes combining marks, Go does not.
        ' ' | '\'' | '"' | '\\' | '\u{300}'..='\u{36f}' => true,
        _ => character.escape_debug().len() == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_by_go() {
        for (text, expected) in [
            ("", r#""""#),
            ("a\"b\\c'd", r#""a\"b\\c'd""#),
            ("\n\t\u{7}\0\u{7f}", r#""\n\t\a\x00\x7f""#),
            ("ünï ☃", "\"ünï ☃\""),
            ("\u{2028}\u{9e}\u{a0}", r#""\u2028\u009e\u00a0""#),
            ("\u{8}\u{b}\u{c}\r\u{1b}", r#""\b\v\f\r\x1b""#),
            // A lone combining mark, another kind of space, and an unassigned code point.
            ("\u{300}\u{36f}\u{2003}", "\"\u{300}\u{36f}\\u2003\""),
            ("\u{e000}\u{10ffff}", r#""\ue000\U0010ffff""#),
        ] {
            assert_eq!(go_quote(text), expected);
        }
    }

    #[test]
    fn texts_are_json_as_by_go() {
        assert_eq!(
            JsonString("a<&>\u{2028}\"\n\u{1}\u{8}\u{7f}'").to_string(),
            "\"a\\u003c\\u0026\\u003e\\u2028\\\"\\n\\u0001\\b\u{7f}'\""
        );
        assert_eq!(
            JsonString("\\\u{c}\r\t\u{2029} ").to_string(),
            r#""\\\f\r\t\u2029 ""#
        );
    }
}
