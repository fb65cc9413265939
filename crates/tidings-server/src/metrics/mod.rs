//! `/metrics`: kube-apiserver's names and labels where it has them, in Prometheus' text form.
//!
//! Everything is counted where it happens and put into words only when somebody asks; the page is put together by its
//! handler, which knows the rest of what it tells. Labels are words of the program's own (see [`series`]), so the number of
//! series is bounded whatever clients send. A metric that begins with `tidings_` has no counterpart upstream.

mod connections;
mod flow;
mod policy;
mod process;
mod series;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::http::request::RequestLabels;
pub(crate) use connections::{ConnectionMetrics, Ending};
pub(crate) use flow::{FlowMetrics, LevelNow, Rejection};
pub(crate) use policy::{Attempt, Judge, Operation, Permission, PolicyMetrics};
pub(crate) use process::write as write_process;
pub(crate) use series::Text;
use series::{Counters, Histograms};
use tidings_api::codec::Api;

/// The code of a request whose client went away before it was answered.
pub(crate) const CLIENT_GONE: u16 = 0;

/// Buckets of `apiserver_request_duration_seconds`.
const DURATIONS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
/// Buckets of `apiserver_request_sli_duration_seconds` and of everything else that takes long.
const LONG_DURATIONS: &[f64] = &[
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0,
    30.0, 45.0, 60.0,
];
const RESPONSE_SIZES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const BODY_SIZES: &[f64] = &[
    50_000.0,
    150_000.0,
    250_000.0,
    350_000.0,
    450_000.0,
    1_000_000.0,
    3_145_728.0,
];
const WATCH_EVENT_SIZES: &[f64] = &[
    1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0,
];

/// The labels every request metric has.
const REQUEST: [&str; 7] = [
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];

/// Everything this server counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Counters<9>,
    durations: Histograms<8>,
    sli_durations: Histograms<7>,
    response_sizes: Histograms<7>,
    body_sizes: Histograms<2>,
    terminations: Counters<8>,
    aborts: Counters<6>,
    long_running: Mutex<BTreeMap<[&'static str; 7], AtomicI64>>,
    watch_events: Counters<3>,
    watch_event_sizes: Histograms<3>,
    watch_lists: Histograms<4>,
    lists: Counters<2>,
    listed_fetched: Counters<2>,
    listed_returned: Counters<2>,
    pub(crate) connections: ConnectionMetrics,
    pub(crate) flow: FlowMetrics,
    pub(crate) policy: PolicyMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        const GROUP: [&str; 3] = ["group", "version", "resource"];
        const STORED: [&str; 2] = ["group", "resource"];
        let [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ] = REQUEST;
        Self {
            requests: Counters::new([
                verb,
                "dry_run",
                group,
                version,
                resource,
                subresource,
                scope,
                component,
                "code",
            ]),
            durations: Histograms::new(
                [
                    verb,
                    "dry_run",
                    group,
                    version,
                    resource,
                    subresource,
                    scope,
                    component,
                ],
                DURATIONS,
            ),
            sli_durations: Histograms::new(REQUEST, LONG_DURATIONS),
            response_sizes: Histograms::of_bytes(REQUEST, RESPONSE_SIZES),
            body_sizes: Histograms::of_bytes([resource, verb], BODY_SIZES),
            terminations: Counters::new([
                verb,
                group,
                version,
                resource,
                subresource,
                scope,
                component,
                "code",
            ]),
            aborts: Counters::new([verb, group, version, resource, subresource, scope]),
            long_running: Mutex::default(),
            watch_events: Counters::new(GROUP),
            watch_event_sizes: Histograms::of_bytes(GROUP, WATCH_EVENT_SIZES),
            watch_lists: Histograms::new([group, version, resource, scope], LONG_DURATIONS),
            lists: Counters::new(STORED),
            listed_fetched: Counters::new(STORED),
            listed_returned: Counters::new(STORED),
            connections: ConnectionMetrics::default(),
            flow: FlowMetrics::default(),
            policy: PolicyMetrics::default(),
        }
    }
}

const STORED_EVENTS: [&str; 2] = ["", "events"];

impl Metrics {
    /// A request was answered to the end, or given up.
    pub(crate) fn request(
        &self,
        labels: RequestLabels,
        dry_run: &'static str,
        code: u16,
        took: Duration,
        bytes: u64,
    ) {
        let labels = labels.all();
        let [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ] = labels;
        let with_dry_run = [
            verb,
            dry_run,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ];
        let code = code_label(code);
        let all = [
            verb,
            dry_run,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
            code,
        ];
        self.requests.of(all).add(1);
        self.durations.of(with_dry_run).observe_duration(took);
        self.sli_durations.of(labels).observe_duration(took);
        if matches!(verb, "GET" | "LIST") {
            self.response_sizes.of(labels).observe_bytes(bytes);
        }
    }

    /// A request has a body of this length.
    pub(crate) fn request_body(&self, labels: RequestLabels, len: u64) {
        self.body_sizes
            .of([labels.resource, labels.verb])
            .observe_bytes(len);
    }

