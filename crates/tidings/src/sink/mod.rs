//! Where correlated events are written to.

use tidings_core::{Occurrence, WriteError};

/// Something that events can be written to: client-go's `EventSink`.
pub trait Sink: Send + Sync + 'static {
    /// Writes a new event.
    fn create(
        &self,
        occurrence: &Occurrence,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Changes an event that was written before.
    fn patch(&self, occurrence: &Occurrence)
    -> impl Future<Output = Result<(), WriteError>> + Send;
}
