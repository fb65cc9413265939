//! A recorder with the API of kube-rs: `kube::runtime::events` with its `Recorder`, `Event`,
//! `EventType` and `Reporter`. A program switches by changing one line; see docs/from-kube-rs.md.
//! It must also end with [`Recorder::shutdown`], because [`Recorder::publish`] does not wait for
//! the server.
//!
//! It uses this library: publishing returns as soon as the event is queued, and repeats, retries
//! and bounds are those of a [`Broadcaster`].
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::Resource;
//! use tidings::kube_rs::{Event, EventType, Recorder, Reporter}; // was: kube::runtime::events
//!
//! # async fn reconcile(config: kube::Config, pod: Pod) -> Result<(), kube::Error> {
//! let reporter = Reporter {
//!     controller: "example.com/my-controller".into(),
//!     instance: std::env::var("CONTROLLER_POD_NAME").ok(),
//! };
//! let recorder = Recorder::from_config(config, reporter)?; // or, as kube-rs's: Recorder::new(client, reporter)
//! recorder
//!     .publish(
//!         &Event {
//!             type_: EventType::Normal,
//!             reason: "Pulling".into(),
//!             note: Some("Pulling image `nginx`".into()),
//!             action: "Scheduling".into(),
//!             secondary: None,
//!         },
//!         &pod.object_ref(&()),
//!     )
//!     .await?;
//! // …
//! recorder.shutdown(std::time::Duration::from_secs(5)).await; // or the last events are lost
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Config};
use tidings_core::{EventSource, SeriesOptions};

pub use tidings_core::EventType;

use crate::sampling::is_sampled;
use crate::sync::{Mutex, lock};
use crate::{
    Acknowledgement, Broadcaster, EventBuilder, FlushReport, KubeSink, RecordError, Sink,
    SinkOptions,
};

/// The event to publish: kube-rs's `Event`, field by field.
#[derive(Clone, Debug)]
pub struct Event {
    /// The event's type.
    pub type_: EventType,
    /// The reason of the event: a short word in PascalCase.
    pub reason: String,
    /// The text for people. Cut at 1,024 bytes, not refused.
    pub note: Option<String>,
    /// The action that was taken or tried: a short word in PascalCase. An empty action is replaced
    /// by the reason, not refused.
    pub action: String,
    /// A second object that takes part.
    pub secondary: Option<ObjectReference>,
}

/// The reporting controller: kube-rs's `Reporter`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reporter {
    /// The name of the controller. The API server requires a qualified name, such as
    /// `example.com/my-controller`; an invalid one is corrected.
    pub controller: String,
    /// The replica: the pod's name, from the downward API. Default: the host's name, which in a pod
    /// is the pod's name, or else the controller's name.
    pub instance: Option<String>,
}

impl From<String> for Reporter {
    fn from(controller: String) -> Self {
        Self {
            controller,
            instance: host(),
        }
    }
}

impl From<&str> for Reporter {
    fn from(controller: &str) -> Self {
        controller.to_owned().into()
    }
}

impl Reporter {
    fn source(&self) -> EventSource {
        let source = EventSource::component(&self.controller);
        match self.instance.clone().or_else(host) {
            Some(instance) => source.reporting(&self.controller, instance),
            None => source.reporting(&self.controller, &self.controller),
        }
    }
}

/// The host's name, by the same means as in kube-rs.
fn host() -> Option<String> {
    hostname::get().ok()?.into_string().ok()
}

/// The object of an event. kube-rs's type of this name wraps an `ObjectReference`, and none of its
/// calls takes it; here it is the `ObjectReference` itself.
pub type Reference = ObjectReference;

/// Maximum recorders dropped without a shutdown whose published events are still written.
const LEFT_MAX: usize = 4_096;
/// Dropped recorders that are checked for each new one, in turn. Finished ones are removed, and a
/// drop takes the same time however many there are.
const LOOKED_AT: usize = 4;
/// Maximum pending events of all dropped recorders: as many as one recorder's queue and delivery
/// may have together.
const LEFT_EVENTS_MAX: u64 = 65_536;

