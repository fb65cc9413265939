//! Series tested by hand, and between a delivery and a server that forgets events, refuses writes
//! and loses answers.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    ClusterScopedNamespace, Delivery, DeliveryOptions, DropCause, EventSource, EventType, Fate,
    NewEvent, Reference, ReferenceFields, StatusFailure, TEXT_BYTES_MAX, Write, WriteError,
};

const CREATE: OccurrenceKind = OccurrenceKind::Create;
const PATCH: OccurrenceKind = OccurrenceKind::Patch;

/// The time `second` seconds after the clock's start, which is the start of 2024.
fn at(second: i64) -> Now {
    let wall = Timestamp::from_second(1_704_067_200 + second).unwrap();
    Now {
        monotonic: Monotonic::from_nanos(second * 1_000_000_000),
        wall,
    }
}

struct Bench {
    series: Series,
    names: Arc<NameStamps>,
}

impl Bench {
    /// The default options, with client-go's heartbeat of half an hour in place of refreshes.
    fn seldom() -> SeriesOptions {
        SeriesOptions::default().heartbeat(Duration::from_secs(30 * 60))
    }

    fn new(options: SeriesOptions) -> Self {
        let names = Arc::new(NameStamps::new(3));
        Self {
            series: Series::new(options, &names).unwrap(),
            names,
        }
    }

    fn event(
        &self,
        pod: &str,
        resource_version: &str,
        action: &str,
        note: &str,
        second: i64,
    ) -> Event {
        let regarding = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: pod,
            resource_version,
            ..ReferenceFields::default()
        });
        let new = NewEvent {
            source: &EventSource::component("example.com/ctl").host("node-1"),
            regarding: &regarding,
            related: None,
            event_type: EventType::Warning,
            reason: "BackOff",
            action,
            message: &note,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        Event::new(&new, &self.names, at(second).wall)
    }

    /// Records an event about `pod`; returns the kind, count and settled events of each write that
    /// it causes.
    fn see(&mut self, pod: &str, second: i64) -> Vec<(OccurrenceKind, i32, u64)> {
        let event = self.event(pod, "", "Restarting", "m", second);
        self.series.handle_event(at(second), &event);
        self.writes()
    }

    fn pass(&mut self, second: i64) -> Vec<(OccurrenceKind, i32, u64)> {
        self.series.handle_timeout(at(second).monotonic, usize::MAX);
        self.writes()
    }

    fn writes(&mut self) -> Vec<(OccurrenceKind, i32, u64)> {
        std::iter::from_fn(|| self.series.poll_write())
            .map(|write| (write.kind(), write.count(), write.events()))
            .collect()
    }

    fn due(&self) -> Option<i64> {
        let at = self.series.poll_timeout()?;
        Some(at.as_nanos() / 1_000_000_000)
    }
}

/// client-go's `tools/events` TestEventSeriesf, by our rules: the second event is written at once,
/// and then one heartbeat at a time while there is a new count.
#[test]
fn a_series_is_written_seldom_and_is_never_long_behind() {
    let mut bench = Bench::new(SeriesOptions::default().heartbeat(Duration::from_secs(60)));
    assert_eq!(bench.see("web", 0), [(CREATE, 1, 1)]);
    assert_eq!(bench.see("web", 5), [(PATCH, 2, 1)]);
    for second in 6..65 {
        assert_eq!(bench.see("web", second), []);
        assert_eq!(bench.due(), Some(65));
    }
    assert_eq!(bench.series.stats().behind, 59);
    assert_eq!(bench.pass(64), [], "early is harmless");
    assert_eq!(bench.pass(65), [(PATCH, 61, 59)]);
    // The next write is one heartbeat later, even if the last event came long before.
    assert_eq!(bench.see("web", 66), []);
    assert_eq!(bench.due(), Some(125));
    assert_eq!(bench.pass(125), [(PATCH, 62, 1)]);
    // A quiet series is forgotten without another write; the next event begins a new one.
    assert_eq!(bench.due(), Some(66 + 720));
    assert_eq!(bench.pass(66 + 720), []);
    assert_eq!(bench.due(), None);
    assert_eq!(bench.see("web", 800), [(CREATE, 1, 1)]);
}

