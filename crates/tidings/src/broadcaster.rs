//! The broadcaster: makes recorders, starts watchers, and shuts them down.
//!
//! ```text
//! recorders ──▶ mux ──┬─▶ handler                      Open ──shutdown──▶ Draining ──deadline──▶ Abandoned
//!                     ├─▶ log                            │ last handle dropped ▲ (nothing waits, nothing is abandoned)
//!                     └─▶ sink                           └─────────────────────┘
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tidings_core::{Event, EventSource};
use tokio::sync::watch;

use crate::acknowledgement::Context;
use crate::clock::standing;
use crate::config::{BroadcasterOptions, InvalidBroadcasterOptions, SinkOptions};
use crate::delivery::{Machines, SinkTask};
use crate::error::{BroadcasterStopped, StartSinkError};
use crate::intake::Intake;
use crate::logging::{LogLine, StructuredLog};
use crate::mux::Role;
use crate::recorder::Recorder;
use crate::registry::{Phase, Registry, TaskKind, reached};
use crate::report::FlushReport;
use crate::runtime;
use crate::sink::Sink;
use crate::watcher::{EventWatcher, Started, Watch, run_handler};

/// How long a shutdown waits for abandoned tasks to report their events.
const ABANDON_GRACE: Duration = Duration::from_millis(500);

/// Passes events from recorders to watchers: client-go's `EventBroadcaster`.
///
/// A clone is another handle of the same broadcaster. Keep one handle as long as events are
/// recorded, then call [`Broadcaster::shutdown`]. If the last handle is dropped without it, no more
/// events are accepted, a warning is logged, and queued events arrive only if the program runs long
/// enough.
///
/// # Where things run
/// Each handler and each log runs on its own thread, so it may block and delays only itself. Sinks
/// run on the tokio runtime in whose context they are started, which must have its timer enabled
/// (`#[tokio::main]` does), or else on their own thread. Recorders need no runtime: they only fill
/// queues.
///
/// A sink ends with its runtime. Its events in memory, and all events recorded later until its
/// [`Watch`] stops it, are dropped as [`RuntimeGone`](crate::DropCause::RuntimeGone). Events on
/// disk wait for the next process ([`SinkOptions::spill`]).
///
/// # Limits
/// Each watcher's queue is bounded ([`QueueOptions`](crate::advanced::QueueOptions)), and each
/// sink's pending events ([`DeliveryOptions`](crate::advanced::DeliveryOptions)) and caches
/// ([`CorrelatorOptions`](crate::advanced::CorrelatorOptions)). With the defaults a sink takes a
/// burst of 32,768 events, and never more memory than 96 MiB (queue, batch in hand and pending
/// events, 32 MiB each) and its three caches, whatever is recorded and however slow the server.
/// `KubeSink` adds 14 MiB at most for the versions of events, and answers while they are read, up
/// to 2 MiB each; a [`SinkOptions::spill`] adds what
/// [`SpillOptions::new`](crate::SpillOptions::new) says.
#[derive(Clone, Debug)]
pub struct Broadcaster {
    owner: Arc<Owner>,
}

/// Shared by all handles of one broadcaster.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    intake: Arc<Intake>,
    registry: Arc<Registry>,
    options: BroadcasterOptions,
    /// Set by the first shutdown; the channel closes when all tasks have ended.
    draining: OnceLock<watch::Receiver<()>>,
    report: OnceLock<FlushReport>,
}

impl Default for Broadcaster {
    fn default() -> Self {
        Self::new()
    }
}

impl Broadcaster {
    /// Makes a broadcaster with the default options.
    #[must_use = "when its last handle is dropped, it takes no more events"]
    pub fn new() -> Self {
        Self::unchecked(BroadcasterOptions::default())
    }

    /// Makes a broadcaster with `options`.
    ///
    /// # Errors
    /// If an option is out of range; the error names it.
    pub fn with_options(options: BroadcasterOptions) -> Result<Self, InvalidBroadcasterOptions> {
        options.validate()?;
        Ok(Self::unchecked(options))
    }

    fn unchecked(options: BroadcasterOptions) -> Self {
        let registry = Registry::new();
        Self {
            owner: Arc::new(Owner {
                shared: Arc::new(Shared {
                    intake: Intake::new(&options, registry.sinks()),
                    registry,
                    options,
                    draining: OnceLock::new(),
                    report: OnceLock::new(),
                }),
            }),
        }
    }

