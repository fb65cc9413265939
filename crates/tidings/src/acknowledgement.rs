//! The context that a recorder attaches to an event: a caller that waits for its outcome, and the
//! span in which it was recorded.
//!
//! Invariants: an event with a waiting caller is written separately, so that the outcome of the
//! write is the event's own. A wait ends when the last sink ends.

use std::any::Any;
use std::sync::Arc;

use tidings_core::{DropCause, Event, EventContext, Fate, Occurrence, WriteError};
use tokio::sync::{oneshot, watch};
use tracing::Span;

use crate::error::RecordError;
use crate::sync::{Mutex, MutexGuard, lock};

/// The outcome of one event: the result of
/// [`Recorder::record_and_wait`](crate::Recorder::record_and_wait).
///
/// With several sinks, it is the worst of their outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgement {
    /// The event was written: as an event of its own, as a repeat of an earlier one, or combined
    /// with similar ones.
    Delivered {
        /// The namespace of the stored event.
        namespace: String,
        /// The name of the stored event.
        name: String,
        /// How often the stored event was seen, including this time: 1 for a new one.
        count: i32,
    },
    /// The spam filter held the event back. Its count is written later, to a stored event.
    Filtered {
        /// The namespace of the stored event.
        namespace: String,
        /// The name of the stored event.
        name: String,
        /// How often the stored event was seen, including this time.
        count: i32,
    },
    /// The event was given up.
    Dropped {
        /// The drop cause.
        cause: DropCause,
        /// The server's answer, if there was one.
        error: Option<WriteError>,
    },
}

impl Acknowledgement {
    /// Whether the event was written, separately or in a count.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Delivered { .. })
    }

    fn badness(&self) -> u8 {
        match self {
            Self::Delivered { .. } => 0,
            Self::Filtered { .. } => 1,
            Self::Dropped { .. } => 2,
        }
    }
}

/// The context of an event: its span, its waiting caller, and its places in the spill.
pub(crate) struct Context {
    /// The span in which it was recorded.
    pub(crate) span: Span,
    ticket: Option<Arc<Ticket>>,
    /// The sequence numbers in the spill of the events that this write settles.
    spilled: Mutex<Vec<u64>>,
    recovered: bool,
}

/// A waiting caller.
struct Ticket {
    state: Arc<Mutex<TicketState>>,
    /// Dropped with the last clone of the event, which ends the wait.
    _alive: oneshot::Sender<()>,
}

#[derive(Default)]
struct TicketState {
    /// The number of sinks that took the event, once it is known.
    sinks: Option<usize>,
    /// The number of sinks that have reported an outcome.
    said: usize,
    worst: Option<Acknowledgement>,
    done: Option<oneshot::Sender<()>>,
}

impl EventContext for Context {
    fn is_awaited(&self) -> bool {
        self.ticket.is_some()
    }

    fn may_be_written(&self) -> bool {
        self.recovered
    }

    fn unawaited(&self) -> Option<Arc<dyn EventContext>> {
        let span = self.span.clone();
        (!span.is_none()).then(|| Arc::new(Self::new(span, None)) as Arc<dyn EventContext>)
    }

    fn kept(&self) -> Option<Arc<dyn EventContext>> {
        let spilled = self.take_spilled();
        (!spilled.is_empty()).then(|| {
            Arc::new(Self {
                span: Span::none(),
                ticket: None,
                spilled: Mutex::new(spilled),
                recovered: self.recovered,
            }) as Arc<dyn EventContext>
        })
    }

    fn absorb(&self, earlier: &dyn EventContext) {
        let earlier: &dyn Any = earlier;
        if let Some(earlier) = earlier.downcast_ref::<Self>() {
            let mut less = earlier.take_spilled();
            let mut spilled = self.spilled();
            // One of the lists may be long, because it has all events of a series. So the shorter
            // one is appended to the longer.
            if spilled.len() < less.len() {
                std::mem::swap(&mut *spilled, &mut less);
            }
            spilled.append(&mut less);
        }
    }
}

impl Context {
    /// The context of an event recorded in the caller's span, if the caller is in one.
    pub(crate) fn of_span() -> Option<Arc<dyn EventContext>> {
        let span = Span::current();
        (!span.is_none()).then(|| Arc::new(Self::new(span, None)) as Arc<dyn EventContext>)
    }

    fn new(span: Span, ticket: Option<Arc<Ticket>>) -> Self {
        Self {
            span,
            ticket,
            spilled: Mutex::default(),
            recovered: false,
        }
    }

    /// The context of an event for one sink only: its sequence number in that sink's spill, if it
    /// has one.
    pub(crate) fn spilled_at(
        earlier: Option<&Self>,
        place: Option<u64>,
        recovered: bool,
    ) -> Arc<dyn EventContext> {
        Arc::new(Self {
            span: earlier.map_or_else(Span::none, |earlier| earlier.span.clone()),
            ticket: earlier.and_then(|earlier| earlier.ticket.clone()),
            spilled: Mutex::new(place.into_iter().collect()),
            recovered,
        })
    }

    /// Takes the sequence numbers of all events that this event's write settles.
    pub(crate) fn take_spilled(&self) -> Vec<u64> {
        std::mem::take(&mut *self.spilled())
    }

