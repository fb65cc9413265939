//! Events that the spill returns.

use tidings_core::Event;

/// An event and its place in the spill.
pub(crate) struct Kept {
    pub(crate) event: Event,
    /// `None` if there was no room for it.
    pub(crate) sequence: Option<u64>,
    /// Whether an earlier process may have written it.
    pub(crate) recovered: bool,
}

/// Events that are not on disk.
pub(super) fn in_memory(events: Vec<Event>) -> Vec<Kept> {
    let kept = |event| Kept {
        event,
        sequence: None,
        recovered: false,
    };
    events.into_iter().map(kept).collect()
}
