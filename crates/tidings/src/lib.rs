//! Kubernetes Events for controllers: record an event with one call that never waits. tidings
//! counts repeats, combines similar events, retries, and delivers.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use tidings::EventType::Normal;
//! use tidings::Broadcaster;
//! # #[cfg(feature = "kube")]
//! use tidings::KubeSink;
//!
//! # #[cfg(feature = "kube")]
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! tracing_subscriber::fmt().init(); // shows why events cannot be written
//! let broadcaster = Broadcaster::new();
//! broadcaster.start_structured_logging();
//! broadcaster.start_recording_to_sink(KubeSink::from_config(kube::Config::infer().await?)?);
//! let recorder = broadcaster.recorder("example-controller");
//!
//! # let (pod, code) = (Pod::default(), 3);
//! recorder.event(&pod, Normal, "PodCreated", "created");
//! recorder.warning(&pod, "PodFailed", format_args!("exit code {code}"));
//!
//! let report = broadcaster.shutdown(Duration::from_secs(5)).await;
//! println!("{report}"); // 2 events offered: 2 delivered, 0 aggregated, 0 dropped, 0 pending
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "kube"))]
//! # fn main() {}
//! ```
//!
//! It implements client-go's `tools/record`, with the same rules, and with the same names where
//! Rust has no better ones, but without its losses.
//!
//! # The path of an event
//!
//! ```text
//! Recorder ──▶ Broadcaster ──┬─▶ your function                 start_event_watcher
//!  makes it     one order,   ├─▶ lines of text, or tracing     start_logging, start_structured_logging
//!  and returns  bounded      ├─▶ a stream                      watch
//!               queues       └─▶ correlate ─▶ deliver ─▶ Sink  start_recording_to_sink
//! ```
//!
//! A **[`Recorder`]** is cheap to clone and works on any thread, in an async runtime or without
//! one. A call makes the event, appends it to the queues and returns. Failures are logged and
//! counted, not returned, because recording an event must not stop the work that it reports on.
//! Every type with a Kubernetes kind can be the object: see [`ToReference`].
//!
//! The **[`Broadcaster`]** passes every event to all watchers started on it, in one order. Each
//! watcher has its own queue, bounded in events and in bytes ([`advanced::QueueOptions`]), so that
//! a slow one does not affect the others.
//!
//! A **[`Sink`]** writes events: `KubeSink` to an API server, [`MemorySink`] to memory, for tests.
//! Before it,
//! - *correlation* counts repeats, combines ten similar events within ten minutes into one, and
//!   limits floods ([`advanced::CorrelatorOptions`]); the first event of each kind always passes;
//! - *delivery* keeps several writes in flight, keeps the writes of one key in order, and retries
//!   temporary failures; a failing event delays no other ([`advanced::DeliveryOptions`],
//!   [`advanced::RetryPolicy`]).
//!
//! # More than a message
//!
//! ```
//! # use tidings::{Broadcaster, EventType::{Normal, Warning}};
//! # use k8s_openapi::api::core::v1::{Node, Pod};
//! # let broadcaster = Broadcaster::new();
//! # let recorder = broadcaster.recorder("example");
//! # let (pod, node) = (Pod::default(), Node::default());
//! recorder
//!     .build(&pod, Warning, "BackOff")
//!     .message("back-off restarting failed container")
//!     .field_path("spec.containers{nginx}")
//!     .action("Restart")
//!     .related(&node)
//!     .annotation("example.com/attempt", "4")
//!     .send();
//!
//! let yesterday = "2026-01-01T00:00:00Z".parse()?;
//! recorder.past(&pod, yesterday, Normal, "Imported", "from another cluster");
//! # Ok::<(), jiff::Error>(())
//! ```
//!
//! # Losses are counted
//!
//! Every queue, cache and retry is bounded (except retries of events on disk while the server is
//! out of reach). Events can therefore be lost: if the server is down for too long or limits their
//! rate, or if the program records faster than the server writes. Each loss is counted by its
//! cause, and at any time
//!
//! ```text
//! offered = delivered + aggregated + filtered + dropped, by cause + pending
//! ```
//!
//! holds: in the [`FlushReport`] of [`Broadcaster::shutdown`], in [`Broadcaster::report`], in
//! [`Watch::counts`], and in the [`metrics`], where pending events of an ended sink become
//! abandoned. [`DropCause`] has the causes. With the defaults, all events of a burst of 20,000
//! arrive.
//!
//! End the program with [`Broadcaster::shutdown`]: it delivers pending events until the deadline
//! and reports the others. With [`SinkOptions::spill`], pending events are kept on disk for the
//! next process, as are the events of a killed process.
//!
//! # Options
//!
//! Three presets are all that most programs need:
//!
//! | | |
//! |---|---|
//! | [`BroadcasterOptions::default`] | fixes what client-go's users complain about; counts are up to date within half a minute |
//! | [`BroadcasterOptions::few_writes`] | as few writes as possible; counts are up to half an hour old |
//! | [`BroadcasterOptions::client_go`] | client-go's behaviour, call for call |
//!
//! Single options have setters, and their types are in [`advanced`].
//!
//! ```
//! use std::time::Duration;
//! use tidings::advanced::{Backoff, CorrelatorOptions, DeliveryOptions, RetryPolicy};
//! use tidings::{Broadcaster, BroadcasterOptions, SinkOptions};
//!
//! let (first, max) = (Duration::from_secs(1), Duration::from_secs(30));
//! let retry = RetryPolicy::default().tries_max(12).backoff(Backoff::Exponential { first, max });
//! let sink = SinkOptions::default()
//!     .correlator(CorrelatorOptions::default().spam_burst(50))
//!     .delivery(DeliveryOptions::default().workers(4).retry(retry));
//! let broadcaster = Broadcaster::with_options(BroadcasterOptions::default().sink(sink))?;
//! # Ok::<(), tidings::InvalidBroadcasterOptions>(())
//! ```
//!
//! # core/v1 or events.k8s.io/v1
//!
//! The calls are the same; the API group is an option of the sink. In core/v1, the default, repeats
//! have a count and similar events are combined. In events.k8s.io/v1 ([`SinkOptions::events_v1`])
//! repeats form a series, which keeps the note of its first event
//! ([`SeriesOptions::last_note`](advanced::SeriesOptions::last_note) shows the last one). Its
//! second event is written at once, later ones as counts. Give such events an action
//! ([`EventBuilder::action`]).
//!
//! In both, a count that has not changed for five seconds, or has doubled since it was last
//! written, is written within half a minute. For this a sink has a budget of 100 writes at once and
//! one each second. [`SeriesOptions::heartbeat`](advanced::SeriesOptions::heartbeat) replaces these
//! refreshes; with half an hour there are never more writes than client-go makes.
//!
//! Programs for unknown clusters leave the choice to the sink. [`SinkOptions::events_v1_if_served`]
//! asks the server once, before the first write, and falls back to core/v1 with all fields of an
//! event. Only an answer decides: an unreachable server is asked again, while events wait.
//!
//! # Waiting for one event
//!
//! [`Recorder::record_and_wait`] returns the outcome of one event, and
//! [`BroadcasterOptions::follow_spans`] logs it in the `tracing` span in which it was recorded.
//!
//! # From kube-rs
//!
//! `tidings::kube_rs` has kube-rs's `Recorder`, `Event`, `EventType` and `Reporter`: a program
//! switches by changing one `use`, and ends with its `shutdown`.
//!
//! # Tests
//!
//! [`testing`] has a recorder without a cluster, whose events can be read as typed values or as
//! client-go's lines. [`MemorySink`] keeps the written events, and fails or hangs on request.
//! [`Clock::manual`] sets the time by hand.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use tidings::{EventType::Warning, testing};
//!
//! let (recorder, mut events) = testing::recorder();
//! recorder.warning(&Pod::default(), "BackOff", "restarting failed container");
//! events.assert_recorded(Warning, "BackOff");
//! events.assert_no_more();
//! ```
//!
//! # Permissions
//!
//! The program's service account needs `create` and `patch` on `events` of the core group (of
//! `events.k8s.io` for [`SinkOptions::events_v1`]), in the namespaces of its objects, and for
//! cluster-scoped objects in `default` (or in [`BroadcasterOptions::cluster_scoped_namespace`]).
//! `KubeSink::check_access` asks for them at start and names missing rules.
//!
//! # Cargo features
//!
//! - `kube` (default): `KubeSink`, and references from every type with kube's `Resource`. Without
//!   it, references are made from k8s-openapi's types, and events go to your own sinks.
//!
//! k8s-openapi needs to know the version of Kubernetes: the program enables one of its `v1_*`
//! features, or `latest`. To build this library alone, choose one on the command line: `cargo check
//! -p tidings --features k8s-openapi/latest`.
//!
//! # What this does not do
//!
//! - It neither reads nor watches events; kube's `Api` does.

