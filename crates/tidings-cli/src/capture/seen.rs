//! Describes the content of a capture without events, for the error message.

use std::collections::BTreeMap;

use super::shape::Shape;

/// Maximum kinds that are named.
const KINDS_MAX: usize = 8;

/// Compressed formats and archives that are not read, by their first bytes.
const PACKED: [(&[u8], &str); 3] = [
    (b"\x04\x22\x4d\x18", "an lz4 file: decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
];

/// Other formats, by their first bytes.
const MAGIC: [(&[u8], &str); 12] = [
    (
        b"k8s\0",
        "an object in Kubernetes' protobuf: kubectl get -o json prints JSON",
    ),
    (
        b"PAR1",
        "a Parquet file: tidings serve --archive serves an archive's files",
    ),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"<!", "a page of HTML"),
    (b"<html", "a page of HTML"),
    (b"<HTML", "a page of HTML"),
];

/// Text that kubectl prints for people, by the beginning of a line.
const PRINTED: [(&[u8], &str); 6] = [
    (b"LAST SEEN ", TABLE),
    (b"LASTSEEN ", TABLE),
    (
        b"event/",
        "names of events; -o json and -o yaml print events",
    ),
    (b"No resources found", "kubectl's word that it found none"),
    (
        b"Error from server",
        "kubectl's word that the server refused",
    ),
    (
        b"Name: ",
        "a description, as printed for people; -o json and -o yaml print events",
    ),
];
const TABLE: &str = "a table, as printed for people; -o json and -o yaml print events";

#[expect(
    clippy::struct_excessive_bools,
    reason = "each says what was seen, and none excludes another"
)]
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Events, readable or not.
    pub(super) events: u64,
    /// Whether the text could not be read to its end.
    pub(super) is_failed: bool,
    packed: Option<&'static str>,
    magic: Option<&'static str>,
    printed: Option<&'static str>,
    has_list: bool,
    has_text: bool,
    has_object: bool,
    has_yaml: bool,
    has_zeros: bool,
    audited: u64,
    of_an_archive: u64,
    kinds: BTreeMap<Box<str>, u64>,
}

impl Seen {
    /// Records the beginning of a line, and the same without the blank space around it.
    pub(super) fn line(&mut self, beginning: &[u8], text: &[u8]) {
        let find = |known: &[(&[u8], &'static str)], text: &[u8]| {
            let mut known = known.iter();
            let found = known.find(|(magic, _)| text.starts_with(magic));
            found.map(|(_, words)| *words)
        };
        if !self.has_text && !text.is_empty() {
            self.packed = find(&PACKED, beginning);
            self.magic = find(&MAGIC, text);
            self.has_zeros = beginning.contains(&0);
            self.has_text = true;
        }
        let heading = text.strip_prefix(b"NAMESPACE").unwrap_or(text);
        let found = find(&PRINTED, heading.trim_ascii_start());
        self.printed = self.printed.or(found);
    }

    /// Records an object that is not an event.
    pub(super) fn note(&mut self, shape: &Shape) {
        self.has_object = true;
        if shape.is_audit() {
            self.audited += 1;
        } else if shape.is_of_an_archive() {
            self.of_an_archive += 1;
        } else if let Some(kind) = shape.other_kind() {
            if shape.is_typed() && (self.kinds.len() < KINDS_MAX || self.kinds.contains_key(kind)) {
                *self.kinds.entry(kind.into()).or_default() += 1;
            }
        } else if shape.is_list() {
            self.has_list = true;
        }
    }

    /// Records a block of YAML without events.
    pub(super) fn yaml(&mut self, text: &[u8]) {
        let kinds = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let kind = line.strip_prefix(b"kind:")?.trim_ascii();
            std::str::from_utf8(kind).ok()
        });
        for kind in kinds {
            if matches!(kind, "List" | "EventList") {
                self.has_list |= is_empty_list(text);
            } else if self.kinds.len() < KINDS_MAX || self.kinds.contains_key(kind) {
                *self.kinds.entry(kind.into()).or_default() += 1;
            }
        }
        self.has_yaml = true;
    }

    /// Whether the text is empty.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_text
    }

    /// Whether the text is an empty list of events.
    pub(super) fn is_empty_list(&self) -> bool {
        self.has_list && self.kinds.is_empty()
    }

    /// The name of the text's format, if it is a compressed format or an archive that is not read.
    pub(super) fn packed(&self) -> Option<&'static str> {
        self.packed
    }

    /// Whether the text has other Kubernetes objects.
    pub(super) fn has_other(&self) -> bool {
        !self.kinds.is_empty() || self.audited + self.of_an_archive > 0
    }

    /// A description of a text without events.
    pub(super) fn what(&self) -> String {
        let words = match self {
            Self {
                packed: Some(words),
                ..
            }
            | Self {
                magic: Some(words), ..
            } => words,
            _ if self.audited > 0 => "an audit log, which says who asked the API server for what",
            _ if self.of_an_archive > 0 => {
                "an export with versions, which tidings archive --import puts into an archive"
            }
            Self {
                printed: Some(words),
                ..
            } => words,
            _ if !self.kinds.is_empty() => {
                let kinds = self.kinds.iter();
                let kinds: Vec<_> = kinds
                    .map(|(kind, count)| format!("{kind} ({count})"))
                    .collect();
                return format!("other objects: {}", kinds.join(", "));
            }
            Self {
                has_zeros: true, ..
            } => "a file that is not text",
            Self {
                has_object: true, ..
            } => "JSON of something else",
            Self { has_yaml: true, .. } => "YAML or text of something else",
            Self {
                has_text: false, ..
            } => "an empty file",
            _ => "text of something else",
        };
        words.to_owned()
    }
}

/// Whether a list in YAML has no items.
fn is_empty_list(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"items:"));
    let is_item = |line: &[u8]| line.trim_ascii_start().starts_with(b"-");
    match value.map(<[u8]>::trim_ascii) {
        Some(b"") => !lines.any(is_item),
        Some(value) => matches!(value, b"[]" | b"null" | b"~"),
        None => true,
    }
}
