//! What can be chosen about a broadcaster: plain values with defaults and setters, checked once,
//! when the broadcaster is made.

use tidings_core::{
    ClusterScopedNamespace, CorrelatorOptions, DeliveryOptions, InvalidCorrelatorOptions,
    InvalidDeliveryOptions, InvalidSeriesOptions, SeriesOptions, TEXT_BYTES_MAX,
};

use crate::clock::Clock;
use crate::spill::{SpillError, SpillOptions};

/// What happens to an event when a watcher's queue is full. client-go's `FullChannelBehavior`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// That watcher misses it, and only that one; counted. client-go's `DropIfChannelFull`.
    #[default]
    Drop,
    /// It waits, and all later events with it, for every watcher, until that watcher has room; no
    /// caller ever waits. As many events and bytes can wait as a watcher's queue holds; what comes
    /// then is dropped for every watcher, and counted. A sink takes no more from its queue than
    /// half of what its delivery may hold, or its spill keeps, so that nothing accepted is dropped
    /// for want of room later. client-go's `WaitIfChannelFull`, which blocks the recorder instead.
    Wait,
}

/// The bounds of each watcher's queue.
///
/// An event larger than `bytes_max` gets through when it is alone. A watcher holds at most twice
/// its bounds: what is queued, and the batch it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// How many events, at least 1. Default 32,768; client-go's is 1,000.
    pub events_max: usize,
    /// How many bytes of events, at least 1. Default 32 MiB.
    pub bytes_max: usize,
    /// What happens beyond that. Default [`WhenFull::Drop`].
    pub when_full: WhenFull,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            events_max: 32_768,
            bytes_max: 32 << 20,
            when_full: WhenFull::Drop,
        }
    }
}

/// Options of a [`Broadcaster`](crate::Broadcaster).
///
/// ```
/// use tidings::{Broadcaster, BroadcasterOptions, ClusterScopedNamespace, QueueOptions};
///
/// let options = BroadcasterOptions::default()
///     .queue(QueueOptions { events_max: 10_000, ..QueueOptions::default() })
///     .cluster_scoped_namespace(ClusterScopedNamespace::KubeSystem);
/// let broadcaster = Broadcaster::with_options(options)?;
/// # Ok::<(), tidings::InvalidBroadcasterOptions>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct BroadcasterOptions {
    pub(crate) queue: QueueOptions,
    pub(crate) sink: SinkOptions,
    pub(crate) cluster_scoped_namespace: ClusterScopedNamespace,
    pub(crate) text_bytes_max: usize,
    pub(crate) follow_spans: bool,
    pub(crate) clock: Clock,
}

impl Default for BroadcasterOptions {
    fn default() -> Self {
        Self {
            queue: QueueOptions::default(),
            sink: SinkOptions::default(),
            cluster_scoped_namespace: ClusterScopedNamespace::default(),
            text_bytes_max: TEXT_BYTES_MAX,
            follow_spans: false,
            clock: Clock::system(),
        }
    }
}

impl BroadcasterOptions {
    /// What client-go does: its queue of 1,000 events, its correlator with its quirks, one write at
    /// a time, twelve tries ten seconds apart. For comparisons, and for programs that depend on it.
    pub fn client_go() -> Self {
        Self::default()
            .queue(QueueOptions {
                events_max: 1_000,
                ..QueueOptions::default()
            })
            .sink(SinkOptions::client_go())
    }

    /// The bounds of each watcher's queue.
    pub fn queue(mut self, queue: QueueOptions) -> Self {
        self.queue = queue;
        self
    }

    /// How every sink correlates and delivers, unless it is started with options of its own.
    pub fn sink(mut self, sink: SinkOptions) -> Self {
        self.sink = sink;
        self
    }

    /// Where events about cluster-scoped objects go. Default `default`, as in client-go.
    ///
    /// A recorder needs the permission to create and patch events in that namespace in addition to
    /// those of the objects it reports about.
    pub fn cluster_scoped_namespace(mut self, namespace: ClusterScopedNamespace) -> Self {
        self.cluster_scoped_namespace = namespace;
        self
    }

    /// The longest message in bytes, 64 or more; what is longer is cut and marked. Default 256 KiB.
    /// Reasons and actions are cut there too, but at 1,024 bytes at the latest.
    pub fn text_bytes_max(mut self, bytes: usize) -> Self {
        self.text_bytes_max = bytes;
        self
    }

