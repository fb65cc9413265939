//! The delivery state machine, driven by hand.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::{RetryPolicy, StatusFailure};

pub(super) const CREATE: OccurrenceKind = OccurrenceKind::Create;
pub(super) const PATCH: OccurrenceKind = OccurrenceKind::Patch;

/// State number `count` of object `object`, under key `key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) key: u32,
    pub(super) object: u32,
    pub(super) count: u32,
    pub(super) kind: OccurrenceKind,
    pub(super) size: usize,
    /// The object that the event is about, if several keys share it.
    pub(super) about: Option<u32>,
}

impl Deliverable for Item {
    type Key = u32;

    fn key(&self) -> u32 {
        self.key
    }

    fn same_object(&self, other: &Self) -> bool {
        (self.key, self.object) == (other.key, other.object)
    }

    fn kind(&self) -> OccurrenceKind {
        self.kind
    }

    fn is_repeat(&self) -> bool {
        self.count > 1
    }

    fn hash_regarding(&self, state: &mut impl Hasher) {
        (self.about, self.about.map_or(self.key, |_| 0)).hash(state);
    }

    /// The namespace is one of four, by the key.
    fn hash_namespace(&self, state: &mut impl Hasher) {
        (self.key % 4).hash(state);
    }

    fn size(&self) -> usize {
        self.size
    }
}

pub(super) fn item(key: u32, count: u32, kind: OccurrenceKind) -> Item {
    Item {
        key,
        object: 0,
        count,
        kind,
        size: 100,
        about: None,
    }
}

/// The first event of a key, about an object that other keys may share.
pub(super) fn about(key: u32, object: Option<u32>) -> Item {
    Item {
        about: object,
        ..create(key)
    }
}

pub(super) fn create(key: u32) -> Item {
    item(key, 1, CREATE)
}

pub(super) fn status(code: u16, reason: &str) -> WriteError {
    let failure = StatusFailure {
        code,
        reason: reason.to_owned(),
        ..StatusFailure::default()
    };
    WriteError::status(failure, reason)
}

pub(super) fn asking(code: u16, seconds: u64) -> WriteError {
    let failure = StatusFailure {
        code,
        retry_after: Some(Duration::from_secs(seconds)),
        ..StatusFailure::default()
    };
    WriteError::status(failure, "later")
}

pub(super) fn reset() -> WriteError {
    WriteError::transport("connection reset by peer")
}

/// A delivery, its clock, and its results.
pub(super) struct Bench {
    pub(super) delivery: Delivery<Item>,
    pub(super) now: Monotonic,
    pub(super) settled: Vec<(Item, Fate)>,
}

impl Bench {
    pub(super) fn new(options: DeliveryOptions) -> Self {
        Self {
            delivery: Delivery::new(options, 7).unwrap(),
            now: Monotonic::ZERO,
            settled: Vec::new(),
        }
    }

    pub(super) fn offer(&mut self, item: Item) {
        self.delivery.offer(self.now, item);
        self.collect();
    }

    pub(super) fn write(&mut self) -> Option<Write<Item>> {
        self.delivery.poll_write(self.now)
    }

    /// Takes the next write, which must be due now and have this key, count and kind.
    pub(super) fn expect(&mut self, key: u32, count: u32, kind: OccurrenceKind) -> WriteId {
        let write = self.write().expect("a write that is due");
        let item = write.occurrence;
        assert_eq!((item.key, item.count, write.kind), (key, count, kind));
        write.id
    }

    pub(super) fn answer(&mut self, id: WriteId, result: Result<(), WriteError>) -> Handled {
        let handled = self.delivery.handle_written(self.now, id, result);
        self.collect();
        handled
    }

    pub(super) fn collect(&mut self) {
        while let Some(settled) = self.delivery.poll_settled() {
            self.settled.push((settled.occurrence, settled.fate));
        }
    }

    /// Moves the clock to the next deadline; returns how long that took.
    pub(super) fn wait(&mut self) -> Duration {
        let until = self.delivery.poll_timeout().expect("something to wait for");
        let waited = until.nanos_since(self.now).max(0);
        self.now = self.now.max(until);
        Duration::from_nanos(waited as u64)
    }

    pub(super) fn fates(&self) -> Vec<Fate> {
        self.settled.iter().map(|(_, fate)| *fate).collect()
    }

    pub(super) fn dropped(&self, cause: DropCause) -> u64 {
        self.delivery.stats().dropped.get(cause)
    }

