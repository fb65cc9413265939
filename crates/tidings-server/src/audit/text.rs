//! Texts of an entry that come from clients and authenticators, cut to their bounds.
//!
//! Texts are measured as JSON writes them, so that the bounds of an entry's parts add up to the
//! bound of its line. A text that is cut ends with the mark that kube-apiserver uses for a
//! User-Agent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::auth::UserInfo;

/// Maximum bytes of a line without a body. The bounds of its parts add up to less.
pub(super) const METADATA_BYTES_MAX: usize = 32 << 10;
/// Maximum bytes of a text. It is kube-apiserver's limit for a User-Agent.
pub(super) const TEXT_BYTES_MAX: usize = 1024;
/// Maximum bytes of a request's path and query.
pub(super) const URI_BYTES_MAX: usize = 4096;
/// Maximum bytes of a user's groups, and of its extras.
const LIST_BYTES_MAX: usize = 4096;

const MARK: &str = "...TRUNCATED";

/// The text; if it has more than `bytes_max` bytes, its beginning and the mark.
pub(super) fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let mut len = 0;
    for (at, character) in text.char_indices() {
        len += json_len(character);
        if len > bytes_max {
            let kept = text.get(..at).unwrap_or_default();
            return Cow::Owned(format!("{kept}{MARK}"));
        }
    }
    Cow::Borrowed(text)
}

/// The text of a header's value, whatever bytes it has.
pub(super) fn header(value: &[u8]) -> Cow<'_, str> {
    // Bytes after these would be cut in any case, because no byte becomes shorter.
    let read = value.get(..TEXT_BYTES_MAX + 4).unwrap_or(value);
    match String::from_utf8_lossy(read) {
        Cow::Borrowed(text) => cut(text, TEXT_BYTES_MAX),
        Cow::Owned(text) => Cow::Owned(cut(&text, TEXT_BYTES_MAX).into_owned()),
    }
}

/// A principal as an entry names it.
#[derive(Default, Serialize)]
pub(super) struct Who<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<Cow<'a, str>, Vec<Cow<'a, str>>>,
}

impl<'a> Who<'a> {
    pub(super) fn of(user: &'a UserInfo) -> Self {
        Self {
            username: cut(&user.name, TEXT_BYTES_MAX),
            uid: cut(&user.uid, TEXT_BYTES_MAX),
            groups: Room(LIST_BYTES_MAX).take_all(&user.groups),
            extra: extra(&user.extra),
        }
    }
}

fn extra(all: &BTreeMap<String, Vec<String>>) -> BTreeMap<Cow<'_, str>, Vec<Cow<'_, str>>> {
    let mut room = Room(LIST_BYTES_MAX);
    let mut kept = BTreeMap::new();
    for (key, values) in all {
        let Some(key) = room.take(key) else {
            kept.insert(MARK.into(), Vec::new());
            break;
        };
        kept.insert(key, room.take_all(values));
    }
    kept
}

/// Bytes that are left for a list.
struct Room(usize);

impl Room {
    /// Takes room for a text; `None` if there is not enough. After one text that did not fit, there
    /// is no room for others.
    fn take<'a>(&mut self, text: &'a str) -> Option<Cow<'a, str>> {
        /// Quotes, a comma or a colon, and brackets.
        const AROUND: usize = 6;
        let text = cut(text, TEXT_BYTES_MAX);
        let len = text.chars().map(json_len).sum::<usize>() + AROUND;
        let left = self.0.checked_sub(len);
        self.0 = left.unwrap_or(0);
        left.map(|_| text)
    }

    /// Takes as many texts as fit, and the mark if some do not.
    fn take_all<'a>(&mut self, texts: &'a [String]) -> Vec<Cow<'a, str>> {
        let mut kept = Vec::new();
        for text in texts {
            let Some(text) = self.take(text) else {
                kept.push(MARK.into());
                break;
            };
            kept.push(text);
        }
        kept
    }
}

/// Bytes of a character in a JSON string, as serde_json writes it.
fn json_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_measured_as_json_writes_them() {
        for character in ('\0'..='\u{100}').chain(['\u{2028}', '\u{fffd}', '\u{1f600}']) {
            let written = serde_json::to_string(&character).unwrap();
            assert_eq!(json_len(character), written.len() - 2, "{character:?}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, bytes_max, expected) in [
            ("", 0, ""),
            ("abc", 3, "abc"),
            ("abcd", 3, "abc...TRUNCATED"),
            ("a\u{e9}\u{e9}", 4, "a\u{e9}...TRUNCATED"),
            ("\"\"\"", 4, "\"\"...TRUNCATED"),
            ("\u{1}", 5, "...TRUNCATED"),
        ] {
            assert_eq!(cut(text, bytes_max), expected, "{text:?}");
        }
        assert_eq!(header(b"\xe9t\xe9"), "\u{fffd}t\u{fffd}");
        let long = header(&b"\xff".repeat(100_000)).into_owned();
        assert!(long.ends_with(MARK) && long.len() <= TEXT_BYTES_MAX + MARK.len());
    }

    #[test]
    fn of_a_user_of_many_groups_the_first_are_kept() {
        let texts = |count| (0..count).map(|number: u32| format!("{number:0>100}"));
        let user = UserInfo {
            name: "ann".into(),
            groups: texts(1000).collect(),
            extra: [
                ("a".to_owned(), texts(3).collect()),
                ("b".to_owned(), texts(100).collect()),
                ("c".to_owned(), Vec::new()),
            ]
            .into(),
            ..UserInfo::default()
        };
        let who = serde_json::to_value(Who::of(&user)).unwrap();
        let groups = who["groups"].as_array().unwrap();
        assert_eq!((groups.len(), &groups[38]), (39, &MARK.into()));
        assert_eq!(groups[37], user.groups[37]);
        assert_eq!(who["extra"]["a"].as_array().unwrap().len(), 3);
        let values = who["extra"]["b"].as_array().unwrap();
        assert_eq!(values.last(), Some(&MARK.into()));
        assert_eq!(who["extra"][MARK], serde_json::json!([]));
        assert!(who["extra"].get("c").is_none());
    }
}