    /// Makes a recorder that reports as `source`. All recorders of a broadcaster feed the same
    /// watchers. A recorder may outlive the broadcaster but does not keep it alive: events recorded
    /// after the last handle of the broadcaster is dropped are dropped, too, and counted.
    ///
    /// ```
    /// # use tidings::{Broadcaster, EventSource};
    /// # let broadcaster = Broadcaster::new();
    /// let recorder = broadcaster.recorder("example-controller");
    /// let on_node = broadcaster.recorder(EventSource::component("example-agent").host("node-1"));
    /// ```
    pub fn recorder(&self, source: impl Into<EventSource>) -> Recorder {
        Recorder::new(Arc::clone(&self.shared().intake), source.into())
    }

    /// Calls `handler` for every event recorded from now on, one at a time, in order. client-go's
    /// `StartEventWatcher`.
    ///
    /// The handler runs on its own thread and may block: no other watcher and no shutdown waits for
    /// it. Events beyond its queue are missed, and counted. With
    /// [`WhenFull::Wait`](crate::advanced::WhenFull::Wait) no watcher misses events, so that every
    /// other watcher waits for a handler whose queue is full. It may spawn tasks on the tokio
    /// runtime in whose context it is started; [`Broadcaster::watch`] is for asynchronous handlers.
    /// A handler that panics ends its own watcher, which is logged and counted.
    ///
    /// ```
    /// # use tidings::{Broadcaster, EventSource};
    /// # let broadcaster = Broadcaster::new();
    /// let watch = broadcaster.start_event_watcher(|event| println!("{}: {}", event.reason(), event.message()));
    /// // …
    /// watch.stop();
    /// ```
    pub fn start_event_watcher(&self, handler: impl FnMut(&Event) + Send + 'static) -> Watch {
        self.start_handler(Role::Handler, handler)
    }

    fn start_handler(&self, role: Role, handler: impl FnMut(&Event) + Send + 'static) -> Watch {
        let shared = self.shared();
        let started = match shared.start(role, None) {
            Ok(started) => started,
            Err(error) => {
                tracing::error!(%error, "Unable start event watcher (will not retry!)");
                return Watch::never();
            }
        };
        let watch = started.watch(&shared.intake.mux);
        let phase = shared.registry.phase();
        let run = move |scope| run_handler(started, &phase, &scope, handler);
        if let Err(error) = runtime::spawn_thread("tidings-handler", run) {
            log_spawn_failure("tidings-handler", &error);
        }
        watch
    }

