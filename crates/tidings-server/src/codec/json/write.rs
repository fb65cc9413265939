//! JSON as Go's encoder writes it, appended to a buffer.

use super::{Field, Object};

/// The members of an object being written.
pub(crate) struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Members<'_> {
    pub(crate) fn member<View, F: Field<View>>(
        &mut self,
        name: &'static str,
        value: &F,
        always: bool,
    ) {
        if always || !value.is_empty() {
            self.name(name);
            value.write(self.out);
        }
    }

    pub(crate) fn string(&mut self, name: &'static str, value: &str) {
        self.name(name);
        write_string(value, self.out);
    }

    /// A member whose value `write` appends.
    pub(crate) fn raw(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.name(name);
        write(self.out);
    }

    /// The members still to come, appended by `write`, which puts a comma before its first if something is there.
    pub(crate) fn rest(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.first = false;
        write(self.out);
    }

    fn name(&mut self, name: &'static str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// Appends `{…}` with the members that `fill` adds.
pub(crate) fn write_members(out: &mut Vec<u8>, fill: impl FnOnce(&mut Members<'_>)) {
    out.push(b'{');
    fill(&mut Members { out, first: true });
    out.push(b'}');
}

/// Appends a string as Go's encoder does, with `<`, `>`, `&`, U+2028 and U+2029 escaped.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0..=0x1f | b'<' | b'>' | b'&' => b"\\u",
            // U+2028 and U+2029 are E2 80 A8 and E2 80 A9.
            0xe2 if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => b"\\u",
            _ => continue,
        };
        out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        out.extend_from_slice(short);
        from = at + 1;
        if byte == 0xe2 {
            let last = bytes
                .get(at + 2)
                .map_or(b'8', |third| if *third == 0xa8 { b'8' } else { b'9' });
            out.extend_from_slice(b"202");
            out.push(last);
            from = at + 3;
        } else if short == b"\\u" {
            out.extend_from_slice(b"00");
            out.extend([byte >> 4, byte & 15].map(|nibble| HEX[usize::from(nibble)]));
        }
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    out.push(b'"');
}

pub(crate) fn write_integer(value: impl Into<i64>, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{}", value.into());
}

/// Appends an object; the zero value when unset.
pub(crate) fn write_object<View, T: Object<View>>(object: Option<&T>, out: &mut Vec<u8>) {
    write_members(out, |members| match object {
        Some(object) => object.write_fields(members),
        None => T::default().write_fields(members),
    });
}

pub(crate) fn write_list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
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
