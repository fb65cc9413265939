//! One document, JSON or YAML: a list of events, an array of them, or a single event. A list is
//! never held as a whole: its items are handed over as the parser comes by them.

use std::fmt;
use std::ops::ControlFlow;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::event::{Declared, Event};
use super::record::{Position, Record};
use super::source::Meter;
use super::unreadable::Unreadable;

/// Takes the records of one document. As a seed it is deserialized from the document.
pub(super) struct Document<'a> {
    take: &'a mut dyn FnMut(Record) -> ControlFlow<()>,
    meter: Option<&'a Meter>,
    line: u64,
    items: u64,
    stopped: bool,
}

impl<'a> Document<'a> {
    /// The document that begins at `line`. With a meter, items know their own lines and each has
    /// its own allowance.
    pub(super) fn new(
        line: u64,
        meter: Option<&'a Meter>,
        take: &'a mut dyn FnMut(Record) -> ControlFlow<()>,
    ) -> Self {
        Self {
            take,
            meter,
            line,
            items: 0,
            stopped: false,
        }
    }

    /// Whether the taker wants no more. The parser was ended by an error then, which is not one of
    /// the document.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Where a parser that found the document broken found the record it was in.
    pub(super) fn broken(&mut self, line: u64, reason: Unreadable) -> ControlFlow<()> {
        let item = (self.items > 0).then_some(self.items);
        self.hand_over(Position { line, item }, Err(reason))
    }

    fn item(&mut self, line: u64, item: Value, declared: &Declared) -> ControlFlow<()> {
        let event = match item {
            Value::Object(object) => Event::new(object, declared),
            _ => Err(not_an_object()),
        };
        self.hand_over(
            Position {
                line,
                item: Some(self.items),
            },
            event,
        )
    }

    fn whole(&mut self, event: Result<Event, Unreadable>) -> ControlFlow<()> {
        self.hand_over(
            Position {
                line: self.line,
                item: None,
            },
            event,
        )
    }

    fn hand_over(
        &mut self,
        position: Position,
        event: Result<Event, Unreadable>,
    ) -> ControlFlow<()> {
        let flow = (self.take)(Record { position, event });
        self.stopped |= flow.is_break();
        flow
    }
}

fn not_an_object() -> Unreadable {
    Unreadable::Syntax("not an object, expected an Event".to_owned())
}

/// A parser can be ended early by an error only; this one is never shown.
fn go_on<E: de::Error>(flow: ControlFlow<()>) -> Result<(), E> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(E::custom("stopped")),
    }
}

impl<'de> DeserializeSeed<'de> for &mut Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Document<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an Event, an EventList or a List")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Map::new();
        let mut is_list = false;
        while let Some(name) = map.next_key::<String>()? {
            if name != "items" {
                let value = map.next_value()?;
                if fields.insert(name.clone(), value).is_some() {
                    return Err(de::Error::custom(format_args!("{name} is there twice")));
                }
                continue;
            }
            if is_list {
                return Err(de::Error::custom("items is there twice"));
            }
            is_list = true;
            match Declared::by_list(&fields) {
                Ok(declared) => map.next_value_seed(Items {
                    document: self,
                    declared,
                })?,
                Err(reason) => {
                    go_on(self.whole(Err(reason)))?;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if is_list {
            Ok(())
        } else {
            go_on(self.whole(Event::new(fields, &Declared::default())))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Items {
            document: self,
            declared: Declared::default(),
        }
        .visit_seq(seq)
    }
}

struct Items<'a, 'b> {
    document: &'a mut Document<'b>,
    declared: Declared,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of events")
    }

    /// `items: null` is how Go prints a list that was never filled.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Item(&mut self))?.is_some() {}
        Ok(())
    }
}

struct Item<'a, 'b, 'c>(&'a mut Items<'b, 'c>);

impl<'de> DeserializeSeed<'de> for Item<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Items { document, declared } = self.0;
        document.items += 1;
        let line = document.meter.map_or(document.line, Meter::line);
        if let Some(meter) = document.meter {
            meter.begin_record();
        }
        let item = de::Deserialize::deserialize(deserializer)?;
        go_on(document.item(line, item, declared))
    }
}
