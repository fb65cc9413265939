//! `every`: at most one version of an event in each period, and always its first and its last.
//!
//! Periods are those of the clock, and a version belongs to the one in which it was observed. The
//! last version of an event in a period has the occurrences of those that it replaces. All that is
//! decided follows from the versions that are read together, so that it is the same after a
//! restart.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidings_store::UnixMillis;

use crate::record::{Record, RecordBody};

/// Returns the end of the last period that is over, in milliseconds since 1970.
pub(crate) fn end(now: UnixMillis, every: Duration) -> UnixMillis {
    UnixMillis(period(now, every).saturating_mul(millis(every)))
}

fn period(at: UnixMillis, every: Duration) -> i64 {
    at.0.div_euclid(millis(every))
}

fn millis(every: Duration) -> i64 {
    i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1)
}

/// Returns the records to deliver, in their order, and the number of versions that are replaced by
/// later ones.
pub(crate) fn thin(records: Vec<Record>, every: Duration) -> (Vec<Record>, u64) {
    let mut kept: Vec<Record> = Vec::with_capacity(records.len());
    let mut lasts: HashMap<(Arc<str>, i64), usize> = HashMap::new();
    let mut replaced = 0;
    for record in records.into_iter().rev() {
        let RecordBody::Version(found) = &record.body else {
            kept.push(record);
            continue;
        };
        if found.is_first() {
            kept.push(record);
            continue;
        }
        let of = period(found.version.observed_at, every);
        let key = (Arc::clone(&found.version.uid), of);
        let last = lasts.get(&key).and_then(|at| kept.get_mut(*at));
        if let Some(RecordBody::Version(last)) = last.map(|record| &mut record.body) {
            last.occurrences = last.occurrences.saturating_add(found.occurrences);
            replaced += 1;
        } else {
            lasts.insert(key, kept.len());
            kept.push(record);
        }
    }
    kept.reverse();
    (kept, replaced)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidings_history::Version;

    use super::*;
    use crate::testing::event;

    const EVERY: Duration = Duration::from_millis(10);

    fn record(uid: u8, number: u64, at: i64, count: u64, occurrences: u64) -> Record {
        let version = Version {
            uid: uid.to_string().into(),
            epoch: 0,
            number,
            observed_at: UnixMillis(at),
            event: event("web", count),
        };
        Record::version(version, occurrences).unwrap()
    }

    fn found(records: &[Record]) -> Vec<(&str, u64)> {
        let found = records.iter().map(|record| match &record.body {
            RecordBody::Version(version) => (record.id.as_str(), version.occurrences),
            _ => (record.id.as_str(), 0),
        });
        found.collect()
    }

    #[test]
    fn the_first_and_the_last_version_stay() {
        let all = vec![
            record(1, 1, 1, 1, 1),
            record(1, 2, 3, 2, 1),
            record(2, 3, 4, 9, 3),
            record(1, 4, 9, 5, 3),
            record(1, 5, 10, 6, 1),
        ];
        let (thinned, replaced) = thin(all, EVERY);
        let expected = [("1/0/1", 1), ("2/0/3", 3), ("1/0/4", 4), ("1/0/5", 1)];
        assert_eq!((&found(&thinned)[..], replaced), (&expected[..], 1));
        assert_eq!(end(UnixMillis(29), EVERY), UnixMillis(20));
    }

    proptest! {
        /// No occurrence is lost, and an event has at most one version in a period besides its
        /// first. Read in two parts that are divided at a period's end, the records are the same.
        #[test]
        fn occurrences_stay(
            steps in prop::collection::vec((0_u8..3, 0_i64..7, 1_u64..4), 0..40),
            divided in 0_i64..20,
        ) {
            let (mut at, mut counts) = (0, [0; 3]);
            let all: Vec<_> = steps.into_iter().enumerate().map(|(number, (uid, later, more))| {
                at += later;
                counts[usize::from(uid)] += more;
                record(uid, number as u64, at, counts[usize::from(uid)], more)
            }).collect();
            let (thinned, replaced) = thin(all.clone(), EVERY);
            prop_assert_eq!(thinned.len() as u64 + replaced, all.len() as u64);
            let sum: u64 = found(&thinned).iter().map(|(_, occurrences)| occurrences).sum();
            prop_assert_eq!(sum, counts.iter().sum::<u64>());
            let is_before = |record: &Record| match &record.body {
                RecordBody::Version(it) => it.version.observed_at.0 < divided * 10,
                _ => false,
            };
            let (early, late): (Vec<_>, Vec<_>) = all.into_iter().partition(is_before);
            let mut parts = thin(early, EVERY).0;
            parts.extend(thin(late, EVERY).0);
            prop_assert_eq!(found(&parts), found(&thinned));
        }
    }
}
