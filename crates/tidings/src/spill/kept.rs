//! Events as the spill returns them.

use tidings_core::Event;

/// An event and its sequence number in the spill.
pub(crate) struct Kept {
    pub(crate) event: Event,
    /// The event's sequence number; `None` if there was no room on disk.
    pub(crate) sequence: Option<u64>,
    /// Whether an earlier process may have written the event to the server.
    pub(crate) recovered: bool,
}

/// Wraps events that are not on disk.
pub(super) fn in_memory(events: Vec<Event>) -> Vec<Kept> {
    let kept = |event| Kept {
        event,
        sequence: None,
        recovered: false,
    };
    events.into_iter().map(kept).collect()
}
