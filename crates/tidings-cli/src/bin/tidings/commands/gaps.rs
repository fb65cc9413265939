//! A note about gaps within the time of the shown events.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use tidings_history::{Coverage, Gap, timestamp};

/// Age of `complete until` above which a cluster is not followed properly. Normally it advances
/// within about three minutes.
pub(super) const BEHIND: SignedDuration = SignedDuration::from_mins(5);

/// Whether a followed cluster is complete only until some minutes ago. Its gap is recorded only
/// when it is followed again. A cluster that is not followed here is as complete as intended.
pub(super) fn is_behind(coverage: &Coverage, now: Timestamp) -> bool {
    let mut followed = coverage.followed.iter();
    coverage.retention.is_some()
        && followed.any(|one| now.duration_since(timestamp(one.complete_until)) >= BEHIND)
}

/// The note for a reader of events seen since a time, if the archive begins later.
pub(super) fn beginning(coverage: &Coverage, since: Option<Timestamp>) -> Option<String> {
    let followed = coverage.followed.iter().map(|followed| followed.since);
    let begun = timestamp(followed.min()?);
    since.filter(|since| *since < begun)?;
    let begun = moment(begun);
    Some(format!(
        "the archive begins at {begun}; what had ended before is not in it"
    ))
}

/// The note for a reader of events seen within this time, if versions may be missing in it: `a gap
/// of 10m5s in this time: 2026-11-28 14:27:35 to 14:37:40 UTC (absent)`.
pub(super) fn line(
    gaps: &[Gap],
    (since, until): (Option<Timestamp>, Option<Timestamp>),
) -> Option<String> {
    let is_within = |gap: &&Gap| {
        since.is_none_or(|since| timestamp(gap.to) >= since)
            && until.is_none_or(|until| timestamp(gap.from) <= until)
    };
    let mut gaps: Vec<&Gap> = gaps.iter().filter(is_within).collect();
    gaps.sort_by_key(|gap| gap.from);
    let last = gaps.last()?;
    let (from, to) = (timestamp(last.from), timestamp(last.to));
    let (period, cause) = (period(from, to), last.cause.name());
    Some(match gaps.len() {
        1 => {
            let long = long(to.duration_since(from));
            format!("a gap of {long} in this time: {period} ({cause})")
        }
        number => format!(
            "{number} gaps in this time, the last {period} ({cause}); tidings coverage shows all"
        ),
    })
}

/// A period in UTC, in whole seconds.
pub(super) fn period(from: Timestamp, to: Timestamp) -> String {
    let [from, to] = [from, to].map(|time| time.to_zoned(TimeZone::UTC));
    let form = if from.date() == to.date() {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    let (from, to) = (from.strftime("%Y-%m-%d %H:%M:%S"), to.strftime(form));
    format!("{from} to {to} UTC")
}

/// A moment in UTC, in whole seconds.
pub(super) fn moment(at: Timestamp) -> String {
    let at = at.to_zoned(TimeZone::UTC);
    format!("{} UTC", at.strftime("%Y-%m-%d %H:%M:%S"))
}

/// A duration in its two largest units.
fn long(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0).cast_unsigned();
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut left = seconds;
    let parts = units.map(|(unit, each)| {
        let number = left / each;
        left %= each;
        (number, unit)
    });
    let parts = parts.into_iter().skip_while(|(number, _)| *number == 0);
    let parts = parts.take(2).filter(|(number, _)| *number > 0);
    let parts: Vec<_> = parts
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    match parts.concat() {
        text if text.is_empty() => "0s".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use tidings_history::Cause;
    use tidings_store::UnixMillis;

    use super::*;

    #[test]
    fn a_gap_in_the_time_that_is_read_is_told_in_one_line() {
        let at = |text: &str| Some(format!("2026-11-{text}Z").parse::<Timestamp>().unwrap());
        let millis = |text: &str| UnixMillis(at(text).unwrap().as_millisecond());
        let gap = |from: &str, to: &str, cause| Gap::new(millis(from), millis(to), cause);
        let absent = gap("28T14:27:35.123", "28T14:37:40", Cause::Absent);
        let compacted = gap("20T23:00:00", "21T01:00:00", Cause::Compacted);
        for (gaps, time, expected) in [
            (vec![], (None, None), None),
            (
                vec![&absent],
                (at("28T14:00:00"), None),
                Some("a gap of 10m4s in this time: 2026-11-28 14:27:35 to 14:37:40 UTC (absent)"),
            ),
            (vec![&absent], (at("28T14:37:41"), None), None),
            (vec![&absent], (None, at("28T14:27:35")), None),
            (
                vec![&compacted],
                (at("21T00:00:00"), at("22T00:00:00")),
                Some(
                    "a gap of 2h in this time: 2026-11-20 23:00:00 to 2026-11-21 01:00:00 UTC (compacted)",
                ),
            ),
            (
                vec![&absent, &compacted],
                (None, None),
                Some(
                    "2 gaps in this time, the last 2026-11-28 14:27:35 to 14:37:40 UTC (absent); tidings coverage shows all",
                ),
            ),
        ] {
            let gaps: Vec<Gap> = gaps.into_iter().cloned().collect();
            let told = line(&gaps, time);
            assert_eq!(told.as_deref(), expected);
        }
    }
}