    #[track_caller]
    pub(super) fn check_sums(&self) {
        let stats = self.delivery.stats();
        let accounted = stats.delivered + stats.aggregated + stats.dropped.total() + stats.pending;
        assert_eq!(stats.offered, accounted, "{stats:?}");
        let options = &self.delivery.options;
        assert!(self.delivery.in_flight() <= options.workers);
        assert!(self.delivery.pending() <= options.pending_events_max);
        assert!(self.delivery.pending_bytes() <= options.pending_bytes_max);
        let failed = self.delivery.lanes.iter();
        let failed = failed.filter(|(_, lane)| lane.failures > 0);
        let sizes: Vec<_> = failed.map(|(_, lane)| lane.head.size).collect();
        assert_eq!(
            (sizes.len(), sizes.iter().sum::<usize>()),
            (self.delivery.failed(), self.delivery.failed_bytes())
        );
    }
}

type Answer = fn() -> Result<(), WriteError>;

/// client-go's TestWriteEventError: how many tries each kind of failure gets.
#[test]
fn each_failure_is_tried_as_often_as_client_go_tries_it() {
    let construction = || Err(WriteError::invalid("no request can be made"));
    let refused = || Err(status(403, "Forbidden"));
    let unreachable = || Err(reset());
    let silent = || Err(WriteError::timeout("no answer within 30 s"));
    let table: [(&str, Answer, u32, Fate); 4] = [
        (
            "construction",
            construction,
            1,
            Fate::Dropped(DropCause::InvalidRequest),
        ),
        (
            "status",
            refused,
            1,
            Fate::Dropped(DropCause::RejectedForbidden),
        ),
        (
            "transport",
            unreachable,
            12,
            Fate::Dropped(DropCause::RetriesExhausted),
        ),
        (
            "timeout",
            silent,
            12,
            Fate::Dropped(DropCause::RetriesExhausted),
        ),
    ];
    for (name, answer, tries, fate) in table {
        let mut bench = Bench::new(DeliveryOptions::client_go());
        bench.offer(create(1));
        let mut tried = 0;
        let mut waited = Vec::new();
        while bench.delivery.pending() > 0 {
            if tried > 0 {
                waited.push(bench.wait());
            }
            let id = bench.expect(1, 1, CREATE);
            bench.answer(id, answer());
            tried += 1;
        }
        assert_eq!((tried, bench.fates()), (tries, vec![fate]), "{name}");
        if let Some((first, others)) = waited.split_first() {
            assert!(*first < Duration::from_secs(10));
            assert!(others.iter().all(|wait| *wait == Duration::from_secs(10)));
        }
    }

    let mut bench = Bench::new(DeliveryOptions::client_go());
    bench.offer(create(1));
    let id = bench.expect(1, 1, CREATE);
    assert_eq!(bench.answer(id, Err(reset())), Handled::Retried);
    bench.wait();
    let id = bench.expect(1, 1, CREATE);
    assert_eq!(bench.answer(id, Ok(())), Handled::Settled);
    assert_eq!(bench.fates(), [Fate::Delivered]);
}

/// client-go's TestUpdateExpiredEvent. A try after a failed create begins with the patch again.
#[test]
fn a_patch_of_an_expired_event_becomes_a_create_at_once() {
    for options in [DeliveryOptions::client_go(), DeliveryOptions::default()] {
        let mut bench = Bench::new(options);
        bench.offer(item(1, 3, PATCH));
        let id = bench.expect(1, 3, PATCH);
        assert_eq!(
            bench.answer(id, Err(status(404, "NotFound"))),
            Handled::Turned
        );
        let id = bench.expect(1, 3, CREATE);
        assert_eq!(bench.answer(id, Err(reset())), Handled::Retried);
        bench.wait();
        let id = bench.expect(1, 3, PATCH);
        bench.answer(id, Err(status(404, "NotFound")));
        let id = bench.expect(1, 3, CREATE);
        bench.answer(id, Ok(()));
        assert_eq!(bench.fates(), [Fate::Delivered]);
    }
}