mod acknowledgement;
mod broadcaster;
mod builder;
mod clock;
mod config;
mod delivery;
mod drops;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use spill::fuzzing;
mod intake;
#[cfg(feature = "kube")]
pub mod kube_rs;
mod logging;
pub mod metrics;
mod mux;
#[cfg(test)]
mod mux_tests;
mod object;
mod outage;
mod questions;
mod recorder;
mod registry;
mod report;
mod rules;
mod runtime;
mod sampling;
mod sink;
mod spill;
mod sync;
mod tally;
pub mod testing;
mod watcher;

pub use acknowledgement::Acknowledgement;
pub use broadcaster::Broadcaster;
pub use builder::EventBuilder;
pub use clock::{Clock, ManualClock};
pub use config::{BroadcasterOptions, InvalidBroadcasterOptions, InvalidSinkOptions, SinkOptions};
pub use error::{BroadcasterStopped, RecordError, ReferenceError, StartSinkError};
pub use object::{ToReference, kind};
pub use recorder::Recorder;
pub use report::{Counts, FlushReport};
pub use sink::*;
pub use spill::{SpillError, SpillOptions};
pub use tidings_core::{
    DropCause, DropCounts, Event, EventApi, EventContext, EventSource, EventType,
    LAST_NOTE_ANNOTATION, OMITTED_ANNOTATION, Occurrence, OccurrenceKind, Reference,
    ReferenceFields, StatusFailure, WriteError, WriteErrorKind,
};
pub use watcher::{EventWatcher, Watch};

/// The types of single options, for settings beyond the three presets of [`BroadcasterOptions`]:
/// bounds of queues, correlation, series, delivery, retries, and the namespace of events about
/// cluster-scoped objects.
///
/// Each is a value with a default and a setter for each option; they are checked when the
/// broadcaster is made, and an error names the option, its value and what is accepted.
pub mod advanced {
    pub use tidings_core::{
        AggregateKey, Backoff, ClusterScopedNamespace, CorrelatorOptions, DeliveryOptions,
        FixedNamespace, InvalidCorrelatorOptions, InvalidDeliveryOptions, InvalidNamespace,
        InvalidSeriesOptions, Overflow, RetryPolicy, SeriesOptions, StatusErrors,
    };

    pub use crate::config::{QueueOptions, WhenFull};
}
