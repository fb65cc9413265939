//! For tests of programs that record events: a recorder without a cluster, and the events it
//! recorded.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use tidings::{EventType::Warning, testing};
//!
//! let (recorder, mut events) = testing::recorder();
//! recorder.event(&Pod::default(), Warning, "BackOff", "restarting failed container");
//!
//! let event = events.assert_recorded(Warning, "BackOff");
//! assert_eq!(event.message(), "restarting failed container");
//! events.assert_no_more();
//! ```
//!
//! If several tasks record, the order of events is not known. [`RecordedEvents::assert_contains`]
//! and [`RecordedEvents::assert_about`] then find an event anywhere, and
//! [`RecordedEvents::wait_for`] waits for one. [`report`] makes reports.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use tidings_core::{DropCause, Event, EventSource, EventType, Reference};

use crate::config::BroadcasterOptions;
use crate::intake::Intake;
use crate::object::ToReference;
use crate::recorder::Recorder;
use crate::report::{Counts, FlushReport};
use crate::watcher::EventWatcher;

/// How long [`RecordedEvents::wait_for`] waits at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a recorder with the component `testing`, and the events that it records: client-go's
/// `FakeRecorder`, with events instead of strings.
///
/// Recording never waits. A caller of [`Recorder::record_and_wait`] gets `Delivered` at once, also
/// for a repeat, because events are not correlated here. Up to 32,768 unread events are kept; later
/// ones are counted as missed, and a waiting caller gets an error.
pub fn recorder() -> (Recorder, RecordedEvents) {
    recorder_with(&BroadcasterOptions::default(), "testing")
}

/// Makes the recorder of a test with options (a manual clock, a namespace policy, a queue's length)
/// and a chosen source. The options are not checked; those of sinks have no effect.
pub fn recorder_with(
    options: &BroadcasterOptions,
    source: impl Into<EventSource>,
) -> (Recorder, RecordedEvents) {
    let intake = Intake::delivering(options);
    let recorder = Recorder::new(std::sync::Arc::clone(&intake), source.into());
    let events = RecordedEvents {
        // A new broadcaster is not shut down, so this does not fail.
        watcher: intake
            .mux
            .watch_to_write()
            .ok()
            .map(|receiver| EventWatcher::new(std::sync::Arc::clone(&intake.mux), receiver)),
        passed: VecDeque::new(),
    };
    (recorder, events)
}

/// Makes a report with these outcomes, whose counts add up, for tests of code that reads reports.
///
/// ```
/// use tidings::{DropCause, FlushReport, testing};
///
/// fn exit_code(report: &FlushReport) -> u8 {
///     if report.is_complete() { 0 } else { 1 }
/// }
///
/// assert_eq!(exit_code(&testing::report(3, &[], 0)), 0);
/// assert_eq!(exit_code(&testing::report(3, &[(DropCause::QueueFull, 2)], 0)), 1);
/// assert_eq!(exit_code(&testing::report(3, &[], 1)), 1);
/// ```
///
/// Other counts are fields: `report.aggregated = 2; report.offered += 2;`.
pub fn report(delivered: u64, dropped: &[(DropCause, u64)], pending: u64) -> FlushReport {
    let mut sinks = Counts {
        delivered,
        pending,
        ..Counts::default()
    };
    for (cause, events) in dropped {
        sinks.dropped.add(*cause, *events);
    }
    sinks.offered = delivered + sinks.dropped.total() + pending;
    FlushReport::new(sinks, Counts::default())
}

/// The events of a recorder of this module, in order. Reading an event removes it.
#[derive(Debug)]
pub struct RecordedEvents {
    watcher: Option<EventWatcher>,
    /// Events that a search read from the watcher without taking them: the next ones.
    passed: VecDeque<Event>,
}

impl RecordedEvents {
    /// Removes and returns the next event, if one was recorded.
    pub fn next_event(&mut self) -> Option<Event> {
        self.passed
            .pop_front()
            .or_else(|| self.watcher.as_mut().and_then(EventWatcher::try_recv))
    }

