//! Strings and integers as Go's encoder writes them, appended to a buffer.

use std::convert::Infallible;

/// Bytes that are escaped, or may be: U+2028 and U+2029 begin with E2.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    let others = *b"\"\\<>&\xe2";
    let mut at = 0;
    while at < others.len() {
        special[others[at] as usize] = true;
        at += 1;
    }
    special
};

/// Appends a string as Go's encoder does, with `<`, `>`, `&`, U+2028 and U+2029 escaped.
#[inline]
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let _ = escape::<Infallible>(text, |part| {
        out.extend_from_slice(part.as_bytes());
        Ok(())
    });
    out.push(b'"');
}

/// Passes the inside of a JSON string to `put`, part by part.
#[inline]
pub(crate) fn escape<E>(text: &str, mut put: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| SPECIAL[usize::from(byte)]) {
        let (plain, special) = rest.split_at(at);
        put(plain)?;
        let mut characters = special.chars();
        let hexadecimal;
        put(match characters.next() {
            Some('"') => "\\\"",
            Some('\\') => "\\\\",
            Some('\n') => "\\n",
            Some('\r') => "\\r",
            Some('\t') => "\\t",
            Some('\u{8}') => "\\b",
            Some('\u{c}') => "\\f",
            Some('\u{2028}') => "\\u2028",
            Some('\u{2029}') => "\\u2029",
            Some(character @ ('\0'..='\x1f' | '<' | '>' | '&')) => {
                let [high, low] = [character as usize >> 4, character as usize & 15];
                hexadecimal = [b'\\', b'u', b'0', b'0', HEX[high], HEX[low]];
                std::str::from_utf8(&hexadecimal).unwrap_or_default()
            }
            _ => special
                .strip_suffix(characters.as_str())
                .unwrap_or_default(),
        })?;
        rest = characters.as_str();
    }
    put(rest)
}

/// Appends an integer.
#[inline]
pub fn write_integer(value: impl Into<i64>, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value.into()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::write_string;

    /// These are answers of Go 1.26's encoding/json.
    #[test]
    fn strings_are_escaped_as_by_go() {
        for (text, json) in [
            ("plain ünïcode 🦀", "\"plain ünïcode 🦀\""),
            (
                "a\"b\\c\nd\re\tf\u{8}g\u{c}h",
                r#""a\"b\\c\nd\re\tf\bg\fh""#,
            ),
            ("\u{1}\u{1f}\u{7f}", "\"\\u0001\\u001f\u{7f}\""),
            ("<&>", r#""\u003c\u0026\u003e""#),
            (
                "x\u{2028}y\u{2029}z\u{2027}",
                "\"x\\u2028y\\u2029z\u{2027}\"",
            ),
            (
                "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/<>&\u{7f}\u{2028}\u{2029}\u{202a}é\u{1F433}",
                "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\\u003c\\u003e\\u0026\u{7f}\\u2028\\u2029\u{202a}é\u{1F433}\"",
            ),
            ("", "\"\""),
        ] {
            let mut out = Vec::new();
            write_string(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), json);
        }
    }
}
