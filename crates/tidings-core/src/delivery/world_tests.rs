//! The delivery between a correlator and a server that forgets events, refuses writes and loses
//! answers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::tests::{Bench, CREATE, Item, PATCH, asking, reset, status};
use super::*;
use crate::{Backoff, RetryPolicy};

/// What happens to a write.
#[derive(Clone, Copy, Debug)]
enum Way {
    Arrives,
    /// The server performs it, but the answer is lost.
    AnswerLost,
    /// The write never reaches the server.
    Lost,
    Busy,
    /// The server refuses it for its rate.
    RateLimited,
    Unauthorized,
    Refused,
}

#[derive(Clone, Debug)]
enum Step {
    Offer {
        key: u32,
        size: usize,
        /// Whether a repeat is assumed to have been written when that is unknown.
        hopeful: bool,
    },
    /// The correlator evicts a key: its next event has another object.
    Evict(u32),
    /// The server deletes a key's objects.
    Expire(u32),
    Write,
    Answer(usize, Way),
    Wait,
    Drain,
    Abandon,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let way = prop_oneof![
        6 => Just(Way::Arrives),
        2 => Just(Way::AnswerLost),
        2 => Just(Way::Lost),
        1 => Just(Way::Busy),
        1 => Just(Way::RateLimited),
        1 => Just(Way::Unauthorized),
        1 => Just(Way::Refused),
    ];
    let step = prop_oneof![
        60 => (0_u32..6, 1_usize..150, any::<bool>()).prop_map(|(key, size, hopeful)| Step::Offer { key, size, hopeful }),
        3 => (0_u32..6).prop_map(Step::Evict),
        3 => (0_u32..6).prop_map(Step::Expire),
        60 => Just(Step::Write),
        60 => (0_usize..8, way).prop_map(|(which, way)| Step::Answer(which, way)),
        20 => Just(Step::Wait),
        1 => Just(Step::Drain),
        1 => Just(Step::Abandon),
    ];
    prop::collection::vec(step, 1..200)
}

fn options() -> impl Strategy<Value = DeliveryOptions> {
    (
        1_usize..5,
        1_usize..12,
        100_usize..900,
        any::<bool>(),
        any::<bool>(),
        0_u32..4,
        1_u32..6,
        any::<bool>(),
    )
        .prop_map(
            |(workers, events, bytes, oldest, coalesce, pause_after_keys, tries_max, constant)| {
                DeliveryOptions {
                    workers,
                    pending_events_max: events,
                    pending_bytes_max: bytes,
                    overflow: if oldest {
                        Overflow::DropOldest
                    } else {
                        Overflow::DropNewest
                    },
                    coalesce,
                    pause_after_keys,
                    retry: RetryPolicy {
                        tries_max,
                        backoff: if constant {
                            Backoff::Constant(Duration::from_secs(1))
                        } else {
                            RetryPolicy::default().backoff
                        },
                        ..RetryPolicy::default()
                    },
                }
            },
        )
}

/// A correlator, a delivery and a server.
struct World {
    bench: Bench,
    /// Per key: the object of its current events, and the number of events of that object.
    counts: HashMap<u32, (u32, u32)>,
    /// Objects whose first write the correlator knows of.
    acknowledged: HashSet<(u32, u32)>,
    /// The server's objects, and the counts they show.
    stored: HashMap<(u32, u32), u32>,
    /// Objects that the server forgot, refused, or has in another form: they may not show the last
    /// count.
    excused: HashSet<(u32, u32)>,
    in_flight: Vec<Write<Item>>,
    /// The last written count of each object.
    last_written: HashMap<(u32, u32), u32>,
    fed: usize,
    offered: Vec<Item>,
}

impl World {
    fn new(options: DeliveryOptions) -> Self {
        Self {
            bench: Bench::new(options),
            counts: HashMap::new(),
            acknowledged: HashSet::new(),
            stored: HashMap::new(),
            excused: HashSet::new(),
            in_flight: Vec::new(),
            last_written: HashMap::new(),
            fed: 0,
            offered: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Offer { key, size, hopeful } => self.offer(key, size, hopeful),
            Step::Evict(key) => {
                let (object, count) = self.counts.entry(key).or_default();
                (*object, *count) = (*object + 1, 0);
            }
            Step::Expire(key) => {
                let excused = &mut self.excused;
                self.stored.retain(|object, _| {
                    let gone = object.0 == key;
                    if gone {
                        excused.insert(*object);
                    }
                    !gone
                });
            }
            Step::Write => self.write(),
            Step::Answer(which, way) => {
                if which < self.in_flight.len() {
                    self.answer(which, way);
                }
            }
            Step::Wait => {
                if let Some(until) = self.bench.delivery.poll_timeout() {
                    self.bench.now = self.bench.now.max(until);
                }
            }
            Step::Drain => self.bench.delivery.drain(),
            Step::Abandon => self.bench.delivery.abandon(),
        }
        self.feed_back();
        self.bench.check_sums();
        let held: usize = self.offered.len() - self.bench.settled.len();
        assert_eq!(held, self.bench.delivery.pending());
        let offered: usize = self.offered.iter().map(|item| item.size).sum();
        let settled: usize = self.bench.settled.iter().map(|(item, _)| item.size).sum();
        assert_eq!(offered - settled, self.bench.delivery.pending_bytes());
    }

