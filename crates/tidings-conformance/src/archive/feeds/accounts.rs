//! What a receiver has beside what the archive keeps: by key, and by occurrences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A version: its event's uid, its epoch and its resourceVersion.
pub(super) type Key = (String, u64, u64);
/// The versions of a receiver with their occurrences, as often as it has them.
pub(super) type Found = Vec<(Key, u64)>;

/// Reads a key as a receiver has it: a cluster may be before it. Records that are no versions have
/// none.
pub(super) fn key(text: &str) -> Option<Key> {
    let is_other = |kind| text.starts_with(kind) || text.contains(&format!("/{kind}"));
    if ["gap/", "skip/", "test/"].into_iter().any(is_other) {
        return None;
    }
    let mut parts = text.rsplit(['/', ':']);
    let version = parts.next()?.parse().ok()?;
    let epoch = parts.next()?.parse().ok()?;
    Some((parts.next()?.to_owned(), epoch, version))
}

/// What the archive keeps: the count of each version.
pub(super) type Kept = BTreeMap<Key, u64>;

/// How many versions a feed says it delivered, and so on, in the order of `COUNTS`.
pub(super) type Said = [u64; 6];

/// The names of these counts in a feed's status. `dead` has one for each cause.
pub(super) const COUNTS: [&str; 6] = [
    "delivered",
    "dead",
    "skipped",
    "gone",
    "replaced",
    "backlogVersions",
];
const REPLACED: usize = 4;

/// The account of a feed at its receiver.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) said: Said,
    /// Whether each version must be there, or only the last ones of each event and period.
    pub(super) is_thinned: bool,
    /// Versions that are kept and are neither at the receiver nor dead letters.
    pub(super) missing: usize,
    /// Records at the receiver beyond one for each key.
    pub(super) doubled: usize,
    /// Versions at the receiver that are not kept.
    pub(super) unknown: usize,
    /// Versions that are there twice with different occurrences.
    pub(super) contradicting: usize,
    /// Events whose occurrences do not sum up to their count.
    pub(super) wrong_sums: usize,
    pub(super) occurrences: u64,
    pub(super) kept: usize,
    pub(super) examples: Vec<String>,
}

impl Account {
    /// Compares what a receiver has with what the archive keeps. The versions of `dead` have these
    /// occurrences.
    pub(super) fn new(kept: &Kept, found: &Found, dead: &BTreeMap<Key, u64>, said: Said) -> Self {
        let mut account = Self {
            said,
            kept: kept.len(),
            is_thinned: said[REPLACED] > 0,
            ..Self::default()
        };
        let mut once = BTreeMap::new();
        for (key, occurrences) in found {
            let former = once.insert(key, *occurrences);
            account.doubled += usize::from(former.is_some());
            if former.is_some_and(|former| former != *occurrences) {
                account.contradicting += 1;
                account.show("contradicts itself", key);
            }
            if !kept.contains_key(key) {
                account.unknown += 1;
                account.show("unknown", key);
            }
        }
        account.occurrences = once.values().sum();
        // An event that the source had again in another epoch may count less than before.
        let mut events = BTreeMap::<&str, (BTreeSet<u64>, u64, &Key)>::new();
        for (key, count) in kept {
            let event = (BTreeSet::new(), 0, key);
            let event = events.entry(&key.0).or_insert(event);
            event.0.insert(key.1);
            event.1 = event.1.max(*count);
            event.2 = event.2.max(key);
            if !once.contains_key(key) && !dead.contains_key(key) {
                account.missing += 1;
                if !account.is_thinned {
                    account.show("missing", key);
                }
            }
        }
        let mut sums = BTreeMap::<&str, u64>::new();
        let of_dead = dead.iter().filter(|(key, _)| !once.contains_key(key));
        for (key, occurrences) in once.iter().map(|(key, it)| (*key, it)).chain(of_dead) {
            *sums.entry(&key.0).or_default() += occurrences;
        }
        for (uid, (epochs, count, last)) in events {
            let has_last = once.contains_key(last) || dead.contains_key(last);
            let sum = sums.get(uid).copied().unwrap_or_default();
            if !has_last || epochs.len() == 1 && sum != count {
                account.wrong_sums += 1;
                let all = once.iter().filter(|(key, _)| key.0 == uid);
                let all: Vec<_> = all.map(|(key, number)| (key.1, key.2, *number)).collect();
                account.show(&format!("{sum} occurrences of {count} in {all:?}"), last);
            }
        }
        account
    }

