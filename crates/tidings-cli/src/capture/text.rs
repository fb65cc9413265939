//! Decodes the text of an input: UTF-8 is unchanged, UTF-16 becomes UTF-8.
//!
//! UTF-16 is recognised by its byte order mark, or by zeros at every other of the first bytes. An
//! unpaired surrogate becomes one byte of invalid UTF-8, which is then repaired like any other.

use std::io::{self, Read};

/// Bytes from which the encoding is recognised.
const LOOK: usize = 64;
/// The byte that replaces an unpaired surrogate.
const NO_TEXT: u8 = 0xff;

const MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16(Order),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// The encoding of an input with this beginning, and the length of its byte order mark.
fn encoding(beginning: &[u8]) -> (Encoding, usize) {
    match beginning {
        [0xff, 0xfe, ..] => return (Encoding::Utf16(Order::Little), 2),
        [0xfe, 0xff, ..] => return (Encoding::Utf16(Order::Big), 2),
        _ if beginning.starts_with(MARK) => return (Encoding::Utf8, MARK.len()),
        _ => {}
    }
    // Captures are mostly ASCII, whose high byte in UTF-16 is zero.
    let (pairs, _) = beginning.as_chunks::<2>();
    let zeros = |index: usize| pairs.iter().filter(|pair| pair[index] == 0).count();
    let few = pairs.len() / 8;
    let many = pairs.len() - 2 * few;
    match (zeros(0), zeros(1)) {
        _ if pairs.len() < 2 => (Encoding::Utf8, 0),
        (high, low) if high <= few && low >= many => (Encoding::Utf16(Order::Little), 0),
        (high, low) if low <= few && high >= many => (Encoding::Utf16(Order::Big), 0),
        _ => (Encoding::Utf8, 0),
    }
}

/// A reader of an input's text as UTF-8. Invalid bytes are unchanged.
pub(super) struct Text<R> {
    input: R,
    encoding: Option<Encoding>,
    /// Bytes that are read and not decoded yet.
    raw: Vec<u8>,
    /// Decoded bytes; those before `given` were returned already.
    decoded: Vec<u8>,
    given: usize,
    high: Option<u16>,
}

impl<R: Read> Text<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            encoding: None,
            raw: Vec::new(),
            decoded: Vec::new(),
            given: 0,
            high: None,
        }
    }

    /// Reads more bytes into `raw`; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let length = self.raw.len();
        self.raw.resize(length + (64 << 10), 0);
        let read = loop {
            match self
                .input
                .read(self.raw.get_mut(length..).unwrap_or_default())
            {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.raw
            .truncate(length + read.as_ref().copied().unwrap_or(0));
        read.map(|count| count > 0)
    }

    fn find_encoding(&mut self) -> io::Result<Encoding> {
        if let Some(encoding) = self.encoding {
            return Ok(encoding);
        }
        while self.raw.len() < LOOK && self.fill()? {}
        let beginning = self.raw.get(..LOOK).unwrap_or(&self.raw);
        let (encoding, mark) = encoding(beginning);
        self.raw.drain(..mark);
        self.encoding = Some(encoding);
        Ok(encoding)
    }

    fn decode(&mut self, order: Order, is_end: bool) {
        let (pairs, rest) = self.raw.as_chunks::<2>();
        let mut out = std::mem::take(&mut self.decoded);
        out.clear();
        for pair in pairs {
            let unit = match order {
                Order::Little => u16::from_le_bytes(*pair),
                Order::Big => u16::from_be_bytes(*pair),
            };
            self.high = unit16(self.high, unit, &mut out);
        }
        let rest = rest.to_vec();
        if is_end {
            out.extend(self.high.take().map(|_| NO_TEXT));
            out.extend(rest.first().map(|_| NO_TEXT));
            self.raw.clear();
        } else {
            self.raw = rest;
        }
        self.decoded = out;
        self.given = 0;
    }
}

/// Decodes one code unit; returns a high surrogate that waits for its low one.
fn unit16(high: Option<u16>, unit: u16, out: &mut Vec<u8>) -> Option<u16> {
    let units = [high.unwrap_or(unit), unit];
    let both = high.and_then(|_| char::decode_utf16(units).next()?.ok());
    let alone = char::from_u32(unit.into());
    if high.is_some() && both.is_none() {
        out.push(NO_TEXT);
    }
    match both.or(alone) {
        Some(character) => {
            let mut bytes = [0; 4];
            out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
            None
        }
        None if is_high(unit) => Some(unit),
        None => {
            out.push(NO_TEXT);
            None
        }
    }
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

impl<R: Read> Read for Text<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let order = match self.find_encoding()? {
            Encoding::Utf8 if self.raw.is_empty() => return self.input.read(buffer),
            Encoding::Utf8 => {
                let length = self.raw.len().min(buffer.len());
                for (to, from) in buffer.iter_mut().zip(self.raw.drain(..length)) {
                    *to = from;
                }
                return Ok(length);
            }
            Encoding::Utf16(order) => order,
        };
        while self.given >= self.decoded.len() {
            let is_end = self.raw.len() < 2 && !self.fill()?;
            self.decode(order, is_end);
            if is_end && self.decoded.is_empty() {
                return Ok(0);
            }
        }
        let waiting = self.decoded.get(self.given..).unwrap_or_default();
        let length = waiting.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(waiting) {
            *to = *from;
        }
        self.given += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, order: Order, mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        let units = mark.into_iter().chain(text.encode_utf16());
        let bytes = units.map(|unit| match order {
            Order::Little => unit.to_le_bytes(),
            Order::Big => unit.to_be_bytes(),
        });
        bytes.flatten().collect()
    }

    fn decoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Text::new(bytes).read_to_end(&mut out).expect("memory");
        out
    }

    #[test]
    fn every_encoding_becomes_utf_8() {
        let text = "{\"items\": [\"ünïcode 😀\"]}\r\n".repeat(5000);
        for bytes in [
            text.clone().into_bytes(),
            [MARK, text.as_bytes()].concat(),
            utf16(&text, Order::Little, true),
            utf16(&text, Order::Big, true),
            utf16(&text, Order::Little, false),
            utf16(&text, Order::Big, false),
        ] {
            assert!(decoded(&bytes) == text.as_bytes(), "{:?}", &bytes[..8]);
        }
    }

    #[test]
    fn half_a_surrogate_is_no_text_and_costs_nothing_else() {
        let mut bytes = utf16("{\"a\": 1}", Order::Little, true);
        for unit in [0xd83d_u16, u16::from(b'x'), 0xde00, 0xd83d, 0xd83d, 0xde00] {
            bytes.extend(unit.to_le_bytes());
        }
        let expected = [b"{\"a\": 1}\xffx\xff\xff", "😀".as_bytes()].concat();
        assert_eq!(decoded(&bytes), expected);
        bytes.extend([0x3d, 0xd8, 0x20]);
        assert_eq!(decoded(&bytes), [expected.as_slice(), b"\xff\xff"].concat());
    }

    #[test]
    fn short_and_other_inputs_stay_as_they_are() {
        for bytes in [&b""[..], b"{", b"\xff", b"a\0b", b"\0\0\0\0", b"7\n"] {
            assert_eq!(decoded(bytes), bytes);
        }
    }
}
