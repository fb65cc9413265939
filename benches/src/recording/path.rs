//! The way of an event: the time that a recorder's call takes, fan-out to sixteen watchers, and
//! from recorder to a sink that does nothing.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tidings::EventType::Warning;
use tidings::advanced::{CorrelatorOptions, DeliveryOptions};
use tidings::{Broadcaster, Occurrence, Sink, SinkOptions, ToReference, WriteError};
use tokio::runtime::Runtime;

use super::sample::{DISTINCT, MESSAGE, pod, reference, source};
use crate::{Figure, Measure, time};

/// Events of a batch: far fewer than the queues' bound of 32,768.
const BATCH: u64 = 8_192;
/// Events of a batch of calls, as in the peer's benchmark: few enough that the processor's caches
/// hold them.
const CALL_BATCH: u64 = 500;

/// Counts the events that arrived. The sender waits until it has counted all.
#[derive(Clone, Default)]
struct Arrivals(Arc<AtomicU64>);

impl Arrivals {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn wait_for(&self, count: u64) {
        while self.0.load(Ordering::Acquire) < count {
            std::thread::yield_now();
        }
    }
}

/// Calls with an object, and one watcher that takes the events.
pub(super) fn record_call(name: &'static str, measure: Measure) -> Figure {
    watched(name, measure, &pod(0), 1, CALL_BATCH)
}

/// Calls with a reference to the object that was made before.
pub(super) fn record_call_with_reference(name: &'static str, measure: Measure) -> Figure {
    watched(name, measure, &reference(0), 1, CALL_BATCH)
}

/// From the recorder's call until sixteen watchers have the event.
pub(super) fn fan_out(name: &'static str, measure: Measure) -> Figure {
    watched(name, measure, &reference(0), 16, BATCH)
}

/// Calls with watchers. The wait for several is part of the time, that for one is not.
fn watched<Kind>(
    name: &'static str,
    measure: Measure,
    object: &impl ToReference<Kind>,
    watchers: u64,
    batch: u64,
) -> Figure {
    let runtime = runtime();
    let _entered = runtime.enter();
    let broadcaster = Broadcaster::new();
    let arrivals = Arrivals::default();
    for _ in 0..watchers {
        let seen = arrivals.clone();
        broadcaster.start_event_watcher(move |_| seen.note());
    }
    let recorder = broadcaster.recorder(source());
    let mut sent = 0;
    let figure = measure.run(name, batch, || {
        sent += batch * watchers;
        let call = || {
            for _ in 0..batch {
                recorder.event(object, Warning, "BackOff", MESSAGE);
            }
        };
        let elapsed = time(call);
        let waited = time(|| arrivals.wait_for(sent));
        if watchers > 1 {
            elapsed + waited
        } else {
            elapsed
        }
    });
    end(&runtime, &broadcaster);
    figure
}

/// A sink that accepts everything at once.
struct NoSink(Arrivals);

impl Sink for NoSink {
    fn create(&self, _: &Occurrence) -> impl Future<Output = Result<(), WriteError>> + Send {
        self.0.note();
        ready(Ok(()))
    }

    fn patch(&self, _: &Occurrence) -> impl Future<Output = Result<(), WriteError>> + Send {
        self.0.note();
        ready(Ok(()))
    }

    fn update(&self, _: &Occurrence) -> impl Future<Output = Result<(), WriteError>> + Send {
        ready(Ok(()))
    }
}

/// The same event repeatedly.
pub(super) fn record_to_sink_repeat(name: &'static str, measure: Measure) -> Figure {
    record_to_sink(name, measure, &[pod(0)])
}

/// Events, each about another object.
pub(super) fn record_to_sink_new(name: &'static str, measure: Measure) -> Figure {
    let pods: Vec<Pod> = (0..DISTINCT).map(pod).collect();
    record_to_sink(name, measure, &pods)
}

fn record_to_sink(name: &'static str, measure: Measure, objects: &[Pod]) -> Figure {
    let runtime = runtime();
    let _entered = runtime.enter();
    let broadcaster = Broadcaster::new();
    let arrivals = Arrivals::default();
    // As in the peer's benchmark every event reaches the sink: there is no budget, and no event is
    // combined with others. The caches have the peer's size, so an event is new again if its object
    // was last seen 16,384 events ago.
    broadcaster
        .start_recording_to_sink_with(
            NoSink(arrivals.clone()),
            SinkOptions::default()
                .correlator(
                    CorrelatorOptions::default()
                        .spam_burst(1 << 30)
                        .cache_entries_max(4096),
                )
                .delivery(DeliveryOptions::default().coalesce(false)),
        )
        .unwrap_or_else(|error| unreachable!("{error}"));
    let recorder = broadcaster.recorder(source());
    let mut endless = objects.iter().cycle();
    let mut sent = 0;
    let figure = measure.run(name, BATCH, || {
        time(|| {
            for object in endless.by_ref().take(BATCH as usize) {
                recorder.event(object, Warning, "BackOff", MESSAGE);
            }
            sent += BATCH;
            arrivals.wait_for(sent);
        })
    });
    end(&runtime, &broadcaster);
    figure
}

pub(super) fn runtime() -> Runtime {
    Runtime::new().unwrap_or_else(|error| unreachable!("{error}"))
}

fn end(runtime: &Runtime, broadcaster: &Broadcaster) {
    runtime.block_on(broadcaster.shutdown(Duration::from_secs(60)));
}
