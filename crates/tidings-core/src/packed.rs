//! Several short strings in one allocation.
//!
//! So an event costs a handful of allocations, and its key fields compare as one run of bytes.
//!
//! Invariant: `ends` never decreases, its last value is `text.len()`, and every value is on a
//! character boundary of `text`. Two values are equal in their first `n` strings exactly if their
//! first `n` ends and the bytes up to the last of these are equal. The ends take part, so ("ab",
//! "c") and ("a", "bc") differ.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Maximum unused bytes of an allocation.
const SLACK_BYTES_MAX: usize = 64;

/// `N` strings, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Packed<const N: usize> {
    text: String,
    ends: [u32; N],
}

impl<const N: usize> Packed<N> {
    /// Packs `parts`.
    pub(crate) fn new(parts: [&str; N]) -> Self {
        let mut packer = Packer::with_capacity(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            packer.push(part);
        }
        packer.finish()
    }

    /// The string at `index`; empty if there is none.
    pub(crate) fn get(&self, index: usize) -> &str {
        let start = match index {
            0 => 0,
            _ => self.end(index - 1),
        };
        self.text.get(start..self.end(index)).unwrap_or_default()
    }

    /// Whether the first `count` strings of both are the same.
    pub(crate) fn prefix_eq(&self, other: &Self, count: usize) -> bool {
        self.ends.get(..count) == other.ends.get(..count)
            && self.prefix(count) == other.prefix(count)
    }

    /// Hashes the first `count` strings and their ends into `state`.
    pub(crate) fn hash_prefix(&self, count: usize, state: &mut impl Hasher) {
        state.write(self.prefix(count).as_bytes());
        self.ends.get(..count).hash(state);
    }

    /// Bytes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        self.text.capacity()
    }

    fn prefix(&self, count: usize) -> &str {
        match count {
            0 => "",
            _ => self.text.get(..self.end(count - 1)).unwrap_or_default(),
        }
    }

    fn end(&self, index: usize) -> usize {
        self.ends
            .get(index)
            .map_or(self.text.len(), |end| *end as usize)
    }
}

impl<const N: usize> fmt::Debug for Packed<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries((0..N).map(|index| self.get(index)))
            .finish()
    }
}

/// Builds a [`Packed`] value string by string.
pub(crate) struct Packer<const N: usize> {
    text: String,
    ends: [u32; N],
    next: usize,
}

impl<const N: usize> Packer<N> {
    /// A packer with room for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            text: String::with_capacity(capacity),
            ends: [0; N],
            next: 0,
        }
    }

    /// Adds the next string.
    pub(crate) fn push(&mut self, part: &str) {
        self.append(part);
        self.close();
    }

    /// Adds the next string, cut to `limit` bytes if it is longer. It is cut on a character
    /// boundary, and then ends in `marker`.
    pub(crate) fn push_cut(&mut self, part: &str, limit: usize, marker: &str) {
        if part.len() <= limit {
            return self.push(part);
        }
        let keep = floor_char_boundary(part, limit.saturating_sub(marker.len()));
        self.append(part.get(..keep).unwrap_or_default());
        self.append(marker);
        self.close();
    }

    /// Adds a value that can be displayed as the next string, cut like [`push_cut`](Self::push_cut)
    /// does.
    pub(crate) fn push_display(&mut self, part: &dyn fmt::Display, limit: usize, marker: &str) {
        use fmt::Write;
        let start = self.text.len();
        let mut writer = Cutting {
            text: &mut self.text,
            room: limit,
            cut: false,
        };
        // A Display that fails keeps what it wrote so far: an event with half a message is better
        // than none.
        let _ = write!(writer, "{part}");
        if writer.cut {
            let keep = floor_char_boundary(&self.text, start + limit.saturating_sub(marker.len()));
            self.text.truncate(keep.max(start));
            self.append(marker);
        }
        self.close();
    }

    /// The packed strings; those never pushed are empty.
    pub(crate) fn finish(mut self) -> Packed<N> {
        while self.next < N {
            self.close();
        }
        // Giving back a few bytes would cost as much as the allocation did.
        if self.text.capacity() - self.text.len() > SLACK_BYTES_MAX {
            self.text.shrink_to_fit();
        }
        Packed {
            text: self.text,
            ends: self.ends,
        }
    }

    fn append(&mut self, part: &str) {
        let room = (u32::MAX as usize).saturating_sub(self.text.len());
        self.text.push_str(
            part.get(..floor_char_boundary(part, room))
                .unwrap_or_default(),
        );
    }

    fn close(&mut self) {
        if let Some(end) = self.ends.get_mut(self.next) {
            *end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
            self.next += 1;
        }
    }
}