/// client-go's TestCancelEvent: one attempt, and no other after the end.
#[test]
fn what_waits_at_the_end_is_pending() {
    let mut bench = Bench::new(DeliveryOptions::client_go());
    bench.offer(create(1));
    bench.offer(create(2));
    let first = bench.expect(1, 1, CREATE);
    bench.answer(first, Err(reset()));
    let second = bench.expect(2, 1, CREATE);
    bench.delivery.abandon();
    bench.collect();
    assert_eq!(bench.fates(), [Fate::Pending, Fate::Pending]);
    assert_eq!(bench.answer(second, Ok(())), Handled::Unknown);
    bench.offer(create(3));
    assert_eq!(bench.dropped(DropCause::Stopped), 1);
    assert_eq!(
        (bench.write().is_none(), bench.delivery.poll_timeout()),
        (true, None)
    );
    assert_eq!(bench.delivery.stats().pending, 2);
    bench.check_sums();
}

/// client-go's TestLotsOfEvents: each of a thousand events fails four times, and none is lost.
#[test]
fn a_thousand_events_that_fail_four_times_each_all_arrive() {
    let mut bench = Bench::new(DeliveryOptions::default());
    for key in 0..1000 {
        bench.offer(create(key));
    }
    let mut failures = HashMap::new();
    while bench.delivery.pending() > 0 {
        while let Some(write) = bench.write() {
            let failed = failures.entry(write.occurrence.key).or_insert(0);
            *failed += 1;
            let result = if *failed <= 4 { Err(reset()) } else { Ok(()) };
            bench.answer(write.id, result);
        }
        bench.check_sums();
        if bench.delivery.pending() > 0 {
            bench.wait();
        }
    }
    assert_eq!(bench.delivery.stats().delivered, 1000);
}

#[test]
fn a_waiting_event_gives_way_to_a_later_state_of_its_object() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(item(1, 1, CREATE));
    let id = bench.expect(1, 1, CREATE);
    // No write was acknowledged yet, so the correlator still decides on creates.
    bench.offer(item(1, 2, CREATE));
    bench.offer(item(1, 3, CREATE));
    assert!(bench.write().is_none(), "one write of a key at a time");
    bench.answer(id, Ok(()));
    let id = bench.expect(1, 3, PATCH);
    bench.answer(id, Ok(()));
    assert_eq!(
        bench.settled,
        [
            (item(1, 2, CREATE), Fate::Aggregated),
            (item(1, 1, CREATE), Fate::Delivered),
            (item(1, 3, CREATE), Fate::Delivered),
        ]
    );

    // An event of another object under the same key is a different event, and is not merged.
    bench.offer(item(1, 4, PATCH));
    let other = Item {
        object: 1,
        ..item(1, 1, CREATE)
    };
    bench.offer(other);
    let id = bench.expect(1, 4, PATCH);
    bench.answer(id, Ok(()));
    let id = bench.expect(1, 1, CREATE);
    bench.answer(id, Ok(()));
    assert_eq!(bench.delivery.stats().aggregated, 1);
}

#[test]
fn a_later_state_also_takes_over_from_one_that_waits_for_another_try() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(item(1, 1, CREATE));
    let id = bench.expect(1, 1, CREATE);
    bench.offer(item(1, 2, CREATE));
    bench.answer(id, Err(reset()));
    assert_eq!(bench.settled, [(item(1, 1, CREATE), Fate::Aggregated)]);
    assert!(bench.write().is_none(), "the wait continues");
    bench.offer(item(1, 3, CREATE));
    assert!(bench.write().is_none(), "the wait still continues");
    bench.wait();
    // The first create succeeded, and only its answer was lost.
    let id = bench.expect(1, 3, CREATE);
    assert_eq!(
        bench.answer(id, Err(status(409, "AlreadyExists"))),
        Handled::Turned
    );
    let id = bench.expect(1, 3, PATCH);
    bench.answer(id, Ok(()));
    assert_eq!(
        bench.settled.last(),
        Some(&(item(1, 3, CREATE), Fate::Delivered))
    );
    assert_eq!(bench.delivery.stats().aggregated, 2);
}

#[test]
fn what_takes_the_place_of_a_create_is_created() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(item(1, 1, CREATE));
    bench.offer(item(1, 2, PATCH));
    let id = bench.expect(1, 2, CREATE);
    bench.offer(item(1, 3, PATCH));
    // The write succeeded without an answer.
    bench.answer(id, Err(reset()));
    bench.wait();
    let id = bench.expect(1, 3, CREATE);
    bench.answer(id, Err(status(409, "AlreadyExists")));
    let id = bench.expect(1, 3, PATCH);
    bench.answer(id, Ok(()));
    assert_eq!(
        bench.fates(),
        [Fate::Aggregated, Fate::Aggregated, Fate::Delivered]
    );
}

