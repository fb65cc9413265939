//! Parts of a file in memory, which the Parquet crate reads as if they were the file.

use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// The fetched parts of one file; see the module documentation.
pub(crate) struct Pieces {
    /// Where each part begins, and its bytes, in order.
    pieces: Vec<(u64, Bytes)>,
    len: u64,
}

impl Pieces {
    /// Takes parts of a file of length `len`: where each begins, and its bytes.
    pub(crate) fn new(mut pieces: Vec<(u64, Bytes)>, len: u64) -> Self {
        pieces.sort_by_key(|(from, _)| *from);
        Self { pieces, len }
    }

    /// Takes a whole file as one part.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let len = bytes.len() as u64;
        Self::new(vec![(0, bytes)], len)
    }

    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let behind = self.pieces.partition_point(|(from, _)| *from <= start);
        let piece = behind.checked_sub(1).and_then(|at| self.pieces.get(at));
        let (from, bytes) = piece.ok_or_else(|| missing(start))?;
        let at = usize::try_from(start - from).unwrap_or(usize::MAX);
        if at > bytes.len() {
            return Err(missing(start));
        }
        Ok(bytes.slice(at..))
    }
}

impl Length for Pieces {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Pieces {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let found = self.from(start)?;
        if found.len() < length {
            return Err(missing(start));
        }
        Ok(found.slice(..length))
    }
}

fn missing(at: u64) -> ParquetError {
    ParquetError::General(format!("what is at {at} was not read"))
}
