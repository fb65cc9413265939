//! Parses Kubernetes' two time types, `Time` and `MicroTime`.
//!
//! `Time` has whole seconds, `MicroTime` exactly six fractional digits, as in
//! `k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go`.

use crate::go;

pub use tidings_core::wire::Moment;
pub(crate) use tidings_core::wire::moment;

/// Reads a `Time`: any RFC 3339 text, truncated to seconds.
pub(crate) fn parse_time(text: &str) -> Result<Moment, String> {
    let moment = go::time::parse(text, false)?;
    Ok(Moment { nanos: 0, ..moment })
}

/// Reads a `MicroTime`: RFC 3339 with exactly six fractional digits.
pub(crate) fn parse_micro_time(text: &str) -> Result<Moment, String> {
    go::time::parse(text, true)
}

#[cfg(test)]
mod tests {
    use jiff::civil;
    use tidings_core::wire::{write_micro_time, write_time};

    use super::*;

    fn printed(moment: Moment, write: impl Fn(Moment, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(moment, &mut out);
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
            let printed = printed(parse_time(input).unwrap(), write_time);
            assert_eq!(printed, format!("\"{output}\""), "{input}");
        }
    }

    #[test]
    fn every_day_is_printed_as_it_was_read() {
        // The calendar repeats after 400 years, so these cover all days.
        let first = civil::date(1999, 1, 1);
        let dates = first.series(jiff::Span::new().days(1));
        for date in dates.take_while(|date| date.year() < 2400) {
            let text = format!("{date}T12:34:56Z");
            let printed = printed(parse_time(&text).unwrap(), write_time);
            assert_eq!(printed, format!("\"{text}\""));
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
        let moment = parse_micro_time("2024-10-24T11:12:13.000120+01:00").unwrap();
        let printed = printed(moment, write_micro_time);
        assert_eq!(printed, "\"2024-10-24T10:12:13.000120Z\"");
        for input in [
            "2024-10-24T11:12:13Z",
            "2024-10-24T11:12:13.123Z",
            "2024-10-24T11:12:13.123456789Z",
        ] {
            assert!(parse_micro_time(input).is_err(), "{input}");
        }
    }
}