/// Keys point to events. A key must not keep a settled event in memory, whose bytes are no longer
/// counted.
#[test]
fn no_key_of_an_event_that_is_gone_is_kept() {
    #[derive(Clone)]
    struct Shared(#[expect(dead_code, reason = "held to be counted")] Arc<()>);
    impl PartialEq for Shared {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Shared {}
    impl Hash for Shared {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }
    impl Deliverable for Shared {
        type Key = Self;
        fn key(&self) -> Self {
            self.clone()
        }
        fn same_object(&self, _: &Self) -> bool {
            true
        }
        fn kind(&self) -> OccurrenceKind {
            CREATE
        }
        fn is_repeat(&self) -> bool {
            false
        }
        fn size(&self) -> usize {
            1
        }
    }
    let kept: Vec<_> = (0..6).map(|_| Arc::new(())).collect();
    let mut delivery = Delivery::new(DeliveryOptions::default(), 7).unwrap();
    let offer = |delivery: &mut Delivery<_>, number: usize| {
        delivery.offer(Monotonic::ZERO, Shared(Arc::clone(&kept[number])));
        while delivery.poll_settled().is_some() {}
        kept.iter()
            .map(|event| Arc::strong_count(event) > 1)
            .collect::<Vec<_>>()
    };
    offer(&mut delivery, 0);
    let now = offer(&mut delivery, 1);
    assert_eq!(
        now,
        [false, true, false, false, false, false],
        "while it waits"
    );
    let write = delivery.poll_write(Monotonic::ZERO).unwrap();
    offer(&mut delivery, 2);
    delivery.handle_written(Monotonic::ZERO, write.id, Err(reset()));
    drop(write.occurrence);
    let now = offer(&mut delivery, 3);
    assert_eq!(
        now,
        [false, false, false, true, false, false],
        "after a failure"
    );
    let later = delivery.poll_timeout().unwrap();
    let write = delivery.poll_write(later).unwrap();
    offer(&mut delivery, 4);
    delivery.handle_written(later, write.id, Ok(()));
    drop(write.occurrence);
    let now = offer(&mut delivery, 5);
    assert_eq!(
        now,
        [false, false, false, false, false, true],
        "after a success"
    );
}

#[test]
fn without_coalescing_every_event_is_written_and_keys_take_turns() {
    let mut bench = Bench::new(DeliveryOptions::client_go());
    for count in 1..=3 {
        bench.offer(item(1, count, if count == 1 { CREATE } else { PATCH }));
    }
    bench.offer(create(2));
    for (key, count, kind) in [(1, 1, CREATE), (2, 1, CREATE), (1, 2, PATCH), (1, 3, PATCH)] {
        let id = bench.expect(key, count, kind);
        bench.answer(id, Ok(()));
    }
    assert_eq!(bench.delivery.stats().delivered, 4);
}

#[test]
fn an_event_does_not_wait_longer_for_the_failures_of_the_one_before() {
    let mut bench = Bench::new(DeliveryOptions {
        coalesce: false,
        ..DeliveryOptions::default()
    });
    bench.offer(item(1, 1, CREATE));
    bench.offer(item(1, 2, PATCH));
    for _ in 0..6 {
        let id = bench.expect(1, 1, CREATE);
        bench.answer(id, Err(reset()));
        bench.wait();
    }
    let id = bench.expect(1, 1, CREATE);
    bench.answer(id, Ok(()));
    let id = bench.expect(1, 2, PATCH);
    bench.answer(id, Err(reset()));
    assert!(bench.wait() <= Duration::from_millis(250));
}

#[test]
fn a_name_that_is_taken_is_ours_only_after_a_lost_answer() {
    let taken = || Err(status(409, "AlreadyExists"));
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(create(1));
    let id = bench.expect(1, 1, CREATE);
    bench.answer(id, taken());
    assert_eq!(bench.fates(), [Fate::Dropped(DropCause::AlreadyExists)]);

    let after = |first: WriteError| {
        let mut bench = Bench::new(DeliveryOptions::default());
        bench.offer(create(1));
        let id = bench.expect(1, 1, CREATE);
        bench.answer(id, Err(first));
        bench.wait();
        let id = bench.expect(1, 1, CREATE);
        bench.answer(id, taken());
        bench.fates()
    };
    assert_eq!(after(reset()), [Fate::Delivered]);
    assert_eq!(after(WriteError::timeout("30 s")), [Fate::Delivered]);
    assert_eq!(after(status(504, "Timeout")), [Fate::Delivered]);
    // The server answered this write without performing it.
    assert_eq!(
        after(asking(429, 1)),
        [Fate::Dropped(DropCause::AlreadyExists)]
    );
}

#[test]
fn after_a_refused_create_the_next_state_is_created() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(item(1, 1, CREATE));
    let id = bench.expect(1, 1, CREATE);
    bench.offer(item(1, 2, PATCH));
    bench.answer(id, Err(status(422, "Invalid")));
    let id = bench.expect(1, 2, CREATE);
    bench.answer(id, Ok(()));
    assert_eq!(
        bench.fates(),
        [Fate::Dropped(DropCause::RejectedInvalid), Fate::Delivered]
    );
}

/// A refused patch does not tell whether the object exists.
#[test]
fn after_a_refused_patch_the_next_state_is_patched() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(item(1, 2, PATCH));
    let id = bench.expect(1, 2, PATCH);
    bench.offer(item(1, 3, PATCH));
    bench.answer(id, Err(status(422, "Invalid")));
    bench.expect(1, 3, PATCH);
}

