//! The bloom filter of a column in a row group: it tells which values the column may have.

use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;

use super::caught::caught;
use super::thrift::{Found, judge};
use super::wire::FILTER;

/// A filter consists of blocks of this number of bytes.
const BLOCK_BYTES: usize = 32;

/// The filter of one column in one row group.
pub(crate) struct Filter(Sbbf);

impl Filter {
    /// Reads a filter from bytes: a header, and then at least one whole block. The Parquet crate
    /// accepts a filter without blocks, and panics when it is used.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, ParquetError> {
        let mut blocks = None;
        let header = judge(bytes, FILTER, |fields, found| {
            if let ([1], Found::Number(len)) = (fields, found) {
                blocks = usize::try_from(*len).ok();
            }
            true
        })?;
        let blocks = blocks.filter(|len| *len > 0 && len % BLOCK_BYTES == 0);
        if blocks != Some(bytes.len() - header) {
            let why = "a bloom filter is not as it is written";
            return Err(ParquetError::General(why.to_owned()));
        }
        caught(|| Sbbf::from_bytes(bytes)).map(Self)
    }

    /// Returns whether the column may have a value. If not, it does not have it.
    pub(crate) fn may_have(&self, value: &str) -> bool {
        self.0.check(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a filter whose header states `says` bytes, and which has `has`.
    fn filter(says: u8, has: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, says << 1];
        // The algorithm, the hash and the compression. The format has one of each.
        for _ in 0..3 {
            bytes.extend([0x1c, 0x1c, 0, 0]);
        }
        bytes.push(0);
        bytes.resize(bytes.len() + has, 0xff);
        bytes
    }

    #[test]
    fn a_filter_has_whole_blocks() {
        assert!(Filter::of(&filter(32, 32)).unwrap().may_have("a"));
        for (says, has) in [
            (0, 0),
            (0, 32),
            (16, 16),
            (33, 33),
            (64, 32),
            (32, 64),
            (32, 31),
        ] {
            let refused = Filter::of(&filter(says, has)).map(drop);
            assert!(refused.is_err(), "{says} bytes of {has}");
        }
        assert!(Filter::of(&[]).is_err());
    }
}
