//! Shared limits on the rate of events, tested with a model of EventRateLimit. A backlog is paced,
//! few writes are refused, and no event is given up while some are admitted.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::tests::{Bench, CREATE, Item, about, create, item, status};
use super::*;
use crate::{Backoff, RetryPolicy};

const SECOND: Duration = Duration::from_secs(1);

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

/// A token bucket that admits `burst` events at once and then one each `gap`.
#[derive(Clone, Debug)]
struct Bucket {
    gap: i64,
    burst: i64,
    /// When the bucket would be full, in nanoseconds.
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

/// EventRateLimit with one limit, which chooses the bucket by a number made of the key.
struct Server {
    budget: fn(u32) -> Option<u32>,
    full: Bucket,
    buckets: HashMap<u32, Bucket>,
    /// The duration of a write.
    latency: Duration,
    admitted: u64,
    refused: u64,
    in_flight: VecDeque<(Monotonic, Write<Item>)>,
    /// When each event was admitted, by key.
    at: HashMap<u32, Monotonic>,
}

impl Server {
    fn new(bucket: Bucket, budget: fn(u32) -> Option<u32>) -> Self {
        Self {
            budget,
            full: bucket,
            buckets: HashMap::new(),
            latency: Duration::from_millis(5),
            admitted: 0,
            refused: 0,
            in_flight: VecDeque::new(),
            at: HashMap::new(),
        }
    }

    fn answer(&mut self, now: Monotonic, key: u32) -> Result<(), WriteError> {
        let answer = (self.budget)(key).map_or(Ok(()), |budget| {
            let bucket = self.buckets.entry(budget);
            bucket.or_insert_with(|| self.full.clone()).answer(now)
        });
        if answer.is_ok() {
            self.admitted += 1;
            self.at.insert(key, now);
        } else {
            self.refused += 1;
        }
        answer
    }

    /// Answers all writes until `end`, each after the latency, with as many in flight as the
    /// delivery allows.
    fn run(&mut self, bench: &mut Bench, end: Monotonic) {
        while bench.delivery.pending() > 0 && bench.now < end {
            while let Some(write) = bench.write() {
                let at = bench.now.saturating_add(self.latency);
                self.in_flight.push_back((at, write));
            }
            let due = self.in_flight.front().map(|(at, _)| *at);
            let timer = bench.delivery.poll_timeout();
            if let Some(at) = due
                && timer.is_none_or(|timer| at <= timer)
            {
                bench.now = bench.now.max(at);
                let (_, write) = self.in_flight.pop_front().unwrap();
                let answer = self.answer(bench.now, write.occurrence.key);
                bench.answer(write.id, answer);
            } else {
                bench.wait();
            }
        }
        bench.check_sums();
    }