    fn offer(&mut self, key: u32, size: usize, hopeful: bool) {
        let (object, count) = self.counts.entry(key).or_default();
        *count += 1;
        let id = (key, *object);
        let repeat = *count > 1;
        let kind = if repeat && (hopeful || self.acknowledged.contains(&id)) {
            PATCH
        } else {
            CREATE
        };
        let item = Item {
            key,
            object: *object,
            count: *count,
            kind,
            size,
            about: None,
        };
        self.offered.push(item);
        self.bench.offer(item);
    }

    fn write(&mut self) {
        let Some(write) = self.bench.write() else {
            let timeout = self.bench.delivery.poll_timeout();
            assert!(
                timeout.is_none_or(|until| until > self.bench.now),
                "nothing to write, and yet asked to look again now"
            );
            return;
        };
        let item = write.occurrence;
        assert!(
            self.in_flight
                .iter()
                .all(|other| other.occurrence.key != item.key),
            "two writes of a key at once"
        );
        let last = self
            .last_written
            .entry((item.key, item.object))
            .or_default();
        assert!(
            *last <= item.count,
            "an earlier state is written after a later one"
        );
        *last = item.count;
        self.in_flight.push(write);
    }

    fn answer(&mut self, which: usize, way: Way) {
        let write = self.in_flight.swap_remove(which);
        let id = (write.occurrence.key, write.occurrence.object);
        let result = match way {
            Way::Arrives => self.apply(&write),
            Way::AnswerLost => {
                let _ = self.apply(&write);
                Err(reset())
            }
            Way::Lost => Err(WriteError::timeout("no answer")),
            Way::Busy => Err(asking(429, 2)),
            Way::RateLimited => Err(status(429, "TooManyRequests")),
            Way::Unauthorized => Err(status(401, "Unauthorized")),
            Way::Refused => {
                self.excused.insert(id);
                Err(status(422, "Invalid"))
            }
        };
        self.bench.answer(write.id, result);
    }

    fn apply(&mut self, write: &Write<Item>) -> Result<(), WriteError> {
        let item = write.occurrence;
        let id = (item.key, item.object);
        match (write.kind, self.stored.contains_key(&id)) {
            (OccurrenceKind::Create, true) => Err(status(409, "AlreadyExists")),
            (OccurrenceKind::Patch, false) => Err(status(404, "NotFound")),
            _ => {
                self.stored.insert(id, item.count);
                Ok(())
            }
        }
    }

    /// Reports the outcomes of events to the correlator, as the shell does.
    fn feed_back(&mut self) {
        self.bench.collect();
        for (item, fate) in &self.bench.settled[self.fed..] {
            if *fate == Fate::Delivered {
                self.acknowledged.insert((item.key, item.object));
            }
        }
        self.fed = self.bench.settled.len();
    }

    /// Ends all faults of the network: every write arrives.
    fn finish(&mut self) {
        let mut steps = 0;
        while self.bench.delivery.pending() > 0 {
            steps += 1;
            assert!(steps < 10_000, "it does not come to an end");
            self.step(&Step::Write);
            if self.in_flight.is_empty() {
                self.step(&Step::Wait);
            } else {
                self.step(&Step::Answer(0, Way::Arrives));
            }
        }
    }

    fn check_fates(&self) {
        let mut settled: HashMap<Item, Fate> = HashMap::new();
        for (item, fate) in &self.bench.settled {
            assert!(
                settled.insert(*item, *fate).is_none(),
                "{item:?} is settled twice"
            );
        }
        let mut last_delivered: HashMap<(u32, u32), u32> = HashMap::new();
        let mut after: HashMap<(u32, u32), Fate> = HashMap::new();
        for item in &self.offered {
            let fate = settled[item];
            let id = (item.key, item.object);
            if fate == Fate::Delivered {
                last_delivered.insert(id, item.count);
            }
            after.insert(id, fate);
        }
        for (id, fate) in after {
            // An event that was given up after tries may or may not have arrived; a merged event
            // must be followed by another.
            assert_ne!(fate, Fate::Aggregated, "the last of {id:?} went nowhere");
            if fate == Fate::Delivered && !self.excused.contains(&id) {
                assert_eq!(
                    self.stored.get(&id),
                    last_delivered.get(&id),
                    "the server shows another count of {id:?}"
                );
            }
        }
    }
}

proptest! {
    /// For any steps: every event has one outcome, the sums agree, bounds hold, the states of an
    /// object are written in order, and the server shows every delivered event.
    #[test]
    fn every_event_is_accounted_for(options in options(), steps in steps()) {
        let mut world = World::new(options);
        for step in &steps {
            world.step(step);
        }
        world.finish();
        prop_assert_eq!(world.bench.settled.len(), world.offered.len());
        world.check_fates();
    }
}
