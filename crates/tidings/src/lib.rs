//! Kubernetes Events for controllers: record them with one call that never waits, and they arrive, counted, combined and tried again.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use tidings::EventType::Normal;
//! use tidings::{Broadcaster, EventSource};
//! # #[cfg(feature = "kube")]
//! use tidings::KubeSink;
//!
//! # #[cfg(feature = "kube")]
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broadcaster = Broadcaster::new();
//! broadcaster.start_structured_logging(tracing::Level::INFO);
//! broadcaster.start_recording_to_sink(KubeSink::from_config(kube::Config::infer().await?)?);
//! let recorder = broadcaster.recorder(EventSource::component("example-controller"));
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
//! This is client-go's `tools/record`, under its names where Rust has no better ones, with its rules and without its losses.
//!
//! # The path of an event
//!
//! ```text
//! Recorder ──▶ Broadcaster ──┬─▶ your function                 start_event_watcher
//!  makes it     one order,   ├─▶ lines of text, or tracing     start_logging, start_structured_logging
//!  and returns  bounded      ├─▶ whoever reads                 watch
//!               queues       └─▶ correlate ─▶ deliver ─▶ Sink  start_recording_to_sink
//! ```
//!
//! A **[`Recorder`]** is cheap to clone and works on any thread, in an async runtime or without one. A call makes the event, puts it into
//! the queues and returns; it fails quietly, for reporting an event must not stop the work it reports. Whatever can say what it is can be
//! the object: see [`ToReference`].
//!
//! The **[`Broadcaster`]** gives every event to everything that was started on it, in one order. Each watcher has a queue of its own, bounded
//! in events and in bytes ([`QueueOptions`]), so that a slow one costs the others nothing.
//!
//! A **[`Sink`]** is what events are written to: `KubeSink` an API server, [`MemorySink`] a test's memory. Before it,
//! - *correlation* turns repeats into a count, ten similar events within ten minutes into one that says so, and a flood into a trickle
//!   ([`CorrelatorOptions`]); the first event of each kind always gets through;
//! - *delivery* keeps several writes in flight but those of one key in order, tries again what may succeed later, and lets one failing
//!   event hold up no other ([`DeliveryOptions`], [`RetryPolicy`]).
//!
//! # More than a message
//!
//! ```
//! # use tidings::{Broadcaster, EventSource, EventType::{Normal, Warning}};
//! # use k8s_openapi::api::core::v1::{Node, Pod};
//! # let broadcaster = Broadcaster::new();
//! # let recorder = broadcaster.recorder(EventSource::component("example"));
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
//! # Nothing is lost without a name
//!
//! Every queue, cache and retry is bounded (but for those while the server is out of reach, where
//! events lie on disk), so events can be lost: to a server that is down for too long, or that
//! limits their rate, or to a program that records faster than it can be written. Each loss is
//! counted by its cause, and at any time
//!
//! ```text
//! offered = delivered + aggregated + dropped, by cause + pending
//! ```
//!
//! holds: in the [`FlushReport`] of [`Broadcaster::shutdown`], in [`Broadcaster::report`], in [`Watch::counts`], and in the [`metrics`], where
//! what an ended sink leaves is no longer pending but abandoned. The
//! causes are those of [`DropCause`]. With the defaults a burst of 20,000 events arrives whole.
//!
//! End with [`Broadcaster::shutdown`]: it delivers what is pending if the deadline allows, and says what it could not. With
//! [`SinkOptions::spill`] that is kept on disk, for the next process, and so is what a process had that was killed.
//!
//! # Options
//!
//! The defaults mend what client-go's users complain of. [`BroadcasterOptions::client_go`] behaves as client-go does, call for call.
//!
//! ```
//! use std::time::Duration;
//! use tidings::{Backoff, Broadcaster, BroadcasterOptions, CorrelatorOptions, DeliveryOptions, RetryPolicy, SinkOptions};
//!
//! let retry = RetryPolicy {
//!     tries_max: 12,
//!     backoff: Backoff::Exponential { first: Duration::from_secs(1), max: Duration::from_secs(30) },
//!     ..RetryPolicy::default()
//! };
//! let sink = SinkOptions::default()
//!     .correlator(CorrelatorOptions::default().spam_burst(50))
//!     .delivery(DeliveryOptions { workers: 4, retry, ..DeliveryOptions::default() });
//! let broadcaster = Broadcaster::with_options(BroadcasterOptions::default().sink(sink))?;
//! # Ok::<(), tidings::InvalidBroadcasterOptions>(())
//! ```
//!
//! # core/v1 or events.k8s.io/v1
//!
//! The calls are the same; what is written is an option of the sink. As core/v1 events, the default, repeats are a count and similar events are
//! combined. As events.k8s.io/v1 events ([`SinkOptions::events_v1`]) repeats are a series, which by default is never written more often than
//! client-go would: its second event at once, then every half hour while it goes on, and its last count twelve minutes after its last event, or
//! at shutdown. [`SeriesOptions::heartbeat`] buys a fresher count with more writes. Give such events an action ([`EventBuilder::action`]).
//!
//! A program that runs in clusters it does not know leaves the choice to the sink: [`SinkOptions::events_v1_if_served`] asks the server once,
//! before the first write, and falls back to core/v1 with everything an event has. Only an answer counts: a server that is out of reach is asked
//! again, and events wait meanwhile.
//!
//! # Waiting for one event
//!
//! [`Recorder::record_and_wait`] says what became of one event, and [`BroadcasterOptions::follow_spans`] logs that in the `tracing` span it was
//! recorded in.
//!
//! # From kube-rs
//!
//! `tidings::kube_rs` has kube-rs's `Recorder`, `Event`, `EventType` and `Reporter`: a program switches by changing one `use`.
//!
//! # Tests
//!
//! [`testing`] has a recorder without a cluster and what it recorded, as typed events or as client-go's lines. [`MemorySink`] keeps what
//! would lie in the cluster, and fails or hangs when told to. [`Clock::manual`] moves the time by hand.
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
//! The program's service account needs `create` and `patch` on `events` of the core group (of `events.k8s.io` for [`SinkOptions::events_v1`]), in the namespaces of the objects it reports
//! about, and in `default` for cluster-scoped objects (or where [`BroadcasterOptions::cluster_scoped_namespace`] sends those).
//! `KubeSink::check_access` asks for them at start, and says which rule is missing.
//!
//! # Cargo features
//!
//! - `kube` (default): `KubeSink`, and references made from anything with kube's `Resource`. Without it, k8s-openapi's types can be
//!   referred to, and events go to sinks of your own.
//!
//! k8s-openapi must know the version of Kubernetes: the program turns on one of its `v1_*` features, or `latest`. Built by itself this
//! library has none, and needs one from the command line: `cargo check -p tidings --features k8s-openapi/latest`.
//!
//! # What this does not do
//!
//! - It neither reads nor watches events; kube's `Api` does.

