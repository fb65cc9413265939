//! `/metrics`: kube-apiserver's names and labels where it has them, in Prometheus' text form.
//!
//! Everything is counted where it happens and turned into text only when the page is requested; the
//! page is assembled by its handler, which knows the other figures on it. Labels are words of the
//! program's own (see [`series`]), so the number of series is bounded whatever clients send. A
//! metric that begins with `tidings_` has no counterpart upstream.

mod process;
mod series;

use std::time::Duration;

use crate::http::request::RequestLabels;
pub(crate) use process::write as write_process;
pub(crate) use series::{Counter, Counters, Histograms, Label, Text};
use series::{Family, Gauge, Labels};
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

/// The labels of a request; a metric does not have those that are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestSeries {
    request: RequestLabels,
    dry_run: Option<&'static str>,
    component: Option<&'static str>,
    code: Option<&'static str>,
}

impl From<RequestLabels> for RequestSeries {
    fn from(request: RequestLabels) -> Self {
        Self {
            request,
            dry_run: None,
            component: Some("apiserver"),
            code: None,
        }
    }
}

impl Labels for RequestSeries {
    fn pairs(&self) -> Vec<Label> {
        let request = &self.request;
        let all = [
            ("verb", Some(request.verb)),
            ("dry_run", self.dry_run),
            ("group", Some(request.group)),
            ("version", Some(request.version)),
            ("resource", Some(request.resource)),
            ("subresource", Some(request.subresource)),
            ("scope", Some(request.scope)),
            ("component", self.component),
            ("code", self.code),
        ];
        let given = |(name, value): (_, Option<_>)| Some((name, value?));
        all.into_iter().filter_map(given).collect()
    }
}

/// Requests and their answers, counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Counters<RequestSeries>,
    durations: Histograms<RequestSeries>,
    sli_durations: Histograms<RequestSeries>,
    response_sizes: Histograms<RequestSeries>,
    body_sizes: Histograms<[Label; 2]>,
    terminations: Counters<RequestSeries>,
    aborts: Counters<RequestSeries>,
    long_running: Family<RequestSeries, Gauge>,
    watch_events: Counters<[Label; 3]>,
    watch_event_sizes: Histograms<[Label; 3]>,
    watch_lists: Histograms<[Label; 4]>,
    lists: Counters<[Label; 2]>,
    listed_fetched: Counters<[Label; 2]>,
    listed_returned: Counters<[Label; 2]>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Counters::default(),
            durations: Histograms::of_durations(DURATIONS),
            sli_durations: Histograms::of_durations(LONG_DURATIONS),
            response_sizes: Histograms::of_bytes(RESPONSE_SIZES),
            body_sizes: Histograms::of_bytes(BODY_SIZES),
            terminations: Counters::default(),
            aborts: Counters::default(),
            long_running: Family::default(),
            watch_events: Counters::default(),
            watch_event_sizes: Histograms::of_bytes(WATCH_EVENT_SIZES),
            watch_lists: Histograms::of_durations(LONG_DURATIONS),
            lists: Counters::default(),
            listed_fetched: Counters::default(),
            listed_returned: Counters::default(),
        }
    }
}

const STORED_EVENTS: [Label; 2] = [("group", ""), ("resource", "events")];

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
        let plain = RequestSeries::from(labels);
        let with_dry_run = RequestSeries {
            dry_run: Some(dry_run),
            ..plain
        };
        let all = RequestSeries {
            code: Some(code_label(code)),
            ..with_dry_run
        };
        self.requests.of(all).add(1);
        self.durations.of(with_dry_run).observe_duration(took);
        self.sli_durations.of(plain).observe_duration(took);
        if matches!(labels.verb, "GET" | "LIST") {
            self.response_sizes.of(plain).observe_bytes(bytes);
        }
    }

    /// A request has a body of this length.
    pub(crate) fn request_body(&self, labels: RequestLabels, len: u64) {
        let labels = [("resource", labels.resource), ("verb", labels.verb)];
        self.body_sizes.of(labels).observe_bytes(len);
    }

    /// The number of watches being served changes by `by`.
    pub(crate) fn long_running(&self, labels: RequestLabels, by: i64) {
        self.long_running.of(labels.into()).add(by);
    }

    /// A request was refused in self-defence.
    pub(crate) fn terminated(&self, labels: RequestLabels, code: u16) {
        let labels = RequestSeries {
            code: Some(code_label(code)),
            ..labels.into()
        };
        self.terminations.of(labels).add(1);
    }

    /// A request was given up, or its answer cut off, because its time was over.
    pub(crate) fn aborted(&self, labels: RequestLabels) {
        let labels = RequestSeries {
            component: None,
            ..labels.into()
        };
        self.aborts.of(labels).add(1);
    }

    /// A watcher was sent events of these lengths.
    pub(crate) fn watched(&self, api: Api, lens: impl Iterator<Item = usize>) {
        let labels = events(api);
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
        let [group, version, resource] = events(api);
        let labels = [group, version, resource, ("scope", scope)];
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
        text.family(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, scope and code.",
            &self.requests,
        );
        text.family(
            "apiserver_request_duration_seconds",
            "Time until the last byte of the answer.",
            &self.durations,
        );
        text.family(
            "apiserver_request_sli_duration_seconds",
            "The same, for service level indicators.",
            &self.sli_durations,
        );
        text.family(
            "apiserver_response_sizes",
            "Bytes of the answers to reading requests.",
            &self.response_sizes,
        );
        text.family(
            "apiserver_request_body_size_bytes",
            "Bytes of requests' bodies.",
            &self.body_sizes,
        );
    }

    /// Watches, requests that were cut off, and what was read of the store.
    pub(crate) fn write_answers(&self, text: &mut Text) {
        text.family(
            "apiserver_longrunning_requests",
            "Watches being served.",
            &self.long_running,
        );
        text.family(
            "apiserver_request_terminations_total",
            "Requests turned away in self-defence.",
            &self.terminations,
        );
        text.family(
            "apiserver_request_aborts_total",
            "Requests given up because their time was over.",
            &self.aborts,
        );
        text.family(
            "apiserver_watch_events_total",
            "Events sent to watchers.",
            &self.watch_events,
        );
        text.family(
            "apiserver_watch_events_sizes",
            "Bytes of events sent to watchers.",
            &self.watch_event_sizes,
        );
        text.family(
            "apiserver_watch_list_duration_seconds",
            "Time until a watch has sent what was there before it.",
            &self.watch_lists,
        );
        text.family(
            "apiserver_storage_list_total",
            "Pages of lists read from the store.",
            &self.lists,
        );
        text.family(
            "apiserver_storage_list_fetched_objects_total",
            "Events read from the store for lists.",
            &self.listed_fetched,
        );
        text.family(
            "apiserver_storage_list_returned_objects_total",
            "Events returned by lists.",
            &self.listed_returned,
        );
    }
}

fn events(api: Api) -> [Label; 3] {
    let group = ("group", api.group());
    [group, ("version", "v1"), ("resource", "events")]
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
