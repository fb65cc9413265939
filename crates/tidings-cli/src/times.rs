//! Parses times of the command line: a duration before now, or a timestamp.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The accepted forms, for error messages.
const ACCEPTED: &str = "a duration before now, such as 90m, 2h30m or 3d, or a time, such as 2026-03-04T05:06:00Z or 2026-03-04 (UTC)";

/// Parses a moment: a [`duration`] before `now`, an RFC 3339 time, or a date, which means its
/// beginning in UTC.
///
/// # Errors
/// For other texts; the error says what is accepted.
///
/// ```
/// let now = "2026-03-04T12:00:00Z".parse()?;
/// let moment = |text| tidings_cli::times::moment(text, now).map(|moment| moment.to_string());
/// assert_eq!(moment("2d1h"), Ok("2026-03-02T11:00:00Z".into()));
/// assert_eq!(moment("2026-03-04"), Ok("2026-03-04T00:00:00Z".into()));
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(ago) = duration(text) {
        return now
            .checked_sub(ago)
            .map_err(|_| format!("{text} is longer ago than there are dates"));
    }
    let day = || {
        let date: Date = text.parse().ok()?;
        let midnight = date.to_zoned(TimeZone::UTC).ok()?;
        Some(midnight.timestamp())
    };
    // A date is no RFC 3339 time, and such a time is no date.
    text.parse()
        .ok()
        .or_else(|| (text.len() == 10).then(day).flatten())
        .ok_or_else(|| format!("expected {ACCEPTED}"))
}

/// Parses a duration in Go's notation, extended by years, weeks and days. It accepts every duration
/// that the command prints, such as the age `2y11d`.
///
/// A year is 365 days, as in ages.
///
/// # Errors
/// For other texts; the error says what is accepted.
///
/// ```
/// use std::time::Duration;
/// use tidings_cli::times::duration;
///
/// assert_eq!(duration("1w2d12h"), Ok(Duration::from_secs((9 * 24 + 12) * 3600)));
/// assert_eq!(duration("2y11d"), duration("741d"));
/// assert!(duration("soon").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
    const DAY: u64 = 24 * 60 * 60;
    let error = || "expected a duration, such as 1h30m, 90m or 3d".to_owned();
    let mut rest = text;
    let mut total = Duration::ZERO;
    for (unit, seconds) in [('y', 365 * DAY), ('w', 7 * DAY), ('d', DAY)] {
        if let Some((number, behind)) = rest.split_once(unit) {
            let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
            let number = number.parse().ok().filter(|_| is_number);
            let number: u64 = number.ok_or_else(error)?;
            total = number
                .checked_mul(seconds)
                .and_then(|seconds| total.checked_add(Duration::from_secs(seconds)))
                .ok_or_else(error)?;
            rest = behind;
        }
    }
    if rest.is_empty() && rest.len() < text.len() {
        return Ok(total);
    }
    tidings_server::parse_go_duration(rest)
        .and_then(|rest| total.checked_add(rest))
        .ok_or_else(error)
}

/// Parses a [`duration`] above zero.
///
/// # Errors
/// For other texts; the error says what is accepted.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    if found.is_zero() {
        Err("expected more than nothing".to_owned())
    } else {
        Ok(found)
    }
}

/// Parses a [`duration`] of at least one second.
///
/// # Errors
/// For other texts; the error says what is accepted.
pub fn duration_of_seconds(text: &str) -> Result<Duration, String> {
    let found = duration(text).ok();
    found
        .filter(|found| *found >= Duration::from_secs(1))
        .ok_or_else(|| "expected a duration of at least 1s, such as 90d, 1h30m or 30s".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_period_is_of_a_second_at_least() {
        for (text, is_good) in [
            ("1s", true),
            ("90d", true),
            ("2y", true),
            ("999ms", false),
            ("0", false),
            ("soon", false),
        ] {
            assert_eq!(duration_of_seconds(text).is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn a_time_to_wait_is_above_zero() {
        for nothing in ["0", "0s", "0d"] {
            assert!(positive_duration(nothing).is_err(), "{nothing}");
        }
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(positive_duration("1d"), duration("24h"));
    }

    #[test]
    fn moments() {
        let now = "2026-03-04T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("90m", Some("2026-03-04T10:30:00Z")),
            ("0s", Some("2026-03-04T12:00:00Z")),
            ("1w", Some("2026-02-25T12:00:00Z")),
            ("1d12h", Some("2026-03-03T00:00:00Z")),
            ("2y11d", Some("2024-02-22T12:00:00Z")),
            ("2026-03-04T05:06:07+02:00", Some("2026-03-04T03:06:07Z")),
            ("2026-03-04T05:06:07.5Z", Some("2026-03-04T05:06:07.5Z")),
            ("2026-03-01", Some("2026-03-01T00:00:00Z")),
            ("", None),
            ("2", None),
            ("d", None),
            ("1h2d", None),
            ("1d2y", None),
            ("+1d", None),
            ("-1d", None),
            ("-1h", None),
            ("yesterday", None),
            ("2026-13-01", None),
            ("99999999999w", None),
            ("9999999w", None),
        ] {
            assert_eq!(
                moment(text, now).ok().map(|moment| moment.to_string()),
                expected.map(str::to_owned),
                "{text}"
            );
        }
    }

    proptest! {
        /// A printed age is accepted, with the value it shows.
        #[test]
        fn every_age_is_a_duration(millis in prop_oneof![0_i128..200_000, 0_i128..100_000_000_000, 0_i128..i128::from(u32::MAX) * 100_000]) {
            let age = tidings_server::human_duration(millis);
            let read = duration(&age);
            prop_assert!(read.is_ok(), "{age}: {read:?}");
            let again = i128::try_from(read.unwrap().as_millis()).unwrap();
            prop_assert_eq!(tidings_server::human_duration(again), age);
        }

        /// Durations as messages print them.
        #[test]
        fn every_exact_duration_is_accepted(seconds in 0_u64..1 << 32, nanos in prop_oneof![Just(0_u32), Just(500_000_000), 0_u32..1_000_000_000]) {
            let exact = Duration::new(seconds, nanos);
            prop_assert_eq!(duration(&format!("{exact:?}")), Ok(exact));
        }
    }
}