/// A series is open for half an hour. An event that it only counts keeps its acknowledgement in
/// memory, and nothing else.
#[test]
fn a_count_that_waits_keeps_what_must_be_told_and_nothing_else() {
    struct Sent {
        kept: Option<Arc<Sent>>,
    }
    impl EventContext for Sent {
        fn kept(&self) -> Option<Arc<dyn EventContext>> {
            self.kept.clone().map(|kept| kept as Arc<dyn EventContext>)
        }
    }
    let mut bench = Bench::new(SeriesOptions::default());
    for (number, waits) in [false, false, true, true].into_iter().enumerate() {
        let kept = Arc::new(Sent { kept: None });
        let sent = Arc::new(Sent {
            kept: Some(Arc::clone(&kept)),
        });
        let event = bench.event("web-0", "", "Restarting", "m", 1);
        let event = event.with_context(Arc::clone(&sent) as Arc<dyn EventContext>);
        bench.series.handle_event(at(1), &event);
        drop(event);
        let write = bench.series.poll_write();
        assert_eq!(write.is_none(), waits);
        drop(write);
        assert_eq!(Arc::strong_count(&sent), 1, "{number}");
        // The first waiting event is held; a default context does not take over the one before it.
        let held = 2 + usize::from(waits);
        assert_eq!(Arc::strong_count(&kept), held, "{number}");
    }
}

#[test]
fn two_heartbeats_an_hour_and_the_end_are_written() {
    let mut bench = Bench::new(Bench::seldom());
    let mut writes = Vec::new();
    for second in (0..=3600).step_by(10) {
        let seen = [bench.pass(second), bench.see("web", second)].concat();
        writes.extend(seen.into_iter().map(|write| (second, write.0, write.1)));
    }
    assert_eq!(
        writes,
        [(0, CREATE, 1), (10, PATCH, 2), (1810, PATCH, 181),]
    );
    assert_eq!(bench.due(), Some(3610));
    assert_eq!(bench.pass(3610), [(PATCH, 361, 180)]);
    // The series is quiet before its next heartbeat; its end writes the last count.
    assert_eq!(bench.see("web", 3620), []);
    assert_eq!(bench.pass(3620 + 719), []);
    assert_eq!(bench.pass(3620 + 720), [(PATCH, 362, 1)]);
    assert_eq!((bench.due(), bench.series.stats().behind), (None, 0));
    // The next event begins a new series, whether the old one was already found to be quiet or not.
    for (second, count) in [(5000, 1), (5010, 2), (5020, 0)] {
        let write = bench.see("web", second);
        assert_eq!(write.first().map_or(0, |write| write.1), count);
    }
    let last_and_first = [(PATCH, 3, 1), (CREATE, 1, 1)];
    assert_eq!(bench.see("web", 5020 + 720), last_and_first);
}

/// client-go's TestFinishSeries with the passes of `eventBroadcasterImpl`: the same event at 0, 5
/// and 10 s.
#[test]
fn client_go_leaves_the_count_behind_until_a_pass() {
    let mut bench = Bench::new(SeriesOptions::client_go());
    assert_eq!(bench.see("web", 0), [(CREATE, 1, 1)]);
    assert_eq!(bench.see("single", 0), [(CREATE, 1, 1)]);
    assert_eq!(bench.see("web", 5), [(PATCH, 2, 1)]);
    assert_eq!(bench.see("web", 10), []);
    assert_eq!(bench.due(), Some(360));
    assert_eq!(bench.pass(360), [], "350 s is not quiet for long enough");
    assert_eq!(bench.pass(720), [(PATCH, 3, 1)]);
    assert_eq!(bench.series.stats().cache.entries, 0);
    // client-go refreshes a series that continues, even if its count is unchanged.
    for second in (721..1801).step_by(60) {
        bench.see("web", second);
    }
    for second in [1080, 1440, 1800] {
        let refreshes = bench.pass(second);
        assert_eq!(refreshes.len(), usize::from(second == 1800), "{second}");
    }
}

