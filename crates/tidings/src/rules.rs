//! The correlator for core/v1 and the series for events.k8s.io/v1, behind one interface for a
//! sink's task.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidings_core::{
    Correlated, Correlator, CorrelatorStats, Delivery, DropCause, Event, EventApi, Monotonic, Now,
    Occurrence, Series,
};

use crate::config::{InvalidSinkOptions, SinkOptions};
use crate::intake::name_stamps;

/// Maximum pending counts that are written before they are due.
const EARLY_WRITES: usize = 64;

/// The amount of events that may be in memory; beyond it, events wait in their series, on disk, or
/// in the queue. It is half of the delivery's bound for events that were not tried yet, and three
/// quarters for all. Events that fail alone thus leave room for new ones.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    /// The delivery's bound in bytes.
    pub(crate) bytes_max: usize,
}

impl Room {
    pub(crate) fn is_left_by(self, delivery: &Delivery<Occurrence>) -> bool {
        let (events, bytes) = self.left_by(delivery);
        events > 0 && bytes > 0
    }

    /// How many events, and bytes on disk, may be read back now; none unless there is room for
    /// several. An event takes more bytes in memory than on disk.
    pub(crate) fn to_read(self, delivery: &Delivery<Occurrence>) -> (usize, usize) {
        let (events, bytes) = untried(delivery);
        if events > self.events / 2 || bytes > self.bytes / 2 || !self.is_left_by(delivery) {
            return (0, 0);
        }
        let (events, bytes) = self.left_by(delivery);
        (events, (bytes / 2).min(self.bytes / 4))
    }

    /// Whether there is room for the writes of all these events. A write keeps its event, the first
    /// event of its kind, and its key.
    pub(crate) fn is_left_for(self, events: &[Event], delivery: &Delivery<Occurrence>) -> bool {
        let sizes = events.iter().map(Event::size);
        let bytes = sizes.fold(delivery.pending_bytes(), |sum, size| {
            sum.saturating_add(3 * size + size_of::<Occurrence>())
        });
        events.len() <= self.left_by(delivery).0 && bytes <= self.bytes_max
    }

    /// The number of events and of bytes for which there is room.
    fn left_by(self, delivery: &Delivery<Occurrence>) -> (usize, usize) {
        let left = |half: usize, untried: usize, all: usize| {
            let all_max = half.saturating_add(half / 2);
            half.saturating_sub(untried)
                .min(all_max.saturating_sub(all))
        };
        let (events, bytes) = untried(delivery);
        (
            left(self.events, events, delivery.pending()),
            left(self.bytes, bytes, delivery.pending_bytes()),
        )
    }
}

/// The pending events that have not failed, and their bytes.
fn untried(delivery: &Delivery<Occurrence>) -> (usize, usize) {
    (
        delivery.pending().saturating_sub(delivery.failed()),
        delivery
            .pending_bytes()
            .saturating_sub(delivery.failed_bytes()),
    )
}

/// What the rules did with an event.
pub(crate) enum Taken {
    /// The event is written, or waits to be written.
    Offered,
    /// The spam filter held the event back. The write that brings its count to the stored event of
    /// its kind, `first`, settles it.
    HeldBack { first: Event, count: i32 },
    /// The event will never be written.
    Dropped(DropCause),
}

