//! The versions that the source acknowledged, and the comparison with the kept ones.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::archived::{Coverage, Kept};

/// A version of an event that the source acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) uid: String,
    /// Its resourceVersion.
    pub(super) version: u64,
    pub(super) count: i64,
    /// The times before the request and after the acknowledgement, in milliseconds since 1970.
    pub(super) written: (i64, i64),
}

/// All versions that were written to the source.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) entries: Vec<Entry>,
    /// Events whose last change was not acknowledged: the source may have made it.
    pub(super) unsure: HashSet<String>,
    /// Names of events that may have been created.
    pub(super) unsure_names: HashSet<String>,
    pub(super) creates: u64,
    pub(super) reused: u64,
    pub(super) patches: u64,
    pub(super) deletes: u64,
}

impl Ledger {
    pub(super) fn add(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.unsure.extend(other.unsure);
        self.unsure_names.extend(other.unsure_names);
        self.creates += other.creates;
        self.reused += other.reused;
        self.patches += other.patches;
        self.deletes += other.deletes;
    }

    /// The highest `resourceVersion`.
    pub(super) fn latest(&self) -> u64 {
        let versions = self.entries.iter().map(|entry| entry.version);
        versions.max().unwrap_or_default()
    }

    /// Compares the written versions with the kept ones.
    pub(super) fn judge(&self, kept: &[Kept], coverage: &Coverage) -> Verdict {
        let mut verdict = Verdict {
            written: self.entries.len(),
            gaps: coverage.gaps.len(),
            ..Verdict::default()
        };
        let mut found = HashMap::<(&str, u64), &Kept>::with_capacity(kept.len());
        for version in kept {
            let key = (version.uid.as_str(), version.version);
            if found.insert(key, version).is_some() {
                verdict.doubled += 1;
                verdict.show("twice", version);
            }
            if !version.is_in_order {
                verdict.disordered += 1;
                verdict.show("not in order", version);
            }
        }
        let mut uids = HashSet::new();
        for entry in &self.entries {
            uids.insert(entry.uid.as_str());
            match found.remove(&(entry.uid.as_str(), entry.version)) {
                Some(version) if version.count == entry.count => verdict.once += 1,
                Some(version) => {
                    verdict.changed += 1;
                    verdict.show("not as it was written", version);
                }
                None if entry.written.0 <= coverage.since => verdict.before += 1,
                None if coverage.has_gap(entry.written) => verdict.in_gaps += 1,
                None => {
                    verdict.missing += 1;
                    verdict.show("missing", entry);
                }
            }
        }
        for ((uid, _), version) in found {
            let is_unsure = self.unsure.contains(uid)
                || !uids.contains(uid) && self.unsure_names.contains(&version.name);
            if is_unsure {
                verdict.unacknowledged += 1;
            } else {
                verdict.unknown += 1;
                verdict.show("never written", version);
            }
        }
        verdict
    }
}

/// Maximum number of errors that are described one by one.
const EXAMPLES: usize = 5;

/// The result of comparing the ledger with an archive.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) written: usize,
    pub(super) once: usize,
    pub(super) missing: usize,
    pub(super) in_gaps: usize,
    /// Versions that the archive could not see: they were replaced before it first listed the
    /// source.
    pub(super) before: usize,
    pub(super) doubled: usize,
    pub(super) disordered: usize,
    pub(super) changed: usize,
    /// Kept versions that were never written.
    pub(super) unknown: usize,
    /// Kept versions whose write was not acknowledged.
    pub(super) unacknowledged: usize,
    pub(super) gaps: usize,
    pub(super) examples: Vec<String>,
}

impl Verdict {
    fn show(&mut self, what: &str, of: &impl fmt::Debug) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{what}: {of:?}"));
        }
    }

    /// Whether no version is lost, duplicated or invented.
    pub(super) fn is_right(&self) -> bool {
        let wrong = self.missing + self.doubled + self.disordered + self.changed + self.unknown;
        self.written > 0 && wrong == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} versions written: {} kept once, {} in {} stated gaps, {} from before, {} missing, {} twice, {} out of order, {} changed, {} never written; {} more were not acknowledged and are kept",
            self.written,
            self.once,
            self.in_gaps,
            self.gaps,
            self.before,
            self.missing,
            self.doubled,
            self.disordered,
            self.changed,
            self.unknown,
            self.unacknowledged
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::archived::Gap;
    use super::*;

    fn entry(uid: &str, version: u64) -> Entry {
        Entry {
            uid: uid.into(),
            version,
            count: 1,
            written: (version.cast_signed() * 10, version.cast_signed() * 10 + 5),
        }
    }

    fn kept(uid: &str, version: u64, count: i64) -> Kept {
        Kept {
            uid: uid.into(),
            name: format!("default/{uid}"),
            version,
            count,
            is_in_order: true,
        }
    }

    #[test]
    fn what_is_lost_doubled_changed_or_made_up_is_told() {
        let ledger = Ledger {
            entries: vec![entry("a", 1), entry("a", 2), entry("b", 3), entry("c", 9)],
            unsure: HashSet::from(["b".to_owned()]),
            unsure_names: HashSet::from(["default/d".to_owned()]),
            ..Ledger::default()
        };
        let right = [
            kept("a", 2, 1),
            kept("a", 1, 1),
            kept("b", 4, 2),
            kept("b", 3, 1),
            kept("d", 7, 1),
        ];
        let (from, to, cause) = (93, 99, "absent".into());
        let gaps = vec![Gap { from, to, cause }];
        let none = Coverage::default();
        let since = Coverage {
            since: 90,
            ..Coverage::default()
        };
        let some = Coverage {
            gaps,
            ..Coverage::default()
        };
        let verdict = ledger.judge(&right, &some);
        assert!(verdict.is_right(), "{verdict}");
        assert_eq!(
            (verdict.once, verdict.in_gaps, verdict.unacknowledged),
            (3, 1, 2)
        );
        assert_eq!(ledger.judge(&right, &none).missing, 1);
        assert_eq!(ledger.judge(&right, &since).before, 1);
        let with = |more: Kept| ledger.judge(&[&right[..], &[more]].concat(), &some);
        assert_eq!(with(kept("a", 1, 1)).doubled, 1);
        assert_eq!(with(kept("a", 5, 1)).unknown, 1);
        assert_eq!(with(kept("e", 5, 1)).unknown, 1);
        let mut changed = right.clone();
        changed[0].count = 7;
        changed[1].is_in_order = false;
        let verdict = ledger.judge(&changed, &some);
        assert_eq!((verdict.changed, verdict.disordered), (1, 1));
        assert!(!Ledger::default().judge(&[], &none).is_right());
    }
}
