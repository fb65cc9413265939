//! Finds blocks of YAML lines, and the events in them.
//!
//! A block is a run of lines that belong together by indentation, up to a separator or another
//! text. The items of the outermost list with events are parsed one by one. So a damaged item loses
//! only itself, and a long list takes no more memory than its text. Parsed values are then handled
//! like JSON.

use std::borrow::Cow;
use std::io;

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use super::line::has_object;
use super::mend;
use super::record::YAML_DOCUMENT_BYTES_MAX;
use super::sink::Sink;
use super::unreadable::{Unreadable, shortened};

/// Maximum lines of other programs within a block.
const LINES_BETWEEN_MAX: usize = 1000;
/// Maximum of these in a row.
const LINES_BETWEEN_RUN: usize = 20;

/// Words before a colon with which other programs begin lines.
const NOT_KEYS: [&[u8]; 8] = [
    b"Warning", b"warning", b"WARNING", b"error", b"Error", b"ERROR", b"hint", b"http",
];
/// Keys of an event that only events and few other objects have.
const OF_EVENTS: [&[u8]; 8] = [
    b"involvedObject",
    b"regarding",
    b"reason",
    b"message",
    b"note",
    b"firstTimestamp",
    b"lastTimestamp",
    b"reportingComponent",
];
/// Keys of an event's object reference.
const ABOUT: [&[u8]; 3] = [b"involvedObject", b"regarding", b"InvolvedObject"];
/// Fields of events and lists whose value has braces.
const WITH_BRACES: [&[u8]; 12] = [
    b"metadata",
    b"involvedObject",
    b"regarding",
    b"related",
    b"source",
    b"series",
    b"deprecatedSource",
    b"items",
    b"InvolvedObject",
    b"Source",
    b"Series",
    b"Items",
];
/// Fields of events whose value is any text.
const TEXTS: [&[u8]; 3] = [b"message", b"note", b"Message"];
/// Keys with which Kubernetes objects begin.
const KNOWN: [&[u8]; 8] = [
    b"apiVersion",
    b"kind",
    b"items",
    b"metadata",
    b"involvedObject",
    b"regarding",
    b"InvolvedObject",
    b"Items",
];
/// Keys under which events are in watch events and lines of an event router.
const AROUND: [&[u8]; 2] = [b"object", b"event"];

/// A line, judged by its beginning.
pub(super) struct Line<'a> {
    /// The line without the blank space around it.
    pub(super) text: &'a [u8],
    indent: usize,
    /// The column of the text after the dashes of list items.
    column: usize,
    pub(super) key: Option<&'a [u8]>,
    value: &'a [u8],
    /// Whether the line begins with a tab, which is no indentation in YAML.
    is_tabbed: bool,
}