    /// Waits for the next event. Never returns `None`, as recorders of this module are not shut
    /// down.
    pub async fn recv(&mut self) -> Option<Event> {
        if let Some(event) = self.passed.pop_front() {
            return Some(event);
        }
        match &mut self.watcher {
            Some(watcher) => watcher.recv().await,
            None => None,
        }
    }

    /// Removes and returns all events recorded since the last call.
    pub fn take(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next_event()).collect()
    }

    /// Removes and returns all events as lines, in the format of client-go's `FakeRecorder`: see
    /// [`line()`].
    pub fn take_lines(&mut self) -> Vec<String> {
        self.take().iter().map(line).collect()
    }

    /// The number of events missed because too many were unread.
    pub fn missed(&self) -> u64 {
        self.watcher
            .as_ref()
            .map_or(0, |watcher| watcher.counts().dropped.total())
    }

    /// Returns the next event, and asserts that it has this type and reason.
    ///
    /// # Panics
    /// If nothing was recorded, or another event.
    #[track_caller]
    pub fn assert_recorded(&mut self, event_type: EventType, reason: &str) -> Event {
        match self.next_event() {
            Some(event) if is(&event, event_type, reason) => event,
            Some(event) => panic!(
                "expected the event \"{event_type} {reason} …\", but \"{}\" was recorded",
                line(&event)
            ),
            None => panic!(
                "expected the event \"{event_type} {reason} …\", but none was recorded{}",
                self.missed_note()
            ),
        }
    }

    /// Removes and returns the first event of this type and reason, wherever it is among the
    /// recorded ones. The others stay, in order.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// use tidings::{EventType::{Normal, Warning}, testing};
    ///
    /// let (recorder, mut events) = testing::recorder();
    /// recorder.normal(&Pod::default(), "Started", "up");
    /// recorder.warning(&Pod::default(), "BackOff", "down");
    /// events.assert_contains(Warning, "BackOff");
    /// events.assert_contains(Normal, "Started");
    /// events.assert_no_more();
    /// ```
    ///
    /// # Panics
    /// If there is no such event.
    #[track_caller]
    pub fn assert_contains(&mut self, event_type: EventType, reason: &str) -> Event {
        self.find(|event| is(event, event_type, reason))
            .unwrap_or_else(|| {
                panic!(
                    "expected the event \"{event_type} {reason} …\", but {}",
                    self.others()
                )
            })
    }

    /// Removes and returns the first event of this type and reason about `object`, by its kind,
    /// namespace, name and uid.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # let (mut web, mut other) = (Pod::default(), Pod::default());
    /// # (web.metadata.name, other.metadata.name) = (Some("web-0".into()), Some("web-1".into()));
    /// use tidings::{EventType::Warning, testing};
    ///
    /// let (recorder, mut events) = testing::recorder();
    /// recorder.warning(&other, "BackOff", "restarting web-1");
    /// recorder.warning(&web, "BackOff", "restarting web-0");
    /// let event = events.assert_about(&web, Warning, "BackOff");
    /// assert_eq!(event.message(), "restarting web-0");
    /// ```
    ///
    /// # Panics
    /// If there is no such event, or `object` cannot be converted to a reference.
    #[track_caller]
    pub fn assert_about<Kind>(
        &mut self,
        object: &impl ToReference<Kind>,
        event_type: EventType,
        reason: &str,
    ) -> Event {
        let object = match object.to_reference() {
            Ok(object) => object,
            Err(error) => panic!("no event can be about this object: {error}"),
        };
        let identity = |object: &Reference| {
            let (namespace, name) = (object.namespace(), object.name());
            [object.kind(), namespace, name, object.uid()].map(str::to_owned)
        };
        let wanted = identity(&object);
        self.find(|event| is(event, event_type, reason) && identity(event.regarding()) == wanted)
            .unwrap_or_else(|| {
                panic!(
                    "expected the event \"{event_type} {reason} …\" about {object}, but {}",
                    self.others()
                )
            })
    }

    /// Waits for an event of this type and reason, and removes and returns the first one. The
    /// others stay, in order.
    ///
    /// # Panics
    /// If no such event is recorded within 30 s, which tokio's paused time skips; or outside a
    /// tokio runtime.
    pub async fn wait_for(&mut self, event_type: EventType, reason: &str) -> Event {
        if let Some(event) = self.find(|event| is(event, event_type, reason)) {
            return event;
        }
        let Self { watcher, passed } = self;
        let search = async {
            // Without a watcher nothing is ever recorded.
            while let Some(event) = watcher.as_mut()?.recv().await {
                if is(&event, event_type, reason) {
                    return Some(event);
                }
                passed.push_back(event);
            }
            None
        };
        let found = tokio::time::timeout(PATIENCE, search).await;
        found.ok().flatten().unwrap_or_else(|| {
            panic!(
                "waited for the event \"{event_type} {reason} …\", but {}",
                self.others()
            )
        })
    }

    /// Removes the first event for which `is_wanted` is true.
    fn find(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Option<Event> {
        let watcher = self.watcher.as_mut();
        let queued = watcher.map(|watcher| std::iter::from_fn(|| watcher.try_recv()));
        self.passed.extend(queued.into_iter().flatten());
        let place = self.passed.iter().position(is_wanted)?;
        self.passed.remove(place)
    }

    /// The recorded events, for the message of a failed assertion.
    fn others(&mut self) -> String {
        let recorded = self.take_lines();
        if recorded.is_empty() {
            return format!("none was recorded{}", self.missed_note());
        }
        let (recorded, missed) = (recorded.join("\n  "), self.missed_note());
        format!("these were recorded:\n  {recorded}{missed}")
    }

    /// Removes all events, and asserts that their lines are exactly these.
    ///
    /// # Panics
    /// If they differ.
    #[track_caller]
    pub fn assert_lines(&mut self, expected: &[&str]) {
        let recorded = self.take_lines();
        assert!(
            recorded == expected,
            "expected these events:\n  {}\nbut these were recorded:\n  {}{}",
            expected.join("\n  "),
            recorded.join("\n  "),
            self.missed_note()
        );
    }

    /// Asserts that no more events were recorded.
    ///
    /// # Panics
    /// If there is another event.
    #[track_caller]
    pub fn assert_no_more(&mut self) {
        let recorded = self.take_lines();
        assert!(
            recorded.is_empty(),
            "expected no more events, but these were recorded:\n  {}",
            recorded.join("\n  ")
        );
    }

    fn missed_note(&self) -> String {
        match self.missed() {
            0 => String::new(),
            missed => format!(" ({missed} were missed: the queue was full)"),
        }
    }
}

