//! YAML of clients. What aliases make of a body is bounded by its length: each may name what is as
//! long as all of it.

use serde::Deserialize;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

/// Values that aliases of a short body may repeat.
const EVENTS_MIN: usize = 10_000;
/// The parser's own bound.
const EVENTS_MAX: usize = 1_000_000;
/// Text that a short body may have and repeat, in bytes.
const TEXT_BYTES_MIN: usize = 64 * 1024;

/// Reads one document.
///
/// # Errors
/// Why it is no YAML, or none of the wanted form; a key given twice, unless the last is to count.
pub fn read<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<T, Error> {
    serde_saphyr::from_slice_with_options(body, options(body.len(), duplicate_keys))
}

/// YAML up to where a second document begins.
pub fn first_document(body: &[u8]) -> &[u8] {
    let mut at = 0;
    let mut begun = false;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if text == b"---" || text == b"..." {
            if begun {
                return body.get(..at).unwrap_or(body);
            }
        } else {
            begun |= !text.is_empty() && !text.starts_with(b"#") && !text.starts_with(b"%");
        }
        at += line.len();
    }
    body
}

fn options(len: usize, duplicate_keys: DuplicateKeyPolicy) -> Options {
    let repeated = len.clamp(EVENTS_MIN, EVENTS_MAX);
    // No escape stands for more than twice its own length.
    let text = len.saturating_mul(2).max(TEXT_BYTES_MIN);
    serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: repeated },
        budget: serde_saphyr::budget! {
            max_recorded_anchor_events: repeated,
            max_recorded_anchor_bytes: text,
            max_total_scalar_bytes: text,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn is_read(yaml: &str) -> bool {
        read::<Value>(yaml.as_bytes(), DuplicateKeyPolicy::Error).is_ok()
    }

    #[test]
    fn aliases_multiply_nothing_beyond_the_length_of_a_body() {
        assert!(is_read("a: &a {b: [1, 2]}\nc: *a\nd: *a\n"));
        let long = |aliases: usize| {
            let aliases = "*a, ".repeat(aliases);
            format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(30_000))
        };
        assert!(is_read(&long(1)));
        assert!(!is_read(&long(5)));
        let many = |aliases: usize| {
            let aliases = "*a, ".repeat(aliases);
            format!("a: &a [{}]\nb: [{aliases}]\n", "1, ".repeat(500))
        };
        assert!(is_read(&many(10)));
        assert!(!is_read(&many(50)));
        let escapes = "\\L".repeat(100_000);
        assert!(is_read(&format!("\"{escapes}\"")));
    }
}
