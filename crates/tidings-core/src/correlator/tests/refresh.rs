//! Refreshes within their budget: counts do not stay behind. Counts the writes of an hour, beside
//! those by client-go's rules; docs/compatibility/recording.md has the figures.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::{
    ClusterScopedNamespace, Correlated, Correlator, CorrelatorOptions, Event, EventSource,
    EventType, Monotonic, NameStamps, NewEvent, Now, Occurrence, OccurrenceKind, Reference,
    ReferenceFields, Series, SeriesOptions, TEXT_BYTES_MAX,
};

const SECOND: i64 = 1_000_000_000;

/// The time `millis` after the clock's start, which is the start of 2024.
fn at(millis: i64) -> Now {
    Now {
        monotonic: Monotonic::from_nanos(millis * 1_000_000),
        wall: Timestamp::from_millisecond(1_704_067_200_000 + millis).expect("a time"),
    }
}

/// A correlator or a series, all of whose writes arrive at once.
struct Sink {
    rules: Rules,
    names: Arc<NameStamps>,
    writes: usize,
    refreshes: usize,
    /// The counts that the server shows, by name.
    shown: HashMap<String, i32>,
}

enum Rules {
    Counts(Box<Correlator>),
    Series(Box<Series>),
}

impl Sink {
    fn counts(options: CorrelatorOptions) -> Self {
        let names = Arc::new(NameStamps::new(3));
        let correlator = Correlator::new(options, Arc::clone(&names)).expect("valid options");
        Self::new(Rules::Counts(Box::new(correlator)), names)
    }

    fn series(options: SeriesOptions) -> Self {
        let names = Arc::new(NameStamps::new(3));
        let series = Series::new(options, &names).expect("valid options");
        Self::new(Rules::Series(Box::new(series)), names)
    }

    fn new(rules: Rules, names: Arc<NameStamps>) -> Self {
        Self {
            rules,
            names,
            writes: 0,
            refreshes: 0,
            shown: HashMap::new(),
        }
    }

    fn event(&self, pod: usize, message: &str, millis: i64) -> Event {
        let regarding = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: &format!("web-{pod}"),
            ..ReferenceFields::default()
        });
        let new = NewEvent {
            source: &EventSource::component("example.com/ctl").host("node-1"),
            regarding: &regarding,
            related: None,
            event_type: EventType::Warning,
            reason: "BackOff",
            action: "Restarting",
            message: &message,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        Event::new(&new, &self.names, at(millis).wall)
    }

    /// Performs all work that is due up to `millis`.
    fn pass(&mut self, millis: i64) {
        let end = at(millis).monotonic;
        loop {
            let due = match &self.rules {
                Rules::Counts(correlator) => correlator.poll_timeout(),
                Rules::Series(series) => series.poll_timeout(),
            };
            let Some(now) = due.filter(|due| *due <= end) else {
                return;
            };
            match &mut self.rules {
                Rules::Counts(correlator) => {
                    let refresh = correlator.poll_refresh(now);
                    self.refreshes += usize::from(refresh.is_some());
                    if let Some(write) = refresh {
                        self.write(&write);
                    }
                }
                Rules::Series(series) => {
                    series.handle_timeout(now, usize::MAX);
                    let before = self.writes;
                    self.write_series();
                    self.refreshes += self.writes - before;
                }
            }
        }
    }

    fn see(&mut self, pod: usize, message: &str, millis: i64) {
        self.pass(millis);
        let event = self.event(pod, message, millis);
        match &mut self.rules {
            Rules::Counts(correlator) => {
                if let Correlated::Write(write) = correlator.correlate(at(millis), &event) {
                    correlator.acknowledged(&write);
                    self.write(&write);
                }
            }
            Rules::Series(series) => {
                series.handle_event(at(millis), &event);
                self.write_series();
            }
        }
    }

    fn write_series(&mut self) {
        let Rules::Series(series) = &mut self.rules else {
            return;
        };
        let writes: Vec<_> = std::iter::from_fn(|| series.poll_write()).collect();
        for write in &writes {
            self.write(write);
        }
    }

    fn write(&mut self, write: &Occurrence) {
        self.writes += 1;
        let before = self.shown.insert(write.name().into_owned(), write.count());
        assert_eq!(write.kind() == OccurrenceKind::Create, before.is_none());
        assert!(before.is_none_or(|before| before <= write.count()));
    }

    /// The sum of the counts that the server shows.
    fn sum(&self) -> i32 {
        self.shown.values().sum()
    }
}

/// A correlator and a series, both with default options.
fn defaults() -> [Sink; 2] {
    [
        Sink::counts(CorrelatorOptions::default()),
        Sink::series(SeriesOptions::default()),
    ]
}

