//! Restores the lines that containers wrote from the lines of their logs. A runtime's log has the
//! time, the stream and a tag before each line (CRI), or the line within JSON (Docker). kubectl and
//! Docker Compose print the time, or the name of the container, before each line.
//!
//! Runtimes split a line of more than 16 KiB. The parts are joined for each stream: while the line
//! of one stream is open, the lines of the other one are held back.
//!
//! Invariants: a line of the input becomes one line, so that the numbers of lines stay. Joined
//! parts become the line of the first part, and an empty line for each further part. Parts are
//! passed on as they are read, so a joined line may have any length. Memory is bounded by
//! [`HELD_MAX`]: if more is held back, the open line ends.

use std::io::{self, Read};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::record::RECORD_BYTES_MAX;
use super::yaml::Line;

/// Bytes read from the input at a time.
const CHUNK: usize = 64 << 10;
/// Maximum length of what other programs put before a line, in bytes.
const PREFIX_BYTES_MAX: usize = 512;
/// Maximum length of a line of Docker's JSON logs, in bytes.
const DOCKER_LINE_MAX: usize = 1 << 20;
/// The beginning of a line of Docker's JSON logs.
const DOCKER: &[u8] = b"{\"log\":";
/// Length of the parts into which runtimes split a line, in bytes.
const PART: usize = 16 << 10;
/// Maximum bytes of one stream that are held back while the line of the other one is open.
const HELD_MAX: usize = RECORD_BYTES_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stream {
    Stdout,
    Stderr,
}

/// A part of a container's line.
#[derive(Debug, Clone, Copy)]
struct Part {
    stream: Stream,
    is_last: bool,
}

/// A line of Docker's JSON logs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DockerLine {
    log: String,
    stream: Option<Stream>,
    #[expect(dead_code, reason = "other fields than these are not Docker's")]
    attrs: Option<IgnoredAny>,
    #[expect(dead_code, reason = "other fields than these are not Docker's")]
    time: Option<IgnoredAny>,
}

/// The beginning of a line.
#[derive(Debug, Clone, Copy)]
enum Beginning {
    /// This many bytes are not the container's.
    Prefix(usize),
    /// The container's name has this many bytes. With a time behind it, this many bytes are not the
    /// container's.
    Named(usize, usize, Content),
    /// This many bytes are of the runtime.
    Runtime(usize, Part),
    /// The line may be one of Docker's JSON logs.
    Docker,
}

/// What a container's line is within a document of several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A first line, or another one that is not indented: a bracket, or a key of Kubernetes
    /// objects.
    Begins(Form),
    /// As [`Begins`](Self::Begins), if the next line continues it. It may be any text.
    MayBegin(Form),
    /// An indented line.
    Continues(Form),
    /// The closing bracket.
    Ends,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
}

/// A reader of the lines that containers wrote.
pub(super) struct Logs<R> {
    input: R,
    is_ended: bool,
    /// The error with which the input ended.
    error: Option<io::Error>,
    /// Bytes of the input; those before `read` are in the lines already.
    raw: Vec<u8>,
    read: usize,
    /// Bytes from `read` on that have no line feed.
    looked: usize,
    lines: Lines,
    /// Bytes of the lines that were returned already.
    given: usize,
    /// Whether the beginning of the current line was read.
    is_within_line: bool,
    /// The part that the current line has, if it is of a runtime.
    part: Option<Part>,
    documents: Documents,
}

/// The documents of several lines that have begun, each by its container's name and its form.
#[derive(Default)]
struct Documents {
    begun: Option<(Vec<u8>, Form)>,
    /// The one that begins if its container's next line continues it, before a line of the begun
    /// one.
    candidate: Option<(Vec<u8>, Form)>,
}

/// The lines, and the line that is open because its end is missing yet.
#[derive(Default)]
struct Lines {
    done: Vec<u8>,
    /// The stream whose line is open. Its parts so far are the end of `done`.
    open: Option<Stream>,
    /// The lines behind the open one.
    held: Vec<u8>,
    /// Whether the last of these is an open line of the other stream.
    is_held_open: bool,
    /// Line feeds behind that line.
    feeds: usize,
}