    /// So many more watches are served.
    pub(crate) fn long_running(&self, labels: RequestLabels, by: i64) {
        let mut gauges = self
            .long_running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        gauges
            .entry(labels.all())
            .or_default()
            .fetch_add(by, Ordering::Relaxed);
    }

    /// A request was turned away in self-defence.
    pub(crate) fn terminated(&self, labels: RequestLabels, code: u16) {
        let [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ] = labels.all();
        let labels = [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
            code_label(code),
        ];
        self.terminations.of(labels).add(1);
    }

    /// A request was given up, or its answer cut off, because its time was over.
    pub(crate) fn aborted(&self, labels: RequestLabels) {
        let [verb, group, version, resource, subresource, scope, _] = labels.all();
        self.aborts
            .of([verb, group, version, resource, subresource, scope])
            .add(1);
    }

    /// A watcher was sent events of these lengths.
    pub(crate) fn watched(&self, api: Api, lens: impl Iterator<Item = usize>) {
        let labels = [api.group(), "v1", "events"];
        let sizes = self.watch_event_sizes.of(labels);
        let mut count = 0;
        for len in lens {
            sizes.observe_bytes(len as u64);
            count += 1;
        }
        self.watch_events.of(labels).add(count);
    }

    /// A watch has sent what was there before it.
    pub(crate) fn watch_list(&self, api: Api, scope: &'static str, took: Duration) {
        let labels = [api.group(), "v1", "events", scope];
        self.watch_lists.of(labels).observe_duration(took);
    }

    /// The store was asked for a page of a list.
    pub(crate) fn listed(&self, fetched: usize, returned: usize) {
        self.lists.of(STORED_EVENTS).add(1);
        self.listed_fetched.of(STORED_EVENTS).add(fetched as u64);
        self.listed_returned.of(STORED_EVENTS).add(returned as u64);
    }

    /// Requests and their answers.
    pub(crate) fn write_requests(&self, text: &mut Text) {
        text.counters(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, scope and code.",
            &self.requests,
        );
        text.histograms(
            "apiserver_request_duration_seconds",
            "Time until the last byte of the answer.",
            &self.durations,
        );
        text.histograms(
            "apiserver_request_sli_duration_seconds",
            "The same, for service level indicators.",
            &self.sli_durations,
        );
        text.histograms(
            "apiserver_response_sizes",
            "Bytes of the answers to reading requests.",
            &self.response_sizes,
        );
        text.histograms(
            "apiserver_request_body_size_bytes",
            "Bytes of requests' bodies.",
            &self.body_sizes,
        );
    }

    /// Watches, requests that were cut off, and what was read of the store.
    pub(crate) fn write_answers(&self, text: &mut Text) {
        self.write_long_running(text);
        text.counters(
            "apiserver_request_terminations_total",
            "Requests turned away in self-defence.",
            &self.terminations,
        );
        text.counters(
            "apiserver_request_aborts_total",
            "Requests given up because their time was over.",
            &self.aborts,
        );
        text.counters(
            "apiserver_watch_events_total",
            "Events sent to watchers.",
            &self.watch_events,
        );
        text.histograms(
            "apiserver_watch_events_sizes",
            "Bytes of events sent to watchers.",
            &self.watch_event_sizes,
        );
        text.histograms(
            "apiserver_watch_list_duration_seconds",
            "Time until a watch has sent what was there before it.",
            &self.watch_lists,
        );
        text.counters(
            "apiserver_storage_list_total",
            "Pages of lists read from the store.",
            &self.lists,
        );
        text.counters(
            "apiserver_storage_list_fetched_objects_total",
            "Events read from the store for lists.",
            &self.listed_fetched,
        );
        text.counters(
            "apiserver_storage_list_returned_objects_total",
            "Events returned by lists.",
            &self.listed_returned,
        );
    }

    fn write_long_running(&self, text: &mut Text) {
        const LONG_RUNNING: &str = "apiserver_longrunning_requests";
        text.metric(LONG_RUNNING, "gauge", "Watches being served.");
        let gauges = self
            .long_running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (labels, gauge) in gauges.iter() {
            let pairs: Vec<_> = REQUEST.into_iter().zip(*labels).collect();
            text.sample(LONG_RUNNING, &pairs, gauge.load(Ordering::Relaxed));
        }
    }
}

/// The codes this server answers with.
fn code_label(code: u16) -> &'static str {
    const CODES: [(u16, &str); 22] = [
        (CLIENT_GONE, "0"),
        (200, "200"),
        (201, "201"),
        (202, "202"),
        (204, "204"),
        (304, "304"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (406, "406"),
        (409, "409"),
        (410, "410"),
        (413, "413"),
        (415, "415"),
        (422, "422"),
        (429, "429"),
        (500, "500"),
        (503, "503"),
        (504, "504"),
        (507, "507"),
    ];
    CODES
        .into_iter()
        .find_map(|(known, label)| (known == code).then_some(label))
        .unwrap_or("other")
}
