//! The counts of a file's rollup: versions by the hour in which they were last seen, and by reason.
//!
//! Memory: a rollup with more rows, or with more bytes of reasons, than one has is refused.

use std::collections::BTreeMap;

use bytes::Bytes;
use parquet::errors::ParquetError;
use tidings_store::{UnixMillis, hour_of};

use crate::file::bounds::{ROLLUP_ALL_ROWS_MAX, ROLLUP_TEXTS_MAX};
use crate::file::rollup::{Reader, clipped};
use crate::row::seen;

/// The counts of one rollup; see the module documentation.
#[derive(Debug)]
pub(in crate::reader) struct Rolled {
    reasons: Vec<String>,
    /// The hour, the index of the reason, and the number of versions.
    counts: Vec<(UnixMillis, u32, u64)>,
}

impl Rolled {
    /// Reads a rollup's bytes; its counts have to add up to the file's `rows`.
    pub(in crate::reader) fn of(bytes: Bytes, rows: u64) -> Result<Self, ParquetError> {
        let wrong = |why: String| ParquetError::General(why);
        let reader = Reader::new(bytes)?;
        if reader.count_of_rows() > rows.min(ROLLUP_ALL_ROWS_MAX as u64) {
            return Err(wrong("it has more rows than it can have".into()));
        }
        let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
        let mut counts: BTreeMap<(UnixMillis, u32), u64> = BTreeMap::new();
        let (mut sum, mut bytes) = (0_u64, 0);
        for group in 0..reader.groups() {
            let read = reader.hours(group)?;
            let rows = read.hours.into_iter().zip(read.reasons);
            for ((hour, reason), versions) in rows.zip(read.versions) {
                let reason = String::from_utf8_lossy(reason.data());
                let reason = clipped(&reason);
                let number = if let Some(number) = numbers.get(reason) {
                    *number
                } else {
                    let number = u32::try_from(numbers.len())?;
                    bytes += reason.len();
                    if bytes > ROLLUP_TEXTS_MAX {
                        return Err(wrong("its reasons have too many bytes".into()));
                    }
                    numbers.insert(reason.to_owned(), number);
                    number
                };
                let hour = hour_of(UnixMillis(seen(hour)));
                let count = counts.entry((hour, number)).or_default();
                *count = count.saturating_add(versions);
                sum = sum.saturating_add(versions);
            }
        }
        if sum != rows {
            return Err(wrong(format!(
                "its versions are {sum}, those of its file {rows}"
            )));
        }
        let mut reasons = vec![String::new(); numbers.len()];
        for (reason, number) in numbers {
            if let Some(at) = reasons.get_mut(number as usize) {
                *at = reason;
            }
        }
        let counts = counts.into_iter();
        let counts = counts.map(|((hour, reason), versions)| (hour, reason, versions));
        Ok(Self {
            reasons,
            counts: counts.collect(),
        })
    }

    /// Yields the hour, reason and number of each count.
    pub(in crate::reader) fn counts(&self) -> impl Iterator<Item = (UnixMillis, &str, u64)> {
        self.counts.iter().map(|(hour, reason, versions)| {
            let reason = self.reasons.get(*reason as usize);
            (*hour, reason.map_or("", String::as_str), *versions)
        })
    }

    /// Returns the bytes of memory that this takes.
    pub(in crate::reader) fn memory(&self) -> usize {
        let reasons = self.reasons.iter();
        let reasons = reasons.map(|reason| size_of::<String>() + reason.len());
        let counts = self.counts.len() * size_of::<(UnixMillis, u32, u64)>();
        size_of::<Self>() + counts + reasons.sum::<usize>()
    }
}
