//! Writes and reads integers of variable length (LEB128), and bytes with their length.

use crate::Fault;

/// The fault for stored data that cannot be decoded.
pub(in crate::embedded) fn damaged(what: &str) -> Fault {
    Fault::Corrupt(format!("{what} cannot be read"))
}

/// Appends an integer as LEB128.
pub(in crate::embedded) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes that [`put_varint`] writes.
pub(in crate::embedded) fn varint_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends the length of some bytes, and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above write. Every error names the field.
pub(in crate::embedded) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(in crate::embedded) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// The bytes that are not read yet.
    pub(in crate::embedded) fn left(&self) -> &'a [u8] {
        self.bytes
    }

    pub(in crate::embedded) fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first().ok_or_else(|| damaged(self.what))?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged(self.what))
    }

    pub(in crate::embedded) fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = usize::try_from(self.varint()?).map_err(|_| damaged(self.what))?;
        let (bytes, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or_else(|| damaged(self.what))?;
        self.bytes = rest;
        Ok(bytes)
    }

    pub(super) fn string(&mut self) -> Result<String, Fault> {
        str::from_utf8(self.bytes()?)
            .map(str::to_owned)
            .map_err(|_| damaged(self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_are_as_long_as_told(value: u64, shift in 0..64u32) {
            let (value, mut bytes) = (value >> shift, Vec::new());
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_len(value));
        }
    }
}