impl<'a> Line<'a> {
    /// Judges the line at the beginning of `bytes`; more lines may follow.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let text = line.trim_ascii();
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let mut rest = text;
        while let Some(item) = rest.strip_prefix(b"- ") {
            rest = item.trim_ascii_start();
        }
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./".contains(byte);
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        let (key, value) = rest.split_at(length);
        let is_key = key.first().is_some_and(u8::is_ascii_alphabetic)
            && value.first() == Some(&b':')
            && value.get(1).is_none_or(u8::is_ascii_whitespace)
            && !NOT_KEYS.contains(&key);
        Self {
            text,
            indent,
            column: indent + (text.len() - rest.len()),
            key: is_key.then_some(key),
            value: value.get(1..).unwrap_or_default().trim_ascii(),
            is_tabbed: line.starts_with(b"\t"),
        }
    }

    fn is_item(&self) -> bool {
        self.text == b"-" || self.text.starts_with(b"- ")
    }

    /// Whether the line has a key with which Kubernetes objects begin.
    pub(super) fn is_known(&self) -> bool {
        let is_around = |key| AROUND.contains(&key) && self.value.is_empty();
        self.key
            .is_some_and(|key| KNOWN.contains(&key) || is_around(key))
    }

    fn has_event(&self) -> bool {
        let is_event = |key: &[u8]| {
            ABOUT.contains(&key)
                || (key == b"kind" && matches!(self.value, b"Event" | b"\"Event\""))
        };
        self.key.is_some_and(is_event) || self.has_event_in_flow()
    }

    /// Whether an event in flow style, `{involvedObject: {…}}`, is on the line.
    fn has_event_in_flow(&self) -> bool {
        let is_before_colon = |at: usize| {
            let behind = self.text.get(at..).unwrap_or_default();
            let behind = behind.strip_prefix(b"\"").unwrap_or(behind);
            behind.trim_ascii_start().starts_with(b":")
        };
        let is_key = |key: &[u8]| {
            let mut pieces = self.text.windows(key.len()).enumerate();
            pieces.any(|(at, piece)| piece == key && is_before_colon(at + key.len()))
        };
        self.text.contains(&b'{') && ABOUT.iter().any(|key| is_key(key))
    }

    /// Whether a key has its whole value on the line, so that no deeper line may follow.
    fn is_complete(&self) -> bool {
        let is_closed = match self.value {
            [] | [b'|' | b'>' | b'&' | b'!', ..] => false,
            [first @ (b'"' | b'\''), rest @ ..] => rest.last() == Some(first),
            [b'{', rest @ ..] => rest.last() == Some(&b'}'),
            [b'[', rest @ ..] => rest.last() == Some(&b']'),
            _ => true,
        };
        self.key.is_some() && is_closed
    }

    /// Whether a block of YAML begins with the line.
    pub(super) fn begins_block(&self) -> bool {
        let is_flow = self.value.contains(&b'{');
        self.key.is_some() && !self.is_of_log(false) && (self.is_known() || !is_flow)
    }

    /// Whether the line has JSON where events and lists have none, as in the log of a program:
    /// behind other text, or behind a key that is no field of theirs. In an event, texts may have
    /// JSON, too.
    fn is_of_log(&self, is_in_event: bool) -> bool {
        let is_field = |key: &[u8]| {
            let is_text = is_in_event && !self.value.starts_with(b"{");
            WITH_BRACES.contains(&key) || (is_text && TEXTS.contains(&key))
        };
        let is_field = self.key.is_some_and(is_field) || (is_in_event && self.is_item());
        !is_field && has_object(self.text)
    }

    /// Whether JSON on several lines may begin at the end of the line, as in the log of a program.
    pub(super) fn may_open_object(&self) -> bool {
        let is_known = |key| WITH_BRACES.contains(&key);
        self.text.ends_with(b"{") && !self.key.is_some_and(is_known)
    }
}

/// How a line relates to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Within,
    /// Between the block's lines, but not part of it.
    Between,
    /// Within the block, unless an event in JSON is on the line.
    Unclear,
    Behind,
}

/// A block of YAML lines.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says what was seen, and none excludes another"
)]
pub(super) struct Block {
    first_line: u64,
    base: Option<usize>,
    text: Vec<u8>,
    is_too_large: bool,
    has_event: bool,
    is_known: bool,
    has_version: bool,
    has_items: bool,
    has_kind: bool,
    /// Whether the input ends with the block.
    is_last: bool,
    /// Whether the input ended with an error within the block.
    is_cut: bool,
    /// The lines that were left out, each by the number of block lines before it.
    between: Vec<u64>,
    between_run: usize,
    lines: u64,
}

impl Block {
    pub(super) fn new(first_line: u64) -> Self {
        Self {
            first_line,
            base: None,
            text: Vec::new(),
            is_too_large: false,
            has_event: false,
            is_known: false,
            has_version: false,
            has_items: false,
            has_kind: false,
            is_last: false,
            is_cut: false,
            between: Vec::new(),
            between_run: 0,
            lines: 0,
        }
    }

