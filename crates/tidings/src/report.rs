//! Reports of events' outcomes, whose counts add up.
//!
//! Invariant: offered = delivered + aggregated + filtered + dropped + pending.

use std::fmt;

use tidings_core::DropCounts;

/// Outcomes of the events offered to one or several sinks or handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events offered, including those missed because of a full queue.
    pub offered: u64,
    /// Events written by the sink, or handled by the handler.
    pub delivered: u64,
    /// Events merged into the write of a later one, which has their count and times. In a series
    /// ([`SinkOptions::events_v1`](crate::SinkOptions::events_v1)) their notes may differ, and are
    /// lost.
    pub aggregated: u64,
    /// Repeats of a written event that the spam filter held back, and whose count a later write
    /// brought. Until then they are pending.
    pub filtered: u64,
    /// Events given up, by cause.
    pub dropped: DropCounts,
    /// Events without an outcome yet.
    pub pending: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.aggregated += other.aggregated;
        self.filtered += other.filtered;
        self.dropped.merge(&other.dropped);
        self.pending += other.pending;
    }

    /// Counts refused events, which reached no sink or handler, as offered and dropped.
    pub(crate) fn refused(&mut self, drops: &DropCounts) {
        self.offered += drops.total();
        self.dropped.merge(drops);
    }
}

/// `5 offered: 3 delivered, 1 aggregated, 1 dropped (queue_full 1), 0 pending`
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} offered: {} delivered, {} aggregated, {}{} dropped",
            self.offered,
            self.delivered,
            self.aggregated,
            Filtered(self.filtered),
            self.dropped.total()
        )?;
        if self.dropped.total() > 0 {
            write!(f, " ({})", self.dropped)?;
        }
        write!(f, ", {} pending", self.pending)
    }
}

/// The number of filtered events, shown unless it is 0.
struct Filtered(u64);

impl fmt::Display for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            events => write!(f, "{events} filtered, "),
        }
    }
}

/// Outcomes of all recorded events: the result of
/// [`Broadcaster::shutdown`](crate::Broadcaster::shutdown).
///
/// With several sinks, an event counts once for each. A recorder call that was refused before it
/// reached a sink counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushReport {
    /// Events offered to sinks, and recorder calls that were refused.
    pub offered: u64,
    /// Events that sinks wrote.
    pub delivered: u64,
    /// Events merged into the write of a later one, which has their count and times. In a series
    /// ([`SinkOptions::events_v1`](crate::SinkOptions::events_v1)) their notes may differ, and are
    /// lost.
    pub aggregated: u64,
    /// Repeats of a written event that the spam filter held back, and whose count a later write
    /// brought. Until then they are pending.
    pub filtered: u64,
    /// Events given up, by cause.
    pub dropped: DropCounts,
    /// Events that waited or were being written at the deadline. The latter may have arrived.
    pub pending: u64,
    /// Events recorded while there was no sink, and no watcher but a structured log: nothing wrote
    /// or handled them. They do not count as offered.
    pub unwritten: u64,
    /// The last failed write, with its event, or a note that a write has no answer. The write may
    /// have succeeded since.
    pub last_error: Option<String>,
    /// The outcomes for handlers: loggers and other event watchers.
    pub handlers: Counts,
}

impl FlushReport {
    pub(crate) fn new(sinks: Counts, handlers: Counts) -> Self {
        Self {
            offered: sinks.offered,
            delivered: sinks.delivered,
            aggregated: sinks.aggregated,
            filtered: sinks.filtered,
            dropped: sinks.dropped,
            pending: sinks.pending,
            unwritten: 0,
            last_error: None,
            handlers,
        }
    }

    /// Whether every event was delivered, or is counted in one that was.
    pub fn is_complete(&self) -> bool {
        self.pending == 0 && self.dropped.total() == 0 && self.unwritten == 0
    }
}

/// One readable line, one more for each drop cause, and the last error if events were lost or are
/// pending.
impl fmt::Display for FlushReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events offered: {} delivered, {} aggregated, {}{} dropped, {} pending",
            self.offered,
            self.delivered,
            self.aggregated,
            Filtered(self.filtered),
            self.dropped.total(),
            self.pending
        )?;
        for (cause, count) in self.dropped.iter() {
            write!(f, "\n  dropped, {cause}: {count}")?;
        }
        if self.unwritten > 0 {
            write!(
                f,
                "\n  recorded while there was no sink: {} (start_recording_to_sink was not called, or the sink was stopped)",
                self.unwritten
            )?;
        }
        if let Some(error) = self.last_error.as_ref().filter(|_| !self.is_complete()) {
            write!(f, "\n  last error: {error}")?;
        }
        let missed = self.handlers.dropped.total() + self.handlers.pending;
        if missed > 0 {
            write!(
                f,
                "\n  handlers missed {missed} of {}",
                self.handlers.offered
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidings_core::DropCause;

    use super::*;

    /// Events that handlers missed are shown as dropped or pending.
    #[test]
    fn what_handlers_missed_is_said() {
        for (dropped, pending, missed) in [
            (0, 0, None),
            (2, 0, Some(2)),
            (0, 3, Some(3)),
            (2, 3, Some(5)),
        ] {
            let mut handlers = Counts {
                offered: 10,
                pending,
                ..Counts::default()
            };
            handlers.dropped.add(DropCause::QueueFull, dropped);
            let report = FlushReport::new(Counts::default(), handlers).to_string();
            let (_, line) = report.split_once('\n').unwrap_or_default();
            let expected = missed.map(|missed| format!("  handlers missed {missed} of 10"));
            assert_eq!(line, expected.unwrap_or_default());
        }
    }

    #[test]
    fn what_was_refused_for_any_cause_was_offered_and_dropped() {
        let mut refused = DropCounts::default();
        for (cause, number) in DropCause::ALL.iter().zip(1..) {
            refused.add(*cause, number);
        }
        let mut counts = Counts {
            offered: 1,
            delivered: 1,
            ..Counts::default()
        };
        counts.refused(&refused);
        assert_eq!(counts.dropped, refused);
        assert_eq!(counts.offered, 1 + refused.total());
    }

    #[test]
    fn a_report_reads_well() {
        let mut sinks = Counts {
            offered: 10,
            delivered: 6,
            aggregated: 1,
            pending: 2,
            ..Counts::default()
        };
        sinks.dropped.add(DropCause::QueueFull, 1);
        assert_eq!(
            sinks.to_string(),
            "10 offered: 6 delivered, 1 aggregated, 1 dropped (queue_full 1), 2 pending"
        );
        let mut held_back = sinks;
        held_back.filtered = 3;
        assert_eq!(
            held_back.to_string(),
            "10 offered: 6 delivered, 1 aggregated, 3 filtered, 1 dropped (queue_full 1), 2 pending"
        );
        let report = FlushReport::new(sinks, Counts::default());
        assert_eq!(
            report.to_string(),
            "10 events offered: 6 delivered, 1 aggregated, 1 dropped, 2 pending\n  dropped, queue_full: 1"
        );
        assert!(!report.is_complete());
        assert!(FlushReport::default().is_complete());
        let unwritten = FlushReport {
            unwritten: 2,
            last_error: Some("create event baz/web.1: refused".to_owned()),
            ..FlushReport::default()
        };
        assert!(!unwritten.is_complete());
        assert_eq!(
            unwritten.to_string(),
            "0 events offered: 0 delivered, 0 aggregated, 0 dropped, 0 pending\n  recorded while there was no sink: 2 (start_recording_to_sink was not called, or the sink was stopped)\n  last error: create event baz/web.1: refused"
        );
    }
}