impl Lines {
    /// Adds a piece of a line.
    fn extend(&mut self, stream: Option<Stream>, bytes: &[u8]) {
        let is_held = self.open.is_some() && self.open != stream;
        let to = if is_held {
            &mut self.held
        } else {
            &mut self.done
        };
        to.extend_from_slice(bytes);
        self.bound();
    }

    /// Ends the open line if too much is held back.
    fn bound(&mut self) {
        if self.held.len() + self.feeds > HELD_MAX {
            self.end_open();
        }
    }

    /// Ends a line of a runtime.
    fn end_part(&mut self, Part { stream, is_last }: Part) {
        let is_open = self.open == Some(stream);
        match (self.open, is_last) {
            (None, true) => self.done.push(b'\n'),
            (None, false) => self.open = Some(stream),
            (Some(_), is_last) if is_open => {
                self.feed();
                if is_last && self.open == Some(stream) {
                    self.end_open();
                }
            }
            (Some(_), true) => {
                self.held.push(b'\n');
                if std::mem::take(&mut self.is_held_open) {
                    self.feeds += 1;
                }
                let feeds = std::mem::take(&mut self.feeds);
                self.held.extend(std::iter::repeat_n(b'\n', feeds));
            }
            (Some(_), false) => {
                if std::mem::replace(&mut self.is_held_open, true) {
                    self.feeds += 1;
                }
            }
        }
    }

    /// Adds the empty line that stands for a further part of the open line.
    fn feed(&mut self) {
        if self.is_held_open {
            self.feeds += 1;
        } else {
            self.held.push(b'\n');
        }
        self.bound();
    }

    /// Ends the open line, and adds the lines that were held back.
    fn end_open(&mut self) {
        let Some(stream) = self.open.take() else {
            return;
        };
        self.done.push(b'\n');
        self.done.append(&mut self.held);
        if std::mem::take(&mut self.is_held_open) {
            self.open = Some(match stream {
                Stream::Stdout => Stream::Stderr,
                Stream::Stderr => Stream::Stdout,
            });
            let feeds = std::mem::take(&mut self.feeds);
            self.held.extend(std::iter::repeat_n(b'\n', feeds));
        }
    }

    /// Ends all open lines, before a line that is not of a runtime.
    fn end_all(&mut self) {
        while self.open.is_some() {
            self.end_open();
        }
    }

    /// Ends the input. An open line stays open, unless lines are behind it.
    fn end(&mut self) {
        while self.open.is_some() && !self.held.is_empty() {
            self.end_open();
        }
    }
}

