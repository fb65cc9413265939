//! Options of a broadcaster and its sinks: plain values with defaults and setters, checked when the
//! broadcaster is made.

use std::sync::Arc;
use std::time::Duration;

use tidings_core::{
    ClusterScopedNamespace, CorrelatorOptions, DeliveryOptions, InvalidCorrelatorOptions,
    InvalidDeliveryOptions, InvalidSeriesOptions, SeriesOptions, TEXT_BYTES_MAX,
};

use crate::clock::Clock;
use crate::spill::{SpillError, SpillOptions};

/// What happens to an event when a watcher's queue is full. client-go's `FullChannelBehavior`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// Only that watcher misses the event, which is counted. client-go's `DropIfChannelFull`.
    #[default]
    Drop,
    /// The event waits for room in that watcher's queue, and so do all later events, for every
    /// watcher; callers do not wait. As many events and bytes can wait as a watcher's queue holds;
    /// further events are dropped for every watcher, and counted. A sink takes events from its
    /// queue only up to half of the bound of its delivery or spill, so that no accepted event is
    /// dropped later for lack of room. client-go's `WaitIfChannelFull`, which blocks the recorder
    /// instead.
    Wait,
}

/// The bounds of each watcher's queue.
///
/// An event larger than `bytes_max` is accepted into an empty queue. A watcher holds at most twice
/// its bounds: its queue, and the batch being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct QueueOptions {
    /// Maximum events, at least 1. Default 32,768; client-go's is 1,000.
    pub events_max: usize,
    /// Maximum bytes of events, at least 1. Default 32 MiB.
    pub bytes_max: usize,
    /// What happens when a bound is reached. Default [`WhenFull::Drop`].
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

impl QueueOptions {
    /// Sets [`QueueOptions::events_max`].
    pub const fn events_max(mut self, events: usize) -> Self {
        self.events_max = events;
        self
    }

    /// Sets [`QueueOptions::bytes_max`].
    pub const fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Sets [`QueueOptions::when_full`].
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }
}

/// Options of a [`Broadcaster`](crate::Broadcaster).
///
/// Three presets are all that most programs need: the default, [`BroadcasterOptions::few_writes`],
/// and [`BroadcasterOptions::client_go`]. The types of single options are in
/// [`advanced`](crate::advanced).
///
/// ```
/// use tidings::advanced::{ClusterScopedNamespace, QueueOptions};
/// use tidings::{Broadcaster, BroadcasterOptions};
///
/// let options = BroadcasterOptions::default()
///     .queue(QueueOptions::default().events_max(10_000))
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
    /// client-go's behaviour: its queue of 1,000 events, its correlator with its mistakes, one
    /// write at a time, twelve tries ten seconds apart. For comparisons, and for programs that
    /// depend on it.
    pub fn client_go() -> Self {
        Self::default()
            .queue(QueueOptions::default().events_max(1_000))
            .sink(SinkOptions::client_go())
    }

    /// The default with [`SinkOptions::few_writes`], for programs that record much, and to spare
    /// the API server.
    ///
    /// ```
    /// use tidings::{Broadcaster, BroadcasterOptions};
    ///
    /// let broadcaster = Broadcaster::with_options(BroadcasterOptions::few_writes())?;
    /// # Ok::<(), tidings::InvalidBroadcasterOptions>(())
    /// ```
    pub fn few_writes() -> Self {
        Self::default().sink(SinkOptions::few_writes())
    }

    /// The bounds of each watcher's queue.
    pub fn queue(mut self, queue: QueueOptions) -> Self {
        self.queue = queue;
        self
    }

    /// Options of every sink that is started without its own options.
    pub fn sink(mut self, sink: SinkOptions) -> Self {
        self.sink = sink;
        self
    }

    /// The namespace of events about cluster-scoped objects. Default `default`, as in client-go.
    ///
    /// A recorder needs the permission to create and patch events in that namespace in addition to
    /// those of the objects it reports about.
    pub fn cluster_scoped_namespace(mut self, namespace: ClusterScopedNamespace) -> Self {
        self.cluster_scoped_namespace = namespace;
        self
    }

    /// Maximum bytes of a message, at least 64; longer ones are cut and marked. Default 256 KiB. It
    /// also holds for reasons and actions, which are cut at 1,024 bytes in any case.
    pub fn text_bytes_max(mut self, bytes: usize) -> Self {
        self.text_bytes_max = bytes;
        self
    }

    /// Whether an event keeps the `tracing` span in which it is recorded. Log lines about its
    /// write, the structured log, and the request are then within that span. For repeats that are
    /// written as one, it is the span of the last. Default false, because a span does not close
    /// while an event recorded in it waits.
    pub fn follow_spans(mut self, follow: bool) -> Self {
        self.follow_spans = follow;
        self
    }

    /// The clock. Default the machine's.
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