    /// How the next line relates to the block.
    pub(super) fn place(&mut self, line: &Line<'_>) -> Place {
        let base = *self.base.get_or_insert(line.indent);
        let is_begun = self.lines > 0;
        let is_inside = line.indent > base;
        if line.text.is_empty() {
            return self.within();
        }
        let is_fence = line.text.starts_with(b"```") || line.text.starts_with(b"~~~");
        let is_separator = matches!(line.text, b"---" | b"...") || line.text.starts_with(b"--- ");
        let is_json = line.text.starts_with(b"{");
        if !is_inside && (is_fence || is_separator || is_json) {
            return Place::Behind;
        }
        let is_of_log = line.is_of_log(self.is_known);
        if (is_json || is_of_log) && !self.is_known {
            return Place::Behind;
        }
        let is_item = line.is_item() && self.is_known;
        let is_of_log = is_of_log || (line.may_open_object() && !is_item);
        let has_place = is_inside || line.key.is_some() || line.is_item();
        if is_of_log && has_place && is_begun && !(is_inside && self.is_known) {
            let is_full = self.between.len() >= LINES_BETWEEN_MAX;
            return if is_full {
                Place::Behind
            } else {
                Place::Unclear
            };
        }
        if is_inside {
            return self.keep(line);
        }
        let is_version = line.key == Some(b"apiVersion") && !line.is_item();
        if is_version && std::mem::replace(&mut self.has_version, true) {
            return Place::Behind;
        }
        self.has_items |= line.key == Some(b"items");
        self.has_kind |= line.key == Some(b"kind") && !line.is_item();
        let is_comment = line.text.starts_with(b"#");
        if line.key.is_some() || line.is_item() || is_comment {
            return self.keep(line);
        }
        self.between_run += 1;
        if !is_begun
            || self.between_run > LINES_BETWEEN_RUN
            || self.between.len() >= LINES_BETWEEN_MAX
        {
            return Place::Behind;
        }
        Place::Between
    }

    /// Notes that a line is part of the block.
    pub(super) fn keep(&mut self, line: &Line<'_>) -> Place {
        self.has_event |= line.has_event();
        self.is_known |= line.is_known();
        self.within()
    }

    fn within(&mut self) -> Place {
        self.between_run = 0;
        self.lines += 1;
        Place::Within
    }

    /// Adds a piece of a line of the block.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if self.text.len() + bytes.len() > YAML_DOCUMENT_BYTES_MAX {
            self.is_too_large = true;
            self.text = Vec::new();
        }
        if !self.is_too_large {
            self.text.extend_from_slice(bytes);
        }
    }

    /// Notes that the input ends with the block.
    pub(super) fn end(&mut self) {
        self.is_last = true;
    }

    /// Notes that the input ended with an error within the block, in a line that begins so.
    pub(super) fn cut(&mut self, line: &[u8]) {
        self.is_cut = true;
        self.extend(line);
    }

    /// Whether the last of its parts is cut off. A list ends with its `kind`. If that is not there,
    /// an item is whole if its last line is, and its last key is that of the item before.
    fn is_cut_in(&self, last: &Part<'_>, before: Option<&Part<'_>>) -> bool {
        let is_open = self.is_last && self.has_version && self.has_items && !self.has_kind;
        let is_other = before.is_some_and(|before| before.last_key != last.last_key);
        self.is_cut || is_open && (!self.text.ends_with(b"\n") || is_other)
    }

    /// Records a line that is left out.
    pub(super) fn pass_line(&mut self) {
        self.between.push(self.lines);
    }

    /// The line number in the input of a line of the block, counted from 0.
    fn number(&self, index: u64) -> u64 {
        let before = self.between.partition_point(|lines| *lines <= index) as u64;
        self.first_line + index + before
    }

    /// Whether an event may be on one of the lines. Only the beginnings of long lines were judged.
    fn may_have_event(&self) -> bool {
        let mut lines = self.text.split(|byte| *byte == b'\n').map(Line::of);
        self.has_event || lines.any(|line| line.has_event_in_flow())
    }

    /// Whether a line was left out between these lines.
    fn is_mended(&self, from: u64, to: u64) -> bool {
        self.between
            .iter()
            .any(|lines| (from + 1..to).contains(lines))
    }
}

/// A part of a block: one item of a list, or all of it.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says what was seen, and none excludes another"
)]
struct Part<'a> {
    /// The text without the lines of other programs.
    text: Cow<'a, [u8]>,
    first: u64,
    end: u64,
    has_event: bool,
    has_kind: bool,
    is_known: bool,
    is_item: bool,
    /// Whether lines of other programs were cut out.
    is_mended: bool,
    /// The last of an item's keys.
    last_key: Option<&'a [u8]>,
    /// Whether it has keys of an event, and is no item of the list: its beginning is missing.
    is_headless: bool,
}

