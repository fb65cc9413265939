//! Times and numbers in words.

/// How long a time in milliseconds is, by its two greatest units: `2 h 10 min`.
pub(super) fn long(millis: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let seconds = millis.max(0) / 1000;
    let mut left = seconds;
    let mut parts: Vec<String> = Vec::new();
    for (unit, name) in UNITS {
        let many = left / unit;
        left %= unit;
        match (many, parts.is_empty()) {
            (0, true) => {}
            (0, false) => break,
            (many, first) => {
                parts.push(format!("{many} {name}"));
                if !first {
                    break;
                }
            }
        }
    }
    if parts.is_empty() {
        "less than 1 s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// A number of things by their name in the singular.
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
        ] {
            assert_eq!(long(seconds * 1000), expected);
        }
        assert_eq!(many(1, "warning"), "1 warning");
        assert_eq!(many(2, "warning"), "2 warnings");
    }
}