/// Options of one sink. Each sink has its own counts, caches and queue.
///
/// The presets are those of [`BroadcasterOptions`], and [`SinkOptions::client_go_events`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SinkOptions {
    pub(crate) name: Arc<str>,
    pub(crate) correlator: CorrelatorOptions,
    /// The series that replace correlation, if they do.
    pub(crate) series: Option<SeriesOptions>,
    /// Whether to ask the sink if it accepts events.k8s.io/v1, and to write core/v1 if not.
    pub(crate) discover: bool,
    pub(crate) spill: Option<SpillOptions>,
    pub(crate) delivery: DeliveryOptions,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            name: Arc::from("default"),
            correlator: CorrelatorOptions::default(),
            series: None,
            discover: false,
            spill: None,
            delivery: DeliveryOptions::default(),
        }
    }
}

impl SinkOptions {
    /// client-go's behaviour.
    pub fn client_go() -> Self {
        Self {
            correlator: CorrelatorOptions::client_go(),
            delivery: DeliveryOptions::client_go(),
            ..Self::default()
        }
    }

    /// As few writes as client-go's `tools/events` makes, or fewer. It writes events.k8s.io/v1,
    /// where repeats form a series whatever their notes. A series' count is written with its second
    /// event, every half hour, and at its end. The last note of a series is an annotation
    /// ([`SeriesOptions::last_note`]).
    ///
    /// An hour of one event a second costs 4 writes (by default 39), and a thousand objects with an
    /// event each minute 3,000 (by default 37,834). Counts are up to half an hour old. The program
    /// needs the permission to create and patch events of `events.k8s.io`.
    pub fn few_writes() -> Self {
        let series = SeriesOptions::default()
            .heartbeat(Duration::from_secs(30 * 60))
            .last_note(true);
        Self::default().events_v1(series)
    }

    /// The behaviour of client-go's `tools/events`: events.k8s.io/v1 by its rules
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