/// Which events belong to one series, by our rules and by client-go's.
#[test]
fn an_object_that_was_updated_goes_on_with_its_series() {
    for (options, goes_on) in [
        (SeriesOptions::default(), true),
        (SeriesOptions::client_go(), false),
    ] {
        let mut bench = Bench::new(options);
        let mut kind = |version, action, note| {
            let event = bench.event("web", version, action, note, 0);
            bench.series.handle_event(at(0), &event);
            bench.series.poll_write().map(|write| write.kind())
        };
        assert_eq!(kind("1", "Restarting", "m"), Some(CREATE));
        assert_eq!(kind("1", "Restarting", "another note"), Some(PATCH));
        assert_eq!(kind("1", "Stopping", "m"), Some(CREATE), "TestEventSeriesf");
        let updated = kind("2", "Restarting", "m");
        assert_eq!(updated.is_none(), goes_on, "behind a heartbeat, not new");
        assert_eq!(updated == Some(CREATE), !goes_on);
    }
}

#[test]
fn what_is_written_has_the_shape_of_events_v1() {
    let mut bench = Bench::new(SeriesOptions::default());
    let note = "x".repeat(2000);
    for second in 0..2 {
        let event = bench.event("web", "7", "", &note, second);
        bench.series.handle_event(at(second), &event);
    }
    let create = bench.series.poll_write().unwrap();
    let patch = bench.series.poll_write().unwrap();
    assert_eq!(
        (create.api(), create.patch_body().len()),
        (crate::EventApi::Events, 0)
    );
    let body: Value = serde_json::from_slice(&create.create_body()).unwrap();
    let cut = body["note"].as_str().unwrap();
    assert!(cut.len() <= 1024 && cut.ends_with(crate::TRUNCATION_MARKER));
    assert_eq!(
        body,
        json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": create.name(), "namespace": "default"},
            "eventTime": "2024-01-01T00:00:00.000000Z",
            "reportingController": "example.com/ctl", "reportingInstance": "node-1", "action": "BackOff", "reason": "BackOff",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "web", "resourceVersion": "7"},
            "note": cut, "type": "Warning",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        })
    );
    assert_eq!(
        String::from_utf8(patch.patch_body()).unwrap(),
        r#"{"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:01.000000Z"}}"#
    );
    // If the stored event is gone by then, it is created with the series that it has become.
    let again: Value = serde_json::from_slice(&patch.create_body()).unwrap();
    assert_eq!(
        (
            &again["metadata"],
            &again["eventTime"],
            &again["series"]["count"]
        ),
        (&body["metadata"], &body["eventTime"], &json!(2))
    );
}

#[test]
fn bounds_end_series_but_lose_no_count() {
    let mut bench = Bench::new(SeriesOptions::default().cache_entries_max(2));
    for pod in ["a", "b"] {
        for _ in 0..3 {
            bench.see(pod, 0);
        }
    }
    assert_eq!(
        bench.see("c", 1),
        [(CREATE, 1, 1), (PATCH, 3, 1)],
        "a ends with its last count"
    );
    assert_eq!(bench.series.stats().cache.entries, 2);
    bench.series.finish(usize::MAX);
    assert_eq!(bench.writes(), [(PATCH, 3, 1)]);
    assert_eq!((bench.series.stats().behind, bench.due()), (0, None));
    let mut bench = Bench::new(SeriesOptions::default().cache_bytes_max(0));
    assert_eq!(bench.see("a", 0), [(CREATE, 1, 1)]);
    assert_eq!(bench.see("a", 0), [(CREATE, 1, 1)]);
    assert_eq!(bench.series.stats().cache.bytes, 0);
    let refused = Series::new(
        SeriesOptions::default().heartbeat(Duration::ZERO),
        &bench.names,
    );
    assert_eq!(refused.err().map(|error| error.option), Some("heartbeat"));
}

