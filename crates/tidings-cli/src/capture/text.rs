//! Decodes the text of an input: UTF-8 is unchanged, UTF-16 becomes UTF-8.
//!
//! UTF-16 is recognised by its byte order mark, at the beginning or behind a line that was in
//! UTF-8, or by zeros at every other byte. `>>` of Windows `PowerShell` appends it without a mark
//! to what is in UTF-8, and other programs append UTF-8 to what is in UTF-16: the encoding is
//! looked for behind each line feed. An unpaired surrogate becomes one byte of invalid UTF-8, which
//! is then repaired like any other. The escape sequences with which programs colour what they print
//! on a terminal are left out.

use std::io::{self, Read};

/// Bytes from which the encoding is recognised: at least, and at most if more are there.
const LOOK: usize = 64;
const LOOK_MAX: usize = 1024;
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
        // The lines before it are in UTF-8.
        _ if beginning.windows(3).any(has_mark_behind_line) => return (Encoding::Utf8, 0),
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

fn has_mark_behind_line(bytes: &[u8]) -> bool {
    matches!(bytes, [b'\n', 0xff, 0xfe] | [b'\n', 0xfe, 0xff])
}

/// A reader of an input's text as UTF-8. Invalid bytes are unchanged.
pub(super) struct Text<R> {
    input: R,
    encoding: Option<Encoding>,
    /// Bytes of the input; those before `read` were decoded or returned already.
    raw: Vec<u8>,
    read: usize,
    /// Decoded bytes; those before `given` were returned already.
    decoded: Vec<u8>,
    given: usize,
    high: Option<u16>,
    /// The last two bytes of UTF-8.
    last: [u8; 2],
    /// Whether the last decoded code unit of UTF-16 was a line feed: a line in UTF-8 may follow.
    is_behind_line: bool,
}

impl<R: Read> Text<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            encoding: None,
            raw: Vec::new(),
            read: 0,
            decoded: Vec::new(),
            given: 0,
            high: None,
            last: [0; 2],
            is_behind_line: false,
        }
    }

    /// The bytes of the input that are neither decoded nor returned yet.
    fn rest(&self) -> &[u8] {
        self.raw.get(self.read..).unwrap_or_default()
    }

    /// Reads more bytes into `raw`; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.raw.drain(..self.read);
        self.read = 0;
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
        let beginning = self.raw.get(..LOOK_MAX).unwrap_or(&self.raw);
        let (encoding, mark) = encoding(beginning);
        self.read = mark;
        self.encoding = Some(encoding);
        Ok(encoding)
    }

    /// Copies UTF-8 into a buffer, up to a line in UTF-16.
    fn copy(&mut self, buffer: &mut [u8]) -> usize {
        let rest = self.raw.get(self.read..).unwrap_or_default();
        let window = rest.get(..buffer.len()).unwrap_or(rest);
        let length = match utf16_behind_line(&mut self.last, window) {
            None => {
                self.read += window.len();
                window.len()
            }
            Some((length, order, begin)) => {
                self.encoding = Some(Encoding::Utf16(order));
                self.last = [0; 2];
                self.read += begin;
                length
            }
        };
        for (to, from) in buffer.iter_mut().zip(window.iter().take(length)) {
            *to = *from;
        }
        length
    }

    /// Decodes the rest, up to a line in UTF-8.
    fn decode(&mut self, order: Order, is_end: bool) {
        let mut out = std::mem::take(&mut self.decoded);
        out.clear();
        let rest = self.raw.get(self.read..).unwrap_or_default();
        for pair in rest.as_chunks::<2>().0 {
            if self.is_behind_line && is_json_in_utf8(*pair) {
                self.encoding = Some(Encoding::Utf8);
                break;
            }
            let unit = match order {
                Order::Little => u16::from_le_bytes(*pair),
                Order::Big => u16::from_be_bytes(*pair),
            };
            self.is_behind_line = unit == u16::from(b'\n');
            self.high = unit16(self.high, unit, &mut out);
            self.read += pair.len();
        }
        if is_end && self.encoding == Some(Encoding::Utf16(order)) {
            out.extend(self.high.take().map(|_| NO_TEXT));
            out.extend(self.rest().first().map(|_| NO_TEXT));
            self.read = self.raw.len();
        }
        self.decoded = out;
        self.given = 0;
    }
}

/// Looks for UTF-16 behind a line feed in bytes of UTF-8: for a byte order mark, or ASCII with
/// zeros, which are in no text. `last` are the two bytes before these. Returns how many of the
/// bytes are UTF-8, the order of the UTF-16 and where it begins.
fn utf16_behind_line(last: &mut [u8; 2], bytes: &[u8]) -> Option<(usize, Order, usize)> {
    if let [.., one, two] = bytes
        && !bytes.iter().any(|byte| *byte >= 0xfe || *byte == 0)
    {
        *last = [*one, *two];
        return None;
    }
    for (at, byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1..).unwrap_or_default();
        // The byte before this one may have been returned with the bytes before these.
        let before = at.saturating_sub(1);
        match (*last, byte) {
            ([b'\n', 0xff], 0xfe) => return Some((before, Order::Little, at + 1)),
            ([b'\n', 0xfe], 0xff) => return Some((before, Order::Big, at + 1)),
            // A returned byte is the same character in both encodings.
            ([b'\n', 1..0x80], 0) if !matches!(next, [0, ..] | [_, 1..=255, ..]) => {
                let begin = at.checked_sub(1).unwrap_or(at + 1);
                return Some((before, Order::Little, begin));
            }
            ([_, former], byte) => *last = [former, *byte],
        }
    }
    None
}