    /// Calls `log` with every event as a line of text, in client-go's form. client-go's
    /// `StartLogging`.
    ///
    /// ```
    /// # use tidings::Broadcaster;
    /// # let broadcaster = Broadcaster::new();
    /// broadcaster.start_logging(|line| eprintln!("{line}"));
    /// // Event(v1.ObjectReference{Kind:"Pod", …}): type: 'Normal' reason: 'Started' some message
    /// ```
    pub fn start_logging(&self, mut log: impl FnMut(fmt::Arguments<'_>) + Send + 'static) -> Watch {
        self.start_event_watcher(move |event| log(format_args!("{}", LogLine(event))))
    }

    /// Logs every event through `tracing`: warnings as `WARN`, others as `INFO`. client-go's
    /// `StartStructuredLogging`.
    ///
    /// Repeats are quiet: an event that differs from an earlier one only in time, annotations or
    /// labels is logged as `DEBUG` for ten minutes, and then once more at its level, with its
    /// `count`. Lines have the
    /// target `tidings::events`, by which a subscriber can filter them.
    ///
    /// The message of the line is `Event occurred`. Its fields are `object`, `fieldPath`, `kind`,
    /// `apiVersion`, `type`, `reason`, `action` and `related` where the event has them, and `note`.
    /// The last is client-go's `message`, under the name it has in events.k8s.io/v1, because
    /// `tracing` uses `message` for the line itself.
    pub fn start_structured_logging(&self) -> Watch {
        let shared = self.shared();
        let mut log = StructuredLog::new(shared.options.clock.clone());
        let intake = Arc::clone(&shared.intake);
        let mut has_warned = false;
        self.start_handler(Role::Log, move |event| {
            let context = Context::of(event.context());
            let _entered = context.map(|context| context.span.enter());
            log.write(event);
            // A log alone looks as if events were being written.
            if !has_warned && intake.unwritten_events() > 0 {
                has_warned = true;
                tracing::warn!(
                    "events are logged, but no sink writes them: call start_recording_to_sink on the broadcaster before recording events"
                );
            }
        })
    }

    /// Writes every event recorded from now on to `sink`: correlated, in order for each key, and
    /// retried if that may help. client-go's `StartRecordingToSink`.
    ///
    /// Each sink counts, combines and filters separately. If the folder of a [`SinkOptions::spill`]
    /// cannot be used, recording starts without it, which is logged, and the folder is tried again
    /// every five seconds; [`Broadcaster::start_recording_to_sink_with`] returns an error instead.
    pub fn start_recording_to_sink(&self, sink: impl Sink) -> Watch {
        let options = self.shared().options.sink.clone();
        let machines = SinkTask::machines(options).map_err(StartSinkError::from);
        match machines.and_then(|machines| self.start_sink(machines, sink)) {
            Ok(watch) => watch,
            // The options were checked when the broadcaster was made.
            Err(error) => {
                tracing::error!(%error, "Unable to start recording to sink (will not retry!)");
                Watch::never()
            }
        }
    }

    /// Writes every event recorded from now on to `sink`, with the sink's own options.
    ///
    /// # Errors
    /// If an option is out of range, the folder of a [`SinkOptions::spill`] cannot be used, or the
    /// broadcaster is shut down.
    pub fn start_recording_to_sink_with(
        &self,
        sink: impl Sink,
        options: SinkOptions,
    ) -> Result<Watch, StartSinkError> {
        let mut machines = SinkTask::machines(options)?;
        if *self.shared().registry.phase().borrow() > Phase::Open {
            return Err(BroadcasterStopped.into());
        }
        // The last check, because it locks the folder.
        machines.open_spill()?;
        self.start_sink(machines, sink)
    }

    fn start_sink(&self, machines: Machines, sink: impl Sink) -> Result<Watch, StartSinkError> {
        let shared = self.shared();
        let started = shared.start(Role::Sink, Some(machines.name()))?;
        let watch = started.watch(&shared.intake.mux);
        let clock = shared.options.clock.clone();
        let when_full = shared.options.queue.when_full;
        let phase = shared.registry.phase();
        let task = SinkTask::new(machines, started, when_full, clock, phase);
        spawn("tidings-sink", task.run(sink));
        Ok(watch)
    }

    /// Makes a watcher whose queue the caller reads. client-go's `Watch`.
    ///
    /// # Errors
    /// The broadcaster is shut down.
    pub fn watch(&self) -> Result<EventWatcher, BroadcasterStopped> {
        self.watch_with_prefix(Vec::new())
    }

    /// Makes a watcher that gets `prefix` before everything else. client-go's `WatchWithPrefix`.
    ///
    /// # Errors
    /// The broadcaster is shut down.
    pub fn watch_with_prefix(
        &self,
        prefix: Vec<Event>,
    ) -> Result<EventWatcher, BroadcasterStopped> {
        let mux = &self.shared().intake.mux;
        Ok(EventWatcher::new(Arc::clone(mux), mux.watch(prefix)?))
    }

    /// The outcomes of all events so far.
    pub fn report(&self) -> FlushReport {
        self.shared().report_now()
    }

    /// Accepts no more events, lets handlers and sinks finish those recorded before, and reports
    /// their outcome.
    ///
    /// After `deadline`, the remaining events are abandoned and reported as pending: retries end,
    /// and requests in flight are cancelled. Events recorded after the call are dropped and counted
    /// as stopped.
    ///
    /// Further calls, also concurrent ones, return the same report; the deadline is that of the
    /// first call. If the future is dropped, the shutdown continues without it.
    pub async fn shutdown(&self, deadline: Duration) -> FlushReport {
        let shared = self.shared();
        let mut draining = Shared::draining(shared, deadline);
        // Nothing is ever sent; the channel closes.
        let _ = draining.changed().await;
        shared.final_report()
    }

    /// Shuts down with this deadline once `signal` resolves. client-go's `WithContext`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # let broadcaster = tidings::Broadcaster::new();
    /// # let (_cancel, cancelled) = tokio::sync::oneshot::channel::<()>();
    /// broadcaster.shutdown_on(async { let _ = cancelled.await; }, Duration::from_secs(5));
    /// ```
    pub fn shutdown_on(
        &self,
        signal: impl Future<Output = ()> + Send + 'static,
        deadline: Duration,
    ) {
        let owner: Weak<Owner> = Arc::downgrade(&self.owner);
        let mut phase = self.shared().registry.phase();
        spawn("tidings-shutdown", async move {
            tokio::select! {
                () = reached(&mut phase, Phase::Draining) => {}
                () = signal => if let Some(owner) = owner.upgrade() {
                    Broadcaster { owner }.shutdown(deadline).await;
                }
            }
        });
    }

    /// Stops accepting events; accepted ones are still delivered.
    #[cfg(feature = "kube")]
    pub(crate) fn stop_intake(&self) {
        self.shared().stop_intake();
    }

    /// Whether all handlers and sinks have ended.
    #[cfg(feature = "kube")]
    pub(crate) fn is_ended(&self) -> bool {
        self.shared().registry.running() == 0
    }

    /// Makes handlers and sinks give up their pending events.
    #[cfg(feature = "kube")]
    pub(crate) fn abandon(&self) {
        self.shared().registry.enter(Phase::Abandoned);
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }
}

impl Shared {
    /// Registers a watcher, and begins to count its events; `sink` is the name of a sink.
    fn start(&self, role: Role, sink: Option<&Arc<str>>) -> Result<Started, BroadcasterStopped> {
        let kind = match role {
            Role::Sink => TaskKind::Sink,
            Role::Log | Role::Handler => TaskKind::Handler,
        };
        let place = self.registry.reserve(kind);
        let receiver = self.intake.mux.watch_by_task(role)?;
        let counts = Arc::clone(receiver.counts());
        let (progress, ending) = self.registry.open(place, sink, counts);
        Ok(Started {
            receiver,
            progress,
            ending,
        })
    }