/// client-go keeps the first note, because events.k8s.io/v1 forbids changing it, and shows no
/// other.
#[test]
fn the_last_note_is_shown_as_an_annotation_if_asked_for() {
    let patch = |options: SeriesOptions, notes: &[&str]| {
        let mut bench = Bench::new(options.heartbeat(Duration::from_secs(1)));
        let mut body = String::new();
        for (second, note) in (0..).zip(notes) {
            let event = bench.event("web", "", "a", note, second);
            bench.series.handle_event(at(second), &event);
            let write = bench.series.poll_write().unwrap();
            assert_eq!(write.to_wire().message.as_deref(), Some(notes[0]));
            let stored = write.to_wire().metadata.annotations;
            let shown = stored.and_then(|stored| stored.get(crate::LAST_NOTE_ANNOTATION).cloned());
            body = String::from_utf8(write.patch_body()).unwrap();
            assert_eq!(shown.is_some(), body.contains("annotations"), "{body}");
        }
        let metadata = serde_json::from_str::<Value>(&body).unwrap()["metadata"].clone();
        metadata["annotations"][crate::LAST_NOTE_ANNOTATION]
            .as_str()
            .map(str::to_owned)
    };
    let shown = SeriesOptions::default().last_note(true);
    assert_eq!(patch(SeriesOptions::default(), &["1", "2"]), None);
    assert_eq!(patch(shown.clone(), &["1", "1"]), None);
    assert_eq!(patch(shown.clone(), &["1", "2"]).as_deref(), Some("2"));
    assert_eq!(patch(shown.clone(), &["1", "2", "1"]).as_deref(), Some("1"));
    let long = patch(shown.clone(), &["1", &"é".repeat(1000)]).unwrap();
    assert!(long.len() <= 1024 && long.ends_with(crate::TRUNCATION_MARKER));
    // The bytes of the last note count towards the cache's size.
    let mut bench = Bench::new(shown.cache_bytes_max(4 << 10));
    for (second, note) in [(0, "m"), (1, "m"), (2, &"n".repeat(5000))] {
        let event = bench.event("web", "", "a", note, second);
        bench.series.handle_event(at(second), &event);
    }
    let written: Vec<_> = bench.writes();
    assert_eq!(
        written.last(),
        Some(&(PATCH, 3, 1)),
        "it ends with its last count"
    );
    assert_eq!(bench.series.stats().cache.entries, 0);
}

#[test]
fn what_was_never_created_is_created_with_its_count() {
    let mut bench = Bench::new(SeriesOptions::default());
    let event = bench.event("web", "", "a", "m", 0);
    bench.series.handle_event(at(0), &event);
    let create = bench.series.poll_write().unwrap();
    bench.series.lost(&create);
    assert_eq!(bench.see("other", 1), [(CREATE, 1, 1)]);
    bench.series.handle_event(at(2), &event);
    assert_eq!(bench.writes(), [(CREATE, 2, 1)]);
}

#[derive(Clone, Debug)]
enum Step {
    See(u8),
    Pass(i64),
    Early(usize),
    Write,
    Answer(usize, Way),
    Expire,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Arrives,
    AnswerLost,
    Lost,
    Refused,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let way = prop_oneof![
        6 => Just(Way::Arrives), 1 => Just(Way::AnswerLost), 2 => Just(Way::Lost), 1 => Just(Way::Refused),
    ];
    let step = prop_oneof![
        8 => (0_u8..4).prop_map(Step::See),
        3 => prop_oneof![1_i64..20, 50_i64..400].prop_map(Step::Pass),
        1 => (0_usize..3).prop_map(Step::Early),
        6 => Just(Step::Write),
        6 => (0_usize..4, way).prop_map(|(which, way)| Step::Answer(which, way)),
        1 => Just(Step::Expire),
    ];
    prop::collection::vec(step, 1..150)
}

/// A series, its delivery and a server.
struct World {
    bench: Bench,
    delivery: Delivery<Occurrence>,
    now: i64,
    in_flight: Vec<Write<Occurrence>>,
    /// The stored events' counts, by name.
    stored: HashMap<String, i32>,
    /// The highest count that each name ever had at the server.
    highest: HashMap<String, i32>,
    recorded: u64,
    settled: u64,
    dropped: u64,
}

