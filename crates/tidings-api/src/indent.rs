//! Indents JSON as Go does it for `pretty`, chunk by chunk.

/// Indents compact JSON by two spaces, and keeps the order of members. Chunks may end anywhere.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the last byte opened an object or a list; an empty one stays on one line.
    opened: bool,
}

impl Indenter {
    /// Appends the next chunk of a document, indented.
    pub fn push(&mut self, json: &[u8], out: &mut Vec<u8>) {
        out.reserve(json.len() * 3 / 2);
        for &byte in json {
            if self.in_string {
                out.push(byte);
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            let closes = matches!(byte, b'}' | b']');
            match (std::mem::take(&mut self.opened), closes) {
                (true, false) => {
                    self.depth += 1;
                    self.line(out);
                }
                (false, true) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.line(out);
                }
                _ => {}
            }
            out.push(byte);
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.opened = true,
                b',' => self.line(out),
                b':' => out.push(b' '),
                _ => {}
            }
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', self.depth * 2));
    }
}

#[cfg(test)]
mod tests {
    use super::Indenter;

    #[test]
    fn chunks_may_end_anywhere() {
        let json = br#"{"a":{},"b":[],"c":[1,{"d":"x,{\"}\\"}],"e":{"f":null}}"#;
        let expected = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x,{\\\"}\\\\\"\n    }\n  ],\n  \"e\": {\n    \"f\": null\n  }\n}";
        for len in 1..=json.len() {
            let (mut indenter, mut whole) = (Indenter::default(), Vec::new());
            for chunk in json.chunks(len) {
                let mut out = Vec::new();
                indenter.push(chunk, &mut out);
                whole.extend(out);
            }
            assert_eq!(String::from_utf8(whole).unwrap(), expected, "{len}");
        }
    }
}