#[test]
fn a_count_that_is_settled_is_shown_after_five_seconds() {
    for mut sink in defaults() {
        for number in 0..40 {
            sink.see(0, "m", number * 100);
        }
        let before = sink.sum();
        sink.pass(8_899);
        assert_eq!(
            sink.sum(),
            before,
            "the spam filter or the series holds it back"
        );
        sink.pass(8_900);
        assert_eq!(sink.sum(), 40);
        // No count is behind any more, and refreshes are half a minute apart.
        sink.pass(20_000);
        assert_eq!((sink.sum(), sink.refreshes), (40, 1));
        sink.see(0, "m", 20_000);
        sink.pass(38_899);
        assert_eq!((sink.sum(), sink.refreshes), (40, 1));
        sink.pass(38_900);
        assert_eq!((sink.sum(), sink.refreshes), (41, 2));
    }
}

/// A count that never stops changing is refreshed each time it has doubled.
#[test]
fn an_hour_of_an_event_each_second_shows_counts_that_double() {
    let mut written = Vec::new();
    for (mut sink, is_refreshed) in [
        (Sink::counts(CorrelatorOptions::client_go()), false),
        (Sink::counts(CorrelatorOptions::default()), true),
        (Sink::series(SeriesOptions::client_go()), false),
        (
            Sink::series(SeriesOptions::default().heartbeat(Duration::from_secs(30 * 60))),
            false,
        ),
        (Sink::series(SeriesOptions::default()), true),
    ] {
        for second in 0..3600 {
            sink.see(0, "m", second * 1000);
            if is_refreshed && second > 60 {
                let most = 2 * sink.sum() + 40;
                assert!(second as i32 <= most, "{} at {second} s", sink.sum());
            }
        }
        written.push((sink.writes, sink.sum()));
        if is_refreshed {
            sink.pass(3_700_000);
            assert_eq!(sink.sum(), 3600);
        }
    }
    // Writes, and the count that the server shows at the end of the hour.
    assert_eq!(
        written,
        [(36, 3301), (39, 3301), (3, 1800), (3, 1801), (9, 2131)]
    );
}

/// The shared budget: 100 refreshes at once, and one more each second.
#[test]
fn a_thousand_objects_in_a_loop_have_one_budget() {
    let mut written = Vec::new();
    for mut sink in [
        Sink::counts(CorrelatorOptions::client_go()),
        Sink::counts(CorrelatorOptions::default()),
        Sink::series(SeriesOptions::client_go()),
        Sink::series(SeriesOptions::default().heartbeat(Duration::from_secs(30 * 60))),
        Sink::series(SeriesOptions::default()),
    ] {
        for minute in 0..60 {
            for (pod, millis) in (0..1000).zip((0..).step_by(60)) {
                sink.see(pod, "m", minute * 60_000 + millis);
            }
        }
        written.push((sink.writes, sink.sum()));
    }
    // Writes for 60,000 events, and how many of the events the server shows at the end of the hour.
    assert_eq!(
        written,
        [
            (36_000, 56_000),
            (37_834, 56_384),
            (3_000, 30_000),
            (3_000, 31_000),
            (5_574, 48_498),
        ]
    );
}

/// The last combined event shows its own message, and combined events are refreshed, too.
#[test]
fn a_refresh_of_combined_events_has_the_last_message() {
    let mut sink = Sink::counts(CorrelatorOptions::default());
    let mut correlator = match sink.rules {
        Rules::Counts(correlator) => correlator,
        Rules::Series(_) => unreachable!("it counts"),
    };
    sink.rules = Rules::Series(Box::new(
        Series::new(SeriesOptions::default(), &sink.names).expect("valid options"),
    ));
    for number in 0..60 {
        let event = sink.event(0, &number.to_string(), number * 10);
        correlator.correlate(at(number * 10), &event);
    }
    // Five seconds after the first held-back event the count is checked; it is still changing.
    let first = correlator.poll_timeout().expect("a look");
    assert_eq!(first.as_nanos(), 5_250_000_000);
    assert!(correlator.poll_refresh(first).is_none());
    let due = correlator.poll_timeout().expect("a refresh");
    assert_eq!(due.as_nanos(), 5_590_000_000);
    let refresh = correlator.poll_refresh(due).expect("a refresh");
    assert_eq!(refresh.message(), "(combined from similar events): 59");
    assert_eq!((refresh.count(), refresh.events()), (51, 35));
    assert_eq!(refresh.held_back(), 35);
    assert!(refresh.is_aggregate() && correlator.poll_timeout().is_none());
}

/// At the end every count that is behind is written, whatever the budget.
#[test]
fn the_end_shows_every_count() {
    let mut sink = Sink::counts(CorrelatorOptions::default());
    for pod in 0..300 {
        for _ in 0..30 {
            sink.see(pod, "m", 0);
        }
    }
    assert_eq!(sink.sum(), 300 * 25);
    let Rules::Counts(correlator) = &mut sink.rules else {
        unreachable!("it counts")
    };
    let last: Vec<_> =
        std::iter::from_fn(|| correlator.poll_last(Monotonic::from_nanos(SECOND))).collect();
    for write in &last {
        sink.write(write);
    }
    assert_eq!((last.len(), sink.sum()), (300, 300 * 30));
}