impl World {
    /// Performs all writes and answers that follow an input.
    fn settle(&mut self) {
        while let Some(write) = self.bench.series.poll_write() {
            self.delivery.offer(Monotonic::ZERO, write);
        }
        while let Some(settled) = self.delivery.poll_settled() {
            let events = settled.occurrence.events();
            self.settled += events;
            match settled.fate {
                Fate::Delivered => {}
                Fate::Aggregated => self.bench.series.lost(&settled.occurrence),
                Fate::Dropped(_) | Fate::Pending => {
                    self.dropped += events;
                    self.bench.series.lost(&settled.occurrence);
                }
            }
        }
    }

    fn write(&mut self) {
        if let Some(write) = self.delivery.poll_write(at(self.now).monotonic) {
            self.in_flight.push(write);
        }
    }

    fn answer(&mut self, which: usize, way: Way) {
        if self.in_flight.is_empty() {
            return;
        }
        let write = self.in_flight.swap_remove(which % self.in_flight.len());
        let refused = |code, reason: &str| {
            let reason = reason.to_owned();
            Err(WriteError::status(
                StatusFailure {
                    code,
                    reason,
                    ..StatusFailure::default()
                },
                "no",
            ))
        };
        let (name, count) = (
            write.occurrence.name().into_owned(),
            write.occurrence.count(),
        );
        let served = match (write.kind, self.stored.contains_key(&name)) {
            (OccurrenceKind::Create, true) => refused(409, "AlreadyExists"),
            (OccurrenceKind::Patch, false) => refused(404, "NotFound"),
            _ => Ok(()),
        };
        let result = match way {
            Way::Refused => refused(403, "Forbidden"),
            Way::Lost => Err(WriteError::transport("reset")),
            Way::Arrives | Way::AnswerLost => {
                if served.is_ok() {
                    self.stored.insert(name.clone(), count);
                    let highest = self.highest.entry(name).or_insert(0);
                    assert!(*highest <= count, "counts never go back");
                    *highest = count;
                }
                if let Way::AnswerLost = way {
                    Err(WriteError::timeout("silence"))
                } else {
                    served
                }
            }
        };
        self.delivery
            .handle_written(at(self.now).monotonic, write.id, result);
        self.settle();
    }
}

/// How many writes were handed out by `second`, if all due work is done at the moment it is due.
fn writes_by(bench: &mut Bench, written: &mut usize, second: i64) -> usize {
    while let Some(due) = bench.due().filter(|due| *due <= second) {
        *written += bench.pass(due).len();
    }
    *written
}

