//! Notes on unknown and duplicate fields: each field once, bounded in number and bytes.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

use tidings_core::validate::{Quoted, text_within};

use crate::bounded::text_len;

/// Maximum notes on one body, as in kube-apiserver.
const NOTES_MAX: usize = 100;
/// Maximum bytes of all notes on one body.
const NOTES_BYTES_MAX: usize = 32 * 1024;

/// The notes on one body, such as `unknown field "metadata.foo"`.
#[derive(Debug, Default)]
pub struct Notes {
    /// The notes, in the order of the document.
    pub texts: Vec<String>,
    /// Digests of the noted paths, so that each path is noted once.
    noted: HashSet<u64>,
    bytes: usize,
}

impl Notes {
    /// Notes a field by its path.
    pub(crate) fn note(&mut self, what: &str, path: &str) {
        let mut digest = DefaultHasher::new();
        digest.write(path.as_bytes());
        self.note_digested(what, digest, path);
    }

    /// Notes a field by a digest of its path, besides the path. A path that was noted before is
    /// then not read again.
    pub(crate) fn note_digested(&mut self, what: &str, mut path_digest: DefaultHasher, path: &str) {
        if self.texts.len() >= NOTES_MAX || self.bytes >= NOTES_BYTES_MAX {
            return;
        }
        path_digest.write(what.as_bytes());
        if self.noted.insert(path_digest.finish()) {
            let text = format_args!("{what} field {}", Quoted(path));
            match text_within(text, NOTES_BYTES_MAX - self.bytes) {
                Ok(text) => {
                    self.bytes += text_len(&text);
                    self.texts.push(text);
                }
                Err(cut) => {
                    self.bytes = NOTES_BYTES_MAX;
                    self.texts.push(cut);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_told_once_and_bounded() {
        let mut notes = Notes::default();
        for path in ["a.b", "a.c", "a.b"] {
            notes.note("unknown", path);
        }
        notes.note("duplicate", "a.b");
        let expected = [
            "unknown field \"a.b\"",
            "unknown field \"a.c\"",
            "duplicate field \"a.b\"",
        ];
        assert_eq!(notes.texts, expected);

        for number in 0..1000 {
            notes.note("unknown", &number.to_string());
        }
        assert_eq!(notes.texts.len(), NOTES_MAX);

        let mut long = Notes::default();
        for number in 0..10 {
            long.note("unknown", &format!("{}{number}", "a".repeat(10_000)));
        }
        let lens: Vec<usize> = long.texts.iter().map(String::len).collect();
        assert_eq!(lens[..3], [10_017; 3]);
        // The two quotes take two bytes each, because they are escaped.
        assert_eq!(lens[3..], [NOTES_BYTES_MAX - 3 * 10_019 - 1]);
        assert!(long.texts[3].ends_with("a…"));
    }
}
