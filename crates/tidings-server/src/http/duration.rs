//! Durations in Go's notation.

use std::time::Duration;

/// Reads a duration in Go's notation, such as `1h30m`, `8s`, `1.5s` or `500ms`. It follows
/// `time.ParseDuration`; negative durations are not accepted.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = leading_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), leading_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let is_number = |character: char| character.is_ascii_digit() || character == '.';
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let unit: u128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        // Further digits are worth less than a nanosecond, even of an hour.
        let fraction = fraction.get(..fraction.len().min(FRACTION_DIGITS_MAX))?;
        let number = |digits: &str| match digits {
            "" => Some(0),
            digits => digits.parse::<u64>().ok().map(u128::from),
        };
        let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        nanos += number(whole)? * unit + number(fraction)? * unit / scale;
        if nanos > i64::MAX as u128 {
            return None;
        }
        rest = after;
    }
    let nanos = u64::try_from(nanos).ok()?;
    (!text.is_empty()).then_some(Duration::from_nanos(nanos))
}

/// Maximum digits after the point that are read.
const FRACTION_DIGITS_MAX: usize = 15;

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations() {
        for (text, millis) in [
            ("8s", 8000),
            ("1h30m", 5_400_000),
            ("1m0s", 60_000),
            ("500ms", 500),
            ("0", 0),
            ("1h0m0s", 3_600_000),
            ("1.5s", 1500),
            (".5s", 500),
            ("1.s", 1000),
            ("0.1h2.5s", 362_500),
            ("0.0010000000000000000000000000001s", 1),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "8",
            "s",
            ".s",
            ".",
            "1..5s",
            "-1s",
            "1.5",
            "1d",
            "2562048h",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }
}