/// Publishes events: kube-rs's `Recorder`. Clones share everything; make one for the program,
/// because repeats are counted within one recorder.
///
/// End the program with [`Recorder::shutdown`]. `publish` does not wait for the server, so a
/// program that ends without a shutdown loses its pending events, perhaps all of them. Dropping the
/// last clone without a shutdown never blocks: the number of pending events is logged, and they are
/// written while the program runs.
///
/// One recorder for each reconcile works, too, but each has a task, and repeats are not counted. Up
/// to 4,096 dropped recorders with up to 65,536 events may still write, while the server is away
/// for example. Beyond that, the recorders dropped first give up their events, which is logged and
/// counted.
#[derive(Clone, Debug)]
pub struct Recorder {
    broadcaster: Broadcaster,
    inner: crate::Recorder,
    _own: Option<Arc<Own>>,
}

/// The broadcaster of one recorder. It accepts no more events when the recorder's last clone is
/// dropped.
#[derive(Debug)]
struct Own(Broadcaster);

impl Drop for Own {
    fn drop(&mut self) {
        static LEFT: Mutex<Left> = Mutex::new(Left::new(LEFT_MAX, LEFT_EVENTS_MAX));
        static PENDING: AtomicU64 = AtomicU64::new(0);

        self.0.stop_intake();
        let pending = self.0.report().pending;
        if pending == 0 {
            return;
        }
        let before = PENDING.fetch_add(1, Ordering::Relaxed);
        if is_sampled(before, 1) {
            tracing::warn!(
                pending,
                recorders = before + 1,
                "recorder dropped without shutdown: pending events are lost if the program ends now; make one recorder for the program, and call its shutdown before the end"
            );
        }
        let mut left = lock(&LEFT);
        let given_up = left.push(self.0.clone(), pending);
        drop(left);
        for broadcaster in given_up {
            broadcaster.abandon();
        }
    }
}

/// Dropped recorders that still have events to write.
struct Left {
    /// The recorders in the order in which they were dropped, each with its pending events when
    /// last checked.
    recorders: VecDeque<(Broadcaster, u64)>,
    /// The sum of these pending events.
    events: u64,
    /// The index of the recorder that is checked next.
    next: usize,
    recorders_max: usize,
    events_max: u64,
}

impl Left {
    const fn new(recorders_max: usize, events_max: u64) -> Self {
        Self {
            recorders: VecDeque::new(),
            events: 0,
            next: 0,
            recorders_max,
            events_max,
        }
    }

    /// Adds a dropped recorder; returns the recorders that exceed the bounds.
    fn push(&mut self, broadcaster: Broadcaster, pending: u64) -> Vec<Broadcaster> {
        self.recorders.push_back((broadcaster, pending));
        self.events += pending;
        self.forget_done();
        let mut given_up = Vec::new();
        while !self.has_room()
            && let Some((first, pending)) = self.recorders.pop_front()
        {
            self.events -= pending;
            self.next = self.next.saturating_sub(1);
            if still_writes(&first) > 0 {
                given_up.push(first);
            }
        }
        given_up
    }

    /// Checks some recorders, and removes those that have written their events, which are usually
    /// most of them.
    fn forget_done(&mut self) {
        for _ in 0..LOOKED_AT.min(self.recorders.len()) {
            if self.next >= self.recorders.len() {
                self.next = 0;
            }
            let Some((broadcaster, pending)) = self.recorders.get_mut(self.next) else {
                return;
            };
            let now = still_writes(broadcaster);
            self.events = self.events - *pending + now;
            *pending = now;
            if now == 0 {
                self.recorders.remove(self.next);
            } else {
                self.next += 1;
            }
        }
    }

    fn has_room(&self) -> bool {
        // A single recorder's events are bounded by its options.
        self.recorders.len() <= self.recorders_max
            && (self.events <= self.events_max || self.recorders.len() == 1)
    }
}

/// The number of events that the broadcaster will still write.
fn still_writes(broadcaster: &Broadcaster) -> u64 {
    if broadcaster.is_ended() {
        return 0;
    }
    broadcaster.report().pending
}

impl Recorder {
    /// Makes a recorder with its own broadcaster, which writes events.k8s.io/v1 through `client`
    /// with the default options.
    ///
    /// It needs the same permissions as kube-rs's: `create` and `patch` on `events` of
    /// `events.k8s.io`. End with [`Recorder::shutdown`], so that the last events and counts are
    /// written.
    ///
    /// A client with kube's defaults also retries by itself, in addition to the delivery;
    /// [`Recorder::from_config`] makes one that does not.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the shape of kube-rs's call")]
    pub fn new(client: Client, reporter: Reporter) -> Self {
        Self::writing_to(KubeSink::new(client), &reporter)
    }