proptest! {
    /// Our rules never write more than client-go at any time. Times are whole seconds; many are
    /// multiples of six minutes, the interval of client-go's passes.
    #[test]
    fn never_more_writes_than_client_go(
        steps in prop::collection::vec((0_u8..3, prop_oneof![
            4 => 0_i64..30,
            3 => 30_i64..800,
            2 => 1700_i64..1900,
            2 => prop::sample::select(vec![359_i64, 360, 361, 719, 720, 721, 1080, 1799, 1800, 1801, 3600]),
        ]), 1..80),
    ) {
        let mut ours = Bench::new(Bench::seldom());
        let mut theirs = Bench::new(SeriesOptions::client_go());
        let (mut by_us, mut by_them, mut now) = (0, 0, 0);
        // client-go's passes begin when client-go starts.
        theirs.pass(0);
        for (pod, wait) in steps {
            for second in [now + wait / 2, now + wait] {
                let (us, them) = (writes_by(&mut ours, &mut by_us, second), writes_by(&mut theirs, &mut by_them, second));
                prop_assert!(us <= them, "{us} writes at {second} s, {them} by client-go");
            }
            now += wait;
            let pod = format!("pod-{pod}");
            by_us += ours.see(&pod, now).len();
            by_them += theirs.see(&pod, now).len();
            prop_assert!(by_us <= by_them, "{by_us} writes at {now} s, {by_them} by client-go");
        }
        let end = now + 4000;
        let (us, them) = (writes_by(&mut ours, &mut by_us, end), writes_by(&mut theirs, &mut by_them, end));
        prop_assert!(us <= them, "{us} writes in the end, {them} by client-go");
        prop_assert_eq!(ours.series.stats().behind, 0);
    }

    /// The server's counts add up to the recorded events, less at most the events counted as
    /// dropped.
    #[test]
    fn every_event_is_in_a_count_or_counted_as_dropped(
        steps in steps(),
        entries in 0_usize..6,
        client_go: bool,
        workers in 1_usize..4,
    ) {
        let options = if client_go { SeriesOptions::client_go() } else { SeriesOptions::default() };
        let delivery = DeliveryOptions { workers, ..DeliveryOptions::default() };
        let mut world = World {
            bench: Bench::new(options.cache_entries_max(entries)),
            delivery: Delivery::new(delivery, 5).unwrap(),
            now: 0,
            in_flight: Vec::new(),
            stored: HashMap::new(),
            highest: HashMap::new(),
            recorded: 0,
            settled: 0,
            dropped: 0,
        };
        for step in steps {
            match step {
                Step::See(pod) => {
                    let event = world.bench.event(&format!("pod-{pod}"), "", "a", "m", world.now);
                    world.bench.series.handle_event(at(world.now), &event);
                    world.recorded += 1;
                }
                Step::Pass(seconds) => {
                    world.now += seconds;
                    // Early writes are made in portions; each portion makes progress.
                    let now = at(world.now).monotonic;
                    let open = world.bench.series.stats().cache.entries;
                    for portion in 0.. {
                        prop_assert!(portion <= open);
                        world.bench.series.handle_timeout(now, 1);
                        world.settle();
                        if world.bench.series.poll_timeout().is_none_or(|due| due > now) {
                            break;
                        }
                    }
                }
                Step::Early(writes) => {
                    let behind = world.bench.series.stats().behind;
                    world.bench.series.write_early(at(world.now).monotonic, writes);
                    let fewer = behind - world.bench.series.stats().behind;
                    prop_assert!(fewer >= behind.min(writes as u64), "one of each series at least");
                }
                Step::Write => world.write(),
                Step::Answer(which, way) => world.answer(which, way),
                Step::Expire => world.stored.clear(),
            }
            world.settle();
            let stats = world.bench.series.stats();
            prop_assert!(stats.cache.entries <= entries);
            prop_assert!(world.settled + stats.behind <= world.recorded);
        }
        // The end, with a healthy server.
        while !world.bench.series.finish(1) {
            world.settle();
        }
        world.settle();
        world.delivery.drain();
        for _ in 0..10_000 {
            if world.delivery.pending() == 0 {
                break;
            }
            world.write();
            world.answer(0, Way::Arrives);
            world.now += 1;
        }
        prop_assert_eq!(world.delivery.pending(), 0);
        prop_assert_eq!(world.settled, world.recorded, "each event has one fate");
        let counted: i32 = world.highest.values().sum();
        let counted = u64::try_from(counted).unwrap();
        prop_assert!(counted <= world.recorded);
        prop_assert!(world.recorded - counted <= world.dropped, "{} of {}, {} dropped", counted, world.recorded, world.dropped);
        prop_assert_eq!(world.delivery.stats().dropped.get(DropCause::QueueFull), 0);
    }
}

