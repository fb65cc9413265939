//! A protobuf reader without allocation: fields by number, borrowed from the bytes.
//!
//! It reads the forms that an API server writes. For anything else that protobuf allows (groups,
//! fixed-width numbers, a message in two parts) it returns [`None`], and the caller uses the full
//! decoder.
#![expect(
    clippy::option_option,
    reason = "the outer None is the unusual, the inner one a field that is not set"
)]

use tidings_core::wire::{Moment, moment, put_varint, varint};

/// The greatest field number in an event's messages.
const NUMBER_MAX: usize = 17;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }

    pub(crate) fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// The fields of a message. A list creates about ten of these for each event, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    /// The value by field number: a number, or offset and length in `bytes`.
    values: [u64; NUMBER_MAX + 1],
    /// A bit for each field number that is present.
    present: u32,
    /// A bit for each field number whose value is a number.
    numbers: u32,
    /// A bit for each field number that is present more than once.
    repeated: u32,
}

impl<'a> Message<'a> {
    pub(crate) const EMPTY: Message<'static> = Message {
        bytes: &[],
        values: [0; NUMBER_MAX + 1],
        present: 0,
        numbers: 0,
        repeated: 0,
    };

    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut message = Message {
            bytes,
            ..Message::EMPTY
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (number, value) = next_field(&mut rest)?;
            // Fields of later releases are skipped, as in any decoder.
            let Some(place) = message.values.get_mut(number) else {
                continue;
            };
            let bit = 1 << number;
            message.repeated |= message.present & bit;
            message.present |= bit;
            *place = match value {
                Value::Number(value) => {
                    message.numbers |= bit;
                    value
                }
                Value::Bytes(value) => {
                    message.numbers &= !bit;
                    let start = bytes.len() - rest.len() - value.len();
                    u64::from(u32::try_from(start).ok()?) << 32 | value.len() as u64
                }
            };
        }
        // Offsets and lengths have 32 bits each, so a longer message is refused.
        u32::try_from(bytes.len()).ok().map(|_| message)
    }

    /// The value of a field; `None` if the field is repeated.
    pub(crate) fn get(&self, number: usize) -> Option<Option<Value<'a>>> {
        let has = |mask: u32| mask & 1 << number != 0;
        if has(self.repeated) {
            return None;
        }
        let value = self.values.get(number).filter(|_| has(self.present));
        let Some(&value) = value else {
            return Some(None);
        };
        if has(self.numbers) {
            return Some(Some(Value::Number(value)));
        }
        let (start, len) = ((value >> 32) as usize, value as u32 as usize);
        Some(Some(Value::Bytes(self.bytes.get(start..start + len)?)))
    }

    /// The text of a field; empty if it is unset.
    pub(crate) fn text(&self, number: usize) -> Option<&'a str> {
        self.get(number)?.map_or(Some(""), Value::text)
    }

    /// The number of a field; zero if it is unset.
    pub(crate) fn number(&self, number: usize) -> Option<u64> {
        self.get(number)?.map_or(Some(0), Value::number)
    }

    /// The message of a field, if it is set.
    pub(crate) fn message(&self, number: usize) -> Option<Option<Message<'a>>> {
        match self.get(number)? {
            Some(value) => Message::read(value.bytes()?).map(Some),
            None => Some(None),
        }
    }

    /// The `Time` or `MicroTime` of a field, if it is set.
    pub(crate) fn time(&self, number: usize) -> Option<Option<Moment>> {
        let Some(value) = self.get(number)? else {
            return Some(None);
        };
        let (mut seconds, mut nanos) = (None, None);
        for field in fields(value.bytes()?) {
            let (number, value) = field?;
            let part = match number {
                1 => &mut seconds,
                2 => &mut nanos,
                _ => continue,
            };
            if part.replace(value.number()?).is_some() {
                return None;
            }
        }
        let nanos = nanos.map(|nanos| nanos as i32);
        Some(moment(Some((seconds.map(u64::cast_signed), nanos))))
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.present & 1 << number != 0
    }

    /// Every value of a repeated field, in order.
    pub(crate) fn each(&self, number: usize) -> impl Iterator<Item = Option<&'a [u8]>> {
        fields(self.bytes).filter_map(move |field| match field {
            Some((found, value)) => (found == number).then(|| value.bytes()),
            None => Some(None),
        })
    }

    /// Every field in order, for copying.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Option<(usize, Value<'a>)>> {
        fields(self.bytes)
    }
}

fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Option<(usize, Value<'_>)>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let field = next_field(&mut bytes);
        if field.is_none() {
            // The rest cannot be read, so the iteration ends.
            bytes = &[];
        }
        Some(field)
    })
}

fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(usize, Value<'a>)> {
    // Decoders refuse tags of more than 32 bits, and the field number 0.
    let tag = u32::try_from(varint(bytes)?).ok()?;
    let number = Some(tag as usize >> 3).filter(|number| *number > 0)?;
    let value = match tag & 7 {
        0 => Value::Number(varint(bytes)?),
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            let (value, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Value::Bytes(value)
        }
        _ => return None,
    };
    Some((number, value))
}

/// Appends a field that holds bytes.
pub fn put_bytes(number: usize, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint((number as u64) << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A message with a single field that holds bytes.
#[cfg(test)]
pub(crate) fn bytes_field(number: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(number, bytes, &mut message);
    message
}

/// Appends a field with bytes or a number as its value.
pub(crate) fn put_field(number: usize, value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Bytes(bytes) => put_bytes(number, bytes, out),
        Value::Number(value) => {
            put_varint((number as u64) << 3, out);
            put_varint(value, out);
        }
    }
}
