//! Checks bytes of Parquet's own metadata (in Thrift's compact protocol) before the Parquet crate
//! reads them. The crate trusts the stated number of elements of a list, and that a known field is
//! of the known kind.
//!
//! Invariant: in accepted bytes, all elements of lists are present and not too many, structures are
//! nested to a bounded depth, and each field occurs once, with lower numbers first. The crate reads
//! them as this check does: refused are known fields of another kind ([`wire`](super::wire)), and
//! kinds that the crate reads or skips in another way and that no file has. Work: linear in the
//! bytes.

use parquet::errors::ParquetError;

use super::wire::{Kind, Struct};

/// Maximum depth of nested structures.
const DEPTH_MAX: usize = 16;

/// The numbers of the fields that lead to a value. An element of a list has the number of the
/// list's field.
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

/// Checks the structure at the beginning of some bytes, which has the `known` fields. Returns its
/// length. `is_allowed` is called with each list and number.
pub(super) fn judge(
    bytes: &[u8],
    known: &'static Struct,
    mut is_allowed: impl FnMut(Fields<'_>, &Found) -> bool,
) -> Result<usize, ParquetError> {
    let mut walk = Walk {
        rest: bytes,
        fields: Vec::new(),
        is_allowed: &mut is_allowed,
    };
    let walked = walk.structure(known, 0);
    walked.map_err(|Refused(why)| ParquetError::General(format!("its metadata {why}")))?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a, F> {
    rest: &'a [u8],
    fields: Vec<i16>,
    is_allowed: &'a mut F,
}

impl<F: FnMut(Fields<'_>, &Found) -> bool> Walk<'_, F> {
    fn structure(&mut self, known: &'static Struct, depth: usize) -> Result<(), Refused> {
        if depth == DEPTH_MAX {
            return Err(Refused("is nested too deep"));
        }
        let mut last = 0_i16;
        loop {
            let head = self.byte()?;
            let wire = head & 0xf;
            if wire == 0 {
                return Ok(());
            }
            // Without a difference, the field states its number itself, which may be that of an
            // earlier field.
            let step = i16::from(head >> 4);
            let field = last.checked_add(step).filter(|_| step > 0);
            last = field.ok_or(Refused("has a field that is not behind the one before it"))?;
            let kind = known.iter().find(|(number, _)| *number == last);
            self.fields.push(last);
            self.value(wire, kind.map(|(_, kind)| kind), depth)?;
            self.fields.pop();
        }
    }

    /// Checks a value of a kind in the bytes, which must be the `known` kind if there is one.
    fn value(
        &mut self,
        wire: u8,
        known: Option<&'static Kind>,
        depth: usize,
    ) -> Result<(), Refused> {
        if known.is_some_and(|kind| !kind.is(wire)) {
            return Err(Refused("has a field of another kind"));
        }
        match wire {
            // A boolean field has its value in its type.
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => {
                let number = self.number()?;
                let is_whole = match wire {
                    4 => i16::try_from(number).is_ok(),
                    5 => i32::try_from(number).is_ok(),
                    _ => true,
                };
                if !is_whole {
                    return Err(Refused("has a number of more bits than it says"));
                }
                self.allow(&Found::Number(number))
            }
            7 => self.skip(8),
            8 => {
                let len = self.varint()?;
                let len = usize::try_from(len).map_err(|_| Refused("ends too early"))?;
                self.skip(len)
            }
            9 => {
                let known = match known {
                    Some(Kind::List(kind)) => Some(*kind),
                    _ => None,
                };
                self.list(known, depth)
            }
            12 => {
                let known = match known {
                    Some(Kind::Fields(known)) => *known,
                    _ => &[],
                };
                self.structure(known, depth + 1)
            }
            _ => Err(Refused("has a value of a kind that no file has")),
        }
    }

    /// Checks a list, whose elements must be of the `known` kind if there is one.
    fn list(&mut self, known: Option<&'static Kind>, depth: usize) -> Result<(), Refused> {
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
        let wire = head & 0xf;
        for _ in 0..len {
            match wire {
                // The Parquet crate skips lists of these kinds in another way than it reads them.
                1 | 2 | 9 => return Err(Refused("has a list of a kind that no file has")),
                _ => self.value(wire, known, depth)?,
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
        // Structures within each other, and then their ends.
        let nested = |depth: usize| [vec![0x1c; depth], vec![0; depth + 1]].concat();
        for (bytes, expected) in [
            (vec![0], Some(1)),
            // The number 1 in field 1, a text in field 2, and further bytes after the end.
            (vec![0x15, 2, 0x18, 1, b'a', 0, 7, 7], Some(6)),
            // A field that states its own number, which may be that of an earlier field.
            (vec![0x05, 4, 2, 0], None),
            (vec![0x15, 2, 0x05, 2, 2, 0], None),
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
            let judged = judge(&bytes, &[], |_, found| match found {
                Found::List(len) => *len <= 200,
                Found::Number(number) => *number >= 0,
            });
            assert_eq!(judged.ok(), expected, "{bytes:02x?}");
        }
    }

    /// The Parquet crate reads a known field as its known kind, whatever kind the bytes state.
    #[test]
    fn a_field_has_the_kind_that_it_is_read_as() {
        const INNER: &Struct = &[(1, Kind::Truth)];
        const KNOWN: &Struct = &[
            (1, Kind::Int),
            (2, Kind::List(&Kind::Fields(INNER))),
            (3, Kind::Bytes),
            (4, Kind::Fields(INNER)),
        ];
        for (bytes, is_accepted) in [
            (
                vec![0x15, 2, 0x19, 0x1c, 0x11, 0, 0x18, 0, 0x1c, 0x12, 0, 0],
                true,
            ),
            // An unknown field may be of any kind.
            (vec![0x58, 1, b'a', 0], true),
            (vec![0x4c, 0x28, 1, b'a', 0, 0], true),
            // The number as a longer one, as a text and as a floating-point number.
            (vec![0x16, 2, 0], false),
            (vec![0x18, 1, b'a', 0], false),
            (vec![0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0], false),
            // The number has more bits.
            (vec![0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0], true),
            (vec![0x15, 0x80, 0x80, 0x80, 0x80, 0x10, 0], false),
            // The list as a text, and with elements of another kind.
            (vec![0x28, 1, 0x1c, 0], false),
            (vec![0x29, 0x15, 2, 0], false),
            // A truth value stored as a byte, within an element and within a structure.
            (vec![0x29, 0x1c, 0x13, 1, 0, 0], false),
            (vec![0x4c, 0x13, 1, 0, 0], false),
        ] {
            let judged = judge(&bytes, KNOWN, |_, _| true);
            assert_eq!(judged.is_ok(), is_accepted, "{bytes:02x?}");
        }
    }
}
