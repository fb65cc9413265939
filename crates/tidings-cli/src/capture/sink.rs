//! The scanner's sink: judges the found objects, and passes events on with their places.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::attributes;
use super::event::{self, Judged};
use super::mend;
use super::note::Note;
use super::record::{Found, Place, Record};
use super::seen::Seen;
use super::unreadable::{Unreadable, shortened};

/// Maximum damaged objects that are remembered until an event is found beside them.
const PERHAPS_MAX: usize = 1000;

/// The function that finds the events of a text within a string.
pub(super) type ReadNested = fn(&[u8], &mut Sink<'_>) -> io::Result<()>;

pub(super) struct Sink<'t> {
    read_nested: ReadNested,
    take: &'t mut dyn FnMut(Found) -> ControlFlow<()>,
    member: Option<Arc<str>>,
    pub(super) seen: Seen,
    is_stopped: bool,
    /// The line of the outer text, while a text within it is read.
    outer_line: Option<u64>,
    is_mended: bool,
    last_line: u64,
    nth: u64,
    perhaps: BTreeMap<u64, (Unreadable, bool)>,
}

impl<'t> Sink<'t> {
    pub(super) fn new(
        member: Option<Arc<str>>,
        take: &'t mut dyn FnMut(Found) -> ControlFlow<()>,
        read_nested: ReadNested,
    ) -> Self {
        Self {
            read_nested,
            take,
            member,
            seen: Seen::default(),
            is_stopped: false,
            outer_line: None,
            is_mended: false,
            last_line: 0,
            nth: 0,
            perhaps: BTreeMap::new(),
        }
    }

    /// Whether the consumer wants no more events.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Takes an object that has the keys of an event; returns whether it is one.
    pub(super) fn object(&mut self, line: u64, bytes: &[u8], is_mended: bool) -> bool {
        let mut is_mended = is_mended;
        let object: Result<Map<String, Value>, _> = serde_json::from_slice(bytes).or_else(|_| {
            is_mended = true;
            serde_json::from_str(&mend::json(bytes))
        });
        let object = match object {
            Ok(object) => object,
            Err(error) => {
                self.lost(line, Unreadable::Syntax(describe(&error)));
                return true;
            }
        };
        match event::judge(object) {
            Judged::Event(event, mut notes) => {
                if is_mended || self.is_mended {
                    notes.insert(0, Note::Repaired);
                }
                self.event(line, bytes.len(), Ok(event), notes);
                true
            }
            Judged::Bad(why) => {
                self.lost(line, why);
                true
            }
            Judged::Other => false,
        }
    }

    /// Takes a list of attributes that may stand for an event; returns whether it does.
    pub(super) fn attributes(
        &mut self,
        line: u64,
        bytes: &[u8],
        is_mended: bool,
    ) -> io::Result<bool> {
        let events = self.seen.events;
        let whole = serde_json::from_slice(bytes).map(|value| (value, is_mended));
        let whole = whole.or_else(|_| Ok((serde_json::from_str(&mend::json(bytes))?, true)));
        match whole {
            Ok((value, is_mended)) => self.value(line, &attributes::plain(value), is_mended)?,
            Err(error) => self.lost(line, Unreadable::Syntax(describe(&error))),
        }
        Ok(self.seen.events > events)
    }

    /// Takes an event that cannot be read.
    pub(super) fn lost(&mut self, line: u64, why: Unreadable) {
        self.event(line, 0, Err(why), Vec::new());
    }

    /// Takes a damaged object that may be an event. It counts as one if the text has other events
    /// or, if `is_likely`, if the text has no other objects.
    pub(super) fn perhaps_lost(&mut self, line: u64, why: Unreadable, is_likely: bool) {
        if self.seen.events > 0 {
            self.lost(line, why);
        } else if self.perhaps.len() < PERHAPS_MAX {
            let line = self.outer_line.unwrap_or(line);
            self.perhaps.insert(line, (why, is_likely));
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) {
        if self.seen.has_other() {
            return;
        }
        for (line, (why, is_likely)) in std::mem::take(&mut self.perhaps) {
            if is_likely {
                self.lost(line, why);
            }
        }
    }

    /// Takes a list that ends too early.
    pub(super) fn cut(&mut self, line: u64) {
        let why = "it ends within a list: what followed is missing".to_owned();
        self.failed(line, why);
    }

    /// Takes a text that kubectl cut, after a number of events.
    pub(super) fn cut_by_kubectl(&mut self, line: u64, events: u64) {
        let events = match events {
            0 => "no event".to_owned(),
            1 => "1 event".to_owned(),
            number => format!("{number} events"),
        };
        let why = format!("cut by kubectl, {events} read: -v=10 and -o json print everything");
        self.failed(line, why);
    }

    /// Takes an input that cannot be read any further.
    pub(super) fn failed(&mut self, line: u64, why: String) {
        self.seen.is_failed = true;
        let place = Place {
            member: self.member.clone(),
            line: self.outer_line.unwrap_or(line),
            nth: 1,
        };
        self.hand_over(Found::Failed { place, why });
    }

    fn event(
        &mut self,
        line: u64,
        length: usize,
        event: Result<event::Event, Unreadable>,
        notes: Vec<Note>,
    ) {
        self.seen.events += 1;
        let outer_line = self.outer_line.take();
        for (line, (why, _)) in std::mem::take(&mut self.perhaps) {
            self.lost(line, why);
        }
        self.outer_line = outer_line;
        let line = self.outer_line.unwrap_or(line);
        self.nth = if line == self.last_line {
            self.nth + 1
        } else {
            1
        };
        self.last_line = line;
        let place = Place {
            member: self.member.clone(),
            line,
            nth: self.nth,
        };
        self.hand_over(Found::Record(Record {
            place,
            length,
            event,
            notes,
        }));
    }

    fn hand_over(&mut self, found: Found) {
        if !self.is_stopped {
            self.is_stopped = (self.take)(found).is_break();
        }
    }

    /// Takes the events within a value that was not read as JSON text.
    pub(super) fn value(&mut self, line: u64, value: &Value, is_mended: bool) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.text(line, &text, is_mended)
    }

    /// Takes the events within a text that was found within another one.
    pub(super) fn text(&mut self, line: u64, text: &[u8], is_mended: bool) -> io::Result<()> {
        let line = self.outer_line.unwrap_or(line);
        let outer_line = self.outer_line.replace(line);
        let was_mended = self.is_mended;
        self.is_mended |= is_mended;
        let result = (self.read_nested)(text, self);
        self.outer_line = outer_line;
        self.is_mended = was_mended;
        result
    }
}

/// The parser's message without its place, which counts from the beginning of the event.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text);
    format!("not JSON: {}", shortened(text))
}