/// Writes until `room` bytes are used up, then remembers that something was cut.
struct Cutting<'a> {
    text: &'a mut String,
    room: usize,
    cut: bool,
}

impl fmt::Write for Cutting<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let keep = if part.len() <= self.room {
            part.len()
        } else {
            floor_char_boundary(part, self.room)
        };
        self.text.push_str(part.get(..keep).unwrap_or_default());
        self.room -= keep;
        if keep < part.len() {
            self.cut = true;
            self.room = 0;
            // This stops an endless Display.
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// The last character boundary of `text` at or before `at`. Std has this from Rust 1.91. It is
/// public only for our own crates, which all cut texts with it.
#[doc(hidden)]
pub fn floor_char_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// A value that is displayed in several parts.
    struct Parts(&'static [&'static str]);

    impl fmt::Display for Parts {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.iter().try_for_each(|part| f.write_str(part))
        }
    }

    #[test]
    fn what_is_too_long_is_cut_on_a_character_boundary() {
        // Each row: the displayed parts, the limit, and the kept text. The marker takes two bytes.
        let rows: [(&[&str], usize, &str); 10] = [
            (&["ab", "cd"], 4, "abcd"),
            (&["ab", "cd"], 3, "a.."),
            (&["ab", "cd", "ef"], 5, "abc.."),
            (&["abcd", "ef"], 4, "ab.."),
            (&["abc", "", "d"], 3, "a.."),
            (&["ab", "é"], 4, "abé"),
            (&["aé", "bc"], 4, "a.."),
            (&["é", "é"], 3, ".."),
            (&["abc"], 1, ".."),
            (&[], 0, ""),
        ];
        for (parts, limit, kept) in rows {
            // The tested string comes second: the limit must not count the first one.
            let mut packer = Packer::<3>::with_capacity(0);
            packer.push("first");
            packer.push_display(&Parts(parts), limit, "..");
            packer.push_cut(&parts.concat(), limit, "..");
            let packed = packer.finish();
            let texts = [0, 1, 2, 3].map(|index| packed.get(index));
            assert_eq!(texts, ["first", kept, kept, ""], "{parts:?} in {limit}");
        }
    }

    #[test]
    fn room_that_is_not_needed_is_given_back() {
        for (capacity, kept) in [(SLACK_BYTES_MAX + 1, true), (SLACK_BYTES_MAX + 2, false)] {
            let mut packer = Packer::<2>::with_capacity(capacity);
            packer.push("a");
            let packed = packer.finish();
            assert_eq!(packed.heap_size() >= capacity, kept, "{capacity}");
            assert_eq!((packed.get(0), packed.get(1)), ("a", ""));
        }
        // A third text for two places is ignored.
        let mut packer = Packer::<2>::with_capacity(8);
        for text in ["a", "b", "c"] {
            packer.push(text);
        }
        let packed = packer.finish();
        assert_eq!((packed.get(0), packed.get(1)), ("a", "b"));
        let mut shown = String::new();
        write!(shown, "{packed:?}").expect("text can be written");
        assert_eq!(shown, r#"["a", "b"]"#);
    }
}