    /// The name of the sink in metrics, their label `sink`. Default `default`. Sinks of one name
    /// are counted together.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().into();
        self
    }

    /// Options of correlation. client-go's `WithCorrelatorOptions`.
    pub fn correlator(mut self, correlator: CorrelatorOptions) -> Self {
        self.correlator = correlator;
        self
    }

    /// Writes events.k8s.io/v1 instead of core/v1. Repeats become a series, as in client-go's
    /// `tools/events`. Nothing is combined or filtered, and the options of the correlator have no
    /// effect.
    ///
    /// The API server has stricter rules for these events: messages are cut at 1,024 bytes, reasons
    /// and actions at 128; the default of an action is the reason; and the reporting controller is
    /// made a qualified name. A series keeps the note and annotations of its first event. Of a
    /// thousand events with different notes, all texts but the first are lost, unless
    /// [`SeriesOptions::last_note`] shows the last one. Where every text matters, write core/v1.
    ///
    /// ```
    /// use tidings::advanced::SeriesOptions;
    /// use tidings::{BroadcasterOptions, SinkOptions};
    ///
    /// let sink = SinkOptions::default().events_v1(SeriesOptions::default());
    /// let options = BroadcasterOptions::default().sink(sink);
    /// ```
    pub fn events_v1(mut self, series: SeriesOptions) -> Self {
        self.series = Some(series);
        self.discover = false;
        self
    }

    /// Writes events.k8s.io/v1 if the sink accepts it ([`Sink::serves`](crate::Sink::serves)), or
    /// else core/v1: client-go's `NewEventBroadcasterAdapter`. The calls are the same, and no field
    /// of an event is lost: action and related object are fields of both.
    ///
    /// The sink is asked once, before its first write. Until it answers, events wait in its queue,
    /// or on disk with a [`SinkOptions::spill`]. Only an answer about the group decides: its list
    /// of resources, or a 404 (no such group) or 403 (not allowed to ask), which mean core/v1. It
    /// is also core/v1 if only that may be written ([`Sink::check`](crate::Sink::check), for a
    /// `KubeSink` with `check_access_at_start`); the missing rule is then logged. After any other
    /// result (no connection, 401, 429, 5xx), where client-go would fall back to core/v1 for good,
    /// the sink is asked again, with the waits of [`RetryPolicy`](crate::advanced::RetryPolicy).
    pub fn events_v1_if_served(mut self, series: SeriesOptions) -> Self {
        self.series = Some(series);
        self.discover = true;
        self
    }

    /// Also keeps events on disk, from when the sink takes them until their outcome is known. Then
    /// no event is lost if the process is killed, and an outage may last longer than memory allows:
    /// events beyond half of [`pending_events_max`](DeliveryOptions::pending_events_max) wait on
    /// disk, and are read back in order. No event is given up because the server is out of reach;
    /// an event is given up if it fails again and again while others are written
    /// ([`RetryPolicy::give_up_out_of_reach`](crate::advanced::RetryPolicy::give_up_out_of_reach)).
    /// Events of an earlier process are delivered first, and count as offered again.
    ///
    /// The folder belongs to one sink. If it cannot be used when the sink is started,
    /// [`Broadcaster::start_recording_to_sink_with`](crate::Broadcaster::start_recording_to_sink_with)
    /// returns an error;
    /// [`Broadcaster::start_recording_to_sink`](crate::Broadcaster::start_recording_to_sink) keeps
    /// events in memory only, which is logged and counted, and tries the folder again every five
    /// seconds. Each event is written once, plus a mark when it is done, off the caller's thread;
    /// this is cheap enough for a few hundred thousand events a minute. Delivery is at least once:
    /// after a kill, the last few hundred writes that were not marked yet are repeated, and repeats
    /// count once more. In core/v1 these are a few hundred events; with [`SinkOptions::events_v1`],
    /// where one write stands for all repeats since the previous one, tens of thousands.
    ///
    /// A count that waits for its refresh or heartbeat also waits on disk, with all its events.
    /// When these take half of [`SpillOptions::bytes_max`] (64 MiB by default; an event takes about
    /// 600 bytes), as many counts as necessary are written before they are due, the next ones
    /// first. With a few series that repeat often, that is one write for tens of thousands of
    /// events; with very many series that rarely repeat, up to one write for each event. A larger
    /// bound makes this rarer.
    ///
    /// Events that find no room on disk are in memory only, which is logged and counted. The order
    /// is kept: such an event waits for those on disk before it, and later events wait in the
    /// queue. If the folder could not be used at first, the events of an earlier process come after
    /// those written meanwhile. Damaged or missing records are counted as
    /// [`DropCause::InvalidEvent`](crate::DropCause::InvalidEvent). A file that cannot be read for
    /// a minute is left for the next process, and its events are pending. Events read back from
    /// disk have the timestamps of the wire: whole seconds.
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

    /// How writes are queued and retried. Its back-off is client-go's `WithSleepDuration`.
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

/// An error in [`BroadcasterOptions`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBroadcasterOptions {
    /// A queue must hold at least one event.
    #[error("queue.events_max is 0: a watcher's queue must hold at least 1 event")]
    QueueEvents,
    /// A queue must hold at least one byte.
    #[error("queue.bytes_max is 0: a watcher's queue must hold at least 1 byte")]
    QueueBytes,
    /// The maximum of a text's bytes is too small.
    #[error("text_bytes_max is {given}: it must be 64 or more")]
    TextBytes {
        /// The given value.
        given: usize,
    },
    /// An option of the sink is invalid.
    #[error(transparent)]
    Sink(#[from] InvalidSinkOptions),
}

/// An error in [`SinkOptions`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSinkOptions {
    /// An option of the correlator is invalid.
    #[error(transparent)]
    Correlator(#[from] InvalidCorrelatorOptions),
    /// An option of the series is invalid.
    #[error(transparent)]
    Series(#[from] InvalidSeriesOptions),
    /// An option of the delivery is invalid.
    #[error(transparent)]
    Delivery(#[from] InvalidDeliveryOptions),
    /// Events cannot be kept on disk.
    #[error(transparent)]
    Spill(#[from] SpillError),
}