#[test]
fn client_go_writes_series_eight_at_a_time_and_each_event_of_its_own() {
    for (options, workers) in [
        (DeliveryOptions::client_go(), 1),
        (DeliveryOptions::client_go_events(), 8),
    ] {
        let mut bench = Bench::new(options);
        for key in 0..10 {
            bench.offer(create(key));
            bench.offer(item(key, 2, PATCH));
        }
        assert_eq!(bench.settled, [], "none takes the place of another");
        assert_eq!(std::iter::from_fn(|| bench.write()).count(), workers);
    }
}

#[test]
fn an_event_that_turns_for_ever_is_given_up() {
    let options = DeliveryOptions {
        retry: RetryPolicy {
            tries_max: 3,
            ..RetryPolicy::default()
        },
        ..DeliveryOptions::default()
    };
    let mut bench = Bench::new(options);
    // A server that says both that the object exists and that it does not.
    bench.offer(item(1, 2, CREATE));
    let mut writes = 0;
    while bench.delivery.pending() > 0 {
        let Some(write) = bench.write() else {
            bench.wait();
            continue;
        };
        writes += 1;
        assert!(writes < 100, "no end to it");
        let error = match write.kind {
            OccurrenceKind::Create => status(409, "AlreadyExists"),
            OccurrenceKind::Patch => status(404, "NotFound"),
        };
        bench.answer(write.id, Err(error));
    }
    bench.check_sums();
    assert_eq!(bench.dropped(DropCause::RetriesExhausted), 1);
    // Each of the three tries has the maximum of turns.
    assert_eq!(writes, 3 * (TURNS_MAX + 1));
}

#[test]
fn a_failing_key_holds_up_no_other() {
    let mut bench = Bench::new(DeliveryOptions {
        workers: 1,
        ..DeliveryOptions::default()
    });
    for key in 0..10 {
        bench.offer(create(key));
    }
    let id = bench.expect(0, 1, CREATE);
    bench.answer(id, Err(asking(429, 30)));
    for key in 1..10 {
        let id = bench.expect(key, 1, CREATE);
        bench.answer(id, Ok(()));
    }
    let wait = bench.wait();
    assert!(
        (30..=38).contains(&wait.as_secs()),
        "Retry-After is obeyed: {wait:?}"
    );
    let id = bench.expect(0, 1, CREATE);
    bench.answer(id, Ok(()));
    assert_eq!(bench.delivery.stats().delivered, 10);
    assert_eq!(bench.delivery.stats().pauses, 0);
}

/// client-go `rest` TestCheckRetryClosesBody: a server asks for a wait of a second again and again,
/// and each time the delivery waits. client-go waits exactly that long. The default adds a random
/// time, which grows with each failure.
#[test]
fn a_server_that_asks_for_a_wait_is_given_it_each_time() {
    for (options, longest) in [
        (DeliveryOptions::client_go(), [1000; 4]),
        (DeliveryOptions::default(), [1250, 1250, 1250, 2000]),
    ] {
        let mut bench = Bench::new(options);
        bench.offer(create(1));
        for longest in longest {
            let id = bench.expect(1, 1, CREATE);
            assert_eq!(bench.answer(id, Err(asking(503, 1))), Handled::Retried);
            assert!(bench.write().is_none(), "not before its time");
            let waited = bench.wait().as_millis();
            assert!((1000..=longest).contains(&waited), "{waited} ms");
        }
        let id = bench.expect(1, 1, CREATE);
        bench.answer(id, Ok(()));
        assert_eq!(bench.fates(), [Fate::Delivered]);
    }
}