impl<R: Read> Logs<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            is_ended: false,
            error: None,
            raw: Vec::new(),
            read: 0,
            looked: 0,
            lines: Lines::default(),
            given: 0,
            is_within_line: false,
            part: None,
            documents: Documents::default(),
        }
    }

    /// Reads more bytes into `raw`. An error is kept until everything before it was returned.
    fn fill(&mut self) {
        self.raw.drain(..self.read);
        self.read = 0;
        let length = self.raw.len();
        self.raw.resize(length + CHUNK, 0);
        let read = loop {
            let room = self.raw.get_mut(length..).unwrap_or_default();
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = read.as_ref().copied().unwrap_or(0);
        self.raw.truncate(length + count);
        self.is_ended = count == 0;
        self.error = read.err();
    }

    /// Moves what is read of the input into the lines, as far as it can be judged.
    fn advance(&mut self) {
        loop {
            if !self.is_within_line && !self.begin_line() {
                return;
            }
            let rest = self.raw.get(self.read..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
            let end = rest.iter().position(|byte| *byte == b'\n');
            let piece = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
            let stream = self.part.map(|part| part.stream);
            self.lines.extend(stream, piece);
            self.read += piece.len() + usize::from(end.is_some());
            if end.is_none() {
                return;
            }
            self.is_within_line = false;
            match self.part.take() {
                Some(part) => self.lines.end_part(part),
                None => self.lines.done.push(b'\n'),
            }
        }
    }

    /// Reads the beginning of a line, or a whole line of Docker; false if that takes more bytes.
    fn begin_line(&mut self) -> bool {
        loop {
            let rest = self.raw.get(self.read..).unwrap_or_default();
            if rest.is_empty() {
                return false;
            }
            let Some(beginning) = beginning(rest, self.is_ended) else {
                return false;
            };
            let (length, part) = match beginning {
                Beginning::Prefix(length) => (length, None),
                Beginning::Named(name, length, content) => {
                    let name = rest.get(..name).unwrap_or_default();
                    let is_own = self.documents.note(name, content);
                    (if is_own { length } else { 0 }, None)
                }
                Beginning::Runtime(length, part) => (length, Some(part)),
                Beginning::Docker => match self.docker_line() {
                    Some(true) => continue,
                    Some(false) => (0, None),
                    None => return false,
                },
            };
            if part.is_none() {
                self.lines.end_all();
            }
            self.read += length;
            self.part = part;
            self.is_within_line = true;
            return true;
        }
    }

    /// Takes a line of Docker; returns whether there is one, and `None` if its end is missing yet.
    fn docker_line(&mut self) -> Option<bool> {
        let rest = self.raw.get(self.read..).unwrap_or_default();
        let new = rest.get(self.looked..).unwrap_or_default();
        let end = new.iter().position(|byte| *byte == b'\n');
        let length = self.looked + end.unwrap_or(new.len());
        if end.is_none() && length < DOCKER_LINE_MAX && !self.is_ended {
            self.looked = length;
            return None;
        }
        self.looked = 0;
        let line = rest.get(..length).unwrap_or_default();
        let Ok(line) = serde_json::from_slice::<DockerLine>(line) else {
            return Some(false);
        };
        let text = line.log.strip_suffix('\n').unwrap_or(&line.log);
        if text.contains('\n') {
            return Some(false);
        }
        let stream = line.stream.unwrap_or(Stream::Stdout);
        // Other programs write whole lines without a line feed.
        let is_last = text.len() < line.log.len() || text.len() < PART;
        self.lines.extend(Some(stream), text.as_bytes());
        self.lines.end_part(Part { stream, is_last });
        self.read += length + usize::from(end.is_some());
        Some(true)
    }
}

impl<R: Read> Read for Logs<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let waiting = self.lines.done.get(self.given..).unwrap_or_default();
            if !waiting.is_empty() || buffer.is_empty() {
                let length = waiting.len().min(buffer.len());
                for (to, from) in buffer.iter_mut().zip(waiting) {
                    *to = *from;
                }
                self.given += length;
                return Ok(length);
            }
            self.lines.done.clear();
            self.given = 0;
            if self.is_ended {
                return self.error.take().map_or(Ok(0), Err);
            }
            self.fill();
            self.advance();
            if self.is_ended {
                self.lines.end();
            }
        }
    }
}

/// Judges the beginning of a line; `None` if that takes more bytes.
fn beginning(line: &[u8], is_end: bool) -> Option<Beginning> {
    match line.first() {
        Some(b'{') => {
            let look = line.get(..DOCKER.len()).unwrap_or(line);
            return if look == DOCKER {
                Some(Beginning::Docker)
            } else if DOCKER.starts_with(look) && !is_end {
                None
            } else {
                Some(Beginning::Prefix(0))
            };
        }
        Some(b'[') => {}
        Some(byte) if byte.is_ascii_alphanumeric() => {}
        _ => return Some(Beginning::Prefix(0)),
    }
    let look = line.get(..PREFIX_BYTES_MAX).unwrap_or(line);
    let end = look.iter().position(|byte| *byte == b'\n');
    if end.is_none() && look.len() < PREFIX_BYTES_MAX && !is_end {
        return None;
    }
    let line = look.get(..end.unwrap_or(look.len())).unwrap_or(look);
    let name = name_length(line);
    let behind = line.get(name..).unwrap_or_default();
    let time = time_length(behind).unwrap_or_default();
    let behind = behind.get(time..).unwrap_or_default();
    let runtime = runtime_length(behind).filter(|_| name == 0 && time > 0);
    Some(match runtime {
        Some((length, part)) => Beginning::Runtime(time + length, part),
        None if name > 0 => Beginning::Named(name, name + time, content(behind)),
        None => Beginning::Prefix(time),
    })
}

/// Judges a container's line by its beginning, without a line feed.
fn content(line: &[u8]) -> Content {
    let text = line.trim_ascii();
    let form = match text {
        [b'"' | b'{' | b'[' | b'}' | b']', ..] | [.., b'{' | b'['] => Form::Json,
        _ => Form::Yaml,
    };
    match line {
        [b' ' | b'\t', ..] if !text.is_empty() => Content::Continues(form),
        [b'}' | b']', ..] => Content::Ends,
        [b'{' | b'['] => Content::Begins(Form::Json),
        [.., b'{' | b'['] => Content::MayBegin(Form::Json),
        _ => match Line::of(line) {
            line if line.key.is_none() => Content::Other,
            line if line.is_known() && line.begins_block() => Content::Begins(Form::Yaml),
            _ => Content::MayBegin(Form::Yaml),
        },
    }
}

