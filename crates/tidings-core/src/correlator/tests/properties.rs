//! Properties of the correlator for any input: different events never merge, every event is
//! counted, and bounds hold.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::CountKey;

/// One of a few words, so that tuples are often equal, also when their words are joined.
fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "b", "ab", "ba"])
}

prop_compose! {
    fn said()(reason in word(), message in word(), field_path in word(), object in word(), annotation in word()) -> Said<'static> {
        Said { reason, message, field_path, object, annotation }
    }
}

proptest! {
    /// Without aggregation and filter, each object, part, reason and message has one stored event,
    /// whose count is the number of its events.
    #[test]
    fn distinct_events_never_merge_and_same_ones_always_do(
        client_go in any::<bool>(),
        events in prop::collection::vec(said(), 1..80),
    ) {
        let options = if client_go { CorrelatorOptions::client_go() } else { CorrelatorOptions::default() };
        let mut bench = Bench::new(options.without_aggregation().without_spam_filter());
        let mut seen: HashMap<_, (i32, String)> = HashMap::new();
        for (second, said) in (0..).zip(&events) {
            let occurrence = bench.correlate(said, second).unwrap();
            let name = occurrence.name().into_owned();
            let key = (said.object, said.field_path, said.reason, said.message);
            let (count, first_name) = seen.entry(key).or_insert((0, name.clone()));
            *count += 1;
            prop_assert_eq!((occurrence.count(), &name), (*count, &*first_name));
        }
        let mut names: Vec<_> = seen.values().map(|(_, name)| name).collect();
        names.sort();
        names.dedup();
        prop_assert_eq!(names.len(), seen.len());
    }

    /// Filtered, combined, acknowledged or lost: every event is in a count, an event that was never
    /// written is created, and the first event of a reason passes.
    #[test]
    fn every_event_is_in_a_count(
        steps in prop::collection::vec((said(), 0..700_i64, 0..3_u8), 1..60),
        burst in 1..4_u32,
        aggregate in 1..5_usize,
    ) {
        let mut bench = Bench::new(CorrelatorOptions::default().spam_burst(burst).aggregate_events(aggregate));
        let (mut second, mut reasons) = (0, HashSet::new());
        let mut counts: HashMap<CountKey, i32> = HashMap::new();
        let mut written: HashMap<CountKey, bool> = HashMap::new();
        for (said, gap, answer) in &steps {
            second += gap;
            let first_of_reason = reasons.insert((said.object, said.reason));
            let Some(occurrence) = bench.correlate(said, second) else {
                prop_assert!(!first_of_reason);
                continue;
            };
            let key = occurrence.key().clone();
            prop_assert!(counts.insert(key.clone(), occurrence.count()) < Some(occurrence.count()));
            // If the answer never comes, the write is still in flight.
            let may_be_there = written.entry(key).or_default();
            prop_assert_eq!(occurrence.kind() == OccurrenceKind::Patch, *may_be_there);
            match answer {
                0 => bench.correlator.lost(&occurrence),
                1 => { bench.correlator.acknowledged(&occurrence); *may_be_there = true; }
                _ => *may_be_there = true,
            }
        }
        let counted: i32 = counts.values().sum();
        prop_assert!(usize::try_from(counted).is_ok_and(|counted| counted <= steps.len()));
        let mut unfiltered = Bench::new(CorrelatorOptions::default().without_spam_filter().aggregate_events(aggregate));
        let (mut second, mut counts) = (0, HashMap::new());
        for (said, gap, _) in &steps {
            second += gap;
            let occurrence = unfiltered.correlate(said, second).expect("nothing is filtered");
            counts.insert(occurrence.key().clone(), occurrence.count());
        }
        prop_assert_eq!(usize::try_from(counts.values().sum::<i32>()), Ok(steps.len()));
    }

    #[test]
    fn bounds_hold_after_every_event(
        events in prop::collection::vec((said(), "[a-z]{0,300}"), 1..60),
        entries in 0..6_usize,
        bytes in prop_oneof![Just(0_usize), 500..5_000_usize],
        client_go in any::<bool>(),
    ) {
        let options = if client_go { CorrelatorOptions::client_go() } else { CorrelatorOptions::default() };
        let mut bench = Bench::new(options.cache_entries_max(entries).cache_bytes_max(bytes).aggregate_events(4));
        for (second, (said, message)) in (0..).zip(&events) {
            bench.write(&Said { message, ..*said }, second);
            let stats = bench.correlator.stats();
            for cache in [stats.aggregate, stats.count, stats.spam] {
                prop_assert!(cache.entries <= entries && cache.bytes <= bytes, "{:?}", cache);
                prop_assert_eq!(cache.entries == 0, cache.bytes == 0);
            }
        }
    }
}