fn is(event: &Event, event_type: EventType, reason: &str) -> bool {
    event.event_type() == event_type.as_str() && event.reason() == reason
}

/// `<type> <reason> <message>`, and ` map[key:value …]` where there are annotations: the line of
/// client-go's `record.FakeRecorder`, and of `events.FakeRecorder`.
pub fn line(event: &Event) -> String {
    let mut line = head(event);
    push_annotations(&mut line, event);
    line
}

/// The line that `line()` returns, with ` involvedObject{kind=K,apiVersion=V}` before the
/// annotations: `record.FakeRecorder` with `IncludeObject`.
pub fn line_with_object(event: &Event) -> String {
    let mut line = head(event);
    line.push_str(" involvedObject");
    push_kind(&mut line, event.regarding());
    push_annotations(&mut line, event);
    line
}

/// `<type> <reason> <action> <message> {kind=K,apiVersion=V}`, then the braces of a related object,
/// then the annotations: `events.FakeRecorder` with `Verbose`.
pub fn verbose_line(event: &Event) -> String {
    let mut line = format!(
        "{} {} {} {}",
        event.event_type(),
        event.reason(),
        event.action(),
        event.message()
    );
    let objects = std::iter::once(event.regarding()).chain(event.related());
    for object in
        objects.filter(|object| !(object.kind().is_empty() && object.api_version().is_empty()))
    {
        line.push(' ');
        push_kind(&mut line, object);
    }
    push_annotations(&mut line, event);
    line
}

fn head(event: &Event) -> String {
    format!(
        "{} {} {}",
        event.event_type(),
        event.reason(),
        event.message()
    )
}

