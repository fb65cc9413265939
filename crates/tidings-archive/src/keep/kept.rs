//! Entries of the journal that the last seal removed, for readers of the journal that had not read
//! them yet.
//!
//! Invariant: the entries from a number on are returned only if all of them are known, here or in
//! the journal. They stay known until the next seal removes entries, or the process ends. Memory:
//! at most four MiB for each cluster that is sealed, and the entries of one seal.

use std::collections::VecDeque;

use bytes::Bytes;

/// Maximum bytes of entries; beyond it the oldest are forgotten. This is enough for 20,000
/// versions, as many as a busy cluster seals at once. A version takes 130 to 230 B.
const BYTES_MAX: usize = 4 << 20;
/// Bytes of memory for an entry beside its items: its key, and its place in the queue.
const ENTRY_BYTES: usize = 96;

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u64,
    /// The versions that the entry names, as they are stored.
    pub(super) items: Bytes,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.items.len() + ENTRY_BYTES
    }
}

/// The entries that were last given to be sealed: all before a number that are still in the
/// journal.
struct Given {
    entries: Vec<Entry>,
    through: u64,
}

/// The entries that were removed from one journal.
pub(super) struct Kept {
    /// The entries, in the order of their numbers.
    entries: VecDeque<Entry>,
    bytes: usize,
    /// All entries from this number on are known, here or in the journal.
    from: u64,
    /// Entries before this number may have been removed from the journal. None from this number on
    /// was.
    taken_out: u64,
    given: Option<Given>,
    /// Whether the seal that removed these entries has ended.
    is_over: bool,
}

impl Kept {
    /// For a journal of which entries before this number may have been removed.
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

    /// The number before which entries may have been removed from the journal.
    pub(super) fn taken_out(&self) -> u64 {
        self.taken_out
    }

    /// Notes that all entries before a number that are still in the journal are about to be sealed.
    pub(super) fn give(&mut self, entries: Vec<Entry>, through: u64) {
        self.given = Some(Given { entries, through });
    }

    /// Forgets what was given to be sealed, since it is not worth keeping.
    pub(super) fn give_none(&mut self) {
        self.given = None;
    }

    /// Notes that everything before a number is sealed, and is removed from the journal from now
    /// on. A seal calls this for each of its parts, and first for everything that was sealed before
    /// it.
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
            // It is not known which entries were sealed.
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

    /// Forgets all entries, which are before this number.
    fn forget(&mut self, through: u64) {
        self.entries.clear();
        self.bytes = 0;
        self.from = through;
    }

    /// The removed entries from a number on, and the number from which the journal has the rest.
    /// `None` if not all are known.
    pub(super) fn since(&self, from: u64) -> Option<(Vec<Entry>, u64)> {
        if from < self.from {
            return None;
        }
        let first = self.entries.partition_point(|entry| entry.number < from);
        let entries = self.entries.range(first..).cloned().collect();
        Some((entries, from.max(self.taken_out)))
    }

    /// Whether a read of the journal, made in the meantime, found all entries: from the number that
    /// [`since`](Self::since) returned up to another.
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

    /// The numbers of the removed entries from one on, and the number at which the journal
    /// continues.
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
        // The next seal begins, and removes entries later.
        kept.take_out(8);
        assert_eq!(since(&kept, 5), Some((vec![5, 6, 7], 8)));
        part(&mut kept, 8..9);
        assert_eq!(since(&kept, 7), None);
        assert_eq!(since(&kept, 8), Some((vec![8], 9)));
    }

    /// A seal continues with its next part while a reader of the first part is still at work.
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

    /// For example an earlier process sealed it, or the outcome of the seal is unknown.
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
        // The entries are known when it turns out that they are sealed.
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
        // This entry alone is larger than what may be kept.
        kept.give(entries(6..7, BYTES_MAX), 7);
        kept.take_out(7);
        assert_eq!(since(&kept, 6), None);
        assert_eq!(since(&kept, 7), Some((vec![], 7)));
        assert_eq!(kept.bytes, 0);
    }
}
