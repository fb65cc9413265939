//! Times as people write them: a duration before now, or a timestamp.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::duration::parse_go_duration;

/// The accepted forms, for error messages.
const ACCEPTED: &str = "a duration before now, such as 90m, 2h30m or 3d, or a time, such as 2026-03-04T05:06:00Z or 2026-03-04 (UTC)";

/// Parses a moment: a [duration](parse_duration) before `now`, an RFC 3339 time, or a date, which
/// means its beginning in UTC.
///
/// # Errors
/// For other texts; the error says what is accepted.
///
/// ```
/// let now = "2026-03-04T12:00:00Z".parse()?;
/// let moment = |text| tidings_server::parse_moment(text, now).map(|moment| moment.to_string());
/// assert_eq!(moment("2d1h"), Ok("2026-03-02T11:00:00Z".into()));
/// assert_eq!(moment("2026-03-04"), Ok("2026-03-04T00:00:00Z".into()));
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn parse_moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(ago) = parse_duration(text) {
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
/// use tidings_server::parse_duration;
///
/// assert_eq!(parse_duration("1w2d12h"), Ok(Duration::from_secs((9 * 24 + 12) * 3600)));
/// assert_eq!(parse_duration("2y11d"), parse_duration("741d"));
/// assert!(parse_duration("soon").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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
    parse_go_duration(rest)
        .and_then(|rest| total.checked_add(rest))
        .ok_or_else(error)
}
