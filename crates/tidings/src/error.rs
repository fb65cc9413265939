//! Errors before an event is queued: one enum for each operation.

use std::fmt;

use crate::config::InvalidSinkOptions;

/// Why an object cannot be converted to a reference.
///
/// client-go's errors of `tools/reference.GetReference`, without those that Rust's types rule out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The object is `None`.
    #[error("there is no object to refer to: the given option is None")]
    NoObject,
    /// The object has no kind: a `DynamicObject` without `types`, or with an empty kind.
    #[error(
        "the object {name:?} does not say what kind it is: set apiVersion and kind in its types"
    )]
    MissingKind {
        /// The object's name, or empty.
        name: String,
    },
}

/// Why an event was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The event's object cannot be converted to a reference.
    #[error("could not construct reference, will not report event: {0}")]
    Reference(#[from] ReferenceError),
    /// The broadcaster is shut down.
    #[error(transparent)]
    Stopped(#[from] BroadcasterStopped),
    /// The last handle of the broadcaster was dropped without a shutdown.
    #[error(
        "the broadcaster was dropped: keep a handle of it for as long as events are recorded, and end with its shutdown"
    )]
    Dropped,
    /// No sink had room for the event, or too many events wait for watchers that must not miss any
    /// ([`WhenFull::Wait`](crate::advanced::WhenFull::Wait)).
    #[error("too many queued events, dropped event")]
    QueueFull,
    /// The tokio runtime of every sink has ended, and the sinks with it. The event is dropped as
    /// [`RuntimeGone`](crate::DropCause::RuntimeGone).
    #[error(
        "the runtime of the sink has ended, dropped event: start the sink on a runtime that lives as long as the program"
    )]
    RuntimeGone,
    /// The outcome of the event is unknown:
    /// [`Broadcaster::start_recording_to_sink`](crate::Broadcaster::start_recording_to_sink) was
    /// not called, or its sink has ended. Handlers did get the event.
    #[error("no sink writes events: start_recording_to_sink was not called, or its sink has ended")]
    NoSink,
    /// The broadcaster ended before the event was written, or during its write; it may have
    /// arrived.
    #[error("the broadcaster ended before the outcome of the event was known")]
    Abandoned,
}

/// Why a sink was not started.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StartSinkError {
    /// An option is out of range, or the folder of a spill cannot be used.
    #[error(transparent)]
    Options(#[from] InvalidSinkOptions),
    /// The broadcaster is shut down.
    #[error(transparent)]
    Stopped(#[from] BroadcasterStopped),
}

/// The broadcaster is shut down: it takes no events and starts no watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcasterStopped;

impl fmt::Display for BroadcasterStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcaster already stopped")
    }
}

impl std::error::Error for BroadcasterStopped {}
