//! Kubernetes' two time forms, always in UTC.
//!
//! `Time` has whole seconds, and `MicroTime` exactly six fractional digits. Both are truncated,
//! never rounded.

use super::Moment;

/// Appends a `Time` in quotes.
pub fn write_time(moment: Moment, out: &mut Vec<u8>) {
    write(moment, None, out);
}

/// Appends a `MicroTime` in quotes.
pub fn write_micro_time(moment: Moment, out: &mut Vec<u8>) {
    write(moment, Some(moment.nanos / 1000), out);
}

fn write(moment: Moment, micros: Option<i32>, out: &mut Vec<u8>) {
    let (days, of_day) = (
        moment.seconds.div_euclid(86_400),
        moment.seconds.rem_euclid(86_400),
    );
    let [year, month, day] = civil_from_days(days);
    let mut text = *b"\"0000-00-00T00:00:00";
    let fields = [
        (1, 4, year),
        (6, 2, month),
        (9, 2, day),
        (12, 2, of_day / 3600),
        (15, 2, of_day / 60 % 60),
        (18, 2, of_day % 60),
    ];
    for (at, width, value) in fields {
        if let Some(place) = text.get_mut(at..at + width) {
            digits(place, value);
        }
    }
    out.extend_from_slice(&text);
    if let Some(micros) = micros {
        let mut fraction = *b".000000";
        digits(&mut fraction[1..], i64::from(micros));
        out.extend_from_slice(&fraction);
    }
    out.extend_from_slice(b"Z\"");
}

/// Year, month and day in the Gregorian calendar of a day counted from 1970-01-01. It covers the
/// years 0 to 9999 that a [`Moment`] can be in, one day more than jiff's timestamps. A year here
/// begins in March, so that the leap day is its last.
fn civil_from_days(days: i64) -> [i64; 3] {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let from_march_of_year_0 = days + 719_468;
    let era = from_march_of_year_0.div_euclid(DAYS_OF_400_YEARS);
    let day_of_era = from_march_of_year_0.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    [era * 400 + year_of_era + i64::from(month <= 2), month, day]
}

fn digits(place: &mut [u8], mut value: i64) {
    for byte in place.iter_mut().rev() {
        *byte = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// apimachinery's TestTimeMarshalJSON and TestMicroTimeMarshalJSON. Times before 1970 are also
    /// truncated down, never up.
    #[test]
    fn times_are_cut_to_their_precision() {
        let rows = [
            (
                "1998-05-05T05:05:05.000000050Z",
                "1998-05-05T05:05:05Z",
                "1998-05-05T05:05:05.000000Z",
            ),
            (
                "1998-05-05T05:05:05.9999999+02:30",
                "1998-05-05T02:35:05Z",
                "1998-05-05T02:35:05.999999Z",
            ),
            (
                "1969-12-31T23:59:59.5Z",
                "1969-12-31T23:59:59Z",
                "1969-12-31T23:59:59.500000Z",
            ),
            (
                "0001-01-01T00:00:00.000000001Z",
                "0001-01-01T00:00:00Z",
                "0001-01-01T00:00:00.000000Z",
            ),
        ];
        for (given, seconds, micros) in rows {
            for (write, expected) in [
                (write_time as fn(Moment, &mut Vec<u8>), seconds),
                (write_micro_time, micros),
            ] {
                let mut out = Vec::new();
                write(given.parse::<Timestamp>().unwrap().into(), &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), format!("{expected:?}"));
            }
        }
    }
}
