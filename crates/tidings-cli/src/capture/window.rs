//! The bytes of an input as a window that moves forward: a reader looks ahead as far as it likes,
//! and says up to where it will not look back.
//!
//! Invariants: positions count from the beginning of the input; memory is what lies between the
//! last release and the furthest look ahead, doubled at most.

use std::io::{self, Read};

/// Bytes read from the input at a time.
const CHUNK: usize = 64 << 10;

/// A position, and the line it is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// Bytes before it.
    pub(super) at: u64,
    /// Its line, from 1.
    pub(super) line: u64,
    /// The position of that line's first byte.
    pub(super) line_start: u64,
    /// Whether something other than blank space is before it on its line.
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

    /// Moves behind a line feed.
    pub(super) fn pass_line_feed(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
        self.has_text = false;
    }

    /// Moves behind a byte of text.
    pub(super) fn pass(&mut self) {
        self.at += 1;
        self.has_text = true;
    }

    /// Whether it is the first byte of its line.
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
    /// Bytes before this position are not needed any more.
    released: u64,
    is_end: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            base: 0,
            released: 0,
            is_end: false,
        }
    }

    /// The byte at a position; `None` behind the end of the input.
    pub(super) fn byte(&mut self, at: u64) -> io::Result<Option<u8>> {
        Ok(self.rest(at)?.first().copied())
    }

    /// The bytes from a position on, as far as they have been read: at least one, except at the
    /// end of the input.
    pub(super) fn rest(&mut self, at: u64) -> io::Result<&[u8]> {
        while self.index(at) >= self.buffer.len() && self.fill()? {}
        Ok(self.buffer.get(self.index(at)..).unwrap_or_default())
    }

    /// The bytes from a position on, up to and with the first that ends them, or `max` of them. No
    /// more is waited for.
    pub(super) fn peek(
        &mut self,
        at: u64,
        max: usize,
        is_end: impl Fn(u8) -> bool,
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

    /// The bytes between two positions that were neither released nor beyond what was read.
    pub(super) fn between(&self, from: u64, to: u64) -> &[u8] {
        self.buffer
            .get(self.index(from)..self.index(to))
            .unwrap_or_default()
    }

    /// Gives up all bytes before a position.
    pub(super) fn release(&mut self, to: u64) {
        self.released = self.released.max(to);
    }

    fn index(&self, at: u64) -> usize {
        at.saturating_sub(self.base) as usize
    }

    /// Reads on; false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        if self.is_end {
            return Ok(false);
        }
        let released = self.index(self.released).min(self.buffer.len());
        // Seldom enough that every byte is moved once or twice at most.
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
