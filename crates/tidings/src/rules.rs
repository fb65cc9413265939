//! What a sink's task asks before it writes: the correlator for core/v1, the series for events.k8s.io/v1, behind one set of calls.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidings_core::{
    Correlated, Correlator, CorrelatorStats, Delivery, DropCause, Event, Monotonic, Now,
    Occurrence, Series,
};

use crate::config::{InvalidSinkOptions, SinkOptions};
use crate::recorder::name_stamps;

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
                // Functions of the user's take part, and may panic over an event they did not expect.
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

    /// Offers what has become due.
    pub(crate) fn handle_timeout(&mut self, now: Monotonic, delivery: &mut Delivery<Occurrence>) {
        if let Self::Series(series) = self {
            series.handle_timeout(now);
            offer(series, delivery);
        }
    }

    /// When something will be due.
    pub(crate) fn poll_timeout(&self) -> Option<Monotonic> {
        match self {
            Self::Counts(_) => None,
            Self::Series(series) => series.poll_timeout(),
        }
    }

    /// No more events come: offers what was left for later.
    pub(crate) fn finish(&mut self, delivery: &mut Delivery<Occurrence>) {
        if let Self::Series(series) = self {
            series.finish();
            offer(series, delivery);
        }
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
