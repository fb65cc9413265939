//! Writes documents from stored bytes without decoding the event.

use tidings_core::fields::{Field, Kind};
use tidings_core::wire::{Sink, Source};

use super::numbers::{field, meta};
use super::wire::Message;

/// A message of an event, in the bytes of its record.
pub(super) struct Part<'b, 'a> {
    message: &'b Message<'a>,
    /// The resourceVersion of the metadata, which is not in the bytes.
    version: Option<&'b str>,
}

/// An event in its bytes, and its resourceVersion.
pub(super) struct Versioned<'b, 'a> {
    pub(super) event: &'b Message<'a>,
    pub(super) metadata: &'b Message<'a>,
    pub(super) version: &'b str,
}

impl<'b, 'a> Versioned<'b, 'a> {
    pub(super) fn metadata(&self) -> Part<'b, 'a> {
        Part {
            message: self.metadata,
            version: Some(self.version),
        }
    }
}

impl Source for Versioned<'_, '_> {
    fn give<K: Sink>(&self, field: &Field, sink: &mut K) -> Option<()> {
        if field.stored as usize == field::METADATA {
            return sink.object(Some(&self.metadata()));
        }
        Part::of(self.event).give(field, sink)
    }
}

impl Source for Part<'_, '_> {
    fn give<K: Sink>(&self, field: &Field, sink: &mut K) -> Option<()> {
        let number = field.stored as usize;
        match field.kind {
            // The search for items walks over the whole message, so it is skipped if there are
            // none.
            Kind::List(..) | Kind::Set | Kind::Map if !self.message.has(number) => {}
            Kind::Text => match self.version {
                Some(version) if number == meta::RESOURCE_VERSION => sink.text(version),
                _ => sink.text(self.message.text(number)?),
            },
            Kind::Int32 => sink.integer(self.number(number)?.map(|bits| i64::from(bits as i32))),
            Kind::Int64 => sink.integer(self.number(number)?.map(u64::cast_signed)),
            Kind::Bool => sink.boolean(self.number(number)?.map(|bits| bits != 0)),
            Kind::Time | Kind::MicroTime => sink.time(self.message.time(number)?),
            Kind::Object(_) => {
                let inner = self.message.message(number)?;
                sink.object(inner.as_ref().map(Part::of).as_ref())?;
            }
            Kind::List(..) => {
                for bytes in self.message.each(number) {
                    sink.item(&Part::of(&Message::read(bytes?)?))?;
                }
            }
            Kind::Set => {
                for bytes in self.message.each(number) {
                    sink.text_item(std::str::from_utf8(bytes?).ok()?);
                }
            }
            Kind::Map => self.give_map(number, sink)?,
            // Only managedFields has such a field, and events with managedFields are not opened.
            Kind::Json => return None,
        }
        Some(())
    }
}

impl<'b, 'a> Part<'b, 'a> {
    fn of(message: &'b Message<'a>) -> Self {
        Self {
            message,
            version: None,
        }
    }

    #[expect(
        clippy::option_option,
        reason = "the outer None is the unusual, the inner one a field that is not set"
    )]
    fn number(&self, number: usize) -> Option<Option<u64>> {
        match self.message.get(number)? {
            Some(value) => value.number().map(Some),
            None => Some(None),
        }
    }

    /// Gives the entries of a map that is in order, as every API server writes it. `None` for
    /// another map, which the full decoder reads.
    fn give_map<K: Sink>(&self, number: usize, sink: &mut K) -> Option<()> {
        let mut last = None;
        for entry in self.message.each(number) {
            let entry = Message::read(entry?)?;
            let (key, value) = (entry.text(1)?, entry.text(2)?);
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            last = Some(key);
            sink.entry(key, value);
        }
        Some(())
    }
}
