//! Text as Go prints it, where an error has to show what was refused.

use std::fmt::Write;

/// A text in quotes as Go's `%q` prints it.
///
/// ```
/// assert_eq!(tidings_core::validate::go_quote("a\"b\u{7}"), r#""a\"b\a""#);
/// ```
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            _ if is_printable(character) => out.push(character),
            // Writing to a string does not fail.
            '\0'..=' ' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            '\u{80}'..='\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(character));
            }
        }
    }
    out.push('"');
    out
}

/// A text in quotes as Go's `json.Marshal` prints it: what HTML gives a meaning to is escaped.
pub(super) fn go_json_string(text: &str) -> String {
    let plain = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out
}

/// Whether Go's `unicode.IsPrint` is true: of the spaces it is only for the plain one. What Rust escapes in debug output
/// for any other reason is not printable to Go either.
pub fn is_printable(character: char) -> bool {
    match character {
        ' ' | '\'' | '"' | '\\' => true,
        _ if character.is_whitespace() || character.is_control() => false,
        // Marks that join to what is before them are escaped by Rust alone.
        '\u{300}'..='\u{36f}' => true,
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
        ] {
            assert_eq!(go_quote(text), expected);
        }
    }

    #[test]
    fn texts_are_json_as_by_go() {
        assert_eq!(
            go_json_string("a<&>\u{2028}\"\n'"),
            "\"a\\u003c\\u0026\\u003e\\u2028\\\"\\n'\""
        );
    }
}
