//! Pauses: a server that gives no answer pauses the delivery; any answer does not.

use std::time::Duration;

use super::tests::{Bench, CREATE, create, item, reset, status};
use super::*;
use crate::RetryPolicy;

#[test]
fn a_server_that_is_down_costs_few_requests_and_no_events() {
    let mut bench = Bench::new(DeliveryOptions::default());
    for key in 0..20_000 {
        bench.offer(create(key));
    }
    let ten_minutes = Monotonic::ZERO.saturating_add(Duration::from_secs(600));
    while bench.now < ten_minutes {
        while let Some(write) = bench.write() {
            bench.answer(write.id, Err(WriteError::timeout("no answer")));
            bench.check_sums();
        }
        bench.wait();
    }
    let stats = bench.delivery.stats();
    assert_eq!((stats.pending, stats.pauses), (20_000, 1));
    assert!(bench.delivery.is_paused());
    // Writes that were already in flight, then one probe each five to ten seconds.
    assert!(
        (60..=140).contains(&stats.writes),
        "{} writes",
        stats.writes
    );

    // The first answer ends the pause, also for events that failed.
    bench.wait();
    let probe = bench.write().expect("a probe");
    assert!(bench.write().is_none(), "one probe at a time");
    assert_eq!(
        bench.delivery.poll_timeout(),
        None,
        "nothing else to wait for"
    );
    bench.answer(probe.id, Ok(()));
    while let Some(write) = bench.write() {
        bench.answer(write.id, Ok(()));
    }
    assert_eq!(bench.delivery.stats().delivered, 20_000);
}

/// A paused delivery to a server that is down; all `keys` events wait.
fn paused(keys: u32) -> Bench {
    let mut bench = Bench::new(DeliveryOptions::default());
    for key in 0..keys {
        bench.offer(create(key));
    }
    while let Some(write) = bench.write() {
        bench.answer(write.id, Err(reset()));
    }
    assert!(bench.delivery.is_paused());
    bench
}

#[test]
fn while_the_server_is_down_keys_take_turns_probing() {
    let mut bench = paused(5);
    // Events that failed before the pause first complete their own wait.
    bench.now = Monotonic::ZERO.saturating_add(Duration::from_secs(1));
    let mut probes = [0; 5];
    for _ in 0..50 {
        bench.wait();
        let probe = bench.write().expect("a probe");
        probes[probe.occurrence.key as usize] += 1;
        bench.answer(probe.id, Err(reset()));
        assert!(bench.write().is_none(), "one probe at a time");
    }
    assert_eq!(probes, [10; 5]);
}

#[test]
fn the_first_answer_ends_the_waits_of_all() {
    for answer in [
        Ok(()),
        Err(status(403, "Forbidden")),
        Err(status(500, "InternalError")),
    ] {
        let mut bench = paused(5);
        // After the last probes of a long outage, all failed events have the longest wait.
        for _ in 0..40 {
            bench.wait();
            let probe = bench.write().expect("a probe");
            bench.answer(probe.id, Err(status(503, "ServiceUnavailable")));
        }
        bench.wait();
        let probe = bench.write().expect("a probe");
        bench.answer(probe.id, answer);
        assert!(!bench.delivery.is_paused());
        for _ in 0..4 {
            let write = bench.write().expect("nobody waits any more");
            bench.answer(write.id, Ok(()));
        }
        while bench.delivery.pending() > 0 {
            bench.wait();
            let write = bench.write().expect("what was answered with 500");
            bench.answer(write.id, Ok(()));
        }
    }

    // This also holds for events whose wait began before the pause.
    let mut bench = paused(4);
    let until = bench.delivery.pause.earliest(Monotonic::ZERO).unwrap();
    let before = bench.delivery.waiting.range((until, 0)..).count();
    assert!(before > 0, "some wait longer than the pause");
    bench.now = until;
    let probe = bench.write().expect("a probe");
    bench.answer(probe.id, Ok(()));
    for _ in 0..3 {
        bench.write().expect("nobody waits any more");
    }
}