    /// Refusals for each admitted event.
    fn ratio(&self) -> f64 {
        self.refused as f64 / self.admitted as f64
    }
}

fn after(duration: Duration) -> Monotonic {
    Monotonic::ZERO.saturating_add(duration)
}

/// All events share one bucket.
const ALL: fn(u32) -> Option<u32> = |_| Some(0);

/// A bucket that admits nothing.
fn closed() -> Bucket {
    Bucket::new(1_000_000 * SECOND, 0)
}

/// A backlog arrives completely, whatever the limit's rate and wherever events wait. Few writes are
/// refused, and it takes little longer than the limit requires.
#[test]
fn a_backlog_behind_a_shared_limit_arrives() {
    for give_up_out_of_reach in [true, false] {
        for (gap, burst, events) in [
            (1000, 1, 500),
            (1000, 10, 1000),
            (200, 20, 300),
            (200, 20, 3000),
            (20, 50, 5000),
            (2, 50, 20_000),
            (1, 100, 20_000),
        ] {
            let gap = Duration::from_millis(gap);
            let mut bench = bench(give_up_out_of_reach);
            for key in 0..events {
                bench.offer(create(key));
            }
            let mut server = Server::new(Bucket::new(gap, burst), ALL);
            server.run(&mut bench, after(24 * 3600 * SECOND));
            assert_eq!(bench.delivery.stats().delivered, u64::from(events));
            let ratio = server.ratio();
            assert!(ratio < 1.0, "{gap:?}: {ratio} refusals for each event");
            let took = Duration::from_nanos(bench.now.as_nanos() as u64);
            assert!(
                took < gap * events * 7 / 4 + 10 * SECOND,
                "{gap:?}: {took:?}"
            );
        }
    }
}

/// Many clients share a limit, which leaves little for this one: its backlog arrives slowly.
#[test]
fn a_backlog_that_is_seldom_admitted_is_not_given_up() {
    let mut bench = bench(true);
    for key in 0..30 {
        bench.offer(create(key));
    }
    let mut server = Server::new(Bucket::new(100 * SECOND, 1), ALL);
    server.run(&mut bench, after(6 * 3600 * SECOND));
    let stats = bench.delivery.stats();
    assert_eq!(stats.delivered, 30, "{stats:?}");
}

/// Events are given up by time: four minutes after the last admission. Events on disk wait longer.
#[test]
fn a_limit_that_admits_nothing_costs_what_was_refused_for_minutes() {
    for give_up_out_of_reach in [true, false] {
        let mut bench = bench(give_up_out_of_reach);
        for key in 0..300 {
            bench.offer(create(key));
        }
        let mut server = Server::new(closed(), ALL);
        server.run(&mut bench, after(239 * SECOND));
        assert_eq!(bench.settled, [], "not before");
        server.run(&mut bench, after(2 * 3600 * SECOND));
        let dropped = bench.dropped(DropCause::RateLimited);
        assert_eq!(dropped > 0, give_up_out_of_reach);
        assert_eq!(bench.delivery.stats().dropped.total(), dropped);
    }
}

/// The end of a limit is noticed. While it lasts, requests are as far apart as the longest wait of
/// the back-off, for each kind of back-off.
#[test]
fn the_end_of_a_shared_limit_is_noticed() {
    let between = |least, most| Backoff::Between { least, most };
    for (backoff, expected) in [
        (RetryPolicy::default().backoff, 300..800),
        (Backoff::Constant(10 * SECOND), 300..400),
        (between(Duration::ZERO, SECOND), 3000..3700),
        (between(SECOND, 10 * SECOND), 300..400),
        // A gap between requests remains even if the back-off does not wait.
        (Backoff::Constant(Duration::ZERO), 10_000..15_000),
    ] {
        let mut bench = waiting(false, backoff);
        for key in 0..1000 {
            bench.offer(create(key));
        }
        let hour = 3600 * SECOND;
        let mut server = Server::new(closed(), ALL);
        server.run(&mut bench, after(hour));
        let writes = bench.delivery.stats().writes;
        assert!(
            expected.contains(&writes),
            "{backoff:?}: {writes} writes in an hour"
        );
        assert_eq!(bench.settled, []);
        let mut server = Server::new(closed(), |_| None);
        server.run(&mut bench, after(2 * hour));
        let took = bench.now.nanos_since(after(hour)) / 1_000_000_000;
        let most = match backoff {
            Backoff::Constant(_) | Backoff::Between { .. } => 600,
            Backoff::Exponential { .. } => 60,
        };
        assert!(took < most, "{backoff:?}: {took} s");
        assert_eq!(bench.delivery.stats().delivered, 1000);
    }
}

/// A limit of one namespace paces its events, and does not delay other namespaces.
#[test]
fn a_limit_of_one_namespace_delays_no_other() {
    for gap in [100, 1000] {
        let mut bench = bench(true);
        for key in 0..1200 {
            bench.offer(create(key));
        }
        let budget = |key: u32| key.is_multiple_of(4).then_some(0);
        let bucket = Bucket::new(Duration::from_millis(gap), 20);
        let mut server = Server::new(bucket, budget);
        server.run(&mut bench, after(24 * 3600 * SECOND));
        assert_eq!(bench.delivery.stats().delivered, 1200);
        let others = server.at.iter().filter(|(key, _)| *key % 4 > 0);
        let last = others.map(|(_, at)| *at).max().unwrap();
        assert!(last < after(10 * SECOND), "{gap}: the last after {last:?}");
        let limited = server.refused as f64 / 300.;
        assert!(
            limited < 1.,
            "{gap}: {limited} refusals for each limited event"
        );
    }
}

/// Several namespaces, each with its own limit, at the same time.
#[test]
fn namespaces_with_limits_of_their_own_are_paced_side_by_side() {
    let mut bench = bench(true);
    for key in 0..2000 {
        bench.offer(create(key));
    }
    let budget = |key: u32| (key % 4 != 3).then_some(key % 4);
    let mut server = Server::new(Bucket::new(Duration::from_millis(100), 20), budget);
    server.run(&mut bench, after(24 * 3600 * SECOND));
    assert_eq!(bench.delivery.stats().delivered, 2000);
    assert!(server.ratio() < 1., "{}", server.ratio());
    // 500 events in each namespace, admitted at ten a second.
    assert!(bench.now < after(75 * SECOND), "{:?}", bench.now);
    let others = server.at.iter().filter(|(key, _)| *key % 4 == 3);
    let last = others.map(|(_, at)| *at).max().unwrap();
    assert!(last < after(20 * SECOND), "the last after {last:?}");
}

/// Objects with limits of their own are no shared limit, in whatever order their events come:
/// other events are not delayed, and the limited ones are given up after a few tries each.
#[test]
fn objects_with_limits_of_their_own_delay_no_other() {
    // Six objects, over all namespaces, have one event in five.
    let budget = |key: u32| key.is_multiple_of(5).then_some(key % 30);
    for seed in 0..4 {
        let mut bench = bench(true);
        let mut keys: Vec<u32> = (0..3000).collect();
        if seed > 0 {
            fastrand::Rng::with_seed(seed).shuffle(&mut keys);
        }
        for key in keys {
            bench.offer(about(key, budget(key)));
        }
        let mut server = Server::new(Bucket::new(SECOND, 5), budget);
        server.run(&mut bench, after(24 * 3600 * SECOND));
        let others = server.at.iter().filter(|(key, _)| *key % 5 > 0);
        assert_eq!(others.clone().count(), 2400);
        let last = others.map(|(_, at)| *at).max().unwrap();
        assert!(last < after(10 * SECOND), "{seed}: the last after {last:?}");
        let stats = bench.delivery.stats();
        assert_eq!(
            stats.dropped.total(),
            stats.dropped.get(DropCause::RateLimited)
        );
        assert!(bench.now < after(600 * SECOND), "{seed}: {:?}", bench.now);
    }
}

/// A shared limit is recognised although its events concern few objects.
#[test]
fn a_shared_limit_of_few_objects_is_paced() {
    for objects in [4, 10, 50] {
        for gap in [1000, 200, 20] {
            let mut bench = bench(true);
            for key in 0..600 {
                bench.offer(about(key, Some(key % objects)));
            }
            let gap = Duration::from_millis(gap);
            let mut server = Server::new(Bucket::new(gap, 20), ALL);
            server.run(&mut bench, after(24 * 3600 * SECOND));
            let stats = bench.delivery.stats();
            assert_eq!(
                stats.delivered, 600,
                "{objects} objects, {gap:?}: {stats:?}"
            );
            let ratio = server.ratio();
            assert!(ratio < 1.5, "{objects} objects, {gap:?}: {ratio}");
        }
    }
}

/// New events take every other turn, however many refused events wait.
#[test]
fn what_was_refused_keeps_nothing_new_waiting() {
    let mut bench = bench(false);
    for key in 0..500 {
        bench.offer(create(key));
    }
    let mut server = Server::new(closed(), ALL);
    server.run(&mut bench, after(10_000 * SECOND));
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
    assert!(writes <= 20, "{writes} writes");
}

/// A limit of one object is not paced: its events are tried a few times.
#[test]
fn a_refusal_alone_is_waited_out() {
    let mut bench = bench(false);
    bench.offer(create(1));
    let id = bench.expect(1, 1, CREATE);
    bench.answer(id, Err(status(429, "TooManyRequests")));
    assert!(bench.write().is_none(), "not before its time");
    assert!(bench.wait() > Duration::from_millis(100));
    bench.expect(1, 1, CREATE);
}

/// At the end the next write is made at once.
#[test]
fn draining_does_not_wait_for_the_gap() {
    for keys in [1, 4] {
        let mut bench = bench(false);
        for key in 0..100 {
            bench.offer(create(key * keys));
        }
        while let Some(write) = bench.write() {
            bench.answer(write.id, Err(status(429, "TooManyRequests")));
        }
        assert!(bench.delivery.pending() == 100);
        bench.delivery.drain();
        assert!(bench.write().is_some());
    }
}

/// Lanes that wait for their namespace are dropped, merged and abandoned like other lanes.
#[test]
fn lanes_of_a_paced_namespace_are_lanes_like_others() {
    let mut bench = Bench::new(DeliveryOptions {
        pending_events_max: 10,
        overflow: Overflow::DropOldest,
        ..DeliveryOptions::default()
    });
    for key in 0..8 {
        bench.offer(create(4 * key));
    }
    let writes: Vec<_> = std::iter::from_fn(|| bench.write()).collect();
    for write in writes {
        bench.answer(write.id, Err(status(429, "TooManyRequests")));
    }
    // The first event is refused before the limit is known, and waits separately.
    bench.offer(create(100));
    bench.offer(create(104));
    assert!(bench.write().is_none());
    bench.offer(item(104, 2, CREATE));
    assert_eq!(bench.delivery.stats().aggregated, 1);
    for key in 200..212 {
        bench.offer(create(4 * key));
        bench.check_sums();
    }
    assert_eq!(bench.dropped(DropCause::QueueFull), 12);
    bench.delivery.abandon();
    bench.collect();
    assert_eq!(bench.delivery.stats().pending, 10);
    bench.check_sums();
}

/// How refusals and admissions change the interval between writes.
#[test]
fn the_interval_grows_with_refusals_and_shrinks_with_admissions() {
    let at = |millis| after(Duration::from_millis(millis));
    let (first, longest) = (SECOND, 3 * SECOND);
    let mut limits = Limits::new(2);
    let refuse = |limits: &mut Limits, number, object| {
        limits.refused(
            Monotonic::ZERO,
            number,
            (object, object % 2),
            (first, longest),
        );
    };
    refuse(&mut limits, 1, 1);
    refuse(&mut limits, 2, 1);
    assert!(limits.all().is_none(), "one object has a limit of its own");
    refuse(&mut limits, 3, 2);
    assert!(limits.all().is_some() && !limits.has_namespaces());
    assert_eq!(limits.refusals(), 3);
    // Two objects were refused; one of them last as the second of all refusals.
    assert!(limits.is_shared_since(1) && !limits.is_shared_since(2));
    assert_eq!(limits.earliest(Monotonic::ZERO), at(1000));
    assert_eq!(limits.earliest(after(2 * SECOND)), at(2000));
    refuse(&mut limits, 4, 2);
    assert_eq!(limits.earliest(Monotonic::ZERO), at(1000), "started before");

    // One write is in flight at a time, unless its answer is overdue.
    assert!(!limits.allows(Monotonic::ZERO) && limits.allows(after(SECOND)));
    limits.note_write(after(SECOND), 7, None);
    assert!(!limits.allows(after(5 * SECOND)));
    assert_eq!(limits.earliest(after(SECOND)), at(6000));
    limits.note_answer(6);
    assert_eq!(limits.earliest(after(SECOND)), at(6000), "of another write");
    limits.note_answer(7);
    assert_eq!(limits.earliest(after(SECOND)), at(2000));

    // Each refusal makes the interval a fifth longer, up to a bound. Half of the interval is the
    // wait; it doubles with each refusal in a row, up to the longest wait of the back-off.
    for (number, expected) in (8..).zip([600, 1440, 3000, 3000]) {
        limits.note_write(Monotonic::ZERO, number, None);
        refuse(&mut limits, number, 2);
        assert_eq!(limits.earliest(Monotonic::ZERO), at(expected), "{number}");
    }
    // The first admission ends the wait; further ones shorten the interval of 1.728 s.
    for (number, expected) in (20..).zip([1728, 1555, 1399]) {
        limits.note_write(Monotonic::ZERO, number, None);
        limits.admitted(Monotonic::ZERO, number, (0, 0));
        let millis = limits.earliest(Monotonic::ZERO).as_nanos() / 1_000_000;
        assert_eq!(millis, expected, "{number}");
    }
    limits.shorten();
    assert!(limits.allows(Monotonic::from_nanos(i64::MIN)));
    // A minute without a write ends the limit, too, and refusals are forgotten.
    assert!(limits.take_ended(after(60 * SECOND)).is_empty());
    assert!(limits.all().is_none() && limits.is_idle());
}

/// Refusals that are hours apart are no limit.
#[test]
fn old_refusals_are_forgotten() {
    let mut limits = Limits::new(2);
    for hour in 0..10 {
        let now = after(3600 * SECOND * hour);
        assert!(limits.take_ended(now).is_empty());
        let object = u64::from(hour);
        limits.refused(now, object, (object, object % 2), (SECOND, SECOND));
        assert!(limits.all().is_none() && !limits.has_namespaces());
    }
}

/// Offers events and refuses them until all writes are paced.
fn pace_all(bench: &mut Bench) {
    for key in 0..100 {
        bench.offer(create(key));
    }
    let writes: Vec<_> = std::iter::from_fn(|| bench.write()).collect();
    for write in writes {
        bench.answer(write.id, Err(status(429, "TooManyRequests")));
    }
    assert!(bench.delivery.limits.all().is_some());
}

/// After a refusal one write is in flight. If it is not answered, others follow after a few
/// seconds.
#[test]
fn a_paced_write_without_an_answer_delays_others_for_seconds_only() {
    let mut bench = bench(true);
    pace_all(&mut bench);
    bench.wait();
    bench.write().expect("the first paced write");
    assert!(bench.write().is_none());
    assert!(bench.wait() <= 5 * SECOND);
    bench.write().expect("another write");
}

/// Writes that hang leave half of the workers to new events, also to those of a paced namespace.
#[test]
fn failed_writes_that_hang_keep_no_new_event_of_a_paced_namespace_waiting() {
    let mut bench = bench(true);
    for (namespace, answer) in [
        (1, status(500, "InternalError")),
        (2, status(429, "TooManyRequests")),
    ] {
        for key in 0..4 {
            bench.offer(create(4 * key + namespace));
        }
        let writes: Vec<_> = std::iter::from_fn(|| bench.write()).collect();
        for write in writes {
            bench.answer(write.id, Err(answer.clone()));
        }
    }
    assert!(bench.delivery.limits.has_namespaces());
    // None of these is answered.
    while bench.delivery.may_retry() {
        bench.wait();
        while bench.write().is_some() {}
    }
    bench.offer(create(102));
    let start = bench.now;
    loop {
        bench.wait();
        if bench
            .write()
            .is_some_and(|write| write.occurrence.key == 102)
        {
            break;
        }
    }
    assert!(bench.now.nanos_since(start) <= 10_000_000_000);
}

/// A back-off that never ends is no overflow.
#[test]
fn an_endless_back_off_is_paced_without_a_panic() {
    let mut bench = waiting(true, Backoff::Constant(Duration::MAX));
    for key in 0..100 {
        bench.offer(create(4 * key));
    }
    let writes: Vec<_> = std::iter::from_fn(|| bench.write()).collect();
    for write in writes {
        bench.answer(write.id, Err(status(429, "TooManyRequests")));
    }
    assert!(bench.write().is_none() && bench.delivery.limits.has_namespaces());
    for _ in 0..3 {
        bench.delivery.drain();
        let write = bench.write().expect("at the end, a write at once");
        bench.answer(write.id, Err(status(429, "TooManyRequests")));
    }
    bench.check_sums();
}

/// The events that have waited longest make room, wherever they wait, and not new events of a
/// namespace without a limit.
#[test]
fn the_oldest_makes_room_wherever_it_waits() {
    let mut bench = Bench::new(DeliveryOptions {
        pending_events_max: 10,
        overflow: Overflow::DropOldest,
        workers: 1,
        ..DeliveryOptions::default()
    });
    for key in 0..10 {
        bench.offer(create(4 * key));
    }
    for _ in 0..5 {
        while let Some(write) = bench.write() {
            bench.answer(write.id, Err(status(429, "TooManyRequests")));
        }
        bench.wait();
    }
    assert!(bench.delivery.limits.has_namespaces());
    bench.now = bench.now.saturating_add(SECOND);
    for key in 0..5 {
        bench.offer(create(4 * key + 1));
        bench.check_sums();
    }
    let dropped = bench.settled.iter().map(|(item, _)| item.key % 4);
    assert_eq!(dropped.collect::<Vec<_>>(), [0; 5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// EventRateLimit of type User, Namespace, or SourceAndObject with several events of each
    /// object. Every event arrives, each key's events in order, in nearly the least possible time,
    /// with at most 1.5 refusals for each.
    #[test]
    fn every_type_of_limit_is_waited_for(
        kind in 0_u32..3,
        qps in 1_u32..100,
        burst in 1_i64..60,
        events in 100_u32..600,
        latency in 1_u64..50,
        late in prop::bool::ANY,
    ) {
        let mut bench = bench(true);
        let budget = match kind {
            0 => ALL,
            1 => |key: u32| Some(key % 4),
            _ => |key: u32| Some(key % 100),
        };
        let mut server = Server::new(Bucket::new(SECOND / qps, burst), budget);
        server.latency = Duration::from_millis(latency);
        for key in 0..events {
            bench.offer(create(key));
        }
        if late {
            server.run(&mut bench, after(SECOND));
            // Some events are repeated: only the last repeat must arrive.
            for key in 0..events / 10 {
                bench.offer(item(key, 2, CREATE));
            }
        }
        server.run(&mut bench, after(24 * 3600 * SECOND));
        let stats = bench.delivery.stats();
        prop_assert_eq!(stats.dropped.total(), 0);
        prop_assert_eq!(stats.delivered + stats.aggregated, stats.offered);
        let spare = u64::try_from(burst).unwrap();
        if stats.delivered > 5 * spare {
            prop_assert!(server.ratio() <= 1.5, "{} refusals for each", server.ratio());
        }
        let least = f64::from(events) * 1.1 / f64::from(qps);
        let took = bench.now.as_nanos() as f64 / 1e9;
        prop_assert!(took <= 2. * least + 30., "{took} s, at least {least} s");
        let mut last = HashMap::new();
        for (item, fate) in &bench.settled {
            if *fate == Fate::Delivered {
                let before = last.insert(item.key, item.count);
                prop_assert!(before.is_none_or(|before| before < item.count));
            }
        }
    }
}
