//! What the caller of a recorder sends along with an event: nothing that is written, and nothing
//! that makes two events differ.

use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Something that travels with one event, from the recorder to what becomes of it: a tracing span,
/// a caller that waits for it.
///
/// It is never written, and no part of any key. What keeps an event for longer than its write keeps
/// it without its context (a correlator's cache), or with what has to be kept of it (an open
/// series: [`EventContext::kept`]).
///
/// Its maker finds its own type again by upcasting to [`Any`].
pub trait EventContext: Any + Send + Sync {
    /// Whether a caller waits for the outcome of this event. It is then written at once
    /// and by itself: a series does not hold it back, and no later event is written in its place.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Whether an earlier process may have created this very event: a create that finds its name
    /// taken is then done.
    fn may_be_written(&self) -> bool {
        false
    }

    /// The same for mere readers of the event: without the waiting caller. Asked only of one that
    /// [is awaited](EventContext::is_awaited). Default: nothing.
    fn unawaited(&self) -> Option<Arc<dyn EventContext>> {
        None
    }

    /// What has to be kept of it with an event that is only counted for now, and written with a
    /// later one: perhaps in half an hour. Who has to be told what becomes of the event belongs
    /// there; what holds other things in memory, as a span does, does not. Default: nothing.
    fn kept(&self) -> Option<Arc<dyn EventContext>> {
        None
    }

    /// The event of `earlier` is written with this one: takes over whatever has to be told what
    /// becomes of it.
    fn absorb(&self, _earlier: &dyn EventContext) {}
}

/// `later`, which answers for `earlier` from now on.
pub(crate) fn absorb(
    later: &mut Option<Arc<dyn EventContext>>,
    earlier: Option<&Arc<dyn EventContext>>,
) {
    match (later, earlier) {
        (Some(later), Some(earlier)) => later.absorb(&**earlier),
        (later @ None, Some(earlier)) => *later = Some(Arc::clone(earlier)),
        (_, None) => {}
    }
}

/// A shared context that can be left out of comparisons and prints.
#[derive(Clone)]
pub(crate) struct SharedContext(pub(crate) Arc<dyn EventContext>);

impl fmt::Debug for SharedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedContext")
    }
}

// A context is only handed on here. What makes it is to keep it whole over a panic, so that events
// stay what they were without one.
impl UnwindSafe for SharedContext {}
impl RefUnwindSafe for SharedContext {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Span;

    impl EventContext for Span {}

    #[test]
    fn by_default_a_context_is_not_waited_for_and_not_kept() {
        assert!(!Span.is_awaited());
        assert!(!Span.may_be_written());
        assert!(Span.unawaited().is_none());
        assert!(Span.kept().is_none());
    }
}
