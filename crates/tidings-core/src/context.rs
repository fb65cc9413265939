//! A value that the caller attaches to an event. It is neither written nor compared.

use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A value that stays with an event until its outcome is known. Examples are a tracing span, or a
/// caller that waits for the outcome.
///
/// The value is never written, and is not part of any key. A correlator's cache, which keeps an
/// event for longer than its write, drops the context. An open series keeps [`EventContext::kept`].
///
/// The caller gets its own type back by upcasting to [`Any`].
pub trait EventContext: Any + Send + Sync {
    /// Whether a caller waits for the outcome of this event. Default: no. Such an event is written
    /// at once and by itself: a series does not delay it, and no later event replaces it.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Whether an earlier process may have created this event. Default: no. If so, a create that
    /// finds the name taken has succeeded.
    fn may_be_written(&self) -> bool {
        false
    }

    /// The context for watchers that do not write the event, without the waiting caller. It is
    /// called only if the context [is awaited](EventContext::is_awaited). Default: no context.
    fn unawaited(&self) -> Option<Arc<dyn EventContext>> {
        None
    }

    /// The part to keep with an event that is counted now and written later with another event.
    /// That may be half an hour later. The part should include everything that needs the event's
    /// outcome, but nothing that holds other memory, such as a span. Default: nothing.
    fn kept(&self) -> Option<Arc<dyn EventContext>> {
        None
    }

    /// Takes over everything in `earlier` that needs its event's outcome. The event of `earlier` is
    /// written together with this one. Default: nothing is taken over.
    fn absorb(&self, _earlier: &dyn EventContext) {}
}

/// Makes `later` take over everything that needs the outcome of the event of `earlier`.
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

/// A shared context that comparisons and `Debug` ignore.
#[derive(Clone)]
pub(crate) struct SharedContext(pub(crate) Arc<dyn EventContext>);

impl fmt::Debug for SharedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedContext")
    }
}

// A context is only passed on here. Its maker must keep it consistent across a panic.
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
