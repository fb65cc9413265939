//! Metrics of requests that wait for a place in flight.
//!
//! They have the names of kube-apiserver's priority and fairness. A priority level here is a level
//! with places of its own; all of its requests have one flow schema.

use std::time::Duration;

use crate::metrics::{Counters, Histograms, Label, Text};

/// Buckets of `apiserver_flowcontrol_request_wait_duration_seconds`, in seconds.
const WAITS: &[f64] = &[
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];
/// The label with kube-apiserver's name of the schema that matches every request.
const SCHEMA: Label = ("flow_schema", "catch-all");

/// The reason why a request got no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The request does not wait, because there is no queue or the peer has its share already.
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
    /// The client is gone.
    Cancelled,
}

impl Rejection {
    fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
            Self::Cancelled => "cancelled",
        }
    }
}

fn priority(level: &'static str) -> Label {
    ("priority_level", level)
}

#[derive(Debug)]
pub(crate) struct FlowMetrics {
    dispatched: Counters<[Label; 2]>,
    rejected: Counters<[Label; 3]>,
    waits: Histograms<[Label; 3]>,
}

impl Default for FlowMetrics {
    fn default() -> Self {
        Self {
            dispatched: Counters::new(
                "apiserver_flowcontrol_dispatched_requests_total",
                "Requests that got a place.",
            ),
            rejected: Counters::new(
                "apiserver_flowcontrol_rejected_requests_total",
                "Requests that got no place, by reason.",
            ),
            waits: Histograms::of_durations(
                "apiserver_flowcontrol_request_wait_duration_seconds",
                "Time that requests waited for a place.",
                WAITS,
            ),
        }
    }
}

/// The current state of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelNow {
    pub(crate) name: &'static str,
    /// Number of requests being served.
    pub(crate) taken: usize,
    /// Number of waiting requests.
    pub(crate) waiting: usize,
    /// Maximum concurrent requests; `None` means no limit.
    pub(crate) limit: Option<usize>,
}

impl FlowMetrics {
    /// Counts a request that got its place.
    pub(crate) fn dispatched(&self, level: &'static str) {
        self.dispatched.of([priority(level), SCHEMA]).add(1);
    }

    /// Counts a request that got no place.
    pub(crate) fn rejected(&self, level: &'static str, why: Rejection) {
        let labels = [priority(level), SCHEMA, ("reason", why.name())];
        self.rejected.of(labels).add(1);
    }

    /// Counts the wait of a request, whether or not it got a place.
    pub(crate) fn waited(&self, level: &'static str, executed: bool, waited: Duration) {
        let executed = if executed { "true" } else { "false" };
        let labels = [priority(level), SCHEMA, ("execute", executed)];
        self.waits.of(labels).observe_duration(waited);
    }

    pub(crate) fn write(&self, levels: &[LevelNow], text: &mut Text) {
        const TAKEN: &str =
            "Requests being served, except watches that have sent the existing events.";
        const WAITING: &str = "Requests that wait for a place.";
        type Gauge = fn(&LevelNow) -> usize;
        type Labels = fn(&LevelNow) -> Vec<(&'static str, &'static str)>;
        let taken: Gauge = |level| level.taken;
        let waiting: Gauge = |level| level.waiting;
        let kind: Labels = |level| vec![("request_kind", level.name)];
        let flow: Labels = |level| vec![priority(level.name), SCHEMA];
        #[rustfmt::skip]
        let gauges: [(&str, &str, Labels, Gauge); 4] = [
            ("apiserver_current_inflight_requests", TAKEN, kind, taken),
            ("apiserver_current_inqueue_requests", WAITING, kind, waiting),
            ("apiserver_flowcontrol_current_executing_requests", TAKEN, flow, taken),
            ("apiserver_flowcontrol_current_inqueue_requests", WAITING, flow, waiting),
        ];
        for (name, help, labels, gauge) in gauges {
            text.metric(name, "gauge", help);
            for level in levels {
                text.sample(name, &labels(level), gauge(level));
            }
        }
        let name = "apiserver_flowcontrol_nominal_limit_seats";
        text.metric(
            name,
            "gauge",
            "Maximum concurrent requests; missing without a limit.",
        );
        for level in levels {
            if let Some(limit) = level.limit {
                text.sample(name, &[priority(level.name)], limit);
            }
        }
        text.family(&self.dispatched);
        text.family(&self.rejected);
        text.family(&self.waits);
    }
}
