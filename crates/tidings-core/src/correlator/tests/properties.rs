//! Properties of the correlator for any input: different events never merge, every event is
//! counted, and bounds hold.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::{CountKey, EventContext};

/// The numbers of the events that a write settles, as a spill keeps them.
struct Places(Mutex<Vec<u64>>);

impl Places {
    fn new(number: u64) -> Self {
        Self(Mutex::new(vec![number]))
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }

    /// Takes the numbers that `write` settles.
    fn of(write: &Occurrence) -> Vec<u64> {
        let Some(context) = write.context() else {
            return Vec::new();
        };
        let context: &dyn Any = &**context;
        context.downcast_ref().map_or_else(Vec::new, Self::take)
    }
}

impl EventContext for Places {
    fn kept(&self) -> Option<Arc<dyn EventContext>> {
        Some(Arc::new(Self(Mutex::new(self.take()))))
    }

    fn absorb(&self, earlier: &dyn EventContext) {
        let earlier: &dyn Any = earlier;
        if let Some(earlier) = earlier.downcast_ref::<Self>() {
            self.0.lock().expect("no panic").append(&mut earlier.take());
        }
    }
}

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

    /// Written, lost, put back or evicted: exactly one write settles each event, or it is dropped
    /// at once.
    #[test]
    fn every_event_is_settled_once(
        steps in prop::collection::vec((said(), 0..40_i64, 0..4_u8), 1..80),
        burst in 1..4_u32,
        entries in 0..4_usize,
        places in any::<bool>(),
    ) {
        let mut bench = Bench::new(CorrelatorOptions::default().spam_burst(burst).cache_entries_max(entries));
        let (mut settled, mut second) = (Vec::new(), 0);
        let mut dropped = 0;
        let mut recorded = Vec::new();
        for (number, (said, gap, answer)) in (0..).zip(&steps) {
            second += gap;
            let now = Now::at(at(second));
            let mut event = bench.event(said, second);
            if places {
                event = event.with_context(Arc::new(Places::new(number)));
            }
            let mut writes = Vec::new();
            match bench.correlator.correlate(now, &event) {
                Correlated::Write(write) => writes.push(write),
                Correlated::HeldBack { .. } => {}
                Correlated::Filtered => {
                    dropped += 1;
                    continue;
                }
            }
            recorded.push(number);
            writes.extend(std::iter::from_fn(|| bench.correlator.poll_evicted()));
            writes.extend(bench.correlator.poll_refresh(now.monotonic));
            for write in writes {
                prop_assert!(write.held_back() <= write.events());
                let mut events = write.events();
                let is_put_back = *answer == 2 && {
                    bench.correlator.lost(&write);
                    bench.correlator.put_back(now.monotonic, &write)
                };
                if is_put_back {
                    events -= write.held_back();
                }
                settled.push((events, Places::of(&write)));
            }
        }
        let now = Monotonic::from_nanos(i64::MAX);
        for write in std::iter::from_fn(|| bench.correlator.poll_last(now)) {
            settled.push((write.events(), Places::of(&write)));
        }
        let events: u64 = settled.iter().map(|(events, _)| events).sum();
        prop_assert_eq!(events + dropped, steps.len() as u64);
        if places {
            let mut numbers: Vec<_> = settled.into_iter().flat_map(|(_, places)| places).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, recorded);
        }
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
