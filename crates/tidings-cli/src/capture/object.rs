//! Finds the JSON objects of a text, and the events among them, however deeply nested.
//!
//! The parser follows objects byte by byte, with a stack of open brackets. Only a closed object
//! that has the keys of an event is parsed as a whole. Where the text is broken, all open objects
//! are given up, and the innermost one that may be an event is reported. Lines of other programs
//! between an object's lines are cut out.
//!
//! Invariants: at most [`RECORD_BYTES_MAX`] bytes of an open object are kept in memory, and each
//! byte is read a bounded number of times.

use std::borrow::Cow;
use std::io::{self, Read};

use super::frame::{Broken, Frame, State};
use super::line::{has_object, has_word_of_event, is_of_other_program};
use super::record::{DEPTH_MAX, RECORD_BYTES_MAX};
use super::scan::Scanner;
use super::shape::{Key, Loss, Shape, WORD_BYTES_MAX};
use super::strings::{Quoted, Strings};
use super::unreadable::Unreadable;
use super::window::{Cursor, Window};

/// Maximum lines of other programs that are cut out of one object.
const LINES_BETWEEN_MAX: usize = 64;
/// Maximum length of such a line, in bytes.
const LINE_BETWEEN_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a number or another literal, in bytes.
const LITERAL_BYTES_MAX: usize = 64;

/// The open objects and arrays, and their positions.
pub(super) struct Open {
    frames: Vec<Frame>,
    /// Whether the document's first line has text behind the first brace, as a document on one line
    /// has.
    is_on_one_line: bool,
    /// The number of outermost objects whose beginning is no longer in memory.
    held: usize,
    /// The positions of lines that are not part of the document.
    between: Vec<(u64, u64)>,
    /// The indentation and the key of the document's second line.
    first_key: Option<(u64, Box<[u8]>)>,
    /// The last string that was read.
    last_text: Quoted,
    /// The strings that may have events.
    strings: Strings,
    /// Whether the last token is the first of its line.
    is_first_of_line: bool,
    /// The number of events that were found in the text before the document.
    events_before: u64,
}

impl<R: Read> Scanner<'_, '_, R> {
    /// Whether the bracket at position `at` of the text begins a JSON object. Within a line, a key
    /// and a colon must follow, because text may contain any brackets. At the beginning of a line
    /// (`is_first`) the object may be cut off.
    pub(super) fn begins_object(&mut self, at: u64, is_first: bool) -> io::Result<bool> {
        /// Maximum blank space around a key, and maximum length of a key.
        const BLANK_MAX: usize = 1024;
        const KEY_MAX: usize = 256;
        let is_text = |byte: u8| !byte.is_ascii_whitespace();
        let ahead = self.window.peek(at + 1, BLANK_MAX, is_text)?;
        if ahead.last() != Some(&b'"') {
            let is_at_end = ahead.contains(&b'\n');
            return Ok(is_at_end && self.has_key_behind_line(at + 1)?);
        }
        let key = at + 1 + ahead.len() as u64;
        let is_end = |byte| matches!(byte, b'"' | b'\n');
        let text = self.window.peek(key, KEY_MAX, is_end)?;
        if text.last() != Some(&b'"') {
            return Ok(is_first);
        }
        let is_cut = text.trim_ascii_end().ends_with(b"{\"");
        let behind = key + text.len() as u64;
        let behind = self.window.peek(behind, BLANK_MAX, is_text)?;
        Ok(match behind.last() {
            Some(b':') => true,
            // Another document begins, or a first quote ended the key: this object is cut off.
            Some(b'{') => is_first,
            Some(byte) if is_text(*byte) => is_first && (is_cut || behind.contains(&b'\n')),
            _ => is_first,
        })
    }

    /// Whether a line of another program is between a brace at the end of its line, which is before
    /// the position, and a line with a key.
    fn has_key_behind_line(&mut self, at: u64) -> io::Result<bool> {
        let mut feeds = 0;
        let ahead = self.window.peek(at, LINE_BETWEEN_BYTES_MAX, |byte| {
            feeds += usize::from(byte == b'\n');
            feeds == 3
        })?;
        let mut lines = ahead.split(|byte| *byte == b'\n').skip(1);
        let other = lines.next().unwrap_or_default().trim_ascii();
        let next = lines.next().unwrap_or_default();
        let text = next.trim_ascii_start();
        Ok(is_key(text) && text.len() < next.len() && is_of_other_program(other))
    }

