//! A recorder that is called as kube-rs's is: `kube::runtime::events` with its `Recorder`, `Event`, `EventType` and `Reporter`, so that a program
//! switches by one line. docs/from-kube-rs.md has the way.
//!
//! What is behind it is this library: a publish returns as soon as the event is on its way, and repeats, retries and bounds are those of a
//! [`Broadcaster`].
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::Resource;
//! use tidings::kube_rs::{Event, EventType, Recorder, Reporter}; // was: kube::runtime::events
//!
//! # async fn reconcile(client: kube::Client, pod: Pod) -> Result<(), kube::Error> {
//! let reporter = Reporter {
//!     controller: "example.com/my-controller".into(),
//!     instance: std::env::var("CONTROLLER_POD_NAME").ok(),
//! };
//! let recorder = Recorder::new(client, reporter);
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
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tidings_core::{EventSource, SeriesOptions};

pub use tidings_core::EventType;

use crate::{
    Acknowledgement, Broadcaster, EventBuilder, FlushReport, KubeSink, RecordError, SinkOptions,
};

/// What is published: kube-rs's `Event`, field by field.
#[derive(Clone, Debug)]
pub struct Event {
    /// How bad it is.
    pub type_: EventType,
    /// Why it happened: a short word in PascalCase.
    pub reason: String,
    /// What a person should read. Cut at 1,024 bytes, not refused.
    pub note: Option<String>,
    /// What was done or tried: a short word in PascalCase. An empty one is replaced by the reason, not refused.
    pub action: String,
    /// A second object that takes part.
    pub secondary: Option<ObjectReference>,
}

/// Who publishes: kube-rs's `Reporter`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reporter {
    /// The name of the controller. The API server wants a qualified name, such as `example.com/my-controller`; what is none is made one.
    pub controller: String,
    /// Which of its replicas: the pod's name, from the downward API. Without one it is the controller's name; kube-rs looks for the host's.
    pub instance: Option<String>,
}

impl From<String> for Reporter {
    fn from(controller: String) -> Self {
        Self {
            controller,
            instance: None,
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
        match &self.instance {
            Some(instance) => source.reporting(&self.controller, instance),
            None => source,
        }
    }
}

/// Publishes events: kube-rs's `Recorder`. Clones share everything; make one for the program, as repeats are counted within one.
#[derive(Clone, Debug)]
pub struct Recorder {
    broadcaster: Broadcaster,
    recorder: crate::Recorder,
}

impl Recorder {
    /// A recorder with a broadcaster of its own, which writes events.k8s.io/v1 through `client` with the default options.
    ///
    /// It needs what kube-rs's needs: `create` and `patch` on `events` of `events.k8s.io`. End with [`Recorder::shutdown`], so that the last
    /// events and counts are written.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the shape of kube-rs's call")]
    pub fn new(client: Client, reporter: Reporter) -> Self {
        let broadcaster = Broadcaster::new();
        let options = SinkOptions::default().events_v1(SeriesOptions::default());
        if let Err(error) = broadcaster.start_recording_to_sink_with(KubeSink::new(client), options)
        {
            // The defaults are valid.
            tracing::error!(%error, "Unable to start recording to sink (will not retry!)");
        }
        Self::of(&broadcaster, &reporter)
    }

    /// A recorder that publishes through `broadcaster`: with options, sinks and log of the program's choice, and shared with
    /// [`Recorder`](crate::Recorder)s.
    #[must_use]
    pub fn of(broadcaster: &Broadcaster, reporter: &Reporter) -> Self {
        Self {
            broadcaster: broadcaster.clone(),
            recorder: broadcaster.recorder(reporter.source()),
        }
    }

    /// Publishes `event` about the object of `reference`, without waiting for the server: a failing API server fails no reconcile.
    ///
    /// # Errors
    /// The broadcaster is shut down, or the queues are full. What the server says comes later, and is counted,
    /// logged, and tried again; [`Recorder::publish_and_wait`] waits for it.
    #[expect(clippy::unused_async, reason = "the shape of kube-rs's call")]
    pub async fn publish(
        &self,
        event: &Event,
        reference: &ObjectReference,
    ) -> Result<(), kube::Error> {
        self.build(event, reference).try_send().map_err(failure)
    }

    /// Publishes `event` and waits until it is written, as kube-rs's does, but with the tries of every write: while the server is down that
    /// takes minutes.
    ///
    /// # Errors
    /// The event was given up, and why; or nobody could say what became of it.
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

    /// Writes what is pending and says what became of everything: [`Broadcaster::shutdown`].
    pub async fn shutdown(&self, deadline: Duration) -> FlushReport {
        self.broadcaster.shutdown(deadline).await
    }

    fn build<'a>(&'a self, event: &'a Event, reference: &ObjectReference) -> EventBuilder<'a> {
        let builder = self
            .recorder
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
