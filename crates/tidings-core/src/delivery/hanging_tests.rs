//! Writes that hang until their timeout do not delay new events for long.

use std::time::Duration;

use super::tests::{Bench, create, item, status};
use super::*;
use crate::RetryPolicy;

/// Keys below this number hang; others are written at once.
const HANGING: u32 = 200;
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait of the back-off.
const PAUSE: Duration = Duration::from_secs(10);

/// A delivery, and a server that leaves some writes without an answer.
struct World {
    bench: Bench,
    /// Hanging writes, and when each times out.
    hanging: VecDeque<(Monotonic, WriteId)>,
}

impl World {
    /// Starts every write that may start; returns whether an event was delivered.
    fn write(&mut self) -> bool {
        let before = self.bench.delivery.stats().delivered;
        while let Some(write) = self.bench.write() {
            if write.occurrence.key < HANGING {
                let until = self.bench.now.saturating_add(TIMEOUT);
                self.hanging.push_back((until, write.id));
            } else {
                self.bench.answer(write.id, Ok(()));
            }
        }
        self.bench.check_sums();
        self.bench.delivery.stats().delivered > before
    }

    /// When the next thing happens.
    fn next(&self) -> Option<Monotonic> {
        let timeout = self.hanging.front().map(|(until, _)| *until);
        let due = self.bench.delivery.poll_timeout();
        timeout.into_iter().chain(due).min()
    }

    /// Moves the clock to the next thing that happens.
    fn wait(&mut self) {
        let next = self.next().expect("something to wait for");
        self.bench.now = self.bench.now.max(next);
        while let Some((until, id)) = self.hanging.front().copied()
            && until <= self.bench.now
        {
            self.hanging.pop_front();
            let silence = Err(WriteError::timeout("no answer within 30 s"));
            self.bench.answer(id, silence);
        }
    }

    /// How long a new event waits until it is written.
    fn waited(&mut self, key: u32) -> Duration {
        let start = self.bench.now;
        self.bench.offer(create(key));
        while !self.write() {
            self.wait();
        }
        Duration::from_nanos(self.bench.now.nanos_since(start) as u64)
    }
}

/// A new event waits for at most one probe and one pause, however many events wait for a retry. It
/// does not wait if writing is not paused.
#[test]
fn events_that_hang_keep_no_new_one_waiting() {
    let mut world = World {
        bench: Bench::new(DeliveryOptions::default()),
        hanging: VecDeque::new(),
    };
    for key in 0..HANGING {
        world.bench.offer(create(key));
    }
    while world.bench.delivery.failed() < HANGING as usize || world.hanging.is_empty() {
        world.wait();
        world.write();
    }
    assert!(world.bench.delivery.is_paused(), "with a probe in flight");
    let waited = world.waited(1000);
    assert!(waited <= TIMEOUT + PAUSE, "{waited:?}");

    // The event was written, so all others are retried, by half of the workers.
    assert_eq!(world.bench.delivery.in_flight(), 4);
    assert_eq!(world.waited(1001), Duration::ZERO);
    for key in 1002..1100 {
        let until = world.bench.now.saturating_add(Duration::from_secs(1));
        while world.next().is_some_and(|next| next <= until) {
            world.wait();
            world.write();
        }
        world.bench.now = until;
        let waited = world.waited(key);
        assert!(waited <= TIMEOUT + PAUSE, "{key}: {waited:?}");
    }
    assert_eq!(world.bench.delivery.failed(), HANGING as usize);
}

/// No new events come any more, so no worker is reserved for them.
#[test]
fn the_last_tries_have_all_workers() {
    const KEYS: usize = 16;
    let mut bench = Bench::new(DeliveryOptions::default());
    for key in 0..KEYS as u32 {
        bench.offer(create(key));
    }
    while let Some(write) = bench.write() {
        bench.answer(write.id, Err(status(500, "InternalError")));
    }
    assert_eq!(bench.delivery.failed(), KEYS);
    bench.now = bench.now.saturating_add(Duration::from_secs(3600));
    let mut writes: VecDeque<_> = std::iter::from_fn(|| bench.write()).collect();
    assert_eq!(writes.len(), 4);
    assert!(bench.delivery.poll_timeout().is_none());
    bench.delivery.drain();
    assert!(bench.delivery.poll_timeout().is_some());
    writes.extend(std::iter::from_fn(|| bench.write()));
    assert_eq!(writes.len(), 8);
    while let Some(write) = writes.pop_front() {
        bench.answer(write.id, Ok(()));
        writes.extend(std::iter::from_fn(|| bench.write()));
    }
    assert_eq!(bench.delivery.stats().delivered, KEYS as u64);
    bench.check_sums();
}

/// If all events in memory have failed, no new event would be tried any more. Events that failed
/// while others were written are dropped then; events that failed together with all others are not.
#[test]
fn events_that_fail_alone_are_given_up_when_they_fill_the_room() {
    const ROOM: usize = 64;
    const WRITTEN: u32 = 1000;
    for others_are_written in [true, false] {
        let mut bench = Bench::new(DeliveryOptions {
            pending_events_max: ROOM,
            retry: RetryPolicy {
                give_up_out_of_reach: false,
                ..RetryPolicy::default()
            },
            ..DeliveryOptions::default()
        });
        for key in 1..ROOM as u32 {
            bench.offer(create(key));
        }
        let hour = Monotonic::ZERO.saturating_add(Duration::from_secs(3600));
        while bench.now < hour {
            if others_are_written {
                bench.offer(create(WRITTEN));
            }
            while let Some(write) = bench.write() {
                let result = if write.occurrence.key == WRITTEN {
                    Ok(())
                } else {
                    Err(status(504, "Timeout"))
                };
                bench.answer(write.id, result);
            }
            bench.check_sums();
            let dropped = bench.dropped(DropCause::RetriesExhausted);
            if dropped > 0 && bench.delivery.failed() <= ROOM / 2 {
                break;
            }
            bench.wait();
        }
        let lost = if others_are_written { ROOM / 2 - 1 } else { 0 };
        assert_eq!(
            bench.dropped(DropCause::RetriesExhausted),
            lost as u64,
            "{others_are_written}"
        );
        assert_eq!(bench.delivery.failed(), ROOM - 1 - lost);
    }
}

/// A replacement has waited as long as the event that it replaced.
#[test]
fn the_oldest_pending_event_is_the_first_that_was_offered_and_is_not_settled() {
    let mut bench = Bench::new(DeliveryOptions::default());
    assert_eq!(bench.delivery.oldest(), None);
    let second = |second: u64| Monotonic::ZERO.saturating_add(Duration::from_secs(second));
    let offers = [
        (1, item(1, 1, OccurrenceKind::Create)),
        (2, item(1, 2, OccurrenceKind::Patch)),
        (3, create(2)),
        (4, item(1, 3, OccurrenceKind::Patch)),
    ];
    for (at, item) in offers {
        bench.now = second(at);
        bench.offer(item);
    }
    assert_eq!(bench.delivery.oldest(), Some(second(1)));
    let write = bench.delivery.poll_write(bench.now).unwrap();
    assert_eq!(bench.delivery.oldest(), Some(second(1)));
    bench.delivery.handle_written(bench.now, write.id, Ok(()));
    assert_eq!(bench.delivery.oldest(), Some(second(3)));
    bench.now = second(5);
    bench.offer(create(1));
    let write = bench.delivery.poll_write(bench.now).unwrap();
    bench.delivery.handle_written(bench.now, write.id, Ok(()));
    assert_eq!(bench.delivery.oldest(), Some(second(5)));
}
