//! Checks the lengths of texts in a delta-encoded page before the Parquet crate decodes it.
//!
//! The crate trusts how many lengths there are, and that they lie within the page.

use super::thrift::varint;

/// Returns whether the bytes begin with the lengths of `count` texts that follow them
/// (`DELTA_LENGTH_BYTE_ARRAY`).
pub(super) fn are_lengths(mut bytes: &[u8], count: usize) -> bool {
    let lengths = numbers(&mut bytes, count);
    lengths.is_some_and(|lengths| total(&lengths).is_some_and(|total| total <= bytes.len()))
}

/// Returns whether the bytes hold `count` prefix-compressed texts (`DELTA_BYTE_ARRAY`). They begin
/// with how many bytes each text shares with the one before, then the lengths of the rests, then
/// the rests. The decoded texts may have `bytes_max` bytes together.
pub(super) fn are_shared(mut bytes: &[u8], count: usize, bytes_max: usize) -> bool {
    let shared = numbers(&mut bytes, count);
    let rest = numbers(&mut bytes, count);
    let (Some(shared), Some(rest)) = (shared, rest) else {
        return false;
    };
    if total(&rest).is_none_or(|total| total > bytes.len()) {
        return false;
    }
    let (mut before, mut all) = (0, 0_usize);
    for (shared, rest) in shared.into_iter().zip(rest) {
        if shared > before {
            return false;
        }
        // This cannot overflow: neither exceeds the sum of the bytes.
        before = shared + rest;
        all = all.saturating_add(before);
    }
    all <= bytes_max
}

fn total(lengths: &[usize]) -> Option<usize> {
    let mut lengths = lengths.iter();
    lengths.try_fold(0_usize, |total, length| total.checked_add(*length))
}

/// Decodes `count` non-negative numbers of 32 bits (`DELTA_BINARY_PACKED`). Moves `bytes` behind
/// them; returns `None` if they are not encoded so.
fn numbers(bytes: &mut &[u8], count: usize) -> Option<Vec<usize>> {
    let block = usize::try_from(varint(bytes)?).ok()?;
    let of_block = usize::try_from(varint(bytes)?).ok()?;
    let found = usize::try_from(varint(bytes)?).ok()?;
    let mut last = signed(varint(bytes)?);
    // Writers make blocks of 128 or 256 numbers.
    if found != count || !(1..=256).contains(&of_block) || !(128..=1 << 16).contains(&block) {
        return None;
    }
    let of_part = block / of_block;
    if block % 128 != 0 || block % of_block != 0 || of_part % 32 != 0 {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    if count > 0 {
        numbers.push(number(last)?);
    }
    while numbers.len() < count {
        let least = signed(varint(bytes)?);
        let (widths, behind) = bytes.split_at_checked(of_block)?;
        *bytes = behind;
        for width in widths {
            // Parts after the last number are not stored.
            if numbers.len() == count {
                break;
            }
            let width = usize::from(*width);
            if width > 32 {
                return None;
            }
            let (packed, behind) = bytes.split_at_checked(width * of_part / 8)?;
            *bytes = behind;
            for place in 0..of_part.min(count - numbers.len()) {
                let difference = least.wrapping_add(unpacked(packed, place * width, width));
                // The numbers have 32 bits, and their differences may have wrapped around.
                last = i64::from(last.wrapping_add(difference) as i32);
                numbers.push(number(last)?);
            }
        }
    }
    Some(numbers)
}

fn number(number: i64) -> Option<usize> {
    let number = i32::try_from(number).ok()?;
    usize::try_from(number).ok()
}

fn signed(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Reads a number of `width` bits that begins at bit `from`, lowest bit first.
fn unpacked(packed: &[u8], from: usize, width: usize) -> i64 {
    let bytes = packed.get(from / 8..).unwrap_or_default();
    let mut number = 0_u64;
    for (place, byte) in bytes.iter().take(5).enumerate() {
        number |= u64::from(*byte) << (8 * place);
    }
    (number >> (from % 8) & ((1 << width) - 1)).cast_signed()
}
