//! Deltas between versions: the few bytes in which an older message differs from a newer one.
//!
//! Both are compared field by field, as protobuf messages in the order of field numbers. So a
//! changed count and a changed time are two short hunks, however far apart they are. Bytes that are
//! not a message are compared from both ends. The result is correct for any bytes; only its length
//! depends on how similar they are. The time is proportional to the number of bytes; nested
//! messages are compared down to [`DEPTH_MAX`].

use std::cmp::Ordering;
use std::ops::Range;

use tidings_core::wire::{MAGIC, put_varint, varint};

/// Maximum depth of nested messages that are compared. A time in a managed field is at the fourth
/// level.
const DEPTH_MAX: usize = 6;
/// Maximum number of equal bytes between two hunks that are included instead of starting another
/// hunk.
const GAP_MAX: usize = 2;

/// A range of the newer bytes, and the range of the older bytes that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    newer: Range<usize>,
    older: Range<usize>,
}

/// The delta with which [`restore`] makes `older` from `newer`.
///
/// Each hunk begins with three varints, the numbers of bytes to copy, to skip and to insert. The
/// inserted bytes follow. After the last hunk the rest of the newer bytes is copied.
pub(crate) fn delta(newer: &[u8], older: &[u8]) -> Vec<u8> {
    let mut hunks = Hunks::default();
    let enveloped = newer.starts_with(MAGIC) && older.starts_with(MAGIC);
    let start = if enveloped { MAGIC.len() } else { 0 };
    let whole = Pair {
        newer,
        older,
        at: Hunk {
            newer: start..newer.len(),
            older: start..older.len(),
        },
    };
    whole.walk(DEPTH_MAX, &mut hunks);
    let mut delta = Vec::new();
    let mut reached = 0;
    for hunk in hunks.0 {
        put_varint((hunk.newer.start - reached) as u64, &mut delta);
        put_varint(hunk.newer.len() as u64, &mut delta);
        put_varint(hunk.older.len() as u64, &mut delta);
        delta.extend_from_slice(&older[hunk.older]);
        reached = hunk.newer.end;
    }
    delta
}

/// The older bytes; `None` if the delta does not belong to these newer bytes.
pub(crate) fn restore(newer: &[u8], mut delta: &[u8]) -> Option<Vec<u8>> {
    let mut older = Vec::with_capacity(newer.len());
    let mut rest = newer;
    while !delta.is_empty() {
        let [copied, left_out, put_in] = [(); 3].map(|()| take_len(&mut delta));
        let (copied, behind) = rest.split_at_checked(copied?)?;
        older.extend_from_slice(copied);
        rest = behind.get(left_out?..)?;
        let (put_in, behind) = delta.split_at_checked(put_in?)?;
        older.extend_from_slice(put_in);
        delta = behind;
    }
    older.extend_from_slice(rest);
    Some(older)
}

/// Hunks in order, which do not overlap.
#[derive(Default)]
struct Hunks(Vec<Hunk>);

impl Hunks {
    fn push(&mut self, hunk: Hunk) {
        if let Some(last) = self.0.last_mut()
            && hunk.newer.start - last.newer.end <= GAP_MAX
        {
            last.newer.end = hunk.newer.end;
            last.older.end = hunk.older.end;
            return;
        }
        self.0.push(hunk);
    }
}

/// The ranges of both byte strings that are to be compared.
#[derive(Clone)]
struct Pair<'a> {
    newer: &'a [u8],
    older: &'a [u8],
    at: Hunk,
}

