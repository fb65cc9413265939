//! The fields of an event that selectors and tables read, from a decoded event or its stored bytes.
#![expect(
    clippy::option_option,
    reason = "the outer None means unusual bytes, the inner one a value that is not set"
)]

use k8s_pb::api::core::v1::Event;

use super::objects::{Object, Value};
use super::stored::{StoredEvent, field};
use super::time::Moment;

/// Access to an event's fields by their numbers in the stored message. Unset texts are empty. An
/// outer `None` means stored bytes that are not in the usual form and must be decoded. A decoded
/// event never returns it.
pub(crate) trait EventView<'a> {
    /// A text of the event itself.
    fn text(&self, number: usize) -> Option<&'a str>;
    /// A text of a message inside the event.
    fn text_of(&self, message: usize, number: usize) -> Option<&'a str>;
    fn time(&self, number: usize) -> Option<Option<Moment>>;
    fn count(&self) -> Option<i32>;
    /// Count and last time of the event's series, if it has one.
    fn series(&self) -> Option<Option<(i32, Option<Moment>)>>;
}

impl<'a> EventView<'a> for StoredEvent<'a> {
    fn text(&self, number: usize) -> Option<&'a str> {
        self.event.text(number)
    }

    fn text_of(&self, message: usize, number: usize) -> Option<&'a str> {
        match message {
            field::METADATA => self.metadata.text(number),
            _ => match self.event.message(message)? {
                Some(message) => message.text(number),
                None => Some(""),
            },
        }
    }

    fn time(&self, number: usize) -> Option<Option<Moment>> {
        self.event.time(number)
    }

    fn count(&self) -> Option<i32> {
        Some(self.event.number(field::COUNT)? as i32)
    }

    fn series(&self) -> Option<Option<(i32, Option<Moment>)>> {
        self.series()
    }
}

impl<'a> EventView<'a> for &'a Event {
    fn text(&self, number: usize) -> Option<&'a str> {
        Some(text(*self, number))
    }

    fn text_of(&self, message: usize, number: usize) -> Option<&'a str> {
        Some(match self.value(message as u32) {
            Value::Object(Some(object)) => text(object, number),
            _ => "",
        })
    }

    fn time(&self, number: usize) -> Option<Option<Moment>> {
        Some(match self.value(number as u32) {
            Value::Time(time) => time,
            _ => None,
        })
    }

    fn count(&self) -> Option<i32> {
        Some(Event::count(self))
    }

    fn series(&self) -> Option<Option<(i32, Option<Moment>)>> {
        let series = self.series.as_ref();
        Some(series.map(|series| (series.count(), super::micro_time(series.last_observed_time))))
    }
}

fn text(object: &dyn Object, number: usize) -> &str {
    match object.value(number as u32) {
        Value::Text(text) => text,
        _ => "",
    }
}