    /// Makes a recorder with a new client, which leaves retries to the delivery.
    ///
    /// # Errors
    /// The errors of [`KubeSink::from_config`].
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the shape of `Recorder::new`"
    )]
    pub fn from_config(config: Config, reporter: Reporter) -> Result<Self, kube::Error> {
        Ok(Self::writing_to(KubeSink::from_config(config)?, &reporter))
    }

    fn writing_to(sink: impl Sink, reporter: &Reporter) -> Self {
        let broadcaster = Broadcaster::new();
        let options = SinkOptions::default().events_v1(SeriesOptions::default());
        if let Err(error) = broadcaster.start_recording_to_sink_with(sink, options) {
            // The default options are valid.
            tracing::error!(%error, "Unable to start recording to sink (will not retry!)");
        }
        Self {
            _own: Some(Arc::new(Own(broadcaster.clone()))),
            ..Self::of(&broadcaster, reporter)
        }
    }

    /// Makes a recorder that publishes through `broadcaster`, with its options, sinks and log, and
    /// together with other [`Recorder`](crate::Recorder)s.
    #[must_use]
    pub fn of(broadcaster: &Broadcaster, reporter: &Reporter) -> Self {
        Self {
            broadcaster: broadcaster.clone(),
            inner: broadcaster.recorder(reporter.source()),
            _own: None,
        }
    }

    /// Publishes `event` about the object of `reference` without waiting for the server: a failing
    /// API server fails no reconcile.
    ///
    /// # Errors
    /// The broadcaster is shut down, or the queues are full. Errors of the server come later, and
    /// are counted, logged and retried; [`Recorder::publish_and_wait`] waits for the outcome.
    #[expect(clippy::unused_async, reason = "the shape of kube-rs's call")]
    pub async fn publish(
        &self,
        event: &Event,
        reference: &ObjectReference,
    ) -> Result<(), kube::Error> {
        self.build(event, reference).try_send().map_err(failure)
    }

    /// Publishes `event` and waits until it is written, as kube-rs does, but with the retries of
    /// every write: while the server is down, this takes minutes.
    ///
    /// # Errors
    /// The event was given up, and why; or its outcome is unknown.
    pub async fn publish_and_wait(
        &self,
        event: &Event,
        reference: &ObjectReference,
    ) -> Result<(), kube::Error> {
        let told = self.build(event, reference).send_and_wait().await;
        match told.map_err(failure)? {
            Acknowledgement::Dropped { cause, error } => {
                let error = error.map_or_else(|| cause.to_string(), |error| error.to_string());
                Err(kube::Error::Service(error.into()))
            }
            _ => Ok(()),
        }
    }

    /// Writes pending events and reports all outcomes; see [`Broadcaster::shutdown`].
    pub async fn shutdown(&self, deadline: Duration) -> FlushReport {
        self.broadcaster.shutdown(deadline).await
    }

    fn build<'a>(&'a self, event: &'a Event, reference: &ObjectReference) -> EventBuilder<'a> {
        let builder = self
            .inner
            .build(reference, event.type_, &event.reason)
            .action(&event.action)
            .message(event.note.as_deref().unwrap_or_default());
        match &event.secondary {
            Some(secondary) => builder.related(secondary),
            None => builder,
        }
    }
}