    fn spilled(&self) -> MutexGuard<'_, Vec<u64>> {
        lock(&self.spilled)
    }

    /// The context of an event with a waiting caller. Every sink that takes the event has to report
    /// its outcome.
    pub(crate) fn awaited(span: Span) -> (Arc<dyn EventContext>, Wait) {
        let (alive, gone) = oneshot::channel();
        let (done, stamped) = oneshot::channel();
        let state = Arc::new(Mutex::new(TicketState {
            done: Some(done),
            ..TicketState::default()
        }));
        let ticket = Ticket {
            state: Arc::clone(&state),
            _alive: alive,
        };
        let context = Arc::new(Self::new(span, Some(Arc::new(ticket))));
        let wait = Wait {
            state,
            stamped,
            gone,
        };
        (context, wait)
    }

    /// The context, if this library made it.
    pub(crate) fn of(context: Option<&Arc<dyn EventContext>>) -> Option<&Self> {
        let context: &dyn Any = &**context?;
        context.downcast_ref()
    }

    /// Reports the outcome of the event's write.
    pub(crate) fn settled(&self, occurrence: &Occurrence, fate: Fate, error: Option<&WriteError>) {
        let Some(ticket) = &self.ticket else {
            return;
        };
        let (namespace, name) = (occurrence.namespace().to_owned(), occurrence.name().into());
        let count = occurrence.count();
        ticket.stamp(match fate {
            // No later event replaces an event with a waiting caller.
            Fate::Delivered | Fate::Aggregated => Acknowledgement::Delivered {
                namespace,
                name,
                count,
            },
            Fate::Dropped(cause) => Acknowledgement::Dropped {
                cause,
                error: error.cloned(),
            },
            // The sink is ending, and with it the wait.
            Fate::Pending => return,
        });
    }

    /// Reports that the event was written under its own name.
    pub(crate) fn delivered(&self, event: &Event) {
        if let Some(ticket) = &self.ticket {
            ticket.stamp(Acknowledgement::Delivered {
                namespace: event.namespace().to_owned(),
                name: event.name().into_owned(),
                count: 1,
            });
        }
    }

    /// Reports that the event was held back, and counted on `first`.
    pub(crate) fn filtered(&self, first: &Event, count: i32) {
        if let Some(ticket) = &self.ticket {
            ticket.stamp(Acknowledgement::Filtered {
                namespace: first.namespace().to_owned(),
                name: first.name().into_owned(),
                count,
            });
        }
    }

    /// Reports that the event was given up before it was written.
    pub(crate) fn dropped(&self, cause: DropCause) {
        if let Some(ticket) = &self.ticket {
            ticket.stamp(Acknowledgement::Dropped { cause, error: None });
        }
    }
}

impl Ticket {
    fn stamp(&self, acknowledgement: Acknowledgement) {
        let mut state = lock(&self.state);
        if state
            .worst
            .as_ref()
            .is_none_or(|worst| worst.badness() < acknowledgement.badness())
        {
            state.worst = Some(acknowledgement);
        }
        state.said += 1;
        state.tell();
    }
}

impl TicketState {
    /// Whether every sink has reported an outcome.
    fn is_complete(&self) -> bool {
        self.sinks.is_some_and(|sinks| self.said >= sinks)
    }

    fn tell(&mut self) {
        if self.is_complete()
            && let Some(done) = self.done.take()
        {
            // The caller may have stopped waiting.
            let _ = done.send(());
        }
    }
}

/// The waiting caller's side.
pub(crate) struct Wait {
    state: Arc<Mutex<TicketState>>,
    stamped: oneshot::Receiver<()>,
    gone: oneshot::Receiver<()>,
}

impl Wait {
    /// Records the number of sinks that took the event; some of them may have written it already.
    pub(crate) fn taken_by(&self, sinks: usize) {
        let mut state = lock(&self.state);
        state.sinks = Some(sinks);
        state.tell();
    }

    /// Waits until every sink has reported an outcome, no sink is left, or the event was dropped.
    pub(crate) async fn acknowledgement(
        mut self,
        mut sinks: watch::Receiver<usize>,
    ) -> Result<Acknowledgement, RecordError> {
        let stamped = tokio::select! {
            biased;
            stamped = &mut self.stamped => stamped.is_ok(),
            _ = self.gone => false,
            _ = sinks.wait_for(|sinks| *sinks == 0) => false,
        };
        let mut state = lock(&self.state);
        match state.worst.take() {
            Some(worst) if stamped || state.is_complete() || !worst.is_written() => Ok(worst),
            // One of several sinks ended without an outcome.
            _ => Err(RecordError::Abandoned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_or_only_looked_at_is_not_waited_for() {
        let plain = || Context::new(Span::none(), None);
        assert!(plain().unawaited().is_none() && plain().kept().is_none());
        assert!(!plain().is_awaited() && !plain().may_be_written());
        let spanned = Context::new(tracing::info_span!("recording"), None);
        let looked_at = spanned.unawaited().expect("the span");
        assert!(!looked_at.is_awaited());
        for recovered in [true, false] {
            let context = Context {
                spilled: Mutex::new(vec![7]),
                recovered,
                ..plain()
            };
            assert_eq!(context.may_be_written(), recovered);
            let kept = context.kept().expect("a place");
            assert_eq!(kept.may_be_written(), recovered);
            assert!(context.kept().is_none(), "it has none any more");
        }
    }

    /// The longer list stays where it is, so a series of n events takes n steps.
    #[test]
    fn the_places_of_many_events_are_not_copied_for_one_more() {
        let context = |places: Vec<u64>| Context {
            spilled: Mutex::new(places),
            ..Context::new(Span::none(), None)
        };
        let mut many: Vec<u64> = (0..1000).collect();
        many.reserve(10);
        let place = many.as_ptr();
        let (many, later) = (context(many), context(vec![1000]));
        later.absorb(&many);
        assert_eq!(later.spilled().as_ptr(), place);
        assert!(many.take_spilled().is_empty());
        later.absorb(&context(vec![1001]));
        let mut spilled = later.take_spilled();
        assert_eq!(spilled.as_ptr(), place);
        spilled.sort_unstable();
        assert_eq!(spilled, (0..1002).collect::<Vec<_>>());
    }
}
