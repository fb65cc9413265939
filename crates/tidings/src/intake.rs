//! The intake of a broadcaster: makes recorded events, passes them to the watchers' queues, and
//! counts and logs refused events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use tidings_core::{
    ClusterScopedNamespace, DropCause, Event, EventContext, EventSource, EventType, NameStamps,
    NewEvent, Reference,
};
use tokio::sync::watch;

use crate::acknowledgement::Context;
use crate::clock::{Clock, entropy};
use crate::config::BroadcasterOptions;
use crate::drops::Drops;
use crate::error::{BroadcasterStopped, RecordError, ReferenceError};
use crate::metrics::RecorderMetrics;
use crate::mux::{Mux, Published};
use crate::sampling::is_sampled;

/// The source of all event names in this process, so that no two events have the same name.
pub(crate) fn name_stamps() -> Arc<NameStamps> {
    static STAMPS: LazyLock<Arc<NameStamps>> =
        LazyLock::new(|| Arc::new(NameStamps::new(entropy())));
    Arc::clone(&STAMPS)
}

/// The fields of an event that differ between events of one recorder.
pub(crate) struct Fields<'a> {
    pub(crate) regarding: &'a Reference,
    pub(crate) related: Option<&'a Reference>,
    pub(crate) event_type: EventType,
    pub(crate) reason: &'a str,
    pub(crate) action: &'a str,
    pub(crate) message: &'a dyn fmt::Display,
    pub(crate) annotations: Option<&'a Arc<BTreeMap<String, String>>>,
    pub(crate) labels: Option<&'a Arc<BTreeMap<String, String>>>,
    pub(crate) at: Option<Timestamp>,
}

/// The part of a broadcaster that all its recorders share.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) mux: Arc<Mux>,
    clock: Clock,
    names: Arc<NameStamps>,
    cluster_scoped_namespace: ClusterScopedNamespace,
    text_bytes_max: usize,
    /// Refused calls: their events reached no queue.
    pub(crate) refused: Drops,
    /// Events that watchers missed, for the log only; each watcher has its own count.
    missed: AtomicU64,
    /// Events recorded while there was no sink.
    unwritten: AtomicU64,
    /// Whether the broadcaster was dropped without a shutdown.
    is_abandoned: AtomicBool,
    metrics: RecorderMetrics,
    pub(crate) follow_spans: bool,
    /// The number of sinks.
    pub(crate) sinks: watch::Receiver<usize>,
    /// Whether events count as delivered without being written, as in tests.
    delivers: bool,
}

impl Intake {
    pub(crate) fn new(options: &BroadcasterOptions, sinks: watch::Receiver<usize>) -> Arc<Self> {
        Arc::new(Self {
            mux: Mux::new(options.queue),
            clock: options.clock.clone(),
            names: name_stamps(),
            cluster_scoped_namespace: options.cluster_scoped_namespace.clone(),
            text_bytes_max: options.text_bytes_max,
            refused: Drops::default(),
            missed: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
            metrics: RecorderMetrics::new(),
            follow_spans: options.follow_spans,
            sinks,
            delivers: false,
        })
    }

    /// Makes an intake whose events are never written; a waiting caller gets `Delivered` at once.
    pub(crate) fn delivering(options: &BroadcasterOptions) -> Arc<Self> {
        let (_, no_sinks) = watch::channel(0);
        let mut intake = Self::new(options, no_sinks);
        if let Some(intake) = Arc::get_mut(&mut intake) {
            intake.delivers = true;
        }
        intake
    }

    /// Passes an event to all watchers. Returns the number of sinks that took it, if there are any
    /// sinks.
    ///
    /// # Errors
    /// The broadcaster is shut down; the queue in front of all watchers is full; or every sink has
    /// ended with its runtime.
    fn publish(&self, event: Event, event_type: EventType) -> Result<Option<usize>, RecordError> {
        if self.delivers
            && let Some(context) = Context::of(event.context())
        {
            context.delivered(&event);
        }
        let (missed_by, result) = match self.mux.publish(event) {
            Published::Accepted {
                missed_by,
                sinks,
                has_gone,
                is_unseen,
                is_handled,
            } => {
                self.metrics.recorded(event_type);
                if sinks.is_none() && !has_gone && !is_handled && !self.delivers {
                    self.unwritten(is_unseen);
                }
                let result = if sinks.is_none() && has_gone {
                    Err(RecordError::RuntimeGone)
                } else {
                    Ok(sinks)
                };
                (missed_by, result)
            }
            Published::Full { missed_by } => (missed_by, Err(RecordError::QueueFull)),
            Published::Stopped => {
                self.refused.add(DropCause::Stopped, 1);
                let error = if self.is_abandoned.load(Ordering::Acquire) {
                    RecordError::Dropped
                } else {
                    RecordError::Stopped(BroadcasterStopped)
                };
                (0, Err(error))
            }
        };
        if missed_by > 0 {
            self.missed(missed_by as u64);
        }
        result
    }