fn push_kind(line: &mut String, object: &Reference) {
    // Writing to a String does not fail.
    let _ = write!(
        line,
        "{{kind={},apiVersion={}}}",
        object.kind(),
        object.api_version()
    );
}

/// Appends the annotations as Go's `fmt.Sprint` writes a map.
fn push_annotations(line: &mut String, event: &Event) {
    if let Some(annotations) = event.annotations() {
        let pairs: Vec<_> = annotations
            .iter()
            .map(|(key, value)| format!("{key}:{value}"))
            .collect();
        // Writing to a String does not fail.
        let _ = write!(line, " map[{}]", pairs.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;
    use crate::EventType::{Normal, Warning};
    use crate::config::QueueOptions;

    #[test]
    #[should_panic(expected = "but these were recorded:\n  Normal Started one")]
    fn an_event_too_many_is_shown() {
        let (recorder, mut events) = recorder();
        events.assert_no_more();
        recorder.normal(&Pod::default(), "Started", "one");
        events.assert_no_more();
    }

    #[test]
    fn the_queue_of_client_go_is_short() {
        let bounds = [
            BroadcasterOptions::client_go(),
            BroadcasterOptions::default(),
        ]
        .map(|options| options.queue.events_max);
        assert_eq!(bounds, [1_000, QueueOptions::default().events_max]);
        assert!(bounds[0] < bounds[1]);
    }

    #[tokio::test]
    async fn events_come_one_by_one() {
        let (recorder, mut events) = recorder();
        assert!(events.next_event().is_none());
        recorder.normal(&Pod::default(), "Started", "one");
        recorder.normal(&Pod::default(), "Started", "two");
        let awaited = events.recv().await.expect("one is there");
        let next = events.next_event().expect("one more is there");
        assert_eq!((awaited.message(), next.message()), ("one", "two"));
        assert!(events.next_event().is_none());
    }

    #[test]
    fn lines_are_those_of_client_go() {
        let (recorder, mut events) = recorder();
        recorder.normal(&Pod::default(), "Started", "100 %");
        recorder.annotated(
            &Pod::default(),
            [("k2", "v2"), ("k1", "v1")],
            Warning,
            "Failed",
            "no",
        );
        recorder
            .build(&Pod::default(), Normal, "Bound")
            .message("to node")
            .action("Binding")
            .related(&Node::default())
            .annotation("k", "v")
            .send();
        let recorded = events.take();
        let lines = |line: fn(&Event) -> String| recorded.iter().map(line).collect::<Vec<_>>();
        assert_eq!(
            lines(line),
            [
                "Normal Started 100 %",
                "Warning Failed no map[k1:v1 k2:v2]",
                "Normal Bound to node map[k:v]",
            ]
        );
        assert_eq!(
            lines(line_with_object)[1],
            "Warning Failed no involvedObject{kind=Pod,apiVersion=v1} map[k1:v1 k2:v2]"
        );
        assert_eq!(
            lines(verbose_line)[2],
            "Normal Bound Binding to node {kind=Pod,apiVersion=v1} {kind=Node,apiVersion=v1} map[k:v]"
        );
        assert_eq!(
            lines(verbose_line)[0],
            "Normal Started  100 % {kind=Pod,apiVersion=v1}"
        );
    }

    #[test]
    fn what_is_not_looked_at_never_blocks() {
        let options = BroadcasterOptions::default().queue(QueueOptions::default().events_max(2));
        let (recorder, mut events) = recorder_with(&options, "test");
        for message in ["1", "2", "3"] {
            recorder.normal(&Pod::default(), "Counted", message);
        }
        assert_eq!(events.missed(), 1);
        events.assert_lines(&["Normal Counted 1", "Normal Counted 2"]);
        events.assert_no_more();
    }

    #[tokio::test]
    async fn whoever_waits_is_told_at_once() {
        use crate::{Acknowledgement, RecordError};

        let options = BroadcasterOptions::default().queue(QueueOptions::default().events_max(2));
        let (recorder, mut events) = recorder_with(&options, "test");
        let pod = Pod::default();
        for message in ["1", "1"] {
            let told = recorder.record_and_wait(&pod, Normal, "Counted", message);
            let told = told.await.unwrap();
            let recorded = events.assert_recorded(Normal, "Counted");
            let expected = Acknowledgement::Delivered {
                namespace: recorded.namespace().to_owned(),
                name: recorded.name().into_owned(),
                count: 1,
            };
            assert_eq!(told, expected);
        }
        recorder.normal(&pod, "Counted", "2");
        recorder.normal(&pod, "Counted", "3");
        let told = recorder.record_and_wait(&pod, Normal, "Counted", "4");
        assert_eq!(told.await, Err(RecordError::QueueFull));
        drop(events);
        let told = recorder.record_and_wait(&pod, Normal, "Counted", "5");
        assert_eq!(told.await, Err(RecordError::NoSink));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_found_whatever_came_before_it_and_awaited_if_it_comes_later() {
        let pod = |name: &str| Pod {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: Some("7".to_owned()),
                ..Default::default()
            },
            ..Pod::default()
        };
        let (recorder, mut events) = recorder();
        for (name, reason) in [("a", "1"), ("b", "2"), ("a", "2"), ("b", "3")] {
            recorder.warning(&pod(name), reason, name);
        }
        let mut other_version = pod("a");
        other_version.metadata.resource_version = None;
        let event = events.assert_about(&other_version, Warning, "2");
        assert_eq!(event.message(), "a");
        assert_eq!(events.assert_contains(Warning, "3").message(), "b");
        assert_eq!(events.wait_for(Warning, "2").await.message(), "b");
        let later = async {
            tokio::time::sleep(PATIENCE / 2).await;
            recorder.normal(&pod("a"), "4", "no warning");
            recorder.warning(&pod("a"), "4", "later");
        };
        let (event, ()) = tokio::join!(events.wait_for(Warning, "4"), later);
        assert_eq!(event.message(), "later");
        let left: Vec<_> = [events.recv().await.unwrap()]
            .into_iter()
            .chain(events.take())
            .collect();
        let left: Vec<_> = left.iter().map(line).collect();
        assert_eq!(left, ["Warning 1 a", "Normal 4 no warning"]);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(
        expected = "waited for the event \"Warning BackOff …\", but these were recorded:\n  Normal Started up"
    )]
    async fn a_wait_for_what_does_not_come_ends() {
        let (recorder, mut events) = recorder();
        recorder.normal(&Pod::default(), "Started", "up");
        events.wait_for(Warning, "BackOff").await;
    }

    fn panic_of(test: impl FnOnce() + std::panic::UnwindSafe) -> String {
        *std::panic::catch_unwind(test)
            .unwrap_err()
            .downcast::<String>()
            .unwrap()
    }

    #[test]
    fn failed_assertions_say_what_was_recorded() {
        let (recorder, mut events) = recorder();
        recorder.normal(&Pod::default(), "Started", "up");
        assert_eq!(
            panic_of(move || {
                events.assert_recorded(Warning, "BackOff");
            }),
            "expected the event \"Warning BackOff …\", but \"Normal Started up\" was recorded"
        );
        let (recorder, mut events) = super::recorder();
        recorder.normal(&Pod::default(), "Started", "up");
        assert_eq!(
            panic_of(move || {
                events.assert_about(&Node::default(), Normal, "Started");
            }),
            "expected the event \"Normal Started …\" about node, but these were recorded:\n  Normal Started up"
        );
        let (recorder, mut events) = super::recorder();
        assert_eq!(
            panic_of(move || {
                events.assert_contains(Normal, "Started");
            }),
            "expected the event \"Normal Started …\", but none was recorded"
        );
        assert_eq!(
            panic_of(move || {
                let (_, mut events) = super::recorder();
                events.assert_about(&None::<Pod>, Normal, "Started");
            }),
            "no event can be about this object: there is no object to refer to: the given option is None"
        );
        drop(recorder);
        let (recorder, mut events) = super::recorder();
        assert_eq!(
            panic_of(move || events.assert_lines(&["Normal Started up"])),
            "expected these events:\n  Normal Started up\nbut these were recorded:\n  "
        );
        drop(recorder);
    }
}
