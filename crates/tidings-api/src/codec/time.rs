//! Parsing of Kubernetes' two time types, `Time` (whole seconds) and `MicroTime` (exactly six
//! fractional digits), as `k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go` does.

use jiff::civil;

use crate::go;

pub use tidings_core::wire::Moment;
pub(crate) use tidings_core::wire::moment;

/// Reads a `Time`: any RFC 3339 text, truncated to seconds.
pub(crate) fn parse_time(text: &str) -> Result<Moment, String> {
    let moment = match parse(text) {
        Some((moment, _)) => moment,
        None => go::time::parse(text, false)?,
    };
    Ok(Moment { nanos: 0, ..moment })
}

/// Reads a `MicroTime`: RFC 3339 with exactly six fractional digits.
pub(crate) fn parse_micro_time(text: &str) -> Result<Moment, String> {
    match parse(text) {
        Some((moment, 6)) => Ok(moment),
        _ => go::time::parse(text, true),
    }
}

/// The moment and the number of its fractional digits.
fn parse(text: &str) -> Option<(Moment, usize)> {
    let bytes = text.as_bytes();
    let number = |range: std::ops::Range<usize>| -> Option<i16> {
        bytes.get(range)?.iter().try_fold(0_i16, |value, digit| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + i16::from(digit - b'0'))
        })
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let small = |range| number(range).and_then(|value| i8::try_from(value).ok());
    let date = civil::Date::new(number(0..4)?, small(5..7)?, small(8..10)?).ok()?;
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }

    let mut rest = bytes.get(19..)?;
    let mut nanos = 0_i32;
    let mut digits = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        digits = fraction
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        let (fraction, after) = fraction.split_at_checked(digits)?;
        nanos = fraction
            .iter()
            .chain(std::iter::repeat(&b'0'))
            .take(9)
            .fold(0, |value, digit| value * 10 + i32::from(digit - b'0'));
        rest = after;
    }
    let offset_minutes = match rest {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
            let (hours, minutes) = (digit(h1)? * 10 + digit(h2)?, digit(m1)? * 10 + digit(m2)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let days = i64::from((date - civil::date(1970, 1, 1)).get_days());
    let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some((
        Moment::new(days * 86_400 + of_day - offset_minutes * 60, nanos)?,
        digits,
    ))
}

#[cfg(test)]
mod tests {
    use tidings_core::wire::{write_micro_time, write_time};

    use super::*;

    fn printed(moment: Moment, micro: bool) -> String {
        let mut out = Vec::new();
        if micro {
            write_micro_time(moment, &mut out);
        } else {
            write_time(moment, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn time_drops_fractions_and_normalises_offsets() {
        for (input, output) in [
            ("2024-10-24T11:12:13Z", "2024-10-24T11:12:13Z"),
            ("2024-10-24T11:12:13.999Z", "2024-10-24T11:12:13Z"),
            ("2024-10-24T11:12:13+02:00", "2024-10-24T09:12:13Z"),
            ("1969-12-31T23:59:59-01:00", "1970-01-01T00:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(
                printed(parse_time(input).unwrap(), false),
                format!("\"{output}\""),
                "{input}"
            );
        }
    }

    #[test]
    fn every_day_is_printed_as_it_was_read() {
        // The calendar repeats after 400 years.
        let first = civil::date(1999, 1, 1);
        for date in first
            .series(jiff::Span::new().days(1))
            .take_while(|date| date.year() < 2400)
        {
            let text = format!("{date}T12:34:56Z");
            assert_eq!(
                printed(parse_time(&text).unwrap(), false),
                format!("\"{text}\"")
            );
        }
    }

    #[test]
    fn what_is_no_rfc_3339_is_refused() {
        for input in [
            "",
            "2024",
            "2024-10-24 11:12:13Z",
            "2024-10-24T11:12:13",
            "2024-02-30T00:00:00Z",
            "2024-10-24T24:00:00Z",
            "2024-10-24T11:12:13.Z",
            "2024-10-24T11:12:13z",
            "2024-10-24T11:12:13+0200",
            "2024-10-24T11:12:13+25:00",
            "2024-10-24T11:12:13Zz",
            "9999-12-31T23:59:59-01:00",
            "２024-10-24T11:12:13Z",
        ] {
            assert!(parse_time(input).is_err(), "{input}");
        }
    }

    #[test]
    fn micro_time_wants_exactly_six_digits() {
        assert_eq!(
            printed(
                parse_micro_time("2024-10-24T11:12:13.000120+01:00").unwrap(),
                true
            ),
            "\"2024-10-24T10:12:13.000120Z\""
        );
        for input in [
            "2024-10-24T11:12:13Z",
            "2024-10-24T11:12:13.123Z",
            "2024-10-24T11:12:13.123456789Z",
        ] {
            assert!(parse_micro_time(input).is_err(), "{input}");
        }
    }
}