/// Whether two bytes are the beginning of an object in UTF-8. In UTF-16 they would be characters
/// with which no line begins, such as ≻.
fn is_json_in_utf8(pair: [u8; 2]) -> bool {
    matches!(pair, [b'{', b'"' | b' ' | b'\r' | b'\n'])
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
        loop {
            let waiting = self.decoded.get(self.given..).unwrap_or_default();
            if !waiting.is_empty() {
                let length = waiting.len().min(buffer.len());
                for (to, from) in buffer.iter_mut().zip(waiting) {
                    *to = *from;
                }
                self.given += length;
                return Ok(length);
            }
            if let Encoding::Utf16(order) = self.find_encoding()? {
                let is_end = self.rest().len() < 2 && !self.fill()?;
                self.decode(order, is_end);
                if is_end && self.decoded.is_empty() && self.rest().is_empty() {
                    return Ok(0);
                }
                continue;
            }
            if buffer.is_empty() || (self.rest().is_empty() && !self.fill()?) {
                return Ok(0);
            }
            let length = self.copy(buffer);
            if length > 0 {
                return Ok(length);
            }
        }
    }
}

/// The byte with which an escape sequence begins.
const ESCAPE: u8 = 0x1b;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    None,
    /// After the escape byte.
    Begun,
    /// A control sequence, such as a colour.
    Control,
    /// A command of the operating system, such as a link.
    Command,
    /// One byte is left, such as that of a character set.
    Last,
}

/// A reader of a text without the escape sequences of a terminal. None is longer than its line.
pub(super) struct Uncoloured<R> {
    input: R,
    sequence: Sequence,
}

impl<R: Read> Uncoloured<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            sequence: Sequence::None,
        }
    }

    /// Whether a byte is kept.
    fn keeps(&mut self, byte: u8) -> bool {
        let next = match (self.sequence, byte) {
            (_, b'\n') => Sequence::None,
            (_, ESCAPE) => Sequence::Begun,
            (Sequence::Begun, b'[') => Sequence::Control,
            (Sequence::Begun, b']') => Sequence::Command,
            (Sequence::Begun, b'(' | b')') => Sequence::Last,
            (Sequence::None | Sequence::Begun | Sequence::Last, _)
            | (Sequence::Control, b'@'..=b'~')
            | (Sequence::Command, b'\x07') => Sequence::None,
            (sequence, _) => sequence,
        };
        // A backslash behind the escape byte ends a command.
        let is_kept = match self.sequence {
            Sequence::None => byte != ESCAPE,
            Sequence::Begun => next == Sequence::None && byte != b'\\',
            Sequence::Control | Sequence::Command | Sequence::Last => byte == b'\n',
        };
        self.sequence = next;
        is_kept
    }
}

impl<R: Read> Read for Uncoloured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.input.read(buffer)?;
            let bytes = buffer.get_mut(..length).unwrap_or_default();
            if self.sequence == Sequence::None && !bytes.contains(&ESCAPE) {
                return Ok(length);
            }
            let mut kept = 0;
            for at in 0..length {
                let byte = bytes.get(at).copied().unwrap_or_default();
                if self.keeps(byte)
                    && let Some(place) = bytes.get_mut(kept)
                {
                    *place = byte;
                    kept += 1;
                }
            }
            if kept > 0 || length == 0 {
                return Ok(kept);
            }
        }
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
        // Appended to a line in UTF-8.
        for order in [Order::Little, Order::Big] {
            let bytes = [b"PS> kubectl\r\n", &*utf16(&text, order, true)].concat();
            let expected = format!("PS> kubectl\r\n{text}");
            assert!(decoded(&bytes) == expected.as_bytes(), "{order:?}");
        }
        // Without a mark, as PowerShell appends it; and UTF-8 behind UTF-16.
        for line in ["{\"a\": 1}\n", "{ \"a\": 1}\r\n"] {
            let (one, two) = (line.repeat(3000), line.repeat(4000));
            let (utf8, utf16) = (two.as_bytes(), utf16(&one, Order::Little, true));
            let all = format!("{two}{one}");
            let bytes = [utf8, &utf16[2..]].concat();
            assert!(decoded(&bytes) == all.as_bytes(), "UTF-16 behind UTF-8");
            let bytes = [&*utf16, utf8, &utf16[2..], utf8].concat();
            let all = format!("{one}{two}{one}{two}");
            assert!(decoded(&bytes) == all.as_bytes(), "UTF-8 behind UTF-16");
        }
        // The encoding changes with each line.
        let line = utf16("a\n", Order::Little, false);
        let bytes = [b"{\"\n", &*line].concat().repeat(50_000);
        assert!(decoded(&bytes) == "{\"\na\n".repeat(50_000).as_bytes());
        // Text whose characters take two bytes, before text in ASCII.
        let chinese = format!("事件{}", "的列表".repeat(20)) + &text;
        assert!(decoded(&utf16(&chinese, Order::Little, false)) == chinese.as_bytes());
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
