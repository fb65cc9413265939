//! Recognises foreign names in a bucket when it is listed.
//!
//! A name that no archive gives is left out, and the log says so once.

use std::collections::HashSet;

use object_store::path::Path;
use parking_lot::Mutex;
use tidings_core::validate::check_dns1123_label;

/// The greatest number of a manifest: a reader's revisions have as many bits for it. With one
/// manifest per second it is reached after 8,700 years.
pub(crate) const NUMBER_MAX: u64 = (1 << 38) - 1;
/// Number of foreign names that are remembered so that each is logged once; further ones are not
/// logged.
const SAID_MAX: usize = 100;
/// Digits of a manifest's number in its name.
const DIGITS: usize = 20;
/// Digits of the random number at the end of a file's name.
const RANDOM_DIGITS: usize = 16;

/// The foreign names that were logged.
#[derive(Debug, Default)]
pub(crate) struct Foreign(Mutex<HashSet<Path>>);

impl Foreign {
    /// Logs that a name is left out, unless it was logged before.
    pub(crate) fn say(&self, path: &Path) {
        let mut said = self.0.lock();
        if said.len() < SAID_MAX && said.insert(path.clone()) {
            let name = path.as_ref();
            tracing::warn!(name, "left out: an archive has no objects of this name");
        }
    }
}

/// Returns whether a folder can be a cluster's: its name has to be a DNS label.
pub(crate) fn is_cluster(name: &str) -> bool {
    check_dns1123_label(name).is_empty()
}

/// Returns the number of a manifest, by its name. `None` for other names, and for numbers above
/// [`NUMBER_MAX`], which no archive writes.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|it| it.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number)?;
    (1..=NUMBER_MAX).contains(&number).then_some(number)
}

/// Returns whether a name can be a file's or a rollup's: two times and a random number.
pub(crate) fn is_file(name: &str) -> bool {
    let Some((times, random)) = name
        .strip_suffix(".parquet")
        .and_then(|name| name.split_at_checked(name.len().checked_sub(RANDOM_DIGITS)?))
    else {
        return false;
    };
    let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    let is_time = |it: u8| it.is_ascii_digit() || matches!(it, b'-' | b'T' | b'Z');
    random.bytes().all(is_digit) && times.ends_with("Z-") && times.bytes().all(is_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_an_archive_gives_are_taken() {
        for (name, expected) in [
            ("00000000000000000007.json", Some(7)),
            ("00000000274877906943.json", Some(NUMBER_MAX)),
            ("00000000274877906944.json", None),
            ("18446744073709551615.json", None),
            ("00000000000000000000.json", None),
            ("999.json", None),
            ("+0000000000000000007.json", None),
            ("00000000000000000007.json.bak", None),
            ("00000000000000000007", None),
            ("readme.txt", None),
        ] {
            assert_eq!(number(name), expected, "{name}");
        }
        for (name, expected) in [
            (
                "20261128T154000Z-20261128T160000Z-00112233445566ff.parquet",
                true,
            ),
            (
                "-00011231T000000Z-20261128T160000Z-00112233445566ff.parquet",
                true,
            ),
            (
                "20261128T154000Z-20261128T160000Z-00112233445566ff.parquet.bak",
                false,
            ),
            (
                "20261128T154000Z-20261128T160000Z-00112233445566FF.parquet",
                false,
            ),
            (
                "copy of 20261128T154000Z-20261128T160000Z-00112233445566ff.parquet",
                false,
            ),
            ("notes.parquet", false),
            (".parquet", false),
            ("äöü.parquet", false),
        ] {
            assert_eq!(is_file(name), expected, "{name}");
        }
        for (name, expected) in [
            ("prod", true),
            ("prod.bak", false),
            ("Prod", false),
            ("", false),
        ] {
            assert_eq!(is_cluster(name), expected, "{name}");
        }
    }
}
