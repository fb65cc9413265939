//! Entries that were taken out of the journal, as what they name is sealed: those that the last
//! seal took, for readers that had not asked for them before.
//!
//! Invariant: from a number on they are told only if all from there on are known, here or in the
//! journal, of those that were there when they were given to be sealed. They are known until the
//! next seal takes some, or the process ends. Memory: at most four MiB for each cluster that is
//! sealed, and the entries of what is sealed at once.

use std::collections::VecDeque;

use bytes::Bytes;

/// Bytes of entries beyond which the oldest are forgotten: some 20,000 versions, as many as are
/// sealed at once on a busy cluster. A version takes 130 to 230 B.
const BYTES_MAX: usize = 4 << 20;
/// Bytes that an entry takes beside what it names: its key, and where it is.
const ENTRY_BYTES: usize = 96;

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u64,
    /// What it names, as it is stored.
    pub(super) items: Bytes,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.items.len() + ENTRY_BYTES
    }
}

/// What was given to be sealed: all entries before a number that were not taken out.
struct Given {
    entries: Vec<Entry>,
    through: u64,
}

/// See the module documentation.
pub(super) struct Kept {
    /// In the order of their numbers.
    entries: VecDeque<Entry>,
    bytes: usize,
    /// From this number on all are known, here or in the journal.
    from: u64,
    /// Entries before this one may have been taken out of the journal; none from it on was.
    taken_out: u64,
    given: Option<Given>,
    /// Whether the seal that took them has ended.
    is_over: bool,
}