    fn show(&mut self, what: &str, key: &Key) {
        if self.examples.len() < 5 {
            self.examples.push(format!("{what}: {key:?}"));
        }
    }

    /// Whether nothing is missing, invented or counted wrongly. A receiver without keys may have
    /// records twice.
    pub(super) fn is_right(&self, has_keys: bool) -> bool {
        let missing = if self.is_thinned {
            self.missing as u64 != self.said[REPLACED]
        } else {
            self.missing > 0
        };
        let wrong = self.unknown + self.contradicting + self.wrong_sums;
        let is_doubled = has_keys && self.doubled > 0;
        let adds_up = self.said.iter().sum::<u64>() == self.kept as u64;
        self.kept > 0 && !missing && wrong == 0 && !is_doubled && adds_up
    }
}

impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = if self.is_thinned { 0 } else { self.missing };
        let wrong = self.wrong_sums + self.contradicting;
        write!(
            out,
            "{missing} | {} | {wrong} | {} |",
            self.doubled, self.occurrences
        )?;
        for count in self.said {
            write!(out, " {count} |")?;
        }
        write!(out, " {} |", self.said.iter().sum::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> Key {
        ("u".to_owned(), 0, number)
    }

    fn account(found: &[(u64, u64)], dead: &[u64], replaced: u64) -> Account {
        let kept = Kept::from([(version(1), 1), (version(2), 3), (version(3), 4)]);
        let found: Found = found
            .iter()
            .map(|(it, number)| (version(*it), *number))
            .collect();
        let dead: BTreeMap<_, _> = dead.iter().map(|it| (version(*it), 2)).collect();
        let (len, delivered) = (dead.len() as u64, 3 - dead.len() as u64 - replaced);
        let said = [delivered, len, 0, 0, replaced, 0];
        Account::new(&kept, &found, &dead, said)
    }

    #[test]
    fn keys_are_read_in_each_form() {
        for text in ["u/0/7", "cluster/u/0/7", "cluster:u:0:7"] {
            assert_eq!(key(text), Some(version(7)), "{text}");
        }
        for text in ["gap/shop/1/2/x", "cluster/skip/f/1/2/3", "test/5", "u/0"] {
            assert_eq!(key(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_missing_doubled_or_counted_wrongly_is_told() {
        let all = [(1, 1), (2, 2), (3, 1)];
        assert!(account(&all, &[], 0).is_right(true));
        assert!(account(&[(1, 1), (3, 1)], &[2], 0).is_right(true));
        assert!(account(&[(1, 1), (3, 3)], &[], 1).is_right(true));
        let twice = account(&[(1, 1), (1, 1), (2, 2), (3, 1)], &[], 0);
        assert_eq!(twice.doubled, 1);
        assert!(twice.is_right(false) && !twice.is_right(true));
        for wrong in [
            account(&all[..2], &[], 0),
            account(&[(1, 1), (2, 2), (2, 3), (3, 1)], &[], 0),
            account(&[(1, 1), (2, 2), (3, 1), (4, 1)], &[], 0),
            account(&[(1, 1), (3, 4)], &[], 1),
            account(&[(1, 1), (2, 2)], &[], 1),
            account(&[(1, 1), (2, 2), (3, 2)], &[], 0),
            account(&all, &[2], 1),
        ] {
            assert!(!wrong.is_right(false), "{wrong}");
        }
    }
}
