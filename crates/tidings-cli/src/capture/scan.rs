//! Finds the documents of a text: JSON objects, and blocks of YAML lines. Text before, between and
//! after them is skipped.

use std::io::{self, Read};

use super::record::RECORD_BYTES_MAX;
use super::sink::Sink;
use super::text::Uncoloured;
use super::unreadable::Unreadable;
use super::window::{Cursor, Window};
use super::yaml::{self, Block, Line, Place};

/// Bytes at the beginning of a line that decide what the line is.
const LINE_LOOK: usize = 512;

/// The keys at the beginnings of lines that only an event has in JSON on several lines. The last is
/// one of other objects, too.
const OF_EVENTS: [&[u8]; 7] = [
    b"involvedObject",
    b"regarding",
    b"firstTimestamp",
    b"lastTimestamp",
    b"eventTime",
    b"reportingComponent",
    b"reason",
];

/// The keys of an event's object reference.
const REFERENCES: [&[u8]; 2] = [b"involvedObject", b"regarding"];

/// Whether a line begins with a key in JSON.
fn begins_with_key(line: &[u8], key: &[u8]) -> bool {
    let behind = line.strip_prefix(b"\"").and_then(|it| it.strip_prefix(key));
    let behind = behind.and_then(|it| it.strip_prefix(b"\""));
    behind.is_some_and(|behind| behind.trim_ascii_start().starts_with(b":"))
}

/// The form of an event on several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
}

/// The form of an event whose object reference is on a line, of which this is the beginning, behind
/// other text. Such an event is not read, unless the text is what [`Logs`](super::logs::Logs)
/// leaves out.
fn prefixed_event(beginning: &[u8]) -> Option<Form> {
    let line = beginning.trim_ascii();
    let (form, key) = match line.strip_suffix(b"{") {
        Some(line) => (Form::Json, line.trim_ascii_end()),
        None => (Form::Yaml, line),
    };
    let key = key.strip_suffix(b":")?.trim_ascii_end();
    let key = match form {
        Form::Json => key.strip_suffix(b"\"")?,
        Form::Yaml => key,
    };
    let mut references = REFERENCES.into_iter();
    let before = references.find_map(|reference| key.strip_suffix(reference))?;
    let before = match form {
        Form::Json => before.strip_suffix(b"\"")?,
        Form::Yaml => before,
    };
    let is_comment = form == Form::Yaml && line.starts_with(b"#");
    let is_prefixed = before.last().is_some_and(u8::is_ascii_whitespace) && !is_comment;
    (is_prefixed && beginning.len() < LINE_LOOK).then_some(form)
}

/// Finds the events of a text that was found within a string of another one.
pub(super) fn read_nested(text: &[u8], sink: &mut Sink<'_>) -> io::Result<()> {
    let mut scanner = Scanner::new(Uncoloured::new(text), sink);
    scanner.is_nested = true;
    scanner.run()
}

/// Reads a text to its end, or until the sink stops it.
pub(super) struct Scanner<'s, 't, R> {
    pub(super) window: Window<R>,
    pub(super) at: Cursor,
    pub(super) sink: &'s mut Sink<'t>,
    /// Whether this text was found within a string of another one.
    pub(super) is_nested: bool,
    /// Whether the lines of an event that are in no document are the rest of one whose beginning is
    /// missing, and not of a damaged document.
    pub(super) is_rest_missed: bool,
}

impl<'s, 't, R: Read> Scanner<'s, 't, R> {
    pub(super) fn new(input: R, sink: &'s mut Sink<'t>) -> Self {
        Self {
            window: Window::new(input),
            at: Cursor::start(),
            sink,
            is_nested: false,
            is_rest_missed: true,
        }
    }

    pub(super) fn run(&mut self) -> io::Result<()> {
        while !self.sink.is_stopped() {
            self.window.release(self.at.at);
            let Some(first) = self.window.byte(self.at.at)? else {
                break;
            };
            if self.at.at == 0
                && !(first == b'{' && self.begins_object(0, true)?)
                && self.remainder()?
            {
                continue;
            }
            if self.at.is_line_start() {
                let look = self
                    .window
                    .peek(self.at.at, LINE_LOOK, |byte| byte == b'\n')?;
                let line = Line::of(look);
                self.sink.seen.line(look, line.text);
                if line.begins_block() {
                    if self.opens_object()? {
                        self.rest_of_line()?;
                    } else {
                        self.block()?;
                    }
                    continue;
                }
                let mut keys = OF_EVENTS.iter();
                let found = keys.position(|key| begins_with_key(line.text, key));
                if let Some(index) = found
                    && !self.is_nested
                    && std::mem::take(&mut self.is_rest_missed)
                {
                    let (place, why) = (self.at.line, Unreadable::headless());
                    if index + 1 < OF_EVENTS.len() {
                        self.sink.lost(place, why);
                    } else {
                        self.sink.perhaps_lost(place, why, false);
                    }
                } else if found.is_none()
                    && !self.is_nested
                    && let Some(form) = prefixed_event(look)
                {
                    let why = Unreadable::Syntax("its lines begin with other text".to_owned());
                    match form {
                        Form::Json => self.sink.lost(self.at.line, why),
                        Form::Yaml => self.sink.perhaps_lost(self.at.line, why, false),
                    }
                }
            }
            self.rest_of_line()?;
        }
        Ok(())
    }