fn failure(error: RecordError) -> kube::Error {
    kube::Error::Service(error.into())
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-kube-rs.md")]
struct FromKubeRs;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySink;

    /// kube-rs's own recorder uses the host's name if it is made from a text; its documentation
    /// says the same of a missing instance.
    #[test]
    fn a_reporter_without_an_instance_has_the_host_s_name_as_in_kube_rs() {
        let theirs = kube::runtime::events::Reporter::from("example.com/test");
        let host = theirs.instance.expect("a host with a name");
        let none = Reporter {
            controller: "example.com/test".to_owned(),
            instance: None,
        };
        let own = Reporter {
            instance: Some("web-0".to_owned()),
            ..none.clone()
        };
        for (reporter, instance) in [
            ("example.com/test".into(), host.as_str()),
            ("example.com/test".to_owned().into(), &host),
            (none, &host),
            (own, "web-0"),
        ] {
            let source = reporter.source();
            assert_eq!(source.reporting_instance(), instance, "{reporter:?}");
            assert_eq!(source.reporting_controller(), "example.com/test");
        }
    }

    async fn publish(recorder: &Recorder, number: usize) {
        let event = Event {
            type_: EventType::Normal,
            reason: "Started".into(),
            note: None,
            action: "Starting".into(),
            secondary: None,
        };
        let pod = ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some("default".into()),
            name: Some(format!("web-{number}")),
            ..ObjectReference::default()
        };
        recorder.publish(&event, &pod).await.unwrap();
    }

    /// One recorder for each reconcile, as kube-rs's documentation shows.
    #[tokio::test]
    async fn what_recorders_that_are_dropped_have_published_is_written() {
        const RECORDERS: usize = 1_000;
        let sink = MemorySink::new();
        let held = sink.hold();
        for number in 0..RECORDERS {
            let recorder = Recorder::writing_to(sink.clone(), &"example.com/test".into());
            publish(&recorder, number).await;
        }
        drop(held);
        let written = async {
            while sink.events().len() < RECORDERS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), written)
            .await
            .expect("every event is written");
    }

    #[tokio::test]
    async fn what_is_left_is_bounded_in_recorders_and_in_events() {
        let mut left = Left::new(3, 10);
        let (mut recorders, none) = (Vec::new(), [0_u64; 0]);
        // Gives `left` a recorder with this number of events; returns the event counts of the
        // recorders given up for it.
        let mut push = async |events: usize| {
            let sink = MemorySink::new();
            let held = sink.hold();
            let recorder = Recorder::writing_to(sink, &"example.com/test".into());
            for number in 0..events {
                publish(&recorder, number).await;
            }
            let broadcaster = recorder.broadcaster.clone();
            let given_up = left.push(broadcaster.clone(), events as u64);
            recorders.push((recorder, held));
            let given_up = given_up.iter().map(|given_up| given_up.report().pending);
            (broadcaster, given_up.collect::<Vec<_>>())
        };
        let (_, given_up) = push(20).await;
        assert_eq!(given_up, none, "one is kept, whatever it has");
        assert_eq!(push(1).await.1, [20]);
        let (ended, _) = push(2).await;
        assert_eq!(push(3).await.1, none);
        // The recorder has ended, and will not write its events.
        assert_eq!(ended.shutdown(Duration::ZERO).await.pending, 2);
        assert_eq!(push(4).await.1, none);
        assert_eq!(push(1).await.1, [1]);
        assert_eq!(push(4).await.1, [3]);
    }

    #[tokio::test]
    async fn none_is_given_up_while_others_are_done() {
        const RECORDERS: usize = 32;
        let mut left = Left::new(RECORDERS, u64::MAX);
        let sink = MemorySink::new();
        let _held = sink.hold();
        let mut recorders: Vec<Recorder> = Vec::new();
        for number in 0..4 * RECORDERS {
            if number > 0 && number % (RECORDERS - 1) == 0 {
                // All recorders but the first have ended.
                for recorder in &recorders[1..] {
                    recorder.shutdown(Duration::ZERO).await;
                }
            }
            let recorder = Recorder::writing_to(sink.clone(), &"example.com/test".into());
            publish(&recorder, number).await;
            let given_up = left.push(recorder.broadcaster.clone(), 1);
            assert!(given_up.is_empty(), "{number}");
            recorders.push(recorder);
        }
    }

    #[tokio::test]
    async fn what_is_done_makes_room_again_and_again_for_what_is_not() {
        const RECORDERS: usize = 64;
        const WRITING: usize = 4;
        let sink = MemorySink::new();
        let _held = sink.hold();
        for (recorders_max, events_max) in [(8, u64::MAX), (usize::MAX, 8)] {
            let mut left = Left::new(recorders_max, events_max);
            let mut recorders = Vec::new();
            for number in 0..RECORDERS {
                let recorder = Recorder::writing_to(sink.clone(), &"example.com/test".into());
                if number < WRITING {
                    publish(&recorder, number).await;
                }
                // Recorders that published nothing have nothing to write when they are checked.
                let given_up = left.push(recorder.broadcaster.clone(), 1);
                assert!(given_up.is_empty(), "{number}, {events_max}");
                recorders.push(recorder);
            }
        }
    }
}
