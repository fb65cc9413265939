//! Go's `time.Parse` for Kubernetes' two time layouts.
//!
//! It accepts more than RFC 3339 (an hour of one digit), and has Go's errors.

use std::fmt::Write;

use jiff::civil;
use tidings_core::wire::Moment;

const TIME: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_TIME: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads a time; a `MicroTime` (`micro`) has exactly six fractional digits.
///
/// # Errors
///
/// Go's words for the mistake.
pub(crate) fn parse(text: &str, micro: bool) -> Result<Moment, String> {
    let mut reader = Reader {
        layout: if micro { MICRO_TIME } else { TIME },
        text,
        rest: text.as_bytes(),
    };
    let year = reader.take(digits(reader.rest, 4), "2006")?;
    reader.literal("-")?;
    let month = reader.number("01", true, 1..=12, "month")?;
    reader.literal("-")?;
    let day = reader.number("02", true, 0..=99, "day")?;
    reader.literal("T")?;
    let hour = reader.number("15", false, 0..=23, "hour")?;
    reader.literal(":")?;
    let minute = reader.number("04", true, 0..=59, "minute")?;
    reader.literal(":")?;
    let second = reader.number("05", true, 0..=59, "second")?;
    let nanos = if micro {
        reader.six_digits()?
    } else {
        reader.fraction()
    };
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        let extra = quote(reader.rest);
        return Err(reader.refusal(&format!(": extra text: {extra}")));
    }
    let small = |value: i64| i8::try_from(value).unwrap_or(-1);
    let year = i16::try_from(year).unwrap_or(i16::MAX);
    let date = civil::Date::new(year, small(month), small(day))
        .map_err(|_| reader.refusal(": day out of range"))?;
    let days = i64::from((date - civil::date(1970, 1, 1)).get_days());
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Moment::new(seconds, nanos).ok_or_else(|| reader.refusal(": year outside of range [0,9999]"))
}

struct Reader<'a> {
    layout: &'static str,
    text: &'a str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn refusal(&self, why: &str) -> String {
        format!("parsing time {}{why}", quote(self.text.as_bytes()))
    }

    /// Go's error if the rest does not match an element of the layout.
    fn mismatch<T>(&self, rest: &[u8], element: &str) -> Result<T, String> {
        let layout = self.layout;
        let rest = quote(rest);
        Err(self.refusal(&format!(
            " as \"{layout}\": cannot parse {rest} as \"{element}\""
        )))
    }

    fn out_of_range<T>(&self, what: &str) -> Result<T, String> {
        Err(self.refusal(&format!(": {what} out of range")))
    }

    /// Continues after a found element of the layout; an error if nothing was found.
    fn take<T>(&mut self, found: Option<(T, &'a [u8])>, element: &str) -> Result<T, String> {
        let Some((value, rest)) = found else {
            return self.mismatch(self.rest, element);
        };
        self.rest = rest;
        Ok(value)
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        let rest = self.rest.strip_prefix(literal.as_bytes());
        self.take(rest.map(|rest| ((), rest)), literal)
    }

    /// Reads two digits, or if not `fixed` also one digit.
    fn number(
        &mut self,
        element: &str,
        fixed: bool,
        range: std::ops::RangeInclusive<i64>,
        what: &str,
    ) -> Result<i64, String> {
        let found = digits(self.rest, 2).or_else(|| digits(self.rest, 1).filter(|_| !fixed));
        let value = self.take(found, element)?;
        if range.contains(&value) {
            Ok(value)
        } else {
            self.out_of_range(what)
        }
    }

    fn six_digits(&mut self) -> Result<i32, String> {
        let found = match self.rest {
            [b'.' | b',', fraction @ ..] => digits(fraction, 6),
            _ => None,
        };
        let micros = self.take(found, ".000000")?;
        Ok(i32::try_from(micros * 1000).unwrap_or_default())
    }

    /// Reads any number of fractional digits, also none.
    fn fraction(&mut self) -> i32 {
        let [b'.' | b',', fraction @ ..] = self.rest else {
            return 0;
        };
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit());
        let len = digits.count();
        if let (1.., Some(rest)) = (len, fraction.get(len..)) {
            self.rest = rest;
        }
        let padded = fraction.iter().take(len).chain(std::iter::repeat(&b'0'));
        padded
            .take(9)
            .fold(0, |value, digit| value * 10 + i32::from(digit - b'0'))
    }

    /// Reads the offset from UTC, in seconds.
    fn zone(&mut self) -> Result<i64, String> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix(b"Z") {
            self.rest = rest;
            return Ok(0);
        }
        let all = self.rest;
        let Some(([sign, hours @ .., b':', m1, m2], rest)) = all.split_first_chunk::<6>() else {
            return self.mismatch(all, ELEMENT);
        };
        self.rest = rest;
        let (Some((hours, [])), Some((minutes, []))) = (digits(hours, 2), digits(&[*m1, *m2], 2))
        else {
            return self.mismatch(all, ELEMENT);
        };
        if hours > 24 {
            return self.out_of_range("time zone offset hour");
        }
        if minutes > 60 {
            return self.out_of_range("time zone offset minute");
        }
        match sign {
            b'+' => Ok(hours * 3600 + minutes * 60),
            b'-' => Ok(-(hours * 3600 + minutes * 60)),
            _ => self.mismatch(all, ELEMENT),
        }
    }
}

/// The value of exactly `len` digits, and the rest of the bytes.
fn digits(bytes: &[u8], len: usize) -> Option<(i64, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(len)?;
    let value = digits.iter().try_fold(0, |value, digit| {
        digit
            .is_ascii_digit()
            .then(|| value * 10 + i64::from(digit - b'0'))
    })?;
    Some((value, rest))
}

/// Quotes like Go's time package: bytes that are not printable ASCII are escaped.
fn quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..0x80 => out.push(char::from(byte)),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These are answers of Go 1.26's `time.Parse`.
    #[test]
    fn complaints_are_those_of_go() {
        #[rustfmt::skip]
        let table = [
            (
                "yesterday",
                false,
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
            ),
            ("2024-13-01T00:00:00Z", false, ": month out of range"),
            ("2024-02-30T00:00:00Z", false, ": day out of range"),
            ("2024-02-01T25:00:00Z", false, ": hour out of range"),
            ("2024-02-01T05:60:00Z", false, ": minute out of range"),
            (
                "2024-02-01 05:00:00Z",
                false,
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \" 05:00:00Z\" as \"T\"",
            ),
            ("2024-02-01T05:00:00Zx", false, ": extra text: \"x\""),
            (
                "2024-02-01T05:00:00",
                false,
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"",
            ),
            ("2024-02-01T05:00:00+25:00", false, ": time zone offset hour out of range"),
            (
                "2024-05-01T10:00:00Z",
                true,
                " as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
            ),
            (
                "2024-05-01T10:00:00.123456789Z",
                true,
                " as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"789Z\" as \"Z07:00\"",
            ),
        ];
        for (text, micro, expected) in table {
            let expected = format!("parsing time \"{text}\"{expected}");
            assert_eq!(parse(text, micro).unwrap_err(), expected);
        }
    }

    #[test]
    fn what_go_reads_beyond_the_standard() {
        let moment = parse("2024-05-01T7:00:00Z", false).unwrap();
        assert_eq!(moment, parse("2024-05-01T07:00:00Z", false).unwrap());
    }
}