    /// Reads the objects that begin on this line, or skips the line.
    pub(super) fn rest_of_line(&mut self) -> io::Result<()> {
        loop {
            let rest = self.window.rest(self.at.at)?;
            let passed = rest
                .iter()
                .position(|byte| matches!(byte, b'{' | b'\n'))
                .unwrap_or(rest.len());
            let is_blank = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_whitespace);
            self.at.has_text |= !is_blank(rest.get(..passed).unwrap_or_default());
            let found = rest.get(passed).copied();
            let is_end = rest.is_empty();
            self.at.at += passed as u64;
            match found {
                Some(b'\n') => {
                    self.at.pass_line_feed();
                    return Ok(());
                }
                Some(_) => {
                    let is_first = !self.at.has_text;
                    if self.begins_object(self.at.at, is_first)? {
                        let (start, events) = (self.at.at, self.sink.seen.events);
                        let is_whole = self.document()?;
                        let is_inner = start == 0 && is_whole && self.sink.seen.events == events;
                        let behind = self.window.byte(self.at.at)?;
                        if is_inner && matches!(behind, Some(b',' | b'}')) && self.remainder()? {
                            return Ok(());
                        }
                        // An object behind a key may be part of an event whose beginning is
                        // missing.
                        self.is_rest_missed = is_whole && (is_first || self.is_rest_missed);
                        return Ok(());
                    }
                    if !self.escaped()? {
                        self.at.pass();
                    }
                }
                None if is_end => return Ok(()),
                None => self.window.release(self.at.at),
            }
        }
    }

    /// Reads a block of YAML lines. If the input ends with an error, what was read of it is kept.
    fn block(&mut self) -> io::Result<()> {
        let mut block = Block::new(self.at.line);
        let ended = self.lines(&mut block);
        if ended.is_err() {
            block.cut(self.window.left(self.at.at));
        }
        yaml::read(&block, self.sink)?;
        ended
    }

    /// Reads the lines of a block.
    fn lines(&mut self, block: &mut Block) -> io::Result<()> {
        loop {
            let look = self.look()?;
            if look.is_empty() {
                block.end();
                return Ok(());
            }
            let place = block.place(&Line::of(look));
            let events = self.sink.seen.events;
            let may_have_object = matches!(place, Place::Between | Place::Unclear);
            if may_have_object && (self.opens_object()? || !self.objects_of_line()?) {
                return Ok(());
            }
            if self.sink.is_stopped() {
                return Ok(());
            }
            match place {
                Place::Within => {}
                Place::Unclear if self.sink.seen.events == events => {
                    block.keep(&Line::of(self.look()?));
                }
                Place::Between | Place::Unclear => {
                    block.pass_line();
                    self.line(|_| {})?;
                    continue;
                }
                Place::Behind => return Ok(()),
            }
            self.line(|bytes| block.extend(bytes))?;
        }
    }

    /// The beginning of the line, which starts at the current position.
    fn look(&mut self) -> io::Result<&[u8]> {
        self.window
            .peek(self.at.at, LINE_LOOK, |byte| byte == b'\n')
    }

    /// Whether JSON on several lines begins at the end of the line.
    fn opens_object(&mut self) -> io::Result<bool> {
        let look = self.look()?;
        let end = look.trim_ascii_end().len() as u64;
        Ok(Line::of(look).may_open_object() && self.begins_object(self.at.at + end - 1, false)?)
    }

    /// Reads the objects on the rest of the line apart from the lines behind it, and does not move.
    /// Returns false if the line is too long for that.
    pub(super) fn objects_of_line(&mut self) -> io::Result<bool> {
        let is_end = |byte| byte == b'\n';
        let line = self.window.peek(self.at.at, RECORD_BYTES_MAX, is_end)?;
        if line.len() == RECORD_BYTES_MAX {
            return Ok(false);
        }
        let mut objects = Scanner::new(line, self.sink);
        objects.is_nested = self.is_nested;
        objects.at.line = self.at.line;
        while objects.window.byte(objects.at.at)?.is_some() && !objects.sink.is_stopped() {
            objects.rest_of_line()?;
        }
        Ok(true)
    }

    /// Passes the rest of the line to `take`, in pieces.
    fn line(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            let rest = self.window.rest(self.at.at)?;
            let end = rest.iter().position(|byte| *byte == b'\n');
            let piece = end.map_or(rest, |end| rest.get(..=end).unwrap_or_default());
            take(piece);
            let length = piece.len() as u64;
            self.at.at += length;
            if end.is_some() {
                self.at.at -= 1;
                self.at.pass_line_feed();
            }
            self.window.release(self.at.at);
            if end.is_some() || length == 0 {
                return Ok(());
            }
        }
    }
}
