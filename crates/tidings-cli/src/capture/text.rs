//! Decodes the text of an input: UTF-8 is unchanged, UTF-16 becomes UTF-8.
//!
//! UTF-16 is recognised by its byte order mark, at the beginning or behind a line that was in
//! UTF-8, or by zeros at every other byte. `>>` of Windows `PowerShell` appends it without a mark
//! to what is in UTF-8, and other programs append UTF-8 to what is in UTF-16. So the encoding is
//! looked for behind each line feed: UTF-16 without a mark in the order of Windows, and UTF-8 by a
//! brace, a mark or text that would be no text in UTF-16. An unpaired surrogate becomes one byte of
//! invalid UTF-8, which is then repaired like any other. The escape sequences with which programs
//! colour what they print on a terminal are left out.

use std::io::{self, Read};

/// Bytes from which the encoding is recognised: at least, and at most if more are there.
const LOOK: usize = 64;
const LOOK_MAX: usize = 1024;
/// Bytes in UTF-8 that are enough to tell them from UTF-16 if the input ends with them.
const LAST_LINE: usize = 8;
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
        _ if begins_with_line_of_utf8(beginning) => return (Encoding::Utf8, 0),
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

/// Whether the beginning is lines of UTF-8 behind which UTF-16 begins. Of how many bytes they are
/// decides which bytes are a pair in the UTF-16, so the zeros do not tell its order.
fn begins_with_line_of_utf8(beginning: &[u8]) -> bool {
    let utf16 = utf16_behind_line(&mut [0; 2], beginning);
    utf16.is_some_and(|(length, ..)| beginning.get(..length).is_some_and(is_text_in_utf8))
}

/// Whether bytes behind a line of UTF-16 are lines of UTF-8, behind which UTF-16 may begin; `None`
/// if that takes more bytes.
fn is_utf8_behind_line(bytes: &[u8], is_end: bool) -> Option<bool> {
    if let [0, ..] | [_, 0, ..] = bytes {
        return Some(false);
    }
    let bytes = bytes.get(..LOOK).unwrap_or(bytes);
    let utf16 = utf16_behind_line(&mut [0; 2], bytes).map(|(length, ..)| length);
    let text = bytes.get(..utf16.unwrap_or(bytes.len())).unwrap_or(bytes);
    let enough = match (utf16, is_end) {
        (Some(_), _) => 1,
        (None, false) => LOOK,
        (None, true) => LAST_LINE,
    };
    let is_utf8 = matches!(text, [b'{', b'"' | b' ' | b'\r' | b'\n', ..])
        || (is_text_in_utf8(text) && text.len() >= enough);
    let is_known = is_utf8 || is_end || !is_text_in_utf8(text);
    is_known.then_some(is_utf8)
}

/// Whether bytes are text in UTF-8, of which the last character may be cut off.
fn is_text_in_utf8(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\n\r\x1b".contains(byte);
    let text = std::str::from_utf8(bytes);
    !bytes.iter().any(is_control) && text.map_or_else(|error| error.error_len().is_none(), |_| true)
}

fn has_mark_behind_line(bytes: &[u8]) -> bool {
    matches!(bytes, [b'\n', 0xff, 0xfe] | [b'\n', 0xfe, 0xff])
}

/// A reader of an input's text as UTF-8. Invalid bytes are unchanged.
pub(super) struct Text<R> {
    input: R,
    encoding: Option<Encoding>,
    is_ended: bool,
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
            is_ended: false,
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

    /// Copies decoded bytes into a buffer; returns how many.
    fn give(&mut self, buffer: &mut [u8]) -> usize {
        let waiting = self.decoded.get(self.given..).unwrap_or_default();
        let length = waiting.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(waiting) {
            *to = *from;
        }
        self.given += length;
        length
    }