    /// Begins the shutdown, unless it has begun. The returned channel closes when all tasks have
    /// ended, or when the runtime has ended and every task with it.
    fn draining(this: &Arc<Self>, deadline: Duration) -> watch::Receiver<()> {
        let begin = || {
            this.stop_intake();
            let (done, drained) = watch::channel(());
            let shared = Arc::clone(this);
            // A separate task, because the caller may run on any executor, and may drop the future.
            spawn("tidings-shutdown", async move {
                shared.drain(deadline).await;
                shared.final_report();
                drop(done);
            });
            drained
        };
        this.draining.get_or_init(begin).clone()
    }

    async fn drain(&self, deadline: Duration) {
        let clock = &self.options.clock;
        let until = clock.monotonic().saturating_add(deadline);
        tokio::select! {
            biased;
            () = self.all_ended(deadline) => return,
            () = clock.sleep_until(until) => {}
        }
        self.registry.enter(Phase::Abandoned);
        if tokio::time::timeout(ABANDON_GRACE, self.all_ended(ABANDON_GRACE))
            .await
            .is_err()
        {
            tracing::warn!(
                tasks = self.registry.running(),
                "event handlers or sinks are still busy at the deadline of shutdown; continuing without them"
            );
        }
    }

    /// Waits until all tasks have ended. tokio's paused time waits for handlers, which have their
    /// own threads, for at most `longest`.
    async fn all_ended(&self, longest: Duration) {
        standing(longest, self.registry.handlers_ended()).await;
        self.registry.all_ended().await;
    }

    fn stop_intake(&self) {
        self.intake.mux.shutdown();
        self.registry.enter(Phase::Draining);
    }

    /// The final report, which every caller gets.
    fn final_report(&self) -> FlushReport {
        self.report.get_or_init(|| self.report_now()).clone()
    }

    fn report_now(&self) -> FlushReport {
        let (mut sinks, mut handlers) = self.registry.counts();
        let [to_sinks, to_handlers] = self.intake.mux.lost_to_gone();
        sinks.refused(&to_sinks);
        handlers.refused(&to_handlers);
        sinks.refused(&self.intake.refused.counts());
        FlushReport {
            unwritten: self.intake.unwritten_events(),
            last_error: self.registry.last_error(),
            ..FlushReport::new(sinks, handlers)
        }
    }
}

/// Runs `task` in the background. A task that cannot be run is dropped: its handle has ended, and
/// its events count as dropped.
fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    if let Err(error) = runtime::spawn(name, task) {
        log_spawn_failure(name, &error);
    }
}

fn log_spawn_failure(name: &str, error: &std::io::Error) {
    tracing::error!(%error, task = name, "Unable to start a thread (will not retry!)");
}

impl Drop for Owner {
    fn drop(&mut self) {
        let shared = &self.shared;
        if *shared.registry.phase().borrow() > Phase::Open {
            return;
        }
        shared.intake.abandon();
        shared.stop_intake();
        let report = shared.report_now();
        if shared.registry.running() > 0 || report.offered + report.unwritten > 0 {
            tracing::warn!(
                pending = report.pending,
                unhandled = report.handlers.pending,
                "event broadcaster dropped without shutdown: later events are not recorded, and pending ones are lost if the program ends now; keep a handle, and end with shutdown"
            );
        }
    }
}