    /// Whether the `tracing` span in which an event is recorded travels with it: what is logged of
    /// its write, and by the structured log, is then logged within that span, and so is the request
    /// itself. Of repeats written as one, the last one's counts. Default false, because a span does
    /// not close while an event recorded in it waits.
    pub fn follow_spans(mut self, follow: bool) -> Self {
        self.follow_spans = follow;
        self
    }

    /// Where the time comes from. Default the machine's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidBroadcasterOptions> {
        let QueueOptions {
            events_max,
            bytes_max,
            when_full: _,
        } = self.queue;
        if events_max == 0 {
            return Err(InvalidBroadcasterOptions::QueueEvents);
        }
        if bytes_max == 0 {
            return Err(InvalidBroadcasterOptions::QueueBytes);
        }
        if self.text_bytes_max < 64 {
            return Err(InvalidBroadcasterOptions::TextBytes {
                given: self.text_bytes_max,
            });
        }
        Ok(self.sink.validate()?)
    }
}

/// How one sink correlates and delivers: its own counts, caches and queue, whatever other sinks do.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SinkOptions {
    pub(crate) correlator: CorrelatorOptions,
    /// In place of the correlator.
    pub(crate) series: Option<SeriesOptions>,
    /// Whether the sink is asked if it takes events.k8s.io/v1, and gets core/v1 if it does not.
    pub(crate) discover: bool,
    pub(crate) spill: Option<SpillOptions>,
    pub(crate) delivery: DeliveryOptions,
}

impl SinkOptions {
    /// What client-go does.
    pub fn client_go() -> Self {
        Self {
            correlator: CorrelatorOptions::client_go(),
            series: None,
            discover: false,
            spill: None,
            delivery: DeliveryOptions::client_go(),
        }
    }

    /// What client-go's `tools/events` does: events.k8s.io/v1 by its rules
    /// ([`SeriesOptions::client_go`]), eight writes at a time, twelve tries 10 to 12.5 s apart.
    ///
    /// ```
    /// use tidings::{BroadcasterOptions, SinkOptions};
    ///
    /// let options = BroadcasterOptions::client_go().sink(SinkOptions::client_go_events());
    /// ```
    pub fn client_go_events() -> Self {
        Self {
            series: Some(SeriesOptions::client_go()),
            delivery: DeliveryOptions::client_go_events(),
            ..Self::client_go()
        }
    }

    /// How repeats become counts and floods a trickle. client-go's `WithCorrelatorOptions`.
    pub fn correlator(mut self, correlator: CorrelatorOptions) -> Self {
        self.correlator = correlator;
        self
    }

    /// Writes events.k8s.io/v1 in place of core/v1: repeats become a series, as client-go's
    /// `tools/events` writes them, and nothing is combined or filtered; the options of the
    /// correlator have no effect.
    ///
    /// The API server has stricter rules for these events: messages are cut at 1,024 bytes, reasons
    /// and actions at 128, an event without an action gets its reason for one, and the reporting
    /// controller is made a qualified name. The note of a series stays that of its first event, and
    /// so do its annotations.
    ///
    /// ```
    /// use tidings::{BroadcasterOptions, SeriesOptions, SinkOptions};
    ///
    /// let sink = SinkOptions::default().events_v1(SeriesOptions::default());
    /// let options = BroadcasterOptions::default().sink(sink);
    /// ```
    pub fn events_v1(mut self, series: SeriesOptions) -> Self {
        self.series = Some(series);
        self.discover = false;
        self
    }

    /// Writes events.k8s.io/v1 where the sink says that it takes it
    /// ([`Sink::serves`](crate::Sink::serves)), else core/v1: client-go's
    /// `NewEventBroadcasterAdapter`. The calls are the same, and nothing of an event is lost either
    /// way: action and related object are fields of both.
    ///
    /// The sink is asked once, before its first write; until it answers, events wait in its queue,
    /// or on disk where there is a [`SinkOptions::spill`]. Only an answer about the group decides:
    /// the list of what is in it, 404 (no such group), or 403 (may not be asked), where it is
    /// core/v1, which every server has. It is core/v1, too, where the sink says that only that may
    /// be written ([`Sink::check`](crate::Sink::check), which a `KubeSink` answers with
    /// `check_access_at_start`); the rule that is missing is then logged. After anything else (no
    /// connection, 401, 429, 5xx), where client-go falls back to core/v1 for good, it is asked
    /// again, with the waits of [`RetryPolicy`](crate::RetryPolicy) but without an end, whatever
    /// that says of writes.
    pub fn events_v1_if_served(mut self, series: SeriesOptions) -> Self {
        self.series = Some(series);
        self.discover = true;
        self
    }

