//! What a sink's task asks before it writes: the correlator for core/v1, the series for
//! events.k8s.io/v1, behind one set of calls.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidings_core::{
    Correlated, Correlator, CorrelatorStats, Delivery, DropCause, Event, EventApi, Monotonic, Now,
    Occurrence, Series,
};

use crate::config::{InvalidSinkOptions, SinkOptions};
use crate::recorder::name_stamps;

/// How many counts are pending at most because they are written before they are due.
const EARLY_WRITES: usize = 64;

/// How much may be in memory before the rest waits: in its series, on disk, or in the queue. Half
/// of what the delivery holds.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    /// What the delivery holds.
    pub(crate) bytes_max: usize,
}

impl Room {
    pub(crate) fn is_left_by(self, delivery: &Delivery<Occurrence>) -> bool {
        delivery.pending() < self.events && delivery.pending_bytes() < self.bytes
    }

    /// Whether the writes of all these would find room. A write keeps its event, the first of its
    /// kind, and what it is compared by.
    pub(crate) fn is_left_for(self, events: &[Event], delivery: &Delivery<Occurrence>) -> bool {
        let sizes = events.iter().map(Event::size);
        let bytes = sizes.fold(delivery.pending_bytes(), |sum, size| {
            sum.saturating_add(3 * size + size_of::<Occurrence>())
        });
        delivery.pending() + events.len() <= self.events && bytes <= self.bytes_max
    }
}

/// Which of the two decides.
pub(crate) enum Rules {
    Counts(Box<Correlator>),
    Series(Box<Series>),
}

impl Rules {
    pub(crate) fn new(options: &SinkOptions) -> Result<Self, InvalidSinkOptions> {
        let names = name_stamps();
        Ok(match &options.series {
            Some(series) => Self::Series(Box::new(Series::new(series.clone(), &names)?)),
            None => Self::Counts(Box::new(Correlator::new(
                options.correlator.clone(),
                names,
            )?)),
        })
    }

    /// Takes an event, and offers what is to be written of it; or says why it never will be.
    pub(crate) fn take(
        &mut self,
        now: Now,
        event: &Event,
        delivery: &mut Delivery<Occurrence>,
    ) -> Result<(), DropCause> {
        match self {
            Self::Series(series) => {
                series.handle_event(now, event);
                offer(series, delivery);
            }
            Self::Counts(correlator) => {
                // Functions of the user's take part, and may panic over an event they did not
                // expect.
                match catch_unwind(AssertUnwindSafe(|| correlator.correlate(now, event))) {
                    Ok(Correlated::Write(occurrence)) => delivery.offer(occurrence),
                    Ok(Correlated::Filtered) => return Err(DropCause::SpamFiltered),
                    Err(_) => {
                        tracing::error!(
                            event = event.name().as_ref(),
                            "Unable to correlate event: a key or message function panicked"
                        );
                        return Err(DropCause::InvalidEvent);
                    }
                }
            }
        }
        Ok(())
    }

    /// As what events are written.
    pub(crate) fn api(&self) -> EventApi {
        match self {
            Self::Counts(_) => EventApi::Core,
            Self::Series(_) => EventApi::Events,
        }
    }

    /// Offers what has become due, as far as there is room: a delayed count is
    /// not lost.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Monotonic,
        room: Room,
        delivery: &mut Delivery<Occurrence>,
    ) {
        if let Self::Series(series) = self {
            while room.is_left_by(delivery) && series.poll_timeout().is_some_and(|at| at <= now) {
                series.handle_timeout(now, 1);
                offer(series, delivery);
            }
        }
    }

    /// When something will be due that there is room for. Room is made by answers, which need no
    /// timer.
    pub(crate) fn poll_timeout(
        &self,
        room: Room,
        delivery: &Delivery<Occurrence>,
    ) -> Option<Monotonic> {
        match self {
            Self::Series(series) if room.is_left_by(delivery) => series.poll_timeout(),
            Self::Series(_) | Self::Counts(_) => None,
        }
    }

    /// Offers some counts before they are due, unless there is much to write anyway.
    pub(crate) fn write_early(
        &mut self,
        now: Monotonic,
        room: Room,
        delivery: &mut Delivery<Occurrence>,
    ) {
        if let Self::Series(series) = self
            && room.is_left_by(delivery)
        {
            let busy_from = room.events.min(EARLY_WRITES);
            series.write_early(now, busy_from.saturating_sub(delivery.pending()));
            offer(series, delivery);
        }
    }

    /// No more events come: offers what was left for later, as far as there is room for it. True:
    /// that was all.
    pub(crate) fn finish(&mut self, room: Room, delivery: &mut Delivery<Occurrence>) -> bool {
        let Self::Series(series) = self else {
            return true;
        };
        while room.is_left_by(delivery) {
            let is_all = series.finish(1);
            offer(series, delivery);
            if is_all {
                return true;
            }
        }
        false
    }

    pub(crate) fn acknowledged(&mut self, occurrence: &Occurrence) {
        if let Self::Counts(correlator) = self {
            correlator.acknowledged(occurrence);
        }
    }

    pub(crate) fn lost(&mut self, occurrence: &Occurrence) {
        match self {
            Self::Counts(correlator) => correlator.lost(occurrence),
            Self::Series(series) => series.lost(occurrence),
        }
    }

    pub(crate) fn stats(&self) -> CorrelatorStats {
        match self {
            Self::Counts(correlator) => correlator.stats(),
            Self::Series(series) => {
                let mut stats = CorrelatorStats::default();
                stats.count = series.stats().cache;
                stats
            }
        }
    }
}

fn offer(series: &mut Series, delivery: &mut Delivery<Occurrence>) {
    while let Some(occurrence) = series.poll_write() {
        delivery.offer(occurrence);
    }
}