/// Passes the events of a block to the sink.
pub(super) fn read(block: &Block, sink: &mut Sink<'_>) -> io::Result<()> {
    if block.is_too_large {
        let limit = YAML_DOCUMENT_BYTES_MAX;
        if block.has_event {
            sink.lost(block.first_line, Unreadable::TooLarge { limit });
        }
        return Ok(());
    }
    if !block.may_have_event() {
        sink.seen.yaml(&block.text);
        return Ok(());
    }
    let parts = parts(&block.text);
    let is_cut = parts.split_last().is_some_and(|(last, before)| {
        let is_cut = block.is_cut_in(last, before.last());
        is_cut && (last.has_event || last.is_known)
    });
    for (number, part) in parts.iter().enumerate() {
        if sink.is_stopped() {
            break;
        }
        let line = block.number(part.first);
        if is_cut && number + 1 == parts.len() {
            sink.lost(line, cut_off());
            continue;
        }
        if part.is_headless {
            sink.lost(line, Unreadable::headless());
            continue;
        }
        if !part.has_event {
            // The item was cut off before its object reference.
            if part.is_known && !part.has_kind {
                sink.perhaps_lost(line, cut_off(), false);
            }
            continue;
        }
        match parse(&part.text, part.is_item) {
            Ok((value, is_mended)) => {
                let is_mended =
                    is_mended || part.is_mended || block.is_mended(part.first, part.end);
                sink.value(line, &value, is_mended)?;
            }
            Err(why) => sink.lost(line, Unreadable::Syntax(format!("not YAML: {why}"))),
        }
    }
    Ok(())
}

fn cut_off() -> Unreadable {
    Unreadable::Syntax("it ends within the event".to_owned())
}

/// An item of a list, while its lines are read.
struct Item<'a> {
    part: Part<'a>,
    /// The column of the item's keys.
    column: usize,
    keys: Vec<&'a [u8]>,
    /// The beginning of the text that is not added to the part yet.
    from: usize,
    behind: Option<Behind>,
}

/// Lines of lesser depth: the end of an item, or lines of other programs within it.
struct Behind {
    /// The position of the first of these lines, and its number.
    at: usize,
    number: u64,
    /// Whether each of them has a complete value.
    is_complete: bool,
}

impl<'a> Item<'a> {
    fn begin(at: usize, number: u64, line: &Line<'a>) -> Self {
        let mut item = Self {
            part: Part {
                first: number,
                is_item: true,
                ..Part::default()
            },
            column: line.column,
            keys: Vec::new(),
            from: at,
            behind: None,
        };
        item.note(line);
        item
    }

    fn note(&mut self, line: &Line<'a>) {
        self.part.note(line);
        if line.column == self.column {
            self.keys.extend(line.key);
        }
    }

    /// Whether a deeper line belongs to the item. Behind a key with a complete value there is no
    /// deeper line in YAML, so that key is the text of another program. Behind a key without a
    /// value, only a missing key of the event shows this.
    fn has(&self, line: &Line<'_>) -> bool {
        let is_missing = |key| OF_EVENTS.contains(&key) && !self.keys.contains(&key);
        self.behind.as_ref().is_none_or(|behind| {
            behind.is_complete || (line.column == self.column && line.key.is_some_and(is_missing))
        })
    }

    /// Cuts out the lines of lesser depth, before the line at a position.
    fn cut(&mut self, text: &'a [u8], at: usize) {
        if let Some(behind) = self.behind.take() {
            let piece = text.get(self.from..behind.at).unwrap_or_default();
            self.part.text.to_mut().extend_from_slice(piece);
            self.part.is_mended = true;
            self.from = at;
        }
    }

