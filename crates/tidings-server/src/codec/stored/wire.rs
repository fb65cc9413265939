//! Protobuf messages looked at in place: fields by number, borrowed from the bytes.
//!
//! It reads what an API server writes. Anything else that protobuf allows (groups, fixed-width numbers, a message in two
//! parts) is [`None`], for which the caller has the full decoder.
#![expect(
    clippy::option_option,
    reason = "the outer None is the unusual, the inner one a field that is not set"
)]

use crate::codec::json::moment;
use crate::codec::time::Moment;

/// No message that events are made of has a field of a greater number than this.
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

/// The fields of a message, each at most once unless it is asked for as repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    values: [Option<Value<'a>>; NUMBER_MAX + 1],
    /// A bit for each field number that is there more than once.
    repeated: u32,
}

impl<'a> Message<'a> {
    pub(crate) const EMPTY: Message<'static> = Message {
        bytes: &[],
        values: [None; NUMBER_MAX + 1],
        repeated: 0,
    };

    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut message = Message {
            bytes,
            ..Message::EMPTY
        };
        for field in fields(bytes) {
            let (number, value) = field?;
            // Fields of later releases are passed over, as any decoder does.
            if let Some(place) = message.values.get_mut(number) {
                if place.is_some() {
                    message.repeated |= 1 << number;
                }
                *place = Some(value);
            }
        }
        Some(message)
    }

    /// The value of a field that must not be repeated; the outer `None` is the unusual.
    pub(crate) fn get(&self, number: usize) -> Option<Option<Value<'a>>> {
        (self.repeated & (1 << number) == 0).then(|| self.values.get(number).copied().flatten())
    }

    /// A text, empty when unset.
    pub(crate) fn text(&self, number: usize) -> Option<&'a str> {
        self.get(number)?.map_or(Some(""), Value::text)
    }

    /// A number, zero when unset.
    pub(crate) fn number(&self, number: usize) -> Option<u64> {
        self.get(number)?.map_or(Some(0), Value::number)
    }

    /// A message, if it is set.
    pub(crate) fn message(&self, number: usize) -> Option<Option<Message<'a>>> {
        match self.get(number)? {
            Some(value) => Message::read(value.bytes()?).map(Some),
            None => Some(None),
        }
    }

    /// A `Time` or `MicroTime`, if it is set.
    pub(crate) fn time(&self, number: usize) -> Option<Option<Moment>> {
        let Some(time) = self.message(number)? else {
            return Some(None);
        };
        let seconds = time.get(1)?.map(Value::number);
        let nanos = time.get(2)?.map(Value::number);
        let parts = match (seconds, nanos) {
            (Some(None), _) | (_, Some(None)) => return None,
            (seconds, nanos) => (
                seconds.flatten().map(u64::cast_signed),
                nanos.flatten().map(|nanos| nanos as i32),
            ),
        };
        Some(moment(Some(parts)))
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.values.get(number).is_some_and(Option::is_some)
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
            // What follows cannot be told apart any more.
            bytes = &[];
        }
        Some(field)
    })
}

fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(usize, Value<'a>)> {
    let tag = varint(bytes)?;
    let number = usize::try_from(tag >> 3)
        .ok()
        .filter(|number| *number > 0)?;
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

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        // The tenth byte has room for one bit.
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends a field that holds bytes.
pub(crate) fn put_bytes(number: usize, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint((number as u64) << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field of either kind.
pub(crate) fn put_field(number: usize, value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Bytes(bytes) => put_bytes(number, bytes, out),
        Value::Number(value) => {
            put_varint((number as u64) << 3, out);
            put_varint(value, out);
        }
    }
}

/// Appends a number in protobuf's variable width.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`put_varint`] appends.
pub(crate) fn varint_len(value: u64) -> usize {
    usize::try_from((u64::BITS - (value | 1).leading_zeros()).div_ceil(7)).unwrap_or(10)
}
