//! Lists of bounded length for messages; items that do not fit are counted.

use std::fmt::Display;

use tidings_core::validate::{json_len, text_within};

/// The length of a text as JSON, in bytes, without the quotes.
pub fn text_len(text: &str) -> usize {
    text.chars().map(json_len).sum()
}

/// The text that stands for `count` omitted items.
pub fn and_more(count: usize) -> String {
    format!("… and {count} more")
}

/// A list of items, as text in a bounded number of bytes of JSON. `… and N more` follows the items
/// that fit. The first item is always included, cut if necessary.
pub struct BoundedList {
    separator: &'static str,
    room: usize,
    text: String,
    items: usize,
    more: usize,
}

impl BoundedList {
    /// An empty list whose items are joined by `separator`, of at most `bytes_max` bytes.
    pub fn new(separator: &'static str, bytes_max: usize) -> Self {
        Self {
            separator,
            room: bytes_max,
            text: String::new(),
            items: 0,
            more: 0,
        }
    }

    /// Adds an item. Once an item did not fit, later ones are only counted, not even formatted.
    pub fn push(&mut self, item: impl Display) {
        if self.more > 0 {
            self.more += 1;
            return;
        }
        let separator = if self.items == 0 { "" } else { self.separator };
        let room = self.room.saturating_sub(text_len(separator));
        let item = match text_within(item, room) {
            Ok(item) => item,
            Err(cut) if self.items == 0 => cut,
            Err(_) => {
                self.more = 1;
                return;
            }
        };
        self.room = room - text_len(&item);
        self.text.push_str(separator);
        self.text.push_str(&item);
        self.items += 1;
    }

    /// Counts items that the caller omits.
    pub fn leave_out(&mut self, count: usize) {
        self.more += count;
    }

    /// Number of items, including omitted ones.
    pub fn items(&self) -> usize {
        self.items + self.more
    }

    /// The finished text, with the number of omitted items at its end.
    pub fn finish(mut self) -> String {
        if self.more > 0 {
            self.text.push_str(self.separator);
            self.text.push_str(&and_more(self.more));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        for (items, expected) in [
            (&[][..], ""),
            (&["one"], "one"),
            (&["one", "two"], "one, two"),
            (&["one", "two", "three", "x"], "one, two, … and 2 more"),
            (&["far too long for it"], "far to…"),
            (&["far too long for it", "x"], "far to…, … and 1 more"),
        ] {
            let mut list = BoundedList::new(", ", 9);
            for item in items {
                list.push(item);
            }
            assert_eq!(list.items(), items.len());
            assert_eq!(list.finish(), expected);
        }
    }
}