    /// Keeps events on disk, too, from when the sink takes them until it is known what became of
    /// them. The death of the process then loses none of them, and an outage may be longer than the
    /// memory allows: what is more than half of
    /// [`pending_events_max`](DeliveryOptions::pending_events_max) waits on disk, and is read back
    /// in order. No event is given up while the server is out of reach. What an earlier process
    /// left there is delivered first, and counts as offered again.
    ///
    /// The folder belongs to one sink. Whether it can be used is known when the sink is started:
    /// [`Broadcaster::start_recording_to_sink_with`](crate::Broadcaster::start_recording_to_sink_with)
    /// says it. Started without options of its own
    /// ([`Broadcaster::start_recording_to_sink`](crate::Broadcaster::start_recording_to_sink)) a
    /// sink keeps events in memory only, which is logged and counted, until the folder, tried again
    /// every five seconds, can be used. Each event is written to it once, and once more as a mark
    /// when it is done, off the caller's thread; a few hundred thousand events a minute are no
    /// burden. Delivery is at least once: what up to some hundred writes stood for that were not
    /// marked yet when the process died is written again, a repeat counting once more. As core/v1
    /// these are some hundred events; with [`SinkOptions::events_v1`], where one write stands for
    /// all repeats since the one before, tens of thousands.
    ///
    /// With [`SinkOptions::events_v1`] a count that waits for its heartbeat waits on disk as well,
    /// with every event in it. When these take half of [`SpillOptions::bytes_max`] (64 MiB by
    /// default; an event takes about 600 bytes), counts are written before their heartbeat, those
    /// that would be first anyway, as many as it takes: of a few series that repeat a lot that is a
    /// write for tens of thousands of events, of very many series that seldom repeat up to a write
    /// for each event. A larger bound makes it rarer.
    ///
    /// What finds no room is in memory only, which is logged and counted; behind others that wait
    /// on disk it waits for its turn, and what is recorded after it in the queue. What an earlier
    /// process left in a folder that could not be used at first comes later than what was written
    /// until then. What is damaged or gone on disk is counted as
    /// [`DropCause::InvalidEvent`](crate::DropCause::InvalidEvent); a file that cannot be read for
    /// a minute is left for the next process, its events pending. Timestamps of events read back
    /// are those of the wire: in whole seconds.
    ///
    /// ```
    /// use tidings::{Broadcaster, MemorySink, SinkOptions, SpillOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path(); // such as /var/lib/example-controller/events
    /// let broadcaster = Broadcaster::new();
    /// let options = SinkOptions::default().spill(SpillOptions::new(folder).bytes_max(256 << 20));
    /// broadcaster.start_recording_to_sink_with(MemorySink::new(), options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spill(mut self, spill: SpillOptions) -> Self {
        self.spill = Some(spill);
        self
    }

    /// How writes are queued, tried and tried again. Its back-off is client-go's
    /// `WithSleepDuration`.
    pub fn delivery(mut self, delivery: DeliveryOptions) -> Self {
        self.delivery = delivery;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSinkOptions> {
        self.correlator.validate()?;
        if let Some(series) = &self.series {
            series.validate()?;
        }
        if let Some(spill) = &self.spill {
            spill.validate()?;
        }
        Ok(self.delivery.validate()?)
    }
}

/// What is wrong with [`BroadcasterOptions`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBroadcasterOptions {
    /// A queue that holds no event.
    #[error("queue.events_max is 0: a watcher's queue must hold at least 1 event")]
    QueueEvents,
    /// A queue that holds no byte.
    #[error("queue.bytes_max is 0: a watcher's queue must hold at least 1 byte")]
    QueueBytes,
    /// Texts too short to say anything.
    #[error("text_bytes_max is {given}: it must be 64 or more")]
    TextBytes {
        /// What was given.
        given: usize,
    },
    /// The sink's part.
    #[error(transparent)]
    Sink(#[from] InvalidSinkOptions),
}

/// What is wrong with [`SinkOptions`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSinkOptions {
    /// The correlator's part.
    #[error(transparent)]
    Correlator(#[from] InvalidCorrelatorOptions),
    /// The part of the series.
    #[error(transparent)]
    Series(#[from] InvalidSeriesOptions),
    /// The delivery's part.
    #[error(transparent)]
    Delivery(#[from] InvalidDeliveryOptions),
    /// Events cannot be kept on disk.
    #[error(transparent)]
    Spill(#[from] SpillError),
}