    /// Reads the document at the current position, as far as it is valid; returns whether that is
    /// to its end.
    pub(super) fn document(&mut self) -> io::Result<bool> {
        let is_former = self.is_behind_former_key();
        let is_on_one_line = self.has_text_behind(self.at.at + 1)?;
        let mut open = Open {
            frames: Vec::new(),
            is_on_one_line,
            held: 0,
            between: Vec::new(),
            first_key: None,
            last_text: Quoted::default(),
            strings: Strings::default(),
            is_first_of_line: false,
            events_before: self.sink.seen.events,
        };
        open.push(true, self.at);
        for outermost in &mut open.frames {
            outermost.is_passed_over = is_former;
        }
        self.at.pass();
        while !open.frames.is_empty() && !self.sink.is_stopped() {
            self.hold(&mut open)?;
            if let Err(broken) = self.step(&mut open)?
                && !self.pass_line_between(&mut open, broken)?
            {
                if !self.search(&mut open.strings, &mut open.frames)? {
                    let is_cut = self.look_for_cut_of_kubectl()?;
                    self.give_up(&open, (broken, is_cut));
                }
                self.go_back(&open, broken);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the key of an event's former state is before the current position, as in the log of
    /// a program or in a damaged document: `old_event: {`.
    fn is_behind_former_key(&self) -> bool {
        const LOOK: u64 = 32;
        let from = self.at.line_start.max(self.at.at.saturating_sub(LOOK));
        let before = self.window.between(from, self.at.at).trim_ascii_end();
        let key = before.strip_suffix(b":").unwrap_or_default();
        let key = key.trim_ascii_end();
        let key = key.strip_suffix(b"\"").unwrap_or(key);
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = key.iter().rev().take_while(|byte| is_part(byte)).count();
        let key = key.get(key.len() - length..).unwrap_or_default();
        Shape::default().note(key) == Key::Before
    }

    /// Whether there is text between a position and the end of its line.
    fn has_text_behind(&mut self, at: u64) -> io::Result<bool> {
        let is_end = |byte: u8| byte == b'\n' || !byte.is_ascii_whitespace();
        let ahead = self.window.peek(at, LINE_BETWEEN_BYTES_MAX, is_end)?;
        Ok(ahead.last().is_some_and(|byte| !byte.is_ascii_whitespace()))
    }

    /// Releases the beginnings of objects that cannot be events any more or are too large, up to
    /// the first string that is to be searched.
    fn hold(&mut self, open: &mut Open) -> io::Result<()> {
        let now = self.at.at;
        if open.strings.are_too_long(now) {
            self.search(&mut open.strings, &mut open.frames)?;
        }
        let end = open.strings.start().unwrap_or(now);
        while let Some(frame) = open.frames.get_mut(open.held) {
            frame.is_too_large |= now - frame.start.at > RECORD_BYTES_MAX as u64;
            if !(frame.is_too_large || frame.has_event) {
                self.window.release(end.min(frame.start.at));
                return Ok(());
            }
            open.held += 1;
        }
        self.window.release(end);
        Ok(())
    }

    /// Reads the next token.
    fn step(&mut self, open: &mut Open) -> io::Result<Result<(), Broken>> {
        let Some(byte) = self.skip_blank()? else {
            return Ok(Err(Broken::End));
        };
        open.is_first_of_line = !self.at.has_text;
        self.at.has_text = true;
        // In an object printed on several lines, its content is indented.
        let is_at_edge = byte == b'{' && self.at.is_line_start();
        let is_in_event = is_at_edge && open.frames.iter().any(|frame| frame.shape.is_event());
        let depth = open.frames.len();
        let Some(frame) = open.frames.last_mut() else {
            return Ok(Ok(()));
        };
        match (byte, frame.is_object, frame.state) {
            (b'"', true, State::First | State::Next) => {
                let (text, end) = self.quoted(&mut open.strings, &mut open.frames)?;
                let Some(frame) = open.frames.last_mut() else {
                    return Ok(Ok(()));
                };
                if let Some(broken) = end {
                    return Ok(Err(broken));
                }
                if depth == 1 && frame.state == State::First && open.is_first_of_line {
                    let key = self.window.between(text.start, text.end);
                    let key = key.get(..LITERAL_BYTES_MAX).unwrap_or(key);
                    open.first_key = Some((text.start - self.at.line_start, key.into()));
                }
                open.last_text = text;
                frame.state = State::Colon;
            }
            (b':', true, State::Colon) => {
                self.at.at += 1;
                let Quoted { start, end, .. } = open.last_text;
                frame.key = frame.shape.note(self.window.between(start, end));
                frame.state = State::Value;
            }
            (b',', _, State::After) => {
                self.at.at += 1;
                frame.state = State::Next;
            }
            (b'}', true, State::First | State::Next | State::After)
            | (b']', false, State::First | State::Next | State::After) => {
                self.at.at += 1;
                self.close(open)?;
            }
            // A line of JSON Lines after one that was cut off.
            (b'{', is_object, State::Value | State::First | State::Next)
                if is_at_edge && (is_object || is_in_event) =>
            {
                return Ok(Err(Broken::Unexpected(byte)));
            }
            // The text between two documents is missing.
            (b'{' | b'[', true, State::Value)
                if matches!(frame.key, Key::Kind | Key::ApiVersion) =>
            {
                return Ok(Err(Broken::Unexpected(byte)));
            }
            (b'{' | b'[', true, State::Value)
            | (b'{' | b'[', false, State::First | State::Next) => {
                if depth >= DEPTH_MAX {
                    return Ok(Err(Broken::TooDeep));
                }
                frame.state = State::After;
                open.push(byte == b'{', self.at);
                self.at.at += 1;
            }
            (b'"', true, State::Value) | (b'"', false, State::First | State::Next) => {
                let (text, end) = self.quoted(&mut open.strings, &mut open.frames)?;
                let Some(frame) = open.frames.last_mut() else {
                    return Ok(Ok(()));
                };
                if !(frame.is_passed_over || frame.key == Key::Before || self.is_nested) {
                    open.strings.push(text);
                }
                if let Some(broken) = end {
                    return Ok(Err(broken));
                }
                open.last_text = text;
                frame.state = State::After;
                let word = match frame.key {
                    Key::Kind => &mut frame.shape.kind,
                    Key::ApiVersion => &mut frame.shape.api_version,
                    Key::Before | Key::Other => return Ok(Ok(())),
                };
                let text = self.window.between(text.start, text.end);
                let text = text.get(..WORD_BYTES_MAX).unwrap_or(text);
                *word = Some(String::from_utf8_lossy(text).into());
            }
            (_, true, State::Value) | (_, false, State::First | State::Next) => {
                if !self.literal()? {
                    return Ok(Err(Broken::Unexpected(byte)));
                }
                frame.state = State::After;
            }
            _ => return Ok(Err(Broken::Unexpected(byte))),
        }
        Ok(Ok(()))
    }

    /// Skips blank space; returns the byte after it.
    fn skip_blank(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.window.byte(self.at.at)? {
                Some(b'\n') => self.at.pass_line_feed(),
                Some(b' ' | b'\t' | b'\r') => self.at.at += 1,
                byte => return Ok(byte),
            }
        }
    }

    /// Skips a number, true, false or null; returns whether there was one.
    fn literal(&mut self) -> io::Result<bool> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let is_end = |byte| !is_part(&byte);
        let ahead = self.window.peek(self.at.at, LITERAL_BYTES_MAX, is_end)?;
        let length = ahead.iter().take_while(|byte| is_part(byte)).count();
        let word = ahead.get(..length).unwrap_or_default();
        let is_number = word
            .first()
            .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
            && word
                .iter()
                .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
        let is_end = ahead
            .get(length)
            .is_none_or(|byte| byte.is_ascii_whitespace() || b",]}".contains(byte));
        let is_one = is_end && (is_number || matches!(word, b"true" | b"false" | b"null"));
        if is_one {
            self.at.at += length as u64;
        }
        Ok(is_one)
    }

    /// Closes an object or array.
    fn close(&mut self, open: &mut Open) -> io::Result<()> {
        let Some(frame) = open.frames.pop() else {
            return Ok(());
        };
        open.held = open.held.min(open.frames.len());
        let is_event =
            frame.is_object && (self.take(&frame, open) || self.take_attributes(&frame, open)?);
        if is_event {
            let around = open.frames.iter_mut().rev();
            for frame in around.take_while(|frame| !frame.has_event) {
                frame.has_event = true;
            }
        }
        if frame.is_object {
            let is_item = open.frames.last().is_none_or(|around| !around.is_object);
            open.strings.close(&frame, is_event, is_item);
        }
        if open.frames.is_empty() {
            self.search(&mut open.strings, &mut open.frames)?;
        }
        Ok(())
    }

    /// Passes a closed object to the sink; returns whether it was an event.
    fn take(&mut self, frame: &Frame, open: &Open) -> bool {
        if frame.is_passed_over || (frame.is_in_event && !frame.shape.is_about()) {
            return false;
        }
        if !frame.shape.is_event() {
            self.sink.seen.note(&frame.shape);
            return false;
        }
        let place = frame.start.line;
        if frame.is_too_large {
            let limit = RECORD_BYTES_MAX;
            self.sink.lost(place, Unreadable::TooLarge { limit });
            return true;
        }
        let bytes = bytes_of(&self.window, frame.start.at, self.at.at, &open.between);
        let is_mended = matches!(bytes, Cow::Owned(_));
        self.sink.object(place, &bytes, is_mended)
    }

    /// Passes the object that a closed list of attributes stands for to the sink. Returns whether
    /// it was or had an event.
    fn take_attributes(&mut self, frame: &Frame, open: &Open) -> io::Result<bool> {
        let is_inner = || {
            open.frames
                .iter()
                .any(|around| around.shape.is_attributes())
        };
        if !frame.shape.is_attributes() || frame.is_passed_over || self.is_nested || is_inner() {
            return Ok(false);
        }
        let place = frame.start.line;
        if frame.is_too_large {
            let limit = RECORD_BYTES_MAX;
            let why = Unreadable::TooLarge { limit };
            self.sink.perhaps_lost(place, why, false);
            return Ok(false);
        }
        let bytes = bytes_of(&self.window, frame.start.at, self.at.at, &open.between);
        if !has_word_of_event(&bytes) {
            return Ok(false);
        }
        let is_mended = matches!(bytes, Cow::Owned(_));
        self.sink.attributes(place, &bytes, is_mended)
    }

    /// Skips a line of another program at which the document breaks. Such a line begins no document
    /// itself, except for an object on one line within a document of several lines. Nor is it the
    /// next record of a log whose lines have a prefix, such as the time and stream that a container
    /// runtime writes. The break is at its start.
    fn pass_line_between(&mut self, open: &mut Open, broken: Broken) -> io::Result<bool> {
        let Broken::Unexpected(byte) = broken else {
            return Ok(false);
        };
        let is_indented = |open: &Open| {
            let first = open.frames.first();
            !open.is_on_one_line || first.is_some_and(|first| self.at.line > first.start.line + 1)
        };
        if (byte == b'{' && !(self.at.is_line_start() && is_indented(open)))
            || open.between.len() >= LINES_BETWEEN_MAX
            || !open.is_first_of_line
        {
            return Ok(false);
        }
        let is_end = |byte| byte == b'\n';
        let line = self
            .window
            .peek(self.at.at, LINE_BETWEEN_BYTES_MAX, is_end)?;
        let length = match line.split_last() {
            Some((b'\n', line)) => line.len(),
            _ if line.len() < LINE_BETWEEN_BYTES_MAX => line.len(),
            _ => return Ok(false),
        };
        let has_events = has_object(line) && has_word_of_event(line);
        let is_other =
            is_of_other_program(line) && (byte == b'{' || !open.may_end_before(line, self.at.line));
        if !is_other {
            return Ok(false);
        }
        let opens_object = line.trim_ascii_end().ends_with(b"{");
        let end = self.at.at + length as u64 + 1;
        // Where the document ends before the line, the events on it are read behind the document.
        if (opens_object && self.begins_next(open, end)?)
            || (has_events && !self.objects_of_line()?)
        {
            return Ok(false);
        }
        self.at.at += length as u64;
        open.between.push((self.at.line_start, self.at.at));
        Ok(true)
    }

    /// Whether the line at a position, behind a line of text that ends with a brace, has the first
    /// key of another document like the open one, whose end is missing.
    fn begins_next(&mut self, open: &Open, at: u64) -> io::Result<bool> {
        let line = self
            .window
            .peek(at, LINE_BETWEEN_BYTES_MAX, |byte| byte == b'\n')?;
        let text = line.trim_ascii_start();
        let indent = (line.len() - text.len()) as u64 + 1;
        let Some(key) = text.strip_prefix(b"\"").filter(|_| is_key(text)) else {
            return Ok(false);
        };
        let is_before_key = open.frames.last().is_some_and(|innermost| {
            innermost.is_object && matches!(innermost.state, State::First | State::Next)
        });
        let is_alike = open.first_key.as_ref().is_some_and(|(column, first)| {
            *column == indent && (open.frames.len() > 1 || key.starts_with(first))
        });
        Ok(open.is_on_one_line || !is_before_key || is_alike)
    }

    /// Reports the events that are lost with the open objects.
    fn give_up(&mut self, open: &Open, (broken, is_cut): (Broken, bool)) {
        let mut perhaps = None;
        let cut = is_cut.then(|| self.sink.seen.events - open.events_before);
        for frame in open.frames.iter().filter(|frame| frame.is_object) {
            if frame.is_passed_over {
                break;
            }
            match frame.shape.loss() {
                Loss::Event => {
                    if let Some(events) = cut {
                        self.sink.cut_by_kubectl(self.at.line, events);
                        return;
                    }
                    let why = Unreadable::Syntax(format!("not JSON: {}", broken.words()));
                    self.sink.lost(frame.start.line, why);
                    return;
                }
                Loss::PerhapsEvent if !frame.has_event => {
                    perhaps.get_or_insert((frame.start.line, frame.shape.has_version()));
                }
                Loss::PerhapsEvent | Loss::Unknown => {}
                Loss::Other => return,
            }
        }
        let is_list = |frame: &Frame| frame.has_event || frame.shape.is_list();
        let is_of_list = open.frames.iter().any(is_list);
        if let Some(events) = cut.filter(|_| is_of_list) {
            self.sink.cut_by_kubectl(self.at.line, events);
        } else if let Some((line, is_likely)) = perhaps {
            let why = Unreadable::Syntax(format!("not JSON: {}", broken.words()));
            self.sink.perhaps_lost(line, why, is_likely);
        } else if broken == Broken::End && is_of_list {
            self.sink.cut(self.at.line);
        }
    }

    /// Reads the end of the line. Returns whether kubectl cut the text at the current position, as
    /// it does at `-v=8` and `-v=9`: the line ends with ` [truncated 12 chars]`.
    fn look_for_cut_of_kubectl(&mut self) -> io::Result<bool> {
        const MARK_BYTES_MAX: u64 = 64;
        let from = self.at.at.saturating_sub(MARK_BYTES_MAX);
        let from = from.max(self.at.line_start);
        let is_end = |byte| byte == b'\n';
        let around = self
            .window
            .peek(from, 2 * MARK_BYTES_MAX as usize, is_end)?;
        let around = around.trim_ascii_end();
        let around = around.strip_suffix(b"\"").unwrap_or(around);
        let Some(mark) = around.strip_suffix(b" chars]") else {
            return Ok(false);
        };
        let digits = mark.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let before = mark.len() - digits.count();
        let before = mark.get(..before).unwrap_or_default();
        Ok(before.len() < mark.len() && before.ends_with(b" [truncated "))
    }

    /// Sets the position at which to continue after a broken document.
    fn go_back(&mut self, open: &Open, broken: Broken) {
        // The quote that ended a string may be the first quote of another document's key.
        if matches!(broken, Broken::Unexpected(_)) {
            let Quoted { start, end, .. } = open.last_text;
            let text = self.window.between(start, end);
            let blank = text.iter().rev();
            let blank = blank.take_while(|byte| byte.is_ascii_whitespace()).count();
            let before = text.len().saturating_sub(blank);
            if before > 0 && text.get(before - 1) == Some(&b'{') && end + 1 == self.at.at {
                self.at.at = start + before as u64 - 1;
            }
        }
    }
}

/// Whether a line without the blank space before it begins with a key.
fn is_key(text: &[u8]) -> bool {
    let is_end = |it: &[u8]| it.starts_with(b"\":") || it == b"\" :";
    text.starts_with(b"\"") && text.windows(3).any(is_end)
}

/// The bytes between two positions without the lines of other programs.
fn bytes_of<'w, R: Read>(
    window: &'w Window<R>,
    start: u64,
    end: u64,
    between: &[(u64, u64)],
) -> Cow<'w, [u8]> {
    let mut cuts = between.iter().filter(|cut| cut.0 > start).peekable();
    if cuts.peek().is_none() {
        return window.between(start, end).into();
    }
    let mut bytes = Vec::new();
    let mut from = start;
    for cut in cuts {
        bytes.extend_from_slice(window.between(from, cut.0));
        from = cut.1;
    }
    bytes.extend_from_slice(window.between(from, end));
    bytes.into()
}

impl Open {
    /// Whether the document may have been cut off before the line at which it breaks, which has the
    /// next document behind a prefix. Only a document on one line is cut off so. If it has no
    /// prefix itself, the next one must be an event.
    fn may_end_before(&self, line: &[u8], number: u64) -> bool {
        let Some(first) = self.frames.first().map(|frame| frame.start) else {
            return false;
        };
        let is_first_break = number == first.line + 1 + self.between.len() as u64;
        self.is_on_one_line
            && is_first_break
            && has_object(line)
            && (first.has_text || has_word_of_event(line))
    }

    fn push(&mut self, is_object: bool, start: Cursor) {
        let frame = Frame::within(self.frames.last(), is_object, start);
        self.frames.push(frame);
    }
}