mod acknowledgement;
mod broadcaster;
mod clock;
mod config;
mod delivery;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use spill::fuzzing;
#[cfg(feature = "kube")]
pub mod kube_rs;
mod logging;
pub mod metrics;
mod mux;
#[cfg(test)]
mod mux_tests;
mod object;
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
pub mod testing;
mod watcher;

pub use acknowledgement::Acknowledgement;
pub use broadcaster::Broadcaster;
pub use clock::{Clock, ManualClock};
pub use config::{
    BroadcasterOptions, InvalidBroadcasterOptions, InvalidSinkOptions, QueueOptions, SinkOptions,
    WhenFull,
};
pub use error::{BroadcasterStopped, RecordError, ReferenceError};
pub use object::{ToReference, kind};
pub use recorder::{EventBuilder, Recorder};
pub use report::{Counts, FlushReport};
pub use sink::*;
pub use spill::{SpillError, SpillOptions};
pub use tidings_core::{
    AggregateKey, Backoff, ClusterScopedNamespace, CorrelatorOptions, DeliveryOptions, DropCause,
    DropCounts, Event, EventApi, EventContext, EventSource, EventType, FixedNamespace,
    InvalidCorrelatorOptions, InvalidDeliveryOptions, InvalidNamespace, InvalidSeriesOptions,
    LAST_NOTE_ANNOTATION, OMITTED_ANNOTATION, Occurrence, OccurrenceKind, Overflow, Reference,
    ReferenceFields, RetryPolicy, SeriesOptions, StatusErrors, StatusFailure, WriteError,
    WriteErrorKind,
};
pub use watcher::{EventWatcher, Watch};
