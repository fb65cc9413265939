//! Options of series.

use std::time::Duration;

/// The annotation that shows the last note of a series, where [`SeriesOptions::last_note`] asks for
/// it.
pub const LAST_NOTE_ANNOTATION: &str = "tidings/last-note";

/// client-go's `refreshTime`.
const HEARTBEAT: Duration = Duration::from_secs(30 * 60);

/// Options of [`Series`](super::Series): a value with a setter for each, checked when it is made.
///
/// ```
/// use std::time::Duration;
/// use tidings_core::SeriesOptions;
///
/// let options = SeriesOptions::default().heartbeat(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct SeriesOptions {
    /// Whether to follow client-go's rules in place of ours.
    pub(super) client_go: bool,
    /// The interval between writes; `None` is half an hour, with refreshes in between.
    pub(super) heartbeat: Option<Duration>,
    pub(super) idle: Duration,
    pub(super) last_note: bool,
    pub(super) cache_entries_max: usize,
    pub(super) cache_bytes_max: usize,
}

impl Default for SeriesOptions {
    /// The first event of a series is created and the second patched in at once. From then on, a
    /// count that has not changed for five seconds, or has doubled since it was last written, is
    /// written within half a minute, and any other within half an hour. Such refreshes have a
    /// budget: 100 at once and one each second for the whole sink. When the budget is used up, the
    /// count that waits for longest is written first. Twelve minutes after its last event a series
    /// ends. Up to 131,072 series and 96 MiB are kept.
    ///
    /// A series keeps the note of its first event. Other notes are lost, unless
    /// [`SeriesOptions::last_note`] shows the last one.
    fn default() -> Self {
        Self {
            client_go: false,
            heartbeat: None,
            idle: Duration::from_secs(12 * 60),
            last_note: false,
            cache_entries_max: 131_072,
            cache_bytes_max: 96 << 20,
        }
    }
}

impl SeriesOptions {
    /// What client-go's `tools/events` does: after the second event the stored count stays as it is
    /// until a series is refreshed, every 30 minutes, or ended, on one of the passes every 6
    /// minutes that finds it 6 minutes without an event. An object that was updated begins another
    /// series.
    ///
    /// Unlike client-go: the cache is bounded, no create races its patch, and the end writes the
    /// last count of every series.
    pub fn client_go() -> Self {
        Self {
            client_go: true,
            idle: Duration::from_secs(6 * 60),
            ..Self::default()
        }
    }

    /// Writes the count of a series that continues at this interval, and no earlier, in place of
    /// the refreshes; at least a second. Nothing is written while there is nothing new. With half
    /// an hour, client-go's `refreshTime`, there are never more writes than client-go's
    /// `tools/events` makes for the same events: two an hour for each series that continues, and
    /// one for its end. A minute costs up to 60.
    pub const fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// After how long without an event a series ends with its last count, and the next event begins
    /// another; at least a second. Default twelve minutes. By then client-go has ended every
    /// series, too: its `finishTime` is six minutes, and up to six more pass until it checks. A
    /// series that ends earlier begins anew earlier, and may cost more writes than client-go makes.
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Whether a series also shows its last note, as the annotation [`LAST_NOTE_ANNOTATION`]. The
    /// annotation is written with the count whenever the last note differs from the first event's
    /// note, which the API server does not allow to change. Default false. Each series with another
    /// note then keeps one more event in memory. All notes between the first and the last are lost
    /// in either case. If notes differ in what matters, use another action for each, or core/v1.
    pub const fn last_note(mut self, last_note: bool) -> Self {
        self.last_note = last_note;
        self
    }

    /// Maximum series. Beyond it, the series that is without events for the longest ends, and its
    /// last count is written. With 0 there are no series.
    pub const fn cache_entries_max(mut self, entries: usize) -> Self {
        self.cache_entries_max = entries;
        self
    }

    /// Approximate maximum bytes of all series. A series takes about 300 bytes and its first event.
    pub const fn cache_bytes_max(mut self, bytes: usize) -> Self {
        self.cache_bytes_max = bytes;
        self
    }

    /// The interval between the writes of a continuing series, if counts are not refreshed.
    pub(super) fn interval(&self) -> Duration {
        self.heartbeat.unwrap_or(HEARTBEAT)
    }

    /// Whether counts are refreshed between heartbeats.
    pub(super) fn is_refreshed(&self) -> bool {
        self.heartbeat.is_none() && !self.client_go
    }

    /// Checks the options.
    ///
    /// # Errors
    ///
    /// [`InvalidSeriesOptions`] names the first option that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), InvalidSeriesOptions> {
        for (option, given) in [("heartbeat", self.interval()), ("idle", self.idle)] {
            if given < Duration::from_secs(1) {
                return Err(InvalidSeriesOptions { option, given });
            }
        }
        Ok(())
    }
}

/// An option of series that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid series option {option}: {given:?} is less than a second")]
pub struct InvalidSeriesOptions {
    /// The option's name.
    pub option: &'static str,
    /// The given value.
    pub given: Duration,
}
