//! Checks Parquet's own metadata (Thrift's compact protocol) before the Parquet crate reads it.
//!
//! The crate trusts how many elements a list states, and would allocate memory for them.
//!
//! Invariant: in accepted bytes every list has its elements, and not too many; structures are
//! nested at most [`DEPTH_MAX`] deep; and the crate reads the bytes exactly as this module does.
//! Kinds of values that the crate reads in one way and skips in another are refused, as no file has
//! them. Work: linear in the bytes.

use parquet::errors::ParquetError;

/// Maximum depth of nested structures.
const DEPTH_MAX: usize = 16;

/// The numbers of the fields that lead to a value; an element of a list has its list's field.
pub(super) type Fields<'a> = &'a [i16];

/// A value found on the way through a structure.
pub(super) enum Found {
    /// A list with this number of elements.
    List(usize),
    /// A whole number.
    Number(i64),
}

/// Why bytes were refused.
struct Refused(&'static str);

/// Walks through the structure at the beginning of some bytes; returns its length. It asks
/// `is_allowed` about each list and number, and refuses the bytes if one is not.
pub(super) fn judge(
    bytes: &[u8],
    mut is_allowed: impl FnMut(Fields<'_>, &Found) -> bool,
) -> Result<usize, ParquetError> {
    let mut walk = Walk {
        rest: bytes,
        fields: Vec::new(),
        is_allowed: &mut is_allowed,
    };
    let walked = walk.structure(0);
    walked.map_err(|Refused(why)| ParquetError::General(format!("its metadata {why}")))?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a, F> {
    rest: &'a [u8],
    fields: Vec<i16>,
    is_allowed: &'a mut F,
}

impl<F: FnMut(Fields<'_>, &Found) -> bool> Walk<'_, F> {
    fn structure(&mut self, depth: usize) -> Result<(), Refused> {
        if depth == DEPTH_MAX {
            return Err(Refused("is nested too deep"));
        }
        let mut last = 0_i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0xf;
            if kind == 0 {
                return Ok(());
            }
            last = match i16::from(head >> 4) {
                // The Parquet crate truncates the field's number to 16 bits as well.
                0 => i16::try_from(self.number()?).map_err(|_| Refused("has no such field"))?,
                more => last.checked_add(more).ok_or(Refused("has no such field"))?,
            };
            self.fields.push(last);
            self.value(kind, depth)?;
            self.fields.pop();
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Refused> {
        match kind {
            // A boolean field has its value in its type.
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => {
                let number = self.number()?;
                self.allow(&Found::Number(number))
            }
            7 => self.skip(8),
            8 => {
                let len = self.varint()?;
                let len = usize::try_from(len).map_err(|_| Refused("ends too early"))?;
                self.skip(len)
            }
            9 => self.list(depth),
            12 => self.structure(depth + 1),
            _ => Err(Refused("has a value of a kind that no file has")),
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), Refused> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => usize::try_from(self.varint()?).unwrap_or(usize::MAX),
            len => usize::from(len),
        };
        // Each element takes at least one byte.
        if len > self.rest.len() {
            return Err(Refused("ends too early"));
        }
        self.allow(&Found::List(len))?;
        let kind = head & 0xf;
        for _ in 0..len {
            match kind {
                // The Parquet crate skips lists of these in another way than it reads them.
                1 | 2 | 9 => return Err(Refused("has a list of a kind that no file has")),
                _ => self.value(kind, depth)?,
            }
        }
        Ok(())
    }

    fn allow(&mut self, found: &Found) -> Result<(), Refused> {
        let is_allowed = (self.is_allowed)(&self.fields, found);
        is_allowed
            .then_some(())
            .ok_or(Refused("has a number that no file has"))
    }

    /// Reads a signed number (zigzag).
    fn number(&mut self) -> Result<i64, Refused> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn varint(&mut self) -> Result<u64, Refused> {
        varint(&mut self.rest).ok_or(Refused("ends too early"))
    }

    fn byte(&mut self) -> Result<u8, Refused> {
        let (first, rest) = self.rest.split_first().ok_or(Refused("ends too early"))?;
        self.rest = rest;
        Ok(*first)
    }

    fn skip(&mut self, len: usize) -> Result<(), Refused> {
        self.rest = self.rest.get(len..).ok_or(Refused("ends too early"))?;
        Ok(())
    }
}

/// Reads a number of seven bits per byte, lowest first; `None` if it has more than 64 bits.
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_format_has_is_accepted() {
        let many = |len: usize| -> Vec<u8> {
            let mut list = vec![0x19, 0xf5, (len & 0x7f) as u8 | 0x80, (len >> 7) as u8];
            list.resize(list.len() + len, 0);
            list.push(0);
            list
        };
        // One structure within the other, and then their ends.
        let nested = |depth: usize| [vec![0x1c; depth], vec![0; depth + 1]].concat();
        for (bytes, expected) in [
            (vec![0], Some(1)),
            // The number 1 in field 1, a text in field 2, and bytes after the end.
            (vec![0x15, 2, 0x18, 1, b'a', 0, 7, 7], Some(6)),
            // A field that states its own number.
            (vec![0x05, 4, 2, 0], Some(4)),
            (many(200), Some(205)),
            (many(201), None),
            (nested(15), Some(31)),
            (nested(16), None),
            (vec![], None),
            (vec![0x15], None),
            // A text and a list that are cut off, and a list whose length overflows.
            (vec![0x18, 5, b'a', 0], None),
            (vec![0x19, 0x55, 0, 0, 0], None),
            (
                vec![
                    0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0,
                ],
                None,
            ),
            (
                vec![
                    0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0,
                ],
                None,
            ),
            // A list of booleans, a set and a map.
            (vec![0x19, 0x11, 1, 0], None),
            (vec![0x1a, 0x13, 1, 0], None),
            (vec![0x1b, 0, 0], None),
            // The number -8.
            (vec![0x15, 15, 0], None),
        ] {
            let judged = judge(&bytes, |_, found| match found {
                Found::List(len) => *len <= 200,
                Found::Number(number) => *number >= 0,
            });
            assert_eq!(judged.ok(), expected, "{bytes:02x?}");
        }
    }
}
