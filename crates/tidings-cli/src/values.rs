//! Parsers of values in flags and settings files.

/// Parses a number above zero.
///
/// # Errors
/// Says what is accepted.
pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number above 0".into())
}

/// Parses a number of bytes in Kubernetes' notation: plain, or with Ki, Mi, Gi, Ti, k, M, G or T.
///
/// # Errors
/// Says what is accepted.
pub fn bytes(text: &str) -> Result<usize, String> {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: Option<u64> = match unit {
        "" => Some(1),
        "k" => Some(1000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        "T" => Some(1_000_000_000_000),
        "Ki" => Some(1 << 10),
        "Mi" => Some(1 << 20),
        "Gi" => Some(1 << 30),
        "Ti" => Some(1 << 40),
        _ => None,
    };
    unit.zip(number.parse::<u64>().ok())
        .and_then(|(unit, number)| number.checked_mul(unit))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a number of bytes above zero, such as 65536, 64Ki or 1Mi".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_positive_number() {
        for (text, expected) in [("1", Some(1)), ("0", None), ("-1", None), ("", None)] {
            assert_eq!(positive(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn bytes_are_written_as_kubernetes_does() {
        for (text, expected) in [
            ("65536", Some(65_536)),
            ("64Ki", Some(65_536)),
            ("1M", Some(1_000_000)),
            ("2Gi", Some(2 << 30)),
            ("1T", Some(1_000_000_000_000)),
            ("2Ti", Some(2 << 40)),
            ("0", None),
            ("1.5Mi", None),
            ("64KiB", None),
            ("Ki", None),
            ("99999999999999999Mi", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }
}
