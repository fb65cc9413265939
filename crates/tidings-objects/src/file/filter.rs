//! A bloom filter of a column of a row group: which values it may have.

use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;

use super::caught;
use super::thrift::{Found, judge};
use super::wire::FILTER;

/// A filter consists of blocks of this number of bytes.
const BLOCK_BYTES: usize = 32;

/// See the module documentation.
pub(crate) struct Filter(Sbbf);

impl Filter {
    /// The filter of some bytes: a header, and whole blocks, one at least. The crate for the format
    /// takes a filter without blocks, and panics when it is asked.
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

    /// Whether the column may have a value; if not, it has not.
    pub(crate) fn may_have(&self, value: &str) -> bool {
        self.0.check(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter that says that it has some bytes.
    fn filter(says: u8, has: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, says << 1];
        // Algorithm, hash and compression, of which there is one each.
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