/// Each of these results is an answer: it neither begins nor prolongs a pause, however many keys
/// get it.
#[test]
fn an_event_the_server_cannot_write_holds_up_no_other() {
    for code in [401, 408, 409, 425, 500, 501, 507] {
        let failure = || Err(status(code, "Conflict"));
        let mut bench = Bench::new(DeliveryOptions::default());
        for key in 0..100 {
            bench.offer(create(key));
        }
        for _ in 0..100 {
            let write = bench.write().expect("nobody waits for another");
            assert_eq!(bench.answer(write.id, failure()), Handled::Retried);
        }
        assert_eq!(bench.delivery.stats().pauses, 0, "{code}");
        bench.offer(create(100));
        bench.expect(100, 1, CREATE);

        let mut bench = paused(5);
        bench.wait();
        let probe = bench.write().expect("a probe");
        bench.answer(probe.id, failure());
        assert!(!bench.delivery.is_paused(), "{code}");
    }
    for code in [429, 502, 503, 504] {
        let mut bench = paused(4);
        bench.wait();
        let probe = bench.write().expect("a probe");
        bench.answer(probe.id, Err(status(code, "")));
        assert!(bench.delivery.is_paused(), "{code}");
    }
}

/// EventRateLimit refuses events of some keys. They are given up after a few tries at their own
/// pace, with their own drop cause, even if other failures are retried for ever. All other events
/// are written meanwhile.
#[test]
fn a_limit_on_the_rate_of_some_events_holds_up_no_other_and_ends() {
    for give_up_out_of_reach in [true, false] {
        let mut bench = Bench::new(DeliveryOptions {
            retry: RetryPolicy {
                give_up_out_of_reach,
                ..RetryPolicy::default()
            },
            ..DeliveryOptions::default()
        });
        for key in 0..40 {
            bench.offer(create(key));
        }
        let mut writes = HashMap::new();
        let limited = |key: u32| key < 3;
        while bench.delivery.pending() > 0 {
            while let Some(write) = bench.write() {
                let key = write.occurrence.key;
                *writes.entry(limited(key)).or_insert(0) += 1;
                let refused = Err(status(429, "TooManyRequests"));
                bench.answer(write.id, if limited(key) { refused } else { Ok(()) });
                bench.check_sums();
            }
            let stats = bench.delivery.stats();
            assert_eq!((stats.delivered, stats.pauses), (37, 0), "all at once");
            if bench.delivery.pending() > 0 {
                bench.wait();
            }
        }
        assert_eq!(writes, HashMap::from([(true, 3 * 5), (false, 37)]));
        assert_eq!(bench.dropped(DropCause::RateLimited), 3);
        assert!(bench.now.as_nanos() < 4_000_000_000);
    }

    // Repeats that come faster than the limit are merged, and given up with all the events they
    // stand for, not tried for ever.
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(create(1));
    for count in 2..=6 {
        let write = bench.write().expect("a try");
        bench.answer(write.id, Err(status(429, "TooManyRequests")));
        bench.offer(item(1, count, CREATE));
        if count < 6 {
            bench.wait();
        }
    }
    assert_eq!(bench.dropped(DropCause::RateLimited), 1);
    assert_eq!(bench.delivery.stats().aggregated, 4);
    bench.check_sums();

    // A 429 is an answer, and ends a pause.
    let mut bench = paused(5);
    bench.wait();
    let probe = bench.write().expect("a probe");
    bench.answer(probe.id, Err(status(429, "TooManyRequests")));
    assert!(!bench.delivery.is_paused());
}

