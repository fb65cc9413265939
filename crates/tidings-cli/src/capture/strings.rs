//! Finds events in the strings of JSON objects, because loggers and collectors put the lines of
//! other programs into theirs.
//!
//! A string is searched when its outermost object ends. Until then it is known whether the string
//! is part of an event, or of another Kubernetes object: then it is not searched. Nor is it
//! searched if its record has the event beside it. A record is an object in an array, as in a
//! collector's batch, or an outermost object.
//!
//! Invariant: the first of these strings is at most [`RECORD_BYTES_MAX`] bytes behind the position.
//! In a longer object, its strings are searched before its end.

use std::io::{self, Read};

use super::frame::{Broken, Frame};
use super::mend;
use super::record::RECORD_BYTES_MAX;
use super::scan::Scanner;
use super::unreadable::Unreadable;

/// Words before an escaped quote with which a string may have an event.
const OF_EVENTS: [&[u8]; 3] = [b"involvedObject", b"regarding", b"InvolvedObject"];
/// The length of the longest of these, in bytes.
const WORD_BYTES_MAX: u64 = 14;

/// The position of a string's content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quoted {
    pub(super) start: u64,
    pub(super) end: u64,
    line: u64,
    /// Whether the string may have an event.
    has_event: bool,
    /// Whether the closing quote is missing.
    is_cut: bool,
    /// Whether the string's record has ended, and has no other event.
    is_of_record: bool,
}

impl Quoted {
    fn is_too_large(&self) -> bool {
        self.end - self.start > RECORD_BYTES_MAX as u64
    }
}

/// Strings that may have events, in order.
#[derive(Debug, Default)]
pub(super) struct Strings(Vec<Quoted>);

impl Strings {
    /// Adds a string if it may have an event.
    pub(super) fn push(&mut self, text: Quoted) {
        if text.has_event {
            self.0.push(text);
        }
    }

    /// The position of the opening quote of the first string; `None` without any.
    pub(super) fn start(&self) -> Option<u64> {
        self.0.first().map(|text| text.start - 1)
    }

    /// Whether the strings take too much of the text before a position.
    pub(super) fn are_too_long(&self, at: u64) -> bool {
        self.start()
            .is_some_and(|start| at - start > RECORD_BYTES_MAX as u64)
    }

    /// Forgets the strings of a closed object that are not to be searched. `is_item` says whether
    /// it may be a record.
    pub(super) fn close(&mut self, object: &Frame, is_event: bool, is_item: bool) {
        let first = self.first_of(object);
        let shape = &object.shape;
        if is_event || shape.is_closed() || shape.is_typed() {
            self.0.truncate(first);
        } else if self.0.len() > first {
            let has_event = object.has_event;
            let own = self.0.split_off(first).into_iter();
            let own = own.filter(|text| text.is_of_record || !has_event);
            self.0.extend(own.map(|mut text| {
                text.is_of_record |= is_item;
                text
            }));
        }
    }

    /// The index of the first string within an object.
    fn first_of(&self, object: &Frame) -> usize {
        self.0.partition_point(|text| text.start < object.start.at)
    }
}

impl<R: Read> Scanner<'_, '_, R> {
    /// Skips a quoted string; returns it, and what it breaks off with. The strings before one that
    /// is too large are searched.
    pub(super) fn quoted(
        &mut self,
        strings: &mut Strings,
        open: &mut [Frame],
    ) -> io::Result<(Quoted, Option<Broken>)> {
        let start = self.at.at + 1;
        let mut text = Quoted {
            start,
            end: start,
            line: self.at.line,
            ..Quoted::default()
        };
        let broken = loop {
            let rest = self.window.rest(text.end)?;
            let found = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | b'\n'));
            let Some(index) = found else {
                if rest.is_empty() {
                    break Some(Broken::End);
                }
                text.end += rest.len() as u64;
                if text.is_too_large() {
                    self.search(strings, open)?;
                    self.window.release(text.end - WORD_BYTES_MAX);
                }
                continue;
            };
            let byte = rest.get(index).copied();
            text.end += index as u64;
            match byte {
                Some(b'"') => break None,
                Some(b'\\') => {
                    match self.window.byte(text.end + 1)? {
                        None => break Some(Broken::End),
                        Some(b'\n') => break Some(Broken::LineFeed),
                        Some(b'"') => text.has_event |= self.is_behind_word(&text),
                        Some(_) => {}
                    }
                    text.end += 2;
                }
                _ => break Some(Broken::LineFeed),
            }
        };
        text.is_cut = broken.is_some();
        self.at.at = text.end + u64::from(!text.is_cut);
        Ok((text, broken))
    }

    /// Whether a word of an event is before the end of a string.
    fn is_behind_word(&self, text: &Quoted) -> bool {
        let from = text.start.max(text.end.saturating_sub(WORD_BYTES_MAX));
        let before = self.window.between(from, text.end);
        OF_EVENTS.iter().any(|word| before.ends_with(word))
    }

    /// Searches strings for events, and forgets them. Strings of open objects that are or may be
    /// events, or are other Kubernetes objects, are not searched. Returns whether the last string
    /// is cut, and was said to be.
    pub(super) fn search(&mut self, strings: &mut Strings, open: &mut [Frame]) -> io::Result<bool> {
        if let Some(other) = open.iter().find(|object| object.is_of_kubernetes()) {
            strings.0.truncate(strings.first_of(other));
        }
        let (first, mut is_cut) = (self.sink.seen.events, false);
        for text in std::mem::take(&mut strings.0) {
            if self.sink.is_stopped() {
                return Ok(is_cut);
            }
            let events = self.sink.seen.events;
            self.take_quoted(&text)?;
            is_cut = text.is_cut && self.sink.seen.events > events;
        }
        // Such an array is a list of events.
        let has_event = self.sink.seen.events > first;
        for array in open.iter_mut().filter(|object| !object.is_object) {
            array.has_event |= has_event;
        }
        Ok(is_cut)
    }

    /// Takes the events of a string.
    fn take_quoted(&mut self, text: &Quoted) -> io::Result<()> {
        if text.is_too_large() {
            let limit = RECORD_BYTES_MAX;
            let why = Unreadable::TooLarge { limit };
            self.sink.perhaps_lost(text.line, why, true);
            return Ok(());
        }
        let content = self.window.between(text.start, text.end);
        let json = [b"\"", content, b"\""].concat();
        let plain = serde_json::from_slice::<String>(&json).map(|plain| (plain, false));
        let plain =
            plain.or_else(|_| serde_json::from_str(&mend::json(&json)).map(|plain| (plain, true)));
        let Ok((plain, is_mended)) = plain else {
            return Ok(());
        };
        self.sink.text(text.line, plain.as_bytes(), is_mended)
    }
}