#[test]
fn credentials_that_stay_wrong_are_tried_less_often_than_others() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(create(1));
    let mut tries = 0;
    while bench.delivery.pending() > 0 {
        let id = bench.expect(1, 1, CREATE);
        bench.answer(id, Err(status(401, "Unauthorized")));
        tries += 1;
        if bench.delivery.pending() > 0 {
            bench.wait();
        }
    }
    assert_eq!(
        (tries, bench.dropped(DropCause::RejectedUnauthorized)),
        (18, 1)
    );
}

#[test]
fn when_full_the_newest_or_the_oldest_is_dropped() {
    let options = |overflow| DeliveryOptions {
        workers: 1,
        pending_events_max: 4,
        pending_bytes_max: 450,
        overflow,
        ..DeliveryOptions::default()
    };
    let full = Fate::Dropped(DropCause::QueueFull);

    let mut bench = Bench::new(options(Overflow::DropNewest));
    for key in 0..5 {
        bench.offer(create(key));
    }
    assert_eq!(bench.settled, [(create(4), full)]);
    // A later state of a waiting event needs no room if it is not larger.
    bench.offer(item(2, 2, CREATE));
    bench.offer(Item {
        size: 151,
        ..item(2, 3, CREATE)
    });
    assert_eq!(bench.fates(), [full, Fate::Aggregated, full]);
    bench.offer(Item {
        size: 451,
        ..create(9)
    });
    assert_eq!(bench.dropped(DropCause::TooLarge), 1);
    bench.check_sums();

    let mut bench = Bench::new(options(Overflow::DropOldest));
    for key in 0..4 {
        bench.offer(create(key));
    }
    let id = bench.expect(0, 1, CREATE);
    bench.offer(create(4));
    bench.offer(Item {
        size: 200,
        ..create(5)
    });
    // The event in flight stays. By bytes, two events had to be dropped for one.
    assert_eq!(
        bench.settled,
        [(create(1), full), (create(2), full), (create(3), full)]
    );
    bench.answer(id, Ok(()));
    for (key, size) in [(4, 100), (5, 200)] {
        let write = bench.write().unwrap();
        assert_eq!((write.occurrence.key, write.occurrence.size), (key, size));
        bench.answer(write.id, Ok(()));
    }
    bench.check_sums();
}

#[test]
fn what_waits_behind_a_write_in_flight_can_be_the_oldest() {
    let mut bench = Bench::new(DeliveryOptions {
        pending_events_max: 2,
        overflow: Overflow::DropOldest,
        coalesce: false,
        ..DeliveryOptions::default()
    });
    bench.offer(item(1, 1, CREATE));
    let id = bench.expect(1, 1, CREATE);
    bench.offer(item(1, 2, PATCH));
    bench.offer(item(1, 3, PATCH));
    assert_eq!(
        bench.settled,
        [(item(1, 2, PATCH), Fate::Dropped(DropCause::QueueFull))]
    );
    bench.answer(id, Ok(()));
    bench.expect(1, 3, PATCH);
    // No other event waits, so the new one is dropped after all.
    bench.offer(create(2));
    bench.expect(2, 1, CREATE);
    bench.offer(create(3));
    assert_eq!(bench.dropped(DropCause::QueueFull), 2);
    bench.check_sums();
}

#[test]
fn draining_tries_at_once_what_waits_of_our_own_accord() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(create(1));
    bench.offer(create(2));
    let first = bench.expect(1, 1, CREATE);
    let second = bench.expect(2, 1, CREATE);
    bench.answer(first, Err(reset()));
    bench.answer(second, Err(asking(503, 5)));
    assert!(bench.write().is_none());
    bench.delivery.drain();
    bench.offer(create(3));
    assert_eq!(bench.fates(), [Fate::Dropped(DropCause::Stopped)]);
    let id = bench.expect(1, 1, CREATE);
    bench.answer(id, Ok(()));
    assert!(bench.write().is_none(), "the server asked for a wait");
    bench.wait();
    let id = bench.expect(2, 1, CREATE);
    bench.answer(id, Ok(()));
    assert_eq!(bench.delivery.pending(), 0);
    bench.check_sums();
}