/// Every event is tried at its own pace and no oftener, even if the server is out of reach in
/// between.
#[test]
fn a_server_that_answers_nothing_but_500_costs_no_more_than_the_back_off_allows() {
    for out_of_reach in [false, true] {
        let mut bench = Bench::new(DeliveryOptions::default());
        for key in 0..40 {
            bench.offer(create(key));
        }
        let mut tries = HashMap::new();
        let mut not_before = HashMap::new();
        let mut writes = 0;
        while bench.delivery.pending() > 0 {
            while let Some(write) = bench.write() {
                let key = write.occurrence.key;
                let earliest = not_before.remove(&key).unwrap_or_default();
                assert!(bench.now >= earliest, "{key}, try {:?}", tries.get(&key));
                let tries = tries.entry(key).or_insert(0);
                if out_of_reach && writes % 20 >= 15 {
                    bench.answer(write.id, Err(reset()));
                } else {
                    let wait =
                        Duration::from_millis(125 << (*tries).min(6)).min(Duration::from_secs(5));
                    not_before.insert(key, bench.now.saturating_add(wait));
                    bench.answer(write.id, Err(status(500, "InternalError")));
                }
                *tries += 1;
                writes += 1;
            }
            bench.check_sums();
            if bench.delivery.pending() > 0 {
                bench.wait();
            }
        }
        assert_eq!(writes, 40 * 30);
        assert_eq!(bench.dropped(DropCause::RetriesExhausted), 40);
        let seconds = bench.now.as_nanos() / 1_000_000_000;
        assert!(seconds > 120, "{seconds} s for thirty tries of each");
    }
}

#[test]
fn draining_probes_at_once() {
    let mut bench = paused(20);
    bench.delivery.drain();
    let probe = bench.write().expect("a probe");
    assert!(bench.write().is_none());
    bench.answer(probe.id, Ok(()));
    assert_eq!(
        std::iter::from_fn(|| bench.write()).count(),
        bench.delivery.options.workers
    );
}

#[test]
fn keys_that_fail_among_others_that_do_not_pause_nothing() {
    for answer in [Ok(()), Err(status(422, "Invalid"))] {
        let mut bench = Bench::new(DeliveryOptions::default());
        for key in 0..300 {
            bench.offer(create(key));
        }
        for _ in 0..300 {
            let write = bench.write().expect("a write");
            let result = if write.occurrence.key.is_multiple_of(3) {
                answer.clone()
            } else {
                Err(reset())
            };
            bench.answer(write.id, result);
        }
        assert_eq!(bench.delivery.stats().pauses, 0);
        assert_eq!(bench.delivery.pending(), 200);
    }
}

/// After an answer, keys that failed before it count again as failing.
#[test]
fn a_second_outage_pauses_again() {
    let mut bench = paused(5);
    for outage in 2..4 {
        bench.wait();
        let probe = bench.write().expect("a probe");
        bench.answer(probe.id, Ok(()));
        bench.offer(create(probe.occurrence.key));
        assert!(!bench.delivery.is_paused());
        while let Some(write) = bench.write() {
            bench.answer(write.id, Err(reset()));
        }
        assert!(bench.delivery.is_paused());
        assert_eq!(bench.delivery.stats().pauses, outage);
    }
}

/// Only the first failure of a pause and the failures of probes make the next wait longer.
#[test]
fn the_failures_of_a_pause_are_its_first_and_its_probes() {
    let second = Duration::from_secs(1);
    let mut pause = Pause::new(1);
    assert_eq!((pause.failures(false), pause.failures(true)), (1, 1));
    assert!(pause.note_failure(Monotonic::ZERO, &mut 0, false, second));
    assert_eq!((pause.failures(false), pause.failures(true)), (1, 2));
    assert!(!pause.note_failure(Monotonic::ZERO, &mut 0, false, second));
    assert_eq!((pause.failures(false), pause.failures(true)), (1, 2));
    assert!(!pause.note_failure(Monotonic::ZERO, &mut 0, true, 2 * second));
    assert_eq!((pause.failures(false), pause.failures(true)), (2, 3));
    assert_eq!(
        pause.earliest(Monotonic::ZERO),
        Some(Monotonic::ZERO.saturating_add(2 * second))
    );
    assert!(pause.note_success());
    assert!(!pause.note_success());
    assert_eq!(pause.failures(false), 1);
}
