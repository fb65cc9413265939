//! Kubernetes Events for Rust controllers.

mod broadcaster;
mod clock;
mod config;
mod delivery;
mod error;
mod logging;
pub mod metrics;
mod mux;
mod object;
mod recorder;
mod registry;
mod report;
mod runtime;
mod sink;
mod sync;
pub mod testing;
mod watcher;

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
pub use tidings_core::{
    AggregateKey, Backoff, ClusterScopedNamespace, CorrelatorOptions, DeliveryOptions, DropCause,
    DropCounts, Event, EventSource, EventType, InvalidCorrelatorOptions, InvalidDeliveryOptions,
    Occurrence, OccurrenceKind, Overflow, Reference, ReferenceFields, RetryPolicy, StatusErrors,
    StatusFailure, WriteError, WriteErrorKind,
};
pub use watcher::{EventWatcher, Watch};