/// Where events can wait, a failure of every write does not make the delivery give up an event; a
/// failure that other writes do not meet does.
#[test]
fn a_refusal_of_everything_gives_up_nothing_that_can_wait() {
    let retry = RetryPolicy {
        give_up_out_of_reach: false,
        ..RetryPolicy::default()
    };
    let (tries_max, unauthorized_tries_max) = (retry.tries_max, retry.unauthorized_tries_max);
    let mut bench = Bench::new(DeliveryOptions {
        retry: retry.clone(),
        ..DeliveryOptions::default()
    });
    for key in 0..3 {
        bench.offer(create(key));
    }
    let hour = Duration::from_secs(3600);
    for code in [500, 401, 503, 409] {
        let end = bench.now.saturating_add(hour);
        while bench.now < end {
            while let Some(write) = bench.write() {
                bench.answer(write.id, Err(status(code, "Conflict")));
            }
            bench.wait();
        }
        assert_eq!(bench.settled, [], "{code}");
    }
    // Other events are written again, and this one is not.
    for (code, tries, cause) in [
        (500, tries_max, DropCause::RetriesExhausted),
        (504, tries_max, DropCause::RetriesExhausted),
        (401, unauthorized_tries_max, DropCause::RejectedUnauthorized),
    ] {
        let mut bench = Bench::new(DeliveryOptions {
            retry: retry.clone(),
            ..DeliveryOptions::default()
        });
        bench.offer(create(0));
        let mut failures = 0;
        while bench.dropped(cause) == 0 {
            bench.offer(create(100));
            while let Some(write) = bench.write() {
                let result = if write.occurrence.key == 0 {
                    failures += 1;
                    Err(status(code, ""))
                } else {
                    Ok(())
                };
                bench.answer(write.id, result);
            }
            if bench.delivery.pending() > 0 {
                bench.wait();
            }
        }
        assert!(failures >= tries, "{code}: {failures} of {tries}");
        assert!(failures <= tries + 1, "{code}: {failures} of {tries}");
        assert_eq!(bench.delivery.stats().dropped.total(), 1, "{code}");
    }
}

#[test]
fn what_just_fits_is_taken() {
    let sized = |key, count, size| Item {
        size,
        ..item(key, count, CREATE)
    };
    let mut bench = Bench::new(DeliveryOptions {
        pending_bytes_max: 100,
        ..DeliveryOptions::default()
    });
    bench.offer(sized(1, 1, 101));
    assert_eq!(bench.fates(), [Fate::Dropped(DropCause::TooLarge)]);
    bench.offer(sized(1, 1, 100));
    assert_eq!(
        (bench.delivery.pending(), bench.delivery.pending_bytes()),
        (1, 100)
    );
    // A larger event may also replace a waiting one.
    bench.offer(sized(1, 2, 60));
    bench.offer(sized(2, 1, 40));
    bench.offer(sized(2, 2, 40));
    assert_eq!(
        (bench.delivery.pending(), bench.delivery.pending_bytes()),
        (2, 100)
    );
    assert_eq!(bench.fates()[1..], [Fate::Aggregated; 2]);
    bench.expect(1, 2, CREATE);
    assert_eq!(bench.delivery.in_flight(), 1);
    bench.expect(2, 2, CREATE);
    assert_eq!(bench.delivery.in_flight(), 2);
    bench.check_sums();
}

/// The second answer to one try is ignored.
#[test]
fn an_answer_that_comes_twice_changes_nothing() {
    let mut bench = Bench::new(DeliveryOptions::default());
    bench.offer(create(1));
    let first = bench.expect(1, 1, CREATE);
    assert_eq!(bench.answer(first, Err(reset())), Handled::Retried);
    bench.wait();
    let second = bench.expect(1, 1, CREATE);
    assert_eq!(bench.answer(first, Ok(())), Handled::Unknown);
    assert_eq!(bench.answer(second, Err(reset())), Handled::Retried);
    let stats = bench.delivery.stats();
    assert_eq!((stats.writes, stats.retries, stats.delivered), (2, 2, 0));
    bench.wait();
    let third = bench.expect(1, 1, CREATE);
    assert_eq!(bench.answer(third, Ok(())), Handled::Settled);
    assert_eq!(bench.answer(third, Ok(())), Handled::Unknown);
    bench.check_sums();
}
