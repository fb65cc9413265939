//! Parses times of the command line: a duration before now, or a timestamp.

use std::time::Duration;

pub use tidings_server::{parse_duration as duration, parse_moment as moment};

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
