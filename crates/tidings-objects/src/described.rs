//! Computes what a manifest says of a file: rows, times, checksum and first and last place.

use jiff::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use crate::manifest::{self, File};
use crate::row::Row;

/// What a manifest says of some rows, summed up row by row.
#[derive(Default)]
pub(crate) struct Described {
    pub(crate) rows: u64,
    pub(crate) sum: u64,
    pub(crate) times: Option<(i64, i64)>,
    /// The earliest and the latest time at which events were last seen, in milliseconds since 1970.
    pub(crate) seen: Option<(i64, i64)>,
    pub(crate) first: [String; 3],
    pub(crate) last: [String; 3],
}

impl Described {
    pub(crate) fn add(&mut self, row: &Row) {
        let at = row.observed;
        let (from, to) = self.times.unwrap_or((at, at));
        self.times = Some((from.min(at), to.max(at)));
        let seen = row.seen();
        let (from, to) = self.seen.unwrap_or((seen, seen));
        self.seen = Some((from.min(seen), to.max(seen)));
        self.sum = self.sum.wrapping_add(row.hash());
        let place = row.place();
        if self.rows == 0 {
            self.first = manifest::not_behind(place);
        }
        if self.last.each_ref().map(String::as_str) != place {
            self.last = manifest::not_before(place);
        }
        self.rows += 1;
    }

    pub(crate) fn file(self, level: u32, bytes: &[u8]) -> File {
        let time = |micros| Timestamp::from_microsecond(micros).unwrap_or_default();
        let (from, to) = self.times.unwrap_or_default();
        let (from, to) = (time(from), time(to));
        let name = |at: Timestamp| at.strftime("%Y%m%dT%H%M%SZ").to_string();
        File {
            path: format!("events/{}-{}-{}.parquet", name(from), name(to), random_id()),
            bytes: bytes.len() as u64,
            checksum: checksum(bytes),
            rows: self.rows,
            sum: format!("{:016x}", self.sum),
            level,
            from,
            to,
            seen: self.seen.and_then(|(from, to)| {
                let time = |millis| Timestamp::from_millisecond(millis).ok();
                Some((time(from)?, time(to)?))
            }),
            first: self.first,
            last: self.last,
            rollup: None,
        }
    }
}

/// Returns the checksum of an object: XXH3, as sixteen hexadecimal digits.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// Returns a random id of sixteen hexadecimal digits.
pub(crate) fn random_id() -> String {
    format!("{:016x}", fastrand::u64(..))
}
