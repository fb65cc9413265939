//! A limit that all events share paces them, and gives up none that can wait.

use std::time::Duration;

use super::tests::{Bench, create, status};
use super::*;
use crate::{Backoff, RetryPolicy};

fn bench(give_up_out_of_reach: bool) -> Bench {
    waiting(give_up_out_of_reach, RetryPolicy::default().backoff)
}

fn waiting(give_up_out_of_reach: bool, backoff: Backoff) -> Bench {
    Bench::new(DeliveryOptions {
        retry: RetryPolicy {
            give_up_out_of_reach,
            backoff,
            ..RetryPolicy::default()
        },
        ..DeliveryOptions::default()
    })
}

/// A server that admits `burst` events at once and then one each `gap`.
struct Bucket {
    gap: i64,
    burst: i64,
    /// When it would be full, in nanoseconds.
    full_at: i64,
}

impl Bucket {
    fn new(gap: Duration, burst: i64) -> Self {
        Self {
            gap: gap.as_nanos() as i64,
            burst,
            full_at: 0,
        }
    }

    fn answer(&mut self, now: Monotonic) -> Result<(), WriteError> {
        let full_at = self.full_at.max(now.as_nanos()) + self.gap;
        if full_at - now.as_nanos() > self.gap * self.burst {
            return Err(status(429, "TooManyRequests"));
        }
        self.full_at = full_at;
        Ok(())
    }
}

/// Writes until `end`, a millisecond each; returns how many writes there were.
fn run(bench: &mut Bench, bucket: &mut Bucket, end: Duration) -> u64 {
    let end = Monotonic::ZERO.saturating_add(end);
    while bench.delivery.pending() > 0 && bench.now < end {
        while let Some(write) = bench.write() {
            bench.now = bench.now.saturating_add(Duration::from_millis(1));
            bench.answer(write.id, bucket.answer(bench.now));
        }
        bench.check_sums();
        if bench.delivery.pending() > 0 {
            bench.wait();
        }
    }
    bench.delivery.stats().writes
}

/// Whatever its rate: a backlog that can wait arrives, with few requests for each event, and in a
/// time that is not much longer than the limit makes it.
#[test]
fn a_backlog_behind_a_shared_limit_arrives() {
    for (gap, events) in [
        (10_000, 200),
        (1000, 1000),
        (20, 5000),
        (3, 20_000),
        (2, 20_000),
    ] {
        let gap = Duration::from_millis(gap);
        let mut bench = bench(false);
        for key in 0..events {
            bench.offer(create(key));
        }
        let writes = run(&mut bench, &mut Bucket::new(gap, 10), Duration::MAX);
        assert_eq!(bench.delivery.stats().delivered, u64::from(events));
        assert!(
            writes < 10 * u64::from(events),
            "{gap:?}: {writes} writes of {events}"
        );
        let took = Duration::from_nanos(bench.now.as_nanos() as u64);
        assert!(took < gap * events * 3, "{gap:?}: {took:?}");
    }
}

/// Where events cannot wait they trickle out anyway, as far as their tries reach.
#[test]
fn a_backlog_in_memory_trickles_out() {
    let mut bench = bench(true);
    for key in 0..1000 {
        bench.offer(create(key));
    }
    let mut bucket = Bucket::new(Duration::from_secs(1), 10);
    run(&mut bench, &mut bucket, Duration::from_secs(3600));
    let stats = bench.delivery.stats();
    assert!(stats.delivered > 900, "{stats:?}");
}

/// A limit that is over is felt no more. While it lasts, requests are as far apart as the longest
/// wait of the back-off, whatever its kind.
#[test]
fn the_end_of_a_shared_limit_is_noticed() {
    let between = |least, most| Backoff::Between { least, most };
    let second = Duration::from_secs(1);
    for (backoff, expected) in [
        (RetryPolicy::default().backoff, 300..800),
        (Backoff::Constant(10 * second), 300..400),
        (between(Duration::ZERO, second), 3000..3700),
        (between(second, 10 * second), 300..400),
        // A gap remains where there is no wait at all.
        (Backoff::Constant(Duration::ZERO), 10_000..15_000),
    ] {
        let mut bench = waiting(false, backoff);
        for key in 0..1000 {
            bench.offer(create(key));
        }
        let mut closed = Bucket::new(Duration::from_secs(1_000_000), 0);
        let hour = Duration::from_secs(3600);
        let writes = run(&mut bench, &mut closed, hour);
        assert!(
            expected.contains(&writes),
            "{backoff:?}: {writes} writes in an hour"
        );
        assert_eq!(bench.settled, []);
        let mut open = Bucket::new(Duration::ZERO, 10);
        run(&mut bench, &mut open, Duration::MAX);
        let end = Monotonic::ZERO.saturating_add(hour + Duration::from_secs(60));
        assert!(bench.now < end, "{backoff:?}");
        assert_eq!(bench.delivery.stats().delivered, 1000);
    }
}