impl Documents {
    /// Notes a container's line. Returns false for a line that would become part of another
    /// container's document, because the lines of several containers may be printed in turn: the
    /// line keeps its name.
    fn note(&mut self, name: &[u8], content: Content) -> bool {
        let candidate = self.candidate.take_if(|(candidate, _)| candidate == name);
        let begun = self.begun.as_ref();
        let is_own = begun.is_some_and(|(begun, _)| begun == name);
        let other = begun.filter(|_| !is_own).map(|(_, form)| *form);
        if is_own {
            self.candidate = None;
        }
        let own = |form| Some((name.to_vec(), form));
        match (content, other) {
            (Content::Continues(form), _) if candidate.is_some_and(|of| of.1 == form) => {
                self.begun = own(form);
                true
            }
            (Content::Continues(form), Some(begun)) => form != begun,
            (Content::Ends, Some(begun)) => begun != Form::Json,
            // Between the lines of JSON, YAML is not part of them, whatever follows.
            (Content::Begins(Form::Yaml) | Content::MayBegin(Form::Yaml), Some(Form::Json))
            | (Content::Other, Some(_))
            | (Content::Continues(_), None) => true,
            // Between the lines of YAML, it would be a key.
            (Content::MayBegin(Form::Yaml), Some(Form::Yaml)) => false,
            (Content::MayBegin(form), other)
                if other.is_some() || (!is_own && form == Form::Yaml) =>
            {
                self.candidate = own(form);
                true
            }
            (Content::Begins(form) | Content::MayBegin(form), _) => {
                self.begun = own(form);
                true
            }
            (Content::Ends | Content::Other, None) => {
                self.begun = None;
                true
            }
        }
    }
}

/// The length of a container's name as kubectl prints it, `[pod/web-0/nginx] `, or Docker Compose,
/// `web-1  | `.
fn name_length(line: &[u8]) -> usize {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if line.starts_with(b"[pod/") {
        let is_end = |byte: &u8| !(is_part(*byte) || b"[/:".contains(byte));
        let end = line.iter().position(is_end).unwrap_or(line.len());
        let behind = line.get(end..).unwrap_or_default();
        return if behind.starts_with(b"] ") {
            end + 2
        } else {
            0
        };
    }
    let name = line.iter().take_while(|byte| is_part(**byte)).count();
    let behind = line.get(name..).unwrap_or_default();
    let blank = behind.iter().take_while(|byte| **byte == b' ').count();
    let behind = behind.get(blank..).unwrap_or_default();
    if name > 0 && blank > 0 && behind.starts_with(b"| ") {
        name + blank + 2
    } else {
        0
    }
}

/// The length of a time and the blank behind it.
fn time_length(line: &[u8]) -> Option<usize> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let is_alike = |(form, byte): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => form == byte,
    };
    let is_time = line.len() > FORM.len() && FORM.iter().zip(line).all(is_alike);
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".:+-Z".contains(byte);
    let behind = line.get(FORM.len()..).unwrap_or_default();
    let more = behind.iter().take_while(|byte| is_part(byte)).count();
    let is_end = behind.get(more) == Some(&b' ');
    (is_time && is_end).then_some(FORM.len() + more + 1)
}

/// The length of a stream and a tag, `stdout F `, as CRI has them behind the time.
fn runtime_length(line: &[u8]) -> Option<(usize, Part)> {
    let (stream, behind) = [Stream::Stdout, Stream::Stderr]
        .into_iter()
        .zip([&b"stdout "[..], b"stderr "])
        .find_map(|(stream, name)| Some((stream, line.strip_prefix(name)?)))?;
    let end = behind.iter().position(|byte| *byte == b' ');
    let tags = behind.get(..end.unwrap_or(behind.len()))?;
    let is_last = match tags.split(|byte| *byte == b':').next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    let length = line.len() - behind.len() + tags.len() + usize::from(end.is_some());
    Some((length, Part { stream, is_last }))
}
