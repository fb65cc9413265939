//! The bytes of an input, with what a reader of records must know about them: the line it is on,
//! how much the record at hand may still take, and a line put back after a look at it.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use super::record::RECORD_BYTES_MAX;

/// A line of the input, or the beginning of one that was longer than asked for.
#[derive(Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// The line with the line feed at its end, if it has one.
    pub(super) bytes: Vec<u8>,
    /// Whether this is the line to its end.
    pub(super) is_whole: bool,
}

/// What is known of a source while something else reads from it.
#[derive(Debug)]
pub(super) struct Meter {
    line: Cell<u64>,
    allowance: Cell<usize>,
    exceeded: Cell<bool>,
}

impl Meter {
    /// The line the next byte is on.
    pub(super) fn line(&self) -> u64 {
        self.line.get()
    }

    /// A record begins: it may take as many bytes as a record may.
    pub(super) fn begin_record(&self) {
        self.allowance.set(RECORD_BYTES_MAX);
    }

    /// Whether a record took more than it may; says so once.
    pub(super) fn take_exceeded(&self) -> bool {
        self.exceeded.replace(false)
    }
}

#[derive(Debug)]
pub(super) struct Source<R> {
    input: BufReader<R>,
    put_back: io::Cursor<Vec<u8>>,
    meter: Rc<Meter>,
    failure: Option<io::Error>,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, input),
            put_back: io::Cursor::default(),
            meter: Rc::new(Meter {
                line: Cell::new(1),
                allowance: Cell::new(RECORD_BYTES_MAX),
                exceeded: Cell::new(false),
            }),
            failure: None,
        }
    }

    pub(super) fn meter(&self) -> Rc<Meter> {
        Rc::clone(&self.meter)
    }

    /// Skips a byte order mark and blank space; the first byte after it is looked at, not taken.
    pub(super) fn first_byte(&mut self) -> io::Result<Option<u8>> {
        if self.available()?.starts_with(b"\xef\xbb\xbf") {
            self.consume(3);
        }
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.consume(1);
        }
        Ok(None)
    }

    /// The next byte, not taken.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.available()?.first().copied())
    }

    /// The rest of the line the source is on, at most `limit` bytes of it; nothing at the end of
    /// the input.
    pub(super) fn line(&mut self, limit: usize) -> io::Result<Option<Line>> {
        let number = self.meter.line();
        let mut bytes = Vec::new();
        loop {
            let available = self.available()?;
            let room = limit - bytes.len();
            let found = available.iter().take(room).position(|&byte| byte == b'\n');
            let length = found.map_or(available.len().min(room), |index| index + 1);
            bytes.extend_from_slice(available.get(..length).unwrap_or_default());
            let is_end = available.is_empty();
            self.consume(length);
            if found.is_some() || is_end || bytes.len() == limit {
                let is_whole = found.is_some() || is_end;
                return Ok((!bytes.is_empty()).then_some(Line {
                    number,
                    bytes,
                    is_whole,
                }));
            }
        }
    }

    /// Puts back a line just taken: the next byte is its first again.
    pub(super) fn put_back(&mut self, line: Line) {
        debug_assert!(self.put_back_is_empty(), "one line is put back at a time");
        self.meter.line.set(line.number);
        self.put_back = io::Cursor::new(line.bytes);
    }

    /// Skips to the end of the line the source is on.
    pub(super) fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let available = self.available()?;
            let found = available.iter().position(|&byte| byte == b'\n');
            let length = found.map_or(available.len(), |index| index + 1);
            self.consume(length);
            if found.is_some() || length == 0 {
                return Ok(());
            }
        }
    }

    /// The error that ended reading, if one did: a parser that read from here tells it apart from
    /// bad input by this.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    fn put_back_is_empty(&self) -> bool {
        self.put_back.position() as usize >= self.put_back.get_ref().len()
    }

    fn available(&mut self) -> io::Result<&[u8]> {
        if self.put_back_is_empty() {
            loop {
                match self.input.fill_buf() {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                    Ok(_) => break,
                }
            }
            Ok(self.input.buffer())
        } else {
            self.put_back.fill_buf()
        }
    }

    fn consume(&mut self, length: usize) {
        let (taken, from_input) = if self.put_back_is_empty() {
            (self.input.buffer(), true)
        } else {
            let start = self.put_back.position() as usize;
            (
                self.put_back.get_ref().get(start..).unwrap_or_default(),
                false,
            )
        };
        let lines = taken
            .iter()
            .take(length)
            .filter(|&&byte| byte == b'\n')
            .count() as u64;
        self.meter.line.set(self.meter.line() + lines);
        if from_input {
            self.input.consume(length);
        } else {
            self.put_back.consume(length);
        }
    }
}

/// For parsers that read a document: no further than the record at hand may reach.
impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = match self.available() {
            Ok(available) => available,
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                return Err(kind.into());
            }
        };
        let length = available.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(available) {
            *to = *from;
        }
        let Some(left) = self.meter.allowance.get().checked_sub(length) else {
            self.meter.exceeded.set(true);
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.meter.allowance.set(left);
        self.consume(length);
        Ok(length)
    }
}
