//! How a table shows times: as ages, as kubectl does, or as timestamps.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::event::Event;

/// Age in seconds above which people think of the time rather than the age. kubectl counts in hours
/// from the same age on.
const LONG_AGO: i64 = 3 * 3600;

/// The form of a table's times.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeForm {
    /// The age: `14m`.
    Age,
    /// The time to the second, as `--since` accepts it: `2026-03-04T05:06:00Z`.
    Time(TimeZone),
}

impl TimeForm {
    /// Chooses the form in which these moments can be distinguished. That is ages, or times in UTC
    /// if two moments older than three hours have the same age, or if a moment is in the future.
    ///
    /// ```
    /// use tidings_cli::time_form::TimeForm;
    ///
    /// let now = "2026-03-18T12:00:00Z".parse()?;
    /// let moments = |texts: [&str; 2]| texts.map(|text| text.parse().ok());
    /// let form = |texts| TimeForm::of(moments(texts), now);
    /// assert_eq!(form(["2026-03-18T11:00:00Z", "2026-03-18T11:00:07Z"]), TimeForm::Age);
    /// assert_ne!(form(["2026-03-04T05:06:00Z", "2026-03-04T05:06:07Z"]), TimeForm::Age);
    /// # Ok::<(), jiff::Error>(())
    /// ```
    pub fn of(moments: impl IntoIterator<Item = Option<Timestamp>>, now: Timestamp) -> Self {
        let mut seconds: HashMap<String, i64> = HashMap::new();
        for moment in moments.into_iter().flatten() {
            let age = now.duration_since(moment);
            let is_same = match seconds.entry(age_of(moment, now)) {
                _ if age.as_secs() < -1 => true,
                _ if age.as_secs() < LONG_AGO => false,
                Entry::Occupied(known) => *known.get() != moment.as_second(),
                Entry::Vacant(new) => {
                    new.insert(moment.as_second());
                    false
                }
            };
            if is_same {
                return Self::Time(TimeZone::UTC);
            }
        }
        Self::Age
    }

    /// A moment in this form; `<unknown>` if there is none.
    pub fn text(&self, moment: Option<Timestamp>, now: Timestamp) -> String {
        match (self, moment) {
            (_, None) => "<unknown>".to_owned(),
            (Self::Age, Some(moment)) => age_of(moment, now),
            (Self::Time(zone), Some(moment)) => time_of(moment, zone),
        }
    }

    /// When an event was last seen, how often, and since when: `12m (x3 over 20m)`, as kubectl
    /// prints it, or `2026-03-04T05:06:00Z (x3 since 04:58:00)`. An unknown start is omitted.
    pub fn seen(&self, event: &Event, now: Timestamp) -> String {
        let last = event.last_seen();
        let shown = self.text(last, now);
        if !event.is_repeated() {
            return shown;
        }
        let count = event.count();
        match (self, event.known_since()) {
            (_, None) => format!("{shown} (x{count})"),
            (Self::Age, Some(first)) => format!("{shown} (x{count} over {})", age_of(first, now)),
            (Self::Time(zone), Some(first)) => {
                let date = |at: Timestamp| at.to_zoned(zone.clone()).date();
                let since = if last.map(date) == Some(date(first)) {
                    let first = first.to_zoned(zone.clone());
                    first.strftime("%H:%M:%S").to_string()
                } else {
                    time_of(first, zone)
                };
                format!("{shown} (x{count} since {since})")
            }
        }
    }
}

/// The age of a moment, as kubectl prints it.
fn age_of(moment: Timestamp, now: Timestamp) -> String {
    tidings_server::human_duration(now.duration_since(moment).as_millis())
}

fn time_of(moment: Timestamp, zone: &TimeZone) -> String {
    if *zone == TimeZone::UTC {
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    let zoned = moment.to_zoned(zone.clone());
    zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::times;

    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn seen(form: &TimeForm, value: Value) -> String {
        form.seen(&Event::new(value), at("2026-01-01T01:00:00Z"))
    }

    #[test]
    fn ages_are_kubectls() {
        let seen = |value: Value| seen(&TimeForm::Age, value);
        let mut value = json!({"firstTimestamp": "2026-01-01T00:40:00Z", "lastTimestamp": "2026-01-01T00:48:00Z"});
        assert_eq!(seen(value.clone()), "12m");
        value["count"] = json!(3);
        assert_eq!(seen(value), "12m (x3 over 20m)");
        assert_eq!(seen(json!({})), "<unknown>");
        // The first time is unknown, but the creation time is known.
        let made = json!({"metadata": {"creationTimestamp": "2026-01-01T00:48:00Z"}, "count": 7});
        assert_eq!(seen(made), "12m (x7)");
    }

    #[test]
    fn times_are_to_the_second_and_in_their_zone() {
        let utc = TimeForm::Time(TimeZone::UTC);
        let east = TimeForm::Time(TimeZone::fixed(jiff::tz::offset(2)));
        let mut value = json!({"firstTimestamp": "2025-12-31T22:40:00Z", "lastTimestamp": "2026-01-01T00:48:07.9Z", "count": 3});
        assert_eq!(
            seen(&utc, value.clone()),
            "2026-01-01T00:48:07Z (x3 since 2025-12-31T22:40:00Z)"
        );
        assert_eq!(
            seen(&east, value.clone()),
            "2026-01-01T02:48:07+02:00 (x3 since 00:40:00)"
        );
        value["count"] = json!(1);
        assert_eq!(seen(&utc, value.clone()), "2026-01-01T00:48:07Z");
        assert_eq!(seen(&utc, json!({})), "<unknown>");
        // A printed time can be passed to --since.
        let (now, second) = (at("2027-01-01T00:00:00Z"), at("2026-01-01T00:48:07Z"));
        for form in [utc, east] {
            assert_eq!(times::moment(&seen(&form, value.clone()), now), Ok(second));
        }
    }

    #[test]
    fn times_are_shown_where_ages_tell_nothing_apart() {
        let now = at("2026-03-18T12:00:00Z");
        let ago = |seconds: i64| {
            let then = jiff::SignedDuration::from_secs(seconds);
            now.checked_sub(then).ok()
        };
        for (seconds, is_age) in [
            (vec![], true),
            (vec![14 * DAY], true),
            (vec![14 * DAY, 14 * DAY], true),
            (vec![14 * DAY, 14 * DAY + 1], false),
            (vec![14 * DAY, 15 * DAY], true),
            (vec![5 * HOUR, 5 * HOUR + 30], false),
            (vec![5 * HOUR, 5 * HOUR + 60], true),
            // For half an hour ago, people think of an age in minutes.
            (vec![HOUR / 2, HOUR / 2 + 1], true),
            (vec![HOUR / 2, HOUR / 2 + 1, 14 * DAY, 14 * DAY + 1], false),
            // The event's clock is ahead; kubectl prints <invalid>.
            (vec![-1], true),
            (vec![-2], false),
        ] {
            let form = TimeForm::of(seconds.iter().map(|seconds| ago(*seconds)), now);
            assert_eq!(form == TimeForm::Age, is_age, "{seconds:?}");
        }
        assert_eq!(TimeForm::of([None], now), TimeForm::Age);
    }
}