/// The rules of one sink: a correlator or series.
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

    /// Takes an event and offers its write, if it has one.
    pub(crate) fn take(
        &mut self,
        now: Now,
        event: &Event,
        delivery: &mut Delivery<Occurrence>,
    ) -> Taken {
        match self {
            Self::Series(series) => {
                series.handle_event(now, event);
                offer(now.monotonic, series, delivery);
            }
            Self::Counts(correlator) => {
                // This calls the user's functions, which may panic.
                let correlated =
                    catch_unwind(AssertUnwindSafe(|| correlator.correlate(now, event)));
                while let Some(occurrence) = correlator.poll_evicted() {
                    delivery.offer(now.monotonic, occurrence);
                }
                match correlated {
                    Ok(Correlated::Write(occurrence)) => delivery.offer(now.monotonic, occurrence),
                    Ok(Correlated::Filtered) => return Taken::Dropped(DropCause::SpamFiltered),
                    Ok(Correlated::HeldBack { first, count }) => {
                        return Taken::HeldBack { first, count };
                    }
                    Err(_) => {
                        tracing::error!(
                            event = event.name().as_ref(),
                            "Unable to correlate event: a key or message function panicked"
                        );
                        return Taken::Dropped(DropCause::InvalidEvent);
                    }
                }
            }
        }
        Taken::Offered
    }

    /// The API version of written events.
    pub(crate) fn api(&self) -> EventApi {
        match self {
            Self::Counts(_) => EventApi::Core,
            Self::Series(_) => EventApi::Events,
        }
    }

    /// Offers due counts to the delivery, as far as there is room. A delayed count is not lost.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Monotonic,
        room: Room,
        delivery: &mut Delivery<Occurrence>,
    ) {
        match self {
            Self::Series(series) => {
                while room.is_left_by(delivery) && series.poll_timeout().is_some_and(|at| at <= now)
                {
                    series.handle_timeout(now, 1);
                    offer(now, series, delivery);
                }
            }
            Self::Counts(correlator) => {
                while room.is_left_by(delivery)
                    && let Some(occurrence) = correlator.poll_refresh(now)
                {
                    delivery.offer(now, occurrence);
                }
            }
        }
    }

    /// When the next count is due for which there is room. Without room there is no timer, because
    /// answers make room.
    pub(crate) fn poll_timeout(
        &self,
        room: Room,
        delivery: &Delivery<Occurrence>,
    ) -> Option<Monotonic> {
        match self {
            Self::Series(series) if room.is_left_by(delivery) => series.poll_timeout(),
            Self::Counts(correlator) if room.is_left_by(delivery) => correlator.poll_timeout(),
            Self::Series(_) | Self::Counts(_) => None,
        }
    }

    /// Offers some counts before they are due, unless many writes are pending.
    pub(crate) fn write_early(
        &mut self,
        now: Monotonic,
        room: Room,
        delivery: &mut Delivery<Occurrence>,
    ) {
        if !room.is_left_by(delivery) {
            return;
        }
        let busy_from = room.events.min(EARLY_WRITES);
        let writes_max = busy_from.saturating_sub(untried(delivery).0);
        match self {
            Self::Series(series) => {
                series.write_early(now, writes_max);
                offer(now, series, delivery);
            }
            Self::Counts(correlator) => {
                for _ in 0..writes_max {
                    let Some(occurrence) = correlator.poll_last(now) else {
                        return;
                    };
                    delivery.offer(now, occurrence);
                }
            }
        }
    }

    /// After the last event, offers the remaining counts, as far as there is room. Returns whether
    /// these were all.
    pub(crate) fn finish(
        &mut self,
        now: Monotonic,
        room: Room,
        delivery: &mut Delivery<Occurrence>,
    ) -> bool {
        while room.is_left_by(delivery) {
            let is_all = match self {
                Self::Series(series) => {
                    let is_all = series.finish(1);
                    offer(now, series, delivery);
                    is_all
                }
                Self::Counts(correlator) => match correlator.poll_last(now) {
                    Some(occurrence) => {
                        delivery.offer(now, occurrence);
                        false
                    }
                    None => true,
                },
            };
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

    /// After [`Rules::lost`]: takes the held-back events of a write back, to be settled by a later
    /// one. Returns whether that is possible.
    pub(crate) fn put_back(&mut self, now: Monotonic, occurrence: &Occurrence) -> bool {
        match self {
            Self::Counts(correlator) => correlator.put_back(now, occurrence),
            Self::Series(_) => false,
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

fn offer(now: Monotonic, series: &mut Series, delivery: &mut Delivery<Occurrence>) {
    while let Some(occurrence) = series.poll_write() {
        delivery.offer(now, occurrence);
    }
}
