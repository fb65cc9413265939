//! Strings and integers as Go's encoder writes them, appended to a buffer.

/// The bytes that are not written as they are, or may not be: U+2028 and U+2029 begin with E2.
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
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let len = write_special(special, out);
        rest = special.get(len..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends what begins with a special byte; returns how many bytes that was.
fn write_special(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short: &[u8] = match bytes {
        [b'"', ..] => b"\\\"",
        [b'\\', ..] => b"\\\\",
        [b'\n', ..] => b"\\n",
        [b'\r', ..] => b"\\r",
        [b'\t', ..] => b"\\t",
        [0x08, ..] => b"\\b",
        [0x0c, ..] => b"\\f",
        [0xe2, 0x80, 0xa8, ..] => {
            out.extend_from_slice(b"\\u2028");
            return 3;
        }
        [0xe2, 0x80, 0xa9, ..] => {
            out.extend_from_slice(b"\\u2029");
            return 3;
        }
        [byte @ (0..=0x1f | b'<' | b'>' | b'&'), ..] => {
            out.extend_from_slice(b"\\u00");
            out.extend([byte >> 4, byte & 15].map(|nibble| HEX[usize::from(nibble)]));
            return 1;
        }
        _ => bytes.get(..1).unwrap_or_default(),
    };
    out.extend_from_slice(short);
    1
}

/// Appends an integer.
pub fn write_integer(value: impl Into<i64>, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value.into()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::write_string;

    /// Answers of Go 1.26's encoding/json.
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
            ("", "\"\""),
        ] {
            let mut out = Vec::new();
            write_string(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), json);
        }
    }
}
