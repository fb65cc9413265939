//! A window over the bytes of an input that moves forward. A reader looks ahead as far as it needs,
//! and releases the bytes it no longer needs.
//!
//! Invariants: positions count from the beginning of the input. Memory is at most twice the
//! distance between the last release and the furthest look ahead.

use std::io::{self, Read};

/// Bytes read from the input at a time.
const CHUNK: usize = 64 << 10;

/// A position in the input, and its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// The number of bytes before the position.
    pub(super) at: u64,
    /// The line of the position, from 1.
    pub(super) line: u64,
    /// The position of the line's first byte.
    pub(super) line_start: u64,
    /// Whether the line has text before the position.
    pub(super) has_text: bool,
}

impl Cursor {
    pub(super) fn start() -> Self {
        Self {
            at: 0,
            line: 1,
            line_start: 0,
            has_text: false,
        }
    }

    /// Moves past a line feed.
    pub(super) fn pass_line_feed(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
        self.has_text = false;
    }

    /// Moves past a byte of text.
    pub(super) fn pass(&mut self) {
        self.at += 1;
        self.has_text = true;
    }

    /// Whether the position is at the beginning of its line.
    pub(super) fn is_line_start(&self) -> bool {
        self.at == self.line_start
    }
}

#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    /// The position of the buffer's first byte.
    base: u64,
    /// Bytes before this position are no longer needed.
    released: u64,
    is_end: bool,
    /// The error with which the input ended, until it is returned.
    error: Option<io::Error>,
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            base: 0,
            released: 0,
            is_end: false,
            error: None,
        }
    }

    /// The byte at a position; `None` after the end of the input.
    pub(super) fn byte(&mut self, at: u64) -> io::Result<Option<u8>> {
        Ok(self.rest(at)?.first().copied())
    }

    /// The bytes from a position on that are already read: at least one, except at the end of the
    /// input.
    pub(super) fn rest(&mut self, at: u64) -> io::Result<&[u8]> {
        while self.index(at) >= self.buffer.len() && self.fill()? {}
        Ok(self.buffer.get(self.index(at)..).unwrap_or_default())
    }

    /// The bytes from a position up to and including the first that `ends` them, or `max` bytes.
    /// Reads no further.
    pub(super) fn peek(
        &mut self,
        at: u64,
        max: usize,
        mut is_end: impl FnMut(u8) -> bool,
    ) -> io::Result<&[u8]> {
        let mut looked = 0;
        loop {
            let rest = self.buffer.get(self.index(at)..).unwrap_or_default();
            let rest = rest.get(..max).unwrap_or(rest);
            let new = rest.get(looked..).unwrap_or_default();
            if let Some(end) = new.iter().position(|byte| is_end(*byte)) {
                looked += end + 1;
                break;
            }
            looked = rest.len();
            if looked == max || !self.fill()? {
                break;
            }
        }
        let from = self.index(at);
        let rest = self.buffer.get(from..).unwrap_or_default();
        Ok(rest.get(..looked).unwrap_or(rest))
    }

    /// The bytes between two positions, which must be in the window.
    pub(super) fn between(&self, from: u64, to: u64) -> &[u8] {
        self.buffer
            .get(self.index(from)..self.index(to))
            .unwrap_or_default()
    }

    /// The bytes from a position on that were read before the input ended with an error.
    pub(super) fn left(&self, at: u64) -> &[u8] {
        self.buffer.get(self.index(at)..).unwrap_or_default()
    }

    /// Releases all bytes before a position.
    pub(super) fn release(&mut self, to: u64) {
        self.released = self.released.max(to);
    }

    /// Ends the input with an error that a look ahead met. It is returned when more bytes are
    /// needed.
    pub(super) fn end_with(&mut self, error: io::Error) {
        self.error = Some(error);
    }

    fn index(&self, at: u64) -> usize {
        at.saturating_sub(self.base) as usize
    }

    /// Reads more bytes; false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.is_end {
            return Ok(false);
        }
        let released = self.index(self.released).min(self.buffer.len());
        // Done so rarely that every byte is moved at most twice.
        if released >= CHUNK.max(self.buffer.len() - released) || released == self.buffer.len() {
            self.buffer.drain(..released);
            self.base += released as u64;
        }
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK, 0);
        let room = self.buffer.get_mut(length..).unwrap_or_default();
        let read = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(length + count);
        self.is_end = count == 0;
        read.map(|count| count > 0)
    }
}