    /// Counts an event that nothing writes or handles, because no sink was started. Warns about the
    /// first, unless a log shows it.
    #[cold]
    fn unwritten(&self, is_unseen: bool) {
        let before = self.unwritten.fetch_add(1, Ordering::Relaxed);
        if before == 0 && is_unseen {
            tracing::warn!(
                "event recorded, but nothing writes it: call start_recording_to_sink on the broadcaster before recording events"
            );
        }
    }

    /// The number of events recorded while there was no sink or handler.
    pub(crate) fn unwritten_events(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Refuses events from now on, because the broadcaster was dropped without a shutdown.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// Counts events that watchers missed because their queues were full. Logs the first, and then
    /// ever fewer.
    #[cold]
    fn missed(&self, watchers: u64) {
        self.metrics.queue_full(watchers);
        let before = self.missed.fetch_add(watchers, Ordering::Relaxed);
        if is_sampled(before, watchers) {
            tracing::error!(
                dropped = before + watchers,
                "Unable to record event: too many queued events, dropped event"
            );
        }
    }

    /// Records an event.
    ///
    /// # Errors
    /// The broadcaster is shut down, the queues of all sinks are full, or every sink has ended with
    /// its runtime.
    pub(crate) fn record(
        &self,
        source: &EventSource,
        fields: &Fields<'_>,
    ) -> Result<(), RecordError> {
        let context = if self.follow_spans {
            Context::of_span()
        } else {
            None
        };
        match self.record_with(source, fields, context)? {
            // Other watchers may have received the event, but it will not be written.
            Some(0) => Err(RecordError::QueueFull),
            _ => Ok(()),
        }
    }

    /// Records an event with this context. Returns the number of sinks that took it, if there are
    /// any sinks.
    pub(crate) fn record_with(
        &self,
        source: &EventSource,
        fields: &Fields<'_>,
        context: Option<Arc<dyn EventContext>>,
    ) -> Result<Option<usize>, RecordError> {
        let now = self.clock.wall();
        let event = Event::past(
            &NewEvent {
                source,
                regarding: fields.regarding,
                related: fields.related,
                event_type: fields.event_type,
                reason: fields.reason,
                action: fields.action,
                message: fields.message,
                annotations: fields.annotations,
                labels: fields.labels,
                cluster_scoped_namespace: &self.cluster_scoped_namespace,
                text_bytes_max: self.text_bytes_max,
            },
            &self.names,
            now,
            fields.at.unwrap_or(now),
        );
        let event = match context {
            Some(context) => event.with_context(context),
            None => event,
        };
        self.publish(event, fields.event_type)
    }

    /// Counts and logs an event whose object cannot be converted to a reference.
    #[cold]
    pub(crate) fn refuse(
        &self,
        error: &ReferenceError,
        object: &str,
        event_type: EventType,
        reason: &str,
        message: &dyn fmt::Display,
    ) {
        self.refused.add(DropCause::InvalidReference, 1);
        tracing::error!(
            %error, object, eventType = event_type.as_str(), reason, note = %message,
            "Could not construct reference, will not report event"
        );
    }

    /// Logs an event that was recorded after shutdown.
    pub(crate) fn log(&self, result: Result<(), RecordError>) {
        // A full queue is logged where it is counted.
        if let Err(error @ (RecordError::Stopped(_) | RecordError::Dropped)) = result {
            let dropped = self.refused.counts().get(DropCause::Stopped);
            if is_sampled(dropped.saturating_sub(1), 1) {
                tracing::error!(%error, dropped, "Unable to record event (will not retry!)");
            }
        }
    }
}