/// A caller waits for an event of a series whose count was behind. After the write, the series is
/// next due at its end.
#[test]
fn a_series_that_is_written_early_is_not_due_before_its_end() {
    struct Awaited;
    impl EventContext for Awaited {
        fn is_awaited(&self) -> bool {
            true
        }
    }

    let heartbeat = Duration::from_secs(60);
    let mut bench = Bench::new(SeriesOptions::default().heartbeat(heartbeat));
    for second in [0, 5, 6] {
        bench.see("web", second);
    }
    assert_eq!(bench.due(), Some(65));
    let event = bench.event("web", "", "Restarting", "m", 7);
    let event = event.with_context(Arc::new(Awaited));
    bench.series.handle_event(at(7), &event);
    assert_eq!(bench.writes(), [(PATCH, 4, 2)]);
    assert_eq!(bench.due(), Some(7 + 720));
    // The second event of a series is the first repeat.
    for (second, is_repeat) in [(0, false), (1, true), (2, true)] {
        let event = bench.event("other", "", "Restarting", "m", second);
        let event = event.with_context(Arc::new(Awaited));
        bench.series.handle_event(at(second), &event);
        let write = bench.series.poll_write().expect("one that is waited for");
        assert_eq!(write.is_repeat(), is_repeat);
    }
}

#[test]
fn no_more_ends_at_once_than_are_asked_for() {
    let mut bench = Bench::new(SeriesOptions::default());
    for pod in ["a", "b", "c"] {
        for second in 0..3 {
            bench.see(pod, second);
        }
    }
    for written in [1, 1, 1] {
        assert!(!bench.series.finish(1), "it may not be all");
        assert_eq!(bench.writes().len(), written);
    }
    assert!(bench.series.finish(1));
    assert_eq!(bench.writes(), []);
}

/// client-go's `finishSeries` continues when there is room for writes. Meanwhile an event begins a
/// new series, as it would after the pass, and causes no other write.
#[test]
fn client_go_s_pass_waits_for_room() {
    let mut bench = Bench::new(SeriesOptions::client_go());
    for pod in ["a", "b", "c"] {
        for _ in 0..3 {
            bench.see(pod, 0);
        }
    }
    let pass = |bench: &mut Bench, second: i64| {
        bench.series.handle_timeout(at(second).monotonic, 1);
        bench.writes()
    };
    assert_eq!(pass(&mut bench, 361), [(PATCH, 3, 1)]);
    assert_eq!(bench.due(), Some(361), "that was not all");
    assert_eq!(bench.see("a", 362), [(PATCH, 3, 1), (CREATE, 1, 1)]);
    assert_eq!(bench.due(), Some(361), "nor was that");
    assert_eq!(pass(&mut bench, 363), [(PATCH, 3, 1)]);
    assert_eq!(bench.series.stats().behind, 0);
    assert_eq!(pass(&mut bench, 364), []);
    assert_eq!(bench.due(), Some(361 + 360));
    assert_eq!(bench.series.stats().cache.entries, 1);
}

/// The counts that are behind for the longest are written early, and no count that is up to date.
#[test]
fn by_client_go_s_rules_too_counts_are_written_early() {
    let mut bench = Bench::new(SeriesOptions::client_go());
    for (pod, times) in [("a", 2), ("b", 3), ("c", 4), ("d", 1)] {
        for _ in 0..times {
            bench.see(pod, 0);
        }
    }
    let early = |bench: &mut Bench, writes_max: usize| {
        bench.series.write_early(at(1).monotonic, writes_max);
        bench.writes()
    };
    assert_eq!(early(&mut bench, 0), []);
    assert_eq!(early(&mut bench, 1), [(PATCH, 3, 1)]);
    assert_eq!(early(&mut bench, 5), [(PATCH, 4, 2)]);
    assert_eq!(bench.series.stats().behind, 0);
    assert_eq!(early(&mut bench, 5), []);
}

/// client-go's `finishSeries` ends a series after more than six quiet minutes, not after exactly
/// six.
#[test]
fn client_go_keeps_a_series_that_was_quiet_for_just_six_minutes() {
    for (second, ended) in [(360, false), (361, true)] {
        let mut bench = Bench::new(SeriesOptions::client_go());
        assert_eq!(bench.see("web", 0), [(CREATE, 1, 1)]);
        assert_eq!(bench.see("web", 0), [(PATCH, 2, 1)]);
        let writes = bench.pass(second);
        assert_eq!(!writes.is_empty(), ended, "{writes:?}");
        let anew = bench.see("web", second);
        assert_eq!(anew == [(CREATE, 1, 1)], ended, "{anew:?}");
    }
}