/// Objects with limits of their own among others: none of the others waits long.
#[test]
fn limits_of_some_objects_hold_up_no_other() {
    let mut bench = bench(false);
    for key in 0..2000 {
        bench.offer(create(key));
    }
    while bench.delivery.stats().delivered < 1000 {
        while let Some(write) = bench.write() {
            let limited = write.occurrence.key.is_multiple_of(2);
            let refused = Err(status(429, "TooManyRequests"));
            bench.answer(write.id, if limited { refused } else { Ok(()) });
        }
        bench.wait();
    }
    assert!(bench.now.as_nanos() < 30_000_000_000, "{:?}", bench.now);
}

/// What was never refused takes every other turn, however much was.
#[test]
fn what_was_refused_keeps_nothing_new_waiting() {
    let mut bench = bench(false);
    for key in 0..500 {
        bench.offer(create(key));
    }
    let mut closed = Bucket::new(Duration::from_secs(1_000_000), 0);
    run(&mut bench, &mut closed, Duration::from_secs(10_000));
    bench.offer(create(500));
    let mut writes = 0;
    while bench.delivery.stats().delivered == 0 {
        bench.wait();
        let write = bench.write().expect("a write after each gap");
        let limited = write.occurrence.key < 500;
        let refused = Err(status(429, "TooManyRequests"));
        bench.answer(write.id, if limited { refused } else { Ok(()) });
        writes += 1;
    }
    assert!(writes <= 2, "{writes} writes");
}

/// The gap between writes, as refusals and admissions change it.
#[test]
fn the_gap_doubles_with_refusals_and_halves_with_admissions() {
    let second = Monotonic::from_nanos(1_000_000_000);
    let at = |millis| Some(Monotonic::ZERO.saturating_add(Duration::from_millis(millis)));
    let (first, longest) = (Duration::from_secs(1), Duration::from_secs(3));
    let mut limit = Limit::new(2);
    let refuse = |limit: &mut Limit, object| limit.refused(Monotonic::ZERO, object, first, longest);
    refuse(&mut limit, 1);
    refuse(&mut limit, 1);
    assert!(!limit.is_paced(), "one object has a limit of its own");
    refuse(&mut limit, 2);
    assert!(limit.is_paced());
    assert_eq!(limit.refusals(), 3);
    // Of the two, one was refused last as the second of all.
    assert!(limit.is_shared_since(1) && !limit.is_shared_since(2));
    assert_eq!(limit.earliest(Monotonic::ZERO), at(1000));
    assert_eq!(limit.earliest(second.saturating_add(first)), at(2000));

    // One write at a time.
    assert!(!limit.allows(Monotonic::ZERO) && limit.allows(second));
    limit.note_write(7);
    assert!(!limit.allows(second));
    assert_eq!(limit.earliest(second), None);
    limit.note_answer(second, 6);
    assert_eq!(limit.earliest(second), None, "of another write");
    limit.note_answer(second, 7);
    assert_eq!(limit.earliest(second), at(2000));

    // With every other refusal, and not beyond the longest: the gap counts from the refusal that
    // made it longer, then from the answer, a second later.
    for expected in [2000, 2000, 3000, 3000, 4000, 3000] {
        refuse(&mut limit, 1);
        assert_eq!(limit.earliest(Monotonic::ZERO), at(expected));
        limit.note_write(8);
        limit.note_answer(second, 8);
    }
    limit.shorten();
    assert!(limit.allows(Monotonic::from_nanos(i64::MIN)));
    limit.admitted(Monotonic::ZERO);
    assert_eq!(limit.earliest(Monotonic::ZERO), at(1500));
    refuse(&mut limit, 1);
    limit.admitted(Monotonic::ZERO);
    refuse(&mut limit, 1);
    assert_eq!(limit.earliest(Monotonic::ZERO), at(750), "counted anew");
    while limit.is_paced() {
        limit.admitted(Monotonic::ZERO);
    }
    assert!(limit.allows(Monotonic::ZERO));
}

/// Only what is refused for its rate waits for the gap, and only while there is one.
#[test]
fn a_refusal_alone_is_waited_out() {
    let mut bench = bench(false);
    bench.offer(create(1));
    let id = bench.expect(1, 1, super::tests::CREATE);
    bench.answer(id, Err(status(429, "TooManyRequests")));
    assert!(bench.write().is_none(), "not before its time");
    assert!(bench.wait() > Duration::from_millis(100));
    bench.expect(1, 1, super::tests::CREATE);
}

/// At the end the next write goes at once.
#[test]
fn draining_does_not_wait_for_the_gap() {
    let mut bench = bench(false);
    for key in 0..100 {
        bench.offer(create(key));
    }
    while let Some(write) = bench.write() {
        bench.answer(write.id, Err(status(429, "TooManyRequests")));
    }
    assert!(bench.delivery.pending() == 100);
    bench.delivery.drain();
    assert!(bench.write().is_some());
}