    /// Decodes the rest, up to a line in UTF-8 or to a line whose encoding takes more bytes to
    /// tell. Returns whether anything was decoded.
    fn decode(&mut self, order: Order) -> bool {
        let mut out = std::mem::take(&mut self.decoded);
        out.clear();
        let rest = self.raw.get(self.read..).unwrap_or_default();
        let mut is_stopped = false;
        let mut decoded = 0;
        for pair in rest.as_chunks::<2>().0 {
            if self.is_behind_line {
                let line = rest.get(decoded..).unwrap_or_default();
                match is_utf8_behind_line(line, self.is_ended) {
                    Some(false) => {}
                    Some(true) => {
                        let has_mark = line.starts_with(MARK);
                        decoded += if has_mark { MARK.len() } else { 0 };
                        self.encoding = Some(Encoding::Utf8);
                        is_stopped = true;
                    }
                    None => is_stopped = true,
                }
            }
            if is_stopped {
                break;
            }
            let unit = match order {
                Order::Little => u16::from_le_bytes(*pair),
                Order::Big => u16::from_be_bytes(*pair),
            };
            self.is_behind_line = unit == u16::from(b'\n');
            self.high = unit16(self.high, unit, &mut out);
            decoded += pair.len();
        }
        self.read += decoded;
        if self.is_ended && !is_stopped {
            out.extend(self.high.take().map(|_| NO_TEXT));
            out.extend(self.rest().first().map(|_| NO_TEXT));
            self.read = self.raw.len();
        }
        self.decoded = out;
        self.given = 0;
        !self.decoded.is_empty()
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
    /// Fills the buffer with what is there: the encoding may change with each line, and many short
    /// answers would be costly. Waits for the input only if there is nothing to return yet.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            let room = buffer.get_mut(filled..).unwrap_or_default();
            if room.is_empty() {
                return Ok(filled);
            }
            let given = self.give(room);
            filled += given;
            if given > 0 {
                continue;
            }
            let encoding = self.find_encoding()?;
            let is_new = match encoding {
                Encoding::Utf16(order) => self.decode(order),
                Encoding::Utf8 => {
                    let copied = self.copy(room);
                    filled += copied;
                    copied > 0
                }
            };
            let is_changed = self.encoding != Some(encoding);
            if is_new || is_changed {
                continue;
            }
            if filled > 0 || self.is_ended {
                return Ok(filled);
            }
            self.is_ended = !self.fill()?;
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
        // UTF-8 behind UTF-16 that begins with other text than an object.
        let chinese = utf16("事件\r\n的列表\n", Order::Little, true);
        for line in [
            "[pod/web] {\"a\": 1}\n",
            "ok\n{\"a\": 1}\n",
            "\n\n\u{e9}t\u{e9}: {\"a\": 1}\n",
            "\u{feff}{\"a\": 1}\n",
            "the last line",
        ] {
            let plain = line.trim_start_matches('\u{feff}');
            for (behind, more) in [("", ""), (plain, "x\n")] {
                let bytes = [
                    &*chinese,
                    line.as_bytes(),
                    behind.as_bytes(),
                    &utf16(more, Order::Little, false),
                ];
                let all = format!("事件\r\n的列表\n{plain}{behind}{more}");
                let shown = String::from_utf8(decoded(&bytes.concat()));
                if line.ends_with('\n') || more.is_empty() {
                    assert_eq!(shown, Ok(all));
                }
            }
        }
        // The encoding changes with each line.
        let line = utf16("a\n", Order::Little, false);
        let bytes = [b"{\"\n", &*line].concat().repeat(50_000);
        assert!(decoded(&bytes) == "{\"\na\n".repeat(50_000).as_bytes());
        // Text whose characters take two bytes, before text in ASCII.
        let chinese = format!("事件{}", "的列表".repeat(20)) + &text;
        assert!(decoded(&utf16(&chinese, Order::Little, false)) == chinese.as_bytes());
    }

    /// Of how many bytes the line is decides where the pairs of UTF-16 begin.
    #[test]
    fn utf_16_behind_a_line_of_any_length_is_read() {
        let text = "{\"a\": 1}\r\n".repeat(100);
        for length in 0..=9 {
            for before in ["", "two\n"] {
                let line = format!("{before}{}\n", "é".repeat(length / 2) + &"x"[..length % 2]);
                for mark in [false, true] {
                    let bytes = [line.as_bytes(), &utf16(&text, Order::Little, mark)].concat();
                    let shown = String::from_utf8(decoded(&bytes));
                    assert_eq!(shown, Ok(format!("{line}{text}")));
                }
            }
        }
    }

    /// The encoding changes with each line, and the buffer is filled nonetheless.
    #[test]
    fn a_buffer_is_filled_across_changes_of_the_encoding() {
        let line = utf16("a\n", Order::Little, false);
        let bytes = [b"{\"\n", &*line].concat().repeat(1000);
        let mut text = Text::new(&*bytes);
        let mut buffer = [0; 1000];
        for _ in 0..5 {
            assert_eq!(text.read(&mut buffer).expect("memory"), buffer.len());
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