    /// Ends the item before the line at a position.
    fn end(mut self, text: &'a [u8], at: usize, number: u64) -> Part<'a> {
        let (at, number) = self
            .behind
            .map_or((at, number), |behind| (behind.at, behind.number));
        let piece = text.get(self.from..at).unwrap_or_default();
        if self.part.is_mended {
            self.part.text.to_mut().extend_from_slice(piece);
        } else {
            self.part.text = piece.into();
        }
        self.part.end = number;
        self.part.last_key = self.keys.last().copied();
        self.part
    }
}

/// The items of the outermost list with events, or else the whole block.
fn parts(text: &[u8]) -> Vec<Part<'_>> {
    let lines = || (0..).zip(text.split_inclusive(|byte| *byte == b'\n'));
    let Some(indent) = indent_of_events(text) else {
        let mut whole = Part {
            text: text.into(),
            ..Part::default()
        };
        lines().for_each(|(_, line)| whole.note(&Line::of(line)));
        whole.end = lines().count() as u64;
        return vec![whole];
    };
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut open: Option<Item<'_>> = None;
    // Deeper lines at the beginning are the rest of an item.
    let mut head = Some(Part::default());
    let mut at = 0;
    for (number, bytes) in lines() {
        let line = Line::of(bytes);
        let is_item = line.indent == indent && line.is_item() && !line.is_tabbed;
        let is_deeper = line.indent > indent || line.is_tabbed;
        if is_item {
            parts.extend(open.take().map(|item| item.end(text, at, number)));
            open = Some(Item::begin(at, number, &line));
        } else if let Some(item) = &mut open
            && !line.text.is_empty()
        {
            if !is_deeper {
                let first = Behind {
                    at,
                    number,
                    is_complete: true,
                };
                item.behind.get_or_insert(first).is_complete &= line.is_complete();
            } else if item.has(&line) {
                item.cut(text, at);
                item.note(&line);
            } else {
                parts.extend(open.take().map(|item| item.end(text, at, number)));
            }
        }
        if parts.is_empty() && open.is_none() && !line.text.is_empty() {
            head = head.filter(|_| is_deeper);
            if let Some(head) = &mut head {
                head.is_headless |= line.key.is_some_and(|key| OF_EVENTS.contains(&key));
            }
        }
        at += bytes.len();
    }
    if let Some(item) = open {
        parts.push(item.end(text, text.len(), lines().count() as u64));
    }
    // Items of other lists at the same column are ignored.
    let is_event = |part: &Part<'_>| part.has_event;
    let (first, last) = (
        parts.iter().position(is_event).unwrap_or_default(),
        parts.iter().rposition(is_event).map_or(0, |last| last + 2),
    );
    parts.truncate(last);
    parts.drain(..first.min(parts.len()));
    if let Some(head) = head.filter(|head| head.is_headless) {
        parts.insert(0, head);
    }
    parts
}

impl Part<'_> {
    fn note(&mut self, line: &Line<'_>) {
        self.has_event |= line.has_event();
        self.has_kind |= line.key == Some(b"kind");
        self.is_known |= line.is_known();
    }
}

/// The column of the dashes of the outermost list whose items have events.
fn indent_of_events(text: &[u8]) -> Option<usize> {
    let mut dashes: Vec<usize> = Vec::new();
    let mut least = None;
    for line in text.split_inclusive(|byte| *byte == b'\n').map(Line::of) {
        let is_item = line.is_item();
        // A key with a complete value ends no list that deeper lines continue: it is the text of
        // another program, or nothing deeper follows.
        if line.text.is_empty() || line.is_tabbed {
            continue;
        }
        while (is_item || !line.is_complete())
            && dashes
                .last()
                .is_some_and(|dash| *dash > line.indent || (*dash == line.indent && !is_item))
        {
            dashes.pop();
        }
        if is_item && dashes.last() != Some(&line.indent) {
            dashes.push(line.indent);
        }
        if line.has_event()
            && let Some(dash) = dashes.first().filter(|dash| **dash < line.column)
        {
            least = Some(least.map_or(*dash, |least: usize| least.min(*dash)));
        }
    }
    least
}

/// Parses a text, and returns whether it had to be repaired. In an item of a list, the last of two
/// equal keys counts, as for kubectl. Elsewhere they may be of two events in the lines of a log.
fn parse(text: &[u8], is_item: bool) -> Result<(Value, bool), String> {
    let first = match std::str::from_utf8(text) {
        Ok(text) => match serde_saphyr::from_str_with_options(text, options(is_item)) {
            Ok(value) => return Ok((value, false)),
            Err(error) => shortened(&first_sentence(&error)),
        },
        Err(_) => "bytes that are no text".to_owned(),
    };
    let mended = mend::yaml(text);
    serde_saphyr::from_str_with_options(&mended, options(is_item))
        .map(|value| (value, true))
        .map_err(|_| first)
}

fn first_sentence(error: &serde_saphyr::Error) -> String {
    error
        .without_snippet()
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The YAML library's limits on aliases and depth apply; its limits on size are replaced by ours.
/// Values are read as kubectl writes them.
fn options(is_item: bool) -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: if is_item {
            DuplicateKeyPolicy::LastWins
        } else {
            DuplicateKeyPolicy::Error
        },
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: YAML_DOCUMENT_BYTES_MAX,
        },
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}
