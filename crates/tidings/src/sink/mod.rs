//! Where events are written to, after correlation: an API server, the memory of a test, or
//! something of your own.
//!
//! A sink makes one attempt per call and says how it went. It does not wait, count or try again:
//! the delivery does, and it drops the future of an attempt to cancel it.

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
/// The kind of the [`WriteError`] decides what happens next: an event is tried again after a
/// failure that may pass, created after a patch was answered with 404, and dropped and counted
/// otherwise. The table is at [`RetryPolicy`](crate::advanced::RetryPolicy).
pub trait Sink: Send + Sync + 'static {
    /// Writes a new event: [`Occurrence::create_body`].
    fn create(
        &self,
        occurrence: &Occurrence,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Changes an event that was written before: [`Occurrence::patch_body`], a strategic merge
    /// patch.
    ///
    /// A call may be given up and its write be done anyway, later than the next one for the same
    /// event: the delivery cannot know. Where that can happen it is for the sink to have such a
    /// write refused, as `KubeSink` does ([`Occurrence::patch_body_of_version`]).
    fn patch(&self, occurrence: &Occurrence)
    -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Whether events can be written as `api`. Asked before the first write, and only where the
    /// answer decides
    /// ([`SinkOptions::events_v1_if_served`](crate::SinkOptions::events_v1_if_served)).
    ///
    /// # Errors
    /// Why that cannot be said now. Unless a sink has its own: never, it takes either.
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
    /// repeated. The default implementation returns none.
    fn check(&self, _api: EventApi) -> impl Future<Output = Result<(), WriteError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Replaces an event. The delivery never does that, as client-go's does not; it is here for
    /// those who write to a sink by hand.
    ///
    /// # Errors
    /// Unless a sink has its own: always, as an invalid request.
    fn update(
        &self,
        _occurrence: &Occurrence,
    ) -> impl Future<Output = Result<(), WriteError>> + Send {
        std::future::ready(Err(WriteError::invalid(
            "this sink does not replace events: it creates and patches them",
        )))
    }
}