impl Pair<'_> {
    fn at(&self, newer: Range<usize>, older: Range<usize>) -> Self {
        Self {
            at: Hunk { newer, older },
            ..self.clone()
        }
    }

    fn is_equal(&self) -> bool {
        self.newer[self.at.newer.clone()] == self.older[self.at.older.clone()]
    }

    /// Compares the ranges as messages if both are.
    fn walk(&self, depth: usize, hunks: &mut Hunks) {
        if self.is_equal() {
            return;
        }
        let fields = |bytes, range: &Range<usize>| fields(bytes, range.clone());
        let (newer, older) = if depth == 0 {
            (None, None)
        } else {
            (
                fields(self.newer, &self.at.newer),
                fields(self.older, &self.at.older),
            )
        };
        let (Some(newer), Some(older)) = (newer, older) else {
            return self.compare(hunks);
        };
        let (mut newer, mut older) = (newer.iter().peekable(), older.iter().peekable());
        // Where the next field begins in each.
        let (mut new_at, mut old_at) = (self.at.newer.start, self.at.older.start);
        loop {
            let order = match (newer.peek(), older.peek()) {
                (None, None) => return,
                (Some(new), Some(old)) => new.tag.cmp(&old.tag),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let new = newer.next_if(|_| order.is_le());
            let old = older.next_if(|_| order.is_ge());
            if let (Some(new), Some(old)) = (new, old) {
                // The tags are compared too, because the same tag can be written in more bytes than
                // it needs.
                let heads = self.at(new.start..new.value.start, old.start..old.value.start);
                heads.compare(hunks);
                let values = self.at(new.value.clone(), old.value.clone());
                if new.is_delimited {
                    values.walk(depth - 1, hunks);
                } else {
                    values.compare(hunks);
                }
            } else {
                // Only one of the messages has the field.
                hunks.push(Hunk {
                    newer: new.map_or(new_at..new_at, |new| new.start..new.value.end),
                    older: old.map_or(old_at..old_at, |old| old.start..old.value.end),
                });
            }
            new_at = new.map_or(new_at, |new| new.value.end);
            old_at = old.map_or(old_at, |old| old.value.end);
        }
    }

    /// Compares the ranges from both ends.
    fn compare(&self, hunks: &mut Hunks) {
        let Hunk { newer, older } = self.at.clone();
        let (new, old) = (&self.newer[newer.clone()], &self.older[older.clone()]);
        let start = common(new.iter(), old.iter());
        let (new, old) = (&new[start..], &old[start..]);
        let end = common(new.iter().rev(), old.iter().rev());
        if new.len() > end || old.len() > end {
            hunks.push(Hunk {
                newer: newer.start + start..newer.end - end,
                older: older.start + start..older.end - end,
            });
        }
    }
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

/// A field of a message.
struct Field {
    tag: u64,
    start: usize,
    /// The value, without its length if it has one.
    value: Range<usize>,
    is_delimited: bool,
}

/// The fields of a message; `None` if the bytes are not one.
fn fields(bytes: &[u8], range: Range<usize>) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut rest = bytes.get(range.clone())?;
    while !rest.is_empty() {
        let start = range.end - rest.len();
        let (tag, value) = take_field(&mut rest)?;
        let end = range.end - rest.len();
        fields.push(Field {
            tag,
            start,
            value: end - value.len()..end,
            is_delimited: tag & 7 == 2,
        });
    }
    Some(fields)
}

/// Takes a field from the beginning of a message. Returns its tag, and its value without the
/// length. `None` if the field is incomplete, or is a group.
pub(crate) fn take_field<'a>(message: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let tag = varint(message)?;
    let len = match tag & 7 {
        0 => {
            let mut behind = *message;
            varint(&mut behind)?;
            message.len() - behind.len()
        }
        1 => 8,
        2 => take_len(message)?,
        5 => 4,
        _ => return None,
    };
    let (value, behind) = message.split_at_checked(len)?;
    *message = behind;
    Some((tag, value))
}

/// Takes a varint that is a number of bytes from the beginning.
pub(crate) fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_restored(newer: Vec<u8>, older: Vec<u8>) {
            let delta = delta(&newer, &older);
            prop_assert_eq!(restore(&newer, &delta), Some(older));
        }

        #[test]
        fn changed_fields_are_restored(
            message in prop::collection::vec((1u8..16, prop::collection::vec(any::<u8>(), 0..9)), 0..9),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            removed in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let encode = |fields: &[(u8, Vec<u8>)]| {
                let mut out = Vec::new();
                for (number, value) in fields {
                    put_varint(u64::from(number << 3 | 2), &mut out);
                    put_varint(value.len() as u64, &mut out);
                    out.extend_from_slice(value);
                }
                out
            };
            let mut other = message.clone();
            if !other.is_empty() {
                for (at, byte) in &changes {
                    let at = at.index(other.len());
                    other[at].1.push(*byte);
                }
                if let Some(at) = removed {
                    other.remove(at.index(other.len()));
                }
            }
            let (message, other) = (encode(&message), encode(&other));
            prop_assert_eq!(restore(&message, &delta(&message, &other)), Some(other.clone()));
            prop_assert_eq!(restore(&other, &delta(&other, &message)), Some(message));
        }

        #[test]
        fn longer_varints_are_restored(
            newer in prop::collection::vec((0u8..3, 0usize..3, any::<u8>()), 0..9),
            older in prop::collection::vec((0u8..3, 0usize..3, any::<u8>()), 0..9),
        ) {
            let encode = |fields: &[(u8, usize, u8)]| {
                let mut out = Vec::new();
                for &(number, zeros, value) in fields {
                    // The tag of a varint field, with extra bytes that do not change its value.
                    let mut tag = vec![number << 3];
                    for _ in 0..zeros {
                        *tag.last_mut().unwrap() |= 0x80;
                        tag.push(0);
                    }
                    out.extend_from_slice(&tag);
                    out.push(value & 0x7f);
                }
                out
            };
            let (newer, older) = (encode(&newer), encode(&older));
            prop_assert_eq!(restore(&newer, &delta(&newer, &older)), Some(older));
        }

        #[test]
        fn no_delta_does_harm(newer: Vec<u8>, delta: Vec<u8>) {
            if let Some(older) = restore(&newer, &delta) {
                prop_assert!(older.len() <= newer.len() + delta.len());
            }
        }
    }
}
