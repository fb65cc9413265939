//! Sorts the events of captures by the resourceVersions that they have there.
//!
//! Within a second, the resourceVersion decides which of two events came first, and a server gives
//! new ones in the order of creation. An event without a resourceVersion stays behind the one
//! before it in the file.
//!
//! Invariant: memory is bounded by [`SORTED_BYTES_MAX`] of text and by one more event. A longer
//! capture is sorted in parts.

use std::ops::ControlFlow;
use std::sync::Arc;

use tidings_cli::capture::Found;

/// Maximum text of the events that are sorted together, in bytes.
const SORTED_BYTES_MAX: usize = 32 << 20;

/// A result of the reading thread, with the name of its capture.
type Named = (Arc<str>, Found);

/// The events that are not passed on yet, each with the resourceVersion by which it is sorted.
#[derive(Default)]
pub(super) struct Sorted {
    found: Vec<(u64, Named)>,
    bytes: usize,
}

impl Sorted {
    /// Adds a result. Passes it on to `send` at once if it is no event, and all events if there are
    /// enough.
    pub(super) fn add(
        &mut self,
        (input, found): Named,
        send: &mut impl FnMut(Named) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Found::Record(record) = &found else {
            return send((input, found));
        };
        let Ok(event) = &record.event else {
            return send((input, found));
        };
        let before = self.found.last().map_or(0, |(version, _)| *version);
        let version = event.resource_version.unwrap_or(before);
        self.bytes += record.length;
        self.found.push((version, (input, found)));
        if self.bytes < SORTED_BYTES_MAX {
            return ControlFlow::Continue(());
        }
        self.flush(send)
    }

    /// Passes all events on, in their order.
    pub(super) fn flush(
        &mut self,
        send: &mut impl FnMut(Named) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.bytes = 0;
        self.found.sort_by_key(|(version, _)| *version);
        self.found.drain(..).try_for_each(|(_, named)| send(named))
    }
}
