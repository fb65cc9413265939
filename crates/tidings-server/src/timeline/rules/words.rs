//! Times and numbers in words.

/// A duration in its two largest units: `2 h 10 min`. From a year on, in whole years.
pub(super) fn long(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, hours) = (hours / 24, hours % 24);
    if days >= 365 {
        return many((days / 365).unsigned_abs(), "year");
    }
    let units = [
        (days, "d"),
        (hours, "h"),
        (minutes % 60, "min"),
        (seconds % 60, "s"),
    ];
    let from_first = units.into_iter().skip_while(|(many, _)| *many == 0);
    let two = from_first.take(2).filter(|(many, _)| *many > 0);
    let parts: Vec<_> = two.map(|(many, name)| format!("{many} {name}")).collect();
    if parts.is_empty() {
        "less than 1 s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// A number of things; `name` is the singular.
pub(super) fn many(number: u64, name: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {name}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words() {
        for (seconds, expected) in [
            (-5, "less than 1 s"),
            (0, "less than 1 s"),
            (59, "59 s"),
            (60, "1 min"),
            (90, "1 min 30 s"),
            (7800, "2 h 10 min"),
            (7801, "2 h 10 min"),
            (7205, "2 h"),
            (90_000, "1 d 1 h"),
            (364 * 86_400, "364 d"),
            (365 * 86_400, "1 year"),
            (1478 * 86_400, "4 years"),
        ] {
            assert_eq!(long(seconds * 1000), expected);
        }
        assert_eq!(many(1, "warning"), "1 warning");
        assert_eq!(many(2, "warning"), "2 warnings");
    }
}
