//! Sinks: where events are written after correlation, such as an API server, a test's memory, or
//! your own destination.
//!
//! A sink makes one attempt per call and returns its result. It does not wait, count or retry: the
//! delivery does, and drops the future of an attempt to cancel it.

#[cfg(feature = "kube")]
mod access;
#[cfg(feature = "kube")]
mod access_error;
#[cfg(feature = "kube")]
mod kube;
mod memory;
#[cfg(feature = "kube")]
mod protobuf;
#[cfg(feature = "kube")]
mod response;
#[cfg(feature = "kube")]
mod said;
#[cfg(feature = "kube")]
mod versions;

use tidings_core::{EventApi, Occurrence, WriteError};

#[cfg(feature = "kube")]
pub use self::access_error::{AccessError, rules_for};
#[cfg(feature = "kube")]
pub use self::kube::KubeSink;
pub use self::memory::{Held, MemorySink, SinkAnswer, SinkCall, SinkVerb};

/// A destination of events: client-go's `EventSink`.
///
/// ```
/// use tidings::{Occurrence, Sink, WriteError};
///
/// /// Prints what would be written.
/// struct DryRun;
///
/// impl Sink for DryRun {
///     async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
///         println!("create {}/{}", occurrence.namespace(), occurrence.name());
///         Ok(())
///     }
///
///     async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
///         println!("{}/{} was seen {} times", occurrence.namespace(), occurrence.name(), occurrence.count());
///         Ok(())
///     }
/// }
/// ```
///
/// # Errors
/// The kind of the [`WriteError`] decides what happens next. After a failure that may pass, the
/// event is retried; after a patch was answered with 404, it is created; otherwise it is dropped
/// and counted. The table is at [`RetryPolicy`](crate::advanced::RetryPolicy).
pub trait Sink: Send + Sync + 'static {
    /// Writes a new event: [`Occurrence::create_body`].
    fn create(
        &self,
        occurrence: &Occurrence,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Changes an event that was written before: [`Occurrence::patch_body`], a strategic merge
    /// patch.
    ///
    /// A cancelled call may still be executed, even after the next one for the same event; the
    /// delivery cannot know. Where that can happen, the sink must have such a write refused, as
    /// `KubeSink` does ([`Occurrence::patch_body_of_version`]).
    fn patch(&self, occurrence: &Occurrence)
    -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Whether the destination accepts events in the API group `api`. Called before the first
    /// write, and only if the answer decides
    /// ([`SinkOptions::events_v1_if_served`](crate::SinkOptions::events_v1_if_served)).
    ///
    /// # Errors
    /// Why this is not known now. The default implementation always returns true.
    fn serves(&self, _api: EventApi) -> impl Future<Output = Result<bool, WriteError>> + Send {
        std::future::ready(Ok(true))
    }

    /// Checks that events can be written as `api`. Called at start, while events are written, and
    /// an error is only logged. If the sink decides the API group
    /// ([`SinkOptions::events_v1_if_served`](crate::SinkOptions::events_v1_if_served)), this is
    /// called before the first write, and core/v1 is written if only that is possible.
    ///
    /// # Errors
    /// [`WriteError::invalid`] with the problem and its remedy. After any other error the check is
    /// repeated. The default implementation returns no error.
    fn check(&self, _api: EventApi) -> impl Future<Output = Result<(), WriteError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Replaces an event. The delivery never calls this, and neither does client-go's. It is for
    /// programs that use a sink directly.
    ///
    /// # Errors
    /// The default implementation always fails, as an invalid request.
    fn update(
        &self,
        _occurrence: &Occurrence,
    ) -> impl Future<Output = Result<(), WriteError>> + Send {
        std::future::ready(Err(WriteError::invalid(
            "this sink does not replace events: it creates and patches them",
        )))
    }
}