impl Kept {
    /// Of a journal of which entries before a number may have been taken out.
    pub(super) fn new(taken_out: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            from: taken_out,
            taken_out,
            given: None,
            is_over: true,
        }
    }

    /// The number before which entries may have been taken out.
    pub(super) fn taken_out(&self) -> u64 {
        self.taken_out
    }

    /// All entries before a number that were not taken out are given to be sealed.
    pub(super) fn give(&mut self, entries: Vec<Entry>, through: u64) {
        self.given = Some(Given { entries, through });
    }

    /// What was given is not worth keeping.
    pub(super) fn give_none(&mut self) {
        self.given = None;
    }

    /// Everything in front of a number is sealed, and is taken out of the journal from now on. A
    /// seal says so of each of its parts, and when it begins of all that was sealed before.
    pub(super) fn take_out(&mut self, through: u64) {
        if through <= self.taken_out {
            self.is_over = true;
            return;
        }
        match self.given.take() {
            Some(given) if given.through == through => {
                if self.is_over {
                    self.forget(self.taken_out);
                }
                self.bytes += given.entries.iter().map(Entry::bytes).sum::<usize>();
                self.entries.extend(given.entries);
            }
            // It is not known which they were.
            _ => self.forget(through),
        }
        self.is_over = false;
        self.taken_out = through;
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= oldest.bytes();
            self.from = self.from.max(oldest.number.saturating_add(1));
        }
    }

    /// Forgets all. They are before a number.
    fn forget(&mut self, through: u64) {
        self.entries.clear();
        self.bytes = 0;
        self.from = through;
    }

    /// The entries from a number on that were taken out, and from which number on the journal has
    /// the others. `None` if not all are known.
    pub(super) fn since(&self, from: u64) -> Option<(Vec<Entry>, u64)> {
        if from < self.from {
            return None;
        }
        let first = self.entries.partition_point(|entry| entry.number < from);
        let entries = self.entries.range(first..).cloned().collect();
        Some((entries, from.max(self.taken_out)))
    }

    /// Whether the journal still had all entries, from the number on that [`since`](Self::since)
    /// said and before another, when it was read meanwhile.
    pub(super) fn had_all(&self, from: u64, to: u64) -> bool {
        self.taken_out <= from || to <= from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(numbers: std::ops::Range<u64>, len: usize) -> Vec<Entry> {
        let entries = numbers.map(|number| Entry {
            number,
            items: vec![b'x'; len].into(),
        });
        entries.collect()
    }

    /// The numbers of those from one on, and where the journal continues.
    fn since(kept: &Kept, from: u64) -> Option<(Vec<u64>, u64)> {
        let (entries, rest) = kept.since(from)?;
        Some((entries.iter().map(|entry| entry.number).collect(), rest))
    }

    #[test]
    fn those_of_all_parts_of_the_last_seal_are_known() {
        let mut kept = Kept::new(5);
        assert_eq!(since(&kept, 4), None);
        assert_eq!(since(&kept, 7), Some((vec![], 7)));
        let part = |kept: &mut Kept, numbers: std::ops::Range<u64>| {
            let through = numbers.end;
            kept.give(entries(numbers, 100), through);
            kept.take_out(through);
        };
        part(&mut kept, 5..7);
        part(&mut kept, 7..8);
        assert_eq!(since(&kept, 4), None);
        assert_eq!(since(&kept, 5), Some((vec![5, 6, 7], 8)));
        assert_eq!(since(&kept, 7), Some((vec![7], 8)));
        assert_eq!(since(&kept, 9), Some((vec![], 9)));
        // The next one begins, and takes some later.
        kept.take_out(8);
        assert_eq!(since(&kept, 5), Some((vec![5, 6, 7], 8)));
        part(&mut kept, 8..9);
        assert_eq!(since(&kept, 7), None);
        assert_eq!(since(&kept, 8), Some((vec![8], 9)));
    }

    /// A seal continues with its next part while who is told the first one reads it.
    #[test]
    fn what_is_taken_out_meanwhile_is_missed_only_by_who_asked_for_it() {
        let mut kept = Kept::new(5);
        kept.give(entries(5..7, 100), 7);
        kept.take_out(7);
        let (known, rest) = since(&kept, 5).unwrap();
        assert_eq!((known, rest), (vec![5, 6], 7));
        assert!(kept.had_all(rest, 7) && kept.had_all(rest, 9));
        kept.give(entries(7..8, 100), 8);
        kept.take_out(8);
        assert!(kept.had_all(rest, 7) && !kept.had_all(rest, 9));
    }

    /// What a former process sealed, or a seal whose outcome was not known.
    #[test]
    fn what_was_not_given_as_it_was_sealed_is_not_known() {
        let mut kept = Kept::new(0);
        kept.take_out(3);
        assert_eq!(since(&kept, 2), None);
        assert_eq!(since(&kept, 3), Some((vec![], 3)));
        kept.give(entries(3..6, 100), 6);
        kept.take_out(5);
        assert_eq!(since(&kept, 3), None);
        assert_eq!(since(&kept, 5), Some((vec![], 5)));
        // It is known which they were when it turns out that they are sealed.
        kept.give(entries(5..7, 100), 7);
        kept.take_out(5);
        kept.take_out(7);
        assert_eq!(since(&kept, 5), Some((vec![5, 6], 7)));
        kept.give(entries(7..8, 100), 8);
        kept.give_none();
        kept.take_out(8);
        assert_eq!(since(&kept, 7), None);
    }

    #[test]
    fn the_oldest_are_forgotten_beyond_the_bound() {
        let mut kept = Kept::new(0);
        let len = BYTES_MAX / 4 - ENTRY_BYTES;
        kept.give(entries(0..4, len), 4);
        kept.take_out(4);
        assert_eq!(since(&kept, 0), Some((vec![0, 1, 2, 3], 4)));
        kept.give(entries(4..6, len), 6);
        kept.take_out(6);
        assert_eq!(since(&kept, 1), None);
        assert_eq!(since(&kept, 2), Some((vec![2, 3, 4, 5], 6)));
        // One that is larger than all that is kept.
        kept.give(entries(6..7, BYTES_MAX), 7);
        kept.take_out(7);
        assert_eq!(since(&kept, 6), None);
        assert_eq!(since(&kept, 7), Some((vec![], 7)));
        assert_eq!(kept.bytes, 0);
    }
}
